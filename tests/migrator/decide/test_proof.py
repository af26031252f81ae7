"""What is proved about the objects of a CRD: for which state a proof holds, and what takes it away."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.crds import Crd
from restow.migrator.decide.proof import (
    ANNOTATION,
    UNFINISHED,
    extended,
    may_be_stored,
    nothing_due,
    proof_of_run,
    reencoding_due,
    run_key,
    what_is_proved,
)
from restow.migrator.model.options import ManagedFields, Options, Phase, Scope
from tests.migrator import builders as b


def doubt(crd: Crd, by: Crd | None = None, **more: Any) -> str:
    """Why it is not proved, the CRD having the proof that a run left on ``by``."""
    return what_is_proved(b.proved(crd, by=by, **more)).doubt


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (b.crd(generation=5), ""),
        (b.crd(generation=6), ""),
        (b.crd(generation=6, unserved=("v1",)), ""),
        (b.crd(generation=6, stored=("v1", "v2")), ""),
        (b.crd(generation=7), "changed 2 times"),
        (b.crd(generation=99), "changed 94 times"),
        (b.crd(generation=4), "went back"),
        (b.crd(generation=5, uid="uid-2"), "created again"),
        (b.crd(generation=6, storage="v1", stored=("v2", "v1")), "changed from v2 to v1"),
        (b.crd(generation=6, storage="v1", stored=("v1",)), "changed from v2 to v1"),
        (b.crd(("v2",), generation=99), ""),
    ],
    ids=[
        "as it was",
        "one change",
        "unserved",
        "named again by a stranger",
        "two changes",
        "many changes",
        "restored",
        "created again",
        "flipped",
        "flipped and trimmed",
        "a single version",
    ],
)
def test_a_proof_holds_for_known_changes_only(now: Crd, said: str) -> None:
    """One change cannot flip the storage version and flip it back; two can."""
    found = doubt(now, b.crd(generation=5))
    assert said in found and bool(said) == bool(found)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "no run of restow has proved"),
        ("", "no run of restow has proved"),
        (UNFINISHED, "did not finish every object"),
        ("5d9496b0078879aacff65fdf9df1dbde", "another release"),
        ("{}", "another release"),
        ('{"uid": "uid-1", "generation": 1, "storage": "v2", "versions": ""}', "another release"),
    ],
    ids=["none", "empty", "unfinished", "a hash of an earlier release", "no fields", "no format"],
)
def test_what_is_no_proof_says_what_it_is(value: str | None, said: str) -> None:
    """Whoever reads the no has to know whether to run restow, or to look at a failed run."""
    assert said in what_is_proved(b.crd(annotations={} if value is None else {ANNOTATION: value})).doubt


def test_a_mark_with_a_field_that_is_not_known_proves_nothing() -> None:
    """A later release may say with it that something does not hold."""
    proof = json.loads(b.proved(b.crd()).annotations[ANNOTATION])
    assert not what_is_proved(b.with_mark(b.crd(), json.dumps(proof))).doubt
    assert what_is_proved(b.with_mark(b.crd(), json.dumps(proof | {"but": 1}))).doubt
    assert what_is_proved(b.with_mark(b.crd(), json.dumps(proof | {"format": 3}))).doubt


def test_a_proof_that_another_manager_wrote_is_none() -> None:
    """After a restore of etcd the generation may be the same again, and a pipeline writes old annotations back."""
    value = b.proved(b.crd()).annotations[ANNOTATION]
    assert not what_is_proved(b.with_mark(b.crd(), value)).doubt
    assert "another field manager" in what_is_proved(b.with_mark(b.crd(), value, manager="argocd")).doubt
    assert "another field manager" in what_is_proved(b.crd(annotations={ANNOTATION: value})).doubt


def test_a_proof_is_extended_one_change_at_a_time() -> None:
    """A reconciler that sees each change keeps a proof for ever without any managedFields of the CRD."""
    crd = b.proved(b.crd(generation=1))
    for generation in range(2, 9):
        crd = b.with_mark(b.crd(generation=generation), crd.annotations[ANNOTATION])
        proof = extended(what_is_proved(crd))
        assert proof is not None and proof.generation == generation
        crd = b.with_mark(crd, proof.encode())
        assert extended(what_is_proved(crd)) is None
    assert nothing_due(crd, Options())


def test_an_extended_proof_says_nothing_of_managed_fields_of_other_versions() -> None:
    """What was kept for clients of a served version is due once it is unserved."""
    crd = b.proved(b.crd(generation=2, unserved=("v1",)), by=b.crd(generation=1))
    proof = extended(what_is_proved(crd))
    assert proof is not None and proof.objects and not proof.managed_fields


OPTIONS = st.builds(
    Options,
    skip=st.frozensets(st.sampled_from(Phase)),
    managed_fields=st.sampled_from(ManagedFields),
    scope=st.sampled_from(Scope),
    strip_served=st.booleans(),
)


@given(OPTIONS, OPTIONS)
def test_a_run_is_covered_by_what_another_did(one: Options, other: Options) -> None:
    """A run that kept entries must not pass for one that translated them, nor one without a phase for one with it."""
    done = what_is_proved(b.proved(b.crd(), one))
    assert bool(done.doubt) is (Phase.STORAGE in one.skip)
    if done.managed_fields_done(other):
        assert (one.managed_fields, one.scope, one.strip_served) == (
            other.managed_fields,
            other.scope,
            other.strip_served,
        )
        assert Phase.MANAGED_FIELDS not in one.skip | other.skip


@given(OPTIONS)
def test_a_run_without_a_phase_takes_nothing_away(options: Options) -> None:
    """``migrate --only prune`` after ``migrate`` must not have the next run translate everything again."""
    complete = b.proved(b.crd())
    after = what_is_proved(b.proved(complete, options))
    assert not after.doubt
    if Phase.MANAGED_FIELDS in options.skip:
        assert after.managed_fields_done(Options())


@pytest.mark.parametrize(
    "pace",
    [Options(concurrency=1), Options(rate=1.0), Options(page_size=7), Options(settle_s=0.0), Options(passes=9)],
    ids=["concurrency", "rate", "page size", "settle", "passes"],
)
def test_how_fast_a_run_was_does_not_count(pace: Options) -> None:
    """The next run with another ``--concurrency`` finds the same work done."""
    assert nothing_due(b.proved(b.crd(), pace), Options())
    assert run_key(b.crd(), pace) == run_key(b.crd(), Options())


def test_a_run_during_one_that_failed_leaves_no_proof() -> None:
    """It may have been done with the object before the other one failed on it."""
    failed = b.crd(annotations={ANNOTATION: UNFINISHED})
    assert proof_of_run(b.crd(), failed, Options()) is None
    assert proof_of_run(failed, failed, Options()) is not None


def test_versions_that_change_during_a_run_leave_their_managed_fields_unproved() -> None:
    """Entries were kept for clients of a version that is served no more."""
    proof = proof_of_run(b.crd(generation=1), b.crd(generation=2, unserved=("v1",)), Options())
    assert proof is not None and proof.objects and proof.generation == 2 and not proof.managed_fields


def test_the_mark_can_be_ignored() -> None:
    """``--ignore-mark`` writes every object and translates what clients wrote since."""
    crd = b.proved(b.crd())
    assert reencoding_due(crd, Options(ignore_mark=True)) and not reencoding_due(crd, Options())
    assert not what_is_proved(crd).managed_fields_done(Options(ignore_mark=True))
    assert not nothing_due(crd, Options(ignore_mark=True))
    assert nothing_due(b.proved(b.crd(), Options(ignore_mark=True)), Options())


def test_without_a_proof_objects_may_be_stored_at_any_version() -> None:
    """What their schemas lack or declare decides which writes are safe."""
    assert may_be_stored(b.crd(("v0", "v1", "v2"))) == ("v0", "v1", "v2")
    assert may_be_stored(b.proved(b.crd(("v0", "v1", "v2")))) == ("v2",)


STEPS = st.lists(st.sampled_from(["flip", "edit", "trim", "proof", "touch", "dump", "look"]), max_size=14)


@given(STEPS)
def test_no_history_talks_it_into_a_proof(steps: list[str]) -> None:
    """After a flip only a complete run may say that nothing is stored at the other version."""
    storage, stored, generation, clean = "v2", {"v1", "v2"}, 1, False
    crd, dump = b.crd(), b.crd()

    def now() -> Crd:
        made = b.crd(storage=storage, stored=sorted(stored), generation=generation)
        return dataclasses.replace(made, annotations=crd.annotations, managed_fields=crd.managed_fields)

    for step in steps:
        if step == "flip":
            storage = "v1" if storage == "v2" else "v2"
            stored.add(storage)
            generation, clean = generation + 1, False
        elif step in ("edit", "touch"):
            generation += 1
        elif step == "trim":
            stored = {storage}
        elif step == "dump":  # annotations and managedFields of an earlier day come back
            crd, dump = dump, now()
        elif step == "proof":
            stored, clean = {storage}, True
            crd = b.proved(now())
        elif (proof := extended(what_is_proved(now()))) is not None:
            crd = b.with_mark(now(), proof.encode())
        if not what_is_proved(now()).doubt:
            assert clean


OFF = Options(skip=frozenset({Phase.MANAGED_FIELDS}))


def test_a_run_without_the_managed_fields_phase_has_nothing_to_do_once_all_is_stored() -> None:
    """It would list all objects for nothing, or pass over those that are stored at the old version."""
    assert "nothing is due" in nothing_due(b.proved(b.crd()), OFF)
    assert nothing_due(b.crd(), OFF) == ""
    both = Options(skip=frozenset({Phase.MANAGED_FIELDS, Phase.STORAGE}))
    assert "nothing is due" in nothing_due(b.proved(b.crd()), both)
    assert nothing_due(b.crd(), both) == ""


def test_shards_of_different_runs_have_different_keys() -> None:
    """Shards of two runs that do different things would count as parts of one, and prove what none has done."""
    runs = [
        (b.crd(), Options()),
        (b.crd(uid="another"), Options()),
        (b.crd(("v1", "v2", "v3")), Options()),
        (b.crd(), OFF),
        (b.crd(), Options(managed_fields=ManagedFields.STRIP)),
        (b.crd(), Options(strip_served=True)),
    ]
    assert len({run_key(crd, options) for crd, options in runs}) == len(runs)


@pytest.mark.parametrize(
    ("crd", "options", "due"),
    [
        (b.crd(stored=("v1", "v2")), Options(), True),
        (b.crd(stored=("v1", "v2")), OFF, True),
        (b.proved(b.crd()), Options(), False),
        (b.proved(b.crd()), Options(ignore_mark=True), True),
        (b.crd(stored=("v1", "v2")), Options(skip=frozenset({Phase.STORAGE})), False),
        (b.proved(b.crd()), Options(skip=frozenset({Phase.STORAGE}), ignore_mark=True), False),
    ],
    ids=["unproved", "unproved, without managedFields", "proved", "proof ignored", "phase off", "phase off, ignored"],
)
def test_objects_are_encoded_again_until_a_proof_says_that_they_are(crd: Crd, options: Options, due: bool) -> None:
    """Objects at the old version would be passed over, or all be written although the phase is switched off."""
    assert reencoding_due(crd, options) is due


FAILED = {
    "type": "StorageMigrating",
    "status": "False",
    "reason": "MigrationFailed",
    "lastTransitionTime": "2024-05-01T10:00:00Z",
}
TIMELESS = {name: value for name, value in FAILED.items() if name != "lastTransitionTime"}


def told(condition: dict[str, str]) -> Crd:
    """The CRD with one condition."""
    document = b.crd_document()
    document["status"]["conditions"] = [condition]
    return Crd.from_document(document)


@pytest.mark.parametrize(
    ("condition", "failed"),
    [
        (FAILED, True),
        (TIMELESS, True),
        (FAILED | {"type": "Established"}, False),
        (FAILED | {"status": "True"}, False),
        (FAILED | {"reason": "Running"}, False),
    ],
    ids=["failed", "failed at no time", "another condition", "under way", "another reason"],
)
def test_a_failed_migration_of_the_cluster_itself_takes_a_proof_away(condition: dict[str, str], failed: bool) -> None:
    """Its controller prunes storedVersions all the same, and objects at the old version would be lost with it."""
    assert ("StorageVersionMigration" in doubt(told(condition), by=b.crd())) is failed


@pytest.mark.parametrize("condition", [FAILED, TIMELESS], ids=["with its time", "without"])
def test_a_proof_of_after_a_failure_holds_until_the_next_one(condition: dict[str, str]) -> None:
    """Every run after it would write all objects, for as long as the condition stands on the CRD."""
    crd = told(condition)
    assert not doubt(crd)
    assert not doubt(b.crd(), by=crd), "the condition may go"
    assert "StorageVersionMigration" in doubt(told(FAILED | {"lastTransitionTime": "2024-06-01T10:00:00Z"}), by=crd)


def test_a_proof_that_could_not_be_written_is_remembered() -> None:
    """A reconciler that may not annotate the CRD would migrate all objects again and again."""
    remembered = b.proved(b.crd(generation=5)).annotations[ANNOTATION]
    assert not what_is_proved(b.crd(generation=6), remembered).doubt
    assert what_is_proved(b.crd(generation=7), remembered).doubt
    assert what_is_proved(b.crd(generation=5, annotations={ANNOTATION: UNFINISHED}), remembered).doubt
    assert not what_is_proved(b.proved(b.crd(generation=9)), remembered).doubt, "the proof on the CRD comes first"


NO_STORAGE = Options(skip=frozenset({Phase.STORAGE}))


def test_a_run_without_a_phase_proves_nothing_of_it() -> None:
    """The next run would pass over what this one left out."""
    stored = b.proved(b.crd(), OFF)
    assert nothing_due(stored, Options()) == "" and nothing_due(stored, OFF)
    left_out = b.proved(b.crd(), NO_STORAGE)
    assert nothing_due(left_out, Options()) == ""
    assert "left the storage phase out" in doubt(left_out, options=NO_STORAGE)


def test_a_run_without_managed_fields_keeps_no_proof_of_theirs_for_other_versions() -> None:
    """Entries that were kept for clients of a version would stay, although it is served no more."""
    crd = b.proved(b.crd(generation=2, unserved=("v1",)), by=b.crd(generation=1))
    proof = proof_of_run(crd, crd, OFF)
    assert proof is not None and proof.objects and proof.managed_fields == ""
