"""Typed shapes of the objects that a migration reads and the patches that it writes: only metadata is decoded."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from restow.kube.resources import qualified_name
from restow.migrator.ownership.entries import ManagedFieldsEntry


class OwnerReference(msgspec.Struct, frozen=True):
    """An ownerReference: which object owns this one."""

    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class Meta(msgspec.Struct, frozen=True):
    """The part of an object's metadata that a migration reads."""

    name: str
    uid: str
    resource_version: str = msgspec.field(name="resourceVersion")
    namespace: str = ""
    generation: int = 0
    deletion_time: str = msgspec.field(name="deletionTimestamp", default="")
    managed_fields: tuple[ManagedFieldsEntry, ...] = msgspec.field(name="managedFields", default=())
    owner_references: tuple[OwnerReference, ...] = msgspec.field(name="ownerReferences", default=())

    @property
    def key(self) -> str:
        """``namespace/name``, or the name of a cluster-scoped object."""
        return qualified_name(self.namespace, self.name)


class PartialObject(msgspec.Struct, frozen=True):
    """An object of which only the metadata was decoded."""

    metadata: Meta


class PageMeta(msgspec.Struct, frozen=True):
    """``ListMeta``: the continue token of a list, and what remains.

    The resourceVersion is empty in lists of an aggregated API that stores nothing, such as metrics.k8s.io.
    """

    resource_version: str = msgspec.field(name="resourceVersion", default="")
    continue_: str = msgspec.field(name="continue", default="")
    remaining: int | None = msgspec.field(name="remainingItemCount", default=None)


class ObjectPage(msgspec.Struct, frozen=True):
    """One page of a list, metadata decoded; the server writes an empty page as ``"items": null``.

    A page has the field in any case. Other JSON, such as a ``v1.Status`` of a proxy, must not decode as a list without
    objects.
    """

    metadata: PageMeta
    items: list[PartialObject] | None


class WholePage(msgspec.Struct, frozen=True):
    """One page of a list, its objects untouched."""

    metadata: PageMeta
    items: list[msgspec.Raw] | None


page_decoder = msgspec.json.Decoder(ObjectPage)
whole_page_decoder = msgspec.json.Decoder(WholePage)
object_decoder = msgspec.json.Decoder(PartialObject)
whole_object_decoder = msgspec.json.Decoder(dict)


class _PatchMeta(msgspec.Struct, frozen=True, omit_defaults=True):
    resource_version: str = msgspec.field(name="resourceVersion")
    managed_fields: Sequence[ManagedFieldsEntry] | None = msgspec.field(name="managedFields", default=None)
    name: str = ""
    uid: str = ""


class _Patch(msgspec.Struct, frozen=True, omit_defaults=True):
    metadata: _PatchMeta
    api_version: str = msgspec.field(name="apiVersion", default="")
    kind: str = ""


_encoder = msgspec.json.Encoder()
_RESET = (ManagedFieldsEntry(),)


def combined_patch(resource_version: str, entries: Sequence[ManagedFieldsEntry]) -> bytes:
    """Return the merge patch that re-encodes an object and gives it these managedFields.

    The server reads an empty list as "no change", and ``[{}]`` as a reset.
    """
    return _encoder.encode(_Patch(_PatchMeta(resource_version, managed_fields=entries or _RESET)))


def empty_patch(resource_version: str) -> bytes:
    """Return the merge patch that only re-encodes, for objects without managedFields."""
    return _encoder.encode(_Patch(_PatchMeta(resource_version)))


def identity_apply(api_version: str, kind: str, meta: Meta) -> bytes:
    """Return the server-side apply that only re-encodes.

    If the object is gone or was created again, uid and resourceVersion make the apply fail (409), not create it.
    """
    about = _PatchMeta(meta.resource_version, name=meta.name, uid=meta.uid)
    return _encoder.encode(_Patch(about, api_version=api_version, kind=kind))
