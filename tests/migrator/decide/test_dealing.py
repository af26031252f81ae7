"""Dealing: every object is with one worker at a time, backlogs are bounded, and a lost worker's objects come back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.migrator.decide.dealing import Dealing, shares


def dealing(workers: int = 2, objects: int = 4, size: int = 100) -> Dealing:
    """Workers with small backlogs."""
    made = Dealing(most_objects=objects, most_bytes=size)
    for worker in range(workers):
        made.join(worker)
    return made


def test_the_smallest_backlog_is_next() -> None:
    """A worker that is dealt in turn, whatever it has, keeps objects waiting that another could write."""
    made = dealing()
    made.deal(0, {0: 1, 1: 1})
    assert made.choose(1, 1) == 1
    made.deal(1, {2: 1, 3: 1, 4: 1})
    assert made.choose(1, 1) == 0
    made.answered(1, [2, 3])
    assert made.choose(1, 1) == 1


@pytest.mark.parametrize(
    ("backlog", "objects", "size", "room"),
    [
        ({}, 9, 999, True),
        ({0: 1}, 3, 3, True),
        ({0: 1}, 4, 4, False),
        ({0: 60}, 1, 40, True),
        ({0: 60}, 1, 41, False),
    ],
)
def test_a_backlog_is_bounded(backlog: dict[int, int], objects: int, size: int, room: bool) -> None:
    """Without a bound the whole list is in memory; with one that holds for an empty backlog, a large object waits."""
    made = dealing(workers=1)
    made.deal(0, backlog)
    assert made.choose(objects, size) == (0 if room else None)


def test_a_lost_worker_leaves_what_it_did_not_answer_for() -> None:
    """Objects that are not dealt again stay at the old version; those dealt again without need are written twice."""
    made = dealing()
    made.deal(0, {3: 1, 1: 1, 2: 1})
    made.answered(0, [2])
    assert made.leave(0) == (1, 3)
    assert made.leave(0) == ()
    assert len(made) == 0 and made.choose(1, 1) == 1
    made.leave(1)
    assert made.choose(1, 1) is None


@given(st.lists(st.sampled_from(["deal", "answer", "die"]), max_size=60), st.randoms(use_true_random=False))
def test_every_object_is_done_once(steps: list[str], chance: object) -> None:
    """An object that two workers have is written twice, and one that none has is never written."""
    made, waiting, held, done = dealing(3), list(range(40)), {}, []
    for step in steps:
        worker = chance.randrange(3)  # type: ignore[attr-defined]
        mine = [number for number, owner in held.items() if owner == worker]
        if step == "deal" and waiting and (chosen := made.choose(1, 10)) is not None:
            number = waiting.pop(0)
            made.deal(chosen, {number: 10})
            held[number] = chosen
        elif step == "answer" and mine:
            made.answered(worker, mine[:1])
            done.append(mine[0])
            del held[mine[0]]
        elif step == "die":
            assert made.leave(worker) == tuple(sorted(mine))
            waiting = mine + waiting
            held = {number: owner for number, owner in held.items() if owner != worker}
            made.join(worker)
        assert len(made) == len(held)
        assert all(list(held.values()).count(each) <= 4 for each in range(3))
    assert sorted([*waiting, *held, *done]) == list(range(40))


@given(st.integers(1, 256), st.integers(1, 64))
def test_shares_add_up(whole: int, count: int) -> None:
    """Shares that add up to more put more load on the API server than was asked for."""
    parts = shares(whole, count)
    assert sum(parts) == whole and len(parts) == count and max(parts) - min(parts) <= 1
