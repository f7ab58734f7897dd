"""What one pass over a RayService has decided so far: writes, status, events, probes and the next time to look.

Policies read and change a `Draft`; `Draft.finish` turns it into the plan. Source: spec rayservice.md 2.2 and 5.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, Self

from kuberay.api.conditions import TRUE, ServiceCondition
from kuberay.api.service import RayServiceSpec
from kuberay.hooks.service_upgrade import ServiceUpgradeStrategy
from kuberay.plan.drafting import Drafting
from kuberay.plan.drafting import Status as Status
from kuberay.plan.model import Plan, Write
from kuberay.plan.observed import Observed
from kuberay.plan.service.persistence import status_to_write

SideKey = Literal["activeServiceStatus", "pendingServiceStatus"]
ACTIVE: SideKey = "activeServiceStatus"
PENDING: SideKey = "pendingServiceStatus"


@dataclass(slots=True, kw_only=True)
class Draft(Drafting):
    """A pass over a RayService in the making."""

    spec: RayServiceSpec
    strategy: ServiceUpgradeStrategy = field(default_factory=ServiceUpgradeStrategy)
    """What ``spec.upgradeStrategy.type`` names; NewCluster until `upgrade.choose` has looked."""
    refused: bool = False
    """Whether the spec is refused: what runs keeps what it has."""
    memo: dict[str, Any] = field(default_factory=dict)
    """What has been worked out once in this pass."""
    late: list[Write] = field(default_factory=list)
    """Writes that come after all others, one by one: nothing else waits for a kind that the cluster may not serve."""
    _held: list[tuple[str, str]] = field(default_factory=list)

    @classmethod
    def start(cls, observed: Observed, spec: RayServiceSpec) -> Self:
        """A draft that changes nothing yet."""
        return cls(observed=observed, spec=spec, status=copy.deepcopy(observed.obj.status))

    def side(self, key: SideKey) -> Status:
        """One side of the status, to be changed in place."""
        side: Status = self.status.setdefault(key, {})
        return side

    def cluster_name(self, key: SideKey) -> str:
        """``rayClusterName`` of a side as the status has it now; empty when it has none."""
        return str((self.status.get(key) or {}).get("rayClusterName") or "")

    @property
    def condition_generation(self) -> int | None:
        """The generation that the status is about (5.1)."""
        return self.status.get("observedGeneration") or None

    def hold(
        self, reason: str, sentence: str, *, since: datetime | None = None, patience: timedelta = timedelta(0)
    ) -> None:
        """Say what keeps the service or its upgrade from going on. It becomes a condition when it has been so for *patience*
        *since* then; the first one told counts. *sentence* stays the same while nothing changes."""
        self.wait(sentence)
        if since is not None and self.now < since + patience:
            self.wake_at(since + patience)
            return
        self._held.append((reason, sentence))

    def finish(self) -> Plan:
        """The plan: probes of lookups, conditions, the status when it is worth a write, and the time to look again."""
        for write in self.late:
            self.write(write)
        self.tell_of_plugins(ServiceCondition.PLUGIN_FAILED)
        self.tell_of_slow_plugins(ServiceCondition.PLUGIN_SLOW)
        self.tell_of_warnings(ServiceCondition.PLUGIN_WARNING)
        if self._held:
            self.condition(ServiceCondition.WAITING, TRUE, *self._held[0])
        else:
            self.drop_condition(ServiceCondition.WAITING)
        self.plan.status = status_to_write(self.obj.status, self.status, self.now)
        return self.close()


def percent(value: Any) -> int | None:
    """A percentage in a status; None when there is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None
