#!/bin/sh
# Prints what the operator's image needs beside our own packages, with exact versions and hashes: the part of uv.lock that the
# core and every plugin stand on. FORMAT=cyclonedx1.5 prints the same as a list of parts (SBOM). Run in the project's folder;
# UV names uv where it is not on PATH.
set -eu
packages=""
for folder in core plugins/*/; do
    packages="$packages --package $(sed -n 's/^name = "\(.*\)"$/\1/p' "$folder/pyproject.toml" | head -n 1)"
done
# shellcheck disable=SC2086 # words
exec "${UV:-uv}" export --quiet --frozen --no-dev --no-emit-workspace --no-header --preview-features sbom-export \
    --format "${FORMAT:-requirements.txt}" $packages
