"""Find objects whose ownerReferences name a version of a CRD, in all resources of the cluster.

The garbage collector looks an owner up at the apiVersion that the reference names, and takes the owner for gone where
that version is not served. ``find_owner_references`` reads the discovery documents, then the metadata of all resources
that the garbage collector follows, page by page, a handful of lists at a time. It counts, keeps a few names, and
reports what it could not look at.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import ApiError, KubeError
from restow.kube.resources import Resource, qualified_name
from restow.kube.retry import RetryingCluster, jittered, without_retries
from restow.migrator.decide.errortable import ErrorAction, of_list_error
from restow.migrator.model.report import Requests
from restow.migrator.requests.lister import ListFailed, list_objects
from restow.migrator.requests.passes import LONGEST_WAIT
from restow.migrator.requests.preflight import Permission, missing
from restow.migrator.requests.stop import RunStop
from restow.migrator.requests.wire import Meta

__all__ = [
    "CORE",
    "MOST_EXAMPLES",
    "Group",
    "Groups",
    "Listing",
    "NotLookedAt",
    "OwnerVersion",
    "ReferenceTally",
    "Referring",
    "VersionReferences",
    "against",
    "find_owner_references",
    "followed",
    "groups_decoder",
    "listing_decoder",
    "not_looked_at",
    "resources_path",
]


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


MOST_EXAMPLES = 3
"""Objects of each resource that are named; all are counted."""

_MOST_NAMED = 8
"""Resources that a sentence names; the JSON has all."""


@dataclass(frozen=True, slots=True)
class OwnerVersion:
    """What an ownerReference says of its owner but the name: ``OwnerVersion("example.com/v1", "Widget")``."""

    api_version: str
    kind: str


@dataclass(frozen=True, slots=True)
class Referring:
    """The objects of one resource that name an owner.

    Attributes:
        resource: ``deployments.apps``.
        count: how many objects.
        examples: some of them, ``namespace/name``.
    """

    resource: str
    count: int
    examples: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return an item of ``dependents`` in the JSON of ``restow ready``."""
        return {"resource": self.resource, "count": self.count, "examples": list(self.examples)}

    def __str__(self) -> str:
        return f"{self.resource}: {self.count}, for example {', '.join(self.examples)}"


