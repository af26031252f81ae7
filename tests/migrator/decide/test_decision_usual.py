"""The short way of deciding: the same decision as entry by entry, and a way that usual objects do take."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.migrator.decide.decision import ObjectDecision, WriteStep, decide, decide_each, rename_only
from restow.migrator.decide.policies import entry_policies
from restow.migrator.model.options import ManagedFields, Options, Phase, Scope
from restow.migrator.ownership.entries import FIELD_MANAGER, ManagedFieldsEntry, identity
from restow.migrator.ownership.policy import EntryPolicies
from tests.migrator import builders as b

VERSIONS = ("v1", "v1beta1", "v2")
SPEC = b.struct(spec=b.EVERYTHING_KEPT)
WITH_DEFAULT = b.struct(spec=b.EVERYTHING_KEPT, size={"type": "integer", "default": 1})
ATOMIC = b.struct(spec=b.atomic(b.mapping(b.STRING)))
GRANULAR = b.struct(spec=b.mapping(b.STRING))


def rules_for(
    options: Options,
    storage: str = "v2",
    schemas: tuple[b.Node, b.Node] = (SPEC, SPEC),
    *,
    stored: bool = True,
    webhook: bool = False,
    completed: bool = False,
) -> EntryPolicies:
    """The policies of a CRD, whose other versions have the first of the schemas; ``stored``: in older versions too."""
    by_version = dict.fromkeys(VERSIONS, schemas[0]) | {storage: schemas[1]}
    crd = b.crd(VERSIONS, storage=storage, schemas=by_version, webhook=webhook, unserved={"v1beta1"} - {storage})
    return entry_policies(crd if stored else b.proved(crd), options, completed=completed)


rules = st.builds(
    rules_for,
    st.builds(
        Options,
        skip=st.frozensets(st.sampled_from(Phase), max_size=1),
        managed_fields=st.sampled_from([ManagedFields.TRANSLATE, *ManagedFields]),
        scope=st.sampled_from([Scope.NOT_STORAGE, *Scope]),
    ),
    st.sampled_from(VERSIONS),
    st.sampled_from([(SPEC, SPEC), (SPEC, SPEC), (SPEC, WITH_DEFAULT), (ATOMIC, GRANULAR)]),
    stored=st.booleans(),
    webhook=st.sampled_from([False, False, True]),
    completed=st.sampled_from([False, False, True]),
)


def spoilt(entry: ManagedFieldsEntry, how: str) -> ManagedFieldsEntry:
    """The entry, or what a restored etcd or a run that was killed may hold in its place."""
    strange = {
        "no operation": {"operation": "Patch"},
        "another type": {"fields_type": "FieldsV2"},
        "no object": {"fields": msgspec.Raw(b'{"f:spec":1}')},
        "another group": {"api_version": "example.org/v1"},
        "removed version": {"api_version": b.api_version("v0")},
        "restow's own": {"manager": FIELD_MANAGER, "operation": "Update"},
        "the server's own": {"manager": "before-first-apply"},
    }
    return msgspec.structs.replace(entry, **strange.get(how, {}))


entries = st.builds(
    spoilt,
    st.builds(
        b.entry,
        manager=st.sampled_from(["alice", "bob"]),
        version=st.sampled_from(VERSIONS),
        fields=st.sampled_from([{"f:spec": {"f:size": {}}}, {"f:spec": {}}, {"f:metadata": {"f:labels": {"f:x": {}}}}]),
        operation=st.sampled_from(["Update", "Update", "Apply"]),
        subresource=st.sampled_from(["", "", "status"]),
        time=st.sampled_from(["", "2024-05-01T10:00:00Z"]),
    ),
    st.sampled_from(
        [""] * 9
        + ["no operation", "another type", "no object", "another group", "removed version"]
        + ["restow's own", "restow's own", "the server's own"]
    ),
)
lists = st.lists(entries, max_size=4, unique_by=identity).map(tuple)


@settings(max_examples=1000)
@given(lists, rules)
def test_the_short_way_decides_as_entry_by_entry(found: tuple[ManagedFieldsEntry, ...], rules: EntryPolicies) -> None:
    """Nearly all objects go the short way: a guard that it lacks loses owners on all of them."""
    usual = rename_only(found, rules)
    assert usual is None or usual == decide_each(found, rules, None, None)
    assert decide(found, rules) == decide_each(found, rules, None, None)


USUAL = (b.entry("alice", "v1"), b.entry("bob", "v1", operation="Update"), b.entry("carol", "v2"))


@pytest.mark.parametrize("stored", [False, True], ids=["only entries due", "all due"])
def test_usual_objects_go_the_short_way(stored: bool) -> None:
    """Otherwise the property above compares nothing, and the time of the migration grows by a tenth."""
    usual = rename_only(USUAL, rules_for(Options(), stored=stored))
    assert usual == ObjectDecision(
        steps=(WriteStep.COMBINED_PATCH,),
        entries=tuple(msgspec.structs.replace(entry, api_version=b.api_version("v2")) for entry in USUAL),
        translated=2,
    )


@pytest.mark.parametrize(
    ("found", "rules"),
    [
        (
            (b.entry("alice", "v1"), b.entry("alice", "v2", operation="Update"), b.entry("bob", "v0")),
            rules_for(Options()),
        ),
        (
            (b.entry("alice", "v1", operation="Update"), b.entry("alice", "v2", operation="Update")),
            rules_for(Options()),
        ),
        ((b.entry("alice", "v1"), b.entry(FIELD_MANAGER, "v2", operation="Update")), rules_for(Options())),
        ((b.entry("alice", "v1"),), rules_for(Options(), storage="v1beta1")),
        (
            (*(b.entry(manager, "v1") for manager in "abcdef"), b.entry("bob", "v1beta1")),
            entry_policies(b.crd(("v1", "v1beta1", "v10"), storage="v10"), Options()),
        ),
        ((b.entry("alice", "v1"),), rules_for(Options(managed_fields=ManagedFields.KEEP))),
        ((b.entry("alice", "v1"),), rules_for(Options(), schemas=(ATOMIC, GRANULAR))),
        ((b.entry("alice", "v1"),), rules_for(Options(), webhook=True)),
        ((b.entry("alice", "v2"),), rules_for(Options())),
        ((), rules_for(Options())),
    ],
    ids=[
        "removed",
        "merged",
        "ours",
        "grows",
        "grows in all",
        "kept",
        "reconciled",
        "converted",
        "current",
        "no entries",
    ],
)
def test_others_do_not(found: tuple[ManagedFieldsEntry, ...], rules: EntryPolicies) -> None:
    """Each of these takes more than another name in its entries."""
    assert rename_only(found, rules) is None
