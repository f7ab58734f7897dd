"""Cases for every plugin: it is accepted, its hooks are functions of what they are given, and it asks for no more than it says.

Source: the rules of `kuberay.hooks.spec`.
"""

from __future__ import annotations

from kuberay.hooks import HOOK_API
from kuberay.plugins.manager import CORE_CHILDREN, PluginManager

from kuberay_testkit.conformance.elsewhere import answers_elsewhere
from kuberay_testkit.conformance.suite import Suite, listed
from kuberay_testkit.rbac import DANGEROUS
from kuberay_testkit.sim.calls import Call, missing_permissions
from kuberay_testkit.sim.operator import operator_rules

MOST_SECONDS = 0.02
"""How long a hook may take, half of the times; a pass calls it once per pod."""


class PluginCases(Suite):
    """Mixed into every suite."""

    def test_the_operator_accepts_it(self) -> None:
        """Names of hooks, their arguments, plain functions, settings with defaults, watches and rules of the right types."""
        plugin = self.plugin()
        manager = PluginManager([plugin])
        manager.configure({plugin.name: dict(self.subject().settings)} if self.subject().settings else {})
        manager.rbac_rules(), manager.watches(), manager.feature_gates()
        assert plugin.hooks, f"plugin {plugin.name!r} has no hook at all"
        assert plugin.api[0] == HOOK_API[0]

    def test_it_may_do_what_its_watches_need(self) -> None:
        """A kind in `watches` is listed and watched, so `rbac_rules` must grant that, and get for what is applied."""
        manager = PluginManager([self.plugin()])
        rules = operator_rules([rule for found in manager.rbac_rules().values() for rule in found])
        needed = [
            Call(verb, watch.kind.group, watch.kind.plural, "", "lab", "x", 200, "", "operator", 0.0)
            for watch in manager.watches()
            for verb in ("list", "watch")
            if watch.kind not in CORE_CHILDREN
        ]
        missing = missing_permissions(needed, rules)
        assert not missing, f"watches() names kinds that rbac_rules() does not let the operator read: {sorted(missing)}"

    def test_it_asks_for_no_blanket_permissions(self) -> None:
        """No ``*``, and nothing that lets the operator take more than it is given."""
        for rules in PluginManager([self.plugin()]).rbac_rules().values():
            for rule in rules:
                words = {*rule.verbs, *rule.resources, *rule.api_groups} & set(DANGEROUS)
                assert not words, f"rbac_rules() asks for {', '.join(sorted(words))} in {rule}"

    def _clean(self, found: list[str], what: str = "") -> None:
        """*found*, of the story of everything, is empty; and that was told to its end."""
        assert not found, f"{what}{listed(sorted(set(found)))}"
        self.tour().finished()

    def test_every_request_is_inside_the_declared_permissions(self) -> None:
        self._clean(self.tour().undeclared, "requests that no rule grants: ")

    def test_no_hook_raises(self) -> None:
        tour = self.tour()
        self._clean([*tour.watch.raised, *tour.conditions])

    def test_it_is_asked_at_all(self) -> None:
        """A suite that never reaches the plugin would prove nothing."""
        tour = self.tour()
        assert tour.watch.asked, "the story of everything never called a hook of the plugin"
        tour.finished()

    def test_the_same_question_gets_the_same_answer(self) -> None:
        """A pass is repeated, after a restart too: an answer that changes by itself is a write each time, or a second object."""
        self._clean(self.tour().watch.unsteady)

    def test_another_process_gives_the_same_bytes(self) -> None:
        """The order of a set, a clock or a process id in an answer shows only there."""
        here = {key: value for key, value in self.tour().watch.answers().items() if value}
        self.tour().finished()
        there = answers_elsewhere(type(self))
        common = [key for key in here if key in there]
        strange = {hook for hook, _ in here} - {hook for hook, _ in common}
        assert not strange, (
            f"hooks that were asked nothing that they were asked here, so nothing can be compared: {strange}"
        )
        other = [
            f"{hook}() gave {here[hook, asked].decode()[:300]}"
            for hook, asked in common
            if here[hook, asked] != there[hook, asked]
        ]
        assert not other, f"in another process the answer was another one: {listed(other, 2)}"

    def test_what_it_is_given_stays_as_it_was(self) -> None:
        """Hooks of a pass share their context. What counts is what a hook returns."""
        self._clean(self.tour().watch.meddling)

    def test_hooks_touch_no_file_socket_or_process(self) -> None:
        """One pass that waits holds up all objects: look-ups are `ctx.lookup`, `ctx.children` and `ctx.pods`."""
        self._clean(self.tour().watch.outside)

    def test_hooks_are_quick(self) -> None:
        slowest = self.tour().watch.slowest()
        slow = {hook: f"{seconds:.3f} s" for hook, seconds in slowest.items() if seconds > MOST_SECONDS}
        assert not slow, f"hooks that take more than {MOST_SECONDS:g} s: {slow}"
        self.tour().finished()

    def test_answers_are_plain_json(self) -> None:
        """Sets, dates, decimals and objects of one's own cannot be sent to an API server."""
        self._clean(self.tour().watch.odd)

    def test_nothing_is_written_when_nothing_changes(self) -> None:
        tour = self.tour()
        self._clean(tour.idle, f"{len(tour.idle)} requests in ten quiet minutes: ")

    def test_every_setting_says_what_it_does(self) -> None:
        """``kuberay plugins`` and the documentation show it."""
        for name, model in PluginManager([self.plugin()]).settings_models().items():
            silent = [field for field, found in model.model_fields.items() if not found.description]
            assert not silent, f"settings of {name} without a description: {', '.join(silent)}"