@dataclass(frozen=True, slots=True, order=True)
class NotLookedAt:
    """A resource whose objects could not be listed, or a path of discovery that could not be read.

    Attributes:
        resource: ``deployments.apps``, or ``/apis/metrics.k8s.io/v1beta1``.
        reason: why, in words.
    """

    resource: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return an item of ``notLookedAt`` in the JSON of ``restow ready``."""
        return {"resource": self.resource, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class VersionReferences:
    """The objects that name one owner, by resource; and where objects may name it that were not looked at."""

    found: tuple[Referring, ...] = ()
    not_looked_at: tuple[NotLookedAt, ...] = ()

    @property
    def count(self) -> int:
        """How many objects."""
        return sum(each.count for each in self.found)


@dataclass(slots=True)
class _Counted:
    count: int = 0
    examples: list[str] = field(default_factory=list)


class ReferenceTally:
    """Counts the objects that name any of some owners, over any number of objects in a bounded space."""

    def __init__(self, owners: Collection[OwnerVersion]) -> None:
        self._counted: dict[OwnerVersion, dict[str, _Counted]] = {owner: {} for owner in owners}

    def add(self, resource: str, meta: Meta) -> None:
        """Count one object; one that names an owner twice counts once."""
        for owner in {OwnerVersion(each.api_version, each.kind) for each in meta.owner_references}:
            if (by_resource := self._counted.get(owner)) is None:
                continue
            counted = by_resource.setdefault(resource, _Counted())
            counted.count += 1
            if len(counted.examples) < MOST_EXAMPLES:
                counted.examples.append(qualified_name(meta.namespace, meta.name))

    def dependents(self, unseen: Iterable[NotLookedAt]) -> dict[OwnerVersion, VersionReferences]:
        """Return what was counted, of each owner; resources in the order of their names."""
        missed = tuple(sorted(set(unseen)))
        return {
            owner: VersionReferences(
                tuple(
                    Referring(resource, counted.count, tuple(counted.examples))
                    for resource, counted in sorted(by_resource.items())
                ),
                missed,
            )
            for owner, by_resource in self._counted.items()
        }


def against(crd: Crd, version: str, dependents: VersionReferences) -> str:
    """Say why a version must stay served while objects name their owner by it; an empty string where none does."""
    if not dependents.found:
        return ""
    count = dependents.count
    have = f"{count} objects have" if count > 1 else "1 object has"
    head = f"{have} ownerReferences at {crd.group}/{version} ({_listed(map(str, dependents.found), '; ')})"
    to = _other(crd, version)
    write = f"Write these references at {to}, with the same uid" if to else "Serve another version to write them at"
    if version in crd.served:
        return (
            f"{head}: the garbage collector looks for an owner at the version that the reference names. Once {version} "
            "is not served, it no longer deletes these objects with their owner, and for about half a minute it "
            f"deletes objects that are created with such a reference although their owner exists. {write}, before "
            f"{version} is unserved"
        )
    return (
        f"{head}: {version} is not served, so the garbage collector does not find the owner, and does not delete "
        f"these objects with it. {write}"
    )


def not_looked_at(crd: Crd, version: str, dependents: VersionReferences) -> str:
    """Say which resources may hold more such objects; an empty string where all were looked at."""
    if not dependents.not_looked_at:
        return ""
    by_reason: dict[str, list[str]] = {}
    for each in dependents.not_looked_at:
        by_reason.setdefault(each.reason, []).append(each.resource)
    parts = [f"{_listed(names, ', ')} ({reason})" for reason, names in by_reason.items()]
    return (
        f"restow has not looked for ownerReferences at {crd.group}/{version} everywhere, so there may be more of them. "
        f"Not looked at: {_listed(parts, '; ')}"
    )


def _other(crd: Crd, version: str) -> str:
    """The version to write references at: that of storage if it is served and stays, else another served one."""
    others = [name for name in crd.served if name != version]
    return crd.storage.name if crd.storage.name in others else next(iter(others), "")


def _listed(parts: Iterable[str], between: str) -> str:
    every = list(parts)
    more = len(every) - _MOST_NAMED
    return between.join(every[:_MOST_NAMED]) + (f"{between}and {more} more" if more > 0 else "")


_T = TypeVar("_T")

_AT_ONCE = 6
"""Lists in flight: others use the API server too."""

_PAGE = 250
"""Objects in a page, of which each may cost a conversion."""

_ATTEMPTS = 4
"""Tries of one request: what still fails then, an aggregated API or a conversion, is down for longer than one waits."""

_ALL = Resource("*", "*", "*", namespaced=False)
_NOT_ALLOWED = "not allowed to list it"


async def find_owner_references(
    cluster: Cluster, owners: Collection[OwnerVersion]
) -> dict[OwnerVersion, VersionReferences]:
    """Find the objects whose ownerReferences name any of some owners, in one pass over all objects of the cluster.

    Looked at are all resources that the garbage collector follows, so all but Events, each at the preferred version of
    its group.

    No error of the API server is raised: what it hides is among what was not looked at.
    """
    search = _ReferenceSearch(cluster, ReferenceTally(owners))
    await search.run()
    return search.tally.dependents(search.unseen)


class _ReferenceSearch:
    def __init__(self, cluster: Cluster, tally: ReferenceTally) -> None:
        self._cluster = without_retries(
            cluster
        )  # of many documents and lists some may well be missing: few tries of each
        self._random = random.Random()
        self._ask_for_each = False
        self.tally = tally
        self.unseen: list[NotLookedAt] = []

    async def run(self) -> None:
        resources = await self._discover()
        self._ask_for_each = not await self._allowed(_ALL)
        await _each(resources, self._look_at)

    async def _discover(self) -> list[Resource]:
        found = await self._document("/apis", groups_decoder)
        groups = (CORE, *(() if found is None else found.groups))
        listings: dict[tuple[str, str], Listing] = {}

        async def read(of: tuple[str, str]) -> None:
            if (listing := await self._document(resources_path(*of), listing_decoder)) is not None:
                listings[of] = listing

        asked = [(group.name, version) for group in groups for version in group.ordered]
        await _each(asked, read)
        return list(followed((*of, listings[of]) for of in asked if of in listings))

    async def _document(self, path: str, decoder: msgspec.json.Decoder[_T]) -> _T | None:
        """Read a discovery document; what cannot be read is noted."""
        for attempt in itertools.count(1):
            try:
                return (await self._cluster.discover(path)).decode(decoder)
            except KubeError as error:
                outcome = of_list_error(error, attempt=attempt)
                if outcome.action is not ErrorAction.RETRY or attempt == _ATTEMPTS:
                    self._missed(path, error)
                    break
                await asyncio.sleep(self._jitter(outcome.wait))
        return None

    async def _allowed(self, resource: Resource) -> bool:
        """Whether the user may list a resource; so also where the API server does not say."""
        try:
            return not await missing(RetryingCluster(self._cluster, patience_s=0.0), [Permission(resource, "list")])
        except KubeError:
            return True

    async def _look_at(self, resource: Resource) -> None:
        try:
            # Asked first: a refused list is tried several times, as if the API server had just started.
            if self._ask_for_each and not await self._allowed(resource):
                self.unseen.append(NotLookedAt(resource.full_name, _NOT_ALLOWED))
                return
            async for page in list_objects(
                self._cluster,
                resource,
                page_size=_PAGE,
                requests=Requests(),
                stop=RunStop(),
                jitter=self._jitter,
                attempts=_ATTEMPTS,
            ):
                for meta, _live in page.items:
                    self.tally.add(resource.full_name, meta)
        except (KubeError, ListFailed) as error:
            self._missed(resource.full_name, error)

    def _missed(self, what: str, error: Exception) -> None:
        cause = error.__cause__ if isinstance(error, ListFailed) else error
        reason = f"{cause.status}: {cause.said}" if isinstance(cause, ApiError) else str(cause or error)
        self.unseen.append(NotLookedAt(what, " ".join(reason.split())))

    def _jitter(self, seconds: float) -> float:
        return min(LONGEST_WAIT, jittered(seconds, self._random))


async def _each(items: Iterable[_T], do: Callable[[_T], Awaitable[None]]) -> None:
    """Do something with each, a handful at a time."""
    rest = iter(items)

    async def work() -> None:
        for item in rest:
            await do(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(work())
