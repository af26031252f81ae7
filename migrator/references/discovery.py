"""Which resources of a cluster are looked through, read from its discovery documents.

Those that the garbage collector follows: nothing else can be a dependent, and no custom resource is left out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Protocol, TypeVar

import msgspec

from restow.kube.resources import Resource

__all__ = [
    "CORE",
    "Group",
    "Groups",
    "Listing",
    "discover",
    "each_of",
    "followed",
    "groups_decoder",
    "listing_decoder",
    "resources_path",
]

_T = TypeVar("_T")

_AT_ONCE = 6
"""Requests in flight: others use the API server too."""

_IGNORED = frozenset({("", "events"), ("events.k8s.io", "events")})
"""What the garbage collector leaves alone (its DefaultIgnoredResources): most of a cluster's objects, often."""

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
        """The versions, the preferred one first."""
        names = (self.preferred.version, *(each.version for each in self.versions))
        return [name for name in dict.fromkeys(names) if name]


CORE = Group("", (_Version("v1"),))
"""The group of Pods and Secrets, which ``/apis`` does not name; it has had one version for ever."""


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

    Objects that are served under two groups are yielded under the first: the server says by a hash what it stores
    (``storageVersionHash``). Subresources have no list of their own.

    Args:
        documents: ``(group, version, what it lists)``, the preferred version of each group first.
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
    """Reads a discovery document; None where it cannot be read."""

    async def __call__(self, path: str, decoder: msgspec.json.Decoder[_T]) -> _T | None:
        """Read the document at a path."""
        ...


async def discover(read: ReadDocument) -> list[Resource]:
    """Return the resources that the garbage collector follows, from all discovery documents that can be read."""
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
    """Do something with each, a handful at a time."""
    rest = iter(items)

    async def work() -> None:
        for item in rest:
            await do(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(work())
