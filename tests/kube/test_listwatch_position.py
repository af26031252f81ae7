"""What the end of a stream means for the next request."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.kube.errors import (
    ApiError,
    BadReply,
    BadRequest,
    ConfigError,
    Forbidden,
    Gone,
    KubeError,
    MethodNotAllowed,
    NotFound,
    ServerError,
    TimedOut,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from restow.kube.listwatch import HEALTHY_S, WatchPosition


def refused(kind: type[ApiError], status: int, **more: Any) -> ApiError:
    return kind(status=status, verb="watch", target="widgets", **more)


PASSING: list[tuple[KubeError, str | None]] = [
    (refused(Gone, 410), None),
    (refused(TooManyRequests, 429), "7"),
    (refused(ServerError, 503), "7"),
    (Unreachable("reset"), "7"),
    (TimedOut("late"), "7"),
    (BadReply("cut off"), "7"),
]


@pytest.mark.parametrize(("error", "version"), PASSING)
def test_what_passes_is_waited_for(error: KubeError, version: str | None) -> None:
    """Only 410 loses the history; everything else that may pass goes on where it was, after a wait."""
    after = WatchPosition().seen("7").failed(error, lived=0.0)
    assert after.version == version
    assert after.delay(0.0) > 0


REFUSALS: list[KubeError] = [refused(Unauthorized, 401), refused(Forbidden, 403), refused(NotFound, 404)]


@pytest.mark.parametrize(
    "error", [refused(BadRequest, 400), refused(MethodNotAllowed, 405), refused(ApiError, 418), ConfigError("token")]
)
def test_what_does_not_pass_is_raised(error: KubeError) -> None:
    """A request that can never succeed is not repeated, even if others succeeded before."""
    with pytest.raises(type(error)) as caught:
        WatchPosition().seen("7").failed(error, lived=100.0)
    assert caught.value is error


@pytest.mark.parametrize("error", REFUSALS)
def test_a_refusal_at_the_beginning_is_raised(error: KubeError) -> None:
    """A consumer without rights, or of a version that is not served, is told at once; also after other failures."""
    with pytest.raises(type(error)):
        WatchPosition().failed(error, lived=0.0)
    with pytest.raises(type(error)):
        WatchPosition().failed(Unreachable("starting"), lived=0.0).failed(error, lived=0.0)


@pytest.mark.parametrize("error", REFUSALS)
@pytest.mark.parametrize("between", [None, Unreachable("reset"), refused(Gone, 410)])
def test_a_refusal_that_lasts_is_raised(error: KubeError, between: KubeError | None) -> None:
    """What worked before may be refused for moments by a server that starts, but not for ever."""
    position = WatchPosition().seen("7")
    waited = 0.0
    for _ in range(5):
        position = position.failed(error, lived=0.0)
        waited += position.delay(0.0)
        if between is not None:
            position = position.failed(between, lived=0.0)
    assert waited > 10
    with pytest.raises(type(error)):
        position.failed(error, lived=0.0)


@pytest.mark.parametrize("error", REFUSALS)
def test_refusals_are_forgotten_when_it_works_again(error: KubeError) -> None:
    """Restarts of the API server, day after day, must not add up to an error."""
    position = WatchPosition().seen("7")
    for restart in range(10):
        for _ in range(5):
            position = position.failed(error, lived=0.0)
        position = position.closed(lived=HEALTHY_S) if restart % 2 else position.seen("8")


def test_a_long_watch_that_ends_is_followed_at_once() -> None:
    """The regular end of a watch costs no delay, during which events would be late."""
    after = WatchPosition().seen("7").closed(lived=HEALTHY_S)
    assert (after.version, after.delay(0.99)) == ("7", 0.0)


def test_a_short_watch_that_ends_is_a_failure() -> None:
    """A server that closes at once is not asked again at once."""
    assert WatchPosition().seen("7").closed(lived=HEALTHY_S - 0.1).delay(0.0) > 0


def test_failures_add_up_whatever_comes_between() -> None:
    """Lists and events that succeed do not reset the back-off: a server may give one and close, for ever."""
    position = WatchPosition()
    delays = []
    for version in range(8):
        position = position.seen(str(version)).failed(refused(Gone, 410), lived=1.0).seen("x").closed(lived=1.0)
        delays.append(position.delay(0.0))
    assert delays == sorted(delays)
    assert delays[-1] == 15.0


def test_a_healthy_stream_resets_the_backoff() -> None:
    """After a long stream the first failure waits as briefly as the very first did."""
    position = WatchPosition(version="7", failures=9)
    assert position.failed(Unreachable("reset"), lived=HEALTHY_S).failures == 1
    assert position.closed(lived=HEALTHY_S).failures == 0


def test_retry_after_is_the_least_wait_once() -> None:
    """The server's wish counts for the next request, and not for those after it."""
    position = WatchPosition(version="7").failed(refused(TooManyRequests, 429, retry_after=20.0), lived=0.0)
    assert position.delay(0.0) == 20.0
    assert position.failed(refused(TooManyRequests, 429, retry_after=86400.0), lived=0.0).delay(0.0) == 60.0
    assert position.failed(Unreachable("reset"), lived=0.0).delay(0.0) < 20.0
    assert position.closed(lived=HEALTHY_S).delay(0.0) == 0.0


def test_server_errors_at_one_version_end_in_a_list() -> None:
    """A resourceVersion that the server cannot serve again and again is given up; other failures do not count."""
    position = WatchPosition().seen("7")
    for _ in range(4):
        position = position.failed(refused(ServerError, 500), lived=0.0).failed(Unreachable("reset"), lived=0.0)
        assert position.version == "7"
    assert position.seen("8").failed(refused(ServerError, 500), lived=0.0).version == "8"
    assert position.failed(refused(ServerError, 500), lived=0.0).version is None


class Steps:
    """Strategies of what may happen to a stream: (error or None, seconds it lived)."""

    ends = st.sampled_from([None, *(error for error, _ in PASSING), REFUSALS[1]])
    short = st.floats(0, HEALTHY_S, exclude_max=True)


@given(st.lists(st.tuples(Steps.ends, Steps.short), min_size=1, max_size=40), st.floats(0, 1, exclude_max=True))
def test_short_streams_are_never_hot(steps: list[tuple[KubeError | None, float]], chance: float) -> None:
    """Whatever short streams do, the wait after the n-th of them is at least half of the n-th delay."""
    position = WatchPosition()
    for number, (error, lived) in enumerate(steps, start=1):
        position = position.seen("1")
        position = position.closed(lived) if error is None else position.failed(error, lived)
        assert position.delay(chance) >= min(30.0, 0.8 * 2.0 ** (number - 1)) / 2
