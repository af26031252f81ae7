"""All objects of one resource in memory, and what happened to them last: the bookkeeping of a shared cache.

Laws:

- what a reader of the changes is told of, the shelf has already;
- an object is never replaced by an older one of the same uid: what our own writes returned may be ahead of the watch.
  (Since Kubernetes 1.35 resourceVersions may be compared as numbers, KEP-5504; they always were in etcd.);
- a change that leaves what is kept as it was is no change, and nobody is told of it;
- after a gap, or where a reader is too far behind, the reader has to list anew.

No I/O, and nothing waits in here; the one mutable part is what the name says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from restow.cloudprofile.parts import Object
from restow.kube.sources import Key
from restow.kube.watchevents import Added, Bookmark, Deleted, Listed, Modified, WatchEvent

__all__ = ["Change", "Shelf", "TooOld"]

_REMEMBERED = 4096  # changes; a reader that is further behind lists again, which costs no request


class TooOld(Exception):
    """The changes that were asked for are no longer remembered."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change: ADDED, MODIFIED or DELETED, the object after it (before, if it is gone), its resourceVersion."""

    type: str
    obj: Object
    version: str


def _no_group(_obj: Object) -> Hashable:
    return None


class Shelf:
    """The objects of one resource.

    Args:
        keep: what is kept of an object; at least its name, namespace, uid and resourceVersion.
        group_of: what objects are to be found by, besides their keys.
    """

    def __init__(
        self, keep: Callable[[Object], dict[str, Any]], group_of: Callable[[Object], Hashable] = _no_group
    ) -> None:
        self._keep = keep
        self._group_of = group_of
        self._objects: dict[Key, Object] = {}
        self._groups: dict[Hashable, dict[Key, Object]] = {}
        self._changes: deque[Change] = deque(maxlen=_REMEMBERED)
        self._told = 0
        self._gap = 0
        self._listed = ""
        self.version = ""

    @property
    def told(self) -> int:
        """How many changes there have been."""
        return self._told

    def get(self, key: Key) -> Object | None:
        """Return an object, None if there is none."""
        return self._objects.get(key)

    def all(self) -> list[Object]:
        """Return all objects."""
        return list(self._objects.values())

    def group(self, group: Hashable) -> list[Object]:
        """Return the objects of a group."""
        return list(self._groups.get(group, {}).values())

    def apply(self, event: WatchEvent) -> bool:
        """Take note of an event of a watch; return whether readers are to look."""
        match event:
            case Listed(items=items, resource_version=version):
                self._list((self._keep(item.json()) for item in items), version)
                return True
            case Added(item=item) | Modified(item=item):
                return self._put(self._keep(item.json()))
            case Deleted(item=item):
                return self._remove(self._keep(item.json()))
            case Bookmark():
                return False

    def learn(self, obj: Object) -> bool:
        """Take note of what a write returned, ahead of its event; return whether readers are to look.

        An object that is no longer here is not brought back: its Deleted came before the answer.
        """
        kept = self._keep(obj)
        known = self._objects.get(_key(kept))
        return known is not None and _uid(known) == _uid(kept) and self._put(kept)

    def since(self, version: str) -> int:
        """Return how many changes there had been at a resourceVersion that readers were told.

        Raises:
            TooOld: what is asked for is not kept any more.
        """
        if version == self.version:
            return self._told
        for back, change in enumerate(reversed(self._changes)):
            if change.version == version:
                return self._told - back
        if version == self._listed:
            return self._gap
        raise TooOld

    def changes(self, told: int) -> Iterator[Change]:
        """Return the changes after the first ``told`` ones.

        Raises:
            TooOld: what is asked for is not kept any more.
        """
        behind = self._told - told
        if told < self._gap or behind > len(self._changes):
            raise TooOld
        return islice(self._changes, len(self._changes) - behind, None)

    def _list(self, listed: Iterable[dict[str, Any]], version: str) -> None:
        before, self._objects, self._groups = self._objects, {}, {}
        for obj in listed:
            known = before.get(_key(obj))
            self._store(known if known is not None and not _is_newer(obj, known) else obj)
        self._changes.clear()
        self._told += 1  # readers from before the gap are behind by more than is remembered
        self._gap = self._told
        self._listed = self.version = version

    def _put(self, obj: dict[str, Any]) -> bool:
        known = self._objects.get(_key(obj))
        if known is not None and not _is_newer(obj, known):
            return False
        self._store(obj)
        if known is not None and _without_version(known) == _without_version(obj):
            return False
        self._tell("ADDED" if known is None else "MODIFIED", obj)
        return True

    def _remove(self, obj: dict[str, Any]) -> bool:
        known = self._objects.pop(_key(obj), None)
        if known is not None:
            self._groups[self._group_of(known)].pop(_key(known))
        self._tell("DELETED", obj)
        return True

    def _store(self, obj: Object) -> None:
        key = _key(obj)
        known = self._objects.get(key)
        if known is not None:
            members = self._groups[self._group_of(known)]
            members.pop(key)
        self._objects[key] = obj
        self._groups.setdefault(self._group_of(obj), {})[key] = obj

    def _tell(self, what: str, obj: Object) -> None:
        self.version = _version(obj)
        self._changes.append(Change(what, obj, self.version))
        self._told += 1


def _key(obj: Object) -> Key:
    metadata = obj["metadata"]
    return Key(metadata.get("namespace") or None, metadata["name"])


def _uid(obj: Object) -> str:
    return str(obj["metadata"].get("uid") or "")


def _version(obj: Object) -> str:
    return str(obj["metadata"].get("resourceVersion") or "")


def _is_newer(obj: Object, known: Object) -> bool:
    return _uid(obj) != _uid(known) or int(_version(obj)) > int(_version(known))


def _without_version(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": ""}}
