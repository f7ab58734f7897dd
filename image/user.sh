#!/bin/sh
# The user that the operator runs as; its number is all that Kubernetes asks for, the name is for libraries that look it up.
set -eu
groupadd --gid 65532 kuberay
useradd --uid 65532 --gid kuberay --no-create-home --home-dir /tmp --shell /usr/sbin/nologin kuberay
