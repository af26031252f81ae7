"""managedFields entries: their identity on the server, merging and comparing them, and limiting their size.

The server keeps one entry per identity (manager, operation, subresource, and apiVersion for Update only). If a request
names an identity twice, the server silently keeps the last entry. Therefore restow merges entries that become identical
before it sends them.

If etcd refuses an object as too large, the API server stores the object without any managedFields, unless the write is
a server-side apply (``finishRequest`` of its ``handlers``, on "request is too large"). The answer does not show this,
and a dry run does not reach etcd. Therefore restow sends the list of a large object in no more bytes than before. It
removes times of entries, the only part on which no ownership depends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import eq
from typing import Any

import msgspec

from restow.crds import fieldpath

FIELD_MANAGER = "restow-migrator"
"""The field manager of writes to objects; not the one from restow's User-Agent, which an embedder may use too."""

_BEFORE_FIRST_APPLY = "before-first-apply"
LEFT_BEHIND = frozenset({FIELD_MANAGER, _BEFORE_FIRST_APPLY})
"""Managers of entries that a run may have left; ``left_behind`` tells which of them it did leave."""

Identity = tuple[str, str, str, str]

_OPERATIONS = ("Apply", "Update")
_NOTHING = msgspec.Raw(b"{}")


class ManagedFieldsEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One ``metadata.managedFields`` entry; ``fields`` stays undecoded, because it is most of an object's metadata.

    The encoded entry omits an absent time or subresource: in a merge patch a null would be a deletion.
    """

    manager: str = ""
    operation: str = ""
    api_version: str = msgspec.field(name="apiVersion", default="")
    time: str = ""
    fields_type: str = msgspec.field(name="fieldsType", default="")
    fields: msgspec.Raw = msgspec.field(name="fieldsV1", default=_NOTHING)
    subresource: str = ""


def identity(entry: ManagedFieldsEntry) -> Identity:
    """Return the parts of an entry by which the server identifies it."""
    version = entry.api_version if entry.operation == "Update" else ""
    return (entry.manager, entry.operation, entry.subresource, version)


def corrupt(entries: Sequence[ManagedFieldsEntry]) -> frozenset[int]:
    """Return the indices of entries that the API server cannot read; one of them makes the next write drop all others.

    API servers do not write such entries, but a restored or edited etcd may contain them. Source:
    ``decodeManagedFields`` of apimachinery's ``managedfields``.
    """
    return frozenset(place for place, entry in enumerate(entries) if not is_readable(entry))


def is_readable(entry: ManagedFieldsEntry) -> bool:
    """Return whether the API server can read an entry; see ``corrupt``."""
    told = entry.operation in _OPERATIONS and entry.fields_type == "FieldsV1" and entry.api_version
    return bool(told) and fieldpath.is_readable(entry.fields)


def readable(entries: Sequence[ManagedFieldsEntry]) -> tuple[ManagedFieldsEntry, ...]:
    """Return the entries that the API server can read."""
    unreadable = corrupt(entries)
    return tuple(entry for place, entry in enumerate(entries) if place not in unreadable)


def merge(entries: Iterable[ManagedFieldsEntry]) -> tuple[ManagedFieldsEntry, ...]:
    """Merge entries of one identity: the union of their field sets, the newest time, the place of the first one.

    The server writes RFC 3339 times in UTC, which can be compared as text.
    """
    merged: dict[Identity, ManagedFieldsEntry] = {}
    for entry in entries:
        key = identity(entry)
        earlier = merged.get(key)
        merged[key] = entry if earlier is None else _merge_two(earlier, entry)
    return tuple(merged.values())


def _merge_two(one: ManagedFieldsEntry, other: ManagedFieldsEntry) -> ManagedFieldsEntry:
    return msgspec.structs.replace(
        one,
        api_version=other.api_version,
        time=max(one.time, other.time),
        fields=fieldpath.encode(fieldpath.union(fieldpath.decode(one.fields), fieldpath.decode(other.fields))),
    )


def left_behind(entries: Sequence[ManagedFieldsEntry]) -> frozenset[int]:
    """Return the indices of restow's own entries, left by a run that ended before it could remove them.

    A write that persists a default leaves an entry of restow's field manager. On an object without managedFields, an
    empty apply leaves ``before-first-apply`` as the only entry; an apply by another client leaves an entry of that
    client too.
    """
    if all(entry.manager not in LEFT_BEHIND for entry in entries):
        return frozenset()
    ours = frozenset(
        place
        for place, entry in enumerate(entries)
        if entry.manager == FIELD_MANAGER and entry.operation == "Update" and not entry.subresource
    )
    others = {entry.manager for place, entry in enumerate(entries) if place not in ours}
    return frozenset(range(len(entries))) if others == {_BEFORE_FIRST_APPLY} else ours


def same_ownership(meant: Sequence[ManagedFieldsEntry], found: Sequence[ManagedFieldsEntry]) -> bool:
    """Return whether both lists give every manager the same fields at the same version; ignore order and times."""
    if len(meant) != len(found):
        return False
    if all(map(eq, meant, found)):
        return True
    by_identity = {identity(entry): entry for entry in found}
    for entry in meant:
        other = by_identity.get(identity(entry))
        if other is None or other.api_version != entry.api_version or not fieldpath.equal(entry.fields, other.fields):
            return False
    return True


def seed(like: ManagedFieldsEntry, api_version: str) -> ManagedFieldsEntry:
    """Return the entry to write if all others had to be removed.

    Without any entry the next server-side apply would assign all fields to ``before-first-apply``, and no manager could
    remove one of its fields again (Kubernetes issue 99003). The seed names only ``metadata.name``; the manager's next
    apply replaces it.
    """
    return msgspec.structs.replace(
        like,
        operation=like.operation if like.operation in _OPERATIONS else "Update",
        api_version=api_version,
        fields_type="FieldsV1",
        fields=fieldpath.encode(fieldpath.METADATA_NAME),
    )


LARGE = 1 << 20
"""Bytes from which an object is large: two thirds of etcd's default limit. The list of a smaller object would have to
grow by half a MiB before the server drops it."""

ETCD_TAKES = 1_572_864 - 2048
"""Bytes of an object that etcd accepts by default (``--max-request-bytes``), without its key and the rest of the
request."""

_TIME = len('"time":"",')


def size_of(obj: Mapping[str, Any]) -> int:
    """Return the size of an object in bytes, as the server stores it."""
    return len(_encoder.encode(obj))


def growth(before: Sequence[ManagedFieldsEntry], after: Sequence[ManagedFieldsEntry]) -> int:
    """Return by how many bytes ``after`` is longer than ``before``, as the server stores them."""
    return _weight(after) - _weight(before)


def fitted(
    before: Sequence[ManagedFieldsEntry], after: Sequence[ManagedFieldsEntry], room: int = 0
) -> tuple[ManagedFieldsEntry, ...]:
    """Return a list that is no longer than another one, by removing times, the oldest first.

    Args:
        before: the stored list.
        after: the list to send.
        room: the bytes by which it may be longer; negative if the rest of the object grows.
    """
    over = growth(before, after) - room
    fitting = list(after)
    for place in sorted(range(len(after)), key=lambda place: after[place].time):
        if over <= 0:
            break
        if time := after[place].time:
            fitting[place] = msgspec.structs.replace(after[place], time="")
            over -= len(time) + _TIME
    return tuple(fitting)


def without_times(entries: Sequence[ManagedFieldsEntry]) -> tuple[ManagedFieldsEntry, ...]:
    """Return a list without times, the shortest form that keeps every owner."""
    return tuple(msgspec.structs.replace(entry, time="") for entry in entries)


def _weight(entries: Sequence[ManagedFieldsEntry]) -> int:
    return len(_encoder.encode(entries)) if entries else 1  # the first entry adds no comma to "[]"


_encoder = msgspec.json.Encoder()
