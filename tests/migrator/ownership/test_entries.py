"""managedFields entries: identity, merging, comparing, the seed, and their form on the wire."""

from __future__ import annotations

import json
from collections import defaultdict
from random import Random

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from restow.migrator.ownership.entries import (
    FIELD_MANAGER,
    Identity,
    ManagedFieldsEntry,
    identity,
    left_behind,
    merge,
    same_ownership,
    seed,
)
from tests.migrator.builders import api_version, entry, fields_of, raw
from tests.migrator.oracle import Path, members
from tests.migrator.strategies import chances, entries, entry_lists, filled_field_sets, respelled


def by_identity(found: tuple[ManagedFieldsEntry, ...] | list[ManagedFieldsEntry]) -> dict[Identity, frozenset[Path]]:
    """Everything that each identity owns."""
    owned: dict[Identity, frozenset[Path]] = defaultdict(frozenset)
    for one in found:
        owned[identity(one)] |= members(fields_of(one))
    return dict(owned)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (entry("a", "v1"), entry("a", "v2"), True),
        (entry("a", "v1", operation="Update"), entry("a", "v2", operation="Update"), False),
        (entry("a"), entry("a", operation="Update"), False),
        (entry("a"), entry("a", subresource="status"), False),
        (entry("a"), entry("b"), False),
        (entry("a", time="", fields={"f:x": {}}), entry("a", fields={"f:y": {}}), True),
    ],
    ids=["apply, two versions", "update, two versions", "operation", "subresource", "manager", "fields and time"],
)
def test_identity_is_the_servers(one: ManagedFieldsEntry, other: ManagedFieldsEntry, same: bool) -> None:
    """Entries that are one for the server must be merged, and only those, or the server drops all but the last."""
    assert (identity(one) == identity(other)) is same


@given(st.lists(entries(), max_size=6))
def test_a_merge_keeps_every_path_and_makes_identities_unique(found: list[ManagedFieldsEntry]) -> None:
    """Each manager must own after a merge what its entries owned together; a double would be lost on the server."""
    merged = merge(found)
    assert len({identity(one) for one in merged}) == len(merged)
    assert by_identity(merged) == by_identity(found)


@given(st.lists(entries(), max_size=6))
def test_a_merge_keeps_the_newest_time_and_the_order(found: list[ManagedFieldsEntry]) -> None:
    """A merged entry stands where its first one stood and is as young as its youngest."""
    merged = merge(found)
    assert [identity(one) for one in merged] == list(dict.fromkeys(identity(one) for one in found))
    for one in merged:
        assert one.time == max(other.time for other in found if identity(other) == identity(one))


@given(entry_lists())
def test_a_merge_of_different_entries_changes_nothing(found: list[ManagedFieldsEntry]) -> None:
    """Entries that need no merging must be sent back as they were read, byte for byte."""
    assert merge(found) == tuple(found)


def test_a_merge_of_appliers_takes_the_later_version() -> None:
    """An Apply entry has one version only: the one last in the list, as the server would keep."""
    (merged,) = merge([entry(version="v1", fields={"f:a": {}}), entry(version="v2", fields={"f:b": {}})])
    assert merged.api_version == api_version("v2")
    assert members(fields_of(merged)) == {("f:a",), ("f:b",)}


@given(entry_lists(), chances)
def test_the_same_owners_are_recognised(meant: list[ManagedFieldsEntry], chance: Random) -> None:
    """The server's own order, spelling and times must not be taken for a lost owner."""
    found = [
        msgspec.structs.replace(one, time="2025-01-01T00:00:00Z", fields=raw(respelled(fields_of(one), chance)))
        for one in chance.sample(meant, len(meant))
    ]
    assert same_ownership(meant, found)
    assert same_ownership(found, meant)


