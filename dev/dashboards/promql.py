"""Which series a query asks for: names, and the labels that it takes for granted, by selecting, grouping or joining by them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import promql_parser as promql

TARGET = frozenset(("namespace", "pod", "instance", "job", "container", "endpoint", "service", "ray_io_cluster"))
"""Labels that scraping adds (Prometheus' operator, and the relabelling of our PodMonitors)."""

_KEEPING = ("topk", "bottomk", "limitk")
"""Aggregations that keep all labels of what they choose."""
_SETS = ("and", "or", "unless")


@dataclass(frozen=True)
class Use:
    """Of one selector. ``name`` is empty, and ``pattern`` says which, where several metrics are selected."""

    name: str
    labels: frozenset[str]
    pattern: str = ""


def uses(expr: str) -> list[Use]:
    """Every selector of *expr*. Raises ValueError when it is no PromQL."""
    return list(_uses(promql.parse(expr), frozenset()))


def labels_of(expr: str) -> frozenset[str]:
    """Labels of the result: what its outermost grouping keeps."""
    return frozenset(_kept(promql.parse(expr)))


def _uses(node: Any, wanted: frozenset[str]) -> Iterator[Use]:
    match node:
        case promql.VectorSelector():
            matchers = {each.name: each.value for each in node.matchers.matchers}
            pattern = matchers.pop("__name__", "")
            yield Use(node.name or "", wanted | matchers.keys(), pattern)
        case promql.MatrixSelector():
            yield from _uses(node.vector_selector, wanted)
        case promql.AggregateExpr():
            grouped = frozenset(node.modifier.labels) if node.modifier is not None else frozenset()
            yield from _uses(node.expr, wanted | grouped if str(node.op) in _KEEPING else grouped)
        case promql.BinaryExpr():
            joined = _joined(node)
            if joined is None:
                yield from _uses(node.lhs, wanted)
                yield from _uses(node.rhs, frozenset() if str(node.op) == "unless" else wanted)
            else:
                yield from _uses(node.lhs, wanted | joined)
                yield from _uses(node.rhs, joined)
        case promql.Call():
            for argument in node.args:
                yield from _uses(argument, wanted)
        case promql.ParenExpr() | promql.UnaryExpr() | promql.SubqueryExpr():
            yield from _uses(node.expr, wanted)
        case promql.NumberLiteral() | promql.StringLiteral():
            return
        case _:
            raise ValueError(f"nobody has thought of {type(node).__name__}")


def _joined(node: Any) -> frozenset[str] | None:
    """Labels of ``on (…)``."""
    matching = node.modifier.matching if node.modifier is not None else None
    return frozenset(matching.labels) if matching is not None and str(matching.type).endswith("Include") else None


def _kept(node: Any) -> Iterator[str]:
    match node:
        case promql.AggregateExpr():
            yield from node.modifier.labels if node.modifier is not None else ()
        case promql.Call():
            taken = {"le"} if node.func.name == "histogram_quantile" else set()
            for argument in node.args:
                yield from set(_kept(argument)) - taken
        case promql.BinaryExpr():
            yield from _kept(node.lhs)
        case promql.ParenExpr():
            yield from _kept(node.expr)
