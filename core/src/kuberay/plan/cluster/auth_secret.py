"""Whether the Secret with the cluster's token has to be made: whenever it is wanted and nothing has its name.

Source: spec raycluster.md 6.5. It is never changed, and never looked into.
"""

from __future__ import annotations

from kuberay.api import names
from kuberay.api.cluster import AuthOptions
from kuberay.api.kinds import RAYCLUSTER, SECRET
from kuberay.plan.build.auth import SECRET_KEY
from kuberay.plan.build.context import owner_reference
from kuberay.plan.cluster.pod_decision import ClusterPass
from kuberay.plan.cluster.unwatched import is_gone
from kuberay.plan.model import Create, Write
from kuberay.plan.secret_access import may_use_secrets

TOKEN_BYTES = 32


def auth_secret_writes(cluster: ClusterPass) -> list[Write]:
    """The create of the token Secret, if it is missing."""
    options = cluster.form.spec.auth_options
    if options is None or not _is_made_here(options):
        return []
    if not may_use_secrets(cluster.observed.config, cluster.namespace):
        return []
    name = names.check_name(cluster.name)
    live = cluster.observed.view.get(SECRET, cluster.namespace, name)
    if live is not None and not is_gone(cluster, SECRET, live):
        return []
    metadata = {
        "name": name,
        "namespace": cluster.namespace,
        "labels": {names.LABEL_CLUSTER: cluster.name},
        "ownerReferences": [owner_reference(RAYCLUSTER, cluster.observed.obj)],
    }
    return [
        Create(
            kind=SECRET,
            namespace=cluster.namespace,
            name=name,
            body={"apiVersion": "v1", "kind": "Secret", "metadata": metadata},
            random_data={SECRET_KEY: TOKEN_BYTES},
            any_owner=True,
        )
    ]


def former_secret(cluster: ClusterPass) -> str:
    """Why a head that is missing has to wait: the Secret of a former cluster of this name is still there. It goes with
    that cluster, and pods that were started with its token could not speak to later ones. Empty otherwise."""
    options = cluster.form.spec.auth_options
    if options is None or not _is_made_here(options):
        return ""
    live = cluster.observed.view.get(SECRET, cluster.namespace, names.check_name(cluster.name))
    controller = live.metadata.controller if live is not None else None
    if controller is None or controller.uid == cluster.observed.obj.uid:
        return ""
    if (controller.kind, controller.name) != (RAYCLUSTER.kind, cluster.name):
        return ""
    return f"the Secret {cluster.namespace}/{names.check_name(cluster.name)} still belongs to a former cluster of this name"


def _is_made_here(options: AuthOptions) -> bool:
    """An unset mode counts, too, although pods are only wired with the mode ``token``."""
    return options.mode != "disabled" and not options.enable_k8s_token_auth and not options.secret_name
