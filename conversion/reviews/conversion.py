"""Answers ConversionReviews, bytes to bytes, as API servers expect it from a conversion webhook.

Source of the protocol: apiextensions-apiserver ``pkg/apiserver/conversion/webhook_converter.go`` (1.36). The server
restores all metadata except labels and annotations from the object that it sent, and compares only name, namespace and
uid. The answer therefore has only these five fields of metadata, and no others (such as managedFields) are decoded.
Top-level fields that no rule reads are passed on as the bytes that were received.

One object that cannot be converted fails the whole review, as the protocol requires. The message names every such
object, and never shows a value. A body that is no review raises ``ReviewError``.

Objects of a review above ``LARGE`` bytes are decoded one by one: two bytes on the wire (``{}``) may take eighty in
memory, so decoding 32 MiB at once could end the process. The answers do not differ. msgspec finds the end of a value
faster than the alternatives, but has no function for that: it decodes a whole text, or reports the position of trailing
characters. ``JsonCursor`` takes that position as the value's end, decodes only the values that its caller takes, and
checks that everything it skips is JSON. ``restow.conversion.model.deepjson`` reads values that are nested too deeply.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, Generic, TypedDict, TypeVar

import msgspec

from restow.conversion.compile.graph import Graph
from restow.conversion.compile.route import Route
from restow.conversion.model import deepjson
from restow.conversion.model.deepjson import MOST_NESTED, Nested, scan
from restow.conversion.model.errors import ObjectError, ReviewError, RuleFailed, kept_values
from restow.conversion.model.values import Json

_TRAILING: Final = re.compile(r"trailing characters \(byte (\d+)\)")
_OPEN_OBJECT: Final = re.compile(rb"\s*+\{\s*+(\})?")
_OPEN_ARRAY: Final = re.compile(rb"\s*+\[\s*+(\])?")
_COLON: Final = re.compile(rb"\s*+:")
_NEXT_MEMBER: Final = re.compile(rb"\s*+(?:,\s*+|(\}))")
_NEXT_ITEM: Final = re.compile(rb"\s*+(?:,|(\]))")
_END: Final = re.compile(rb"\s*+\Z")

_TOO_MUCH: Final = f"what is nested so deeply has more than {MOST_NESTED} bytes, or is no JSON"

_skip = msgspec.json.Decoder(msgspec.Raw).decode
_string = msgspec.json.Decoder(str).decode


class NoJson(ValueError):
    """The text is not JSON, or has another value than expected; the message may be empty."""


class JsonCursor:
    """Walks over a text. It returns views of the text.

    ``nested`` is the last value if it is nested more deeply than msgspec can decode. The cursor does not check that
    such a value is JSON.
    """

    def __init__(self, text: bytes | bytearray | memoryview) -> None:
        self._text = memoryview(text)
        self._place = 0
        self.nested: Nested | None = None

    def members(self) -> Iterator[str]:
        """Enter an object, and yield each name; the caller has to take the value after each."""
        closed = self._match(_OPEN_OBJECT)
        while not closed:
            name = self.value()
            self._match(_COLON)
            try:
                yield _string(name)
            except msgspec.MsgspecError as error:
                raise NoJson from error
            closed = self._match(_NEXT_MEMBER)

    def items(self) -> Iterator[memoryview]:
        """Enter an array; yields each item."""
        closed = self._match(_OPEN_ARRAY)
        while not closed:
            yield self.value()
            closed = self._match(_NEXT_ITEM)

    def text(self) -> str:
        """Take a string."""
        try:
            return _string(self.value())
        except msgspec.MsgspecError as error:
            raise NoJson from error

    def skip(self) -> None:
        """Skip a value.

        Raises:
            NoJson: the value is not JSON, at any depth.
        """
        self.value()
        try:
            if self.nested is not None:
                self.nested.check()
        except msgspec.MsgspecError as error:
            raise NoJson from error

    def end(self) -> None:
        """Check that nothing follows."""
        self._match(_END)

    def _match(self, pattern: re.Pattern[bytes]) -> bool:
        """Consume a match; return whether it closes the current object or array."""
        found = pattern.match(self._text, self._place)
        if found is None:
            raise NoJson
        self._place = found.end()
        return found.lastindex is not None

    def value(self) -> memoryview:
        """Take a value that is followed by more text, and the blanks around it."""
        start = self._place
        self.nested = None
        try:
            _skip(self._text[start:])
        except RecursionError as error:
            self.nested = scan(self._text[start:])
            if self.nested is None:
                raise NoJson(_TOO_MUCH if len(self._text) - start > MOST_NESTED else "") from error
            self._place += self.nested.size
            return self._text[start : self._place]
        except msgspec.MsgspecError as error:
            found = _TRAILING.search(str(error))
            if found is None:
                raise NoJson from error
            self._place += int(found[1]) - 1
            return self._text[start : self._place]
        raise NoJson


def _works() -> bool:
    try:
        return [bytes(item) for item in JsonCursor(b'[1, {"a":[]} ]').items()] == [b"1", b' {"a":[]} ']
    except NoJson:
        return False


#: Whether the installed msgspec reports the position in the form that this module parses.
WORKS: Final = _works()


_VERSIONS: Final = ("apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1")
_KIND: Final = "ConversionReview"

#: In bytes: in a larger review objects are decoded one by one; in a smaller one all take less than a time slice.
LARGE: Final = 128 * 1024

#: The place of an object takes this many bytes in memory (a ``msgspec.Raw`` in a list). All places together may take
#: this multiple of the body. Usual JSON has a comma every 20 bytes or so; a body with far more commas may have many
#: small objects.
_BYTES_EACH: Final = 64
_TIMES_THE_BODY: Final = 4

#: How many objects, and bytes, a review may have if it is nested more deeply than msgspec can decode, because such a
#: review is read at once. API servers send one object.
_MOST_DEEP: Final = 1000
_MOST_DEEP_BYTES: Final = 2 * deepjson.MOST_NESTED

#: The longest message of a failed review, in characters.
MAX_MESSAGE: Final = 2048
#: The most kept values that a review reports.
MOST_KEPT: Final = 1000
_MAX_FAILURE: Final = 512
_MAX_NAME: Final = 253

#: The fields of the envelope that are read, except the objects.
_ENVELOPE: Final = frozenset({"apiVersion", "kind", "uid", "desiredAPIVersion"})

_MALFORMED_BODY: Final = "it is not JSON, or its envelope has fields of the wrong type"
_TOO_DEEP: Final = f"it is, or became, nested more than {deepjson.MAX_DEPTH} levels deep, which API servers do not read"

_TOO_LARGE_TO_BE_DEEP: Final = "it is nested too deeply for its size"
_TOO_MANY_TO_BE_DEEP: Final = f"it is nested too deeply for more than {_MOST_DEEP} objects"

_MALFORMED: Final = (msgspec.MsgspecError, ValueError, RecursionError)


Fields = dict[str, msgspec.Raw]


class NestedFields(Fields):
    """The fields of an object that is nested more deeply than msgspec can decode; ``nested`` are the deep fields."""

    def __init__(self) -> None:
        self.nested: dict[str, deepjson.Nested] = {}


@dataclass(frozen=True, slots=True)
class KeptValue:
    """A value of an object that a rule could not convert, and kept: ``failed`` names the rule and the reason."""

    obj: Json = field(repr=False)
    failed: RuleFailed

    @property
    def identity(self) -> str:
        """The object by kind, namespace, name and version."""
        return _named(self.obj["kind"], self.obj.get("metadata"), self.obj["apiVersion"])


class ReviewTooLarge(ReviewError):
    """An object of the review is larger than allowed."""


Objects = TypeVar("Objects")


class _Request(msgspec.Struct, Generic[Objects]):
    uid: str
    desired_api_version: str = msgspec.field(name="desiredAPIVersion")
    objects: Objects | msgspec.UnsetType = msgspec.UNSET


class _Envelope(msgspec.Struct, Generic[Objects]):
    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""
    request: _Request[Objects] | None = None


class _Metadata(TypedDict, total=False):
    """The metadata that the server reads; all other fields are skipped unread."""

    name: Any
    namespace: Any
    uid: Any
    labels: Any
    annotations: Any


#: Decodes envelope and objects in one pass over the bytes; an item that is no object fails it and needs a second pass.
_envelope = msgspec.json.Decoder(_Envelope[list[Fields] | None]).decode
_envelope_of_anything = msgspec.json.Decoder(_Envelope[list[msgspec.Raw] | None]).decode
#: Decodes only the envelope: its objects stay one text.
_envelope_of_text = msgspec.json.Decoder(_Envelope[msgspec.Raw]).decode
_fields = msgspec.json.Decoder(Fields).decode
_metadata = msgspec.json.Decoder(_Metadata | None).decode
_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def convert_review(graph: Graph, body: bytes) -> bytes:
    """Answer a ConversionReview (v1 or v1beta1).

    Raises:
        ReviewError: the body is no ConversionReview with a request.
    """
    review = Review(graph, body)
    for _ in review:
        pass
    return review.answer()


class Review:
    """Converts one review object by object: iterate over it (a server may pause in between), then call ``answer()``.

    Each object is decoded, converted and encoded before the next one, so memory holds the tree of only one object. This
    bounds memory, and gives the garbage collector little to visit.
    """

    def __init__(self, graph: Graph, body: bytes, *, most: int | None = None) -> None:
        """Read the envelope.

        An object that has more than ``most`` bytes after its conversion fails. An object that arrives with more raises
        ReviewTooLarge during the iteration over a large review.

        Raises:
            ReviewError: the body is no ConversionReview with a request.
        """
        try:
            envelope = _read_envelope(body, most)
        except (*_MALFORMED, NoJson) as error:
            known = str(error) if isinstance(error, NoJson) else ""
            message = f"the body is no ConversionReview: {known or _MALFORMED_BODY}"
            raise ReviewError(message) from error
        if envelope.kind != _KIND or envelope.api_version not in _VERSIONS:
            message = f"the body is no {_KIND} of {' or '.join(_VERSIONS)}"
            raise ReviewError(message)
        if envelope.request is None:
            message = "the ConversionReview has no request"
            raise ReviewError(message)
        self._graph = graph
        self._most = most
        self._api_version = envelope.api_version
        self._request = envelope.request
        self._objects: Iterable[Fields | msgspec.Raw] = envelope.request.objects or ()
        self.count = 0
        self.failures: list[str] = []
        self.kept: list[KeptValue] = []
        self._converted: list[msgspec.Raw] = []

    @property
    def target(self) -> str:
        """The requested apiVersion."""
        return self._request.desired_api_version

    def __iter__(self) -> Iterator[Fields | msgspec.Raw]:
        """Convert the objects, and yield each one as it was received after it is converted.

        ``count`` is the number of objects, ``kept`` has the values that rules kept because they could not convert them.
        """
        for index, obj in enumerate(self._objects):
            self.count += 1
            fields: Fields = {}
            try:
                fields = obj if isinstance(obj, dict) else _read_fields(obj)
                converted = self._written(self._convert(fields))
            except ObjectError as error:
                self._fail(index, fields, error)
            except (deepjson.NestedTooDeep, RecursionError):
                self._fail(index, fields, ObjectError(_TOO_DEEP))
            except MemoryError:
                self._fail(index, fields, ObjectError("it became too large to be written"))
            except (*_MALFORMED, TypeError, OverflowError):
                self._fail(index, fields, ObjectError("it is, or became, what JSON cannot represent"))
            else:
                if not self.failures:
                    self._converted.append(msgspec.Raw(converted))
            yield obj

    def give_up(self, reason: str, index: int | None = None) -> bytes:
        """Return the answer of a review that cannot be converted, because of the object at ``index`` if it is known."""
        if index is None:
            self.failures.append(reason)
            return self.answer()
        found = next(islice(self._objects, index, None), None)
        fields: Fields = {}
        with suppress(ObjectError, ReviewTooLarge, *_MALFORMED):
            fields = found if isinstance(found, dict) else _read_fields(found or msgspec.Raw(b"{}"))
        self.count = index + 1
        self._fail(index, fields, ObjectError(reason))
        return self.answer()

    def answer(self) -> bytes:
        """Return the answer, as JSON."""
        response: Json = {"uid": self._request.uid}
        if not self.failures:
            response |= {"convertedObjects": self._converted, "result": {"status": "Success"}}
            return _encode(self._enveloped(response))
        response |= {"convertedObjects": [], "result": {"status": "Failure", "message": self._message()}}
        return _encode(self._enveloped(response))

    def _enveloped(self, response: Json) -> Json:
        return {"apiVersion": self._api_version, "kind": _KIND, "response": response}

    def _written(self, converted: Any) -> bytes:
        try:
            text = _encode(converted)
        except RecursionError:
            text = deepjson.encode(converted)
        if self._most is not None and len(text) > self._most:
            reason = f"it became larger than {self._most} bytes, the most that an object may have"
            raise ObjectError(reason)
        return text

    def _convert(self, fields: Fields) -> Any:
        if isinstance(fields, NestedFields):
            _check(fields)
        source, kind = _text(fields, "apiVersion"), _text(fields, "kind")
        route = self._graph.route(kind, source, self.target, visible=True)
        if route is None:
            return fields if "metadata" in fields else {**fields, "metadata": {}}
        try:
            obj: Json = {name: _any(value) if name in route.touched else value for name, value in fields.items()}
        except RecursionError:
            nested = fields.nested if isinstance(fields, NestedFields) else {}
            obj = {
                name: _tree(value, nested.get(name)) if name in route.touched else value
                for name, value in fields.items()
            }
        obj["apiVersion"], obj["kind"] = source, kind
        if "metadata" in fields:
            obj["metadata"] = _read_metadata(fields["metadata"])
        converted = self._converted_by(route, obj) if route.records else route.function(obj)
        if converted.get("metadata") is None:
            converted["metadata"] = {}
        return converted

    def _converted_by(self, route: Route, obj: Json) -> Json:
        """Convert by rules that keep values which they cannot convert, and record these values."""
        with kept_values() as found:
            converted = route.function(obj)
        self.kept += [KeptValue(obj, failed) for failed in found[: MOST_KEPT - len(self.kept)]]
        return converted

    def _fail(self, index: int, fields: Fields, error: ObjectError) -> None:
        rule = f" ({error.rule})" if isinstance(error, RuleFailed) and error.rule not in error.reason else ""
        self._converted.clear()
        self.failures.append(f"[{index}] {_identity(fields)}: {error}{rule}"[:_MAX_FAILURE])

    def _message(self) -> str:
        if not self.count:
            return self.failures[0]
        total, count = self.count, len(self.failures)
        head = f"{count} of {total} objects cannot be converted to {self.target[:_MAX_NAME]}"
        message = "; ".join((f"{head}: {self.failures[0]}", *self.failures[1:]))
        if len(message) <= MAX_MESSAGE:
            return message
        return message[: MAX_MESSAGE - 2] + " …"


def _items(texts: Iterable[memoryview], most: int | None) -> Iterator[Fields | msgspec.Raw]:
    """Yield the objects of a list, given the text of each. Raises ReviewTooLarge."""
    for text in texts:
        if most is not None and len(text) > most:
            message = f"an object of the review is larger than {most} bytes, the most that is accepted"
            raise ReviewTooLarge(message)
        yield _item(bytes(text))


def _item(text: bytes) -> Fields | msgspec.Raw:
    """Return the fields of an object, or the text of an item that is no object.

    Raises:
        NoJson: the text is no JSON.
        MsgspecError: a part of it is no JSON.
    """
    try:
        return _fields(text)
    except msgspec.ValidationError:
        return msgspec.Raw(text)
    except RecursionError:
        if not text.lstrip().startswith(b"{"):
            return msgspec.Raw(text)
    fields, cursor = NestedFields(), JsonCursor(text)
    for name in cursor.members():
        fields[name] = msgspec.Raw(bytes(cursor.value()).strip())
        fields.nested.pop(name, None)
        if cursor.nested is not None:
            cursor.nested.check()
            fields.nested[name] = cursor.nested
    cursor.end()
    return fields


def _read_envelope(body: bytes, most: int | None) -> _Envelope[Any]:
    try:
        if len(body) > LARGE and WORKS:
            return _read_large(body, most)
        try:
            return _envelope(body)
        except msgspec.MsgspecError:
            return _envelope_of_anything(body)
    except RecursionError:
        if len(body) > _MOST_DEEP_BYTES:
            raise NoJson(_TOO_LARGE_TO_BE_DEEP) from None
    return _read_deep(body)


def _read_large(body: bytes, most: int | None) -> _Envelope[Any]:
    """Read the envelope, and leave the objects undecoded.

    If the places of the objects could take a multiple of the body in memory, they are not kept either.
    """
    if body.count(b",") * _BYTES_EACH <= _TIMES_THE_BODY * len(body):
        placed: _Envelope[Any] = _envelope_of_anything(body)
        if placed.request is not None and placed.request.objects:
            placed.request.objects = _items(map(memoryview, placed.request.objects), most)
        return placed
    found: _Envelope[Any] = _envelope_of_text(body)
    if found.request is not None and (objects := found.request.objects):
        match bytes(memoryview(objects)[:1]):
            case b"[":
                found.request.objects = _items(JsonCursor(memoryview(objects)).items(), most)
            case b"n":
                found.request.objects = None
            case _:
                raise NoJson
    return found


def _read_deep(body: bytes) -> _Envelope[Any]:
    """Read a review that is nested more deeply than msgspec can decode."""
    envelope: Fields = {}
    request: Fields | None = None
    objects: list[Fields | msgspec.Raw] = []
    cursor = JsonCursor(body)
    for name in cursor.members():
        if name != "request":
            _keep(cursor, name, envelope)
            continue
        request = {}
        for inner in cursor.members():
            if inner == "objects":
                objects = []
                for item in cursor.items():
                    if len(objects) == _MOST_DEEP:
                        raise NoJson(_TOO_MANY_TO_BE_DEEP)
                    objects.append(_item(bytes(item)))
            else:
                _keep(cursor, inner, request)
    cursor.end()
    found: _Envelope[Any] = _envelope_of_anything(_encode({**envelope, "request": request}))
    if found.request is not None:
        found.request.objects = objects
    return found


def _keep(cursor: JsonCursor, name: str, fields: Fields) -> None:
    """Keep a field of the envelope if the conversion reads it."""
    if name in _ENVELOPE:
        fields[name] = msgspec.Raw(bytes(cursor.value()))
    else:
        cursor.skip()


def _check(fields: NestedFields) -> None:
    """Raise TooDeep for an object that API servers would not read; they receive only a part of its metadata."""
    if any(nested.depth >= deepjson.MAX_DEPTH for name, nested in fields.nested.items() if name != "metadata"):
        raise deepjson.NestedTooDeep


def _tree(text: msgspec.Raw | memoryview, nested: deepjson.Nested | None) -> Any:
    """Decode a value that may be nested more deeply than msgspec can decode; ``nested``: its known deep part."""
    try:
        return _any(text) if nested is None else nested.decode()
    except RecursionError:
        nested = deepjson.scan(memoryview(text))
        return nested and nested.decode()


def _text(fields: dict[str, msgspec.Raw], name: str) -> str:
    value = _any(fields[name]) if name in fields else None
    if not isinstance(value, str):
        reason = f"the object has no {name}"
        raise ObjectError(reason)
    return value


def _read_fields(text: msgspec.Raw) -> Fields:
    try:
        return _fields(text)
    except (msgspec.ValidationError, RecursionError):
        reason = "it is no object"
        raise ObjectError(reason) from None


def _read_metadata(text: msgspec.Raw) -> Any:
    try:
        return _metadata(text)
    except msgspec.ValidationError:
        reason = "the metadata is no object"
        raise ObjectError(reason, pointer="/metadata") from None
    except RecursionError:
        metadata: Json = {}
        cursor = JsonCursor(memoryview(text))
        for name in cursor.members():
            value = cursor.value()
            if name in _Metadata.__annotations__:
                metadata[name] = _tree(value, cursor.nested)
        return metadata


def _identity(fields: Fields) -> str:
    try:
        metadata = _read_metadata(fields["metadata"]) or {}
        kind, version = _text(fields, "kind"), _text(fields, "apiVersion")
    except (ObjectError, KeyError, *_MALFORMED):
        return "an object without a name"
    return _named(kind, metadata, version)


def _named(kind: str, metadata: Any, version: str) -> str:
    texts = [metadata.get(name) for name in ("namespace", "name")] if isinstance(metadata, dict) else []
    names = [text[:_MAX_NAME] for text in texts if isinstance(text, str)]
    return f"{kind[:_MAX_NAME]} {'/'.join(names) or 'without a name'} ({version[:_MAX_NAME]})"
