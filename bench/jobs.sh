#!/usr/bin/env bash
# One benchmark run of RayJobs on a fresh 0-node control plane of its own: bench/jobs.sh [jobs.py arguments]
# The names of heads are looked up as in a cluster: a mount namespace with a resolv.conf that asks bench/dashboards.py.
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
resolv_conf=$(mktemp)
cat > "$resolv_conf" <<'END'
nameserver 127.0.0.1
search ray-system.svc.cluster.local svc.cluster.local cluster.local
options ndots:5
END
dev/cluster --name bench down >&2 || true
dev/cluster --name bench up --nodes 0 >&2
trap 'dev/cluster --name bench down >&2; rm -f "$resolv_conf"' EXIT
dev/cluster --name bench exec unshare --mount --propagation slave bash -c '
  mount --bind "$0" /etc/resolv.conf
  .venv/bin/kuberay crds | kubectl apply --server-side -f - >&2
  until kubectl get rayclusters,rayjobs -A >/dev/null 2>&1; do sleep 0.2; done
  exec .venv/bin/python -m bench.jobs "$@"' "$resolv_conf" "$@"
