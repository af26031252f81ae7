"""What is said of a CRD: every row's verdict follows from the CRD and from what was counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from restow.migrator import sought
from restow.migrator.references.reference import FoundReferences
from restow.report.model import ReportDocument, State, VersionRow
from restow.report.views import MOST_OWNERS, remarks, view
from tests.restow.report.sample import NOW, STEP, crd, named_by, tally

OLD, NEW = "v1beta1", "v1"


def row(version: str, *objects: list[tuple[str, str]], **of: object) -> VersionRow:
    """The row of one version of a CRD with these objects."""
    given = {"versions": [OLD, NEW], "storage": NEW, "stored": [NEW]} | of
    made = crd("widgets", **given)  # type: ignore[arg-type]
    found = view(made, "", tally(made, *objects))
    return next(each for each in found.versions if each.name == version)


@pytest.mark.parametrize(
    ("of", "objects", "state", "verdict"),
    [
        ({}, [], State.READY, "may be unserved, then removed"),
        ({"served": [NEW]}, [], State.READY, "may be removed"),
        ({"stored": [OLD, NEW]}, [], State.DUE, "may be unserved, not removed"),
        ({"stored": [OLD, NEW], "served": [NEW]}, [], State.DUE, "migrate before it goes"),
        ({}, [[("a", OLD)]], State.DUE, "may be unserved, not removed"),
        ({"versions": [NEW]}, [[("a", OLD)]], State.DUE, "migrate before it goes"),
        ({"versions": [NEW], "stored": [OLD, NEW]}, [], State.DUE, "migrate before it goes"),
        ({"storage": OLD, "stored": [OLD]}, [], State.DONE, "stays: storage version"),
        ({"served": [OLD], "storage": NEW}, [], State.DUE, "must stay"),
    ],
)
def test_may_it_go(of: dict[str, object], objects: list[list[tuple[str, str]]], state: State, verdict: str):
    """A yes before its time is a version removed with objects or entries of it left."""
    found = row(OLD, *objects, **of)
    assert (found.state, found.verdict) == (state, verdict)
    assert bool(found.reasons) == (state is State.DUE)


def test_a_reference_turns_a_yes_into_a_no():
    """The page would otherwise send people to a removal that leaves dependents behind."""
    made = crd("widgets", [OLD, NEW], storage=NEW, stored=[NEW])

    def old(references: list[FoundReferences] | None) -> VersionRow:
        return next(each for each in view(made, "", tally(made), "", references).versions if each.name == OLD)

    assert old(None).state is State.READY
    assert any("restow has not looked here" in note for note in old(None).notes)
    nothing = old([FoundReferences(sought(made, OLD))])
    assert (nothing.state, any("restow has not looked" in note for note in nothing.notes)) == (State.READY, False)
    named = old([named_by(made, OLD)])
    assert (named.state, named.verdict) == (State.DUE, "must stay")
    assert "1 object has ownerReferences at example.com/v1beta1" in named.reasons[0]
    assert any("Not looked at: secrets (not allowed to list it)" in note for note in named.notes)
    (row,) = view(made, "", tally(made), "", [named_by(made, OLD)]).references or ()
    assert (row.resource, row.count, row.unserving, row.removal, row.examples) == (
        "configmaps",
        1,
        True,
        True,
        ("settings",),
    )


def test_stored_objects_are_said_as_far_as_the_api_tells():
    """storedVersions names versions, not objects: only where it names one is the number known."""
    objects: list[list[tuple[str, str]]] = [[("a", NEW)], [("a", NEW)]]
    amounts = [
        (row(OLD, *objects, stored=names).at_least, row(OLD, *objects, stored=names).at_most)
        for names in ([NEW], [OLD, NEW])
    ]
    assert amounts == [(0, 0), (0, 2)]
    assert (row(NEW, *objects).at_least, row(NEW, *objects).at_most) == (2, 2)
    assert (row(NEW, *objects, stored=[OLD, NEW]).at_least, row(NEW, *objects, stored=[OLD, NEW]).at_most) == (0, 2)


def test_what_could_not_be_seen_is_not_said_to_be_safe():
    """No count is not a count of nothing."""
    made = crd("widgets", [OLD, NEW], storage=NEW, stored=[NEW])
    found = view(made, "cannot be migrated", None, "the API server does not serve it")
    assert (found.state, found.objects) == (State.FAILED, None)
    assert [(each.verdict, each.at_most) for each in found.versions if each.name == OLD] == [("unknown", None)]


@pytest.mark.parametrize(
    ("of", "objects", "state"),
    [
        ({}, [], State.DONE),
        ({}, [[("a", OLD)]], State.DONE),
        ({"served": [NEW]}, [[("a", OLD)]], State.DUE),
        ({"versions": [NEW]}, [[("a", OLD)]], State.DUE),
        ({"stored": [OLD, NEW]}, [], State.DUE),
    ],
)
def test_entries_of_served_versions_are_no_work(
    of: dict[str, object], objects: list[list[tuple[str, str]]], state: State
):
    """While a version is served its clients may write again: a page that calls that work would never be settled."""
    given = {"versions": [OLD, NEW], "storage": NEW, "stored": [NEW]} | of
    made = crd("widgets", **given)  # type: ignore[arg-type]
    found = view(made, "", tally(made, *objects))
    assert found.state is state
    assert {owner.state for owner in found.owners} <= {state}


def test_owners_come_with_the_largest_first():
    """Who has to change first is who stands first."""
    made = crd("widgets", [OLD, NEW], storage=NEW, stored=[NEW])
    found = view(made, "", tally(made, [("few", OLD)], [("many", OLD)], 4))
    assert [(owner.manager, owner.objects, owner.of, owner.standing) for owner in found.owners] == [
        ("many", 5, 6, "served"),
        ("few", 1, 6, "served"),
    ]
    assert found.owners[0].newest == STEP


def test_a_sentence_names_a_few_managers_and_a_row_gathers_the_rest():
    """Five hundred names in a sentence are no sentence; and none of them may get lost."""
    made = crd("widgets", [OLD, NEW], storage=NEW, stored=[NEW])
    found = view(made, "", tally(made, *[[(f"pod-{number}", OLD)] for number in range(MOST_OWNERS + 20)]))
    (reason,) = next(each for each in found.versions if each.name == OLD).reasons
    assert f"{MOST_OWNERS + 20} managedFields entries" in reason
    assert reason.count("pod-") == 8
    assert f"other managers ({MOST_OWNERS + 12})" in reason
    assert len(found.owners) == MOST_OWNERS + 1
    assert found.owners[-1].owners == 20


@pytest.mark.parametrize(
    ("served", "objects", "word", "said"),
    [
        ([OLD, NEW], [], "not proved", "no run has proved that every object is stored at v1"),
        ([NEW], [[("a", OLD)]], "migration due", "entries of versions that are no longer served remain"),
    ],
)
def test_the_remark_says_why_a_migration_is_due(
    served: list[str], objects: list[list[tuple[str, str]]], word: str, said: str
):
    """The report would name entries that do not exist for a CRD without any migration."""
    made = crd("widgets", [OLD, NEW], served=served, storage=NEW, stored=[NEW], proved=False)
    page = ReportDocument(made=NOW, release="1", crds=(view(made, "not proved", tally(made, *objects)),))
    remark = next(each for each in remarks(page) if each.state is State.DUE)
    assert (remark.word, remark.sentence) == (word, f"{said}: run restow migrate widgets.example.com")


@pytest.mark.parametrize(
    ("proof", "said"),
    [(True, "status.storedVersions is to be pruned"), (False, f"objects may be stored at v0, {OLD}")],
)
def test_the_remark_names_what_the_proof_leaves_and_not_what_stored_versions_name(*, proof: bool, said: str):
    """A version that was trimmed would be missing from the sentence that asks for a migration."""
    made = crd("widgets", ["v0", OLD, NEW], storage=NEW, stored=[NEW], proved=proof)
    named = replace(made, stored_versions=(OLD, NEW))
    page = ReportDocument(made=NOW, release="1", crds=(view(named, "migration due", tally(named)),))
    remark = next(each for each in remarks(page) if each.state is State.DUE)
    assert remark.sentence == f"{said}: run restow migrate widgets.example.com"
