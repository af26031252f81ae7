"""The estimated time of a migration, and the conversions that an API server asks for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from restow.crds import Crd
from restow.migrator.planning.plan import Cost, Measured, ride_along, server_conversions
from tests.migrator import builders as b

MEASURED = Measured(writes=50, write_s=0.5, list_s=3.0, concurrency=32)
CONVERTED = replace(MEASURED, conversions=100, conversion_s=1.0)


@pytest.mark.parametrize(
    ("cost", "seconds"),
    [
        (Cost(writes=1000, measured=MEASURED), 10.0),
        (Cost(writes=900, rehearsals=100, measured=MEASURED), 10.0),
        (Cost(writes=100, measured=MEASURED), 3.0),
        (Cost(writes=1000, conversions=2000, measured=CONVERTED), 23.0),
        (Cost(writes=10_000, conversions=2000, measured=CONVERTED), 100.0),
        (Cost(writes=1000, conversions=2000, measured=MEASURED), None),
        (Cost(writes=1000), None),
        (Cost(writes=1000, measured=replace(MEASURED, write_s=0.0)), None),
    ],
    ids=[
        "writes",
        "rehearsed ones count",
        "listing is slower",
        "converting is slower",
        "writing is slower",
        "conversions that were not measured",
        "nothing measured",
        "too fast to tell",
    ],
)
def test_the_slowest_part_sets_the_time(cost: Cost, seconds: float | None) -> None:
    """A maintenance window is asked for by it: a number from nothing is worse than none."""
    assert cost.seconds == (None if seconds is None else pytest.approx(seconds))
    assert (cost.to_json()["estimate"] is None) is (seconds is None)


@pytest.mark.parametrize(
    ("crd", "conversions"),
    [
        (b.crd(), 0),
        (b.crd(webhook=True), 10 + 2 * 10 + 4 + 3 + 6),
        (b.crd(("v0", "v1", "v2"), webhook=True), 10 + 3 * 10 + 4 + 3 + 6),
        (b.crd(("v0", "v1", "v2"), unserved=("v0",), webhook=True), 10 + 2 * 10 + 4 + 3 + 6),
    ],
    ids=["no webhook", "two versions", "each served version has a watch cache", "but not an unserved one"],
)
def test_what_the_api_server_asks_of_the_webhook(crd: Crd, conversions: int) -> None:
    """These come on top of a migration's own; tests/apiserver/test_preflight.py holds them against a real server."""
    told = server_conversions(crd, listed=10, writes=10, applies=4, rehearsals=3, riding_along=ride_along(1, 1))
    assert told == conversions
