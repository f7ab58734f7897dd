"""What the API server fills in and what it refuses, for the kinds the operator writes.

Only the rules an operator can run into are here; schemas of custom kinds are added with `SimServer.admit`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

from kuberay.api import kinds
from kuberay.api.kinds import Kind

from kuberay_testkit.sim.registry import Traits
from kuberay_testkit.sim.status import APIError, invalid

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SERVICE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_LABEL_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")

Cause = tuple[str, str, str]

_RULES = {
    "subdomain": (
        _SUBDOMAIN,
        253,
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
    ),
    "label": (
        _LABEL,
        63,
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
    ),
    "service": (
        _SERVICE,
        63,
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
    ),
}


def name_problem(traits: Traits, name: str) -> str:
    """Why *name* is refused for a kind with *traits*; empty when it is fine."""
    if traits.name_rule == "path":
        return "may not contain '/' or '%'" if "/" in name or "%" in name or name in (".", "..") else ""
    pattern, limit, text = _RULES[traits.name_rule]
    if len(name) > limit:
        return f"must be no more than {limit} bytes"
    return "" if pattern.fullmatch(name) else text


def check_metadata(kind: Kind, traits: Traits, body: Mapping[str, Any]) -> None:
    """Raise a 422 for a name, label or owner reference no API server stores."""
    metadata = body["metadata"]
    name = metadata.get("name") or ""
    causes: list[Cause] = []
    if not name:
        causes.append(("FieldValueRequired", "metadata.name", "Required value: name or generateName is required"))
    elif problem := name_problem(traits, name):
        causes.append(("FieldValueInvalid", "metadata.name", f'Invalid value: "{name}": {problem}'))
    for key, value in (metadata.get("labels") or {}).items():
        short = key.rsplit("/", 1)[-1]
        if len(short) > 63 or not _LABEL_NAME.fullmatch(short):
            text = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
            causes.append(("FieldValueInvalid", "metadata.labels", f'Invalid value: "{key}": {text}'))
        if not isinstance(value, str):
            causes.append(("FieldValueInvalid", "metadata.labels", f"Invalid value: {value!r}: must be a string"))
        elif len(value) > 63:
            causes.append(
                ("FieldValueInvalid", "metadata.labels", f'Invalid value: "{value}": must be no more than 63 bytes')
            )
        elif not _LABEL_VALUE.fullmatch(value):
            text = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
            causes.append(("FieldValueInvalid", "metadata.labels", f'Invalid value: "{value}": {text}'))
    owners = metadata.get("ownerReferences") or []
    for index, owner in enumerate(owners):
        for part in ("uid", "name", "kind", "apiVersion"):
            if not owner.get(part):
                path = f"metadata.ownerReferences[{index}].{part}"
                causes.append(("FieldValueInvalid", path, f'Invalid value: "": {part} must not be empty'))
    if sum(bool(owner.get("controller")) for owner in owners) > 1:
        text = "Invalid value: Only one reference can have Controller set to true"
        causes.append(("FieldValueInvalid", "metadata.ownerReferences", text))
    if causes:
        raise invalid(kind, name, *causes)


def set_defaults(kind: Kind, body: dict[str, Any], *, cluster_ip: str) -> None:
    """Fill in what the server would. *cluster_ip* is for a Service that has none yet."""
    spec = body.get("spec")
    if kind == kinds.POD and isinstance(spec, dict):
        _pod_defaults(spec)
    elif kind == kinds.SERVICE:
        _service_defaults(body.setdefault("spec", {}), cluster_ip)
    elif kind == kinds.JOB and isinstance(spec, dict):
        _job_defaults(body, spec)
    elif kind == kinds.HTTP_ROUTE:
        _route_defaults(body.setdefault("spec", {}))
    elif kind == kinds.GATEWAY:
        for listener in body.setdefault("spec", {}).get("listeners") or ():
            listener.setdefault("allowedRoutes", {}).setdefault("namespaces", {}).setdefault("from", "Same")
    elif kind == kinds.SECRET:
        data = body.setdefault("data", {})
        for key, value in (body.pop("stringData", None) or {}).items():
            data[key] = base64.b64encode(str(value).encode()).decode()
        if not data:
            del body["data"]
        body.setdefault("type", "Opaque")
    elif kind == kinds.NAMESPACE:
        body.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
        body["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = body["metadata"]["name"]


def first_status(kind: Kind) -> dict[str, Any] | None:
    """What the server itself puts into the status of a new object."""
    if kind == kinds.POD:
        return {"phase": "Pending", "qosClass": "BestEffort"}
    if kind == kinds.SERVICE:
        return {"loadBalancer": {}}
    if kind == kinds.JOB:
        return {}
    if kind == kinds.NAMESPACE:
        return {"phase": "Active"}
    return None


def _pod_defaults(spec: dict[str, Any]) -> None:
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("serviceAccountName", "default")
    spec["serviceAccount"] = spec["serviceAccountName"]
    spec.setdefault("securityContext", {})
    spec.setdefault("enableServiceLinks", True)
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        if not isinstance(container, dict):
            continue
        container.setdefault("resources", {})
        container.setdefault("terminationMessagePath", "/dev/termination-log")
        container.setdefault("terminationMessagePolicy", "File")
        image = str(container.get("image") or "")
        latest = ":" not in image.rsplit("/", 1)[-1] or image.endswith(":latest")
        container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
        for port in container.get("ports") or ():
            port.setdefault("protocol", "TCP")


def _service_defaults(spec: dict[str, Any], cluster_ip: str) -> None:
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
    if spec["type"] != "ExternalName":
        if not spec.get("clusterIP"):
            spec["clusterIP"] = cluster_ip
        spec["clusterIPs"] = [spec["clusterIP"]]
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        spec.setdefault("internalTrafficPolicy", "Cluster")


def _route_defaults(spec: dict[str, Any]) -> None:
    """What the schema of an HTTPRoute fills in."""
    for reference in spec.get("parentRefs") or ():
        reference.setdefault("group", kinds.GATEWAY.group)
        reference.setdefault("kind", kinds.GATEWAY.kind)
    for rule in spec.get("rules") or ():
        for match in rule.setdefault("matches", [{}]):
            match.setdefault("path", {"type": "PathPrefix", "value": "/"})
        for backend in rule.get("backendRefs") or ():
            for name, value in (("group", ""), ("kind", "Service"), ("weight", 1)):
                backend.setdefault(name, value)


def _job_defaults(body: dict[str, Any], spec: dict[str, Any]) -> None:
    spec.setdefault("parallelism", 1)
    spec.setdefault("completions", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    uid, name = body["metadata"].get("uid", ""), body["metadata"].get("name", "")
    spec.setdefault("selector", {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}})
    template = spec.setdefault("template", {})
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    labels.setdefault("batch.kubernetes.io/controller-uid", uid)
    labels.setdefault("batch.kubernetes.io/job-name", name)
    labels.setdefault("controller-uid", uid)
    labels.setdefault("job-name", name)
    if isinstance(template.get("spec"), dict):
        policy = template["spec"].get("restartPolicy")
        _pod_defaults(template["spec"])
        template["spec"]["restartPolicy"] = policy or "Always"


def check_spec(kind: Kind, body: Mapping[str, Any]) -> None:
    """Raise a 422 for a spec the real server refuses."""
    causes: list[Cause] = []
    spec = body.get("spec") or {}
    if kind == kinds.POD:
        causes = _pod_problems(spec, "spec")
    elif kind == kinds.JOB:
        pod = (spec.get("template") or {}).get("spec") or {}
        causes = _pod_problems(pod, "spec.template.spec")
        if pod.get("restartPolicy") not in ("OnFailure", "Never"):
            text = f'Required value: valid values: "OnFailure", "Never" (got {pod.get("restartPolicy")!r})'
            causes.append(("FieldValueRequired", "spec.template.spec.restartPolicy", text))
    elif kind == kinds.SERVICE:
        causes = _service_problems(spec)
    elif kind == kinds.EVENT:
        causes = _event_problems(body)
    if causes:
        raise invalid(kind, body["metadata"].get("name", ""), *causes)


def _pod_problems(spec: Mapping[str, Any], path: str) -> list[Cause]:
    causes: list[Cause] = []
    if not spec.get("containers"):
        causes.append(("FieldValueRequired", f"{path}.containers", "Required value"))
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            where, name = f"{path}.{field}[{index}]", container.get("name") or ""
            if not name:
                causes.append(("FieldValueRequired", f"{where}.name", "Required value"))
            elif not _LABEL.fullmatch(name) or len(name) > 63:
                causes.append(("FieldValueInvalid", f"{where}.name", f'Invalid value: "{name}": {_RULES["label"][2]}'))
            elif name in seen:
                causes.append(("FieldValueDuplicate", f"{where}.name", f'Duplicate value: "{name}"'))
            seen.add(name)
            if not container.get("image"):
                causes.append(("FieldValueRequired", f"{where}.image", "Required value"))
    return causes


def _service_problems(spec: Mapping[str, Any]) -> list[Cause]:
    causes: list[Cause] = []
    ports = spec.get("ports") or []
    if not ports and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
        causes.append(("FieldValueRequired", "spec.ports", "Required value"))
    seen: set[str] = set()
    for index, port in enumerate(ports):
        name = port.get("name") or ""
        if len(ports) > 1 and not name:
            causes.append(("FieldValueRequired", f"spec.ports[{index}].name", "Required value"))
        elif name in seen:
            causes.append(("FieldValueDuplicate", f"spec.ports[{index}].name", f'Duplicate value: "{name}"'))
        seen.add(name)
    return causes


def _event_problems(body: Mapping[str, Any]) -> list[Cause]:
    causes: list[Cause] = [
        ("FieldValueRequired", field, "Required value")
        for field in ("eventTime", "reportingController", "reportingInstance", "action", "reason")
        if not body.get(field)
    ]
    if len(str(body.get("note") or "").encode()) > 1024:
        causes.append(("FieldValueInvalid", "note", "Invalid value: can have at most 1024 characters"))
    if body.get("type") not in ("Normal", "Warning"):
        causes.append(("FieldValueInvalid", "type", f'Invalid value: "{body.get("type", "")}": has invalid value'))
    regarding = (body.get("regarding") or {}).get("namespace") or "default"
    if regarding != body["metadata"].get("namespace"):
        causes.append(("FieldValueInvalid", "involvedObject.namespace", "does not match event.namespace"))
    series = body.get("series")
    if series is not None and (not series.get("lastObservedTime") or int(series.get("count") or 0) < 2):
        causes.append(("FieldValueInvalid", "series.count", "should be at least 2"))
    return causes


_POD_FREE = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates")


def check_change(kind: Kind, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Raise a 422 for a change of what cannot change."""
    name = new["metadata"].get("name", "")
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if kind == kinds.POD and _frozen_pod(before) != _frozen_pod(after):
        text = "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
        raise invalid(kind, name, ("FieldValueForbidden", "spec", text))
    if kind == kinds.JOB and not before.get("suspend"):
        for field in ("template", "selector", "completions"):
            if before.get(field) != after.get(field):
                raise _immutable(kind, name, f"spec.{field}")
    if kind == kinds.SERVICE and before.get("clusterIP") not in (None, "", after.get("clusterIP")):
        raise invalid(
            kind,
            name,
            ("FieldValueInvalid", "spec.clusterIPs[0]", "Invalid value: may not change once set"),
        )
    if kind == kinds.ROLE_BINDING and old.get("roleRef") != new.get("roleRef"):
        raise invalid(kind, name, ("FieldValueInvalid", "roleRef", "Invalid value: cannot change roleRef"))
    if kind == kinds.EVENT:
        for field in ("regarding", "reason", "note", "type", "eventTime", "action", "reportingController"):
            if old.get(field) != new.get(field):
                raise _immutable(kind, name, field)


def _immutable(kind: Kind, name: str, path: str) -> APIError:
    return invalid(kind, name, ("FieldValueInvalid", path, "Invalid value: field is immutable"))


def _frozen_pod(spec: Mapping[str, Any]) -> dict[str, Any]:
    frozen = {key: value for key, value in spec.items() if key not in _POD_FREE}
    for field in ("containers", "initContainers"):
        if field in frozen:
            frozen[field] = [{k: v for k, v in item.items() if k != "image"} for item in frozen[field]]
    return frozen
