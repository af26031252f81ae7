"""Find the resources of a cluster to search, from its discovery documents.

These are the resources that the garbage collector follows: only they can be dependents, and they include all custom
resources.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Protocol, TypeVar

import msgspec

from restow.kube.resources import Resource

_T = TypeVar("_T")

_AT_ONCE = 6
"""The most requests in flight, because other clients use the API server too."""

_IGNORED = frozenset({("", "events"), ("events.k8s.io", "events")})
"""The resources that the garbage collector ignores (its DefaultIgnoredResources), often most objects of a cluster."""

_FOLLOWED = frozenset({"delete", "list", "watch"})
"""The verbs without which the garbage collector does not follow a resource (its GetDeletableResources)."""


class _Version(msgspec.Struct, frozen=True):
    version: str


class Group(msgspec.Struct, frozen=True):
    """``APIGroup``: a group, its versions in the server's order, and the preferred one."""

    name: str
    versions: tuple[_Version, ...] = ()
    preferred: _Version = msgspec.field(name="preferredVersion", default=_Version(""))

    @property
    def ordered(self) -> list[str]:
        """Return the versions, the preferred one first."""
        names = (self.preferred.version, *(each.version for each in self.versions))
        return [name for name in dict.fromkeys(names) if name]


CORE = Group("", (_Version("v1"),))
"""The group of Pods and Secrets, which ``/apis`` does not list; it has only one version."""


class Groups(msgspec.Struct, frozen=True):
    """``APIGroupList``."""

    groups: tuple[Group, ...] = ()


class _DiscoveredResource(msgspec.Struct, frozen=True):
    name: str
    namespaced: bool = False
    verbs: tuple[str, ...] = ()
    stored_as: str = msgspec.field(name="storageVersionHash", default="")


class Listing(msgspec.Struct, frozen=True):
    """``APIResourceList``: the resources of one version of a group."""

    resources: tuple[_DiscoveredResource, ...] | None = ()


groups_decoder = msgspec.json.Decoder(Groups)
listing_decoder = msgspec.json.Decoder(Listing)


def resources_path(group: str, version: str) -> str:
    """Return the path of the document that lists a version's resources."""
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def followed(documents: Iterable[tuple[str, str, Listing]]) -> Iterator[Resource]:
    """Yield each resource that the garbage collector follows, at the first of its versions.

    Objects that are served in two groups are yielded only in the first one; the server identifies stored objects by a
    hash (``storageVersionHash``). Subresources cannot be listed.

    Args:
        documents: ``(group, version, resources)``, the preferred version of each group first.
    """
    seen: set[tuple[str, str]] = set()
    stored: set[tuple[str, str]] = set()
    for group, version, document in documents:
        for each in document.resources or ():
            what, storage = (group, each.name), (each.name, each.stored_as)
            if "/" in each.name or not set(each.verbs) >= _FOLLOWED or what in _IGNORED:
                continue
            if what in seen or (each.stored_as and storage in stored):
                continue
            seen.add(what)
            stored.add(storage)
            yield Resource(group, version, each.name, namespaced=each.namespaced)


class ReadDocument(Protocol):
    """Reads a discovery document; returns None if it cannot be read."""

    async def __call__(self, path: str, decoder: msgspec.json.Decoder[_T]) -> _T | None:
        """Read the document at a path."""
        ...


async def discover(read: ReadDocument) -> list[Resource]:
    """Return the resources that the garbage collector follows, from all readable discovery documents."""
    found = await read("/apis", groups_decoder)
    groups = (CORE, *(() if found is None else found.groups))
    listings: dict[tuple[str, str], Listing] = {}

    async def of_version(of: tuple[str, str]) -> None:
        if (listing := await read(resources_path(*of), listing_decoder)) is not None:
            listings[of] = listing

    asked = [(group.name, version) for group in groups for version in group.ordered]
    await each_of(asked, of_version)
    return list(followed((*of, listings[of]) for of in asked if of in listings))


async def each_of(items: Iterable[_T], do: Callable[[_T], Awaitable[None]]) -> None:
    """Call a function for each item, with a few calls at a time."""
    rest = iter(items)

    async def work() -> None:
        for item in rest:
            await do(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(work())
