#!/bin/sh
# Installs our wheels from the folder $1 over what dependencies.sh has made, and keeps the list of parts (SBOM) beside them.
set -eu
uv pip install --quiet --compile-bytecode --no-deps --no-index --python /opt/kuberay/bin/python "$1"/*.whl
install -m 644 "$1/sbom.cdx.json" /opt/kuberay/sbom.cdx.json
# What uv keeps for itself.
rm -f /opt/kuberay/.lock /opt/kuberay/.gitignore /opt/kuberay/CACHEDIR.TAG
