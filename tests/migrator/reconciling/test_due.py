"""What is due, from the CRD alone: the table of an upgrade, and the laws that keep a reconciler at rest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.crds import Crd
from restow.migrator.mark import ANNOTATION, completed, mark
from restow.migrator.model import ManagedFields, Options, Phase, Scope
from restow.migrator.reconciling.due import due_phases, finished_mark
from tests.migrator import builders as b

ALL = Options()
STORAGE, FIELDS, PRUNE = Phase.STORAGE, Phase.MANAGED_FIELDS, Phase.PRUNE
NO_STORAGE, NO_FIELDS, NO_PRUNE = (Options(skip=frozenset({phase})) for phase in (STORAGE, FIELDS, PRUNE))
ONLY_PRUNE = Options(skip=frozenset({STORAGE, FIELDS}))
KEEP = Options(managed_fields=ManagedFields.KEEP)

BEFORE = b.crd(storage="v1", stored=("v1",))
FLIPPED = b.crd(stored=("v1", "v2"))
PRUNED = b.crd()
UNSERVED = b.crd(unserved=("v1",))
REMOVED = b.crd(("v2",))
TWICE = b.crd(stored=("v2", "v1"))
NEVER_AT_V2 = b.crd(stored=("v1",))


@pytest.mark.parametrize(
    ("crd", "options", "due"),
    [
        (FLIPPED, ALL, (STORAGE, FIELDS, PRUNE)),
        (TWICE, ALL, (STORAGE, FIELDS, PRUNE)),
        (NEVER_AT_V2, ALL, (STORAGE, FIELDS, PRUNE)),
        (PRUNED, ALL, (FIELDS,)),
        (FLIPPED, NO_FIELDS, (STORAGE, PRUNE)),
        (FLIPPED, KEEP, (STORAGE, PRUNE)),
        (FLIPPED, NO_PRUNE, (STORAGE, FIELDS)),
        (FLIPPED, NO_STORAGE, (FIELDS,)),
        (FLIPPED, ONLY_PRUNE, ()),
        (PRUNED, NO_FIELDS, ()),
        (PRUNED, KEEP, ()),
        (PRUNED, NO_STORAGE, (FIELDS,)),
    ],
)
def test_what_is_due_where_nothing_is_known_to_be_finished(crd: Crd, options: Options, due: tuple[Phase, ...]) -> None:
    """Each phase that is on and has something to find is due; a prune never without the writes that make it safe."""
    assert due_phases(crd, options, ()) == due


@pytest.mark.parametrize(
    ("finished", "now", "due"),
    [
        (BEFORE, BEFORE, ()),
        (BEFORE, FLIPPED, (STORAGE, FIELDS, PRUNE)),
        (PRUNED, PRUNED, ()),
        (PRUNED, b.crd(generation=77), ()),
        (PRUNED, b.crd(schemas={"v1": b.struct(spec=b.ANYTHING)}), ()),
        (PRUNED, UNSERVED, (FIELDS,)),
        (UNSERVED, UNSERVED, ()),
        (UNSERVED, PRUNED, (FIELDS,)),
        (UNSERVED, REMOVED, (FIELDS,)),
        (REMOVED, REMOVED, ()),
        (PRUNED, TWICE, (STORAGE, FIELDS, PRUNE)),
        (PRUNED, b.crd(uid="uid-2"), (FIELDS,)),
        (b.crd(webhook=True, ca_bundle="QQ=="), b.crd(webhook=True, ca_bundle="Qg==", generation=2), ()),
    ],
    ids=[
        "at rest before the flip",
        "the flip",
        "at rest after it",
        "an edit",
        "a schema",
        "unserved",
        "at rest after that",
        "served again",
        "removed",
        "at rest after that too",
        "flipped and back",
        "created anew",
        "a CA bundle",
    ],
)
def test_each_step_of_an_upgrade_makes_exactly_its_phases_due(finished: Crd, now: Crd, due: tuple[Phase, ...]) -> None:
    """Too much is a pass over all objects at each certificate rotation, too little an old version for ever."""
    assert due_phases(now, ALL, (finished_mark(finished, ALL),)) == due


def test_a_failed_migration_of_the_clusters_own_is_not_believed() -> None:
    """Its controller prunes storedVersions all the same: they say v2 alone, and objects are stored at v1 still."""
    document = b.crd().document
    failed = {"type": "StorageMigrating", "status": "False", "reason": "MigrationFailed", "lastTransitionTime": "now"}
    status = document["status"] | {"conditions": [*document["status"]["conditions"], failed]}
    crd = Crd.from_document(document | {"status": status})
    assert due_phases(crd, ALL, (finished_mark(PRUNED, ALL),)) == (STORAGE, FIELDS)
    assert due_phases(crd, ALL, (finished_mark(crd, ALL),)) == ()


def test_the_mark_of_a_whole_run_is_the_completion_mark() -> None:
    """Two kinds of marks for the same thing would make each of the command and the operator do all anew."""
    assert finished_mark(PRUNED, ALL) == mark(PRUNED, ALL)
    marked = b.crd(annotations={ANNOTATION: finished_mark(PRUNED, ALL)})
    assert completed(marked, ALL)


options = st.builds(
    Options,
    skip=st.frozensets(st.sampled_from(Phase)),
    managed_fields=st.sampled_from(ManagedFields),
    scope=st.sampled_from(Scope),
)
states = st.sampled_from([BEFORE, FLIPPED, PRUNED, UNSERVED, REMOVED, TWICE, NEVER_AT_V2])


def prunes(asked: Options) -> bool:
    return not {STORAGE, PRUNE} & asked.skip


def after_a_run(crd: Crd, asked: Options) -> Crd:
    """The CRD as a run that finished leaves it."""
    if not prunes(asked):
        return crd
    status = crd.document["status"] | {"storedVersions": [crd.storage.name]}
    return Crd.from_document({**crd.document, "status": status})


@given(states, options)
def test_after_a_run_nothing_is_due(crd: Crd, asked: Options) -> None:
    """Or the reconciler runs again and again, whichever phases are switched off."""
    done = after_a_run(crd, asked)
    assert due_phases(done, asked, (finished_mark(done, asked),)) == ()


@given(states, options, options)
def test_a_phase_is_due_only_where_it_is_on(crd: Crd, asked: Options, finished: Options) -> None:
    """Switched off means off, whatever was left by a run with other options; and a prune needs the storage phase."""
    due = due_phases(crd, asked, (finished_mark(crd, finished),))
    assert not set(due) & asked.skip
    assert PRUNE not in due or STORAGE in due


@given(states, options, options)
def test_no_mark_stands_in_the_way_of_a_prune_or_allows_one(crd: Crd, asked: Options, finished: Options) -> None:
    """While storedVersions names another version, whoever prunes has to look at every object itself."""
    if prunes(asked) and crd.stored_versions != (crd.storage.name,):
        due = due_phases(crd, asked, (finished_mark(crd, finished), crd.annotations.get(ANNOTATION, "")))
        assert {STORAGE, PRUNE} <= set(due)


@given(states, states, options)
def test_a_mark_is_only_good_for_its_own_state(one: Crd, other: Crd, asked: Options) -> None:
    """A flip there and back, or an unserved version, must not pass for what was finished before it."""

    def told(crd: Crd) -> Any:
        return crd.uid, crd.fingerprint, crd.stored_versions

    assert (finished_mark(one, asked) == finished_mark(other, asked)) is (told(one) == told(other))
