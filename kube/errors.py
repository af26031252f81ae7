"""The errors of requests to an API server, as one tree.

::

    KubeError
    ├── ConfigError            the kubeconfig or in-cluster configuration cannot be used
    ├── Unreachable            no answer: refused, reset, TLS failure, name not found
    │   ├── TimedOut               no complete answer in time; the request may have been carried out
    │   ├── CertificateUntrusted   the server's certificate cannot be verified; a retry does not help
    │   └── CredentialsExpired     the credentials have expired and are not renewed yet; nothing was carried out
    ├── BadReply               a success status with a body of another kind
    │   └── TooDeep                an object is nested too deeply to be read; a retry does not help
    └── ApiError               an answer with an error status
        ├── BadRequest 400     ├── Conflict 409          ├── UnsupportedMediaType 415
        ├── Unauthorized 401   │   ├── AlreadyExists     ├── Invalid 422
        ├── Forbidden 403      │   └── OutcomeUnknown    ├── TooManyRequests 429
        ├── NotFound 404       ├── Gone 410              └── ServerError 5xx
        └── MethodNotAllowed   └── TooLarge 413

Every status that is not 2xx raises; otherwise a refused write would count as done. An error body is usually a
``v1.Status``, but proxies and a starting API server send plain text; the module reads both. Messages contain the
server's own message, never the body of the request.
"""

from __future__ import annotations

import contextlib
import json
import re
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import PurePath
from typing import Any, TypeVar

import msgspec

__all__ = [
    "CANNOT_CONVERT",
    "TOO_LARGE",
    "AlreadyExists",
    "ApiError",
    "BadReply",
    "BadRequest",
    "CertificateUntrusted",
    "ConfigError",
    "Conflict",
    "CredentialsExpired",
    "Forbidden",
    "Gone",
    "Invalid",
    "KubeError",
    "MethodNotAllowed",
    "NotFound",
    "OutcomeUnknown",
    "ServerError",
    "TimedOut",
    "TooDeep",
    "TooLarge",
    "TooManyRequests",
    "Unauthorized",
    "Unreachable",
    "UnsupportedMediaType",
    "api_error",
    "describe_failure",
    "failure_in",
    "first_error",
    "http_date",
    "left_version",
    "one_line",
    "read_json",
]


_T = TypeVar("_T")

_LONGEST_TEXT = 300  # characters kept of an error body that is not a Status


class KubeError(Exception):
    """The base class of all errors of ``restow.kube``.

    Attributes:
        waited_s: the seconds of retries before the request was given up (``restow.kube.retry``).
    """

    waited_s: float = 0.0
    may_pass: bool = False
    """Whether the error is temporary: the server or the network failed, and not the request."""

    @property
    def out_of_reach(self) -> bool:
        """Whether the request failed for a temporary reason or outlasted its retries, so that a later run may help."""
        return self.may_pass or self.waited_s > 0

    @property
    def said(self) -> str:
        """The API server's message without the request, or the whole error if the server sent no message."""
        return str(self)


class ConfigError(KubeError):
    """The configuration cannot be used; the message says which file or setting, and what to do."""


class Unreachable(KubeError):
    """No answer arrived. A write may or may not have been carried out."""

    may_pass = True


class TimedOut(Unreachable):
    """No complete answer arrived in time."""


class CredentialsExpired(Unreachable):
    """The credentials have expired or were refused, and are not renewed yet; nothing was carried out.

    Each later request tries to renew them, and succeeds when the plugin, token file or identity provider works again.
    """


class BadReply(KubeError):
    """The server answered with success, but the body is truncated, not JSON, or of another kind."""

    may_pass = True


class TooDeep(BadReply):
    """The answer has an object that is nested more deeply than Python's recursion limit allows.

    API servers read JSON 10,000 levels deep; CPython 3.11 stops near level 1,000.
    """

    may_pass = False


class StatusDetails(msgspec.Struct, frozen=True):
    """``v1.Status.details``: the object that the error is about."""

    name: str = ""
    group: str = ""
    kind: str = ""
    retry_after_seconds: int = msgspec.field(name="retryAfterSeconds", default=0)
    causes: tuple[dict[str, Any], ...] = ()


