"""What each error means, as tables: for writes (and reads of one object), and for lists."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from restow.kube.errors import ApiError, BadReply, ConfigError, Forbidden, KubeError, TimedOut, Unreachable, api_error
from restow.migrator.decide.errortable import (
    ATTEMPTS,
    FORBIDDEN_ATTEMPTS,
    INITIALIZING_ATTEMPTS,
    UNDECODABLE_ATTEMPTS,
    UNKNOWN_ATTEMPTS,
    ErrorAction,
    ErrorOutcome,
    is_transient,
    of_list_error,
    of_write_error,
)


def answered(
    status: int,
    message: str = "no",
    *,
    reason: str = "",
    kind: str = "",
    name: str = "",
    token: str = "",
    retry_after: str = "",
    text: str | None = None,
) -> ApiError:
    """The error of an answer as the API server gives it, a ``v1.Status`` unless it is plain text."""
    said: dict[str, Any] = {"kind": "Status", "metadata": {}, "message": message, "reason": reason}
    if token:
        said["metadata"] = {"continue": token}
    if kind:
        said["details"] = {"name": name, "kind": kind}
    return api_error(
        status=status,
        body=(json.dumps(said) if text is None else text).encode(),
        headers={"Retry-After": retry_after} if retry_after else {},
        verb="patch",
        target="widgets.example.com a/b",
    )


def of_write(error: KubeError, attempt: int = 1) -> ErrorOutcome:
    """The outcome of a request about widget b."""
    return of_write_error(error, plural="widgets", name="b", attempt=attempt)


GONE = answered(404, 'widgets.example.com "b" not found', reason="NotFound", kind="widgets", name="b")
NO_NAMESPACE = answered(404, 'namespaces "a" not found', reason="NotFound", kind="namespaces", name="a")
OTHER_OBJECT = answered(404, 'widgets.example.com "c" not found', reason="NotFound", kind="widgets", name="c")
SAME_NAME_OTHER_KIND = answered(404, 'namespaces "b" not found', reason="NotFound", kind="namespaces", name="b")
NOT_SERVED = answered(404, text="404 page not found\n")
CONFLICT = answered(409, "the object has been modified", reason="Conflict", kind="widgets", name="b")
EXISTS = answered(409, "already exists", reason="AlreadyExists", kind="widgets", name="b")
CONFLICT_FOR_3S = answered(409, "try again", reason="Conflict", kind="widgets", name="b", retry_after="3")
NOT_SERVED_FOR_3S = answered(404, text="404 page not found\n", retry_after="3")
EXPIRED = answered(410, "The provided continue parameter is too old", reason="Expired")
EXPIRED_WITH_TOKEN = answered(410, "The provided continue parameter is too old", reason="Expired", token="go-on")
BUSY = answered(429, "too many requests", reason="TooManyRequests")
BUSY_FOR_7S = answered(429, "too many requests", reason="TooManyRequests", retry_after="7")
BUSY_AT_ONCE = answered(429, "too many requests", reason="TooManyRequests", retry_after="0")
BUSY_FOR_A_DAY = answered(429, "too many requests", reason="TooManyRequests", retry_after="86400")
INITIALIZING = answered(429, "storage is (re)initializing", reason="TooManyRequests", retry_after="1")
INITIALIZING_SILENT = answered(429, "storage is (re)initializing", reason="TooManyRequests")
INITIALIZING_FOR_A_DAY = answered(429, "storage is (re)initializing", retry_after="86400")
BROKEN = answered(500, "conversion webhook failed", reason="InternalError")
LEFT = answered(500, "request to convert CR from an invalid group/version: example.com/v0", reason="InternalError")
INITIALIZING_LEFT = answered(429, f"storage is (re)initializing: {LEFT.message}", reason="TooManyRequests")
CANNOT_CONVERT = answered(500, "request to convert CR to an invalid group/version: example.com/v0")
NOT_DECLARED = answered(500, ".spec.size: field not declared in schema", reason="InternalError")
TOO_LARGE_FOR_ETCD = answered(500, "etcdserver: request is too large")
BROKEN_FOR_3S = answered(500, "etcdserver: no leader", retry_after="3")
BAD_GATEWAY = answered(502, text="bad gateway")
UNAVAILABLE = answered(503, "apiserver not ready", reason="ServiceUnavailable")
UNAVAILABLE_FOR_3S = answered(503, "shutting down", retry_after="3")
TIMEOUT = answered(504, "request timed out", reason="Timeout")
MALFORMED = answered(400, "the body is malformed", reason="BadRequest")
UNAUTHORIZED = answered(401, "Unauthorized", reason="Unauthorized")
NO_RIGHT = answered(
    403,
    'widgets.example.com "b" is forbidden: User "alice" cannot patch resource "widgets" in API group "example.com" in '
    'the namespace "a"',
    reason="Forbidden",
    kind="widgets",
    name="b",
)
NO_RIGHT_FOR_3S = answered(403, NO_RIGHT.message, reason="Forbidden", kind="widgets", name="b", retry_after="3")
DENIED = answered(403, 'admission webhook "policy" denied the request: not now', reason="Forbidden")
DENIED_BY_NAME = answered(
    403,
    'widgets.example.com "b" is forbidden: ValidatingAdmissionPolicy "policy" denied request: User "alice" cannot '
    "change widgets",
    reason="Forbidden",
    kind="widgets",
    name="b",
)
TOO_LARGE = answered(413, "request is too large", reason="RequestEntityTooLarge")
INVALID = answered(422, "spec.size: Invalid value", reason="Invalid", kind="widgets", name="b")
REFUSED = Unreachable("connection refused")
SLOW = TimedOut("no answer within 30 s")
TRUNCATED = BadReply("the body cannot be read")
NO_CONFIG = ConfigError("no kubeconfig")

ERRORS: dict[str, KubeError] = {name: e for name, e in list(globals().items()) if isinstance(e, KubeError)}
TRIES = range(1, 2 * ATTEMPTS)


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("GONE", ErrorOutcome(ErrorAction.GONE)),
        ("CONFLICT", ErrorOutcome(ErrorAction.REREAD)),
        ("CONFLICT_FOR_3S", ErrorOutcome(ErrorAction.REREAD, wait=3.0)),
        ("EXISTS", ErrorOutcome(ErrorAction.REREAD)),
        ("BUSY", ErrorOutcome(ErrorAction.RETRY, wait=0.25, slow_down=True)),
        ("BUSY_FOR_7S", ErrorOutcome(ErrorAction.RETRY, wait=7.0, slow_down=True)),
        ("BUSY_AT_ONCE", ErrorOutcome(ErrorAction.RETRY, wait=0.25, slow_down=True)),
        ("BUSY_FOR_A_DAY", ErrorOutcome(ErrorAction.RETRY, wait=60.0, slow_down=True)),
        ("INITIALIZING", ErrorOutcome(ErrorAction.RETRY, wait=1.0)),
        ("INITIALIZING_SILENT", ErrorOutcome(ErrorAction.RETRY, wait=0.25)),
        ("INITIALIZING_FOR_A_DAY", ErrorOutcome(ErrorAction.RETRY, wait=60.0)),
        ("LEFT", ErrorOutcome(ErrorAction.RETRY, wait=0.25)),
        ("INITIALIZING_LEFT", ErrorOutcome(ErrorAction.RETRY, wait=0.25)),
        ("BROKEN", ErrorOutcome(ErrorAction.RETRY, wait=0.25)),
        ("BROKEN_FOR_3S", ErrorOutcome(ErrorAction.RETRY, wait=3.0)),
        ("BAD_GATEWAY", ErrorOutcome(ErrorAction.RETRY, wait=0.25)),
        ("UNAVAILABLE", ErrorOutcome(ErrorAction.RETRY, wait=0.25, slow_down=True)),
        ("UNAVAILABLE_FOR_3S", ErrorOutcome(ErrorAction.RETRY, wait=3.0, slow_down=True)),
        ("TIMEOUT", ErrorOutcome(ErrorAction.RETRY, wait=0.25, slow_down=True)),
        ("REFUSED", ErrorOutcome(ErrorAction.RETRY, wait=0.25, slow_down=True)),
        ("SLOW", ErrorOutcome(ErrorAction.RETRY, wait=0.25, slow_down=True)),
        ("TRUNCATED", ErrorOutcome(ErrorAction.RETRY, wait=0.25)),
        ("NO_RIGHT", ErrorOutcome(ErrorAction.RETRY, wait=0.25)),
        ("NO_RIGHT_FOR_3S", ErrorOutcome(ErrorAction.RETRY, wait=3.0)),
        ("UNAUTHORIZED", ErrorOutcome(ErrorAction.RETRY, wait=0.25)),
        ("NO_CONFIG", ErrorOutcome(ErrorAction.RETRY, wait=0.25)),
        ("CANNOT_CONVERT", ErrorOutcome(ErrorAction.REREAD)),
        ("NOT_DECLARED", ErrorOutcome(ErrorAction.REREAD)),
        ("NOT_SERVED", ErrorOutcome(ErrorAction.RETRY, wait=0.25)),
        ("NOT_SERVED_FOR_3S", ErrorOutcome(ErrorAction.RETRY, wait=3.0)),
    ],
)
def test_a_first_write_that_may_yet_succeed(name: str, outcome: ErrorOutcome) -> None:
    """Each error that passes gets the answer that it asks for: a wait, less load, a fresh read, or nothing more."""
    assert of_write(ERRORS[name]) == outcome


@pytest.mark.parametrize(
    ("name", "reason", "says"),
    [
        ("NO_NAMESPACE", "NotFound", 'namespaces "a" not found'),
        ("SAME_NAME_OTHER_KIND", "NotFound", 'namespaces "b" not found'),
        ("OTHER_OBJECT", "NotFound", "without naming this object"),
        ("EXPIRED", "Expired", "too old"),
        ("EXPIRED_WITH_TOKEN", "Expired", "too old"),
        ("MALFORMED", "BadRequest", "malformed"),
        ("DENIED", "Forbidden", "not now"),
        ("DENIED_BY_NAME", "Forbidden", "cannot change widgets"),
        ("TOO_LARGE", "RequestEntityTooLarge", "too large"),
        ("TOO_LARGE_FOR_ETCD", "TooLarge", "Make the object smaller"),
        ("INVALID", "Invalid", "it is invalid"),
    ],
)
def test_a_write_that_never_succeeds_fails_at_once(name: str, reason: str, says: str) -> None:
    """No tries are wasted on what stays as it is, the report says why, and no stray 404 passes for "deleted"."""
    outcome = of_write(ERRORS[name])
    assert (outcome.action, outcome.reason) == (ErrorAction.FAIL, reason)
    assert says in outcome.message


def test_every_error_has_a_row() -> None:
    """An error that no table here speaks of could mean anything for an object."""
    rows = {
        mark.args[1][i][0]
        for test in (test_a_first_write_that_may_yet_succeed, test_a_write_that_never_succeeds_fails_at_once)
        for mark in test.pytestmark
        for i in range(len(mark.args[1]))
    }
    assert rows == set(ERRORS)


@pytest.mark.parametrize(("attempt", "wait"), [(1, 0.0), (2, 0.125), (3, 0.25), (4, 0.5), (ATTEMPTS - 1, 3.75)])
def test_conflicts_are_read_again_with_growing_waits(attempt: int, wait: float) -> None:
    """The first conflict is no reason to wait; a busy object must not be hammered at either."""
    assert of_write(CONFLICT, attempt) == ErrorOutcome(ErrorAction.REREAD, wait=wait)


def test_an_object_that_others_keep_writing_is_given_up() -> None:
    """A fight over one object must end, in a sentence that says so."""
    outcome = of_write(CONFLICT, ATTEMPTS)
    assert (outcome.action, outcome.reason) == (ErrorAction.FAIL, "Conflict")
    assert f"{ATTEMPTS} times" in outcome.message


def test_a_name_that_is_taken_again_and_again_is_a_conflict() -> None:
    """The reason of the last answer would name a cause that the other tries did not have."""
    assert of_write(EXISTS, ATTEMPTS).reason == "Conflict"


@pytest.mark.parametrize(
    ("name", "tries"),
    [
        ("NOT_SERVED", UNKNOWN_ATTEMPTS),
        ("INITIALIZING", INITIALIZING_ATTEMPTS),
        ("LEFT", UNDECODABLE_ATTEMPTS),
        ("NO_RIGHT", FORBIDDEN_ATTEMPTS),
        ("BUSY", ATTEMPTS),
        ("REFUSED", ATTEMPTS),
    ],
)
def test_a_wait_says_how_many_tries_there_are(name: str, tries: int) -> None:
    """The log's "try 2 of 5" would promise tries that are never made."""
    assert of_write(ERRORS[name]).attempts == tries


