"""The conditions of a ConversionRules object."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from restow.conversion.operate.gates import ANALYZED, CONFLICT, READY, REHEARSED, Gate, conditions, news, status

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
ANALYZES = Gate(ANALYZED, True, "Accounted", "all")
FAILS = Gate(REHEARSED, False, "ObjectsFail", "1 of 2 objects fail")


def by_type(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Conditions by their type."""
    return {each["type"]: each for each in found}


def test_what_comes_after_a_closed_gate_is_unknown() -> None:
    """A gate that was not tried must not look passed, and Ready names the one that is in the way."""
    found = by_type(conditions([ANALYZES, FAILS], [], 3, NOW))
    assert [each["status"] for each in found.values()] == ["True", "False", "Unknown", "Unknown", "False"]
    assert found[READY]["reason"] == "ObjectsFail"
    assert found[READY]["message"] == "Rehearsed: 1 of 2 objects fail"
    assert {each["observedGeneration"] for each in found.values()} == {3}


def test_the_time_is_that_of_the_transition() -> None:
    """A new message alone must not make a condition look young: alerts count from the transition."""
    before = conditions([ANALYZES, FAILS], [], 1, NOW)
    again = Gate(REHEARSED, False, "ObjectsFail", "2 of 2 objects fail")
    after = by_type(conditions([ANALYZES, again], before, 2, LATER))
    assert after[REHEARSED]["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    passed = Gate(REHEARSED, True, "Converted", "2 objects")
    after = by_type(conditions([ANALYZES, passed], before, 2, LATER))
    assert after[REHEARSED]["lastTransitionTime"] == "2026-01-01T01:00:00Z"


def test_nothing_to_write_where_nothing_changed() -> None:
    """The same findings give the same status, or the controller would write, and wake itself, for ever."""
    document: dict[str, Any] = {"metadata": {"generation": 1}}
    first = status(document, [ANALYZES, FAILS], crd="jobs.example.dev", served=None, now=NOW)
    second = status({**document, "status": first}, [ANALYZES, FAILS], crd="jobs.example.dev", served=None, now=LATER)
    assert first == second


def test_a_long_message_is_cut() -> None:
    """A message with thousands of problems must not make the object too large to be written."""
    found = by_type(conditions([Gate(ANALYZED, False, "Invalid", "x" * 100_000)], [], 1, NOW))
    assert len(found[ANALYZED]["message"]) == 8_000


def test_news_are_changes_of_status_or_reason() -> None:
    """One Event for each gate that opens or closes: none for waiting, progress, or the summary."""
    before = conditions([ANALYZES, FAILS], [], 1, NOW)
    assert [each["type"] for each in news([], before)] == [ANALYZED, REHEARSED]
    progress = Gate(REHEARSED, None, "InProgress", "100 objects were converted")
    assert news(before, conditions([ANALYZES, progress], before, 1, LATER)) == []
    conflict = Gate(CONFLICT, True, "OlderRules", "a is older")
    assert [each["type"] for each in news(before, conditions([ANALYZES, FAILS, conflict], before, 1, NOW))] == [
        CONFLICT
    ]
