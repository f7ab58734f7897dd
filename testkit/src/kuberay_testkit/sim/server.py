"""The simulated API server: takes requests as paths and bytes, answers as the real one would, and records each.

`handle` is synchronous and atomic; time passes, requests fail and watches break in `SimTransport`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from random import Random
from typing import Any

import orjson
from kuberay.api import kinds
from kuberay.api.kinds import Kind
from kuberay.kube.transport import APPLY_PATCH, JSON, JSON_PATCH, MERGE_PATCH, Response

from kuberay_testkit.sim import merge, paths
from kuberay_testkit.sim.access import REVIEW, Access
from kuberay_testkit.sim.calls import Call, Calls, Steps
from kuberay_testkit.sim.clock import VirtualClock
from kuberay_testkit.sim.deletes import Deletes
from kuberay_testkit.sim.environment import Admit, Outcome
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.paths import Subject, subject_of
from kuberay_testkit.sim.reads import Reads, custom_resource_definition
from kuberay_testkit.sim.registry import Registry, Traits, default_kinds
from kuberay_testkit.sim.resize import RESIZE
from kuberay_testkit.sim.selectors import match_labels
from kuberay_testkit.sim.status import (
    JSON_HEADERS,
    APIError,
    NoSuchPath,
    bad_request,
    invalid,
    method_not_allowed,
    no_such_resource,
    unsupported_media_type,
)
from kuberay_testkit.sim.store import Change, Key, Store, Stored
from kuberay_testkit.sim.watch import Watch, read_options
from kuberay_testkit.sim.writes import Writes


class SimServer:
    """One simulated cluster's API server. Needs no running event loop except for watches."""

    def __init__(
        self,
        *,
        clock: VirtualClock | None = None,
        seed: int = 0,
        faults: Faults | None = None,
        pod_grace: float = 0.0,
        history: int = 20_000,
        only: Iterable[Kind] | None = None,
    ) -> None:
        """*pod_grace* above zero makes deleted pods terminate for that many seconds. *history* is how many changes per
        kind can be replayed. *only* replaces the default kinds."""
        self.clock = clock or VirtualClock()
        self.seed = seed
        self.random = Random(seed)
        self.faults = faults or Faults(seed)
        self.pod_grace = pod_grace
        self.store = Store(history=history)
        self.registry = Registry()
        self.admissions: list[tuple[Kind | None, Admit]] = []
        self.calls = Calls()
        self.steps = Steps()
        self.acting = ""
        """The client whose request is being handled; empty while users and the cluster's own controllers act."""
        self._writes = Writes(self)
        self._deletes = Deletes(self)
        self._reads = Reads(self.store, self.registry)
        self._watches: dict[Watch, None] = {}
        self._access = Access()
        for kind in default_kinds() if only is None else only:
            self.register(kind)
        self.store.listen(self._serve_custom_kinds)
        self.store.listen(self._count)

    # -- set-up

    def now(self) -> datetime:
        return self.clock.now()

    def register(self, kind: Kind, traits: Traits | None = None) -> None:
        """Serve *kind*; for a custom kind its CustomResourceDefinition appears too."""
        self.registry.register(kind, traits)
        definition = custom_resource_definition(kind)
        if definition is None:
            return
        if kinds.CRD not in self.registry:
            self.registry.register(kinds.CRD)
        if self.store.get(Key(kinds.CRD, "", definition["metadata"]["name"])) is None:
            self._writes.create(kinds.CRD, "", definition, "crd-installer")
            self._establish(definition["metadata"]["name"])

    def unregister(self, kind: Kind) -> None:
        """Stop serving *kind*, as when its CRD was never installed. Its objects are gone."""
        for stored in self.store.all_of(kind):
            self.store.remove(stored)
        definition = self.store.get(Key(kinds.CRD, "", f"{kind.plural}.{kind.group}"))
        self.registry.unregister(kind)
        if definition is not None:
            self.store.remove(definition)

    def _count(self, change: Change) -> None:
        if change.stored.key.kind != kinds.LEASE:
            self.steps.commits += 1

    def _serve_custom_kinds(self, change: Change) -> None:
        """A CRD that is created is served, one that is deleted no longer."""
        if change.stored.key.kind != kinds.CRD:
            return
        spec = change.stored.body.get("spec") or {}
        names = spec.get("names") or {}
        for version in spec.get("versions") or ():
            namespaced = spec.get("scope") != "Cluster"
            kind = Kind(spec["group"], version["name"], names["plural"], names["kind"], namespaced)
            if change.type == "DELETED":
                self.registry.unregister(kind)
            elif change.type == "ADDED" and kind not in self.registry:
                status = "status" in (version.get("subresources") or {})
                self.registry.register(kind, Traits(status=status))
                self._establish(change.stored.key.name)

    def _establish(self, name: str) -> None:
        condition = {"type": "Established", "status": "True", "reason": "InitialNamesAccepted"}
        self.set_status(kinds.CRD, "", name, {"conditions": [condition]}, manager="kube-apiserver")

    def admit(self, kind: Kind | None, admit: Admit) -> None:
        """Call *admit* with each object of *kind* (None: any) about to be stored; it raises `APIError` to refuse."""
        self.admissions.append((kind, admit))

    def restrict(self, client: str, rules: Sequence[Mapping[str, Any]]) -> None:
        """Let *client* do only what these RBAC rules grant; everything else is a 403."""
        self._access.rules[client] = rules

    # -- what tests ask

    def count(self, **wanted: Any) -> int:
        """How many recorded requests have these field values, for example ``verb="create", resource="pods"``."""
        return len(self.calls.where(**wanted))

    def peek(self, kind: Kind, namespace: str, name: str) -> dict[str, Any] | None:
        """A copy of a stored object, without a request being recorded."""
        stored = self.store.get(Key(kind, namespace if kind.namespaced else "", name))
        return None if stored is None else stored.copy()

    def objects(self, kind: Kind, namespace: str | None = None, labels: str = "") -> list[dict[str, Any]]:
        """Copies of all stored objects of *kind* that match a label selector, by namespace and name."""
        matches = match_labels(labels)
        found = self.store.all_of(kind, namespace)
        return [stored.copy() for stored in found if matches is None or matches(stored)]

    def create(self, manifest: Mapping[str, Any], *, manager: str = "test") -> dict[str, Any]:
        """Store a manifest as a user would (namespace ``default`` unless it says otherwise). Raises `APIError`."""
        kind = self._kind_of(manifest)
        body = orjson.loads(orjson.dumps(manifest))
        namespace = body.get("metadata", {}).get("namespace") or "default"
        return self._parsed(self._writes.create(kind, namespace if kind.namespaced else "", body, manager))

    def apply(self, manifest: Mapping[str, Any], *, manager: str = "test", force: bool = True) -> dict[str, Any]:
        """Server-side apply as a user would."""
        kind = self._kind_of(manifest)
        body = orjson.loads(orjson.dumps(manifest))
        namespace = (body["metadata"].get("namespace") or "default") if kind.namespaced else ""
        key = Key(kind, namespace, body["metadata"]["name"])
        return self._parsed(self._writes.apply(key, body, manager, force=force))

    def patch(
        self, kind: Kind, namespace: str, name: str, change: Mapping[str, Any], *, manager: str = "test"
    ) -> dict[str, Any]:
        """JSON merge patch as a user would."""
        patch = orjson.loads(orjson.dumps(change))
        key = Key(kind, namespace, name)
        return self._parsed(self._writes.patch(key, lambda body: merge.merge_patch(body, patch), manager))

    def set_status(
        self, kind: Kind, namespace: str, name: str, status: Mapping[str, Any], *, manager: str = "test"
    ) -> dict[str, Any]:
        """Replace the whole status, as the kind's controller would."""
        given = orjson.loads(orjson.dumps(status))
        key = Key(kind, namespace, name)
        return self._parsed(self._writes.patch(key, lambda body: {**body, "status": given}, manager, "status"))

    def delete(self, kind: Kind, namespace: str, name: str, *, propagation: str = "", uid: str = "") -> None:
        """Delete as a user would; the kind's default policy unless *propagation* says otherwise."""
        options: dict[str, Any] = {"propagationPolicy": propagation} if propagation else {}
        if uid:
            options["preconditions"] = {"uid": uid}
        self._deletes.delete(Key(kind, namespace, name), options)

    def finish_grace(self, stored: Stored) -> None:
        """End a terminating pod, as its kubelet reports it gone."""
        self._deletes.finish_grace(stored.key, stored.uid)

    def compact(self) -> None:
        """Forget history and continue tokens: older watches and chunked lists get 410."""
        self.store.compact()
        self._reads.expire_tokens()

    def cut_watches(self, kind: Kind | None = None, *, cleanly: bool = False) -> int:
        """Break all running watches (of *kind*). Returns how many."""
        chosen = [watch for watch in self._watches if kind is None or watch.kind == kind]
        for watch in chosen:
            watch.cut(cleanly=cleanly)
        return len(chosen)

    def _kind_of(self, manifest: Mapping[str, Any]) -> Kind:
        kind = self.registry.by_kind(manifest.get("apiVersion", ""), manifest.get("kind", ""))
        if kind is None:
            raise LookupError(f"{manifest.get('apiVersion')} {manifest.get('kind')} is not served")
        return kind

    @staticmethod
    def _parsed(outcome: Outcome) -> dict[str, Any]:
        parsed: dict[str, Any] = orjson.loads(outcome.raw)
        return parsed

    # -- requests

    def record(
        self,
        subject: Subject,
        params: Mapping[str, str],
        status: int,
        fault: str = "",
        outcome: Outcome | None = None,
    ) -> None:
        """Note one request; *status* 0 when it got no answer."""
        if subject.resource != "leases":
            self.steps.requests += 1
        self.calls.append(
            Call(
                verb=subject.verb,
                group=subject.group,
                resource=subject.resource,
                subresource=subject.subresource,
                namespace=subject.namespace,
                name=subject.name,
                status=status,
                manager=params.get("fieldManager", subject.client),
                client=subject.client,
                at=self.clock.elapsed(),
                fault=fault,
                created=outcome is not None and outcome.created,
                changed=outcome is not None and outcome.changed,
            )
        )

    def handle(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        client: str = "client",
        fault: str = "",
        unanswered: bool = False,
    ) -> Response:
        """Answer one request, atomically. *fault* and *unanswered* only change what is recorded."""
        params = params or {}
        subject = subject_of(method, path, params, content_type, client)
        outcome: Outcome | None = None
        self.acting = client
        try:
            self._access.check(subject)
            result = self._dispatch(method, path, params, body, content_type, subject)
            if isinstance(result, Outcome):
                outcome = result
                response = Response(outcome.code, outcome.raw, JSON_HEADERS)
            else:
                response = Response(200, result, JSON_HEADERS)
        except (APIError, NoSuchPath) as error:
            response = error.response()
        finally:
            self.acting = ""
        self.record(subject, params, 0 if unanswered else response.status, fault, outcome)
        return response

    def _find(self, path: str) -> tuple[paths.Target, Kind, Traits]:
        target = paths.parse(path)
        found = self.registry.find(target.group, target.version, target.plural) if target else None
        if target is None or found is None:
            if target is not None and not target.group:
                raise no_such_resource()
            raise NoSuchPath
        kind, traits = found
        wrong_scope = not kind.namespaced and target.namespace
        known = not target.subresource or (target.subresource == "status" and traits.status)
        if wrong_scope or not (known or (target.subresource == RESIZE and kind == kinds.POD)):
            raise no_such_resource()
        return target, kind, traits

    def _dispatch(
        self,
        method: str,
        path: str,
        params: Mapping[str, str],
        body: bytes | None,
        content_type: str,
        subject: Subject,
    ) -> bytes | Outcome:
        special = self._special(method, path, body, subject)
        if special is not None:
            return special
        target, kind, _ = self._find(path)
        key = Key(kind, target.namespace, target.name)
        dry_run = params.get("dryRun") == "All"
        manager = params.get("fieldManager", "")
        if kind.namespaced and not target.namespace and (target.name or method == "POST"):
            raise no_such_resource() if target.name else method_not_allowed()
        match method, bool(target.name):
            case "GET", True:
                return self._reads.get(key)
            case "GET", False:
                return self._reads.page(kind, target.namespace or None, params, self.now())
            case "POST", False:
                return self._writes.create(
                    kind, target.namespace, _parse(body), manager or subject.client, dry_run=dry_run
                )
            case "PUT", True:
                return self._writes.update(
                    key, _parse(body), manager or subject.client, target.subresource, dry_run=dry_run
                )
            case "PATCH", True:
                return self._patch(key, params, _parse(body), content_type, target.subresource, subject.client)
            case "DELETE", True:
                return self._deletes.delete(key, _delete_options(params, body))
            case "DELETE", False:
                return self._delete_collection(kind, target.namespace, params, body)
        raise method_not_allowed()

    def _patch(
        self, key: Key, params: Mapping[str, str], body: Any, content_type: str, subresource: str, client: str
    ) -> Outcome:
        manager = params.get("fieldManager", "")
        dry_run = params.get("dryRun") == "All"
        content_type = content_type.split(";", 1)[0].strip()
        force = params.get("force", "").lower() in ("1", "true")
        if content_type == APPLY_PATCH:
            return self._writes.apply(key, body, manager, subresource, force=force, dry_run=dry_run)
        if "force" in params:
            cause = ("FieldValueForbidden", "force", "Forbidden: may not be specified for non-apply patch")
            raise invalid(Kind("meta.k8s.io", "v1", "patchoptions", "PatchOptions"), "", cause)
        if content_type == MERGE_PATCH:
            return self._writes.patch(
                key, lambda obj: merge.merge_patch(obj, body), manager or client, subresource, dry_run=dry_run
            )
        if content_type == JSON_PATCH:
            return self._writes.patch(
                key, lambda obj: merge.json_patch(obj, body), manager or client, subresource, dry_run=dry_run
            )
        raise unsupported_media_type(content_type)

    def _delete_collection(self, kind: Kind, namespace: str, params: Mapping[str, str], body: bytes | None) -> bytes:
        options = _delete_options(params, body)
        listed = self._reads.page(kind, namespace or None, params, self.now())
        for item in orjson.loads(listed)["items"]:
            metadata = item["metadata"]
            self._deletes.delete(Key(kind, metadata.get("namespace", ""), metadata["name"]), options)
        return listed

    def _special(self, method: str, path: str, body: bytes | None, subject: Subject) -> bytes | Outcome | None:
        """Discovery, health and access reviews."""
        if method == "GET":
            if path.strip("/") in ("healthz", "livez", "readyz"):
                return b"ok"
            found = self._reads.discover(path)
            return None if found is None else orjson.dumps(found)
        if method == "POST" and (subject.group, subject.resource) == REVIEW:
            return self._access.review(_parse(body), subject.client)
        return None

    # -- watches

    def open_watch(
        self, path: str, params: Mapping[str, str], client: str, fault: str = ""
    ) -> tuple[int, bytes | Watch]:
        """The stream to read from, or the refusal's code and body. Streams are registered with `watching`."""
        subject = subject_of("GET", path, {**params, "watch": "1"}, JSON, client)
        try:
            self._access.check(subject)
            target, kind, _ = self._find(path)
            options = read_options(kind, target.namespace or None, params, self.random)
            watch = Watch(self.store, options)
        except (APIError, NoSuchPath) as error:
            response = error.response()
            self.record(subject, params, response.status, fault)
            return response.status, response.body
        self.record(subject, params, 200, fault)
        self._watches[watch] = None
        return 200, watch

    def close_watch(self, watch: Watch) -> None:
        self._watches.pop(watch, None)


def _parse(body: bytes | None) -> Any:
    try:
        return orjson.loads(body or b"")
    except orjson.JSONDecodeError as error:
        raise bad_request(f"the object provided is not JSON: {error}") from error


def _delete_options(params: Mapping[str, str], body: bytes | None) -> dict[str, Any]:
    options: dict[str, Any] = _parse(body) if body else {}
    if "propagationPolicy" in params:
        options.setdefault("propagationPolicy", params["propagationPolicy"])
    if "gracePeriodSeconds" in params:
        options.setdefault("gracePeriodSeconds", int(params["gracePeriodSeconds"]))
    return options
