"""Maintenance time windows: their format, and the rules for them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.cloudprofile.shoots.window import SHORTEST, InvalidWindow, MaintenanceWindow, window_findings, window_of
from tests.cloudprofile.served import GROUP, HUB, OLD, Answer, ApiServer
from tests.cloudprofile.validation.test_supported import profile

NOW = datetime(2025, 1, 15, 12, 0, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("begin", "end", "now", "inside"),
    [
        ("220000+0100", "230000+0100", "2025-01-15T20:59:59Z", False),
        ("220000+0100", "230000+0100", "2025-01-15T21:00:00Z", True),
        ("220000+0100", "230000+0100", "2025-01-15T22:00:00Z", True),
        ("220000+0100", "230000+0100", "2025-01-15T22:00:01Z", False),
        ("003000+0100", "013000+0100", "2025-01-15T23:30:00Z", True),
        ("003000+0100", "013000+0100", "2025-01-15T00:15:00Z", True),
        ("003000+0100", "013000+0100", "2025-01-15T12:00:00Z", False),
        ("233000-0430", "003000-0430", "2025-01-15T04:30:00Z", True),
        ("230000+0000", "020000+0000", "2025-01-15T01:59:59Z", True),
    ],
)
def test_time_window(begin: str, end: str, now: str, inside: bool) -> None:
    """A maintenance outside of its window would hit users in their working hours."""
    window = {"timeWindow": {"begin": begin, "end": end}}
    assert window_of({"spec": {"maintenance": window}}).contains(datetime.fromisoformat(now)) is inside


def test_next_start() -> None:
    """A controller that sleeps until then would miss the window, or be woken in an endless loop."""
    window = MaintenanceWindow.parse("220000+0100", "230000+0100")
    assert window.duration == timedelta(hours=1)
    assert window.next_start(NOW) == datetime(2025, 1, 15, 21, tzinfo=UTC)
    assert window.next_start(datetime(2025, 1, 15, 21, tzinfo=UTC)) == datetime(2025, 1, 16, 21, tzinfo=UTC)
    assert window.next_start(datetime(2025, 1, 31, 21, 30, tzinfo=UTC)) == datetime(2025, 2, 1, 21, tzinfo=UTC)


@given(
    st.integers(0, 24 * 3600 - 1),
    st.integers(0, 24 * 3600 - 1),
    st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1)),  # noqa: DTZ001 - gets its zone below
    st.integers(-12, 14),
)
def test_a_window_begins_where_it_says(begin: int, end: int, now: datetime, hours: int) -> None:
    """The next start would be outside of the window, or more than 24 hours away, for some time zone of ``now``."""
    window = MaintenanceWindow(begin, end)
    at = now.replace(tzinfo=timezone(timedelta(hours=hours)))
    start = window.next_start(at)
    assert at < start <= at + timedelta(days=1)
    assert window.contains(start) and window.contains(start + window.duration)
    assert window.last_start(at) == start - timedelta(days=1)


@pytest.mark.parametrize("text", ["", "2200", "220000", "250000+0000", "226000+0000", "22:00:00+01:00", "220000+0160"])
def test_no_time_is_an_error(text: str) -> None:
    """A window that cannot be read would count as always or never open."""
    with pytest.raises(InvalidWindow, match="HHMMSS"):
        MaintenanceWindow.parse(text, "230000+0100")


def test_without_a_window_it_is_always_time() -> None:
    """A Shoot without a window would never be maintained, unlike with Gardener's AlwaysTimeWindow."""
    assert window_of({"spec": {}}).contains(datetime(2025, 1, 15, 23, 59, 59, 999999, tzinfo=UTC))


def shoot(at: str, begin: str, end: str) -> dict[str, Any]:
    """Return a Shoot with a window at a version of the API."""
    spec: dict[str, Any] = {
        "cloudProfile": {"kind": "CloudProfile", "name": "a"},
        "kubernetes": {"version": "1.31.0"},
        "provider": {"workers": []},
        "maintenance": {"timeWindow": {"begin": begin, "end": end}},
    }
    metadata = {"name": "s", "namespace": "ns"}
    return {"apiVersion": f"{GROUP}/{at}", "kind": "Shoot", "metadata": metadata, "spec": spec}


def sent(at: str, begin: str, end: str, old: dict[str, Any] | None = None) -> Answer:
    server = ApiServer(NOW, {"cloudprofiles": [profile(HUB)]})
    return server.create(shoot(at, begin, end)) if old is None else server.update(shoot(at, begin, end), old)


WINDOW = "spec.maintenance.timeWindow"
REFUSED = {
    "an offset that does not exist": ("000000+2400", "040000+2400", [f"{WINDOW}.begin", f"{WINDOW}.end"]),
    "too far east": ("000000+1401", "040000+0000", [f"{WINDOW}.begin"]),
    "too far west": ("000000+0000", "040000-1230", [f"{WINDOW}.end"]),
    "minutes": ("000000+0060", "040000+0000", [f"{WINDOW}.begin"]),
    "no time": ("at night", "240000+0000", [f"{WINDOW}.begin", f"{WINDOW}.end"]),
    "a second": ("220000+0000", "220000+0000", [WINDOW]),
    "less than half an hour": ("220000+0000", "222959+0000", [WINDOW]),
    "less than half an hour by its offsets": ("220000+0000", "230000+0045", [WINDOW]),
    "more than six hours": ("220000+0000", "040001+0000", [WINDOW]),
    "all day": ("000000+0000", "235959+0000", [WINDOW]),
}


@pytest.mark.parametrize("at", [OLD, HUB])
@pytest.mark.parametrize(("begin", "end", "fields"), REFUSED.values(), ids=REFUSED)
def test_what_no_scheduler_can_use_is_refused(at: str, begin: str, end: str, fields: list[str]) -> None:
    """The owner of a Shoot would escape forced updates, or be updated in another window than they expect."""
    assert [each.field for each in sent(at, begin, end).findings] == fields


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("220000+0100", "230000+0100"),
        ("233000-1200", "000000-1200"),
        ("220000+1400", "040000+1400"),
        ("220000+0545", "221500+0530"),
    ],
)
def test_windows_are_admitted(begin: str, end: str) -> None:
    """A window at the bounds, or with an offset of half or quarter hours, would be refused."""
    answer = sent(HUB, begin, end)
    assert answer.allowed, answer.refusal


def test_a_window_that_stays_refuses_nothing() -> None:
    """A Shoot from before the rule could not be changed any more, although its schema tolerates the old window."""
    old = shoot(HUB, "000000+2400", "235959+2400")
    new = {**old, "spec": {**old["spec"], "region": "here"}}
    assert window_findings(new, old) == ()
    assert window_findings(new, None) != ()


def test_a_window_that_is_too_short_lasts_half_an_hour() -> None:
    """A controller that is a second late would miss a too short window every day."""
    window = window_of(shoot(HUB, "235000+0000", "235000+0000"))
    assert window.duration == SHORTEST
    assert window.contains(datetime(2025, 1, 15, 0, 19, 59, tzinfo=UTC))
