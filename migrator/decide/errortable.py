"""The outcome of an error: retry, wait, read again, give up. One table each for writes, lists and ConversionReviews.

A table limits attempts, so that an object that always fails is given up and does not delay the others. An outage
differs: while the server answers no request at all, attempts show nothing about the object, and the limit is a time.
Therefore each kind of error is counted separately, and temporary errors count only if the server answered other
requests in between.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from restow.kube.errors import (
    CANNOT_CONVERT,
    TOO_LARGE,
    ApiError,
    BadReply,
    ConfigError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    TimedOut,
    TooDeep,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from restow.kube.retry import Backoff, requested_wait

ATTEMPTS = 8
"""Attempts of one request before its object is given up, with a back-off of about 40 seconds in total; ``Attempts``
defines what counts as one."""

FORBIDDEN_ATTEMPTS = 7
"""Attempts after a 403 of the authorizer: a restarted API server answers 403 until it has read its RBAC rules (seen one
to four times), and the run has checked before that the right exists."""

UNKNOWN_ATTEMPTS = 5
"""Attempts after a 404 that is not a ``v1.Status``: a router in between may return it for a moment, and so may an API
server that does not serve the version."""

INITIALIZING_ATTEMPTS = 5
"""Attempts after "storage is (re)initializing", which lasts as long as one object cannot be converted."""

UNDECODABLE_ATTEMPTS = 3
"""Attempts after an object that cannot be decoded: an API server that follows a change of the CRD decodes it soon."""

REVIEW_ATTEMPTS = 4
"""Attempts of a review that the webhook fails: one of its objects may be the cause, and other objects wait."""

_BACKOFF = Backoff(first=0.25, most=15.0)
_BACKOFF_OF_CONFLICTS = Backoff(first=0.0625, most=3.75)


class ErrorAction(StrEnum):
    """The next action.

    - ``gone``: the object no longer exists; nothing is left to do.
    - ``reread``: read the object again and decide again.
    - ``retry``: send the same request again after ``wait`` seconds.
    - ``continue``: continue the list at ``token``.
    - ``split``: send each half of the objects separately.
    - ``fail``: give up this object (or this list).
    - ``stop``: give up all objects.
    """

    GONE = "gone"
    REREAD = "reread"
    RETRY = "retry"
    CONTINUE = "continue"
    SPLIT = "split"
    FAIL = "fail"
    STOP = "stop"


class BrokenOff(Unreachable):
    """The connection was established, and broke before the answer was complete."""


@dataclass(frozen=True, slots=True)
class ErrorOutcome:
    """One row of the table.

    Attributes:
        action: the next action.
        wait: seconds to wait before it, at least the server's ``Retry-After``; jitter may only make it longer.
        slow_down: whether the server asked for less load.
        reason: a word for the report (``"Conflict"``, ``"Forbidden"``, …).
        message: a sentence for the report.
        token: the continue token to continue with.
        attempts: the total number of attempts.
    """

    action: ErrorAction
    wait: float = 0.0
    slow_down: bool = False
    reason: str = ""
    message: str = ""
    token: str = ""
    attempts: int = field(default=ATTEMPTS, compare=False)


def of_write_error(error: KubeError, *, plural: str, name: str, attempt: int) -> ErrorOutcome:
    """Return the outcome of an error on reading or writing one object.

    Args:
        error: the error of the request.
        plural, name: the object of the request.
        attempt: the number of this attempt of the object, from 1.
    """
    if isinstance(error, NotFound):
        if error.names(plural, name):
            return ErrorOutcome(ErrorAction.GONE)
        if not error.reason and attempt < UNKNOWN_ATTEMPTS:
            return ErrorOutcome(ErrorAction.RETRY, wait=_wait(error, attempt), attempts=UNKNOWN_ATTEMPTS)
        return _fail(error, "NotFound", _UNKNOWN_404.format(message=error.message))
    if isinstance(error, Conflict):
        if attempt < ATTEMPTS:
            # The first conflict needs no wait: another client was quicker once.
            failures = 0 if attempt == 1 else attempt
            return ErrorOutcome(ErrorAction.REREAD, wait=_wait(error, failures, _BACKOFF_OF_CONFLICTS))
        return _fail(error, "Conflict", f"other clients wrote it {attempt} times in a row; run again")
    if cannot_convert(error):
        if attempt == 1:  # another client may have written it since it was read, which would change the decision
            return ErrorOutcome(ErrorAction.REREAD)
        return _fail(error, "CannotConvert", _CANNOT_CONVERT_SAID.format(message=_said_briefly(error)))
    if isinstance(error, ServerError) and any(text in error.message for text in TOO_LARGE):
        return _fail(error, "TooLarge", _TOO_LARGE_SAID.format(message=error.message))
    return _transient(error, attempt) or _fail(error)


def of_list_error(error: KubeError, *, attempt: int) -> ErrorOutcome:
    """Return the outcome of an error on one page of a LIST."""
    if isinstance(error, Gone) and error.continue_token and attempt < ATTEMPTS:
        # The following objects are read in their present state, not in that of the list's start. It matters only
        # that none is missed, and objects created meanwhile are already stored at the storage version.
        return ErrorOutcome(ErrorAction.CONTINUE, token=error.continue_token)
    return _transient(error, attempt) or _fail(error)


def of_review_error(error: KubeError, *, attempt: int, objects: int, heard: bool) -> ErrorOutcome:
    """Return the outcome of an error on one ConversionReview.

    Args:
        error: the error of the request, not a webhook's answer that an object cannot be converted.
        attempt: the number of this attempt of the review, from 1.
        objects: the number of its objects.
        heard: whether the webhook has answered any review in this run.
    """
    if isinstance(error, ApiError) and error.status in (401, 403, 404):
        return ErrorOutcome(ErrorAction.STOP, message=_said(error))
    if is_outage(error):
        if attempt < ATTEMPTS:
            return ErrorOutcome(ErrorAction.RETRY, wait=_wait(error, attempt))
        return ErrorOutcome(ErrorAction.STOP, message=str(error))
    if isinstance(error, TimedOut) and not heard:
        return ErrorOutcome(ErrorAction.STOP if attempt > 1 else ErrorAction.RETRY, message=str(error))
    if isinstance(error, (BrokenOff, ServerError)) and attempt < REVIEW_ATTEMPTS:
        return ErrorOutcome(ErrorAction.RETRY, wait=_wait(error, attempt), attempts=REVIEW_ATTEMPTS)
    if objects > 1:
        return ErrorOutcome(ErrorAction.SPLIT, slow_down=isinstance(error, (TimedOut, TooLarge)))
    return ErrorOutcome(ErrorAction.FAIL, message=str(error))


def is_outage(error: KubeError) -> bool:
    """Return whether a converter is unreachable for all requests, so that no object can be the cause."""
    if isinstance(error, ApiError):
        return error.retry_after is not None or error.status in (429, 502, 503)
    return isinstance(error, Unreachable) and not isinstance(error, (BrokenOff, TimedOut))


def _transient(error: KubeError, attempt: int) -> ErrorOutcome | None:
    """Return a row for temporary errors, as long as attempts are left."""
    if isinstance(error, ApiError) and error.undecodable:
        if attempt >= UNDECODABLE_ATTEMPTS:
            return None
        return ErrorOutcome(ErrorAction.RETRY, wait=_wait(error, attempt), attempts=UNDECODABLE_ATTEMPTS)
    if isinstance(error, TooManyRequests) and error.initializing:
        if attempt < INITIALIZING_ATTEMPTS:
            return ErrorOutcome(ErrorAction.RETRY, wait=_wait(error, attempt), attempts=INITIALIZING_ATTEMPTS)
        return _fail(error, "StorageInitializing", _INITIALIZING)
    if isinstance(error, Forbidden) and error.by_authorizer and attempt < FORBIDDEN_ATTEMPTS:
        return ErrorOutcome(ErrorAction.RETRY, wait=_wait(error, attempt), attempts=FORBIDDEN_ATTEMPTS)
    if attempt >= ATTEMPTS or isinstance(error, TooDeep):
        return None
    if isinstance(error, TooManyRequests) or (isinstance(error, ApiError) and error.status in (503, 504)):
        return ErrorOutcome(ErrorAction.RETRY, wait=_wait(error, attempt), slow_down=True)
    if isinstance(error, (ServerError, Unreachable, BadReply, Unauthorized, ConfigError)):
        return ErrorOutcome(ErrorAction.RETRY, wait=_wait(error, attempt), slow_down=isinstance(error, Unreachable))
    return None


def cannot_convert(error: KubeError) -> bool:
    """Return whether an apply failed because an entry of managedFields cannot be converted; it will fail again."""
    return isinstance(error, ServerError) and any(text in error.message for text in CANNOT_CONVERT)


def _fail(error: KubeError, reason: str = "", message: str = "") -> ErrorOutcome:
    if isinstance(error, ApiError):
        return ErrorOutcome(
            ErrorAction.FAIL, reason=reason or error.reason or str(error.status), message=message or _said(error)
        )
    return ErrorOutcome(ErrorAction.FAIL, reason=reason or type(error).__name__, message=message or str(error))


def _said(error: ApiError) -> str:
    if isinstance(error, Unauthorized):
        return "the API server no longer accepts the credentials; renew them and run again"
    if isinstance(error, Invalid):
        return error.findings
    return error.message or f"the API server answered {error.status} without a message"


def _said_briefly(error: KubeError) -> str:
    """Return the known reason in the message; the whole message may contain other fields of the object."""
    return next((text for text in CANNOT_CONVERT if text in str(error)), "")


def _wait(error: KubeError, failures: int, backoff: Backoff = _BACKOFF) -> float:
    return backoff.delay(failures, 1.0, requested_wait(error))


_TOO_LARGE_SAID = (
    "etcd does not take an object of this size ({message}); nothing was stored, and its owners are as they were. Make "
    "the object smaller, then run again"
)

_CANNOT_CONVERT_SAID = (
    "the API server cannot convert one of its managedFields entries to the entry's version ({message}): run with "
    "--managed-fields translate and --scope not-storage, which moves the entries to the storage version"
)

_UNKNOWN_404 = (
    "the API server answered 404 without naming this object ({message}), so it cannot be taken as deleted; check that "
    "the storage version is served and that its namespace exists, then run again"
)

_INITIALIZING = (
    "the API server's watch cache for this resource cannot be filled (storage is (re)initializing): most often one "
    "stored object cannot be converted. Look at the conversion webhook and the API server's log, then run again"
)


_OF_EVERYBODY = ("failed calling webhook", "etcdserver: ", "no leader")


def concerns_all_objects(error: KubeError) -> bool:
    """Return whether an error is about the path to the storage, which every write uses, and not about one object."""
    if isinstance(error, ServerError):
        return error.status != 500 or any(text in error.message for text in _OF_EVERYBODY)
    return isinstance(error, TooManyRequests)


class Attempts:
    """The attempts of one object, or of one page.

    Args:
        patience_s: seconds to retry temporary errors while the server answers no request.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._counts: dict[type, int] = {}
        self._since = self._last = 0.0
        self._in_a_row = self._strikes = 0

    def failed(self, error: KubeError, now: float, answered: float) -> int:
        """Count a failure; return its number in the table of its kind, from 1.

        Args:
            error: the error of the request.
            now: the time, by the monotonic clock.
            answered: the time of the last answer to another request.
        """
        if not is_transient(error):
            kind = next((each for each in (Conflict, Forbidden) if isinstance(error, each)), type(error))
            self._counts[kind] = self._counts.get(kind, 0) + 1
            return self._counts[kind]
        if not self._in_a_row or answered > self._last:
            self._strikes += 1
            self._since = now
        self._in_a_row += 1
        self._last = now
        over = self._strikes >= ATTEMPTS or now - self._since >= self._patience_s
        return self._in_a_row if over else min(self._in_a_row, ATTEMPTS - 1)


def is_transient(error: KubeError) -> bool:
    """Return whether an error during a run may be temporary, given that the credentials were valid at its start."""
    if isinstance(error, TooManyRequests) and error.initializing:
        return False
    return error.may_pass or isinstance(error, (Unauthorized, ConfigError))
