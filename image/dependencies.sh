#!/bin/sh
# Installs what requirements.txt in the folder $1 lists into /opt/kuberay, for the system's Python, and leaves out what never runs.
# Needs root and uv; verifies every file's hash. There is no pip in it.
set -eu
uv venv --quiet --python /usr/bin/python3 /opt/kuberay
uv pip install --quiet --no-deps --require-hashes --python /opt/kuberay/bin/python -r "$1/requirements.txt"
packages=$(echo /opt/kuberay/lib/python3*/site-packages)

# Of the Kubernetes client only what finds credentials is used. The classes that are generated for each kind and each API group are
# loaded on demand, by nothing of ours, and are half of the whole image.
for generated in client/models client/api aio/client/models aio/client/api; do
    find "$packages/kubernetes/$generated" -type f ! -name __init__.py -delete
done
# Tests and sources of compiled modules.
find "$packages" -depth -type d \( -name tests -o -name test \) -exec rm -rf {} +
find "$packages" -type f \( -name '*.c' -o -name '*.h' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.pyi' \) -delete
# Scripts of libraries, and those that put the environment into a shell.
find /opt/kuberay/bin -type f ! -name 'python*' -delete
# Its root is read-only when it runs: what is compiled must be there.
/opt/kuberay/bin/python -m compileall -q -j 0 "$packages"
