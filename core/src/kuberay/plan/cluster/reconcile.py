"""What one look at a RayCluster leads to: `plan_cluster` puts the decisions of this package in order.

Source: spec raycluster.md 2.1, 2.2 and 4.2, with KubeRay's repeated passes folded into one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from pydantic import ValidationError

from kuberay.api.cluster import parse_problems
from kuberay.api.conditions import ClusterCondition, ClusterReason, find_condition
from kuberay.api.gates import STATUS_CONDITIONS
from kuberay.api.kinds import RAYCLUSTER, ROLE_BINDING
from kuberay.api.names import MANAGED_BY
from kuberay.api.problems import Problem
from kuberay.api.validation.autoscaling import restart_policy_warning
from kuberay.api.validation.cluster import INVALID_SPEC, validate_cluster
from kuberay.hooks.calls import PluginFailure, PluginWarning
from kuberay.hooks.types import OwnerContext
from kuberay.plan import plugin_warnings, slow_plugins
from kuberay.plan.build.context import owner_context
from kuberay.plan.build.pods import PodFactory, head_service_name
from kuberay.plan.cluster.children import observe_children
from kuberay.plan.cluster.cluster_deletion import plan_deletion
from kuberay.plan.cluster.conditions import Conditions, conditions_of
from kuberay.plan.cluster.deletions import tell_once
from kuberay.plan.cluster.disruption import budget_writes
from kuberay.plan.cluster.drain import drain_probe
from kuberay.plan.cluster.expected import PodCreation, expected_pods, try_out
from kuberay.plan.cluster.fallback import CONDITION as FALLBACK_CONDITION
from kuberay.plan.cluster.fallback import FallbackDecision, decide_fallback, shifted_sizes
from kuberay.plan.cluster.form import ClusterForm, cluster_form
from kuberay.plan.cluster.head import decide_head, set_head_started, stays_without_head, too_many_heads, why_no_head
from kuberay.plan.cluster.held_back import Hold, failed_hold, plugin_hold, set_held_back
from kuberay.plan.cluster.lifecycle import decide_lifecycle
from kuberay.plan.cluster.not_ready import NotReady, why_not_ready, with_diagnosis
from kuberay.plan.cluster.plugin_calls import PluginWishes, ask_plugins, missing_plugin
from kuberay.plan.cluster.pod_decision import ClusterPass, PodDecision
from kuberay.plan.cluster.pod_health import is_ready
from kuberay.plan.cluster.pod_names import PodNamer
from kuberay.plan.cluster.redis_finalizer import finalizer_writes, set_unused
from kuberay.plan.cluster.refusal import refuse
from kuberay.plan.cluster.rolling_head import roll_head
from kuberay.plan.cluster.rolling_report import clear_rolling, set_rolling
from kuberay.plan.cluster.service_writes import service_writes, spec_is_news
from kuberay.plan.cluster.side_objects import SideObjects, all_events, decide_side_objects, set_troubles
from kuberay.plan.cluster.status import all_ready, compute_status, differs, write_delay
from kuberay.plan.cluster.suspend import SuspendDecision, decide_suspend, suspend_writes, suspended_event
from kuberay.plan.cluster.upgrade import decide_upgrade, new_head_annotations
from kuberay.plan.cluster.workers import decide_workers, removed_groups, workers_without_head
from kuberay.plan.model import Event, Plan, Probe, Write
from kuberay.plan.observed import Observed
from kuberay.plan.secret_access import token_problems


def plan_cluster(observed: Observed) -> Plan:
    """The plan for one RayCluster. Pure: the same input gives the same plan."""
    obj = observed.obj
    if obj.spec.get("managedBy") not in (None, MANAGED_BY):
        return Plan()
    if obj.deleting:
        return plan_deletion(observed)
    try:
        form = cluster_form(obj)
    except ValidationError as error:
        return refuse(observed, parse_problems(error, "spec", INVALID_SPEC))
    problems = [
        *_core_problems(observed, form),
        *token_problems(observed.config, obj.namespace, form.spec.auth_options, "spec.authOptions"),
    ]
    if problems:
        return refuse(observed, problems)
    probes: list[Probe] = []
    owner = owner_context(observed, kind=RAYCLUSTER, cluster_spec=form.spec, lookups=probes, groups=form.groups)
    plugin_problems, failures = observed.hooks.validate(owner)
    if plugin_problems:
        return refuse(observed, plugin_problems)
    children = observe_children(observed, head_service_name(obj.name, form.spec))
    cluster = ClusterPass(observed, form, children, PodNamer(obj, observed.view), probes)
    return _Pass(cluster, owner, list(failures)).run()


def _core_problems(observed: Observed, form: ClusterForm) -> Sequence[Problem]:
    """The core's validation, made again only when something it looks at has changed."""
    obj, metadata = observed.obj, observed.obj.metadata
    looked_at = (observed.gates, metadata.labels, metadata.annotations, obj.status.get("conditions"))
    if form.problems is None or form.checked_with != looked_at:
        form.problems = validate_cluster(
            obj.name, metadata.labels, metadata.annotations, form.spec, observed.gates, obj.status
        )
        form.checked_with = looked_at
    return form.problems


