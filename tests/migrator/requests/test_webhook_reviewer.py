"""Asking a webhook: which object it chokes on is found out, it is waited for, but not for ever."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.kube.errors import BadReply, KubeError, ServerError, TimedOut, TooLarge, TooManyRequests, Unreachable
from restow.migrator.decide.errortable import ATTEMPTS, REVIEW_ATTEMPTS, BrokenOff, ErrorAction, of_review_error
from restow.migrator.model.converter import Answer, ConverterDown, Unconverted
from restow.migrator.model.report import Requests
from restow.migrator.requests.environment import Environment, RunStop
from restow.migrator.requests.webhook import IN_FLIGHT, Reviewer, Way
from tests.memory.cluster import MemoryCluster
from tests.migrator.builders import api_version

V1, V2 = api_version("v1"), api_version("v2")
REVIEW = "apiextensions.k8s.io/v1"


def error(kind: type, status: int = 500, retry_after: float | None = None) -> KubeError:
    """An error of this kind."""
    if kind in (Unreachable, TimedOut, BrokenOff, BadReply):
        plain: KubeError = kind("it does not answer")
        return plain
    made: KubeError = kind(status=status, verb="post", target="a review", message="no", retry_after=retry_after)
    return made


class Hook:
    """A webhook that refuses some objects, and breaks at others."""

    def __init__(self, refuses: Any = (), breaks: dict[str, KubeError] | None = None) -> None:
        self.refuses = set(refuses)
        self.breaks = breaks or {}
        self.reviews: list[list[str]] = []
        self.in_flight = self.most_in_flight = 0
        self.before: Callable[[list[str]], None] = lambda _names: None

    async def post(self, body: bytes) -> bytes:
        """Answer a review."""
        request = json.loads(body)["request"]
        names = [each["metadata"]["name"] for each in request["objects"]]
        self.reviews.append(names)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        await asyncio.sleep(0)
        self.in_flight -= 1
        self.before(names)
        for name in names:
            if name in self.breaks:
                raise self.breaks[name]
        response: dict[str, Any] = {"uid": request["uid"], "result": {"status": "Success"}}
        response["convertedObjects"] = [each | {"apiVersion": V2} for each in request["objects"]]
        if refused := self.refuses & set(names):
            response["result"] = {"status": "Failure", "message": f"not {min(refused)}"}
        return json.dumps({"apiVersion": REVIEW, "kind": "ConversionReview", "response": response}).encode()


def at_once(stop: RunStop | None = None) -> Environment:
    """The environment of a reviewer that never waits."""
    return Environment(MemoryCluster(), stop or RunStop(), time.monotonic, random.Random(1), longest_wait=0.0)


def a_reviewer(hook: Hook, requests: Requests | None = None, stop: RunStop | None = None) -> Reviewer:
    """A reviewer that asks it, without any wait."""

    async def find() -> Way:
        return Way(hook.post, REVIEW, "Look at it")

    return Reviewer("the webhook", find, at_once(stop), requests or Requests())


def objects(count: int) -> list[dict[str, Any]]:
    """Objects called a0, a1 and so on."""
    return [{"apiVersion": V1, "kind": "Widget", "metadata": {"name": f"a{number}"}} for number in range(count)]


def convert(reviewer: Reviewer, count: int) -> list[Answer]:
    """Convert so many objects."""
    return list(asyncio.run(reviewer.convert(objects(count), V2)))  # type: ignore[arg-type]


@given(st.integers(0, 9), st.sets(st.integers(0, 8)), st.sets(st.integers(0, 8), max_size=2))
def test_every_object_gets_its_own_answer(count: int, refused: set[int], broken: set[int]) -> None:
    """A review fails as a whole: objects that it was not about must not be given up for it, nor take its place."""
    breaks = {f"a{number}": error(BrokenOff) for number in broken}
    hook = Hook({f"a{number}" for number in refused}, breaks)
    reviewer = a_reviewer(hook)
    for number, answer in enumerate(convert(reviewer, count)):
        if number in broken:
            assert isinstance(answer, Unconverted) and not answer.refused
        elif number in refused:
            assert answer == Unconverted(f"not a{number}")
        else:
            assert answer == {"apiVersion": V2, "kind": "Widget", "metadata": {"name": f"a{number}"}}


def test_objects_in_good_health_are_one_review() -> None:
    """A call for each object costs more than the conversions."""
    hook, requests = Hook(), Requests()
    convert(a_reviewer(hook, requests), 100)
    assert (len(hook.reviews), requests.review, requests.retried) == (1, 1, 0)


def test_one_refused_object_costs_a_few_reviews() -> None:
    """Found by halves: asking for each of a hundred alone would be as slow as the API server's LIST."""
    hook = Hook({"a70"})
    convert(a_reviewer(hook), 100)
    assert len(hook.reviews) <= 1 + 2 * 7


