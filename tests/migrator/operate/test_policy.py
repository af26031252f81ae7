"""The policy that a CRD's annotations ask for, and its window."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.crds import Crd
from restow.migrator.model.callbacks import MigrationRefused
from restow.migrator.model.options import Options, Scope
from restow.migrator.operate.policy import LABEL, RATE, SCOPE, WINDOW, Policy, Window, asking
from tests.migrator import builders as b

DEFAULT = Options(resume=True)


def crd(label: str | None = "true", **annotations: str) -> Crd:
    """A CRD that asks to be migrated, with these annotations after ``restow.dev/migrate-``."""
    document = b.crd_document()
    document["metadata"]["labels"] = {} if label is None else {LABEL: label}
    document["metadata"]["annotations"] = {f"{LABEL}-{name}": value for name, value in annotations.items()}
    return Crd.from_document(document)


@pytest.mark.parametrize("label", [None, "false", "True", ""])
def test_a_crd_that_does_not_ask_is_no_target(label: str | None) -> None:
    """A CRD of others would be written that nobody has asked to have migrated."""
    assert asking(DEFAULT)(crd(label, rate="nonsense")) is None


def test_annotations_are_the_policy() -> None:
    """What an operator's author asks for would not be heeded; what he leaves out would differ from the command's."""
    assert asking(DEFAULT)(crd()) == Policy(DEFAULT)
    found = asking(DEFAULT)(crd(scope="unserved", rate="12.5", window="Sat,Sun 22:00-06:00"))
    assert found == Policy(Options(resume=True, scope=Scope.UNSERVED, rate=12.5), Window(1320, 480, frozenset({5, 6})))


@pytest.mark.parametrize(
    ("annotation", "value", "told"),
    [
        (SCOPE, "all", "'all' is no scope: give not-storage, unserved, removed"),
        (RATE, "0", "'0' is no rate: give writes per second, such as 50"),
        (RATE, "-1", "'-1' is no rate"),
        (RATE, "50/s", "'50/s' is no rate"),
        (RATE, "nan", "'nan' is no rate"),
        (RATE, "1e9", "'1e9' is no rate"),
        (WINDOW, "22-6", "'22-6' is no window: give HH:MM-HH:MM in UTC"),
        (WINDOW, "24:00-06:00", "is no window"),
        (WINDOW, "Sat, Sun 22:00-06:00", "is no window"),
        (WINDOW, "sat 22:00-06:00", "is no window"),
        ("restow.dev/migrate-windows", "22:00-06:00", f"restow knows {SCOPE}, {RATE} and {WINDOW}"),
    ],
)
def test_a_wrong_annotation_is_a_sentence(annotation: str, value: str, told: str) -> None:
    """A CRD would be migrated at noon, or at full speed, because of a slip in the annotation that forbids it."""
    with pytest.raises(MigrationRefused) as refused:
        asking(DEFAULT)(crd(**{annotation.removeprefix(f"{LABEL}-"): value}))
    assert str(refused.value).startswith(f"the annotation {annotation} of {b.crd().name} cannot be used: ")
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("window", "now", "begin", "end"),
    [
        ("22:00-06:00", "2026-11-28T21:59", "2026-11-28T22:00", "2026-11-29T06:00"),
        ("22:00-06:00", "2026-11-28T22:00", "2026-11-28T22:00", "2026-11-29T06:00"),
        ("22:00-06:00", "2026-11-29T05:59", "2026-11-28T22:00", "2026-11-29T06:00"),
        ("22:00-06:00", "2026-11-29T06:00", "2026-11-29T22:00", "2026-11-30T06:00"),
        ("01:00-02:30", "2026-11-29T06:00", "2026-11-30T01:00", "2026-11-30T02:30"),
        ("00:00-00:00", "2026-11-29T06:00", "2026-11-29T00:00", "2026-11-30T00:00"),
        # Saturday is 2026-11-28: the night from Sunday to Monday is Sunday's.
        ("Sun 22:00-06:00", "2026-11-30T03:00", "2026-11-29T22:00", "2026-11-30T06:00"),
        ("Sat 22:00-06:00", "2026-11-29T06:00", "2026-12-05T22:00", "2026-12-06T06:00"),
    ],
)
def test_the_window_around_a_moment(window: str, now: str, begin: str, end: str) -> None:
    """A migration would begin before its window, or never."""
    at, *expected = (datetime.fromisoformat(each).replace(tzinfo=UTC) for each in (now, begin, end))
    assert Window.parse(window).next(at) == tuple(expected)


@given(
    st.integers(0, 1439),
    st.integers(1, 1440),
    st.sets(st.integers(0, 6), min_size=1),
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1)),  # noqa: DTZ001 - the zone is drawn
    st.integers(-12, 12),
)
def test_each_week_has_a_window(begins: int, minutes: int, days: set[int], now: datetime, zone: int) -> None:
    """A reconciler would wait past an open window, or be told one that is over."""
    at = now.replace(tzinfo=timezone(timedelta(hours=zone)))
    begin, end = Window(begins, minutes, frozenset(days)).next(at)
    assert end > at
    assert end - begin == timedelta(minutes=minutes)
    assert begin.weekday() in days
    assert begin - at <= timedelta(days=7)
