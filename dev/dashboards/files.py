"""Which dashboards there are, as files: ``config/grafana/<uid>.json``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dev.dashboards import clusters, jobs, model, operator, serve

DASHBOARDS = (operator.DASHBOARD, clusters.DASHBOARD, jobs.DASHBOARD, serve.DASHBOARD)

FILES: dict[str, Callable[[], str]] = {
    f"config/grafana/{dashboard.uid}.json": partial(model.render, dashboard) for dashboard in DASHBOARDS
}
