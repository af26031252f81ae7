"""Checks a conversion webhook's answer as an API server does: the same checks in the same order, with its messages.

Source: apiextensions-apiserver ``pkg/apiserver/conversion/webhook_converter.go`` (1.36), client-go ``rest/request.go``.
Each check is a function, so that a conformance run can name the check that an answer fails; ``accept`` runs them all.
If the server would quote a value of an object, these messages leave it out.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import msgspec

from restow.conversion.model.values import Json

#: The most bytes that all annotations of an object may have together (apimachinery ``TotalAnnotationSizeLimitB``).
MAX_ANNOTATIONS: Final = 256 * 1024

_GROUP: Final = "apiextensions.k8s.io"
_KIND: Final = "ConversionReview"
_NAME: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_PREFIX: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NOTHING: Final[Json] = {}


class RejectionType(StrEnum):
    """Why an answer was rejected: the label ``failure_type`` of ``apiserver_conversion_webhook_request_total``."""

    CALL = "call_failure"
    MALFORMED = "malformed_response_failure"
    PARTIAL = "partial_response_failure"
    INVALID_OBJECT = "invalid_converted_object_failure"


class ResponseRejected(Exception):
    """The API server would reject the answer; the message is the server's message."""

    def __init__(self, failure: RejectionType, message: str) -> None:
        self.failure = failure
        super().__init__(message)

    @classmethod
    def no_object(cls) -> ResponseRejected:
        """Return the error for a missing object."""
        return cls(RejectionType.INVALID_OBJECT, "unexpected end of JSON input")


@dataclass(frozen=True, slots=True)
class SentReview:
    """A review as it was sent. ``version`` is the version of the ConversionReview: v1 or v1beta1."""

    uid: str
    desired: str
    objects: tuple[Json, ...]
    version: str = "v1"

    @property
    def gvk(self) -> str:
        """The kind in messages: the object's kind, or that of a list if there are several objects."""
        first = self.objects[0] if self.objects else _NOTHING
        suffix = "" if len(self.objects) == 1 else "List"
        return f"{first.get('apiVersion', '')}, Kind={first.get('kind', '')}{suffix}"


def review_body(sent: SentReview, **more: Any) -> bytes:
    """Return the review as JSON; ``more`` are further fields of the envelope (the server sends a stub ``response``)."""
    request = {"uid": sent.uid, "desiredAPIVersion": sent.desired, "objects": list(sent.objects)}
    head = {"kind": _KIND, "apiVersion": f"{_GROUP}/{sent.version}"}
    return msgspec.json.encode({**head, "request": request, **more})


def accept(sent: SentReview, *, status: int, content_type: str, body: bytes) -> tuple[Json, ...]:
    """Return the converted objects as the API server uses them: metadata restored, labels and annotations replaced.

    Raises:
        ResponseRejected: a check fails; the message is the one that the API server's client would see.
    """
    try:
        answer = check_http(status, content_type, body)
        check_review(sent, answer)
        check_uid(sent, answer)
        check_result(answer)
    except ResponseRejected as error:
        raise ResponseRejected(error.failure, f"conversion webhook for {sent.gvk} failed: {error}") from None
    try:
        check_count(sent, answer)
    except ResponseRejected as error:
        raise ResponseRejected(error.failure, f"conversion webhook for {sent.gvk} {error}") from None
    objects = converted_objects(answer)
    return tuple(_accept_object(sent, index, objects[index]) for index in range(len(sent.objects)))


def check_http(status: int, content_type: str, body: bytes) -> Json:
    """Check status and body; return the decoded answer. The content type only appears in messages."""
    if not 200 <= status <= 206:
        raise ResponseRejected(RejectionType.CALL, _status_message(status, content_type, body))
    if not body:
        raise ResponseRejected(
            RejectionType.CALL, f"0-length response with status code: {status} and content type: {content_type}"
        )
    answer = _decoded(body)
    if not isinstance(answer, dict):
        raise ResponseRejected(RejectionType.CALL, "the answer is no JSON object")
    return answer


