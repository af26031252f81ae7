"""What is proved about the objects of a CRD: for which state a proof holds, and what takes it away."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.crds import Crd
from restow.migrator.model import ManagedFields, Options, Phase, Scope
from restow.migrator.proof import (
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
from tests.migrator import builders as b

BEFORE = datetime(2024, 5, 1, 10, 0, 0, tzinfo=UTC)
VERSIONS = {"f:spec": {"f:versions": {}, "f:scope": {}}}
BUNDLE = {"f:spec": {"f:conversion": {"f:webhook": {"f:clientConfig": {"f:caBundle": {}}}}}}
STORED = {"f:status": {"f:storedVersions": {}}}


def wrote(manager: str, fields: dict[str, Any], after: float = 0.0) -> dict[str, Any]:
    """A managedFields entry of the CRD, so many seconds after ``BEFORE``."""
    time = (BEFORE + timedelta(seconds=after)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"manager": manager, "operation": "Update", "time": time, "fieldsType": "FieldsV1", "fieldsV1": fields}


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
    assert not what_is_proved(b.crd(annotations={ANNOTATION: json.dumps(proof)})).doubt
    assert what_is_proved(b.crd(annotations={ANNOTATION: json.dumps(proof | {"but": 1})})).doubt
    assert what_is_proved(b.crd(annotations={ANNOTATION: json.dumps(proof | {"format": 3})})).doubt


LATER = BEFORE + timedelta(hours=1)
OWNERS = (wrote("helm", VERSIONS), wrote("restow-migrator", STORED, 10))


@pytest.mark.parametrize(
    ("owners", "changes", "holds"),
    [
        (OWNERS, {}, True),
        ((*OWNERS, wrote("cert-manager", BUNDLE, 7200)), {}, True),
        (OWNERS[::-1], {}, True),
        ((wrote("helm", VERSIONS, 7200), OWNERS[1]), {}, False),
        ((wrote("kubectl", VERSIONS), OWNERS[1]), {}, False),
        ((OWNERS[0], wrote("kubectl", STORED, 7200)), {}, False),
        ((OWNERS[0], wrote("restow-migrator", STORED, 7200)), {}, False),
        (OWNERS[:1], {}, False),
        ((), {}, False),
        (OWNERS, {"stored": ("v1", "v2")}, False),
        (OWNERS, {"storage": "v1"}, False),
    ],
    ids=[
        "untouched",
        "a CA bundle",
        "in another order",
        "the same writer of the versions again",
        "another writer of the versions",
        "trimmed by a stranger",
        "trimmed again in our name",
        "storedVersions owned by none",
        "managedFields reset",
        "storedVersions grew",
        "flipped",
    ],
)
def test_many_changes_are_harmless_where_the_crds_own_managed_fields_say_so(
    owners: tuple[dict[str, Any], ...], changes: dict[str, Any], holds: bool
) -> None:
    """A year of rotated CA bundles leaves the proof; a flip and back with a trim must not."""
    made = b.crd(generation=2, managed_fields=OWNERS)
    now = b.crd(generation=50, managed_fields=owners, **changes)
    assert bool(doubt(now, made, at=LATER)) is not holds


@pytest.mark.parametrize(
    ("after", "holds"), [(0.0, False), (1.9, False), (2.0, True), (3600.0, True)], ids=["now", "nearly", "just", "long"]
)
def test_a_writer_of_the_same_second_is_not_told_apart(after: float, holds: bool) -> None:
    """Times have whole seconds: whoever flipped a moment ago may flip again under the same time."""
    crd = b.crd(generation=2, managed_fields=(wrote("helm", VERSIONS),))
    now = b.crd(generation=9, managed_fields=(wrote("helm", VERSIONS),))
    assert bool(doubt(now, crd, at=BEFORE + timedelta(seconds=after))) is not holds
    assert doubt(now, crd, at=None), "without a clock nothing is told apart"


def test_a_proof_is_extended_one_change_at_a_time() -> None:
    """A reconciler that sees each change keeps a proof for ever without any managedFields of the CRD."""
    crd = b.proved(b.crd(generation=1))
    for generation in range(2, 9):
        crd = dataclasses.replace(b.crd(generation=generation), annotations=crd.annotations)
        proof = extended(what_is_proved(crd), None)
        assert proof is not None and proof.generation == generation
        crd = dataclasses.replace(crd, annotations={ANNOTATION: proof.encode()})
        assert extended(what_is_proved(crd), None) is None
    assert nothing_due(crd, Options())


def test_an_extended_proof_says_nothing_of_managed_fields_of_other_versions() -> None:
    """What was kept for clients of a served version is due once it is unserved."""
    crd = b.proved(b.crd(generation=2, unserved=("v1",)), by=b.crd(generation=1))
    proof = extended(what_is_proved(crd), None)
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
    """``restow prune`` after ``restow migrate`` must not have the next run translate everything again."""
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


def test_a_run_beside_one_that_failed_leaves_no_proof() -> None:
    """It may have been done with the object before the other one failed on it."""
    failed = b.crd(annotations={ANNOTATION: UNFINISHED})
    assert proof_of_run(b.crd(), failed, Options(), None) is None
    assert proof_of_run(failed, failed, Options(), None) is not None


def test_versions_that_change_during_a_run_leave_their_managed_fields_unproved() -> None:
    """Entries were kept for clients of a version that is served no more."""
    proof = proof_of_run(b.crd(generation=1), b.crd(generation=2, unserved=("v1",)), Options(), None)
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


STEPS = st.lists(st.sampled_from(["flip", "bundle", "trim", "proof", "reset", "touch"]), max_size=12)


@given(STEPS)
def test_no_history_talks_it_into_a_proof(steps: list[str]) -> None:
    """After a flip only a complete run may say that nothing is stored at the other version."""
    storage, stored, generation, clean = "v2", {"v1", "v2"}, 1, False
    owners = {"versions": wrote("helm", VERSIONS), "stored": wrote("kube", STORED)}
    annotations: dict[str, str] = {}

    def now() -> Crd:
        return b.crd(
            storage=storage,
            stored=sorted(stored),
            generation=generation,
            annotations=annotations,
            managed_fields=tuple(owners.values()),
        )

    for number, step in enumerate(steps):
        after = 60.0 * (number + 1)
        if step == "flip":
            storage = "v1" if storage == "v2" else "v2"
            stored.add(storage)
            generation, clean = generation + 1, False
            owners["versions"] = wrote("helm", VERSIONS, after)
        elif step == "bundle":
            generation += 1
            owners["bundle"] = wrote("cert-manager", BUNDLE, after)
        elif step == "touch":
            generation += 1
            owners["versions"] = wrote("helm", VERSIONS, after)
        elif step == "trim":
            stored = {storage}
            owners["stored"] = wrote("kubectl", STORED, after)
        elif step == "reset":
            owners = {}
        else:
            stored, clean = {storage}, True
            owners["stored"] = wrote("restow-migrator", STORED, after)
            annotations = dict(b.proved(now(), at=BEFORE + timedelta(seconds=after + 30)).annotations)
        if not what_is_proved(now()).doubt:
            assert clean
