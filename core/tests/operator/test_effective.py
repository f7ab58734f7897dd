"""What the log tells of the settings at start."""

from __future__ import annotations

import json

from kuberay.operator.effective import in_effect
from kuberay.operator.settings import Settings


def test_only_what_is_not_the_default() -> None:
    """HE-05: whichever way it is delivered."""
    assert in_effect(Settings()) == "{}"
    settings = Settings.model_validate(
        {
            "watchNamespace": "a",
            "reconcileConcurrency": 8,
            "burst": 200,
            "plugins": {"enabled": ["volcano"], "volcano": {"autoscaling_reserve": "desired"}},
        }
    )
    assert json.loads(in_effect(settings)) == {
        "watchNamespace": "a",
        "reconcileConcurrency": 8,
        "plugins": {"enabled": ["volcano"], "volcano": {"autoscaling_reserve": "desired"}},
    }


def test_no_secrets() -> None:
    settings = Settings.model_validate(
        {
            "defaultContainerEnvs": [{"name": "TOKEN", "value": "hush"}],
            "headSidecarContainers": [{"name": "log", "env": [{"name": "KEY", "value": "hush"}]}],
        }
    )
    assert json.loads(in_effect(settings)) == {"defaultContainerEnvs": ["TOKEN"], "headSidecarContainers": ["log"]}
