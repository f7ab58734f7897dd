"""Which objects ``kuberay migrate check`` looks at: those of a cluster, or those of files, as trees of what belongs together."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import yaml

from kuberay.api.kinds import (
    ENDPOINT_SLICE,
    INGRESS,
    JOB,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    RAYCLUSTER,
    RAYCRONJOB,
    RAYJOB,
    RAYSERVICE,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    Kind,
)
from kuberay.cli.manifests import UnreadableError
from kuberay.cli.migrate_check import Manifest, Place, Tree

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from kuberay.kube.client import Client

RAY_KINDS = (RAYCLUSTER, RAYJOB, RAYSERVICE, RAYCRONJOB)
LISTED = (*RAY_KINDS, POD, SERVICE, JOB, ENDPOINT_SLICE)
"""What is read as a whole; all else is looked up by name when a plan wants it, Secrets above all."""
_ALSO_IN_FILES = (SERVICE_ACCOUNT, ROLE, ROLE_BINDING, SECRET, INGRESS, PERSISTENT_VOLUME_CLAIM)


class Objects:
    """Everything that was read, and which objects were looked for in vain."""

    def __init__(self, found: Mapping[Place, Manifest], complete: Iterable[Kind]) -> None:
        """Of kinds in *complete* there is nothing else."""
        self.found = dict(found)
        self.complete = set(complete)
        self.absent: set[Place] = set()
        self.assumed: set[Place] = set()
        self._children: dict[tuple[str, str], list[Place]] = defaultdict(list)
        """By namespace and uid of the owner."""
        for place, body in self.found.items():
            for owner in body["metadata"].get("ownerReferences") or ():
                self._children[place[1], str(owner.get("uid"))].append(place)

    def ray_objects(self) -> list[Place]:
        """Every Ray object, those others belong to first."""
        order = (RAYCRONJOB, RAYSERVICE, RAYJOB, RAYCLUSTER)
        return sorted(
            (place for place in self.found if place[0] in RAY_KINDS), key=lambda p: (order.index(p[0]), p[1], p[2])
        )

    def tree(self, place: Place) -> Tree:
        """*place*, all that belongs to it, and the RayCluster it uses without owning it."""
        objects = {each: self.found[each] for each in self._below(place)}
        used = (self.found[place].get("status") or {}).get("rayClusterName")
        if used and (RAYCLUSTER, place[1], used) in self.found:
            objects |= {each: self.found[each] for each in self._below((RAYCLUSTER, place[1], used))}
        return Tree(place, objects, frozenset(self.absent), frozenset(self.assumed))

    def look_up(self, tree: Tree, wanted: Iterable[Place]) -> Tree:
        """*tree* with the objects in *wanted* that are there."""
        objects = {**tree.objects, **{place: self.found[place] for place in wanted if place in self.found}}
        return Tree(tree.place, objects, frozenset(self.absent), frozenset(self.assumed))

    def note(self, place: Place, body: Manifest | None) -> None:
        """*place* was looked for."""
        if body is None:
            self.absent.add(place)
        else:
            self.found[place] = body

    def settle(self, wanted: Iterable[Place]) -> None:
        """Decide about objects that cannot be looked for any more than they were."""
        for place in wanted:
            if place not in self.found and place not in self.absent:
                (self.absent if place[0] in self.complete else self.assumed).add(place)

    def _below(self, place: Place) -> Iterator[Place]:
        """*place* and what it owns, directly or not."""
        seen: set[Place] = set()
        waiting = [place]
        while waiting:
            each = waiting.pop()
            if each in seen:
                continue
            seen.add(each)
            yield each
            waiting += self._children.get((each[1], str(self.found[each]["metadata"].get("uid"))), ())


def from_files(files: Sequence[str], namespace: str, watched: Sequence[Kind]) -> Objects:
    """Objects in *files* (``-`` is stdin), YAML or JSON, lists taken apart. Raises `UnreadableError`."""
    kinds = {(kind.api_version, kind.kind): kind for kind in (*LISTED, *_ALSO_IN_FILES, *watched)}
    found: dict[Place, Manifest] = {}
    for file in files:
        for document in _documents(file):
            kind = kinds.get((str(document.get("apiVersion")), str(document.get("kind"))))
            metadata = document.get("metadata") or {}
            if kind is None or not metadata.get("name"):
                continue
            metadata.setdefault("namespace", namespace or "default")
            metadata.setdefault("uid", f"{kind.kind}/{metadata['namespace']}/{metadata['name']}")
            found[kind, metadata["namespace"], metadata["name"]] = document
    if not any(kind in RAY_KINDS for kind, _, _ in found):
        raise UnreadableError(f"There is no RayCluster, RayJob, RayService or RayCronJob in {', '.join(files)}.")
    return Objects(found, {kind for kind, _, _ in found} | {*RAY_KINDS, POD, SERVICE})


def _documents(file: str) -> Iterator[Manifest]:
    name = "standard input" if file == "-" else file
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        waiting = list(yaml.load_all(sys.stdin.read() if file == "-" else Path(file).read_text(), loader))
    except OSError as error:
        raise UnreadableError(f"Cannot read {file}: {error.strerror or error}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UnreadableError(f"{name} is not YAML: {' '.join(str(error).split())}") from error
    while waiting:
        document = waiting.pop(0)
        if isinstance(document, dict) and isinstance(document.get("items"), list):
            waiting += document["items"]
        elif isinstance(document, dict):
            yield document


@asynccontextmanager
async def connected(kubeconfig: str) -> AsyncIterator[Client]:
    """A client with the user's own credentials."""
    from kuberay.kube.client import Client
    from kuberay.kube.connection import connect
    from kuberay.kube.http import HttpTransport

    transport = HttpTransport(await connect(kubeconfig), user_agent="kuberay-migrate")
    try:
        yield Client(transport)
    finally:
        await transport.close()


async def from_cluster(client: Client, namespace: str | None, watched: Sequence[Kind]) -> Objects:
    """Everything in *namespace*, None: in all. A kind that is not served has no objects."""
    from kuberay.kube.errors import NotFoundError

    found: dict[Place, Manifest] = {}
    for kind in dict.fromkeys((*LISTED, *watched)):
        try:
            async for page in client.list_pages(kind, namespace):
                for raw in page.items:
                    body: Manifest = {"apiVersion": kind.api_version, "kind": kind.kind, **orjson.loads(bytes(raw))}
                    found[kind, body["metadata"].get("namespace", ""), body["metadata"]["name"]] = body
        except NotFoundError:
            continue
    return Objects(found, LISTED)


async def fetch(client: Client, objects: Objects, wanted: Iterable[Place]) -> None:
    """Look up what is wanted and not known. What may not be read is taken to be there and right."""
    from kuberay.kube.errors import ForbiddenError, NotFoundError

    for kind, namespace, name in wanted:
        place = (kind, namespace, name)
        if place in objects.found or place in objects.absent or place in objects.assumed:
            continue
        if kind in objects.complete:
            objects.note(place, None)
            continue
        try:
            body: Any = orjson.loads(await client.get(kind, namespace, name))
        except NotFoundError:
            objects.note(place, None)
        except ForbiddenError:
            objects.assumed.add(place)
        else:
            objects.note(place, body)
