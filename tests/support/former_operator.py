"""A cluster as KubeRay left it: recorded cases with their masks filled in, their owners and what was running at the time.

What is loaded is what KubeRay 1.7 made; nothing of it is asked of this operator. See `core/tests/data/golden/README.md`.
"""

from __future__ import annotations

import base64
import copy
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from golden_scope import folder
from kuberay_testkit.golden import DELETE_ANNOTATION, GoldenCase, Manifest, load_case, main_key

VERSION = "v1.7.0"
"""Of KubeRay, as it notes it on what it makes."""
TIME = "2025-12-31T23:59:00Z"
"""When whatever is recorded happened."""
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_CLUSTER_SUFFIX = "k7x2p"
_HASH = {
    "ray.io/upgrade-strategy-recreate-hash": "C9PNAH0SPO2RPS0G7D4FBJRC1HQK2KNL",
    "ray.io/hash-without-replicas-and-workers-to-delete": "JQ5A9B1NSQKMRL94L5OPDLHFNLI0R6UT",
}
_SCRIPT_CHECK = re.compile(r'<script: loop until "(?P<check>ray health-check [^"]*)" succeeds>')
_SCRIPT = re.compile(r"<script: .*>")
_ORDER = ("ServiceAccount", "Role", "RoleBinding", "Secret", "PersistentVolumeClaim")
_LAST = ("Job", "Pod")


class Loader(Protocol):
    """Where the objects are put: the simulated server or a real one."""

    async def create(self, manifest: Manifest) -> Manifest:
        """The object as it is stored, with its uid."""

    async def running(self) -> dict[str, str]:
        """Once all pods that were created run and are ready: their addresses by name."""

    async def set_status(self, manifest: Manifest, status: Mapping[str, Any]) -> None:
        """Replace the status of an object that was created."""


