"""Who wrote the spec of a Ray object, as far as it is kept of ``metadata.managedFields``."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from kuberay.api.kinds import RAYCLUSTER, RAYJOB
from kuberay.api.objects import RayObject, decode, from_dict


def entry(fields: dict[str, Any], **more: str) -> dict[str, Any]:
    return {
        "manager": "kubectl-edit",
        "operation": "Update",
        "apiVersion": "ray.io/v1",
        "time": "2024-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **more,
    }


@pytest.mark.parametrize("wire", [True, False], ids=["from the wire", "from the event source"])
def test_fields_right_below_the_spec_are_kept(wire: bool) -> None:
    body = {
        "kind": "RayJob",
        "metadata": {
            "name": "j",
            "managedFields": [
                entry({"f:metadata": {"f:labels": {}}}),
                entry(
                    {"f:spec": {".": {}, "f:entrypoint": {}, "f:rayClusterSpec": {".": {}, "f:workerGroupSpecs": {}}}}
                ),
                entry({"f:status": {}}, manager="kuberay-operator", subresource="status"),
                entry({"f:spec": {"f:replicas": {}}}, manager="scaler", subresource="scale"),
            ],
        },
    }
    obj = decode(RAYJOB, orjson.dumps(body)) if wire else from_dict(RAYJOB, body)
    assert isinstance(obj, RayObject)
    (kept,) = obj.metadata.managed_fields
    assert kept.owned == {"entrypoint", "rayClusterSpec", "rayClusterSpec.workerGroupSpecs"}
    assert (kept.manager, kept.time) == ("kubectl-edit", datetime(2024, 1, 1, tzinfo=UTC))
    assert kept.fields.spec == {}, "thousands of objects are kept"


def test_without_managed_fields_nobody_is_known() -> None:
    obj = from_dict(RAYCLUSTER, {"kind": "RayCluster", "metadata": {"name": "c"}})
    assert isinstance(obj, RayObject)
    assert obj.metadata.managed_fields == []
