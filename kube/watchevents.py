"""The events of a list-watch, and the decoding of pages and watch lines. Pure.

Envelopes are typed. An object stays as received (``Item.raw``) until a consumer decodes what it needs, so an object
that one consumer cannot read never breaks the stream. The same applies to an object that is nested too deeply for the
decoder: its page or event is cut without recursion (``restow.kube.nesting``).

Source of the formats: Kubernetes API concepts, "Efficient detection of changes".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import msgspec

from restow.kube.errors import BadReply, TooDeep, api_error, read_json
from restow.kube.nesting import take, take_elements
from restow.kube.resources import qualified_name

_T = TypeVar("_T")


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    """The identity and state in an object's metadata; ``namespace`` is empty for cluster-scoped objects."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Item:
    """One object: its decoded metadata, and the object as received.

    Items of built-in resources carry apiVersion and kind in a watch but not in a list.
    """

    metadata: Metadata
    raw: msgspec.Raw

    def json(self) -> dict[str, Any]:
        """Decode the object.

        Raises:
            TooDeep: the object is nested too deeply.
            BadReply: the item is not a JSON object.
        """
        return self.decode(_document)

    def decode(self, decoder: msgspec.json.Decoder[_T]) -> _T:
        """Decode the part of the object that a decoder describes.

        Raises:
            TooDeep: the object is nested too deeply.
            BadReply: the object does not have the decoder's shape.
        """
        name = qualified_name(self.metadata.namespace, self.metadata.name)
        return read_json(decoder, self.raw, name, "it does not have the shape that is read here")


@dataclass(frozen=True, slots=True)
class Listed:
    """All objects as of ``resource_version``: the first event, and the first one after every gap.

    Changes since the previous event are unknown: an object that is missing here may be gone without a Deleted.
    Between two Listed events no change is missing.
    """

    items: tuple[Item, ...]
    resource_version: str


@dataclass(frozen=True, slots=True)
class ListedPart:
    """One page of a list, for consumers that need not have all objects in memory together.

    The parts from ``first`` to ``last`` are one ``Listed``. If a ``first`` part arrives before a ``last`` one, the list
    starts again, and the earlier parts are void.

    Attributes:
        items: the objects of the page.
        resource_version: the resourceVersion of the whole list.
        first, last: whether the list starts, and ends, with this page.
    """

    items: tuple[Item, ...]
    resource_version: str
    first: bool
    last: bool


@dataclass(frozen=True, slots=True)
class Added:
    """An object entered the selection: it is new, or a selector did not match it before."""

    item: Item


@dataclass(frozen=True, slots=True)
class Modified:
    """An object changed."""

    item: Item


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object left the selection; ``item`` is its last state, at the resourceVersion of leaving."""

    item: Item


@dataclass(frozen=True, slots=True)
class Bookmark:
    """There are no further changes up to ``resource_version``."""

    resource_version: str


WatchEvent: TypeAlias = Listed | Added | Modified | Deleted | Bookmark


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list; ``continue_token`` is empty on the last one."""

    items: tuple[Item, ...]
    resource_version: str
    continue_token: str


class _ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct, frozen=True):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Object(msgspec.Struct, frozen=True):
    metadata: Metadata


class _Envelope(msgspec.Struct, frozen=True):
    type: str
    object: msgspec.Raw


class _ErrorCode(msgspec.Struct, frozen=True):
    code: int = 500


_list = msgspec.json.Decoder(_List)
_object = msgspec.json.Decoder(_Object)
_metadata = msgspec.json.Decoder(Metadata)
_envelope = msgspec.json.Decoder(_Envelope)
_error_code = msgspec.json.Decoder(_ErrorCode)
_document = msgspec.json.Decoder(dict[str, Any])
_CHANGES: dict[str, Callable[[Item], WatchEvent]] = {"ADDED": Added, "MODIFIED": Modified, "DELETED": Deleted}


def read_page(body: bytes, target: str) -> Page:
    """Read one page of a list of ``target`` (for messages).

    Raises:
        BadReply: the body is not a list, or has no resourceVersion to watch from.
    """
    what, otherwise = f"list {target}", "the answer is not a list"
    page, found = _read_list(body, what, otherwise)
    items = tuple(Item(_read_metadata(raw, what, otherwise), raw) for raw in found)
    if not page.metadata.resource_version:
        msg = f"list {target}: the answer has no resourceVersion, so it cannot be watched"
        raise BadReply(msg)
    return Page(items, page.metadata.resource_version, page.metadata.continue_)


def read_event(line: bytes, target: str) -> WatchEvent:
    """Read one line of a watch of ``target`` (for messages).

    Raises:
        ApiError: the line is an ERROR event; its status determines the error.
        BadReply: the line is not an event: it is cut off, or plain text of a proxy.
    """
    what, otherwise = f"watch {target}", f"a line of {len(line)} bytes is not an event"
    envelope = _read_envelope(line, what, otherwise)
    if envelope.type == "ERROR":
        status = read_json(_error_code, envelope.object, what, otherwise).code
        raise api_error(status=status, body=bytes(envelope.object), headers={}, verb="watch", target=target)
    metadata = _read_metadata(envelope.object, what, otherwise)
    if not metadata.resource_version:
        msg = f"watch {target}: an event without resourceVersion"
        raise BadReply(msg)
    if envelope.type == "BOOKMARK":
        return Bookmark(metadata.resource_version)
    if envelope.type not in _CHANGES:
        msg = f"watch {target}: an event of an unknown type"
        raise BadReply(msg)
    return _CHANGES[envelope.type](Item(metadata, envelope.object))


def _read_list(body: bytes, what: str, otherwise: str) -> tuple[_List, Sequence[msgspec.Raw]]:
    """Read the envelope of a list, and its objects as received."""
    try:
        page = read_json(_list, body, what, otherwise)
    except TooDeep:
        rest, found = _cut(take_elements, body, "items", what, otherwise)
        return read_json(_list, rest, what, otherwise), [msgspec.Raw(each) for each in found]
    return page, page.items or ()


def _read_envelope(line: bytes, what: str, otherwise: str) -> _Envelope:
    try:
        return read_json(_envelope, line, what, otherwise)
    except TooDeep:
        rest, value = _cut(take, line, "object", what, otherwise)
        return msgspec.structs.replace(read_json(_envelope, rest, what, otherwise), object=msgspec.Raw(value))


def _read_metadata(raw: msgspec.Raw, what: str, otherwise: str) -> Metadata:
    try:
        return read_json(_object, raw, what, otherwise).metadata
    except TooDeep:
        _, metadata = _cut(take, bytes(raw), "metadata", what, otherwise)
        # Entries about fields are nested as deeply as the fields.
        rest, _ = _cut(take, metadata, "managedFields", what, otherwise)
        return read_json(_metadata, rest, what, otherwise)


def _cut(
    cutter: Callable[[bytes, str], tuple[bytes, _T]], text: bytes, key: str, what: str, otherwise: str
) -> tuple[bytes, _T]:
    try:
        return cutter(text, key)
    except ValueError as error:
        msg = f"{what}: {otherwise} ({error})"
        raise BadReply(msg) from error