@pytest.mark.parametrize(
    ("name", "reason", "message"),
    [
        ("REFUSED", "Unreachable", "connection refused"),
        ("SLOW", "TimedOut", "no answer within 30 s"),
        (
            "UNAUTHORIZED",
            "Unauthorized",
            "the API server no longer accepts the credentials; renew them and run again",
        ),
        (
            "TOO_LARGE_FOR_ETCD",
            "TooLarge",
            "etcd does not take an object of this size (etcdserver: request is too large)",
        ),
    ],
)
def test_a_failure_names_its_cause(name: str, reason: str, message: str) -> None:
    """A row of the report that says neither what failed nor why cannot be acted on."""
    outcome = of_write(ERRORS[name], ATTEMPTS)
    assert outcome.reason == reason and outcome.message.startswith(message)


@pytest.mark.parametrize("error", [LEFT, INITIALIZING_LEFT], ids=["list", "watch cache"])
def test_what_cannot_be_decoded_is_not_waited_for(error: ApiError) -> None:
    """A run of a Job would wait for minutes, and the Job for hours, for a version that does not come back by itself."""
    assert of_list_error(error, attempt=UNDECODABLE_ATTEMPTS - 1).action is ErrorAction.RETRY
    outcome = of_list_error(error, attempt=UNDECODABLE_ATTEMPTS)
    assert (outcome.action, outcome.message) == (ErrorAction.FAIL, error.message)
    assert not is_transient(error)


