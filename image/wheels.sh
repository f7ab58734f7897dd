#!/bin/sh
# Builds the wheels of the core and every plugin into the folder $1. Run in the project's folder; UV names uv where it is not on PATH.
set -eu
for folder in core plugins/*/; do
    if [ -f "$folder/pyproject.toml" ]; then "${UV:-uv}" build --wheel --quiet --out-dir "$1" "$folder"; fi
done
