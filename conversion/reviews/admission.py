"""AdmissionReviews as data: the request, its objects decoded on first use, and the answer.

Sources: k8s.io/api ``admission/v1`` for the envelope; RFC 6902 for the patch of an answer.

Pure.
"""

from __future__ import annotations

import base64
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, overload

import msgspec

from restow.conversion.model.deepjson import Cuts, cut, restore
from restow.conversion.model.errors import ConversionError
from restow.conversion.model.fieldpath import pointer
from restow.conversion.model.values import Json, same

_VERSION: Final = "admission.k8s.io/v1"
_KIND: Final = "AdmissionReview"


class AdmissionError(ConversionError):
    """The bytes are not an AdmissionReview, so there is no uid to answer (HTTP 400)."""


class GroupVersionKind(msgspec.Struct, frozen=True):
    """A kind at a version."""

    group: str = ""
    version: str = ""
    kind: str = ""


class GroupVersionResource(msgspec.Struct, frozen=True):
    """A resource at a version; ``resource`` is its plural."""

    group: str = ""
    version: str = ""
    resource: str = ""


class UserInfo(msgspec.Struct, frozen=True):
    """The user that sent the request."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = {}


_NOBODY: Final = UserInfo()


class _Lazy:
    """A JSON object that is decoded on first access, because most steps need only part of a review."""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, request: None, owner: type) -> None: ...

    @overload
    def __get__(self, request: AdmissionRequest, owner: type) -> Json | None: ...

    def __get__(self, request: AdmissionRequest | None, owner: type) -> Json | None:
        if request is None:
            return None
        value: Json | RawObject | None = request.__dict__[self._name]
        if isinstance(value, RawObject):
            value = request.__dict__[self._name] = value.tree()
        return value

    def __set__(self, request: AdmissionRequest, value: Json | RawObject | None) -> None:
        request.__dict__[self._name] = value
        if isinstance(value, RawObject):
            request.__dict__["bytes"] = request.size + value.size
            request.__dict__["cut"] = request.is_cut or bool(value.cuts)


@dataclass(frozen=True)
class AdmissionRequest:
    """The request to admit: the fields of admission.k8s.io/v1.

    ``kind``, ``resource`` and ``sub_resource`` are those for which the webhook is registered, and give the version of
    ``object`` and ``old_object``. ``request_kind`` and its companions are those of the client's request. The objects
    are JSON trees, None where the operation has none; each is decoded when a step first reads it.
    """

    uid: str
    kind: GroupVersionKind
    resource: GroupVersionResource
    operation: str
    name: str = ""
    namespace: str = ""
    sub_resource: str = ""
    request_kind: GroupVersionKind | None = None
    request_resource: GroupVersionResource | None = None
    request_sub_resource: str = ""
    user_info: UserInfo = _NOBODY
    object: _Lazy = _Lazy()
    old_object: _Lazy = _Lazy()
    options: _Lazy = _Lazy()
    dry_run: bool | None = None

    @property
    def has_object(self) -> bool:
        """Whether there is a new object; does not decode it."""
        return self.__dict__["object"] is not None

    @property
    def size(self) -> int:
        """The size of its objects on the wire in bytes, 0 for objects that were not received."""
        size: int = self.__dict__.get("bytes", 0)
        return size

    @property
    def sent(self) -> bytes:
        """The whole AdmissionReview as it was received."""
        sent: bytes = self.__dict__["sent_body"]
        return sent

    @property
    def is_cut(self) -> bool:
        """Whether a part is undecoded because it is nested deeper than ``restow.conversion.model.deepjson.DEEPEST``."""
        cut: bool = self.__dict__.get("cut", False)
        return cut

    def keeps(self, name: str) -> bool:
        """Return whether an update leaves a field of the object, such as ``spec``, unchanged.

        API servers encode both objects the same way, so equal bytes need no decoding: a step costs almost nothing for a
        migration of stored objects, or for a new label.
        """
        new, old = self.__dict__["object"], self.__dict__["old_object"]
        if new is None or old is None:
            return False
        if isinstance(new, RawObject) and isinstance(old, RawObject) and new.field(name) == old.field(name):
            return True
        return same((self.object or {}).get(name), (self.old_object or {}).get(name))


class AdmissionReview:
    """The envelope. ``AdmissionReview.of`` reads one, and ``answer`` answers it."""

    def __init__(self, request: AdmissionRequest) -> None:
        self.request = request

    @classmethod
    def of(cls, body: bytes) -> AdmissionReview:
        """Read an AdmissionReview of admission.k8s.io/v1.

        A part nested deeper than ``restow.conversion.model.deepjson.DEEPEST`` stays undecoded (``msgspec.Raw``) in the
        objects.

        Raises:
            AdmissionError: the body is not JSON, or not an AdmissionReview of admission.k8s.io/v1.
        """
        cuts: Cuts = {}
        try:
            try:
                review = _decode(body)
            except RecursionError:
                shallow, cuts = cut(body)
                review = _decode(shallow)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            message = "the body is no AdmissionReview: it is not JSON, or its envelope has fields of the wrong type"
            raise AdmissionError(message) from error
        if (review.api_version, review.kind) != (_VERSION, _KIND):
            message = f"the body is no {_KIND} of {_VERSION}"
            raise AdmissionError(message)
        fields = {name: getattr(review.request, name) for name in _Request.__struct_fields__}
        request = AdmissionRequest(**fields | {name: _sent(fields[name], cuts) for name in _OBJECTS})
        request.__dict__["sent_body"] = body
        return cls(request)

    def answer(self, verdict: AdmissionResponse) -> bytes:
        """Return the answer, as JSON."""
        response: Json = {"uid": self.request.uid, "allowed": verdict.allowed}
        if not verdict.allowed or verdict.message:
            code = HTTPStatus.OK if verdict.allowed else verdict.code
            response["status"] = {"message": verdict.message, "code": int(code)}
        if verdict.warnings:
            response["warnings"] = verdict.warnings
        if verdict.patch and verdict.allowed:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(_encode(verdict.patch)).decode()
        return _encode({"apiVersion": _VERSION, "kind": _KIND, "response": response})


_NULL: Final = msgspec.Raw(b"null")
_OBJECTS: Final = ("object", "old_object", "options")


class _Request(msgspec.Struct, frozen=True, rename="camel"):
    """An AdmissionRequest on the wire."""

    uid: str
    kind: GroupVersionKind
    resource: GroupVersionResource
    operation: str
    name: str = ""
    namespace: str = ""
    sub_resource: str = ""
    request_kind: GroupVersionKind | None = None
    request_resource: GroupVersionResource | None = None
    request_sub_resource: str = ""
    user_info: UserInfo = UserInfo()
    object: msgspec.Raw = _NULL
    old_object: msgspec.Raw = _NULL
    options: msgspec.Raw = _NULL
    dry_run: bool | None = None


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    request: _Request


_decode = msgspec.json.Decoder(_Review).decode
_decode_tree = msgspec.json.Decoder(Json).decode
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class RawObject:
    """An undecoded JSON object, with the parts that were cut out because they are nested too deeply."""

    text: msgspec.Raw
    cuts: Cuts

    @property
    def size(self) -> int:
        """Its size on the wire in bytes, without the parts that were cut out."""
        return memoryview(self.text).nbytes

    def tree(self) -> Json:
        """Decode the object.

        Raises:
            AdmissionError: the text is no JSON.
        """
        collects = gc.isenabled()
        gc.disable()  # otherwise it would visit a growing large tree again and again, and find nothing
        try:
            found = _decode_tree(self.text)
        except msgspec.MsgspecError as error:
            message = "an object of the review is no JSON"
            raise AdmissionError(message) from error
        finally:
            if collects:
                gc.enable()
        return restore(found, self.cuts) if self.cuts else found

    def field(self, name: str) -> bytes:
        """Return the text of a field, empty if there is none. In one review, equal texts are equal values."""
        try:
            return bytes(_decode_fields(self.text).get(name, b""))
        except msgspec.MsgspecError:
            return b""


def _sent(text: msgspec.Raw, cuts: Cuts) -> RawObject | None:
    first = bytes(memoryview(text)[:1])
    if first == b"{":
        return RawObject(text, cuts)
    if first == b"n":
        return None
    message = "the body is no AdmissionReview: its object is no JSON object"
    raise AdmissionError(message)


@dataclass(frozen=True, slots=True)
class AdmissionResponse:
    """The decision of a step. ``code`` is the HTTP status of a refusal, as the client of the API server sees it.

    ``warnings`` reach the client whether the request is allowed or refused (keep each below 120 characters). ``patch``
    is a JSON patch (RFC 6902), as operations.
    """

    allowed: bool = True
    message: str = ""
    warnings: tuple[str, ...] = ()
    patch: tuple[Json, ...] = ()
    code: int = HTTPStatus.FORBIDDEN


def json_patch(before: Json, after: Json, path: str = "") -> Iterator[Json]:
    """Yield the operations of RFC 6902 that turn one object into the other; a changed list is replaced as a whole."""
    for name in sorted(before.keys() | after.keys()):
        place = path + pointer((name,))
        if name not in after:
            yield {"op": "remove", "path": place}
        elif name not in before:
            yield {"op": "add", "path": place, "value": after[name]}
        elif isinstance(before[name], dict) and isinstance(after[name], dict):
            yield from json_patch(before[name], after[name], place)
        elif not same(before[name], after[name]):
            yield {"op": "replace", "path": place, "value": after[name]}
