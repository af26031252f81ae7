"""Null and the functions of an author: it reaches them only if they ask for it."""

from __future__ import annotations

from typing import Any

import pytest

from restow.conversion import Graph, Registry, rules

GROUP = "nulls.example.dev"


def graph_of(rule: rules.Rule) -> Graph:
    registry = Registry()
    registry.kind(GROUP, "Thing", hub="v2").spoke("v1")(lambda: [rule])
    return registry.freeze()


def thing(version: str, value: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": "Thing", "spec": {"a": value}}


@pytest.mark.parametrize("loses", ["nothing", "up", "down", "both"])
def test_null_stays_null(loses: Any) -> None:
    """`field:` in a manifest would raise in a typical function, and hide every object of a LIST."""
    graph = graph_of(rules.pair("spec.a", "spec.a", up=lambda v: v + 1, down=lambda v: v - 1, loses=loses))
    there = graph.convert(thing("v1", None), f"{GROUP}/v2")
    assert there == thing("v2", None)
    assert graph.convert(there, f"{GROUP}/v1") == thing("v1", None)
    assert graph.convert(thing("v1", 1), f"{GROUP}/v2") == thing("v2", 2)


def test_a_function_that_asks_for_null_gets_it() -> None:
    """An API may give null a meaning of its own."""
    rule = rules.pair("spec.a", "spec.a", up=lambda v: v or 0, down=lambda v: v or None, nulls=True)
    graph = graph_of(rule)
    assert graph.convert(thing("v1", None), f"{GROUP}/v2") == thing("v2", 0)
    assert graph.convert(thing("v2", 0), f"{GROUP}/v1") == thing("v1", None)


def test_a_function_that_returns_null_loses_nothing() -> None:
    """Its inverse is not asked what null was; the stash has it."""
    rule = rules.pair("spec.a", "spec.a", up=lambda v: v, down=lambda v: None if v > 9 else v, loses="down")
    graph = graph_of(rule)
    shown = graph.convert(thing("v2", 12), f"{GROUP}/v1")
    assert shown["spec"] == {"a": None}
    assert graph.convert(shown, f"{GROUP}/v2") == thing("v2", 12)
