"""A sample of objects: spread over what they are and where they are, whatever their number and order."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from restow.migrator.planning.dryrun import Sample

OBJECTS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["n1", "n2", "n3", "n4"]), st.integers(0, 10_000)),
    unique_by=lambda each: each[2],
    max_size=60,
)


def sampled(objects: list[tuple[str, str, int]], most: int) -> list[tuple[str, str, int]]:
    """What is picked of (shape, namespace, uid)."""
    sample = Sample[tuple[str, str, int]](most, lambda item: item)
    for shape, place, number in objects:
        sample.offer(shape, place, str(number), (shape, place, number))
        assert len(sample.items) <= most
    return sample.items


@given(objects=OBJECTS, most=st.integers(0, 12))
def test_every_shape_is_there_and_none_crowds_out_another(objects: list[tuple[str, str, int]], most: int) -> None:
    """The one object of its kind is the one that fails: a sample that misses it while it has room says all is well."""
    picked = sampled(objects, most)
    assert len(picked) == min(most, len(objects)) == len(set(picked))
    there, taken = (Counter(shape for shape, _place, _uid in each) for each in (objects, picked))
    for shape, count in there.items():
        if taken[shape] < count:  # some were left out: then no other shape has two more
            assert all(others <= taken[shape] + 1 for others in taken.values())


@given(objects=OBJECTS, most=st.integers(1, 12))
def test_of_one_shape_every_namespace_is_there(objects: list[tuple[str, str, int]], most: int) -> None:
    """Policies and quotas are a namespace's own: forty objects of one say nothing about the others."""
    one = [("a", place, uid) for _shape, place, uid in objects]
    there, taken = (Counter(place for _shape, place, _uid in each) for each in (one, sampled(one, most)))
    for place, count in there.items():
        if taken[place] < count:
            assert all(others <= taken[place] + 1 for others in taken.values())


@given(objects=OBJECTS, most=st.integers(1, 12), seed=st.integers(0, 99))
def test_of_one_shape_and_namespace_the_order_is_no_matter(
    objects: list[tuple[str, str, int]], most: int, seed: int
) -> None:
    """A sample of the first page knows only the names with an ``a``; a plan repeated tells the same."""
    one = [("a", "n", uid) for _shape, _place, uid in objects]
    shuffled = random.Random(seed).sample(one, len(one))
    assert sampled(one, most) == sampled(shuffled, most)


def test_a_long_list_is_sampled_from_its_beginning_to_its_end() -> None:
    """The last page is as likely to hold the object that fails as the first."""
    picked = [uid for _shape, _place, uid in sampled([("a", "n", uid) for uid in range(10_000)], 50)]
    assert len(picked) == 50
    assert all(any(begin <= uid < begin + 2500 for uid in picked) for begin in range(0, 10_000, 2500))