@pytest.mark.parametrize("of_error", [of_write, of_list_error], ids=["write", "list"])
def test_storage_that_stays_uninitialized_is_explained(of_error: Any) -> None:
    """It lasts for as long as one object cannot be converted: the user must hear of the webhook, not of load."""
    assert of_error(INITIALIZING, attempt=INITIALIZING_ATTEMPTS - 1).action is ErrorAction.RETRY
    outcome = of_error(INITIALIZING, attempt=INITIALIZING_ATTEMPTS)
    assert (outcome.action, outcome.reason) == (ErrorAction.FAIL, "StorageInitializing")
    assert "conversion webhook" in outcome.message
    assert not outcome.slow_down


@pytest.mark.parametrize(
    ("name", "tries", "reason", "says"),
    [
        ("CANNOT_CONVERT", 2, "CannotConvert", "invalid group/version"),
        ("NOT_DECLARED", 2, "CannotConvert", "--managed-fields translate"),
        ("NOT_SERVED", UNKNOWN_ATTEMPTS, "NotFound", "404 page not found"),
    ],
)
def test_what_may_be_otherwise_a_moment_later_is_tried_again(name: str, tries: int, reason: str, says: str) -> None:
    """Another client wrote the object, or a router said 404: a run that ends for that has to be run again by hand."""
    for attempt in range(1, tries):
        assert of_write(ERRORS[name], attempt).action in (ErrorAction.RETRY, ErrorAction.REREAD)
    outcome = of_write(ERRORS[name], tries)
    assert (outcome.action, outcome.reason) == (ErrorAction.FAIL, reason) and says in outcome.message


