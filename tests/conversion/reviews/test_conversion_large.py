"""Large reviews answer as small ones do."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.conversion import ReviewError
from restow.conversion.reviews.conversion import LARGE, Review, ReviewTooLarge
from tests.conversion.server.apiserver import review
from tests.conversion.server.gateways import HUB, OLD, graph, new, old

MOST = 100_000


@pytest.fixture(autouse=True, scope="module")
def large() -> Iterator[None]:
    """Every review counts as a large one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("restow.conversion.reviews.conversion.LARGE", 0)
        yield


def answered(body: bytes, most: int = MOST) -> Any:
    """Answer it as a large one."""
    large = Review(graph, body, most=most)
    assert len(list(large)) == large.count
    return json.loads(large.answer()), len(large.failures)


def expected(body: bytes) -> Any:
    """Answer it as a small one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("restow.conversion.reviews.conversion.LARGE", LARGE)
        plain = Review(graph, body)
    list(plain)
    return json.loads(plain.answer()), len(plain.failures)


OBJECTS = st.lists(
    st.sampled_from(
        [
            old(),
            old("a", timeoutSeconds=5, listeners=[{"title": "é"}]),
            new("b", timeout="1m", tls={"minVersion": "1.3"}),
            old("bad", timeoutSeconds=-1),
            {**old("c"), "kind": "Other"},
            {"apiVersion": OLD, "kind": "Gateway"},
            {},
            None,
            7,
            [],
        ]
    ),
    max_size=8,
)


@given(OBJECTS, st.sampled_from([HUB, OLD, "other.example.dev/v1"]), st.sampled_from([None, 1]))
def test_it_answers_as_a_small_one(objects: list[Any], to: str, indent: int | None) -> None:
    """Failures, partial objects and what is no object included; the size of a review must not change its meaning."""
    body = json.dumps(json.loads(review(*objects, to=to)), indent=indent).encode()
    assert answered(body) == expected(body)


@pytest.mark.parametrize("order", [("request", "kind", "apiVersion"), ("kind", "request", "apiVersion")])
def test_what_says_too_late_what_it_is_is_read_all_the_same(order: tuple[str, ...]) -> None:
    """Only API servers are known to write the envelope in their order; another client's is as good."""
    whole = json.loads(review(old(), old("b")))
    body = json.dumps({name: whole[name] for name in order}).encode()
    assert answered(body) == expected(body)
    request = {name: whole["request"][name] for name in ("objects", "desiredAPIVersion", "uid")}
    body = json.dumps({**whole, "request": request}).encode()
    assert answered(body) == expected(body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        review()[:-1],
        review(old())[:-1],
        review(old()).replace(b'"objects":[', b'"objects":[,'),
        review(old(), old()).replace(b"},{", b"} {"),
        review(old()) + b"x",
        review(old()).replace(b'"objects":[', b'"objects":[NaN,'),
        review(old()).replace(b'"objects":[', b'"objects":[[' + b"[" * 50_000),
        review(old()).replace(b"ConversionReview", b"AdmissionReview"),
        review(old()).replace(b'"uid":"u"', b'"uid":1'),
        review(old()).replace(b'"objects":[', b'"objects":5,"more":['),
    ],
)
def test_what_is_none_is_told_so(body: bytes) -> None:
    """At the latest once all of it was seen; half an answer must never go out as a whole one."""
    with pytest.raises(ReviewError):
        answered(body)


def test_with_another_msgspec_large_reviews_are_read_as_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that words its errors otherwise costs time and memory, and no request."""
    monkeypatch.setattr("restow.conversion.reviews.conversion.WORKS", False)
    body = review(old(), old("b"))
    assert answered(body, most=1000) == expected(body)


@pytest.mark.parametrize(("count", "size"), [(1001, 0), (3, 7_000_000)])
def test_a_deep_review_is_refused_if_it_is_more_than_api_servers_send(count: int, size: int) -> None:
    """A deep one is read at once: of millions of objects that would hold the loop up for seconds."""
    deep = b"[" * 5000 + b"]" * 5000
    body = review().replace(
        b'"objects":[]', b'"objects":[' + b" " * size + b",".join([deep, *[b"{}"] * (count - 2), deep]) + b"]"
    )
    with pytest.raises(ReviewError, match="nested too deeply for"):
        answered(body)


def test_an_object_that_is_too_large_is_refused() -> None:
    """As a tree it may take a hundred times its size; the review as a whole may be as large as it likes."""
    body = review(old(), old("large", host="x" * 5000), old())
    assert answered(body, most=6000) == expected(body)
    with pytest.raises(ReviewTooLarge, match="larger than 5000 bytes"):
        answered(body, most=5000)


def test_many_tiny_objects_take_no_more_memory_than_their_text() -> None:
    """Decoded all at once they would take thirty times their size, and end the process."""
    count = 300_000
    body = review().replace(b'"objects":[]', b'"objects":[' + b",".join([b"{}"] * count) + b"]")
    tracemalloc.start()
    try:
        steps = iter(Review(graph, body, most=MOST))
        for _ in range(1000):
            next(steps)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(body)


def test_a_review_that_is_given_up_lets_its_body_go() -> None:
    """At once: the next collection may be long after the next hundred megabytes."""
    gc.disable()
    tracemalloc.start()
    try:
        body = review().replace(b'"objects":[]', b'"objects":[' + b",".join([b"{}"] * 300_000) + b"]")
        before = len(body)
        large = Review(graph, body, most=MOST)
        next(iter(large))
        assert large.failures
        del large, body
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert kept < before / 2
