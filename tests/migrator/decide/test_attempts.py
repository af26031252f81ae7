"""Which failure counts as which try, and which errors concern every object. Times are seconds of one clock."""

from __future__ import annotations

import pytest

from restow.kube.errors import (
    BadReply,
    ConfigError,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    TimedOut,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    api_error,
)
from restow.migrator.decide.errortable import (
    ATTEMPTS,
    Attempts,
    BrokenOff,
    concerns_all_objects,
    is_outage,
    is_transient,
)


def answer(status: int, message: str = "no", retry_after: float | None = None) -> KubeError:
    """The error of an answer."""
    error = api_error(status=status, body=message.encode(), headers={}, verb="patch", target="it")
    error.retry_after = retry_after
    return error


CONFLICT, NO_RIGHT, INVALID, MISSING = answer(409), answer(403), answer(422), answer(404)
BUSY, BROKEN, REFUSED = answer(429), answer(500), Unreachable("connection refused")
INITIALIZING = answer(429, "storage is (re)initializing")


def test_each_kind_of_error_counts_by_itself() -> None:
    """A busy object that meets one 403 would be given up after the tries of the 403, or the other way round."""
    attempts = Attempts(patience_s=60.0)
    seen = [attempts.failed(error, 0.0, 0.0) for error in (CONFLICT, NO_RIGHT, CONFLICT, INVALID, MISSING, CONFLICT)]
    assert seen == [1, 1, 2, 1, 1, 3]
    assert [attempts.failed(error, 0.0, 0.0) for error in (NO_RIGHT, INITIALIZING, INITIALIZING)] == [2, 1, 2]


def test_an_outage_counts_no_tries_until_patience_ends() -> None:
    """An object would be given up after some seconds of an outage that says nothing about it."""
    attempts = Attempts(patience_s=60.0)
    assert [attempts.failed(REFUSED, now, answered=0.0) for now in range(1, 21)] == [*range(1, 8), *[ATTEMPTS - 1] * 13]
    assert attempts.failed(REFUSED, 60.9, answered=0.0) == ATTEMPTS - 1
    assert attempts.failed(REFUSED, 61.0, answered=0.0) == 22


def test_a_failure_counts_where_the_server_answered_others_in_between() -> None:
    """An object that alone fails for ever would hold its run up for as long as the server is waited for."""
    attempts = Attempts(patience_s=3600.0)
    tries = [attempts.failed(BROKEN, float(now), answered=now - 0.5) for now in range(1, 11)]
    assert tries == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]


def test_only_failures_after_an_answer_count_as_the_objects_own() -> None:
    """In an outage with an answer now and then, an object would be given up after half of its tries."""
    attempts = Attempts(patience_s=3600.0)
    tries = [attempts.failed(BROKEN, float(now), answered=now // 3 * 3 - 0.5) for now in range(24)]
    assert tries == [1, 2, 3, 4, 5, 6, *[7] * 15, 22, 23, 24]


def test_an_answer_in_between_begins_the_patience_again() -> None:
    """Two short outages a minute apart would count as one that lasted for that minute."""
    attempts = Attempts(patience_s=60.0)
    for _ in range(ATTEMPTS):
        attempts.failed(REFUSED, 1.0, answered=0.0)
    assert attempts.failed(REFUSED, 70.0, answered=69.0) == ATTEMPTS - 1
    assert attempts.failed(REFUSED, 129.0, answered=69.0) == ATTEMPTS - 1
    assert attempts.failed(REFUSED, 130.0, answered=69.0) > ATTEMPTS - 1


def test_the_answer_of_the_moment_of_a_failure_is_none_in_between() -> None:
    """The failure that an outage began with would count as a second one of the object's own."""
    attempts = Attempts(patience_s=3600.0)
    tries = [attempts.failed(REFUSED, 5.0, answered=5.0) for _ in range(3 * ATTEMPTS)]
    assert max(tries) == ATTEMPTS - 1


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (BUSY, True),
        (BROKEN, True),
        (REFUSED, True),
        (TimedOut("late"), True),
        (BadReply("cut off"), True),
        (answer(401), True),
        (ConfigError("no token"), True),
        (INITIALIZING, False),
        (CONFLICT, False),
        (NO_RIGHT, False),
        (INVALID, False),
        (MISSING, False),
    ],
    ids=repr,
)
def test_what_may_pass(error: KubeError, transient: bool) -> None:
    """An error that lasts would be waited for until patience ends; one that passes would fail its object at once."""
    assert is_transient(error) is transient


@pytest.mark.parametrize(
    ("error", "outage"),
    [
        (REFUSED, True),
        (BrokenOff("half an answer"), False),
        (TimedOut("late"), False),
        (BUSY, True),
        (answer(502), True),
        (answer(503), True),
        (answer(500), False),
        (answer(504), False),
        (answer(500, retry_after=1.0), True),
        (answer(400), False),
        (BadReply("no JSON"), False),
    ],
    ids=repr,
)
def test_what_is_out_of_reach_for_everybody(error: KubeError, outage: bool) -> None:
    """A webhook would be searched for a bad object while it is down, or given up for one object that breaks it."""
    assert is_outage(error) is outage


@pytest.mark.parametrize(
    ("error", "all_objects"),
    [
        (BUSY, True),
        (answer(502), True),
        (answer(503), True),
        (answer(500), False),
        (answer(500, 'failed calling webhook "x": connection refused'), True),
        (answer(500, "etcdserver: leader changed"), True),
        (answer(500, "no leader"), True),
        (answer(500, "conversion webhook for example.com/v1 failed"), False),
        (CONFLICT, False),
        (REFUSED, False),
    ],
    ids=repr,
)
def test_what_concerns_every_write(error: KubeError, all_objects: bool) -> None:
    """Reads that go on would make an outage of etcd the fault of the objects that are written meanwhile."""
    assert concerns_all_objects(error) is all_objects


def test_the_errors_are_of_the_kinds_that_they_stand_for() -> None:
    """A table of errors that all were of one kind would show nothing."""
    kinds = {CONFLICT: Conflict, NO_RIGHT: Forbidden, INVALID: Invalid, MISSING: NotFound, BUSY: TooManyRequests}
    assert all(type(error) is kind for error, kind in kinds.items())
    assert type(BROKEN) is ServerError and type(answer(401)) is Unauthorized