def test_a_slow_webhook_is_asked_for_fewer_objects_from_then_on() -> None:
    """The next page would run into the same timeout, thirty seconds each."""
    hook = Hook()

    def too_slow(names: list[str]) -> None:
        if len(names) > 8:
            raise error(TimedOut)

    reviewer = a_reviewer(hook)
    convert(reviewer, 1)
    hook.before = too_slow
    convert(reviewer, 64)
    hook.reviews.clear()
    convert(reviewer, 64)
    assert {len(names) for names in hook.reviews} == {8}


def test_few_reviews_are_in_flight() -> None:
    """A webhook of one replica must not be given more than an API server would."""
    hook = Hook()
    reviewer = a_reviewer(hook)
    reviewer._most = 1
    convert(reviewer, 30)
    assert hook.most_in_flight == IN_FLIGHT


def test_a_webhook_that_is_down_is_given_up_after_some_tries() -> None:
    """Every object of a run waiting for it in vain: the first one's tries are enough."""
    hook = Hook(breaks={"a0": error(Unreachable)})
    with pytest.raises(ConverterDown, match=r"the webhook does not convert objects: it does not answer. Look at it"):
        convert(a_reviewer(hook), 100)
    assert len(hook.reviews) == ATTEMPTS


def test_a_webhook_that_breaks_at_every_object_is_given_up() -> None:
    """One that answers 500 to everything is as good as down, and a hundred thousand objects take days to show it."""
    hook = Hook(breaks={f"a{number}": error(ServerError) for number in range(100)})
    with pytest.raises(ConverterDown):
        convert(a_reviewer(hook), 100)
    assert len(hook.reviews) < 15 * REVIEW_ATTEMPTS


def test_after_a_halt_nothing_more_is_asked() -> None:
    """A run that is asked to stop has eight seconds for what is in flight, and none for new reviews."""
    hook, stop = Hook(), RunStop()
    stop.because("enough")
    with pytest.raises(ConverterDown, match="enough"):
        convert(a_reviewer(hook, stop=stop), 1)
    assert not hook.reviews


NO_WAY = "no way there"


async def nowhere() -> Way:
    """No way to a webhook."""
    raise ConverterDown(NO_WAY)


def test_without_a_way_there_is_no_converter() -> None:
    """A CRD that does not tell where its webhook is must end in a sentence."""
    reviewer = Reviewer("x", nowhere, at_once(), Requests())
    with pytest.raises(ConverterDown, match=NO_WAY):
        convert(reviewer, 1)