def check_review(sent: SentReview, answer: Json) -> None:
    """Check that the answer is a review of the version that was sent, and that it has a response.

    In v1beta1, kind and version may also be missing.
    """
    kind, version = str(answer.get("kind") or ""), str(answer.get("apiVersion") or "")
    group, _, name = version.rpartition("/")
    if kind and version:
        if kind != _KIND or group != _GROUP or name not in ("v1", "v1beta1"):
            raise ResponseRejected(
                RejectionType.CALL, f'no kind "{kind}" is registered for version "{version}" in scheme'
            )
        if name != sent.version:
            raise ResponseRejected(
                RejectionType.CALL, f"converting ({name}.{_KIND}) to ({sent.version}.{_KIND}): unknown conversion"
            )
    elif sent.version == "v1":
        raise ResponseRejected(
            RejectionType.MALFORMED,
            f"expected webhook response of {_GROUP}/v1, Kind={_KIND}, got {group}/{name}, Kind={kind}",
        )
    if not isinstance(answer.get("response"), Mapping):
        raise ResponseRejected(RejectionType.MALFORMED, "no response provided")


def check_uid(sent: SentReview, answer: Json) -> None:
    """Check that the answer has the uid of this request; v1beta1 does not check this."""
    got = _response(answer).get("uid") or ""
    if sent.version == "v1" and got != sent.uid:
        raise ResponseRejected(RejectionType.MALFORMED, f'expected response.uid="{sent.uid}", got "{got}"')


def check_result(answer: Json) -> None:
    """Check that the result is exactly ``Success``."""
    result = _response(answer).get("result")
    found = result if isinstance(result, Mapping) else _NOTHING
    if found.get("status") != "Success":
        said = found.get("message")
        raise ResponseRejected(
            RejectionType.MALFORMED, said or f"response.result.status was '{found.get('status') or ''}', not 'Success'"
        )


def check_count(sent: SentReview, answer: Json) -> None:
    """Check that the number of returned objects equals the number of sent objects."""
    got = len(converted_objects(answer))
    if got != len(sent.objects):
        raise ResponseRejected(RejectionType.PARTIAL, f"returned {got} objects, expected {len(sent.objects)}")


def converted_objects(answer: Json) -> Sequence[Any]:
    """Return the list of converted objects as it was received; empty if there is none."""
    found = _response(answer).get("convertedObjects")
    return found if isinstance(found, list) else ()


def check_object(got: Any) -> None:
    """Check that a returned item is an object with a kind."""
    if got is None:
        raise ResponseRejected.no_object()
    if not isinstance(got, dict):
        raise ResponseRejected(RejectionType.INVALID_OBJECT, f"the converted object is a {_go_type(got)}")
    if not got.get("kind"):
        raise ResponseRejected(RejectionType.INVALID_OBJECT, "Object 'Kind' is missing")


def check_kind(sent: Json, got: Json) -> None:
    """Check that the returned object has the kind that was sent."""
    if got.get("kind") != sent.get("kind"):
        raise ResponseRejected(
            RejectionType.INVALID_OBJECT, f"invalid kind (expected {sent.get('kind')}, received {got.get('kind')})"
        )


def check_version(desired: str, got: Json) -> None:
    """Check that the returned object has the requested version."""
    received = got.get("apiVersion") or ""
    if received != desired:
        raise ResponseRejected(
            RejectionType.INVALID_OBJECT, f"invalid groupVersion (expected {desired}, received {received})"
        )


def check_identity(sent: Json, got: Json) -> None:
    """Check that name, namespace and uid did not change; absent is the same as empty."""
    for field, word in (("name", "name"), ("namespace", "namespace"), ("uid", "UID")):
        expected, actual = _text(sent, field), _text(got, field)
        if expected != actual:
            raise ResponseRejected(RejectionType.INVALID_OBJECT, f"must have the same {word}: {expected} != {actual}")


def restore_metadata(sent: Json, got: Json) -> Json:
    """Return the object as the server uses it: with the sent metadata, except for labels and annotations.

    The answer determines labels and annotations: missing ones are deleted, and changed ones must be valid.
    """
    if "metadata" not in got:
        raise ResponseRejected(RejectionType.INVALID_OBJECT, "missing metadata in converted object")
    answered = got["metadata"]
    if not isinstance(answered, dict):
        raise ResponseRejected(
            RejectionType.INVALID_OBJECT, f"invalid metadata of type {_go_type(answered)} in converted object"
        )
    original = sent.get("metadata", _NOTHING)
    if not isinstance(original, dict):
        raise ResponseRejected(
            RejectionType.INVALID_OBJECT, f"invalid metadata of type {_go_type(original)} in input object"
        )
    metadata = dict(original)
    for field in ("labels", "annotations"):
        metadata.pop(field, None)
        if answered.get(field) is not None:
            metadata[field] = _checked(field, original.get(field), answered[field])
    return {**got, "metadata": metadata}


