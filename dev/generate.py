"""All files of the tree that are made from code, in one list: written by ``make generate``, compared by ``make lint``.

``python -m dev.generate [--check]``; with ``--check`` nothing is written and a difference ends with exit code 1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from kuberay.api.crd_files import crd_files
from kuberay.cli import settings_docs
from kuberay.plugins import hook_docs

from dev import (
    chart_values,
    charts,
    cli_docs,
    compatibility,
    conditions,
    differences,
    events,
    gates,
    gitops,
    metrics_page,
    prometheus_rules,
    rbac_file,
    samples,
)
from dev.dashboards import files as dashboards

ROOT = Path(__file__).resolve().parent.parent

PAGES: dict[str, Callable[[], str]] = {
    "config/prometheus/prometheusRules.yaml": lambda: prometheus_rules.render(ROOT / "config" / "prometheus" / "rules"),
    "config/rbac/operator.yaml": rbac_file.render,
    "config/samples/README.md": samples.render,
    "docs/conditions.md": conditions.render,
    "docs/chart-values.md": chart_values.render,
    "docs/cli.md": cli_docs.render,
    "docs/events.md": events.render,
    "docs/gates.md": gates.render,
    "docs/differences.md": lambda: differences.render(ROOT / "docs" / "differences.d"),
    "docs/hooks.md": hook_docs.render,
    "docs/metrics.md": metrics_page.render,
    "docs/plugins/compatibility.md": compatibility.render,
    "docs/settings.md": settings_docs.render,
    **dashboards.FILES,
    **gitops.FILES,
}


def generated() -> dict[str, str]:
    """Content by path below the root."""
    crds = {f"config/crd/{name}": text for name, text in crd_files().items()}
    return crds | {name: render() for name, render in (PAGES | charts.pages(ROOT, PAGES)).items()}


def main(arguments: list[str]) -> int:
    stale = []
    for name, text in generated().items():
        path = ROOT / name
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if "--check" in arguments:
        for name in stale:
            print(f"{name} is not what the code says; run: make generate", file=sys.stderr)
        return 1 if stale else 0
    print(f"wrote {', '.join(stale)}" if stale else "all generated files are up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
