"""Looking for dependents in all resources of a cluster: metadata only, page by page, a handful of lists at a time.

What cannot be looked at is part of the result: an aggregated API that is down, a right that is missing, or a
conversion that fails hides objects, and must not be taken for "there are none".
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import TypeVar

import msgspec

from restow.kube.cluster import Cluster
from restow.kube.errors import ApiError, KubeError
from restow.kube.resources import Resource
from restow.kube.retry import Patient, bare
from restow.migrator.dependents.found import Dependents, NotLookedAt, Owner, Tally
from restow.migrator.dependents.resources import (
    CORE,
    Listing,
    followed,
    groups_decoder,
    listing_decoder,
    resources_path,
)
from restow.migrator.halt import Halt
from restow.migrator.lister import ListFailed, list_objects
from restow.migrator.looking import LONGEST_WAIT
from restow.migrator.outcome import Action, of_list_error
from restow.migrator.preflight import Permission, missing
from restow.migrator.report import Requests

__all__ = ["find_dependents"]

_T = TypeVar("_T")

_AT_ONCE = 6
"""Lists in flight: others use the API server too."""

_PAGE = 250
"""Objects in a page, of which each may cost a conversion."""

_ATTEMPTS = 4
"""Tries of one request: what still fails then, an aggregated API or a conversion, is down for longer than one waits."""

_ALL = Resource("*", "*", "*", namespaced=False)
_NOT_ALLOWED = "not allowed to list it"


async def find_dependents(cluster: Cluster, owners: Collection[Owner]) -> dict[Owner, Dependents]:
    """Find the objects whose ownerReferences name any of some owners, in one pass over all objects of the cluster.

    Looked at are all resources that the garbage collector follows, so all but Events, each at the preferred version of
    its group.

    No error of the API server is raised: what it hides is among what was not looked at.
    """
    search = _Search(cluster, Tally(owners))
    await search.run()
    return search.tally.dependents(search.unseen)


class _Search:
    def __init__(self, cluster: Cluster, tally: Tally) -> None:
        self._cluster = bare(cluster)  # of many documents and lists some may well be missing: few tries of each
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
                if outcome.action is not Action.RETRY or attempt == _ATTEMPTS:
                    self._missed(path, error)
                    break
                await asyncio.sleep(self._jitter(outcome.wait))
        return None

    async def _allowed(self, resource: Resource) -> bool:
        """Whether the user may list a resource; so also where the API server does not say."""
        try:
            return not await missing(Patient(self._cluster, patience_s=0.0), [Permission(resource, "list")])
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
                halt=Halt(),
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
        return min(LONGEST_WAIT, seconds * self._random.uniform(0.5, 1.5))


async def _each(items: Iterable[_T], do: Callable[[_T], Awaitable[None]]) -> None:
    """Do something with each, a handful at a time."""
    rest = iter(items)

    async def work() -> None:
        for item in rest:
            await do(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(work())
