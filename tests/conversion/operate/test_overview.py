"""What `restow status` and the report say of ConversionRules, from their documents alone."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from restow.conversion.operate.gates import ANALYZED, CONFLICT, REHEARSED, SERVING, WIRED, Gate, status
from restow.conversion.operate.overview import RulesOverview
from tests.conversion.operate.test_revisions import rules

NOW = datetime(2026, 11, 23, tzinfo=UTC)
OPEN = [Gate(name, True, "Fine", "fine") for name in (ANALYZED, REHEARSED, SERVING, WIRED)]


def document(*gates: Gate, generation: int = 2, **metadata: Any) -> dict[str, Any]:
    """Rules with the status that the leader writes of these gates, at their second generation."""
    found = dict(rules())
    found["metadata"] = {**found["metadata"], "generation": 2}
    found["status"] = status(found, gates, crd="as.a.dev", served={"revision": "r", "generation": 1}, now=NOW)
    found["metadata"] = found["metadata"] | {"generation": generation, **metadata}
    return found


CASES = {
    "ready": (document(*OPEN), "ready", ""),
    "a change that nothing has looked at yet": (document(*OPEN, generation=3), "in progress", ""),
    "a gate on its way": (document(OPEN[0], Gate(REHEARSED, None, "InProgress", "…")), "in progress", ""),
    "a closed gate": (
        document(OPEN[0], Gate(REHEARSED, False, "ObjectsFail", "1 of 2")),
        "failed",
        "Rehearsed, ObjectsFail: 1 of 2",
    ),
    "older rules": (
        document(Gate(ANALYZED, False, "Conflict", "x"), Gate(CONFLICT, True, "OlderRules", "x is older")),
        "failed",
        "Conflict, OlderRules: x is older",
    ),
    "deleted": (document(*OPEN, deletionTimestamp="2026-11-23T00:00:00Z"), "deleting", ""),
    "new": ({key: value for key, value in document().items() if key != "status"}, "in progress", ""),
}


@pytest.mark.parametrize("case", CASES)
def test_the_state_in_a_word(case: str) -> None:
    """A reader who is told ready of a change that failed unserves a version too early."""
    found, state, failure = CASES[case]
    overview = RulesOverview.of(found)
    assert (overview.state, overview.failure) == (state, failure)
    assert [gate["type"] for gate in overview.to_json()["gates"]] == [ANALYZED, REHEARSED, SERVING, WIRED]
    assert overview.to_json()["served"] == (None if case == "new" else {"revision": "r", "generation": 1})
