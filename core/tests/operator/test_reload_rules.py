"""What of a new configuration is taken while the operator runs, key by key, and what has to wait for a restart."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from kuberay.hooks.reload import RELOADS
from kuberay.operator.environment import read_environment
from kuberay.operator.reload_rules import RELOADED, WHY_NOT, compare, reloaded_fields
from kuberay.operator.settings import PluginSettings, Settings
from pydantic import BaseModel, Field

CHANGED: dict[str, Any] = {
    "metrics_addr": ":1",
    "probe_addr": ":2",
    "enable_leader_election": False,
    "leader_election_namespace": "x",
    "reconcile_concurrency": 3,
    "qps": 5.0,
    "burst": 6,
    "watch_namespace": "a",
    "log_file": "/tmp/x",
    "log_file_encoder": "console",
    "log_stdout_encoder": "console",
    "log_level": "debug",
    "log_levels": {"kuberay.kube": "debug"},
    "profiling_addr": "127.0.0.1:6060",
    "batch_scheduler": "volcano",
    "enable_batch_scheduler": True,
    "head_sidecar_containers": [{"name": "a"}],
    "worker_sidecar_containers": [{"name": "a"}],
    "default_container_envs": [{"name": "A"}],
    "default_pod_annotations": {"a": "b"},
    "default_pod_labels": {"a": "b"},
    "wait_gcs_ready_resources": {"cpu": "1"},
    "use_kubernetes_proxy": True,
    "enable_metrics": True,
    "drain_timeout_seconds": 5,
    "ray_cluster_requeue_seconds": 5,
    "ray_job_status_check_timeout_seconds": 5,
    "ray_job_transition_grace_seconds": 5,
    "delete_ray_job_after_job_finishes": True,
    "propagate_job_metadata": False,
    "feature_gates": "RayCronJob=true",
}
"""Another value than the default, by field."""


@pytest.mark.parametrize("name", CHANGED)
def test_each_key_is_taken_or_told(name: str) -> None:
    old, new = Settings(), Settings.model_validate({name: CHANGED[name]})
    found = compare(old, new, {})
    (change,) = [*found.applied, *found.needs_restart]
    alias = Settings.model_fields[name].alias
    assert change.key == alias
    if name in RELOADED:
        assert found.in_force == new
        assert change.effect == RELOADED[name]
    else:
        assert found.in_force == old
        assert str(change).startswith(f"{alias} changed: restart the operator")


def test_what_reloads_is_what_is_safe() -> None:
    """A new row has to be thought about: it must touch nothing that stands already."""
    assert {name for name in RELOADED if name in CHANGED} == {
        "qps",
        "burst",
        "log_level",
        "log_levels",
        "profiling_addr",
        "drain_timeout_seconds",
        "ray_cluster_requeue_seconds",
        "ray_job_status_check_timeout_seconds",
        "ray_job_transition_grace_seconds",
        "propagate_job_metadata",
        "default_container_envs",
        "default_pod_annotations",
        "default_pod_labels",
        "wait_gcs_ready_resources",
    }
    assert RELOADED.keys() <= Settings.model_fields.keys()
    assert WHY_NOT.keys() <= Settings.model_fields.keys() - RELOADED.keys()


def test_the_reason_is_told_where_there_is_one() -> None:
    found = compare(Settings(), Settings(watch_namespace="a", metrics_addr=":1"), {})
    assert [str(change) for change in found.needs_restart] == [
        "metricsAddr changed: restart the operator",
        "watchNamespace changed: restart the operator (other objects would have to be listed and others forgotten)",
    ]


def test_nothing_changed() -> None:
    settings = Settings(qps=3, plugins=PluginSettings.model_validate({"enabled": ["a"], "a": {"b": 1}}))
    found = compare(settings, settings.model_copy(deep=True), {})
    assert (found.applied, found.needs_restart, found.in_force) == ([], [], settings)


class Model(BaseModel):
    soon: Annotated[int, Field(ge=0), RELOADS] = 1
    later: int = 1


def plugins(**sections: Any) -> Settings:
    return Settings(plugins=PluginSettings.model_validate(sections))


def test_of_a_plugins_section_only_what_the_plugin_says() -> None:
    of_plugins = reloaded_fields({"a": Model})
    assert of_plugins == {"a": frozenset({"soon"})}
    found = compare(
        plugins(enabled=["a"], a={"later": 5}, b={"x": 1}),
        plugins(enabled=["a"], a={"soon": 7, "later": 6}),
        of_plugins,
    )
    assert [str(change) for change in found.applied] == ["plugins.a.soon"]
    assert [change.key for change in found.needs_restart] == ["plugins.a.later", "plugins.b.x"]
    assert found.in_force.plugins.model_extra == {"a": {"soon": 7, "later": 5}, "b": {"x": 1}}
    back = compare(found.in_force, plugins(enabled=["a"], a={"later": 5}, b={"x": 1}), of_plugins)
    assert (back.needs_restart, back.in_force.plugins.model_extra) == ([], {"a": {"later": 5}, "b": {"x": 1}})


@pytest.mark.parametrize("section", [None, 5, "text", ["list"]])
def test_a_section_that_is_none_needs_no_more_than_a_restart(section: Any) -> None:
    found = compare(plugins(a={"later": 5}), plugins(a=section), {})
    assert found.in_force.plugins.model_extra == {"a": {"later": 5}}


def test_other_plugins_need_a_restart() -> None:
    found = compare(plugins(enabled=["a"]), plugins(enabled=["a", "b"]), {})
    assert [change.key for change in found.needs_restart] == ["plugins.enabled"]
    assert found.in_force.plugins.enabled == ["a"]


def test_seconds_of_the_file_count_where_the_variable_says_nothing() -> None:
    settings = Settings(
        ray_cluster_requeue_seconds=1, ray_job_status_check_timeout_seconds=2, ray_job_transition_grace_seconds=3
    )
    config = read_environment({}).plan_config(settings, "1")
    seconds = [config.requeue_period, config.job_status_check_timeout, config.job_transition_grace]
    assert [each.total_seconds() for each in seconds] == [1, 2, 3]
    config = read_environment(
        {
            "RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV": "7",
            "RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS": "nonsense",
            "RAYJOB_DEPLOYMENT_STATUS_TRANSITION_GRACE_PERIOD_SECONDS": "9",
        }
    ).plan_config(settings, "1")
    seconds = [config.requeue_period, config.job_status_check_timeout, config.job_transition_grace]
    assert [each.total_seconds() for each in seconds] == [7, 300, 9]
