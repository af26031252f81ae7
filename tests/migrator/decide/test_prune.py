"""May storedVersions be pruned: every guard, and the law that no other storage version in between goes unnoticed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.crds import Crd
from restow.migrator.decide.prune import Generations, PruneVerdict, may_prune
from tests.migrator import builders as b

START = b.crd(stored=("v1", "v2"), generation=4)


def at(generation: int, *, storage: str = "v2", unserved: tuple[str, ...] = (), ca_bundle: str = "") -> Crd:
    """The CRD of ``START`` at another generation."""
    return b.crd(
        stored=("v1", "v2"),
        generation=generation,
        storage=storage,
        unserved=unserved,
        webhook=bool(ca_bundle),
        ca_bundle=ca_bundle,
    )


def watched(*seen: Crd) -> Generations:
    """What a watch showed."""
    generations = Generations()
    for crd in seen:
        generations.add(crd)
    return generations


V1_AGAIN = (START, at(5, storage="v1"), at(6))


@pytest.mark.parametrize(
    ("now", "seen", "verdict"),
    [
        (at(4), (START,), True),
        (at(4), (), True),
        (at(5, ca_bundle="QQ=="), (), True),
        (at(5), (), True),
        (at(5, unserved=("v1",)), (START, at(5, unserved=("v1",))), True),
        (at(6), (START, at(5), at(6)), True),
        (at(6), (START, at(5, unserved=("v1",)), at(6)), True),
        (b.crd(stored=("v1",), generation=4), (START,), True),
        (b.crd(stored=("v2",), generation=4), (START,), True),
        (b.crd(stored=("v1", "v2"), generation=4, conditions={"StorageMigrating": "True"}), (START,), True),
        (b.crd(stored=("v1", "v2"), generation=4, uid="uid-2"), (START,), "created again"),
        (b.crd(stored=("v1", "v2"), generation=4, terminating=True), (START,), "being deleted"),
        (b.crd(stored=("v1", "v2"), generation=4, conditions={"Terminating": "True"}), (START,), "being deleted"),
        (at(5, storage="v1"), (START, at(5, storage="v1")), "from v2 to v1"),
        (b.crd(stored=("v0", "v1", "v2"), generation=4), (START,), "v0 joined"),
        (b.crd(stored=("v3", "v0", "v2"), generation=5), (START,), "v0, v3 joined"),
        (at(5, unserved=("v1",)), (), "was not seen"),
        (at(6), (), "was not seen"),
        (at(6), (START, at(6)), "was not seen"),
        (at(6), (at(5), at(6)), "was not seen"),
        (at(6), (START, at(5)), "was not seen"),
        (at(6), V1_AGAIN, "v2 → v1 → v2"),
        (at(7), (*V1_AGAIN, at(7)), "v2 → v1 → v2"),
        (at(3), (START, at(3)), "was not seen"),
        (at(3), (), "was not seen"),
    ],
    ids=[
        "untouched, watched",
        "untouched, not watched",
        "a CA bundle",
        "a schema",
        "served changed, watched",
        "two edits, watched",
        "unserved and served again, watched",
        "the start's versions in part",
        "pruned by somebody else",
        "a condition",
        "other uid",
        "deletionTimestamp",
        "condition Terminating",
        "flipped",
        "another stored version",
        "other stored versions",
        "served changed, not watched",
        "two edits, not watched",
        "a gap in the middle",
        "a gap at the start",
        "a gap at the end",
        "v2 v1 v2",
        "v2 v1 v2 and one more edit",
        "the generation went back, watched",
        "the generation went back",
    ],
)
def test_every_guard(now: Crd, seen: tuple[Crd, ...], verdict: bool | str) -> None:
    """A prune is granted only on proof; each missing guard is a silent loss of objects."""
    found = may_prune(START, now, watched(*seen))
    assert found.prune is (verdict is True)
    if isinstance(verdict, str):
        assert verdict in found.reason
        assert START.name in found.reason


@pytest.mark.parametrize(
    ("now", "again"),
    [
        (b.crd(generation=4, uid="uid-2"), True),
        (at(5, storage="v1"), True),
        (b.crd(stored=("v0", "v2"), generation=4), True),
        (at(6), True),
        (b.crd(generation=4, terminating=True), False),
    ],
    ids=["other uid", "flipped", "another stored version", "not seen", "terminating"],
)
def test_another_pass_is_made_where_it_may_succeed(now: Crd, again: bool) -> None:
    """A CRD that changed is looked at again; one that is being deleted would be so for ever."""
    assert may_prune(START, now, watched()).again is again


def test_a_granted_prune_needs_no_other_pass() -> None:
    """A verdict that asks for both would make the run start over after it succeeded."""
    assert may_prune(START, at(4), watched()) == PruneVerdict(prune=True)


@given(
    st.lists(st.tuples(st.sampled_from(["v1", "v2"]), st.booleans()), max_size=5),
    st.sets(st.integers(0, 5)),
    st.integers(0, 6),
)
def test_no_prune_after_any_generation_with_another_storage_version(
    edits: list[tuple[str, bool]], missed: set[int], lag: int
) -> None:
    """Whatever the edits, and whatever of them the watch missed, objects written at v1 in between are never lost."""
    history = [START]
    for number, (storage, served) in enumerate(edits):
        history.append(at(START.generation + 1 + number, storage=storage, unserved=() if served else ("v1",)))
    arrived = history[: len(history) - lag] if lag else history
    seen = [crd for number, crd in enumerate(arrived) if number not in missed]
    verdict = may_prune(START, history[-1], watched(*seen))
    if any(crd.storage.name != "v2" for crd in history):
        assert not verdict.prune
    elif len(seen) == len(history):
        assert verdict.prune


def test_storages_are_told_in_order_without_repetitions() -> None:
    """The sentence about a flip must name the versions in the order in which they stored."""
    seen = watched(at(9, storage="v1"), START, at(5), at(7, storage="v1"), at(12))
    assert seen.storages() == ("v2", "v1", "v2")


def test_one_generation_that_was_seen_is_unbroken() -> None:
    """Shards join what each of them saw by single generations: without it none of them would ever prune."""
    generations = Generations()
    generations.add(b.crd(generation=3))
    assert generations.unbroken(3, 3, "v2")
    assert not generations.unbroken(3, 3, "v1") and not generations.unbroken(4, 4, "v2")
