"""Shards: which object falls to which, and when all records together prove that storedVersions may be pruned."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.crds import Crd
from restow.migrator.decide.prune import Generations
from restow.migrator.model.options import MOST_SHARDS, Shard
from restow.migrator.run.shards import Record, Standing, decode_records, encode_records, standing
from tests.migrator import builders as b

MARK = "the mark"
STORED = ("v1", "v2")


def crd(generation: int = 4, storage: str = "v2", **changes: object) -> Crd:
    """The CRD at a generation."""
    return b.crd(**({"stored": STORED, "generation": generation, "storage": storage} | changes))  # type: ignore[arg-type]


def record(index: int, first: int = 4, last: int | None = None, **changes: object) -> Record:
    """The record of one of two shards."""
    told = {"index": index, "count": 2, "uid": "uid-1", "storage": "v2", "mark": MARK, "stored": STORED}
    return Record(**(told | {"first": first, "last": first if last is None else last} | changes))  # type: ignore[arg-type]


def watched(*seen: Crd) -> Generations:
    """What a watch showed."""
    generations = Generations()
    for each in seen:
        generations.add(each)
    return generations


@pytest.mark.parametrize(("text", "index", "count"), [("0/1", 0, 1), ("0/3", 0, 3), ("2/3", 2, 3), ("07/10", 7, 10)])
def test_a_shard_is_written_as_i_of_n(text: str, index: int, count: int) -> None:
    """From 0, as an Indexed Job counts."""
    assert Shard.parse(text) == Shard(index, count)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "3/3",
        "4/3",
        "-1/3",
        "0/0",
        "1/0",
        "a/b",
        "1/3/5",
        " 1/3",
        "1/3\n",
        "1.0/3",
        "²/3",
        f"0/{MOST_SHARDS + 1}",
    ],
)
def test_what_is_no_shard_is_refused(text: str) -> None:
    """A part that does not exist would never be complete, or be done by nobody."""
    with pytest.raises(ValueError, match="shard"):
        Shard.parse(text)


@given(st.text(), st.integers(1, 40))
def test_every_object_falls_to_exactly_one_shard(uid: str, count: int) -> None:
    """One that fell to none would stay at the old version."""
    assert sum(Shard(index, count).owns(uid) for index in range(count)) == 1


def test_an_object_falls_to_the_same_shard_for_ever() -> None:
    """Shards of two releases of restow must agree, or an object is done by neither."""
    uids = [str(uuid.UUID(int=number)) for number in range(12)]
    found = [next(index for index in range(4) if Shard(index, 4).owns(uid)) for uid in uids]
    assert found == KNOWN


KNOWN = [2, 0, 3, 2, 3, 3, 2, 1, 2, 3, 0, 3]


def test_shards_are_about_equal() -> None:
    """The largest part decides how long it takes."""
    counts = [sum(Shard(index, 8).owns(f"uid-{number}") for number in range(8000)) for index in range(8)]
    assert min(counts) > 850
    assert max(counts) < 1150


@pytest.mark.parametrize(
    ("records", "now", "seen"),
    [
        ([record(0), record(1)], crd(), ()),
        ([record(1), record(0)], crd(), (crd(),)),
        ([record(0), record(1, 5)], crd(5), ()),
        ([record(0), record(1, 4, 6)], crd(6), ()),
        ([record(0), record(1, 6)], crd(6), (crd(4), crd(5), crd(6))),
        ([record(0, 4, 5), record(1, 6, 7)], crd(8), (crd(8),)),
        ([record(0), record(1, 6), record(0, 5, count=3)], crd(6), ()),
        ([record(0), record(1), record(7), record(0, count=3)], crd(), ()),
        ([record(0), record(1)], crd(stored=("v2",)), ()),
    ],
    ids=[
        "the same generation",
        "any order",
        "one edit between them",
        "a span that covers it",
        "seen by the one that judges",
        "one after the other",
        "covered by a shard of another count",
        "with records of others",
        "pruned already",
    ],
)
def test_all_are_complete(records: list[Record], now: Crd, seen: tuple[Crd, ...]) -> None:
    """Records that do not count although they could make a migration that never ends."""
    found = standing(records, 2, now, MARK, watched(*seen))
    assert found.all_complete, found
    assert found.reason == ""


@pytest.mark.parametrize(
    ("records", "now", "seen", "outdated", "missing"),
    [
        ([], crd(), (), (), (0, 1)),
        ([record(0)], crd(), (), (), (1,)),
        ([record(0), record(1, count=3)], crd(), (), (), (1,)),
        ([record(0), record(1, uid="uid-2")], crd(), (), (), (1,)),
        ([record(0), record(1, format=2)], crd(), (), (), (1,)),
        ([record(0), record(2)], crd(), (), (), (1,)),
        ([record(0), record(1, 6)], crd(6), (), (0,), ()),
        ([record(0), record(1, 6)], crd(6), (crd(4), crd(5, "v1"), crd(6)), (0,), ()),
        ([record(0), record(1, storage="v1")], crd(), (), (1,), ()),
        ([record(0), record(1, mark="another")], crd(), (), (1,), ()),
        ([record(0), record(1)], crd(5, "v1"), (), (0, 1), ()),
        ([record(0), record(1)], crd(3), (), (0, 1), ()),
        ([record(0), record(1, 4, 3)], crd(), (), (1,), ()),
        ([record(0), record(1, 4, 9)], crd(5), (), (1,), ()),
        ([record(0), record(1)], crd(6), (crd(6),), (0, 1), ()),
        ([record(0), record(1, stored=("v2",))], crd(), (), (1,), ()),
        ([record(0), record(1)], crd(stored=("v0", "v1", "v2")), (), (0, 1), ()),
    ],
    ids=[
        "none",
        "one",
        "of another count",
        "of another CRD",
        "of another release",
        "of no shard",
        "a generation that nobody saw",
        "a flip and back that was seen",
        "at another storage version",
        "for other versions or options",
        "a flip",
        "etcd restored",
        "a span that ends before it begins",
        "a span from the future",
        "two edits that nobody saw",
        "a version joined after that shard",
        "a version joined",
    ],
)
def test_not_all_are_complete(
    records: list[Record], now: Crd, seen: tuple[Crd, ...], outdated: tuple[int, ...], missing: tuple[int, ...]
) -> None:
    """A prune that rests on a part which is not proven loses that part's objects."""
    found = standing(records, 2, now, MARK, watched(*seen))
    assert not found.all_complete
    assert (found.outdated, found.missing) == (outdated, missing)
    assert found.reason


