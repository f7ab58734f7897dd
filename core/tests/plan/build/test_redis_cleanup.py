"""Redis address forms and credentials, as the head and the cleanup Job see them (RC-32)."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kuberay.api.kinds import RAYCLUSTER
from kuberay.api.objects import RayObject, from_dict
from kuberay.hooks.calls import NoHooks
from kuberay.plan.build.context import owner_context
from kuberay.plan.build.pods import PodFactory, PodPlace
from kuberay.plan.build.redis_cleanup import cleanup_job
from kuberay.plan.cluster.form import cluster_form
from kuberay.plan.config import PlanConfig
from kuberay.plan.observed import Observed

SECRET = {"secretKeyRef": {"name": "redis", "key": "password"}}


def factory(options: dict[str, Any] | None, config: PlanConfig | None = None, **changes: Any) -> PodFactory:
    template = {
        "metadata": changes.pop("metadata", {}),
        "spec": {
            "containers": [{"name": "engine", "image": "ray", **changes.pop("container", {})}, {"name": "helper"}],
            **changes.pop("pod", {}),
        },
    }
    spec: dict[str, Any] = {"headGroupSpec": {"template": template, **changes.pop("head", {})}}
    if options is not None:
        spec["gcsFaultToleranceOptions"] = options
    metadata = {"name": "ft", "namespace": "lab", "uid": "u-1", **changes}
    obj = from_dict(RAYCLUSTER, {"metadata": metadata, "spec": spec})
    assert isinstance(obj, RayObject)
    observed = Observed(obj=obj, now=datetime(2026, 1, 1, tzinfo=UTC), config=config or PlanConfig())
    owner = owner_context(observed, kind=RAYCLUSTER, cluster_spec=cluster_form(obj).spec, lookups=[])
    return PodFactory(owner=owner, spec=cluster_form(obj).spec, config=observed.config, hooks=NoHooks())


def head_pod(made: PodFactory) -> dict[str, Any]:
    place = PodPlace(node_type="head", group=made.spec.head_group_spec, group_name="headgroup", name="h")
    return made.build(place).pod


def ray_container(job: dict[str, Any]) -> dict[str, Any]:
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return dict(container)


def env_of(container: dict[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry.get("valueFrom", entry.get("value")) for entry in container["env"]}


def run_script(tmp_path: Path, container: dict[str, Any], secrets: dict[str, str]) -> dict[str, str]:
    """What the Job's command really hands to Ray's clean-up function."""
    package = tmp_path / "ray" / "_private"
    package.mkdir(parents=True)
    (tmp_path / "ray" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "gcs_utils.py").write_text(
        textwrap.dedent(
            """
            def cleanup_redis_storage(**given):
                print({name: str(value) for name, value in given.items()})
                return True
            """
        )
    )
    (tmp_path / "python").symlink_to(sys.executable)
    env = {
        name: value if isinstance(value, str) else secrets[name]
        for name, value in env_of(container).items()
        if isinstance(value, str) or name in secrets
    }
    done = subprocess.run(
        [*container["command"], *container["args"]],
        env={**env, "PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    given: dict[str, str] = ast.literal_eval(done.stdout.splitlines()[-1])
    return given


@pytest.mark.parametrize(
    ("address", "host", "port", "ssl"),
    [
        ("redis:6379", "redis", "6379", "False"),
        ("redis://redis:6379", "redis", "6379", "False"),
        ("rediss://r.example:6380", "r.example", "6380", "True"),
        ("a:6379,b:6379", "a", "6379", "False"),
        ("rediss://a:6379,rediss://b:6379", "a", "6379", "True"),
        ("[fd00::1]:6379", "fd00::1", "6379", "False"),
    ],
)
@pytest.mark.parametrize("user", [False, True])
def test_each_address_form_reaches_ray(
    address: str, host: str, port: str, ssl: str, user: bool, tmp_path: Path
) -> None:
    """RC-32: host, port, TLS and user are right for the head and the Job; the password is in no argument and no value."""
    options: dict[str, Any] = {"redisAddress": address, "redisPassword": {"valueFrom": SECRET}}
    if user:
        options["redisUsername"] = {"valueFrom": {"secretKeyRef": {"name": "redis", "key": "user"}}}
    made = factory(options)
    head = head_pod(made)["spec"]["containers"][0]
    job = ray_container(cleanup_job(made))
    for container in (head, job):
        env = env_of(container)
        assert env["RAY_REDIS_ADDRESS"] == address
        assert env["REDIS_PASSWORD"] == SECRET
    assert "--redis-password=$REDIS_PASSWORD" in head["args"][0]
    assert ("--redis-username=$REDIS_USERNAME" in head["args"][0]) == user
    given = run_script(tmp_path, job, {"REDIS_PASSWORD": "s3cret", "REDIS_USERNAME": "ann"})
    assert given == {
        "host": host,
        "port": port,
        "password": "s3cret",
        "use_ssl": ssl,
        "storage_namespace": "u-1",
        **({"username": "ann"} if user else {}),
    }


def test_without_a_password_an_empty_one_is_given(tmp_path: Path) -> None:
    given = run_script(tmp_path, ray_container(cleanup_job(factory({"redisAddress": "redis:6379"}))), {})
    assert given["password"] == ""


def test_the_job_is_the_head_pod_with_little_left() -> None:
    made = factory(
        {"redisAddress": "redis:6379"},
        metadata={"labels": {"team": "x", "app.kubernetes.io/created-by": "us"}, "annotations": {"note": "y"}},
        container={"resources": {"limits": {"cpu": "8", "nvidia.com/gpu": "1"}}, "startupProbe": {"exec": {}}},
        pod={
            "restartPolicy": "Always",
            "initContainers": [{"name": "wait-for-tls-ip-san"}, {"name": "mine"}],
            "nodeSelector": {"disk": "ssd"},
        },
    )
    job = cleanup_job(made)
    assert job["metadata"]["name"] == "ft-redis-cleanup"
    labels, pod_labels = job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]
    assert (labels["ray.io/node-type"], labels["team"]) == ("redis-cleanup", "x")
    # The operator finds its Jobs by this label, so a template cannot change it.
    assert labels["app.kubernetes.io/created-by"] == "kuberay-operator"
    assert pod_labels["app.kubernetes.io/created-by"] == "us"
    assert job["metadata"]["annotations"] == {
        "note": "y",
        "ray.io/ft-enabled": "true",
        "ray.io/external-storage-namespace": "u-1",
    }
    assert (job["spec"]["backoffLimit"], job["spec"]["activeDeadlineSeconds"]) == (0, 300)
    spec = job["spec"]["template"]["spec"]
    assert spec["restartPolicy"] == "Never"
    assert spec["nodeSelector"] == {"disk": "ssd"}
    assert [init["name"] for init in spec["initContainers"]] == ["mine"]
    container = ray_container(job)
    wanted = {"cpu": "200m", "memory": "256Mi"}
    assert container["resources"] == {"limits": wanted, "requests": wanted}
    assert not [name for name in container if name.endswith("Probe")]
    assert container["command"] == ["/bin/bash", "-c", "--"]


def test_annotated_fault_tolerance_and_settings() -> None:
    made = factory(
        None,
        PlanConfig(deterministic_head_pod_name=True, login_shell=True, head_sidecars=[{"name": "fluentbit"}]),
        annotations={"ray.io/ft-enabled": "true", "ray.io/external-storage-namespace": "mine"},
        container={"env": [{"name": "RAY_REDIS_ADDRESS", "value": "redis:6379"}]},
        head={"rayStartParams": {"redis-password": "plain"}},
    )
    job = cleanup_job(made)
    env = env_of(ray_container(job))
    assert (env["RAY_external_storage_namespace"], env["REDIS_PASSWORD"]) == ("mine", "plain")
    assert ray_container(job)["command"] == ["/bin/bash", "-cl", "--"]
    assert job["spec"]["template"]["metadata"]["name"] == "ft-head"
