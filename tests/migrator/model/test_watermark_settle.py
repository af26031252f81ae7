"""How long to wait before the list: long enough after the last change, and never longer than asked for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.crds import Crd
from restow.migrator.model.watermark import FirstSeen, last_spec_change, remaining_settle_time
from tests.migrator import builders as b

CHANGED = datetime(2024, 5, 1, 10, 0, 0, tzinfo=UTC)
SPEC = {"f:spec": {"f:versions": {}}}


def written(time: str | None = "2024-05-01T10:00:00Z", fields: Any = SPEC, **other: Any) -> dict[str, Any]:
    """A managedFields entry of a CRD."""
    entry = {"manager": "helm", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}
    return entry | ({"time": time} if time is not None else {}) | other


def a_crd(*entries: dict[str, Any]) -> Crd:
    """A CRD that these managers wrote."""
    return b.crd(managed_fields=entries)


def remaining(crd: Crd, *, after: float | None, seen_for: float = 0.0, settle: float = 5.0) -> float:
    """The wait, with the server's clock so many seconds after ``CHANGED``."""
    now = None if after is None else CHANGED + timedelta(seconds=after)
    return remaining_settle_time(crd, settle_s=settle, server_now=now, seen_for_s=seen_for)


@pytest.mark.parametrize(
    ("after", "seen_for", "wait"),
    [
        (0, 0, 5.0),
        (10, 0, 5.0),
        (60, 0, 5.0),
        (62, 0, 3.0),
        (65, 0, 0.0),
        (3600, 0, 0.0),
        (2, 3, 2.0),
        (2, 60, 0.0),
        (-1, 0, 5.0),
        (-3600, 0, 5.0),
        (-3600, 4, 1.0),
        (None, 0, 5.0),
        (None, 4, 1.0),
        (None, 60, 0.0),
    ],
    ids=[
        "just now",
        "a server that is ten seconds ahead answers",
        "a minute ago, or now on a clock a minute ahead",
        "two seconds ago at least",
        "settled on any clock",
        "long ago",
        "seen for longer than its time says",
        "seen for a minute",
        "time a second ahead",
        "time an hour ahead",
        "time an hour ahead, seen for a while",
        "no server date",
        "no server date, seen for a while",
        "no server date, seen for a minute",
    ],
)
def test_the_wait(after: float | None, seen_for: float, wait: float) -> None:
    """Listing too early misses objects that another API server still wrote at the old version."""
    assert remaining(a_crd(written()), after=after, seen_for=seen_for) == wait


@pytest.mark.parametrize(("seen_for", "wait"), [(0.0, 5.0), (1.5, 3.5), (5.0, 0.0), (60.0, 0.0)])
def test_without_managed_fields_only_what_was_seen_counts(seen_for: float, wait: float) -> None:
    """A CRD that does not tell when it changed may have changed just before it was read."""
    assert remaining(a_crd(), after=0, seen_for=seen_for) == wait
    assert remaining(a_crd(), after=3600, seen_for=seen_for) == wait


@given(st.floats(-1e6, 1e6) | st.none(), st.floats(0, 1e6), st.floats(0, 600), st.booleans())
def test_the_wait_is_bounded(after: float | None, seen_for: float, settle: float, told: bool) -> None:
    """No clock, however wrong, may make a run wait longer than ``--settle``, nor less than nothing."""
    crd = a_crd(written()) if told else a_crd()
    assert 0.0 <= remaining(crd, after=after, seen_for=seen_for, settle=settle) <= settle


@given(st.floats(0, 600), st.floats(0, 1), st.floats(-59, 59), st.floats(0, 600))
def test_the_true_age_is_never_overestimated(age: float, fraction: float, ahead: float, settle: float) -> None:
    """The server that answers need not be the one that took the change: its clock may be most of a minute off."""
    wait = remaining(a_crd(written()), after=fraction + age + ahead, settle=settle)
    assert age + wait >= settle - 1e-5


@pytest.mark.parametrize(
    ("entries", "changed"),
    [
        ((), None),
        ((written(),), CHANGED),
        ((written(), written("2024-05-01T10:00:07Z")), CHANGED + timedelta(seconds=7)),
        ((written("2024-05-01T10:00:07Z"), written()), CHANGED + timedelta(seconds=7)),
        ((written(fields={"f:metadata": {"f:annotations": {}}}),), None),
        ((written(), written("2024-06-01T10:00:00Z", {"f:status": {}}, subresource="status")), CHANGED),
        ((written(time=None),), None),
        ((written(time=None), written()), CHANGED),
        ((written(fields=None),), None),
        (({"manager": "odd"},), None),
        ((written("2024-05-01T12:00:00+02:00"),), CHANGED),
    ],
    ids=[
        "nobody",
        "one",
        "the newest last",
        "the newest first",
        "an annotation",
        "a status",
        "no time",
        "no time and one with",
        "no fields",
        "nearly nothing",
        "another time zone",
    ],
)
def test_the_last_change_is_the_newest_write_of_the_spec(
    entries: tuple[dict[str, Any], ...], changed: datetime | None
) -> None:
    """A status or an annotation (our own mark) is no change; taking it for one would delay every run."""
    assert last_spec_change(a_crd(*entries)) == changed


def test_first_seen_counts_for_its_own_generation_only() -> None:
    """A CRD that is flipped during a long run must settle again before the next pass, however old the process is."""
    first_seen = FirstSeen()
    assert first_seen.seen_for(b.crd(generation=1), 100.0) == 0.0
    assert first_seen.seen_for(b.crd(generation=1), 700.0) == 600.0
    assert first_seen.seen_for(b.crd(generation=2, storage="v1"), 700.0) == 0.0
    assert first_seen.seen_for(b.crd(generation=2, storage="v1"), 703.0) == 3.0
    assert first_seen.seen_for(b.crd(generation=1), 703.0) == 603.0


def test_first_seen_counts_for_its_own_crd_only() -> None:
    """A CRD that was created again under its name starts with the same generations."""
    first_seen = FirstSeen()
    first_seen.seen_for(b.crd(uid="uid-1"), 100.0)
    assert first_seen.seen_for(b.crd(uid="uid-2"), 700.0) == 0.0


def test_the_servers_clock_may_be_in_any_zone() -> None:
    """What counts is the moment, not how it is written."""
    now = (CHANGED + timedelta(seconds=63)).astimezone(timezone(timedelta(hours=-7)))
    assert remaining_settle_time(a_crd(written()), settle_s=5.0, server_now=now, seen_for_s=0.0) == 2.0
