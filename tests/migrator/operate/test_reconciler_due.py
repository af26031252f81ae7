"""What is due, from the CRD alone: the table of an upgrade, and the laws that keep a reconciler at rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.crds import Crd
from restow.migrator.decide.proof import ANNOTATION, UNFINISHED
from restow.migrator.model.options import ManagedFields, Options, Phase, Scope
from restow.migrator.operate.reconciler import due_phases
from tests.migrator import builders as b

ALL = Options()
STORAGE, FIELDS, PRUNE = Phase.STORAGE, Phase.MANAGED_FIELDS, Phase.PRUNE
NO_STORAGE, NO_FIELDS, NO_PRUNE = (Options(skip=frozenset({phase})) for phase in (STORAGE, FIELDS, PRUNE))
ONLY_PRUNE = Options(skip=frozenset({STORAGE, FIELDS}))
KEEP = Options(managed_fields=ManagedFields.KEEP)

BEFORE = b.crd(storage="v1", stored=("v1",))
FLIPPED = b.crd(stored=("v1", "v2"), generation=2)
PRUNED = b.crd(generation=2)
UNSERVED = b.crd(unserved=("v1",), generation=3)
REMOVED = b.crd(("v2",), generation=4)
TWICE = b.crd(stored=("v2", "v1"), generation=4)
TRIMMED = b.crd(generation=4)
NEVER_AT_V2 = b.crd(stored=("v1",))


@pytest.mark.parametrize(
    ("crd", "options", "due"),
    [
        (FLIPPED, ALL, (STORAGE, FIELDS, PRUNE)),
        (TWICE, ALL, (STORAGE, FIELDS, PRUNE)),
        (NEVER_AT_V2, ALL, (STORAGE, FIELDS, PRUNE)),
        (PRUNED, ALL, (STORAGE, FIELDS)),
        (REMOVED, ALL, (FIELDS,)),
        (FLIPPED, NO_FIELDS, (STORAGE, PRUNE)),
        (FLIPPED, KEEP, (STORAGE, PRUNE)),
        (FLIPPED, NO_PRUNE, (STORAGE, FIELDS)),
        (FLIPPED, NO_STORAGE, (FIELDS,)),
        (FLIPPED, ONLY_PRUNE, ()),
        (PRUNED, NO_FIELDS, (STORAGE,)),
        (PRUNED, KEEP, (STORAGE,)),
        (PRUNED, NO_STORAGE, (FIELDS,)),
    ],
)
def test_what_is_due_where_nothing_is_proved(crd: Crd, options: Options, due: tuple[Phase, ...]) -> None:
    """Each phase that is on and has something to find is due; storedVersions alone prove nothing."""
    assert due_phases(crd, options) == due


@pytest.mark.parametrize(
    ("finished", "now", "due"),
    [
        (BEFORE, BEFORE, ()),
        (BEFORE, FLIPPED, (STORAGE, FIELDS, PRUNE)),
        (PRUNED, PRUNED, ()),
        (PRUNED, b.crd(generation=3), ()),
        (PRUNED, b.crd(generation=3, schemas={"v1": b.struct(spec=b.ANYTHING)}), ()),
        (PRUNED, UNSERVED, (FIELDS,)),
        (UNSERVED, UNSERVED, ()),
        (UNSERVED, b.crd(generation=4), (FIELDS,)),
        (UNSERVED, REMOVED, (FIELDS,)),
        (REMOVED, REMOVED, ()),
        (PRUNED, TWICE, (STORAGE, FIELDS, PRUNE)),
        (PRUNED, TRIMMED, (STORAGE, FIELDS)),
        (PRUNED, b.crd(uid="uid-2", generation=2), (STORAGE, FIELDS)),
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
        "flipped and back, and trimmed",
        "created again",
        "a CA bundle",
    ],
)
def test_each_step_of_an_upgrade_makes_exactly_its_phases_due(finished: Crd, now: Crd, due: tuple[Phase, ...]) -> None:
    """Too much is a pass over all objects at each certificate rotation, too little an old version for ever."""
    assert due_phases(b.proved(now, by=finished), ALL) == due


@pytest.mark.parametrize("skip", [frozenset(), *(frozenset({phase}) for phase in Phase)])
def test_a_flip_and_back_is_due_whatever_phases_are_on(skip: frozenset[Phase]) -> None:
    """An operator that was down meanwhile sees the same flags and storedVersions as before."""
    options = Options(skip=skip)
    stored = ("v1", "v2")
    before = b.crd(stored=stored, generation=2)
    assert due_phases(b.proved(before, options), options) in ((), (PRUNE,))
    due = due_phases(b.proved(b.crd(stored=stored, generation=4), options, by=before), options)
    assert STORAGE in due or STORAGE in skip
    assert FIELDS in due or FIELDS in skip


def test_a_proof_that_could_not_be_left_counts_for_the_process_that_has_it() -> None:
    """Without the right to annotate a reconciler would pass over all objects at every event."""
    proof = b.proved(PRUNED).annotations[ANNOTATION]
    assert due_phases(PRUNED, ALL, proof) == ()
    assert due_phases(b.crd(generation=2, annotations={ANNOTATION: UNFINISHED}), ALL, proof) == (STORAGE, FIELDS)


options = st.builds(
    Options,
    skip=st.frozensets(st.sampled_from(Phase)),
    managed_fields=st.sampled_from(ManagedFields),
    scope=st.sampled_from(Scope),
)
states = st.sampled_from([BEFORE, FLIPPED, PRUNED, UNSERVED, REMOVED, TWICE, TRIMMED, NEVER_AT_V2])


def after_a_run(crd: Crd, asked: Options) -> Crd:
    """The CRD as a run that finished leaves it."""
    if asked.prunes:
        status = crd.document["status"] | {"storedVersions": [crd.storage.name]}
        crd = Crd.from_document({**crd.document, "status": status})
    return b.proved(crd, asked)


@given(states, options)
def test_after_a_run_nothing_is_due(crd: Crd, asked: Options) -> None:
    """Or the reconciler runs again and again, whichever phases are switched off."""
    assert due_phases(after_a_run(crd, asked), asked) == ()


@given(states, options, options)
def test_a_phase_is_due_only_where_it_is_on(crd: Crd, asked: Options, finished: Options) -> None:
    """Switched off means off, whatever a run with other options proved."""
    assert not set(due_phases(b.proved(crd, finished), asked)) & asked.skip
