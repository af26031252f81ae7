"""What an error means for the work at hand: one table for writes, one for lists, one for ConversionReviews.

The distinctions are the ones existing tools miss (each was seen on a real API server): a 404 is "gone" only if
it names the very object; a 409 says that somebody wrote, not that the write re-encoded; a 500 is retried, but not one
that will be the same for ever; a refusal concerns one object and must not stop the others.
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

__all__ = [
    "ATTEMPTS",
    "UNKNOWN_ATTEMPTS",
    "Action",
    "BrokenOff",
    "Outcome",
    "cannot_convert",
    "is_outage",
    "of_list_error",
    "of_review_error",
    "of_write_error",
]

ATTEMPTS = 8
"""Tries of one request before its object is given up, with the back-off below half a minute; ``tries`` says what
counts as one."""

FORBIDDEN_ATTEMPTS = 7
"""Tries against a 403 of the authorizer: an API server that was just restarted answers so until it has read its RBAC
rules (seen one to four times), and that the right exists was asked before the run."""

UNKNOWN_ATTEMPTS = 5
"""Tries against a 404 that is no ``v1.Status``: a router between may say it for a moment, as well as an API server that
does not serve the version."""

INITIALIZING_ATTEMPTS = 5
"""Tries against "storage is (re)initializing", which lasts for as long as one object cannot be converted."""

REVIEW_ATTEMPTS = 4
"""Tries of a review that the webhook fails at: one of its objects may be why, and others wait for their answer."""

_FIRST_WAIT = 0.25
_LONGEST_WAIT = 15.0
_LONGEST_ASKED_FOR = 60.0  # of what a server asks for by Retry-After


class Action(StrEnum):
    """What to do next.

    - ``gone``: the object does not exist any more; done with it.
    - ``reread``: read the object again and decide anew.
    - ``retry``: send the same request again after ``wait`` seconds.
    - ``continue``: go on with the list at ``token``.
    - ``split``: send each half of the objects by itself.
    - ``fail``: give this object (or this list) up.
    - ``stop``: give all objects up.
    """

    GONE = "gone"
    REREAD = "reread"
    RETRY = "retry"
    CONTINUE = "continue"
    SPLIT = "split"
    FAIL = "fail"
    STOP = "stop"


class BrokenOff(Unreachable):
    """The connection was made, and broke before the answer was complete."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One row of the table.

    Attributes:
        action: what to do.
        wait: seconds to wait before it, jitter not included.
        slow_down: the server asked for less load.
        reason: a word for the report (``"Conflict"``, ``"Forbidden"``, …).
        message: a sentence for the report.
        token: the continue token to go on with.
        attempts: how many tries there are in all.
    """

    action: Action
    wait: float = 0.0
    slow_down: bool = False
    reason: str = ""
    message: str = ""
    token: str = ""
    attempts: int = field(default=ATTEMPTS, compare=False)


def of_write_error(error: KubeError, *, plural: str, name: str, attempt: int) -> Outcome:
    """Return what an error on reading or writing one object means.

    Args:
        error: what the request raised.
        plural, name: of the object that the request was for.
        attempt: which try of this object this was, from 1.
    """
    if isinstance(error, NotFound):
        if error.names(plural, name):
            return Outcome(Action.GONE)
        if not error.reason and attempt < UNKNOWN_ATTEMPTS:
            return Outcome(Action.RETRY, wait=_backoff(attempt), attempts=UNKNOWN_ATTEMPTS)
        return _fail(error, "NotFound", _UNKNOWN_404.format(message=error.message))
    if isinstance(error, Conflict):
        if attempt < ATTEMPTS:
            return Outcome(Action.REREAD, wait=0.0 if attempt == 1 else _backoff(attempt) / 4)
        return _fail(error, "Conflict", f"other clients wrote it {attempt} times in a row; run again")
    if cannot_convert(error):
        if attempt == 1:  # perhaps another client wrote it since it was read: then there is another decision
            return Outcome(Action.REREAD)
        return _fail(error, "CannotConvert", _CANNOT_CONVERT_SAID.format(message=_said_briefly(error)))
    if isinstance(error, ServerError) and any(text in error.message for text in TOO_LARGE):
        return _fail(error, "TooLarge", _TOO_LARGE_SAID.format(message=error.message))
    return _transient(error, attempt) or _fail(error)


def of_list_error(error: KubeError, *, attempt: int) -> Outcome:
    """Return what an error on one page of a LIST means."""
    if isinstance(error, Gone) and error.continue_token and attempt < ATTEMPTS:
        # The objects from here on are read as they are now, not as they were: all that matters is that none is
        # missed, and those created meanwhile are stored at the storage version already.
        return Outcome(Action.CONTINUE, token=error.continue_token)
    return _transient(error, attempt) or _fail(error)


def of_review_error(error: KubeError, *, attempt: int, objects: int, heard: bool) -> Outcome:
    """Return what an error on one ConversionReview means.

    Args:
        error: what sending it raised; not that the webhook says that an object cannot be converted.
        attempt: which try of this review this was, from 1.
        objects: how many it holds.
        heard: whether the webhook has answered anything in this run.
    """
    if isinstance(error, ApiError) and error.status in (401, 403, 404):
        return Outcome(Action.STOP, message=_said(error))
    waits = error.retry_after if isinstance(error, ApiError) else None
    if is_outage(error):
        if attempt < ATTEMPTS:
            return Outcome(Action.RETRY, wait=_backoff(attempt) if waits is None else min(waits, _LONGEST_ASKED_FOR))
        return Outcome(Action.STOP, message=str(error))
    if isinstance(error, TimedOut) and not heard:
        return Outcome(Action.STOP if attempt > 1 else Action.RETRY, message=str(error))
    if isinstance(error, (BrokenOff, ServerError)) and attempt < REVIEW_ATTEMPTS:
        return Outcome(Action.RETRY, wait=_backoff(attempt), attempts=REVIEW_ATTEMPTS)
    if objects > 1:
        return Outcome(Action.SPLIT, slow_down=isinstance(error, (TimedOut, TooLarge)))
    return Outcome(Action.FAIL, message=str(error))


def is_outage(error: KubeError) -> bool:
    """Whether a converter is out of reach for everybody, so that no object can be to blame."""
    if isinstance(error, ApiError):
        return error.retry_after is not None or error.status in (429, 502, 503)
    return isinstance(error, Unreachable) and not isinstance(error, (BrokenOff, TimedOut))


def _transient(error: KubeError, attempt: int) -> Outcome | None:
    """A row for errors that pass by themselves, as long as there are tries left."""
    if isinstance(error, TooManyRequests) and error.initializing:
        if attempt < INITIALIZING_ATTEMPTS:
            wait = min(max(error.retry_after or 0.0, _backoff(attempt)), _LONGEST_ASKED_FOR)
            return Outcome(Action.RETRY, wait=wait, attempts=INITIALIZING_ATTEMPTS)
        return _fail(error, "StorageInitializing", _INITIALIZING)
    if isinstance(error, Forbidden) and error.by_authorizer and attempt < FORBIDDEN_ATTEMPTS:
        return Outcome(Action.RETRY, wait=_backoff(attempt), attempts=FORBIDDEN_ATTEMPTS)
    if attempt >= ATTEMPTS or isinstance(error, TooDeep):
        return None
    if isinstance(error, TooManyRequests) or (isinstance(error, ApiError) and error.status in (503, 504)):
        wait = _backoff(attempt) if error.retry_after is None else min(error.retry_after, _LONGEST_ASKED_FOR)
        return Outcome(Action.RETRY, wait=wait, slow_down=True)
    if isinstance(error, (ServerError, Unreachable, BadReply, Unauthorized, ConfigError)):
        return Outcome(Action.RETRY, wait=_backoff(attempt), slow_down=isinstance(error, Unreachable))
    return None


def cannot_convert(error: KubeError) -> bool:
    """Whether a server-side apply failed since an entry of managedFields cannot be converted; it will fail again."""
    return isinstance(error, ServerError) and any(text in error.message for text in CANNOT_CONVERT)


def _fail(error: KubeError, reason: str = "", message: str = "") -> Outcome:
    if isinstance(error, ApiError):
        return Outcome(Action.FAIL, reason=reason or error.reason or str(error.status), message=message or _said(error))
    return Outcome(Action.FAIL, reason=reason or type(error).__name__, message=message or str(error))


def _said(error: ApiError) -> str:
    if isinstance(error, Unauthorized):
        return "the API server no longer accepts the credentials; renew them and run again"
    if isinstance(error, Invalid):
        return error.findings
    return error.message or f"the API server answered {error.status} without a message"


def _said_briefly(error: KubeError) -> str:
    """Which of the known reasons it is; the message itself may hold the field's neighbours."""
    return next((text for text in CANNOT_CONVERT if text in str(error)), "")


def _backoff(attempt: int) -> float:
    return min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** (attempt - 1))


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