class _StatusMeta(msgspec.Struct, frozen=True):
    continue_: str = msgspec.field(name="continue", default="")


class _Status(msgspec.Struct, frozen=True):
    kind: str = ""
    status: str = ""
    metadata: _StatusMeta | None = None
    message: str = ""
    reason: str = ""
    details: StatusDetails | None = None


class CertificateUntrusted(Unreachable):
    """The server's certificate cannot be verified: another CA, another host name, or an expired certificate."""

    may_pass = False


class ApiError(KubeError):
    """An answer with an error status.

    Attributes:
        status: the HTTP status.
        reason: ``v1.Status.reason`` (``"Conflict"``, ``"Expired"``, …); empty for a plain-text answer.
        message: the server's message on one line, of an object that it cannot read with the key and the reason; at
            most 300 characters of a plain-text answer.
        details: the object that the error is about; fields that the server left out are empty.
        verb, target: the request, e.g. ``"patch"``, ``"widgets.example.com a/b"``.
        retry_after: the server's ``Retry-After`` in seconds, or None.
        unreadable: the stored objects that the server cannot read: for each key in etcd, which ends in
            ``namespace/name`` or ``name``, the reason. Servers name at most 100, and none up to Kubernetes 1.36.
        date: the server's clock when it answered (the ``Date`` header), or None.
    """

    def __init__(
        self,
        *,
        status: int,
        verb: str,
        target: str,
        reason: str = "",
        message: str = "",
        details: StatusDetails | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details or StatusDetails()
        self.verb = verb
        self.target = target
        self.retry_after = retry_after
        self.unreadable: Mapping[str, str] = {}
        self.date: datetime | None = None
        super().__init__(f"{verb} {target}: {message or 'no message'} ({status}{' ' + reason if reason else ''})")

    @property
    def said(self) -> str:
        return self.message or str(self)

    @property
    def left_version(self) -> str:
        """The apiVersion at which an object is stored although its CRD has left it; empty for another error."""
        return left_version(self.message)

    @property
    def undecodable(self) -> bool:
        """Whether the stored bytes of an object are the cause, so that a retry fails too; a webhook may recover."""
        return bool(self.left_version or (self.unreadable and "conversion webhook" not in self.message))


class BadRequest(ApiError):
    """400: the request is malformed."""


class Unauthorized(ApiError):
    """401: the credentials are missing, unknown or expired."""


class Forbidden(ApiError):
    """403: no RBAC rule allows the request, or an admission plugin or policy refused it."""

    @property
    def by_authorizer(self) -> bool:
        """Whether the user lacks a right; otherwise an admission plugin or policy refused the object."""
        return 'forbidden: User "' in self.message and '" cannot ' in self.message


class NotFound(ApiError):
    """404: the object, version, namespace or subresource does not exist; ``names`` tells whether it is the object."""

    def names(self, plural: str, name: str) -> bool:
        """Whether the server reports this object as missing."""
        return self.details.kind == plural and self.details.name == name


class MethodNotAllowed(ApiError):
    """405: the resource does not offer this verb."""


class Conflict(ApiError):
    """409: a precondition (resourceVersion, uid) does not hold, or server-side apply met another owner."""


class AlreadyExists(Conflict):
    """409 with reason ``AlreadyExists``."""


class OutcomeUnknown(Conflict):
    """No reply shows whether a write with a precondition was carried out: read the object and decide again.

    ``restow.kube.retry`` raises it after the back-off, in place of the error. It is a ``Conflict`` because callers
    handle both in the same way.
    """


class Gone(ApiError):
    """410: the resourceVersion or continue token is too old.

    ``continue_token`` is the inconsistent token with which a LIST can continue (API concepts: "Retrieving large results
    sets in chunks"); empty if the server sent none.
    """

    continue_token: str = ""


class TooLarge(ApiError):
    """413: the request is larger than the server or etcd allows."""


class UnsupportedMediaType(ApiError):
    """415: the resource does not support this patch type."""


class Invalid(ApiError):
    """422: the object violates its schema, a validation rule or an immutable field."""

    @property
    def findings(self) -> str:
        """The invalid fields and their messages, without the values that the server quotes.

        A webhook that denies with this status names no fields; its own message is returned.
        """
        causes = (
            f"{cause.get('field') or 'the object'}: {_without_value(str(cause.get('message', '')))}"
            for cause in self.details.causes
        )
        if found := "; ".join(causes):
            return one_line(found)
        denied = self.message.startswith("admission webhook ")
        return self.message if denied else "the API server says that it is invalid"


class TooManyRequests(ApiError):
    """429: too many requests; also "storage is (re)initializing", see ``initializing``."""

    @property
    def may_pass(self) -> bool:  # type: ignore[override]
        """Whether the error is temporary; a watch cache that cannot be filled needs a repair."""
        return not self.undecodable

    @property
    def initializing(self) -> bool:
        """Whether the watch cache cannot be filled, which lasts until every object can be converted."""
        return "(re)initializing" in self.message


class ServerError(ApiError):
    """5xx."""

    @property
    def may_pass(self) -> bool:  # type: ignore[override]
        """Whether the error is temporary; some are about the request, so that a retry fails too."""
        stays = self.status in (501, 505) or any(text in self.message for text in (*TOO_LARGE, *CANNOT_CONVERT))
        return not stays and not self.undecodable


TOO_LARGE = ("etcdserver: request is too large", "trying to send message larger than max")
"""Source: ``isTooLargeError`` of apiserver's ``endpoints/handlers``."""

CANNOT_CONVERT = ("request to convert CR to an invalid group/version", "field not declared in schema")
"""Parts of messages about a managedFields entry or an object that the API server cannot convert."""


_LEFT_VERSION = re.compile(r"request to convert CR from an invalid group/version: (?P<version>[\w./-]+)")
"""Source: apiextensions ``conversion/converter.go``, from a read of an object that is stored at that version."""

_UNREADABLE = re.compile(r"StorageError: corrupt object, [^/]*Key: (?P<key>\S*), .*?not decodable revision=\d+: ")
"""What API servers from 1.37 on put before the reason why they cannot read an object, once for each object.

Source: apiserver's ``pkg/storage/errors.go`` and ``pkg/storage/etcd3/corrupt_obj_deleter.go``.
"""

_BY_STATUS: Mapping[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: MethodNotAllowed,
    409: Conflict,
    410: Gone,
    413: TooLarge,
    415: UnsupportedMediaType,
    422: Invalid,
    429: TooManyRequests,
}
_decoder = msgspec.json.Decoder(_Status)
_json = json.JSONDecoder()
_GO_SYNTAX = ("map[", "[]", "&")  # the start of quoted values that are not JSON
_NOTHING_SAID = _Status()


def _without_value(message: str) -> str:
    """Remove the value from ``Invalid value: <value>: <detail>``, the format of apimachinery's field errors."""
    for kind in ("Invalid value", "Unsupported value", "Duplicate value", "Not found"):
        if message.startswith(f"{kind}: "):
            rest = message[len(kind) + 2 :]
            if rest.startswith(_GO_SYNTAX):
                return kind
            try:
                _value, end = _json.raw_decode(rest)
            except ValueError:
                return message  # the server omitted the value: the rest is the detail
            detail = rest[end:].removeprefix(": ")
            return f"{kind}: {detail}" if detail else kind
    return message


def api_error(*, status: int, body: bytes, headers: Mapping[str, str], verb: str, target: str) -> ApiError:
    """Return the error for an answer with this status; never raises."""
    said = _read_status(body)
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    if kind is Conflict and said.reason == "AlreadyExists":
        kind = AlreadyExists
    error = kind(
        status=status,
        reason=said.reason,
        message=_UNREADABLE.sub(r"\g<key>: ", one_line(said.message)),
        details=said.details,
        verb=verb,
        target=target,
        retry_after=_retry_after(headers, said.details),
    )
    error.unreadable = _unreadable(said)
    error.date = http_date(headers.get("Date", ""))
    if isinstance(error, Gone) and said.metadata is not None:
        error.continue_token = said.metadata.continue_
    return error


def _unreadable(said: _Status) -> dict[str, str]:
    """Return the objects that cannot be read; of several ones, the message itself has only the first."""
    causes = said.details.causes if said.details is not None else ()
    texts = (one_line(str(text)) for text in (said.message, *(cause.get("message", "") for cause in causes)))
    return {found["key"]: found.string[found.end() :] for found in map(_UNREADABLE.search, texts) if found}


def left_version(reason: str) -> str:
    """Return the apiVersion that an object is stored at and its CRD has left; empty for another reason."""
    return found["version"] if (found := _LEFT_VERSION.search(reason)) else ""


def failure_in(body: bytes) -> str | None:
    """Return the message of a body that is a ``v1.Status`` and no success; None for any other body."""
    said = _read_status(body)
    return said.message or "no message" if said.kind == "Status" and said.status != "Success" else None


def _read_status(body: bytes) -> _Status:
    with contextlib.suppress(msgspec.MsgspecError):
        if (said := _decoder.decode(body)) != _NOTHING_SAID:  # JSON that is not a Status decodes to this
            return said
    return _Status(message=one_line(body.decode("utf-8", "replace"), _LONGEST_TEXT))


def _retry_after(headers: Mapping[str, str], details: StatusDetails | None) -> float | None:
    """Return the seconds to wait, from the header (a number, or a date minus the reply's own Date) or the Status."""
    value = headers.get("Retry-After", "")
    if value.isdecimal():
        return float(value)
    until, now = http_date(value), http_date(headers.get("Date", ""))
    if until is not None and now is not None:
        return max(0.0, (until - now).total_seconds())
    return float(details.retry_after_seconds) if details is not None and details.retry_after_seconds > 0 else None


def http_date(value: str) -> datetime | None:
    """Return the time of a header, with its time zone (UTC if it names none); None if it is not a time."""
    try:
        found = parsedate_to_datetime(value)
    except (ValueError, TypeError, OverflowError):
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def read_json(decoder: msgspec.json.Decoder[_T], text: bytes | msgspec.Raw, what: str, otherwise: str) -> _T:
    """Decode JSON from an API server.

    Args:
        decoder: a decoder of the expected type.
        text: the JSON text.
        what: the request, for messages.
        otherwise: the problem if the text does not decode, for messages.

    Raises:
        TooDeep: the text is nested too deeply to be read.
        BadReply: the text is not JSON, or not of the expected type.
    """
    try:
        return decoder.decode(text)
    except RecursionError as error:
        msg = f"{what}: an object is nested too deeply to be read here; make it flatter, or delete it"
        raise TooDeep(msg) from error
    except msgspec.MsgspecError as error:
        msg = f"{what}: {otherwise} ({error})"
        raise BadReply(msg) from error


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error of a group, which callers can catch by its type."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def one_line(text: str, longest: int | None = None) -> str:
    """Return a text on one line, for messages that a person reads: in a table, a log line or an Event.

    Messages of API servers have several lines where they quote several errors, such as the conflicts of an apply.

    Args:
        text: any text.
        longest: the number of characters to keep; None keeps all.
    """
    line = " ".join(text.split())
    return line if longest is None or len(line) <= longest else f"{line[:longest]}…"


_FRAMES = 6  # the innermost ones


def describe_failure(error: BaseException) -> str:
    """Return a description of an error, or of each error in a group, that is safe to log: no values of objects."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(describe_failure(one) for one in error.exceptions)
    if isinstance(error, Invalid):
        fields = ", ".join(f"{cause.get('field', '?')} ({cause.get('reason', '?')})" for cause in error.details.causes)
        return f"{error.verb} {error.target}: refused as invalid (422){': ' if fields else ''}{fields}"
    if isinstance(error, KubeError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    way = " > ".join(f"{PurePath(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames)
    return f"{type(error).__name__} ({way})" if way else type(error).__name__
