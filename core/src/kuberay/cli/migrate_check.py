"""What this operator would change about objects that another operator left running: its own plans, played on a copy.

Nothing here talks to a cluster; `kuberay.cli.migrate_reading` brings the objects, and looks up what `Checked.unknown` asks for.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kuberay.api.condition_reference import find_entry
from kuberay.api.kinds import Kind
from kuberay.api.names import MANAGED_BY
from kuberay.api.objects import RayObject, from_dict
from kuberay.cli.diff_job_world import Rules
from kuberay.kube.sync import in_sync
from kuberay.operator.controller import PlanFunction
from kuberay.operator.ownership import is_in_the_way
from kuberay.operator.world import World
from kuberay.plan.model import Apply, Create, Delete, DrainProbe, ObjectProbe, Patch, Plan, Probe, ProbeResult, Write
from kuberay.plan.observed import Observed

Manifest = dict[str, Any]
Place = tuple[Kind, str, str]
"""Kind, namespace and name."""

Verdict = Literal["untouched", "changes", "refused", "foreign", "incomplete"]
"""``untouched``: what runs goes on, whatever is noted about it; ``changes``: something is made, changed or deleted;
``refused``: the object itself is not valid here, and what runs goes on; ``foreign``: spec.managedBy names somebody else;
``incomplete``: its pods were not among what was read."""

_ROUNDS = 6
_REFUSALS = {("RayClusterSpecValid", "*"), ("Accepted", "Invalid"), ("Ready", "ValidationFailed")}
_NAMES = ("name", "port", "containerPort", "mountPath", "uid")


@dataclass(slots=True)
class Checked:
    """What was found about one object."""

    kind: str
    namespace: str
    name: str
    verdict: Verdict = "untouched"
    changes: list[str] = field(default_factory=list)
    """What would be made, changed or deleted, a sentence each without its full stop."""
    marks: list[str] = field(default_factory=list)
    """Labels, annotations and finalizers that would be written: nothing that runs notices."""
    conditions: list[Mapping[str, Any]] = field(default_factory=list)
    """Conditions the status would newly have that somebody has to do something about."""
    assumed: list[str] = field(default_factory=list)
    """Objects that were not read and are taken to be there and right."""
    unknown: set[Place] = field(default_factory=set)
    """Objects that have to be looked up for a better answer."""

    @property
    def safe(self) -> bool:
        """Whether nobody need look at it before this operator starts."""
        return self.verdict in ("untouched", "foreign") and not self.conditions


@dataclass(slots=True)
class Tree:
    """A Ray object, what belongs to it, and what else was looked up for it."""

    place: Place
    objects: Mapping[Place, Manifest]
    absent: frozenset[Place] = frozenset()
    """Objects that were looked for and are not there."""
    assumed: frozenset[Place] = frozenset()
    """Objects that nobody can look for, so that they are taken to be there and right."""


def check(tree: Tree, plan: PlanFunction, rules: Rules) -> Checked:
    """What the first passes over the object of *tree* would do."""
    kind, namespace, name = tree.place
    found = Checked(kind.kind, namespace, name)
    manifest = tree.objects[tree.place]
    if (manifest.get("spec") or {}).get("managedBy", MANAGED_BY) not in (MANAGED_BY, "", None):
        found.verdict = "foreign"
        return found
    world = World()
    for (each, where, _), body in tree.objects.items():
        world.put(each, where, copy.deepcopy(body))
    before = copy.deepcopy(manifest.get("status") or {})
    _play(tree, world, plan, rules, found)
    found.conditions = list(_news(kind.kind, before, (world.bodies.get(tree.place) or manifest).get("status") or {}))
    if any(_is_refusal(each) for each in found.conditions):
        found.verdict = "refused"
    elif _without_its_pods(tree, before):
        found.verdict = "incomplete"
        found.changes.clear()
    elif found.changes:
        found.verdict = "changes"
    return found


def _play(tree: Tree, world: World, plan_for: PlanFunction, rules: Rules, found: Checked) -> None:
    probes: dict[Probe, ProbeResult] = {}
    for _ in range(_ROUNDS):
        obj = world.get(*tree.place)
        if not isinstance(obj, RayObject):
            return
        plan = plan_for(
            Observed(
                obj=obj,
                now=rules.now,
                view=world,
                probes=probes,
                config=rules.config,
                gates=rules.gates,
                hooks=rules.hooks,
            )
        )
        changed = _answer(tree, world, plan, probes, found, rules)
        for write in (write for stage in plan.stages for write in stage):
            changed |= _write(tree, world, obj, write, found)
        body = world.bodies.get(tree.place)
        if plan.status is not None and body is not None and body.get("status") != plan.status:
            body["status"] = copy.deepcopy(plan.status)
            world.put(tree.place[0], tree.place[1], body)
            changed = True
        if not changed:
            return


def _answer(
    tree: Tree, world: World, plan: Plan, probes: dict[Probe, ProbeResult], found: Checked, rules: Rules
) -> bool:
    """Look up for the plan what it asks for, and let workers that leave do so; dashboards and proxies say nothing yet, as in
    a first pass."""
    news = False
    for probe in plan.probes:
        if probe in probes:
            continue
        match probe:
            case ObjectProbe():
                place = (probe.kind, probe.namespace, probe.name)
                if place in tree.assumed:
                    _once(found.assumed, f"{probe.kind.kind} {probe.name}")
                elif place not in world.bodies and place not in tree.absent:
                    found.unknown.add(place)
                outcome: Literal["found", "absent"] = "absent" if place in tree.absent else "found"
                probes[probe] = ProbeResult(outcome, rules.now, since=rules.now)
            case DrainProbe():
                states = {pod.uid: "drained" for pod in probe.pods}
                probes[probe] = ProbeResult("found", rules.now, states, since=rules.now)
            case _:
                continue
        news = True
    return news


def _write(tree: Tree, world: World, owner: RayObject, write: Write, found: Checked) -> bool:
    """Note what *write* would do, and do it in *world*."""
    place = (write.kind, write.namespace, write.name)
    live = world.bodies.get(place)
    what = f"{write.kind.kind} {write.name}"
    if live is None and isinstance(write, Create | Apply):
        if place in tree.assumed:
            _once(found.assumed, what)
            return False
        if place not in tree.absent:
            found.unknown.add(place)
        reason = ", which is not there" if isinstance(write, Apply) else ""
        _once(found.changes, f"makes {what}{reason}")
    elif live is not None and isinstance(write, Apply):
        obj = from_dict(write.kind, live)
        if write.create_only:
            return False
        if is_in_the_way(obj, owner, write):
            _once(found.changes, f"cannot have {what}: an object of that name belongs to somebody else")
            return False
        if in_sync(write.body, live):
            return False
        _note(found, what, sorted(_differing(write.body, live)))
    elif live is not None and isinstance(write, Delete):
        _once(found.changes, f"deletes {what}" + (f" ({write.done.note})" if write.done is not None else ""))
    elif live is not None and isinstance(write, Patch) and write.subresource != "status":
        before = copy.deepcopy(live)
        changed = world.perform(write)
        _note(found, what, sorted(_differing(world.bodies.get(place) or {}, before)))
        return changed
    return world.perform(write)


def _note(found: Checked, what: str, paths: list[str]) -> None:
    quiet = [path for path in paths if path.startswith("metadata.")]
    loud = [path for path in paths if not path.startswith("metadata.")]
    if loud:
        _once(found.changes, f"changes {what}: {', '.join(loud)}")
    if quiet:
        _once(found.marks, f"{what}: {', '.join(quiet)}")


def _once(sentences: list[str], sentence: str) -> None:
    if sentence not in sentences:
        sentences.append(sentence)


def _differing(wanted: Any, live: Any, path: str = "") -> Iterator[str]:
    """Paths of fields in *wanted* that *live* does not have so. What *live* has beyond it, and the order of named things,
    say nothing."""
    if path in ("apiVersion", "kind", "status") or path.startswith(("metadata.resourceVersion", "metadata.uid")):
        return
    if isinstance(wanted, Mapping):
        for key, value in wanted.items():
            below = live.get(key) if isinstance(live, Mapping) else None
            yield from _differing(value, below, _joined(path, key))
    elif isinstance(wanted, list) and isinstance(live, list):
        by_name = _by_name(live)
        if len(wanted) != len(live) and path.startswith("spec"):
            yield path
        elif by_name and _by_name(wanted):
            for label, item in _by_name(wanted).items():
                yield from _differing(item, by_name.get(label), f"{path}[{label}]")
        elif any(item not in live for item in wanted):
            yield path
    elif wanted != live and (wanted or live):
        yield path


def _joined(path: str, key: str) -> str:
    if "." in key or "/" in key:
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def _by_name(items: list[Any]) -> dict[str, Any]:
    """Items by what names them; empty when nothing does."""
    for name in _NAMES:
        if items and all(isinstance(item, Mapping) and name in item for item in items):
            return {str(item[name]): item for item in items}
    return {}


def _news(kind: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Conditions of *after* that stay until somebody acts, and that *before* did not have."""
    known = {(each["type"], each["status"], each.get("reason")) for each in before.get("conditions") or ()}
    for each in after.get("conditions") or ():
        entry = find_entry(kind, each["type"], each["status"], each.get("reason") or "")
        if (each["type"], each["status"], each.get("reason")) in known or entry is None:
            continue
        # How a job ended was known before; only the words are new.
        if entry.lasting == "terminal" and each["type"] not in ("Finished", "Suspended", "RayClusterSuspended"):
            yield each


def _is_refusal(condition: Mapping[str, Any]) -> bool:
    told = (condition["type"], condition.get("reason"))
    return condition["status"] == "False" and (told in _REFUSALS or (condition["type"], "*") in _REFUSALS)


def _without_its_pods(tree: Tree, status: Mapping[str, Any]) -> bool:
    """Whether the status names a head pod that is not among the objects: then all would seem to be missing."""
    head = (status.get("head") or {}).get("podName")
    clusters = [(status.get(side) or {}).get("rayClusterName") for side in ("activeServiceStatus",)]
    places = {(kind.kind, name) for kind, _, name in tree.objects}
    return bool(head and ("Pod", head) not in places) or any(
        name and ("RayCluster", name) not in places for name in clusters
    )