@dataclass(slots=True)
class _Pass:
    """The steps of one pass, each adding to the plan."""

    cluster: ClusterPass
    owner: OwnerContext
    failures: list[PluginFailure]
    plan: Plan = field(default_factory=Plan)
    fallback: FallbackDecision = field(default_factory=FallbackDecision)
    hold: Hold | None = None
    """Why pods that are wanted are not made."""
    head_stays: str = ""
    """Why a head of another spec is not replaced together with all other pods."""
    last_changes: list[Write] = field(default_factory=list)
    """Changes to pods that come after all others."""
    beside: SideObjects = field(default_factory=SideObjects)
    warnings: Sequence[PluginWarning] | None = None
    """What plugins warn of; None: they were not asked."""
    not_ready: NotReady | None = None
    """What keeps pods from being ready for too long."""

    def run(self) -> Plan:
        cluster, plan = self.cluster, self.plan
        observed = cluster.observed
        conditions = Conditions(conditions_of(observed.obj.status), observed.now)
        lifecycle = decide_lifecycle(cluster, conditions)
        plan.events += lifecycle.events
        cluster.held = lifecycle.holds
        suspend = decide_suspend(cluster, conditions)
        if not suspend.holds:
            self.fallback = decide_fallback(cluster)
            cluster.shifted = self.fallback.shifted
        if cluster.shifted:
            self.owner = replace(self.owner, groups=shifted_sizes(self.owner.groups, cluster))
        missing = "" if suspend.holds else missing_plugin(cluster)
        wishes = ask_plugins(cluster, self.owner, suspended=suspend.holds)
        self.failures += wishes.failures
        services, warnings = service_writes(cluster)
        self.beside = decide_side_objects(cluster)
        if not suspend.holds:
            self.hold = self.beside.hold
        decision, changes = self._decide(suspend, wishes, missing)
        creates = self._create(decision, wishes, missing)
        budgets, budget_warnings = budget_writes(cluster)
        before = [*tell_once(services), *self.beside.writes, *budgets, *wishes.required, *wishes.wanted]
        # The API server refuses a binding whose role does not exist yet, unless the operator may do everything.
        bindings = [write for write in before if write.kind == ROLE_BINDING]
        others = [write for write in before if write.kind != ROLE_BINDING]
        first = finalizer_writes(cluster, may_make_pods=not suspend.holds)
        in_order = (first, others, bindings, tell_once(changes), self.last_changes, *creates)
        plan.stages = [stage for stage in in_order if stage]
        if lifecycle.delete is not None:
            plan.stages = [[lifecycle.delete]]
        plan.events += [*warnings, *budget_warnings, *self._spec_warning()]
        failed = observed.failure
        if failed is not None and not failed.marker:
            told = f"{failed.kind} {failed.name}: {failed.message}"
            if self.hold is None:
                self.hold = Hold("WriteFailed", told)
            elif wishes.waits:
                # What a plugin waits for may never come because it could not be made.
                self.hold = replace(self.hold, sentence=f"{self.hold.sentence}; {told}")
        self.not_ready = why_not_ready(cluster, failed, plan.expected_pods)
        if self.not_ready is not None or self.hold is not None:
            self.not_ready = with_diagnosis(self.not_ready, observed.hooks.diagnose(self.owner))
        if not suspend.holds:
            self.warnings, failures = plugin_warnings.of_cluster(observed.hooks, self.owner)
            self.failures += failures
        set_head_started(cluster, conditions)
        if observed.gate(STATUS_CONDITIONS):
            self._set_conditions(conditions, suspend, missing)
        elif spec_is_news(cluster):
            plan.events += all_events(self.beside)
            plan.events += [plugin_warnings.event(self.warnings)] if self.warnings else []
        self._set_status(conditions, suspended=suspend.suspended)
        if cluster.leaving:
            cluster.probes.append(drain_probe(cluster))
        plan.probes = cluster.probes
        plan.waiting = self._waiting(suspend, missing)
        plan.requeue_after = timedelta(0) if suspend.resumes else self._look_again()
        return plan

    def _look_again(self) -> timedelta | None:
        """The nearest time at which something is due that no event tells, or the unconditional look."""
        return min(
            (delay for delay in (*self.cluster.due, self.cluster.observed.config.requeue_period) if delay), default=None
        )

    def _decide(self, suspend: SuspendDecision, wishes: PluginWishes, missing: str) -> tuple[PodDecision, list[Write]]:
        """What should become of the pods, and the changes to those that exist."""
        cluster = self.cluster
        if suspend.holds:
            return PodDecision(), suspend_writes(cluster) if suspend.deleting else []
        conflict = too_many_heads(cluster.children.heads)
        if conflict:
            self.hold = Hold("TooManyHeadPods", conflict, event="TooManyHeadPods")
            return PodDecision(), []
        upgrade = decide_upgrade(cluster, self.owner)
        self.failures += upgrade.failures
        self.head_stays = upgrade.refused
        if upgrade.recreate or cluster.outdated:
            # What could not be made anew is not taken down.
            waiting = plugin_hold(wishes)
            cluster.may_replace = waiting is None and not missing
            self.hold = self.hold or waiting
        if upgrade.recreate and cluster.may_replace:
            failures = try_out(cluster, self._factory())
            if failures:
                cluster.may_replace = False
                self.failures += failures
                self.hold = failed_hold(failures)
        if upgrade.recreate and cluster.may_replace:
            self.hold = Hold("Recreating", "pods of the former spec are being deleted")
            self.last_changes = upgrade.last
            return PodDecision(), upgrade.writes
        decision = decide_head(cluster)
        if decision.blocked:
            self.hold = Hold("HeadPodHeldBack", decision.blocked)
            if stays_without_head(cluster):
                decision.merge(workers_without_head(cluster))
        else:
            decision.merge(decide_workers(cluster))
        if cluster.outdated:
            roll_head(cluster, decision)
        return decision, decision.delete if upgrade.recreate else [*upgrade.writes, *decision.delete]

    def _create(self, decision: PodDecision, wishes: PluginWishes, missing: str) -> list[list[Write]]:
        """The stages that make pods, unless something has to come first."""
        cluster, factory = self.cluster, self._factory()
        self.plan.expected_pods = expected_pods(decision, factory, cluster.form.groups)
        if not decision.create:
            return []
        if self.hold is None:
            self.hold = plugin_hold(wishes)
        if self.hold is not None or missing:
            return []
        creation = PodCreation(cluster, factory)
        stages = creation.stages(decision.create)
        self.failures += creation.failures
        self.plan.plugin_changes = creation.changes
        return stages

    def _factory(self) -> PodFactory:
        cluster, service = self.cluster, self.cluster.children.head_service
        return PodFactory(
            owner=self.owner,
            spec=cluster.form.spec,
            config=cluster.observed.config,
            hooks=cluster.observed.hooks,
            head_annotations=new_head_annotations(cluster),
            group_hashes=cluster.form.group_hashes,
            head_service=service.name if service is not None else "",
        )

    def _spec_warning(self) -> list[Event]:
        """Told once per version of the spec (KubeRay repeats it at each pass)."""
        warning = restart_policy_warning(self.cluster.form.spec)
        if not warning or not spec_is_news(self.cluster):
            return []
        note = f"RayCluster spec warning {self.cluster.place}: {warning}"
        return [Event(INVALID_SPEC, note, type="Warning", action="Validate")]

    def _set_conditions(self, conditions: Conditions, suspend: SuspendDecision, missing: str) -> None:
        cluster = self.cluster
        pods = cluster.children.pods
        conditions.remove(ClusterCondition.SPEC_VALID)
        self.plan.events += set_held_back(
            conditions,
            hold=self.hold,
            missing=missing,
            failures=self.failures,
            removed_groups=removed_groups(cluster),
        )
        self.plan.events += set_troubles(conditions, self.beside)
        slow = cluster.observed.hooks.slow_calls(cluster.observed.obj.uid)
        if conditions.set_present(ClusterCondition.PLUGIN_SLOW, slow_plugins.told(slow)):
            self.plan.events.append(slow_plugins.event(slow))
        if self.warnings is not None:
            told = plugin_warnings.told(self.warnings)
            if conditions.set_present(ClusterCondition.PLUGIN_WARNING, told):
                self.plan.events.append(plugin_warnings.event(self.warnings))
        conditions.set_suspend(suspending=suspend.deleting, suspended=suspend.suspended)
        set_unused(cluster, conditions)
        never_seen = not suspend.holds and _never_seen(cluster, conditions)
        final = why_no_head(cluster) if not suspend.holds and stays_without_head(cluster) else ""
        conditions.set_head(cluster.children.head, never_seen=never_seen, final=final)
        if suspend.completed:
            conditions.suspend_completed()
            self.plan.events.append(suspended_event(cluster))
        if not suspend.holds:
            conditions.set_provisioned(all_ready=all_ready(pods))
        if suspend.holds or not cluster.form.group_hashes:
            self.plan.events += clear_rolling(conditions, self.head_stays)
        elif not too_many_heads(cluster.children.heads):
            self.plan.events += set_rolling(conditions, cluster, missing or (self.hold.sentence if self.hold else ""))
        conditions.set_present(FALLBACK_CONDITION, self.fallback.told)
        self.plan.events += self.fallback.events
        conditions.set_replica_failure(cluster.observed.failure)
        conditions.set_present(ClusterCondition.PODS_NOT_READY, self.not_ready.told if self.not_ready else None)

    def _set_status(self, conditions: Conditions, *, suspended: bool) -> None:
        cluster = self.cluster
        obj, now = cluster.observed.obj, cluster.observed.now
        troubled = cluster.observed.failure is not None or self.hold is not None
        status = compute_status(
            obj,
            cluster.form,
            cluster.children,
            conditions.items,
            groups=self.owner.groups,
            suspended=suspended,
            troubled=troubled,
            now=now,
        )
        if self.fallback.handovers:
            status["fallbacks"] = [entry.as_dict() for entry in self.fallback.handovers]
        if differs(obj.status, status):
            self.plan.status = status
            if not self.plan.events:  # What is told by event is told with its status, and once.
                self.plan.status_delay = write_delay(
                    obj.status, status, now, cluster.children.pods, busy=cluster.observed.busy
                )

    def _waiting(self, suspend: SuspendDecision, missing: str) -> str:
        if missing:
            return missing
        why = self.not_ready.sentence if self.not_ready is not None else ""
        if self.hold is not None:
            return f"{self.hold.sentence}; {why}" if why else self.hold.sentence
        if suspend.deleting:
            going = "pods are being deleted: the cluster is being suspended"
            return f"{going}; {why}" if why else going
        if suspend.holds:
            return ""
        ready = sum(is_ready(pod) for pod in self.cluster.children.pods)
        wanted = self.cluster.form.desired_workers + 1
        if self.cluster.leaving:
            why = "; ".join(filter(None, (f"workers being drained: {len(self.cluster.leaving)}", why)))
        if ready == wanted:
            return why
        return f"{ready} of {wanted} pods are ready; {why}" if why else f"{ready} of {wanted} pods are ready"


def _never_seen(cluster: ClusterPass, conditions: Conditions) -> bool:
    """Whether no head has existed yet, so that its absence is a beginning and no loss (RC-34)."""
    known = find_condition(conditions.items, ClusterCondition.HEAD_POD_READY)
    lost = known is not None and known.get("reason") == ClusterReason.HEAD_POD_NOT_FOUND
    return not lost and not (cluster.observed.obj.status.get("head") or {}).get("podName")
