"""ConversionReviews as an API server writes and reads them (apiextensions-apiserver ``webhook_converter.go``, 1.36).

A review fails or succeeds as a whole. Of the answer everything is checked that the API server checks, since a migration
must not take for an image of an object what the server would refuse. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from restow.kube.errors import BadReply
from restow.migrator.converters.converter import Json

__all__ = ["ReviewFailed", "read_answer", "slices", "write_review"]

_KIND = "ConversionReview"
_LONGEST_MESSAGE = 300

MOST_OBJECTS = 500
MOST_BYTES = 4 * 2**20
"""Of one review; a larger object goes alone."""


class ReviewFailed(Exception):
    """The converter says that an object of the review cannot be converted; the message is its own."""


class _Result(msgspec.Struct, frozen=True):
    status: str = ""
    message: str = ""


class _Response(msgspec.Struct, frozen=True):
    uid: str = ""
    result: _Result = _Result()
    converted: list[dict[str, Any]] | None = msgspec.field(name="convertedObjects", default=None)


class _Answer(msgspec.Struct, frozen=True):
    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""
    response: _Response | None = None


_decoder = msgspec.json.Decoder(_Answer)


def slices(sizes: Sequence[int], most: int = MOST_OBJECTS) -> Iterator[slice]:
    """Cut objects of these sizes (bytes) into reviews that are not too large."""
    begin, size = 0, 0
    for place, each in enumerate(sizes):
        if place > begin and (place - begin >= most or size + each > MOST_BYTES):
            yield slice(begin, place)
            begin, size = place, 0
        size += each
    if sizes:
        yield slice(begin, len(sizes))


def write_review(objects: Sequence[bytes], api_version: str, *, uid: str, review_version: str) -> bytes:
    """Return the body of a review; objects are JSON already."""
    request = {"uid": uid, "desiredAPIVersion": api_version, "objects": [msgspec.Raw(each) for each in objects]}
    return msgspec.json.encode({"apiVersion": review_version, "kind": _KIND, "request": request})


def read_answer(body: bytes, sent: Sequence[Json], api_version: str, *, uid: str, review_version: str) -> list[Json]:
    """Return the converted objects of an answer.

    Raises:
        ReviewFailed: the converter says that they cannot be converted.
        BadReply: this is no answer to that review.
    """
    try:
        answer = _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise BadReply(f"the answer is no {_KIND}") from error
    response = answer.response
    if response is None or (answer.api_version, answer.kind) != (review_version, _KIND) or response.uid != uid:
        raise BadReply(f"the answer is no {_KIND} of {review_version}, or not to the one that was sent")
    if response.result.status != "Success":
        raise ReviewFailed(_briefly(response.result.message) or "the converter gives no reason")
    converted = response.converted or []
    if len(converted) != len(sent):
        raise BadReply(f"{len(sent)} objects were sent, and {len(converted)} came back")
    for before, after in zip(sent, converted, strict=True):
        if (after.get("apiVersion"), after.get("kind"), _names(after)) != (api_version, before["kind"], _names(before)):
            raise BadReply(f"an object did not come back as the same object at {api_version}")
    return converted


def _names(obj: Json) -> tuple[Any, ...]:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return ()
    return tuple(metadata.get(key) for key in ("namespace", "name", "uid"))


def _briefly(message: str) -> str:
    text = " ".join(message.split())
    return text if len(text) <= _LONGEST_MESSAGE else text[:_LONGEST_MESSAGE] + "…"
