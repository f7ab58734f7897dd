#!/bin/sh
# Installs our wheels from the folder $1 over what dependencies.sh has made, and keeps the list of parts (SBOM) beside them,
# made of what uv lists (sbom.cdx.json in $1) and what is installed now.
set -eu
uv pip install --quiet --compile-bytecode --no-deps --no-index --python /opt/kuberay/bin/python "$1"/*.whl
/opt/kuberay/bin/python -B "$(dirname "$0")/sbom.py" < "$1/sbom.cdx.json" > /opt/kuberay/sbom.cdx.json
# What uv keeps for itself.
rm -f /opt/kuberay/.lock /opt/kuberay/.gitignore /opt/kuberay/CACHEDIR.TAG
