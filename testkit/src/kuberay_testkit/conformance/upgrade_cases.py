"""Cases for strategies of RayService upgrades: they end, nobody misses an answer, and they can be paused, undone and restarted."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import POD, RAYCLUSTER, RAYSERVICE, Kind
from kuberay.hooks import OwnerContext, ServiceUpgradeStrategy, UpgradeContext

from kuberay_testkit.conformance.suite import applies, listed
from kuberay_testkit.conformance.upgrade_suite import LONGEST, NAME, UpgradeSuite, config, world_of
from kuberay_testkit.lab import Lab, Manifest
from kuberay_testkit.sim.faults import Action, Faults

PAUSED = "ray.io/upgrade-paused"
ABORTED = "ray.io/upgrade-aborted"

has_gate = applies(lambda strategy: bool(strategy.gate))
has_kinds = applies(lambda strategy: bool(strategy.kinds))
refuses = applies(lambda strategy: bool(strategy.wrong_options))


class UpgradeCases(UpgradeSuite):
    """Mixed into `UpgradeStrategyConformance`."""

    # -- the offer

    def _offered(self, kind: Kind, type_: str) -> object:
        hook = self.plugin().hooks.get("upgrade_strategy")
        assert hook is not None, "the plugin has no hook upgrade_strategy"
        return hook(UpgradeContext(owner=self._owner(kind, type_), type=type_))

    def _owner(self, kind: Kind, type_: str, options: Manifest | None = None) -> OwnerContext:
        chosen = {"type": type_, **(self.strategy().options if options is None else options)}
        spec = {"upgradeStrategy": chosen, "rayClusterConfig": dict(self.strategy().cluster)}
        return OwnerContext(
            kind=kind,
            name=NAME,
            namespace="lab",
            uid="u",
            labels={},
            annotations={},
            spec=spec,
            status={},
            cluster_spec=spec["rayClusterConfig"],
            groups=(),
            now=datetime(2026, 1, 1, tzinfo=UTC),
            gates={**DEFAULT_GATES, **self.strategy().gates},
        )

    def test_it_is_offered_for_its_own_type_only(self) -> None:
        """An offer for another type takes that away from everybody."""
        mine = self._offered(RAYSERVICE, self.strategy().type)
        assert mine is not None, f"no strategy is offered for type {self.strategy().type}"
        for other in ("NewCluster", "None", "Rolling", "Recreate", f"{self.strategy().type}2", ""):
            if other != self.strategy().type:
                assert self._offered(RAYSERVICE, other) is None, f"a strategy is offered for type {other!r}, too"

    @has_gate
    def test_with_its_gate_off_nothing_is_offered_and_the_service_serves(self) -> None:
        async def story(lab: Lab) -> None:
            lab.create(self.service())
            await lab.until(lambda: bool(self.active(lab)), "an active RayCluster", LONGEST)

        self.play(story, serve=True, gates={**self.strategy().gates, self.strategy().gate: False})

    @refuses
    def test_wrong_options_are_refused_by_their_path(self) -> None:
        """Before anything is made, in one sentence; and an edit that is wrong leaves what serves."""
        for options in map(dict, self.strategy().wrong_options):
            strategy = self._offered(RAYSERVICE, self.strategy().type)
            assert isinstance(strategy, ServiceUpgradeStrategy)
            found = strategy.problems(self._owner(RAYSERVICE, self.strategy().type, options))
            assert found, f"{options} is not refused"
            unclear = [str(each) for each in found if not each.path.startswith("spec.") or not each.message]
            assert not unclear, f"problems without the path of a field of the spec: {listed(unclear)}"
            self.play(partial(self._refused, options), serve=True)

    async def _refused(self, options: Manifest, lab: Lab) -> None:
        lab.create(self.service(options=options))
        await lab.rest()
        assert not lab.all(RAYCLUSTER), f"{options} made a RayCluster"
        assert lab.conditions(RAYSERVICE, NAME), f"no condition tells that {options} is refused"

    # -- upgrades that go well

    def test_a_first_cluster_serves(self) -> None:
        async def story(lab: Lab) -> None:
            await self.serving(lab)
            assert len(lab.all(RAYCLUSTER)) == 1

        self.play(story, serve=True)

    def test_an_upgrade_ends_and_nobody_misses_an_answer(self) -> None:
        """Weights sum up to 100 at every moment, and wherever they lead, a pod answers."""

        async def story(lab: Lab) -> None:
            first = await self.serving(lab)
            self.watch_over(lab)
            self.upgrade(lab)
            await self.upgraded(lab, first)
            assert self.images(lab) == {"-2"}, f"pods of other images: {self.images(lab)}"

        self.play(story, serve=True)

    def test_a_second_upgrade_follows_the_first(self) -> None:
        async def story(lab: Lab) -> None:
            name = await self.serving(lab)
            self.watch_over(lab)
            for tag in ("-2", "-3"):
                self.upgrade(lab, tag)
                name = await self.upgraded(lab, name)
                assert self.images(lab) == {tag}, f"pods of other images: {self.images(lab)}"

        self.play(story, serve=True)

    def test_a_change_of_serve_alone_needs_no_other_cluster(self) -> None:
        async def story(lab: Lab) -> None:
            first = await self.serving(lab)
            self.watch_over(lab)
            lab.edit(RAYSERVICE, NAME, serveConfigV2=config("v9"))
            await lab.rest(quiet=60)
            assert (self.active(lab), self.pending(lab)) == (first, ""), lab.describe()

        self.play(story, serve=True)

    # -- second thoughts

    def test_an_edit_in_the_middle_ends_with_the_newest_spec(self) -> None:
        async def story(lab: Lab) -> None:
            first = await self.serving(lab)
            self.watch_over(lab)
            for tag in ("-2", "-3"):
                self.upgrade(lab, tag)
                await lab.until(lambda: bool(self.pending(lab)), "a pending RayCluster", LONGEST)
                await lab.world.pass_time(8)
            await self.upgraded(lab, first)
            assert self.images(lab) == {"-3"}, f"pods of other images: {self.images(lab)}"

        self.play(story, serve=True)

    def test_going_back_in_the_middle_ends_with_the_old_cluster(self) -> None:
        async def story(lab: Lab) -> None:
            first = await self.serving(lab)
            self.watch_over(lab)
            self.upgrade(lab)
            await lab.until(
                lambda: len(lab.pods(self.pending(lab) or "-")) == 3, "pods of the pending RayCluster", LONGEST
            )
            self.go_back(lab)
            await lab.until(lambda: not self.pending(lab), "the end of the pending RayCluster", LONGEST)
            await lab.rest(quiet=60)
            assert self.active(lab) == first, lab.describe()
            assert len(lab.all(RAYCLUSTER)) == 1, lab.describe()
            assert self.served(world_of(lab))

        self.play(story, serve=True)

    def test_paused_nothing_moves(self) -> None:
        """For as long as the annotation is there, and no request is made again and again."""

        async def story(lab: Lab) -> None:
            first = await self.serving(lab)
            self.watch_over(lab)
            self.annotate(lab, PAUSED, "true")
            self.upgrade(lab)
            await lab.world.pass_time(300)
            weights = dict(self.weights(world_of(lab)))
            await lab.world.pass_time(1200)
            assert self.active(lab) == first, "it moved on although it is paused"
            assert dict(self.weights(world_of(lab))) == weights, "weights moved although it is paused"
            idle = await lab.idle(600)
            assert not idle, f"requests while nothing moves: {listed(idle)}"
            self.annotate(lab, PAUSED, None)
            await self.upgraded(lab, first)

        self.play(story, serve=True)

    def test_aborted_the_old_cluster_serves_on(self) -> None:
        async def story(lab: Lab) -> None:
            first = await self.serving(lab)
            self.watch_over(lab)
            self.upgrade(lab)
            await lab.until(
                lambda: len(lab.pods(self.pending(lab) or "-")) == 3, "pods of the pending RayCluster", LONGEST
            )
            self.annotate(lab, ABORTED, "true")
            await lab.until(lambda: not self.pending(lab), "the end of the pending RayCluster", LONGEST)
            await lab.rest(quiet=60)
            assert self.active(lab) == first, lab.describe()
            assert len(lab.all(RAYCLUSTER)) == 1, lab.describe()
            self.annotate(lab, ABORTED, None)
            await self.upgraded(lab, first)

        self.play(story, serve=True)

    def test_a_version_that_does_not_serve_takes_nothing_over(self) -> None:
        """The old one serves until the spec is right; nothing is written again and again."""

        async def story(lab: Lab) -> None:
            first = await self.serving(lab)
            self.watch_over(lab)
            self.upgrade(lab, "-bad", fails=True)
            await lab.world.pass_time(900)
            assert self.active(lab) == first, "a RayCluster that does not serve became the active one"
            self.upgrade(lab, "-good")
            await self.upgraded(lab, first)
            assert self.images(lab) == {"-good"}

        self.play(story, serve=True)

    def test_suspended_in_the_middle_and_resumed_it_serves_the_newest_spec(self) -> None:
        async def story(lab: Lab) -> None:
            await self.serving(lab)
            self.upgrade(lab)
            await lab.until(lambda: bool(self.pending(lab)), "a pending RayCluster", LONGEST)
            lab.edit(RAYSERVICE, NAME, suspend=True)
            await lab.until(lambda: not lab.pods(), "the end of all pods", LONGEST)
            await lab.rest()
            lab.edit(RAYSERVICE, NAME, suspend=False)
            await lab.until(
                lambda: bool(self.active(lab)) and self.served(world_of(lab)), "a service that serves", LONGEST
            )
            await lab.rest(quiet=60)
            assert self.images(lab) == {"-2"}, f"pods of other images: {self.images(lab)}"

        self.play(story, serve=True)

    def test_deleted_in_the_middle_nothing_is_left(self) -> None:
        async def story(lab: Lab) -> None:
            await self.serving(lab)
            self.upgrade(lab)
            await lab.until(lambda: bool(self.pending(lab)), "a pending RayCluster", LONGEST)
            await lab.world.pass_time(5)
            lab.delete(RAYSERVICE, NAME)
            await lab.rest(quiet=60)
            left = [str(kind) for kind in (RAYCLUSTER, POD, *self.strategy().kinds) if lab.all(kind)]
            assert not left, f"orphans of kinds {left}"

        self.play(story, serve=True)

    # -- troubles

    def test_restarts_after_every_write(self) -> None:
        """The operator is killed after each of its writes during an upgrade; the next one goes on."""

        async def story(lab: Lab) -> object:
            first = await self.serving(lab)
            self.watch_over(lab)
            self.upgrade(lab)
            await self.upgraded(lab, first)
            return self.images(lab), len(lab.pods())

        self.at_every_write(story, serve=True)

    def _survives(self, *actions: Action) -> None:
        faults = Faults()
        for action in actions:
            faults.add(action, chance=0.1, seconds=3.0)

        async def story(lab: Lab) -> None:
            first = await self.serving(lab)
            self.upgrade(lab)
            await lab.world.pass_time(120)
            lab.server.faults.stop()
            await self.upgraded(lab, first)
            assert self.images(lab) == {"-2"}

        self.play(story, serve=True, faults=faults)

    def test_conflicts_and_throttling_are_survived(self) -> None:
        """409 and 429."""
        self._survives("conflict", "throttle")

    def test_errors_of_the_server_are_survived(self) -> None:
        """500, before and after the commit."""
        self._survives("error_before", "error_after")

    def test_late_and_repeated_events_are_survived(self) -> None:
        self._survives("delay_event", "repeat_event", "drop_watch")

    @has_kinds
    def test_an_absent_crd_is_waited_for(self) -> None:
        """What keeps the service from serving is told; once the CRD is there, it serves."""

        async def story(lab: Lab) -> None:
            for kind in self.strategy().kinds:
                lab.server.unregister(kind)
            lab.operator.start()
            lab.create(self.service())
            await lab.world.pass_time(300)
            told = lab.describe()
            assert any(str(kind) in told for kind in self.strategy().kinds), f"nothing names what is absent:\n{told}"
            for kind in self.strategy().kinds:
                lab.server.register(kind)
            await lab.until(
                lambda: bool(self.active(lab)) and self.served(world_of(lab)), "a service that serves", LONGEST
            )

        self.play(story, serve=True, start=False)

    def test_turned_off_in_the_middle_nobody_misses_an_answer(self) -> None:
        """The next operator does not know the plugin: what serves goes on."""

        async def story(lab: Lab) -> None:
            first = await self.serving(lab)
            self.upgrade(lab)
            await lab.until(lambda: bool(self.pending(lab)), "a pending RayCluster", LONGEST)
            await lab.world.pass_time(5)
            await lab.restart(list(self.subject().with_plugins))
            world = world_of(lab)
            for _ in range(30):
                await lab.world.pass_time(10)
                assert self.served(world), f"requests to {dict(self.weights(world))} find no pod\n{lab.describe()}"
            assert first or lab.all(RAYCLUSTER)
            await lab.restart([self.plugin(), *self.subject().with_plugins])
            await lab.until(
                lambda: not self.pending(lab) and self.images(lab) == {"-2"}, "the end of the upgrade", LONGEST
            )

        self.play(story, serve=True)