class Recorded:
    """One recorded case. *name* is as in `golden_scope`; all of it goes into *namespace*."""

    def __init__(self, name: str, namespace: str = "") -> None:
        self.case: GoldenCase = load_case(folder(name))
        self.namespace = namespace or self.case.namespace
        self.kind, self.name = main_key([document for step in self.case.steps for document in step])
        self.head = ""
        """Name of the head pod, where there is one."""
        self._suffixes = itertools.product(_ALPHABET, repeat=2)
        self._replicas: dict[tuple[str, str], str] = {}
        self._uids: dict[tuple[str, str], str] = {}
        self._made: dict[tuple[str, str], Manifest] = {}

    @property
    def cluster(self) -> str:
        """Name of the RayCluster that KubeRay made for a RayJob or RayService."""
        return f"{self.name}-{_CLUSTER_SUFFIX}"

    def documents(self) -> list[Manifest]:
        """What users had applied in the end."""
        last: dict[tuple[str, str], Manifest] = {}
        for document in (document for step in self.case.steps for document in step):
            key = (document["kind"], document["metadata"]["name"])
            last[key] = document
            if DELETE_ANNOTATION in document["metadata"].get("annotations", {}):
                del last[key]
        documents = [copy.deepcopy(document) for document in last.values()]
        for document in documents:
            document["metadata"]["namespace"] = self.namespace
        main = next(each for each in documents if each["kind"] == self.kind and each["metadata"]["name"] == self.name)
        finalizers = [each for each in self.case.expected.get("finalizers") or () if not each.startswith("(")]
        if finalizers:
            main["metadata"]["finalizers"] = finalizers
            # KubeRay writes the whole object when it adds its finalizer, and its encoder adds what is empty.
            spec = main["spec"]
            config = spec.get("rayClusterSpec") or spec.get("rayClusterConfig") or {}
            for group in (config.get("headGroupSpec"), *(config.get("workerGroupSpecs") or ())):
                if group is not None:
                    group.setdefault("rayStartParams", {})
        return documents

    async def load(self, into: Loader, extra: Sequence[Manifest] = (), **status: Any) -> None:
        """Create everything, then write the statuses that KubeRay had written; *status* replaces fields of the main
        object's, and *extra* are children that the recording does not have, in its form."""
        for document in self.documents():
            await self._create(into, document)
        children = [*(self.case.expected.get("children") or ()), *copy.deepcopy(list(extra))]
        for child in sorted(children, key=_rank):
            filled = self._filled(child)
            filled["metadata"]["namespace"] = self.namespace
            for owner in filled["metadata"].get("ownerReferences") or ():
                owner["uid"] = self._uids[owner["kind"], owner["name"]]
            if filled["kind"] == "Pod" and filled["metadata"].get("labels", {}).get("ray.io/node-type") == "head":
                self.head = filled["metadata"]["name"]
            await self._create(into, filled)
        addresses = await into.running()
        ip = addresses.get(self.head, "")
        told = self._filled({"status": {**self.case.expected.get("status", {}), **status}}, ip)["status"]
        below = self._made.get(("RayCluster", self.cluster))
        copied = self.cluster_status(below, ip) if below is not None and self.head else {}
        told = _with_copy(told, copied)
        if below is not None:
            await into.set_status(below, copied)
        if "head" in told and ip:
            told["head"]["serviceIP"] = self._service_address(told["head"]["serviceName"], ip)
        if "<nodeport>" in (told.get("endpoints") or {}).values():
            told["endpoints"] = self._node_ports(told["head"]["serviceName"])
        main = self._made[self.kind, self.name]
        generation = main["metadata"].get("generation", 1)
        await into.set_status(main, _with_generation(told, generation))

    def cluster_status(self, cluster: Manifest, ip: str) -> dict[str, Any]:
        """The status of a RayCluster of which all runs: the recorded one, for the groups that *cluster* has."""
        recorded = load_case(folder("raycluster/gcsft-value")).expected["status"]
        status: dict[str, Any] = self._filled({"status": recorded}, ip)["status"]
        service = next(
            name for kind, name in self._made if kind == "Service" and name in (f"{self.cluster}-head-svc", "job-front")
        )
        address = self._service_address(service, ip)
        status["head"] = {"podIP": ip, "podName": self.head, "serviceIP": address, "serviceName": service}
        groups = cluster["spec"].get("workerGroupSpecs") or ()
        workers = sum(int(group.get("replicas") or 0) * int(group.get("numOfHosts") or 1) for group in groups)
        for key in ("availableWorkerReplicas", "desiredWorkerReplicas", "readyWorkerReplicas"):
            status[key] = workers
        # Every pod of these cases asks for one CPU and 2 GiB; a submitter beside the head for half a CPU and 200 MiB.
        status["desiredCPU"], status["desiredMemory"] = str(1 + workers), f"{2 * (1 + workers)}Gi"
        if len(cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"]) > 1:
            status["desiredCPU"], status["desiredMemory"] = f"{1500 + 1000 * workers}m", f"{2248 + 2048 * workers}Mi"
        for key, bound in (("maxWorkerReplicas", "maxReplicas"), ("minWorkerReplicas", "minReplicas")):
            status[key] = sum(int(group[bound]) * int(group.get("numOfHosts") or 1) for group in groups)
        return _with_generation(status, 1)

    def _service_address(self, name: str, ip: str) -> str:
        address = self._made["Service", name]["spec"].get("clusterIP")
        return ip if address in (None, "None") else str(address)

    def _node_ports(self, service: str) -> dict[str, str]:
        ports = self._made["Service", service]["spec"]["ports"]
        return {port["name"]: str(port.get("nodePort") or port["port"]) for port in ports}

    async def _create(self, into: Loader, manifest: Manifest) -> None:
        stored = await into.create(manifest)
        key = (manifest["kind"], manifest["metadata"]["name"])
        self._uids[key] = stored["metadata"]["uid"]
        self._made[key] = stored

    def _filled(self, recorded: Manifest, ip: str = "") -> Manifest:
        """*recorded* with something where there are masks."""
        labels = recorded.get("metadata", {}).get("labels") or {}
        replica = (labels.get("ray.io/group", ""), labels.get("ray.io/worker-group-replica-index", ""))
        own = recorded.get("metadata", {}).get("name", "")

        def text(value: str, key: str) -> str:
            if key in _HASH:
                return _HASH[key]
            value = value.replace(f"{self.name}-<rand>", self.cluster)
            if "<script" in value:
                check = _SCRIPT_CHECK.search(value)
                value = f"until {check['check']}; do sleep 5; done" if check else _SCRIPT.sub("true", value)
            if key == "ray.io/worker-group-replica-name":
                value = value.replace("<rand>", self._replicas.setdefault(replica, self._suffix()))
            if key == "podName":
                return self.head
            uid = self._uids.get(("RayCluster", self.cluster)) or self._uids.get((self.kind, self.name), "")
            for mask, meaning in (
                ("<version>", VERSION),
                ("<time>", TIME),
                ("<ip>", ip),
                ("<uid8>", uid[:8]),
                ("<uid>", uid),
                ("<index>", "0"),
                (f"g-{self.case.name}", self.namespace),
                ("<masked>", base64.b64encode(b"recorded").decode()),
            ):
                value = value.replace(mask, meaning)
            return value

        def walk(value: Any, key: str = "") -> Any:
            if isinstance(value, Mapping):
                return {name: walk(item, name) for name, item in value.items()}
            if isinstance(value, list):
                return [walk(item, key) for item in value]
            return text(value, key) if isinstance(value, str) else value

        filled: Manifest = walk(recorded)
        if "<rand>" in own.replace(f"{self.name}-<rand>", ""):
            filled["metadata"]["name"] = filled["metadata"]["name"].replace("<rand>", self._suffix())
        return filled

    def _suffix(self) -> str:
        return "m4z" + "".join(next(self._suffixes))


def _rank(child: Manifest) -> int:
    kind = child["kind"]
    if kind.startswith("Ray"):
        return 0
    return 1 if kind in _ORDER else 3 if kind in _LAST else 2


def _with_copy(status: dict[str, Any], copied: Mapping[str, Any]) -> dict[str, Any]:
    """*status* with the status of its RayCluster where that was masked; the empty one where none is named."""
    named = "rayClusterName" in status
    return {
        key: (copied if named else {})
        if isinstance(value, str) and value.startswith("<copy")
        else _with_copy(value, copied)
        if isinstance(value, dict)
        else value
        for key, value in status.items()
    }


def _with_generation(status: dict[str, Any], generation: int) -> dict[str, Any]:
    """*status*, whose every ``observedGeneration`` of the recording is *generation*."""

    def walk(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: generation if key == "observedGeneration" else walk(item) for key, item in value.items()}
        return [walk(item) for item in value] if isinstance(value, list) else value

    found: dict[str, Any] = walk(status)
    return found
