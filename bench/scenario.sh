#!/usr/bin/env bash
# One benchmark run on a fresh 0-node control plane of its own: bench/scenario.sh [run.py arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
dev/cluster --name bench down >&2 || true
dev/cluster --name bench up --nodes 0 >&2
trap 'dev/cluster --name bench down >&2' EXIT
dev/cluster --name bench exec bash -c '
  .venv/bin/kuberay crds | kubectl apply --server-side -f - >&2
  until kubectl get rayclusters,rayjobs -A >/dev/null 2>&1; do sleep 0.2; done
  exec .venv/bin/python -m bench.run "$@"' -- "$@"
