"""The init container that holds a worker back until the head's GCS answers.

Source: spec raycluster.md 3.9, cases.md RC-15 and RC-29.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from kuberay.api import names
from kuberay.plan.build.shell import shell
from kuberay.plan.config import PlanConfig

NAME = "wait-gcs-ready"

_SCRIPT = """
SECONDS=0
while true; do
  if (( SECONDS <= 120 )); then
    if ray health-check --address {address} > /dev/null 2>&1; then
      echo "GCS is ready."
      break
    fi
    echo "$SECONDS seconds elapsed: Waiting for GCS to be ready."
  else
    if ray health-check --address {address}; then
      echo "GCS is ready. Any error messages above can be safely ignored."
      break
    fi
    echo "$SECONDS seconds elapsed: Still waiting for GCS to be ready. For troubleshooting, refer to the FAQ at \
https://docs.ray.io/en/master/cluster/kubernetes/troubleshooting.html."
  fi
  sleep 5
done
"""


def wait_size(config: PlanConfig, cluster: Mapping[str, str], template: Mapping[str, str]) -> dict[str, str] | None:
    """CPU and memory of the init container; None when there is to be none.

    *cluster* and *template* are the annotations of the RayCluster and of the group's template; the template's win.
    """
    if not config.init_container_injection:
        return None

    def told(annotation: str, default: str) -> str:
        return template.get(annotation) or cluster.get(annotation) or default

    if told(names.ANNOTATION_WAIT_GCS, "true").lower() == "false":
        return None
    return {
        "cpu": told(names.ANNOTATION_WAIT_GCS_CPU, config.wait_gcs_ready_cpu),
        "memory": told(names.ANNOTATION_WAIT_GCS_MEMORY, config.wait_gcs_ready_memory),
    }


def wait_container(
    user_container: Mapping[str, Any], gcs_address: str, size: Mapping[str, str], *, login: bool
) -> dict[str, Any]:
    """The init container for a worker whose Ray container the user wrote as *user_container* (copied, not shared).

    It asks for CPU and memory only: devices belong to the Ray container alone.
    """
    copied: dict[str, Any] = orjson.loads(
        orjson.dumps(
            {
                key: user_container[key]
                for key in ("image", "imagePullPolicy", "securityContext", "env", "volumeMounts")
                if user_container.get(key)
            }
        )
    )
    return {
        "name": NAME,
        **copied,
        "command": shell(login=login),
        "args": [_SCRIPT.format(address=gcs_address)],
        "resources": {"limits": dict(size), "requests": dict(size)},
    }
