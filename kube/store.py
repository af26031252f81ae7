"""The informer: keeps all objects of some resources in memory, one watch for each, and serves every reader from there.

An ``Informer`` is a ``Cluster``. Controllers run on it as on the API server, and read objects without a request. It
guarantees:

- a store has an object before a controller is notified of it;
- a store has the result of a write through the informer before the write returns, so a reconciler never acts on an
  object older than its own last write;
- requests for anything that is not in memory go to the API server. ``get`` always reads from the API server, for
  decisions that need the current object.

A ``Store`` has all objects of one resource, indexed, and the last changes. It does no I/O and never waits. Its laws:

- a reader learns of a change only after the store has it;
- an older object never replaces a newer one of the same uid: the results of our own writes may be ahead of the watch
  (since Kubernetes 1.35 resourceVersions may be compared as numbers, KEP-5504; with etcd they always were numbers);
- an object that is nested too deeply to be decoded is in no store, and an error in the log names it;
- an update that does not change the kept part of an object is not a change, and readers do not see it;
- after a gap, or when a reader is too far behind, the reader has to list again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.cluster import Cluster, Reply, Request
from restow.kube.errors import TooDeep, api_error, first_error
from restow.kube.listwatch import Key, Selection, key_of, watch_parts
from restow.kube.resources import Object, Resource
from restow.kube.watchevents import Added, Bookmark, Deleted, Item, Listed, ListedPart, Modified, WatchEvent

_log = logging.getLogger(__name__)

_KEPT_CHANGES = 4096


class TooOld(Exception):
    """The store no longer has the changes that a reader asked for."""


@dataclass(frozen=True, slots=True)
class StoreChange:
    """One change of a store.

    Attributes:
        type: ADDED, MODIFIED or DELETED.
        obj: the object after the change; for DELETED the last state.
        version: the resourceVersion of the change.
    """

    type: str
    obj: Object
    version: str


def _no_index(_obj: Object) -> Hashable:
    return None


class Store:
    """The objects of one resource.

    Args:
        transform: returns the part of an object to keep; at least its name, namespace, uid and resourceVersion.
        index_by: returns the index value of an object, by which ``by_index`` finds it.
        kept_changes: the number of changes kept for readers. Each keeps an object in memory, so use fewer for large
            objects; a reader that is further behind lists again, which costs no request.
    """

    def __init__(
        self,
        transform: Callable[[Object], dict[str, Any]],
        index_by: Callable[[Object], Hashable] = _no_index,
        *,
        kept_changes: int = _KEPT_CHANGES,
    ) -> None:
        self._transform = transform
        self._index_by = index_by
        self._objects: dict[Key, Object] = {}
        self._indexed: dict[Hashable, dict[Key, Object]] = {}
        self._changes: deque[StoreChange] = deque(maxlen=kept_changes)
        self._position = 0
        self._gap = 0
        self._listed = ""
        self._parts: list[dict[str, Any]] = []
        self.version = ""

    @property
    def position(self) -> int:
        """The number of changes so far."""
        return self._position

    def get(self, key: Key) -> Object | None:
        """Return an object, or None if the store does not have it."""
        return self._objects.get(key)

    def all(self) -> list[Object]:
        """Return all objects."""
        return list(self._objects.values())

    def by_index(self, value: Hashable) -> list[Object]:
        """Return the objects with an index value."""
        return list(self._indexed.get(value, {}).values())

    def apply(self, event: WatchEvent | ListedPart) -> bool:
        """Apply an event of a watch; return whether readers have to be notified."""
        match event:
            case ListedPart():
                return self._list_part(event)
            case Listed(items=items, resource_version=version):
                self._list(self._transformed(items), version)
                return True
            case Added(item=item) | Modified(item=item):
                kept = self._read(item)
                return self._put(kept) if kept is not None else self._leave_out(item)
            case Deleted(item=item):
                kept = self._read(item)
                return self._remove(kept) if kept is not None else self._leave_out(item)
            case Bookmark():
                return False

    def apply_write(self, obj: Object) -> bool:
        """Apply the result of a write before its event arrives; return whether readers have to be notified.

        The store does not add an object that it no longer has: its Deleted event arrived before the reply.
        """
        kept = self._transform(obj)
        known = self._objects.get(_key(kept))
        return known is not None and _uid(known) == _uid(kept) and self._put(kept)

    def since(self, version: str) -> int:
        """Return the position that a reader at a resourceVersion has reached.

        Raises:
            TooOld: the store no longer has the changes after this resourceVersion, or never had it.
        """
        if version == self.version:
            return self._position
        for back, change in enumerate(reversed(self._changes)):
            if change.version == version:
                return self._position - back
        if version == self._listed:
            return self._gap
        raise TooOld

    def changes(self, position: int) -> Iterator[StoreChange]:
        """Return the changes after a position.

        Raises:
            TooOld: the store no longer has all of them.
        """
        behind = self._position - position
        if position < self._gap or behind > len(self._changes):
            raise TooOld
        return islice(self._changes, len(self._changes) - behind, None)

    def _transformed(self, items: Iterable[Item]) -> Iterator[dict[str, Any]]:
        return (kept for item in items if (kept := self._read(item)) is not None)

    def _read(self, item: Item) -> dict[str, Any] | None:
        """Return the kept part of an object; None if it cannot be decoded."""
        try:
            return self._transform(item.json())
        except TooDeep as error:
            _log.error("%s. Until then it counts as deleted", error)
            return None

    def _leave_out(self, item: Item) -> bool:
        """Remove an object whose new state cannot be decoded, as if it were deleted."""
        known = self._objects.get(key_of(item))
        if known is None:
            return False
        metadata = known["metadata"] | {"resourceVersion": item.metadata.resource_version}
        return self._remove({**known, "metadata": metadata})

    def _list_part(self, part: ListedPart) -> bool:
        if part.first:
            self._parts = []
        self._parts += self._transformed(part.items)
        if part.last:
            listed, self._parts = self._parts, []
            self._list(listed, part.resource_version)
        return part.last

    def _list(self, listed: Iterable[dict[str, Any]], version: str) -> None:
        before, self._objects, self._indexed = self._objects, {}, {}
        for obj in listed:
            known = before.get(_key(obj))
            self._store(known if known is not None and not _is_newer(obj, known) else obj)
        self._changes.clear()
        self._position += 1  # readers from before the gap must list again
        self._gap = self._position
        self._listed = self.version = version

    def _put(self, obj: dict[str, Any]) -> bool:
        known = self._objects.get(_key(obj))
        if known is not None and not _is_newer(obj, known):
            return False
        self._store(obj)
        if known is not None and _without_version(known) == _without_version(obj):
            return False
        self._record("ADDED" if known is None else "MODIFIED", obj)
        return True

    def _remove(self, obj: dict[str, Any]) -> bool:
        known = self._objects.pop(_key(obj), None)
        if known is not None:
            self._indexed[self._index_by(known)].pop(_key(known))
        self._record("DELETED", obj)
        return True

    def _store(self, obj: Object) -> None:
        key = _key(obj)
        known = self._objects.get(key)
        if known is not None:
            members = self._indexed[self._index_by(known)]
            members.pop(key)
        self._objects[key] = obj
        self._indexed.setdefault(self._index_by(obj), {})[key] = obj

    def _record(self, what: str, obj: Object) -> None:
        self.version = _version(obj)
        self._changes.append(StoreChange(what, obj, self.version))
        self._position += 1


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


_GONE = 410
_encode = msgspec.json.Encoder().encode


class Informer(Cluster):
    """A ``Cluster`` that answers lists and watches of some resources from memory.

    ::

        store = Store(dict, index_by=lambda obj: obj["metadata"]["namespace"])
        informer = Informer(cluster, {CONFIG_MAPS: store})
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(informer.run())
            await informer.wait_for_sync()
            tasks.create_task(Controller(informer, CONFIG_MAPS, reconcile).run())

    Args:
        cluster: the API server.
        stores: a store for each resource to keep in memory: its objects of all namespaces, without selectors.
        clock: gives ``monotonic`` and ``sleep``.
        chance: random numbers from [0, 1).
    """

    def __init__(
        self,
        cluster: Cluster,
        stores: Mapping[Resource, Store],
        *,
        clock: Clock = SYSTEM_CLOCK,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._cluster = cluster
        self._stores = stores
        self._clock = clock
        self._chance = chance
        self._synced = {resource: asyncio.Event() for resource in stores}
        self._changed = {resource: asyncio.Event() for resource in stores}

    async def run(self) -> None:
        """Keep the stores current until cancelled.

        Raises:
            KubeError: a resource cannot be watched: it is not served (404), RBAC (403), credentials (401); see
                ``watch`` for when.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for resource in self._stores:
                    group.create_task(self._follow(resource), name=f"informer of {resource.full_name}")
        except BaseExceptionGroup as failures:
            raise first_error(failures) from None

    async def wait_for_sync(self) -> None:
        """Wait until every resource has been listed once."""
        for synced in self._synced.values():
            await synced.wait()

    async def _follow(self, resource: Resource) -> None:
        store, synced = self._stores[resource], self._synced[resource]
        async with watch_parts(self._cluster, Selection(resource), clock=self._clock, chance=self._chance) as events:
            async for event in events:
                if store.apply(event):
                    self._notify(resource)
                    synced.set()

    def _notify(self, resource: Resource) -> None:
        changed, self._changed[resource] = self._changed[resource], asyncio.Event()
        changed.set()

    @property
    def host(self) -> str:
        """The server's URL."""
        return self._cluster.host

    @property
    def default_namespace(self) -> str:
        """The namespace of the kubeconfig's context, or of the pod."""
        return self._cluster.default_namespace

    def at(self, host: str = "", server_name: str = "") -> AbstractAsyncContextManager[Cluster]:
        """Open the API server through a separate connection."""
        return self._cluster.at(host, server_name)

    async def send(self, request: Request) -> Reply:
        """List from memory, in one page; send everything else to the API server.

        The store has the result of an update or a patch when this returns, unless the reply has only the metadata.
        """
        resource = request.resource
        if resource is None or (store := self._stores.get(resource)) is None:
            return await self._cluster.send(request)
        if request.verb == "list" and not request.as_table and _is_whole(request):
            await self._synced[resource].wait()
            items = [_view(obj, request) for obj in store.all()]
            return Reply(_encode({"metadata": {"resourceVersion": store.version}, "items": items}))
        reply = await self._cluster.send(request)
        stored = request.verb in ("update", "patch") and "dryRun" not in (request.params or {})
        if stored and not request.metadata_only and store.apply_write(reply.json()):
            self._notify(resource)
        return reply

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Watch the stores; watch other resources, one namespace and selections on the API server."""
        resource = request.resource
        if resource is None or resource not in self._stores or not _is_whole(request):
            return self._cluster.stream(request)
        return aclosing(self._lines(resource, request))

    async def _lines(self, resource: Resource, request: Request) -> AsyncGenerator[bytes, None]:
        store, params, loop = self._stores[resource], request.params or {}, asyncio.get_running_loop()
        end = loop.time() + float(params["timeoutSeconds"])
        try:
            position = store.since(params["resourceVersion"])
            while True:
                changed = self._changed[resource]
                changes, position = list(store.changes(position)), store.position
                for change in changes:
                    yield _encode({"type": change.type, "object": _view(change.obj, request)})
                if store.position == position and not await _wait_for_change(changed, end):
                    return
        except TooOld as error:
            raise api_error(status=_GONE, body=b"", headers={}, verb="watch", target=request.target) from error


async def _wait_for_change(changed: asyncio.Event, end: float) -> bool:
    """Wait for a change; return False if the time ends first."""
    try:
        async with asyncio.timeout_at(end):
            await changed.wait()
    except TimeoutError:
        return False
    return True


def _is_whole(request: Request) -> bool:
    """Whether a list or watch is of all objects: of all namespaces, and without a selector."""
    return request.namespace is None and {"labelSelector", "fieldSelector"}.isdisjoint(request.params or ())


def _view(obj: Object, request: Request) -> Object:
    return {"metadata": obj["metadata"]} if request.metadata_only else obj