@settings(max_examples=300)
@given(
    flips=st.lists(st.sampled_from(["v1", "v2"]), min_size=3, max_size=6),
    spans=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 3)), min_size=2, max_size=3),
    watched_from=st.floats(0, 1, exclude_max=True),
)
def test_no_flip_after_a_part_was_done_goes_unnoticed(
    flips: list[str], spans: list[tuple[float, int]], watched_from: float
) -> None:
    """The law behind the prune: each shard's storage version was the only one from its list up to now."""
    history = [crd(number, storage) for number, storage in enumerate(flips, start=1)]
    records = []
    for index, (begun, length) in enumerate(spans):
        first = last = int(begun * len(history)) + 1
        while last < min(first + length, len(history)) and flips[last] == flips[first - 1]:
            last += 1  # a shard records only what it has proven itself
        records.append(record(index, first, last, count=len(spans), storage=flips[first - 1]))
    seen = watched(*history[int(watched_from * len(history)) :])
    found = standing(records, len(spans), history[-1], MARK, seen)
    for each in records:
        if each.index in found.complete:
            assert {state.storage.name for state in history[each.first - 1 :]} == {flips[-1]}
    assert not found.missing


@pytest.mark.parametrize(
    ("outdated", "missing", "said"),
    [
        ((), (1,), "shard 1 of 12 is not complete yet"),
        ((), (1, 3), "shards 1, 3 of 12 are not complete yet"),
        ((0,), (), "shard 0 of 12 was complete before the CRD changed"),
        ((0, 2), (1,), "shard 1 of 12 is not complete yet; shards 0, 2 of 12 were complete before the CRD changed"),
        ((), tuple(range(12)), "shards 0, 1, 2, 3, 4, 5, 6, 7 and 4 more of 12 are not complete yet"),
    ],
)
def test_the_reason_names_the_shards(outdated: tuple[int, ...], missing: tuple[int, ...], said: str) -> None:
    """Whoever reads it wants to know which pod to look at."""
    assert Standing(12, (), outdated, missing).reason == said


def test_records_survive_the_config_map() -> None:
    """What one process writes another one reads."""
    records = (record(0), record(1, 5, 7), record(0, count=3))
    assert set(decode_records(encode_records(records))) == set(records)


@pytest.mark.parametrize(
    "data",
    [
        {"0-of-2": ""},
        {"0-of-2": "[]"},
        {"0-of-2": "{}"},
        {"0-of-2": encode_records([record(0)])["0-of-2"].replace('"first":4', '"first":"4"')},
        {"0-of-2": encode_records([record(1)])["1-of-2"]},
        {"1-of-2": encode_records([record(0)])["0-of-2"]},
        {"note": "somebody was here"},
    ],
)
def test_what_is_no_record_counts_for_nothing(data: dict[str, str]) -> None:
    """An edited ConfigMap must neither be believed nor end the run."""
    assert decode_records(data) == ()
