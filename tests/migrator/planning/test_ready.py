"""May a version go: each reason against it, from the CRD and what was counted on its objects."""

from __future__ import annotations

import pytest

from restow.crds import Crd
from restow.migrator.decide.proof import ANNOTATION, UNFINISHED
from restow.migrator.planning.ready import Servers, judge
from restow.migrator.references.reference import FoundReferences, sought
from tests.migrator import builders as b
from tests.migrator.references.found import helm, named_by, owned

STORED = "status.storedVersions names v1"
STORAGE = "is the storage version"
LAST = "no other version is served"
OWNED = "managedFields entries are at v1"
NONE = FoundReferences(sought(b.crd(), "v1"))


@pytest.mark.parametrize(
    ("crd", "version", "owners", "unserving", "removal", "note"),
    [
        (b.crd(unserved=("v1",)), "v1", {}, (), (), None),
        (b.crd(), "v1", {}, (), (), "still served"),
        (b.crd(("v2",)), "v1", {}, (), (), "not among the versions"),
        (b.crd(unserved=("v1",), stored=("v1", "v2")), "v1", {}, (), (STORED,), None),
        (b.crd(unserved=("v1",)), "v1", {"alice": 2}, (), (OWNED,), None),
        (b.crd(stored=("v1", "v2")), "v1", {"alice": 2}, (), (STORED, OWNED), "still served"),
        (b.crd(("v2",), stored=("v1", "v2")), "v1", {}, (), (STORED,), "not among the versions"),
        (b.crd(storage="v1"), "v1", {}, (STORAGE,), (STORAGE,), "still served"),
        (b.crd(("v1",), storage="v1"), "v1", {}, (STORAGE, LAST), (STORAGE, LAST), "still served"),
        (b.crd(unserved=("v2",)), "v1", {}, (LAST,), (LAST,), "still served"),
        (b.crd(unserved=("v1",), webhook=True), "v1", {"alice": 2}, (), (OWNED,), "converting v1 until none is left"),
        (b.crd(unserved=("v1",), webhook=True), "v1", {}, (), (), "nothing calls for conversion"),
        (b.crd(unserved=("v1",), webhook=True, stored=("v1", "v2")), "v1", {}, (), (STORED,), None),
        (b.crd(("v0", "v1", "v2"), unserved=("v1",), webhook=True), "v1", {}, (), (), "is v0): keep the conversion"),
    ],
    ids=[
        "unserved and clean",
        "served and clean",
        "removed already",
        "stored",
        "owned",
        "stored and owned",
        "removed though stored",
        "the storage version",
        "the only version",
        "the last served version",
        "owned, and the webhook is needed for it",
        "clean, and the webhook may go with it",
        "stored, and the webhook is needed for it",
        "clean, and the webhook is needed for another version",
    ],
)
def test_each_reason_against_a_step(
    crd: Crd,
    version: str,
    owners: dict[str, int],
    unserving: tuple[str, ...],
    removal: tuple[str, ...],
    note: str | None,
) -> None:
    """A reason that is missed lets a version go while objects or owners still need it; a false one blocks a release."""
    found = judge(b.proved(crd), version, objects=3, owners=owners, references=NONE)
    for reasons, meant in ((found.against_unserving, unserving), (found.against_removal, removal)):
        assert len(reasons) == len(meant)
        assert all(part in reason for part, reason in zip(meant, reasons, strict=True))
    assert found.ready is (not removal)
    assert len(found.notes) == (note is not None)
    assert all(str(note) in told for told in found.notes)


def test_the_owners_are_named() -> None:
    """Whoever still writes the old version must be found by name, with numbers, in a stable order."""
    found = judge(b.proved(b.crd(unserved=("v1",))), "v1", objects=9, owners={"helm": 3, "argocd": 4}, references=NONE)
    assert "7 managedFields entries" in found.against_removal[0]
    assert "argocd (4), helm (3)" in found.against_removal[0]
    assert "restow migrate widgets.example.com" in found.against_removal[0]


def test_that_clients_cannot_all_be_seen_is_said() -> None:
    """An empty list of reasons is no proof that nobody asks for the version any more."""
    (note,) = judge(b.proved(b.crd()), "v1", objects=0, owners={}, references=NONE).notes
    assert "cannot all be seen" in note


