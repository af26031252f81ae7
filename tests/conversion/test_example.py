"""The example provider's own tests, run as they stand, and values that they do not think of."""

from __future__ import annotations

import pytest

from docs.examples.provider.conversions import graph
from docs.examples.provider.test_conversions import TestCache, TestGateway, test_recorded_reviews

__all__ = ["TestCache", "TestGateway", "test_recorded_reviews"]

GROUP = "edge.example.dev"


@pytest.mark.parametrize("digits", [18, 19, 20, 4_300, 5_000, 50_000])
def test_numbers_of_any_length_are_converted(digits: int) -> None:
    """Python's int refuses 4,300 digits, JSON's integers end at 19; else one such text hides all of its kind."""
    number, seen = "9" * digits, int("9" * 18) if digits == 18 else 0
    head = {"metadata": {"name": "a"}}
    listeners = [{"name": "a", "protocol": "TCP", "timeout": f"{number}s"}]
    gateway = {"apiVersion": f"{GROUP}/v1", "kind": "Gateway", **head, "spec": {"listeners": listeners}}
    old = graph.convert(gateway, f"{GROUP}/v1alpha1")
    assert old["spec"]["listeners"][0]["timeoutSeconds"] == seen
    assert graph.convert(old, f"{GROUP}/v1") == gateway
    cache = {"apiVersion": f"{GROUP}/v3", "kind": "Cache", **head, "spec": {"size": f"{number}Mi"}}
    old = graph.convert(cache, f"{GROUP}/v1")
    assert old["spec"]["sizeMiB"] == seen
    assert graph.convert(old, f"{GROUP}/v3") == cache
