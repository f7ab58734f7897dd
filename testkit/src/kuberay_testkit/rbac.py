"""Whether an operator asks for no more than it declares: every request it made, against the rules of core and plugins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kuberay.hooks.types import PolicyRule
from kuberay.plugins.manager import PluginManager

from kuberay_testkit.sim.calls import Call, missing_permissions
from kuberay_testkit.sim.operator import operator_rules
from kuberay_testkit.sim.server import SimServer

DANGEROUS = ("*", "escalate", "bind", "impersonate")
"""Verbs that let whoever has them take more."""


class RbacRecorder:
    """Grants a client of a `SimServer` exactly what is declared, and says what it asked for beyond that.

    A request beyond it is answered 403, as in a real cluster.
    """

    def __init__(self, server: SimServer, hooks: PluginManager, client: str = "operator") -> None:
        self.server = server
        self.client = client
        self.declared: Mapping[str, Sequence[PolicyRule]] = hooks.rbac_rules()
        """Rules by plugin."""
        self.rules: list[dict[str, Any]] = operator_rules([rule for rules in self.declared.values() for rule in rules])
        self._begun = len(server.calls)
        server.restrict(client, self.rules)

    def calls(self) -> list[Call]:
        """Every request that was made since, in order."""
        return [call for call in self.server.calls[self._begun :] if call.client == self.client]

    def undeclared(self) -> set[tuple[str, str, str]]:
        """(verb, group, resource) that were asked for and that no rule grants."""
        return missing_permissions(self.calls(), self.rules)

    def check(self) -> None:
        """Raise ``AssertionError`` with what `undeclared` names."""
        missing = sorted(f"{verb} {resource}.{group}".rstrip(".") for verb, group, resource in self.undeclared())
        assert not missing, f"asked for without a rule in rbac_rules(): {', '.join(missing)}"