@given(st.lists(entries(), min_size=1, max_size=4, unique_by=identity), st.data())
def test_any_single_change_is_detected(meant: list[ManagedFieldsEntry], data: st.DataObject) -> None:
    """One manager, version, operation, subresource or field that is not as meant must show, or an owner gets lost."""
    index = data.draw(st.integers(0, len(meant) - 1))
    one = meant[index]
    what = data.draw(st.sampled_from(["manager", "operation", "api_version", "subresource", "fields", "gone", "more"]))
    replaced = [one]
    match what:
        case "gone":
            replaced = []
        case "more":
            replaced = [one, entry("mallory")]
        case "fields":
            fields = data.draw(filled_field_sets)
            assume(members(fields) != members(fields_of(one)))
            replaced = [msgspec.structs.replace(one, fields=raw(fields))]
        case _:
            replaced = [msgspec.structs.replace(one, **{what: getattr(one, what) + "x"})]
    changed = [*meant[:index], *replaced, *meant[index + 1 :]]
    assert not same_ownership(meant, changed)
    assert not same_ownership(changed, meant)


def test_an_applier_at_another_version_is_a_change() -> None:
    """The version is no part of an Apply entry's identity, but an entry left at the old one was not translated."""
    assert not same_ownership([entry(version="v2")], [entry(version="v1")])


OURS = entry(FIELD_MANAGER, "v2", operation="Update")
UNOWNED = entry("before-first-apply", "v2", operation="Update")


@pytest.mark.parametrize(
    ("found", "left"),
    [
        ((OURS,), {0}),
        ((entry("alice"), OURS), {1}),
        ((UNOWNED,), {0}),
        ((UNOWNED, OURS), {0, 1}),
        ((UNOWNED, entry("alice")), set()),
        ((UNOWNED, OURS, entry("alice")), {1}),
    ],
    ids=["ours", "ours, client", "unowned", "unowned, ours", "unowned, client", "all three"],
)
def test_what_an_earlier_run_left_is_told_from_what_clients_own(
    found: tuple[ManagedFieldsEntry, ...], left: set[int]
) -> None:
    """Either restow would stay the owner of a field, or a client would lose what its first apply took over."""
    assert left_behind(found) == left


def test_the_seed_names_nothing_but_the_name() -> None:
    """The seed must be the manager's own entry at the storage version and stand for no field of the object."""
    like = entry("alice", "v1", operation="Update", subresource="status")
    sown = seed(like, api_version("v2"))
    assert identity(sown) == ("alice", "Update", "status", api_version("v2"))
    assert (fields_of(sown), sown.fields_type) == ({"f:metadata": {"f:name": {}}}, "FieldsV1")


@given(entries())
def test_an_entry_survives_the_wire(one: ManagedFieldsEntry) -> None:
    """An entry that is kept must be sent back with everything that it had."""
    assert msgspec.json.decode(msgspec.json.encode(one), type=ManagedFieldsEntry) == one


def test_absent_time_and_subresource_stay_absent() -> None:
    """In a merge patch a null deletes, and the server refuses an empty time: what is absent must not be spelt."""
    encoded = json.loads(msgspec.json.encode(entry(time="", subresource="")))
    assert encoded == {
        "manager": "alice",
        "operation": "Apply",
        "apiVersion": "example.com/v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:size": {}}},
    }


def test_present_time_and_subresource_are_spelt_as_the_server_does() -> None:
    """A dropped subresource would make a status entry one with the main resource's and lose it."""
    encoded = json.loads(msgspec.json.encode(entry(time="2024-05-01T10:00:00Z", subresource="status")))
    assert (encoded["time"], encoded["subresource"]) == ("2024-05-01T10:00:00Z", "status")


def test_no_value_of_an_entry_is_ever_null() -> None:
    """A null anywhere in the list would be taken for a deletion by a merge patch."""
    assert b"null" not in msgspec.json.encode(ManagedFieldsEntry())
    assert msgspec.json.encode(ManagedFieldsEntry()) == b"{}"