@pytest.mark.parametrize(
    ("found", "attempt", "many", "heard", "action", "wait"),
    [
        (error(TooManyRequests, 429, 3.0), 1, 9, True, ErrorAction.RETRY, 3.0),
        (error(TooManyRequests, 429), 1, 9, True, ErrorAction.RETRY, 0.25),
        (error(TooManyRequests, 429, 0.0), 3, 9, True, ErrorAction.RETRY, 1.0),
        (error(ServerError, 503, 2.0), 5, 9, False, ErrorAction.RETRY, 4.0),
        (error(ServerError, 503, 9.0), 5, 9, False, ErrorAction.RETRY, 9.0),
        (error(ServerError, 503, 900.0), 1, 9, False, ErrorAction.RETRY, 60.0),
        (error(ServerError, 503, 2.0), ATTEMPTS, 9, True, ErrorAction.STOP, 0.0),
        (error(ServerError), 1, 9, True, ErrorAction.RETRY, 0.25),
        (error(ServerError), REVIEW_ATTEMPTS, 9, True, ErrorAction.SPLIT, 0.0),
        (error(ServerError), REVIEW_ATTEMPTS, 1, True, ErrorAction.FAIL, 0.0),
        (error(BrokenOff), 2, 1, True, ErrorAction.RETRY, 0.5),
        (error(BrokenOff), REVIEW_ATTEMPTS, 2, True, ErrorAction.SPLIT, 0.0),
        (error(Unreachable), 3, 9, True, ErrorAction.RETRY, 1.0),
        (error(Unreachable), ATTEMPTS, 9, True, ErrorAction.STOP, 0.0),
        (error(TimedOut), 1, 9, False, ErrorAction.RETRY, 0.0),
        (error(TimedOut), 2, 9, False, ErrorAction.STOP, 0.0),
        (error(TimedOut), 1, 9, True, ErrorAction.SPLIT, 0.0),
        (error(TimedOut), 1, 1, True, ErrorAction.FAIL, 0.0),
        (error(TooLarge, 413), 1, 9, True, ErrorAction.SPLIT, 0.0),
        (error(TooLarge, 413), 1, 1, True, ErrorAction.FAIL, 0.0),
        (error(BadReply), 1, 9, True, ErrorAction.SPLIT, 0.0),
        (error(BadReply), 1, 1, True, ErrorAction.FAIL, 0.0),
        (error(ServerError, 403), 1, 9, True, ErrorAction.STOP, 0.0),
        (error(ServerError, 404), 1, 9, True, ErrorAction.STOP, 0.0),
        (error(ServerError, 401), 1, 9, True, ErrorAction.STOP, 0.0),
    ],
    ids=str,
)
def test_what_an_error_on_a_review_means(
    found: KubeError, attempt: int, many: int, heard: bool, action: ErrorAction, wait: float
) -> None:
    """Waiting where it helps, halving where one object may be the reason, and an end where all would fail alike."""
    outcome = of_review_error(found, attempt=attempt, objects=many, heard=heard)
    assert (outcome.action, outcome.wait) == (action, wait)
    assert outcome.slow_down is (action is ErrorAction.SPLIT and isinstance(found, (TimedOut, TooLarge)))


@pytest.mark.parametrize(
    ("found", "attempt", "many", "heard", "message"),
    [
        (error(Unreachable), ATTEMPTS, 9, True, "it does not answer"),
        (error(TimedOut), 2, 9, False, "it does not answer"),
        (error(BrokenOff), REVIEW_ATTEMPTS, 1, True, "it does not answer"),
        (error(ServerError, 403), 1, 9, True, "no"),
        (error(ServerError), REVIEW_ATTEMPTS, 1, True, "post a review: no (500)"),
    ],
    ids=str,
)
def test_an_end_names_its_cause(found: KubeError, attempt: int, many: int, heard: bool, message: str) -> None:
    """The report would say that the webhook was given up, and not why."""
    assert of_review_error(found, attempt=attempt, objects=many, heard=heard).message == message


@pytest.mark.parametrize("kind", [ServerError, BrokenOff])
def test_a_review_that_breaks_the_webhook_is_tried_a_few_times(kind: type) -> None:
    """The log's "try 2 of 8" would promise tries that are never made, while the other objects wait."""
    assert of_review_error(error(kind), attempt=1, objects=9, heard=True).attempts == REVIEW_ATTEMPTS