@pytest.mark.parametrize("of_error", [of_write, of_list_error], ids=["write", "list"])
def test_a_right_that_stays_missing_is_reported(of_error: Any) -> None:
    """An API server that just started denies what it allows a moment later; after that, the user must hear of it."""
    assert of_error(NO_RIGHT, attempt=FORBIDDEN_ATTEMPTS - 1).action is ErrorAction.RETRY
    outcome = of_error(NO_RIGHT, attempt=FORBIDDEN_ATTEMPTS)
    assert (outcome.action, outcome.reason) == (ErrorAction.FAIL, "Forbidden")
    assert 'User "alice" cannot patch' in outcome.message


def test_only_the_authorizers_refusal_concerns_every_object() -> None:
    """The run ends where a right is missing; taking a policy's refusal of one object for that would stop the others."""
    denied = {name: error.by_authorizer for name, error in ERRORS.items() if isinstance(error, Forbidden)}
    assert denied == {"NO_RIGHT": True, "NO_RIGHT_FOR_3S": True, "DENIED": False, "DENIED_BY_NAME": False}


@pytest.mark.parametrize("name", ERRORS)
def test_tries_are_bounded(name: str) -> None:
    """Whatever a server answers for ever, a run must come to its end."""
    for attempt in (ATTEMPTS, ATTEMPTS + 1, 1000):
        assert of_write(ERRORS[name], attempt).action in (ErrorAction.FAIL, ErrorAction.GONE)
        assert of_list_error(ERRORS[name], attempt=attempt).action is ErrorAction.FAIL