def _accept_object(sent: SentReview, index: int, got: Any) -> Json:
    original, single = sent.objects[index], len(sent.objects) == 1
    word = "invalid object at index 0" if single else f"invalid converted object at index {index}"
    if single:
        check_object(got)  # this message of the server has no prefix
    try:
        check_object(got)
        check_version(sent.desired, got)
        check_kind(original, got)
        word = "invalid object" if single else word
        check_identity(original, got)
        word = "invalid metadata" if single else f"invalid metadata in object at index {index}"
        return restore_metadata(original, got)
    except ResponseRejected as error:
        raise ResponseRejected(error.failure, f"conversion webhook for {sent.gvk} returned {word}: {error}") from None


def _checked(field: str, original: Any, answered: Any) -> dict[str, str]:
    if not isinstance(answered, dict):
        raise ResponseRejected(
            RejectionType.INVALID_OBJECT, f"invalid metadata.{field} of type {_go_type(answered)} in converted object"
        )
    if not isinstance(original, dict | None):
        raise ResponseRejected(
            RejectionType.INVALID_OBJECT, f"invalid metadata.{field} of type {_go_type(original)} in original object"
        )
    for key, value in answered.items():
        if not isinstance(value, str):
            raise ResponseRejected(
                RejectionType.INVALID_OBJECT,
                f"metadata.{field}[{key}] must be a string, but is {_go_type(value)} in converted object",
            )
    if answered != (original or {}):
        problem = _problem_of_labels(answered) if field == "labels" else _problem_of_annotations(answered)
        if problem:
            raise ResponseRejected(RejectionType.INVALID_OBJECT, problem)
    return answered


def _problem_of_labels(labels: Mapping[str, str]) -> str:
    for key, value in labels.items():
        if not _is_qualified(key) or (value and not (len(value) <= 63 and _NAME.fullmatch(value))):
            return f"metadata.labels: Invalid value: the label {key[:320]} is malformed"
    return ""


def _problem_of_annotations(annotations: Mapping[str, str]) -> str:
    for key in annotations:
        if not _is_qualified(key.lower()):
            return f"metadata.annotation: Invalid value: the key {key[:320]} is malformed"
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > MAX_ANNOTATIONS:
        return f"metadata.annotation: Too long: may not be more than {MAX_ANNOTATIONS} bytes"
    return ""


def _is_qualified(key: str) -> bool:
    """Check a key as apimachinery's IsQualifiedName does: an optional DNS prefix, then a name."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= 253 and _PREFIX.fullmatch(prefix)):
        return False
    return len(name) <= 63 and _NAME.fullmatch(name) is not None


def _response(answer: Json) -> Mapping[str, Any]:
    found = answer.get("response")
    return found if isinstance(found, Mapping) else _NOTHING


def _text(obj: Json, field: str) -> str:
    metadata = obj.get("metadata")
    value = metadata.get(field) if isinstance(metadata, dict) else None
    return value if isinstance(value, str) else ""


def _decoded(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ResponseRejected(RejectionType.CALL, "the answer is no JSON") from error


def _status_message(status: int, content_type: str, body: bytes) -> str:
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        answer = None
    if isinstance(answer, dict) and answer.get("kind") == "Status" and isinstance(answer.get("message"), str):
        return str(answer["message"])
    if status in _STATUSES:
        return _STATUSES[status]
    if status >= 500:
        text = body[:2048].decode("utf-8", "replace").strip() if content_type.startswith("text/") else "unknown"
        quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'an error on the server ("{quoted}") has prevented the request from succeeding'
    return f"the server responded with the status code {status} but did not return more information"


#: The messages of apimachinery ``api/errors.NewGenericServerResponse`` for plausible statuses of a webhook.
_STATUSES: Final = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


def _go_type(value: Any) -> str:
    """Return the name that Go's %T prints for a decoded JSON value."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
        case str():
            return "string"
        case list():
            return "[]interface {}"
        case _:
            return "map[string]interface {}"
