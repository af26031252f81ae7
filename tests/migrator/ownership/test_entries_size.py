"""A list of owners that is not to grow: what it gives for that, and what it never gives."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from restow.migrator.ownership.entries import (
    ETCD_TAKES,
    ManagedFieldsEntry,
    fitted,
    growth,
    same_ownership,
    without_times,
)
from tests.migrator.builders import entry
from tests.migrator.strategies import entry_lists


@given(entry_lists(), entry_lists(), st.integers(-40, 40))
def test_no_owner_is_given_for_room(
    before: list[ManagedFieldsEntry], after: list[ManagedFieldsEntry], room: int
) -> None:
    """An owner left out to make a list fit would be the very loss that it is to prevent."""
    assert same_ownership(after, fitted(before, after, room))


@given(entry_lists(), entry_lists(), st.integers(-40, 40))
def test_it_fits_wherever_leaving_out_times_makes_it_fit(
    before: list[ManagedFieldsEntry], after: list[ManagedFieldsEntry], room: int
) -> None:
    """A list that is still too long although it need not be is stored as none."""
    found = fitted(before, after, room)
    assert growth(before, found) <= room or growth(before, without_times(after)) > room


@given(entry_lists())
def test_a_list_that_does_not_grow_stays_as_it_is(entries: list[ManagedFieldsEntry]) -> None:
    """When a manager wrote last is worth knowing; nobody is to lose it without need."""
    assert fitted(entries, entries) == tuple(entries)


def test_the_oldest_times_go_first() -> None:
    """The newest write is the one that somebody looks for."""
    old, new = entry("alice", "v1", time="2020-01-01T00:00:00Z"), entry("bob", "v1", time="2024-01-01T00:00:00Z")
    after = [msgspec.structs.replace(one, api_version="example.com/v1beta1") for one in (new, old)]
    assert [one.time for one in fitted([new, old], after)] == [new.time, ""]
    assert [one.time for one in fitted([new, old], after, -15)] == [new.time, ""], "one makes room for 25 bytes"
    assert fitted([old], [msgspec.structs.replace(old, api_version="example.com/v10")])[0].time == "", "for one, too"


def test_each_entry_takes_its_bytes_and_a_comma() -> None:
    """A byte that is not counted is the one by which etcd takes no owner."""
    one, other = entry("alice", "v1"), entry("bob", "v1")
    assert growth((one,), (one, other)) == len(msgspec.json.encode(other)) + 1
    assert growth((), (other,)) == len(msgspec.json.encode(other)) + 1


def test_entries_without_times_are_otherwise_the_same() -> None:
    """An object that etcd finds too large would be sent as it was, and emptied of its owners again."""
    before = (entry("alice", "v1"), entry("bob", "v2", operation="Update", subresource="status"))
    after = without_times(before)
    assert [each.time for each in after] == ["", ""] and all(each.time for each in before)
    assert [msgspec.structs.replace(each, time=old.time) for each, old in zip(after, before, strict=True)] == [*before]


LIMIT_OF_ETCD = 1_572_864
"""``--max-request-bytes``, which etcd compares with the whole request."""

LONGEST_KEY = len("/registry/") + 253 + len("/") + 63 + len("/") + 253
"""The longest key of a custom resource: the name of its CRD, its namespace, its name."""


def test_the_longest_key_has_room_next_to_an_object_that_etcd_takes() -> None:
    """An object by some bytes too large for the request of its write would be written, and stored without owners."""
    keys = 3 * LONGEST_KEY  # a write compares the key, puts the object there, and reads it if the comparison fails
    assert 0 < LIMIT_OF_ETCD - ETCD_TAKES - keys < 1024, "and no more is kept free than a request needs"
