"""What all suites share: a subject, a lab with it inside, one story that is told once and looked at by many cases.

Cases are methods ``test_…`` that take no fixtures, so they run under pytest and by themselves.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

from kuberay.plugins.loader import Plugin

from kuberay_testkit.conformance.subjects import PluginUnderTest
from kuberay_testkit.hook_watch import HookWatch
from kuberay_testkit.lab import Lab, Manifest, Setup, play
from kuberay_testkit.plugins import plugin_from, plugin_of
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.gangs import GangRules

T = TypeVar("T")
Case = TypeVar("Case", bound=Callable[..., Any])
Story = Callable[[Lab], Awaitable[T]]

APPLIES = "_kuberay_applies"


def applies(when: Callable[[Any], bool]) -> Callable[[Case], Case]:
    """A case for subjects of which *when* is true; for others it is not collected."""

    def mark(case: Case) -> Case:
        setattr(case, APPLIES, when)
        return case

    return mark


def is_for(case: Callable[..., Any], suite: Suite) -> bool:
    """Whether *case* says something about the subject of *suite*."""
    when = getattr(case, APPLIES, None)
    return when is None or bool(when(suite.subject()))


@dataclass(slots=True)
class Tour:
    """What the story of everything left behind."""

    watch: HookWatch
    calls: list[str]
    conditions: list[str]
    """Of any object at any time, where a condition names a plugin that failed."""
    idle: list[str]
    """Requests after all had come to rest."""
    undeclared: list[str]
    error: Exception | None = None
    """What ended the story early."""

    def finished(self) -> None:
        """Raise what ended the story early, if anything did. Cases look at what was seen until then first."""
        if self.error is not None:
            raise self.error


class Suite:
    """The base of all suites. A suite is made anew for each case; what is expensive is kept by class."""

    _plugins: ClassVar[dict[type[Suite], Plugin]] = {}
    _tours: ClassVar[dict[type[Suite], Tour]] = {}
    serves: ClassVar[bool] = False
    """Whether the story of everything has RayServices."""

    # -- what a kind of suite says

    def subject(self) -> PluginUnderTest:
        """What is tested."""
        raise NotImplementedError

    def gangs(self) -> GangRules | None:
        """How pods are placed together."""
        return None

    async def everything(self, lab: Lab) -> None:
        """A story in which the plugin is asked all that it can be asked. Ends at rest."""
        raise NotImplementedError

    # -- the plugin

    def plugin(self) -> Plugin:
        """The subject, accepted by the operator's loader."""
        subject = self.subject()
        known = self._plugins.get(type(self))
        if known is None or not isinstance(subject.plugin, str):
            known = self._plugins[type(self)] = plugin_of(subject.plugin, subject.name)
        return known

    def without(self) -> list[Any]:
        """The plugins beside the subject, and in its place one of its name that does nothing: the core is content, and no
        pod is changed."""
        kept = {name: hook for name, hook in self.plugin().hooks.items() if name == "settings"}
        idle = plugin_from(self.plugin().name, validate=lambda ctx: [])
        return [*self.subject().with_plugins, replace(idle, hooks={**idle.hooks, **kept})]

    def setup(self, *, plugins: Sequence[Any] | None = None, **changes: Any) -> Setup:
        """A lab for the subject; *plugins* in place of it and those beside it."""
        subject = self.subject()
        with_it = [self.plugin(), *subject.with_plugins] if plugins is None else plugins
        options: dict[str, Any] = {
            "plugins": with_it,
            "settings": {self.plugin().name: subject.settings} if subject.settings else {},
            "gates": subject.gates,
            "kinds": subject.kinds,
            "controllers": subject.controllers,
            "gangs": self.gangs(),
        }
        return Setup(**{**options, **changes})

    def play(
        self,
        story: Story[T],
        *,
        plugins: Sequence[Any] | None = None,
        faults: Faults | None = None,
        crash_at: int | None = None,
        serve: bool = False,
        start: bool = True,
        **changes: Any,
    ) -> T:
        """Tell *story* in a lab of its own."""
        setup = self.setup(plugins=plugins, faults=faults, serve=serve, **changes)
        return play(story, setup, crash_at=crash_at, start=start)

    def at_every_write(self, story: Story[T], **options: Any) -> None:
        """Tell *story* once undisturbed, and then once for each write the operator made in it, killed when that had taken
        effect; the next process goes on. It must end the same. A kill before a write finds what the one before it left."""

        async def counting(lab: Lab) -> tuple[T, list[int]]:
            process = lab.operator.process
            assert process is not None
            return await story(lab), list(process.transport.writes)

        wanted, boundaries = self.play(counting, **options)
        assert boundaries, "the operator wrote nothing"
        for number, boundary in enumerate(boundaries, start=1):
            found, _ = self.play(counting, crash_at=boundary, **options)
            assert found == wanted, f"killed after its write number {number}, it ended with {found} instead of {wanted}"

    # -- the story of everything

    def tour(self) -> Tour:
        """Told once for each class; what was seen of it, also when it ended early."""
        known = self._tours.get(type(self))
        if known is None:
            known = self._tours[type(self)] = self._tell()
        return known

    def _tell(self) -> Tour:
        watch = HookWatch()
        tour = Tour(watch, [], [], [], [])

        async def story(lab: Lab) -> None:
            lab.server.store.listen(lambda change: _failures(change.stored.body, tour.conditions))
            try:
                await self.everything(lab)
                tour.idle += await lab.idle()
            finally:
                tour.calls += map(str, lab.rbac.calls())
                tour.undeclared += sorted(" ".join(each) for each in lab.rbac.undeclared())

        watched = [watch.wrap(self.plugin()), *self.subject().with_plugins]
        try:
            self.play(story, plugins=watched, serve=self.serves)
        except Exception as error:  # noqa: BLE001  which case it is that shows it, the cases decide
            tour.error = error
        return tour


def _failures(body: Mapping[str, Any], found: list[str]) -> None:
    for condition in (body.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "PluginFailed" and condition.get("status") == "True":
            told = f"{body['kind']} {body['metadata']['name']}: {condition.get('message')}"
            if told not in found:
                found.append(told)


def names(objects: Sequence[Manifest]) -> list[str]:
    return [each["metadata"]["name"] for each in objects]


def listed(items: Sequence[object], most: int = 5) -> str:
    """For messages: the first few of them."""
    told = "; ".join(map(str, items[:most]))
    return told + (f"; and {len(items) - most} more" if len(items) > most else "")
