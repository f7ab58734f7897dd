"""What delete does: at once, or after finalizers and a pod's grace period, with preconditions and propagation policies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from kuberay.api import kinds

from kuberay_testkit.sim.environment import Environment, Outcome, check_preconditions, stamp
from kuberay_testkit.sim.status import conflict, not_found
from kuberay_testkit.sim.store import Key, Stored

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class Deletes:
    """The delete verb over one store."""

    def __init__(self, env: Environment) -> None:
        self._env = env

    def delete(self, key: Key, options: Mapping[str, Any]) -> Outcome:
        """DELETE. *options* is a ``DeleteOptions`` body. Raises 404, 409 when a precondition does not hold."""
        kind, traits = key.kind, self._env.registry.traits(key.kind)
        stored = self._env.store.get(key)
        if stored is None:
            raise not_found(kind, key.name)
        check_preconditions(stored, self._delete_preconditions(stored, options))
        policy = options.get("propagationPolicy") or traits.default_propagation
        grace = self._grace_of(stored, options)
        finalizers = list(stored.metadata.get("finalizers") or [])
        if not stored.deleting:
            finalizers = [item for item in finalizers if item not in (FOREGROUND, ORPHAN)]
            if policy == "Foreground":
                finalizers.append(FOREGROUND)
            elif policy == "Orphan":
                finalizers.append(ORPHAN)
        # A namespace goes when the namespace controller has emptied it.
        if not finalizers and not grace and kind != kinds.NAMESPACE:
            if kind == kinds.POD and not stored.deleting:
                # Pods are told to terminate even when nothing is left to wait for.
                ending = stored.copy()
                ending["metadata"].update(deletionTimestamp=stamp(self._env.now()), deletionGracePeriodSeconds=0)
                ending["metadata"]["generation"] += 1
                stored = self._env.store.put(key, ending, stored.claims)
            last = self._env.store.remove(stored)
            if traits.returns_deleted:
                return Outcome(200, last.raw)
            details = {"name": key.name, "kind": kind.plural, "uid": stored.uid}
            if kind.group:
                details["group"] = kind.group
            body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
            return Outcome(200, orjson.dumps(body))
        changed = stored.copy()
        metadata = changed["metadata"]
        metadata["finalizers"] = finalizers
        if not finalizers:
            del metadata["finalizers"]
        if not stored.deleting:
            metadata["deletionTimestamp"] = stamp(self._env.now())
            metadata["deletionGracePeriodSeconds"] = int(grace)
            if "generation" in metadata:
                metadata["generation"] += 1
            if kind == kinds.NAMESPACE:
                changed["status"] = {"phase": "Terminating"}
        elif not grace and metadata.get("deletionGracePeriodSeconds"):
            metadata["deletionGracePeriodSeconds"] = 0
        else:
            return Outcome(200, stored.raw, changed=False)
        return Outcome(200, self._env.store.put(key, changed, stored.claims).raw)

    @staticmethod
    def _delete_preconditions(stored: Stored, options: Mapping[str, Any]) -> dict[str, Any]:
        wanted: Mapping[str, Any] = options.get("preconditions") or {}
        version = wanted.get("resourceVersion")
        current = stored.metadata["resourceVersion"]
        if version and version != current:
            why = (
                f"Precondition failed: ResourceVersion in precondition: {version}, "
                f"ResourceVersion in object meta: {current}"
            )
            raise conflict(stored.key.kind, stored.key.name, why)
        return {"uid": wanted.get("uid")}

    def _grace_of(self, stored: Stored, options: Mapping[str, Any]) -> float:
        if stored.key.kind != kinds.POD or not self._env.pod_grace:
            return 0.0
        given = options.get("gracePeriodSeconds")
        phase = (stored.body.get("status") or {}).get("phase")
        if phase in ("Succeeded", "Failed"):
            return 0.0
        return self._env.pod_grace if given is None else min(float(given), self._env.pod_grace)

    def finish_grace(self, key: Key, uid: str) -> None:
        """End a terminating pod whose grace period is over, unless finalizers hold it."""
        stored = self._env.store.get(key)
        if stored is None or stored.uid != uid or not stored.deleting:
            return
        if not stored.metadata.get("finalizers"):
            self._env.store.remove(stored)
            return
        if stored.metadata.get("deletionGracePeriodSeconds") == 0:
            # Said already; a change that changes nothing would be news for ever, and time would stand still.
            return
        body = stored.copy()
        body["metadata"]["deletionGracePeriodSeconds"] = 0
        self._env.store.put(key, body, stored.claims)
