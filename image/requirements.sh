#!/bin/sh
# Prints what the operator's image needs beside our own packages, with exact versions and hashes: the part of uv.lock that the
# core and every plugin stand on. FORMAT=cyclonedx1.5 prints the same, and our own, as a list of parts, which sbom.py completes. Run
# in the project's folder; UV names uv where it is not on PATH.
set -eu
packages=""
for folder in core plugins/*/; do
    packages="$packages --package $(sed -n 's/^name = "\(.*\)"$/\1/p' "$folder/pyproject.toml" | head -n 1)"
done
case "${FORMAT:=requirements.txt}" in requirements.txt) packages="$packages --no-emit-workspace" ;; esac
# shellcheck disable=SC2086 # words
exec "${UV:-uv}" export --quiet --frozen --no-dev --no-header --preview-features sbom-export --format "$FORMAT" $packages
