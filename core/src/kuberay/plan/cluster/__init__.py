"""Decides everything about a RayCluster: `plan_cluster` turns what was observed into a plan."""

from __future__ import annotations

from kuberay.plan.cluster.reconcile import plan_cluster

__all__ = ["plan_cluster"]
