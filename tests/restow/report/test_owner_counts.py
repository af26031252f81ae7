"""Counting owners: right, and in bounded space whatever clients call themselves."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from restow.migrator.ownership.entries import ManagedFieldsEntry
from restow.report.views import MOST_OWNERS, OwnerCounts

STORAGE = "example.com/v1"


def entry(manager: str, version: str, time: str = "", operation: str = "Apply") -> ManagedFieldsEntry:
    """An entry; what it owns does not matter here."""
    return ManagedFieldsEntry(manager=manager, operation=operation, api_version=f"example.com/{version}", time=time)


def test_an_object_counts_once_for_a_manager():
    """A manager with an Apply and an Update entry does not own two objects."""
    tally = OwnerCounts(STORAGE)
    tally.add([entry("a", "v1beta1"), entry("a", "v1beta1", operation="Update"), entry("a", "v1")])
    assert (tally.objects, tally.old, tally.by_version["example.com/v1beta1"]) == (1, 1, 1)
    assert tally.owners["a", "example.com/v1beta1"].objects == 1
    assert len(tally.owners) == 1, "the storage version needs no owners"


def test_the_newest_write_of_all_entries_counts():
    """It tells whether a client is still there; the first one seen says nothing."""
    tally = OwnerCounts(STORAGE)
    tally.add([entry("a", "v1beta1", "2026-01-02T00:00:00Z"), entry("a", "v1beta1", "2026-01-01T00:00:00Z", "Update")])
    tally.add([entry("a", "v1beta1", "2025-12-31T00:00:00Z")])
    assert tally.owners["a", "example.com/v1beta1"].newest == "2026-01-02T00:00:00Z"


def test_made_up_names_do_not_fill_the_memory():
    """Some clients use a new name for each write; those beyond the bound are counted together."""
    tally = OwnerCounts(STORAGE)
    for number in range(MOST_OWNERS + 300):
        tally.add([entry(f"pod-{number}", "v1beta1", f"2026-01-01T00:00:{number % 60:02}Z")])
        tally.add([ManagedFieldsEntry(manager="x", api_version=f"example.com/v{number}")])
    assert len(tally.owners) == MOST_OWNERS
    assert len(tally.by_version) <= 100 and len(tally.others) <= 101
    assert tally.by_version["example.com/v1beta1"] == MOST_OWNERS + 300
    counted = sum(owner.objects for owner in [*tally.owners.values(), *tally.others.values()])
    assert counted == tally.old


@settings(max_examples=50)
@given(
    st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["v1", "v1beta1", "v1alpha1"])), max_size=5))
)
def test_the_counts_agree(objects: list[list[tuple[str, str]]]):
    """Objects by owner and by version are what a plain count over all of them gives."""
    tally = OwnerCounts(STORAGE)
    for each in objects:
        tally.add(entry(manager, version) for manager, version in each)
    assert tally.objects == len(objects)
    assert tally.old == sum(any(version != "v1" for _, version in each) for each in objects)
    for version in ("v1", "v1beta1", "v1alpha1"):
        expected = sum(any(at == version for _, at in each) for each in objects)
        assert tally.by_version[f"example.com/{version}"] == expected
        for manager in "abc":
            owner = tally.owners.get((manager, f"example.com/{version}"))
            expected = 0 if version == "v1" else sum((manager, version) in each for each in objects)
            assert (owner.objects if owner else 0) == expected