@pytest.mark.parametrize("name", ERRORS)
def test_waits_are_bounded_and_never_shrink(name: str) -> None:
    """A server's wish (or a misread one) must not hold a run for hours, nor may tries come faster and faster."""
    for of_error in (of_write, of_list_error):
        outcomes = [of_error(ERRORS[name], attempt=attempt) for attempt in TRIES]
        waits = [outcome.wait for outcome in outcomes if outcome.action in (ErrorAction.RETRY, ErrorAction.REREAD)]
        assert all(0.0 <= wait <= 60.0 for wait in waits)
        assert all(one <= other for one, other in itertools.pairwise(waits))


@pytest.mark.parametrize("name", ["BUSY", "BROKEN", "REFUSED", "TRUNCATED", "CONFLICT"])
def test_waits_grow_where_the_server_names_none(name: str) -> None:
    """A server in trouble is given ever more time, or the tries are all spent within a second."""
    waits = [of_write(ERRORS[name], attempt).wait for attempt in range(1, ATTEMPTS)]
    assert all(one < other for one, other in itertools.pairwise(waits))


@pytest.mark.parametrize(
    "name", ["BUSY_AT_ONCE", "BUSY_FOR_7S", "UNAVAILABLE_FOR_3S", "BROKEN_FOR_3S", "NO_RIGHT_FOR_3S"]
)
@pytest.mark.parametrize("of_error", [of_write, of_list_error], ids=["write", "list"])
def test_a_servers_wish_is_the_least_wait_of_every_row(of_error: Any, name: str) -> None:
    """A row that takes the wish alone hammers a server that always says 0; one without it comes too soon."""
    error = ERRORS[name]
    assert isinstance(error, ApiError) and error.retry_after is not None
    for attempt in range(1, FORBIDDEN_ATTEMPTS):
        backoff = of_error(REFUSED, attempt=attempt).wait
        assert of_error(error, attempt=attempt).wait == max(backoff, error.retry_after)


def test_a_list_goes_on_with_the_inconsistent_token() -> None:
    """A list that takes longer than etcd keeps its revision must be finished, not started over for ever."""
    assert of_list_error(EXPIRED_WITH_TOKEN, attempt=1) == ErrorOutcome(ErrorAction.CONTINUE, token="go-on")


@pytest.mark.parametrize(
    ("name", "action"),
    [
        ("EXPIRED", ErrorAction.FAIL),
        ("NOT_SERVED", ErrorAction.FAIL),
        ("GONE", ErrorAction.FAIL),
        ("DENIED", ErrorAction.FAIL),
        ("NO_RIGHT", ErrorAction.RETRY),
        ("UNAUTHORIZED", ErrorAction.RETRY),
        ("MALFORMED", ErrorAction.FAIL),
        ("CONFLICT", ErrorAction.FAIL),
        ("BUSY_FOR_7S", ErrorAction.RETRY),
        ("INITIALIZING", ErrorAction.RETRY),
        ("BROKEN", ErrorAction.RETRY),
        ("UNAVAILABLE", ErrorAction.RETRY),
        ("TIMEOUT", ErrorAction.RETRY),
        ("REFUSED", ErrorAction.RETRY),
        ("SLOW", ErrorAction.RETRY),
        ("TRUNCATED", ErrorAction.RETRY),
    ],
)
def test_what_an_error_means_for_a_list(name: str, action: ErrorAction) -> None:
    """A list that fails for good ends the pass; one that is cut off must be read again, never taken for complete."""
    assert of_list_error(ERRORS[name], attempt=1).action is action


@pytest.mark.parametrize("name", ERRORS)
def test_every_failure_says_something(name: str) -> None:
    """A row of the report without a reason or a sentence helps nobody."""
    for outcome in (of_write(ERRORS[name], ATTEMPTS), of_list_error(ERRORS[name], attempt=ATTEMPTS)):
        if outcome.action is ErrorAction.FAIL:
            assert outcome.reason
            assert outcome.message


@pytest.mark.parametrize(("status", "text"), [(500, ""), (418, ""), (403, "")])
def test_an_answer_without_words_is_reported_by_its_status(status: int, text: str) -> None:
    """A proxy that answers with an empty body must not leave an empty row."""
    outcome = of_write(answered(status, text=text), ATTEMPTS)
    assert (outcome.action, outcome.reason) == (ErrorAction.FAIL, str(status))
    assert str(status) in outcome.message
