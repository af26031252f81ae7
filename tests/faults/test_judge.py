"""The judge sees every wrong that it is to see, and takes nothing right for wrong: on histories made by hand."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from tests.faults.history import Change
from tests.faults.judge import Judge
from tests.faults.truth import Document, content, converted, manifest, shares

GROUP = "faults.example.com"
CRD_KEY = f"/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.{GROUP}"


def crd(*stored: str, storage: str = "v2") -> Document:
    """The CRD, as far as the judge looks at it."""
    versions = [{"name": name, "storage": name == storage} for name in ("v1", "v2")]
    return {"spec": {"versions": versions}, "status": {"storedVersions": list(stored)}}


def entry(manager: str, version: str, fields: Document, operation: str = "Apply", **more: str) -> Document:
    """A managedFields entry."""
    return {"manager": manager, "operation": operation, "apiVersion": f"{GROUP}/{version}", "fieldsV1": fields} | more


ALICE = {"f:spec": {"f:size": {}}}
CTL = {"f:status": {"f:conditions": {}}}
CTL_KEYED = {"f:status": {"f:conditions": {'k:{"type":"Ready"}': {".": {}, "f:type": {}, "f:status": {}}}}}


def widget(version: str, *entries: Document, name: str = "w", **spec: Any) -> Document:
    """An object as etcd holds it."""
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": "Widget",
        "metadata": {"name": name, "uid": f"uid-{name}", "managedFields": list(entries)},
        "spec": {"size": 1} | spec,
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


OLD = widget("v1", entry("alice", "v1", ALICE), entry("ctl", "v1", CTL, subresource="status"))
NEW = widget("v2", entry("alice", "v2", ALICE), entry("ctl", "v2", CTL_KEYED, subresource="status"), policy="Retain")


def judged(
    *changes: Document | None,
    users: Mapping[int, str] | None = None,
    tried: Mapping[object, str] | None = None,
    deleted: tuple[str, ...] = (),
) -> list[str]:
    """The findings over a history: OLD at revision 10, then changes of it or of the CRD from 11 on."""
    judge = Judge(users or {}, tried or {}, Counter(deleted))
    judge.begin([Change(10, CRD_KEY, crd("v1", "v2")), Change(10, f"/registry/{GROUP}/widgets/default/w", OLD)])
    keys = [
        CRD_KEY if change and "versions" in change["spec"] else f"/registry/{GROUP}/widgets/default/w"
        for change in changes
    ]
    judge.read([Change(11 + place, key, change) for place, (key, change) in enumerate(zip(keys, changes, strict=True))])
    judge.end()
    return judge.wrong


def test_a_migration_is_right() -> None:
    """Taking a list owned whole, and the same list owned item by item, for two shares would condemn every run."""
    assert judged(NEW, crd("v2")) == []


def test_an_unsafe_prune_is_seen() -> None:
    """What was right in the end may have been wrong for a moment, and a crash in that moment loses an object."""
    [wrong] = judged(crd("v2"), NEW)
    assert wrong.startswith("revision 11: status.storedVersions is ['v2'], but ['v1'] is stored")


def test_a_storage_version_that_is_not_told_is_seen() -> None:
    """The next object would be stored at a version that may be removed."""
    assert any("or the storage version" in wrong for wrong in judged(NEW, crd("v2"), crd("v2", storage="v1")))


def test_what_is_left_at_the_end_is_seen() -> None:
    """A run that says it is done and is not."""
    assert "status.storedVersions ended as ['v1', 'v2'], the storage version being v2" in judged(NEW)
    assert "w ended at v1 instead of v2" in judged(crd("v1", "v2"))


@pytest.mark.parametrize("change", [{"size": 2}, {"color": "red"}])
def test_a_changed_spec_is_seen(change: Document) -> None:
    """Nobody but its users may change what an object says."""
    changed = copy.deepcopy(NEW)
    changed["spec"] |= change
    [wrong] = judged(changed, NEW | {"spec": changed["spec"]}, crd("v2"))
    assert wrong == f"revision 11: w was changed by no user (spec.{next(iter(change))})"
    assert judged(changed, crd("v2"), users={11: "alice"}) == []


def test_a_write_of_which_the_user_heard_nothing_is_the_users() -> None:
    """The API server stores an object before it converts its answer, and answers with an error if that fails."""
    changed = copy.deepcopy(NEW)
    changed["spec"]["size"] = 1001
    assert judged(changed, crd("v2"), tried={1001: "alice"}) == []
    assert judged(changed, crd("v2"), tried={1002: "alice"})


def test_objects_that_come_or_go_are_seen() -> None:
    """A migrator that deletes, or brings back what was deleted."""
    assert judged(None, crd("v2")) == ["revision 11: w was deleted, and by no user"]
    assert judged(None, NEW, crd("v2"), deleted=("w",)) == ["revision 12: w was created, and by no user"]
    assert judged(None, NEW, crd("v2"), users={12: "alice"}, deleted=("w",)) == []


def test_a_lost_owner_is_seen() -> None:
    """Its next apply would conflict, or could not take a field away."""
    lost = widget("v2", entry("ctl", "v2", CTL_KEYED, subresource="status"))
    assert judged(lost, crd("v2")) == ["w ended so that alice/Apply no longer owns spec.size"]
    assert judged(lost, NEW, crd("v2")) == [], "put right at once"
    part = {"f:status": {"f:conditions": {'k:{"type":"Ready"}': {".": {}, "f:type": {}}}}}
    half = widget("v2", entry("alice", "v2", ALICE), entry("ctl", "v2", part, subresource="status"))
    assert judged(half, crd("v2")) == ["w ended so that ctl/Apply/status no longer owns status.conditions.Ready.status"]


def test_an_owner_that_a_user_wrote_over_the_loss_is_still_missed() -> None:
    """The next user's write would otherwise make every loss before it look right."""
    lost = widget("v2", entry("ctl", "v2", CTL_KEYED, subresource="status"))
    edited = widget(
        "v2",
        entry("ctl", "v2", CTL_KEYED, subresource="status"),
        entry("erin", "v2", {"f:spec": {"f:color": {}}}, operation="Update"),
        color="blue",
    )
    assert judged(lost, edited, crd("v2"), users={12: "erin"}) == [
        "w ended so that alice/Apply no longer owns spec.size"
    ]


