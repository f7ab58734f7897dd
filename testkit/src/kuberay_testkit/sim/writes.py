"""What create, update, patch, apply and delete do to stored objects, with the API server's preconditions and codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import orjson
from kuberay.api import kinds
from kuberay.api.kinds import Kind
from kuberay.api.names import SAFE_ALPHABET

from kuberay_testkit.sim import admission, fields, ownership
from kuberay_testkit.sim.environment import Environment, Outcome, check_preconditions, check_version, stamp
from kuberay_testkit.sim.ownership import Claim, Manager
from kuberay_testkit.sim.registry import Traits
from kuberay_testkit.sim.resize import RESIZE, resized
from kuberay_testkit.sim.status import (
    APIError,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
)
from kuberay_testkit.sim.store import Key, Stored


def _identify(kind: Kind, key: Key, body: Any) -> dict[str, Any]:
    """Check that *body* is an object of *kind* for *key*, and give it its namespace."""
    if not isinstance(body, dict):
        raise bad_request("json: cannot unmarshal into Go value: the body is not an object")
    # What the body does not say, the path says.
    body["kind"] = body.get("kind") or kind.kind
    body["apiVersion"] = body.get("apiVersion") or kind.api_version
    if (body["kind"], body["apiVersion"]) != (kind.kind, kind.api_version):
        given = f'{body["kind"]} in version "{body["apiVersion"]}"'
        raise bad_request(f"{given} cannot be handled as a {kind.kind}: no such kind is registered for that version")
    metadata = body.get("metadata")
    if metadata is None:
        metadata = body["metadata"] = {}
    if not isinstance(metadata, dict):
        raise bad_request("metadata is not an object")
    if kind.namespaced:
        if metadata.get("namespace") not in (None, "", key.namespace):
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        metadata["namespace"] = key.namespace
    else:
        metadata.pop("namespace", None)
    if key.name and metadata.get("name") not in (None, "", key.name):
        raise bad_request(
            f"the name of the object ({metadata.get('name')}) does not match the name on the URL ({key.name})"
        )
    return body


def _drop_nulls(body: dict[str, Any]) -> dict[str, Any]:
    """JSON nulls mean absent in typed objects and are pruned from custom ones."""
    if b"null" not in orjson.dumps(body):
        return body
    without: dict[str, Any] = _without_nulls(body)
    return without


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _ordered(body: Mapping[str, Any]) -> dict[str, Any]:
    """apiVersion, kind and metadata first, status last, as the server serialises."""
    first = ("apiVersion", "kind", "metadata")
    ordered = {key: body[key] for key in first if key in body}
    ordered.update({k: v for k, v in body.items() if k not in first and k != "status"})
    if "status" in body:
        ordered["status"] = body["status"]
    return ordered


class Writes:
    """All mutating verbs over one store. Every method commits at most one object (deletecollection: each)."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._services = 0

    # -- create

    def create(self, kind: Kind, namespace: str, body: Any, manager: str, *, dry_run: bool = False) -> Outcome:
        """POST. Raises 409 AlreadyExists, 422 for what validation refuses, 403 in a terminating namespace."""
        body = _drop_nulls(_identify(kind, Key(kind, namespace, ""), body))
        metadata = body["metadata"]
        if metadata.get("resourceVersion"):
            raise APIError(500, "", "resourceVersion should not be set on objects to be created")
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = self._generate(kind, namespace, metadata["generateName"])
        stored = self._insert(kind, namespace, body, Manager(manager, "Update", kind.api_version), dry_run=dry_run)
        return Outcome(201, stored.raw, created=True)

    def _generate(self, kind: Kind, namespace: str, prefix: str) -> str:
        # The server keeps generated names within 63 characters.
        for _ in range(8):
            name = prefix[:58] + "".join(self._env.random.choice(SAFE_ALPHABET) for _ in range(5))
            if self._env.store.get(Key(kind, namespace, name)) is None:
                break
        return name

    def _insert(
        self,
        kind: Kind,
        namespace: str,
        body: dict[str, Any],
        manager: Manager,
        claims: dict[Manager, Claim] | None = None,
        *,
        dry_run: bool = False,
    ) -> Stored:
        env, traits = self._env, self._env.registry.traits(kind)
        metadata = body["metadata"]
        for field in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            metadata.pop(field, None)
        metadata.pop("managedFields", None)
        metadata.pop("generation", None)
        admission.check_metadata(kind, traits, body)
        key = Key(kind, namespace, metadata["name"])
        if env.store.get(key) is not None:
            raise already_exists(kind, key.name)
        self._check_namespace(kind, key)
        now = stamp(env.now())
        metadata["uid"] = str(UUID(int=env.random.getrandbits(128), version=4))
        metadata["creationTimestamp"] = now
        if traits.generation:
            metadata["generation"] = 1
        if traits.status:
            body.pop("status", None)
        self._complete(kind, body)
        status = admission.first_status(kind)
        if status is not None:
            body["status"] = status
        self._check(kind, body)
        if claims is None:
            claims = ownership.after_update({}, self._claimable(kind, body), {}, manager, now)
        if dry_run:
            return Stored(key, _ordered(body), claims, 0)
        return env.store.put(key, _ordered(body), claims)

    @staticmethod
    def _claimable(kind: Kind, body: Mapping[str, Any]) -> dict[str, Any]:
        """What a creator owns: all but the status and what the server allocates."""
        mine = {key: value for key, value in body.items() if key != "status"}
        if kind == kinds.SERVICE:
            allocated = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
            mine["spec"] = {key: value for key, value in body["spec"].items() if key not in allocated}
        return mine

    def _check_namespace(self, kind: Kind, key: Key) -> None:
        """Namespaces exist implicitly; only one that is being deleted refuses new objects."""
        if not kind.namespaced:
            return
        namespace = self._env.store.get(Key(kinds.NAMESPACE, "", key.namespace))
        if namespace is not None and namespace.deleting:
            why = f"unable to create new content in namespace {key.namespace} because it is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {key.namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise forbidden(kind, key.name, why, causes=[cause])

    def _complete(self, kind: Kind, body: dict[str, Any]) -> None:
        if kind == kinds.SERVICE and not (body.get("spec") or {}).get("clusterIP"):
            self._services += 1
        number = self._services
        admission.set_defaults(kind, body, cluster_ip=f"10.96.{number // 250}.{number % 250 + 1}")

    def _check(self, kind: Kind, body: Mapping[str, Any]) -> None:
        admission.check_spec(kind, body)
        if kind == kinds.POD:
            account = (body.get("spec") or {}).get("serviceAccountName", "default")
            namespace, name = body["metadata"]["namespace"], body["metadata"]["name"]
            if account != "default" and self._env.store.get(Key(kinds.SERVICE_ACCOUNT, namespace, account)) is None:
                why = f'error looking up service account {namespace}/{account}: serviceaccount "{account}" not found'
                raise forbidden(kind, name, why)
        for wanted, admit in self._env.admissions:
            if wanted is None or wanted == kind:
                admit(kind, body)

    # -- change

    def update(self, key: Key, body: Any, manager: str, subresource: str = "", *, dry_run: bool = False) -> Outcome:
        """PUT. Raises 404, 409 on another resourceVersion or uid, 422 when the resourceVersion is missing where needed."""
        kind, traits = key.kind, self._env.registry.traits(key.kind)
        body = _drop_nulls(_identify(kind, key, body))
        metadata = body["metadata"]
        metadata.setdefault("name", key.name)
        stored = self._env.store.get(key)
        version = metadata.get("resourceVersion") or ""
        if stored is None:
            if traits.create_on_update and not subresource and not version:
                made = self._insert(kind, key.namespace, body, Manager(manager, "Update", kind.api_version))
                return Outcome(201, made.raw, created=True)
            raise not_found(kind, key.name)
        if not version and not traits.unconditional_update:
            text = "Invalid value: 0: must be specified for an update"
            raise invalid(kind, key.name, ("FieldValueInvalid", "metadata.resourceVersion", text))
        check_preconditions(stored, metadata)
        return self._replace(stored, body, manager, subresource, dry_run=dry_run)

    def patch(
        self,
        key: Key,
        change: Callable[[dict[str, Any]], Any],
        manager: str,
        subresource: str = "",
        *,
        dry_run: bool = False,
    ) -> Outcome:
        """A merge or JSON patch; *change* gets a copy of the object and returns the new one."""
        stored = self._env.store.get(key)
        if stored is None:
            raise not_found(key.kind, key.name)
        body = change(stored.copy())
        body = _drop_nulls(_identify(key.kind, key, body))
        check_version(stored, body["metadata"])
        self._check_uid(stored, body["metadata"], subresource)
        return self._replace(stored, body, manager, subresource, dry_run=dry_run)

    def apply(
        self,
        key: Key,
        config: Any,
        manager: str,
        subresource: str = "",
        *,
        force: bool = False,
        dry_run: bool = False,
    ) -> Outcome:
        """Server-side apply: creates or changes. Raises 409 for conflicts, a foreign uid or resourceVersion."""
        kind, traits = key.kind, self._env.registry.traits(key.kind)
        if not manager:
            cause = ("FieldValueRequired", "fieldManager", "Required value: is required for apply patch")
            raise invalid(Kind("meta.k8s.io", "v1", "patchoptions", "PatchOptions"), "", cause)
        config = _drop_nulls(_identify(kind, key, config))
        given = config["metadata"]
        if not given.get("name"):
            raise bad_request(f"name of the object ({key.name} based on URL) was undeterminable: name must be provided")
        if given.get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        stored = self._env.store.get(key)
        wanted = self._applicable(config, traits, subresource)
        who = Manager(manager, "Apply", kind.api_version, subresource)
        now = stamp(self._env.now())
        if stored is None:
            if subresource:
                raise not_found(kind, key.name)
            if given.get("uid"):
                why = (
                    f"uid mismatch: the provided object specified uid {given['uid']}, and no existing object was found"
                )
                raise conflict(kind, key.name, why)
            _, claims = ownership.apply(b"{}", wanted, {}, who, force=force, now=now)
            made = self._insert(kind, key.namespace, config, who, claims, dry_run=dry_run)
            return Outcome(201, made.raw, created=True)
        check_version(stored, given)
        if traits.custom:
            ownership.check_emptied(kind, key.name, wanted, stored.claims, who)
        body, claims = ownership.apply(stored.raw, wanted, stored.claims, who, force=force, now=now)
        self._check_uid(stored, given, subresource)
        return self._commit(stored, body, claims, subresource, dry_run=dry_run)

    def _check_uid(self, stored: Stored, metadata: Mapping[str, Any], subresource: str) -> None:
        """A patch may not change the uid; on the status of a custom kind the server does not even look."""
        uid = metadata.get("uid")
        if uid in (None, "", stored.uid) or (subresource and self._env.registry.traits(stored.key.kind).custom):
            return
        cause = ("FieldValueInvalid", "metadata.uid", f'Invalid value: "{uid}": field is immutable')
        raise invalid(stored.key.kind, stored.key.name, cause)

    @staticmethod
    def _applicable(config: Mapping[str, Any], traits: Traits, subresource: str) -> dict[str, Any]:
        """The part of an applied configuration that this endpoint may set."""
        wanted = fields.ownable(config)
        if subresource == "status":
            return {"status": wanted["status"]} if "status" in wanted else {}
        if traits.status:
            wanted.pop("status", None)
        return wanted

    def _replace(
        self, stored: Stored, body: dict[str, Any], manager: str, subresource: str, *, dry_run: bool
    ) -> Outcome:
        """Commit *body* over *stored*, keeping what this endpoint may not change."""
        traits = self._env.registry.traits(stored.key.kind)
        if subresource == "status":
            body = self._only_status(stored, body, traits)
        elif subresource == RESIZE:
            body = resized(stored, body)
        elif traits.status:
            body.pop("status", None)
            if "status" in stored.body:
                body["status"] = stored.copy()["status"]
        self._keep_identity(stored, body)
        if not subresource:
            if stored.key.kind == kinds.SERVICE:
                # What the server allocated stays when a client leaves it out.
                body.setdefault("spec", {}).setdefault("clusterIP", stored.body["spec"].get("clusterIP"))
            self._complete(stored.key.kind, body)
        who = Manager(manager, "Update", stored.key.kind.api_version, subresource)
        claims = ownership.after_update(stored.body, body, stored.claims, who, stamp(self._env.now()))
        return self._commit(stored, body, claims, subresource, dry_run=dry_run)

    @staticmethod
    def _only_status(stored: Stored, body: dict[str, Any], traits: Traits) -> dict[str, Any]:
        kept = stored.copy()
        kept.pop("status", None)
        if "status" in body:
            kept["status"] = body["status"]
        if not traits.custom:
            # Built-in kinds let a status write change labels and annotations, but never owners.
            for field in ("labels", "annotations"):
                if field in body["metadata"]:
                    kept["metadata"][field] = body["metadata"][field]
        return kept

    def _commit(
        self,
        stored: Stored,
        body: dict[str, Any],
        claims: dict[Manager, Claim],
        subresource: str,
        *,
        dry_run: bool = False,
    ) -> Outcome:
        env, key = self._env, stored.key
        traits = env.registry.traits(key.kind)
        self._keep_identity(stored, body)
        if not subresource:
            self._complete(key.kind, body)
        unchanged = {k: v for k, v in body["metadata"].items() if k != "managedFields"} == {
            k: v for k, v in stored.metadata.items() if k != "managedFields"
        } and all(body.get(k) == stored.body.get(k) for k in (body.keys() | stored.body.keys()) - {"metadata"})
        if unchanged and ownership.same_claims(claims, stored.claims):
            return Outcome(200, stored.raw, changed=False)
        if not subresource:
            admission.check_metadata(key.kind, traits, body)
            admission.check_change(key.kind, stored.body, body)
            self._check(key.kind, body)
        if traits.generation and not subresource and self._spec_changed(stored.body, body):
            body["metadata"]["generation"] = int(stored.metadata.get("generation", 0)) + 1
        if dry_run:
            return Outcome(200, Stored(key, _ordered(body), claims, stored.rv).raw, changed=False)
        if stored.deleting and not body["metadata"].get("finalizers") and self._grace_over(stored):
            # The last finalizer went: the object ends with this write.
            # Watchers see the version before this write; the writer gets its own back.
            env.store.remove(stored)
            return Outcome(200, Stored(key, _ordered(body), claims, env.store.rv).raw)
        return Outcome(200, env.store.put(key, _ordered(body), claims).raw)

    @staticmethod
    def _keep_identity(stored: Stored, body: dict[str, Any]) -> None:
        old, new = stored.metadata, body.setdefault("metadata", {})
        for field in (
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "generation",
            "generateName",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ):
            if field in old:
                new[field] = old[field]
            else:
                new.pop(field, None)
        for field in ("labels", "annotations", "finalizers", "ownerReferences"):
            if field in new and not new[field]:
                del new[field]
        if stored.deleting:
            # Nothing may add finalizers once deletion has begun.
            allowed = old.get("finalizers") or []
            extra = [item for item in new.get("finalizers") or [] if item not in allowed]
            if extra:
                text = f"Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers {extra}"
                raise invalid(stored.key.kind, stored.key.name, ("FieldValueForbidden", "metadata.finalizers", text))

    @staticmethod
    def _spec_changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
        names = (old.keys() | new.keys()) - {"metadata", "status", "apiVersion", "kind"}
        return any(old.get(name) != new.get(name) for name in names)

    def _grace_over(self, stored: Stored) -> bool:
        return not int(stored.metadata.get("deletionGracePeriodSeconds") or 0)
