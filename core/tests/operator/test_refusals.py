"""Which permission the API server missed, in its own words; that all of it works together is played in `tests/sim/test_permissions.py`."""

from __future__ import annotations

import orjson
import pytest
from kuberay.kube.errors import ApiError, ForbiddenError
from kuberay.operator.refusals import Permission, missing_permission

USER = 'User "system:serviceaccount:kuberay-system:kuberay-operator"'


@pytest.mark.parametrize(
    ("message", "permission", "text"),
    [
        (
            f'pods is forbidden: {USER} cannot create resource "pods" in API group "" in the namespace "team"',
            Permission("create", "", "pods", "team"),
            "create pods in namespace team",
        ),
        (
            f'pods is forbidden: {USER} cannot list resource "pods" in API group "" at the cluster scope',
            Permission("list", "", "pods"),
            "list pods in all namespaces",
        ),
        (
            f'rayclusters.ray.io "a" is forbidden: {USER} cannot patch resource "rayclusters/status" in API group "ray.io" '
            'in the namespace "team"',
            Permission("patch", "ray.io", "rayclusters/status", "team"),
            "patch rayclusters/status in namespace team",
        ),
        (
            f'ingresses.networking.k8s.io "a" is forbidden: {USER} cannot delete resource "ingresses" in API group '
            '"networking.k8s.io" in the namespace "team": RBAC: clusterrole.rbac.authorization.k8s.io "x" not found',
            Permission("delete", "networking.k8s.io", "ingresses", "team"),
            "delete ingresses.networking.k8s.io in namespace team",
        ),
    ],
)
def test_the_permission_is_found_in_the_message(message: str, permission: Permission, text: str) -> None:
    found = missing_permission(ForbiddenError(403, "Forbidden", message))
    assert found == permission
    assert str(found) == text
    assert text in permission.sentence


@pytest.mark.parametrize(
    "error",
    [
        ForbiddenError(
            403, "Forbidden", 'pods "a" is forbidden: exceeded quota: tight, requested: pods=1, used: pods=2'
        ),
        ForbiddenError(403, "Forbidden", 'pods "a" is forbidden: violates PodSecurity "restricted:latest"'),
        ForbiddenError(401, "Unauthorized", "Unauthorized"),
        ApiError(500, "InternalError", 'cannot create resource "pods" in API group ""'),
        ValueError("no"),
        None,
    ],
)
def test_other_refusals_are_no_matter_of_permissions(error: Exception | None) -> None:
    assert missing_permission(error) is None


def test_the_question_names_subresources_apart() -> None:
    spec = orjson.loads(Permission("patch", "ray.io", "rayclusters/status", "team").review())["spec"]
    assert spec == {
        "resourceAttributes": {
            "verb": "patch",
            "group": "ray.io",
            "resource": "rayclusters",
            "subresource": "status",
            "namespace": "team",
        }
    }
    spec = orjson.loads(Permission("list", "", "pods").review())["spec"]
    assert spec == {"resourceAttributes": {"verb": "list", "resource": "pods"}}
