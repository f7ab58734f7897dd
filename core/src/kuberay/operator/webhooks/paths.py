"""Where webhooks are served and how they are called: KubeRay's paths and names, and the same for kinds it has none for.

Source: spec operator.md 10.
"""

from __future__ import annotations

from kuberay.api.kinds import RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE, Kind

KINDS = (RAYCLUSTER, RAYJOB, RAYSERVICE, RAYCRONJOB)


def validating_path(kind: Kind) -> str:
    """``/validate-ray-io-v1-raycluster``."""
    return f"/validate-ray-io-v1-{kind.kind.lower()}"


def validating_name(kind: Kind) -> str:
    """``vraycluster.kb.io``: what the API server says in front of a refusal."""
    return f"v{kind.kind.lower()}.kb.io"


def mutating_path(kind: Kind) -> str:
    """``/mutate-ray-io-v1-raycluster``."""
    return f"/mutate-ray-io-v1-{kind.kind.lower()}"


def mutating_name(kind: Kind) -> str:
    """``mraycluster.kb.io``."""
    return f"m{kind.kind.lower()}.kb.io"