def test_what_a_writer_owned_before_a_loss_may_be_given_back() -> None:
    """It updated one field when nobody was tracked; that it still owns the others is as right as that it does not."""
    fields = {"f:spec": {"f:size": {}, "f:color": {}}}
    lost, edited = widget("v2"), widget("v2", color="blue")
    restored = widget(
        "v2", entry("alice", "v2", fields), entry("ctl", "v2", CTL_KEYED, subresource="status"), color="blue"
    )
    assert judged(lost, edited, restored, crd("v2"), users={12: "alice"}) == []
    assert judged(lost, edited, edited, crd("v2"), users={12: "alice"}) == [
        "w ended so that ctl/Apply/status no longer owns status.conditions.Ready.status, status.conditions.Ready.type"
    ]


def test_owners_that_were_none_are_seen() -> None:
    """Each is a conflict for the real ones."""
    ours = entry("restow", "v2", {"f:spec": {"f:policy": {}}}, operation="Update")
    with_ours = NEW | {"metadata": NEW["metadata"] | {"managedFields": [*NEW["metadata"]["managedFields"], ours]}}
    assert judged(with_ours, crd("v2")) == ["w ended with an entry of restow's own"]
    second = entry("bob", "v2", ALICE)
    doubled = NEW | {"metadata": NEW["metadata"] | {"managedFields": [*NEW["metadata"]["managedFields"], second]}}
    assert judged(doubled, crd("v2")) == ["w ended so that bob/Apply owns spec.size too"]


def test_an_entry_that_was_not_moved_is_seen() -> None:
    """Its owner's applies break when the old version goes; but what a client wrote since is its own affair."""
    left = widget("v2", entry("alice", "v1", ALICE), entry("ctl", "v2", CTL_KEYED, subresource="status"))
    assert judged(left, crd("v2")) == ["w ended with alice at an older version"]
    assert judged(left, crd("v2"), users={11: "alice"}) == []


def test_a_renamed_field_is_the_same_field() -> None:
    """Content and owners are compared across conversions, from either version's words."""
    old = widget("v1", entry("alice", "v1", {"f:spec": {"f:host": {}}}), host="a")
    new = converted(old, f"{GROUP}/v2")
    assert new["spec"] == {"size": 1, "address": "a"} and content(new) == content(old)
    new["metadata"] = old["metadata"] | {"managedFields": [entry("alice", "v2", {"f:spec": {"f:address": {}}})]}
    assert shares(new) == shares(old) == {("alice", "Apply", ""): frozenset({("spec", "host")})}
    assert manifest(new, frozenset({("spec", "host")})) == {"spec": {"address": "a"}}
    assert manifest(old, frozenset({("spec", "host")})) == {"spec": {"host": "a"}}