def test_the_json_says_the_same() -> None:
    """``restow ready -o json`` gates pipelines: its booleans must follow the reasons."""
    found = judge(b.crd(stored=("v1", "v2")), "v1", objects=9, owners={"helm": 3, "argocd": 4}, references=NONE)
    assert found.to_json() == {
        "name": "widgets.example.com",
        "version": "v1",
        "mayBeUnserved": True,
        "mayBeRemoved": False,
        "againstUnserving": [],
        "againstRemoval": list(found.against_removal),
        "notes": list(found.notes),
        "objects": 9,
        "owners": [{"manager": "argocd", "objects": 4}, {"manager": "helm", "objects": 3}],
        "dependents": [],
        "references": [],
        "notLookedAt": [],
        "wouldStrip": [],
        "tried": 0,
    }


@pytest.mark.parametrize(
    "crd",
    [b.crd(), b.crd(annotations={ANNOTATION: UNFINISHED}), b.proved(b.crd(generation=9), by=b.crd(generation=1))],
    ids=["no proof", "unfinished", "changed since"],
)
def test_without_a_proof_no_version_may_be_removed(crd: Crd) -> None:
    """storedVersions that name the storage version alone are what a stranger's trim leaves."""
    found = judge(crd, "v1", objects=3, owners={}, references=NONE)
    assert not found.ready
    assert any("run restow migrate" in reason for reason in found.against_removal)
    assert not found.against_unserving, "to unserve loses nothing: what is stored at it is converted still"


def test_what_the_api_servers_know_counts() -> None:
    """A server that lags stores at the old version after the last object was looked at."""
    servers = Servers(against=("the API server at a lags; ask again",), unseen=("b cannot be looked at",))
    found = judge(b.proved(b.crd(unserved=("v1",))), "v1", objects=3, owners={}, references=NONE, servers=servers)
    assert found.against_removal == servers.against
    assert servers.unseen[0] in found.notes


def test_dependents_stand_against_both_steps() -> None:
    """The garbage collector misses a version that is unserved as much as one that is removed."""
    dependents = named_by(owned("configmaps", "a", "b"), owned("configmaps", "a", "c"), unseen="secrets")
    found = judge(b.proved(b.crd()), "v1", objects=9, owners={}, references=dependents)
    assert not found.ready
    assert found.against_unserving == found.against_removal
    assert "2 objects have ownerReferences at example.com/v1" in found.against_removal[0]
    assert any("secrets (403: no)" in note for note in found.notes)
    assert found.to_json()["dependents"] == [{"resource": "configmaps", "count": 2, "examples": ["a/b", "a/c"]}]
    assert found.to_json()["notLookedAt"] == [{"resource": "secrets", "reason": "403: no"}]


def test_not_to_have_looked_for_dependents_is_said() -> None:
    """A page that looked at the CRD's objects alone must not read like one that looked everywhere."""
    found = judge(b.proved(b.crd(unserved=("v1",))), "v1", objects=9, owners={}, references=None)
    (note,) = found.notes
    assert "has not looked here for ownerReferences and other references to example.com/v1" in note
    assert "restow references widgets.example.com --version v1" in note
    assert (found.to_json()["dependents"], found.to_json()["notLookedAt"]) == (None, None)


def test_a_deployed_release_stands_against_both_steps() -> None:
    """helm upgrade fails as soon as the version is not served; a former revision stands against nothing."""
    release = (each for each in helm("deployed"))
    found = judge(b.proved(b.crd()), "v1", objects=9, owners={}, references=named_by(*release))
    for reasons in (found.against_unserving, found.against_removal):
        assert len(reasons) == 1
        assert "objects in Helm releases are at example.com/v1 (secrets: 1, for example default/web)" in reasons[0]
        assert "helm upgrade" in reasons[0]
    former = judge(b.proved(b.crd()), "v1", objects=9, owners={}, references=named_by(*helm("superseded")))
    assert former.ready
    assert [each["kind"] for each in former.to_json()["references"]] == ["helm"]
