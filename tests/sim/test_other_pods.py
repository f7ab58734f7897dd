"""Pods that are not Ray's cost the operator nothing: they are neither asked for nor kept."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.kinds import JOB, POD, SECRET, SERVICE, Kind
from kuberay.operator.app import CHILD_KINDS
from kuberay_testkit.builders import build_raycluster
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.operator import RayWorld, SimOperator
from kuberay_testkit.sim.users import NAMESPACE

MANAGED_FIELDS = [{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:spec": {}}}]


def unrelated(kind: Kind, number: int) -> dict[str, Any]:
    body: dict[str, Any] = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": f"other-{number}", "namespace": NAMESPACE, "labels": {"app": "web", "ray.io/ish": "no"}},
    }
    containers = [{"name": "c", "image": "i"}]
    if kind == POD:
        body["spec"] = {"containers": containers}
    elif kind == JOB:
        body["spec"] = {"template": {"spec": {"containers": containers, "restartPolicy": "Never"}}}
    elif kind == SERVICE:
        body["spec"] = {"ports": [{"port": 80}]}
    return body


@pytest.mark.parametrize("namespaces", [(), (NAMESPACE,)], ids=["all namespaces", "one namespace"])
def test_pods_that_are_not_rays_are_never_stored(namespaces: tuple[str, ...]) -> None:
    """RC-24: what is kept depends on Ray's objects only, before and after they change, however it is come by."""

    async def run() -> None:
        async with RayWorld(seed=1) as world:
            for number in range(300):
                world.server.create(unrelated(POD, number))
            for kind in (SERVICE, JOB, SECRET):
                for number in range(20):
                    world.server.create(unrelated(kind, number))
            for number in range(10):
                world.server.create(build_raycluster(f"rc-{number}", namespace=NAMESPACE, groups=2))
            operator = SimOperator(world=world, namespaces=namespaces)
            operator.start()
            await world.rest(quiet=60)
            assert operator.app is not None
            store = operator.app.store
            assert _names(store.all(POD)) == _names_of_rays(world)
            assert len(_names_of_rays(world)) == 30
            for kind in (SERVICE, JOB, SECRET):
                assert not [name for name in _names(store.all(kind)) if name.startswith("other-")]
            for number in range(0, 300, 3):
                world.server.patch(POD, NAMESPACE, f"other-{number}", {"metadata": {"labels": {"app": "changed"}}})
            for number in range(300, 330):
                world.server.create(unrelated(POD, number))
            # Lists that compare the store with the server have run meanwhile.
            await world.pass_time(300)
            assert _names(store.all(POD)) == _names_of_rays(world)
            assert all(not hasattr(obj.metadata, "managed_fields") for obj in store.all(POD)), "they are not decoded"

    run_sim(run, seed=1)


def test_every_kind_of_child_is_asked_for_by_label() -> None:
    """RC-24: there is no list or watch of all objects of a kind."""

    async def run() -> None:
        async with RayWorld(seed=3) as world:
            operator = SimOperator(world=world)
            operator.start()
            await world.rest(quiet=60)
            assert operator.app is not None
            scopes = [informer.scope for informer in operator.app.informers if informer.scope.kind in CHILD_KINDS]
            assert {scope.kind for scope in scopes} >= {POD, SERVICE, JOB}
            assert [str(scope) for scope in scopes if not scope.label_selector] == []

    run_sim(run, seed=3)


def _names(objects: Any) -> set[str]:
    return {obj.name for obj in objects}


def _names_of_rays(world: RayWorld) -> set[str]:
    return {pod["metadata"]["name"] for pod in world.server.objects(POD, NAMESPACE, "ray.io/is-ray-node=yes")}
