"""Reading CRDs, pruning storedVersions, leaving mark and watermark: every request about the CRD itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import msgspec

from restow.crds import Crd
from restow.kube.backoff import Backoff
from restow.kube.cluster import Cluster, PatchType
from restow.kube.errors import (
    ApiError,
    BadReply,
    Conflict,
    Forbidden,
    KubeError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unreachable,
)
from restow.kube.resources import CRDS
from restow.kube.selection import Selection
from restow.kube.watchevents import Added, Listed, Modified, WatchEvent
from restow.kube.watching import watch
from restow.migrator.managedfields.entries import FIELD_MANAGER
from restow.migrator.preflight import Refused
from restow.migrator.storedversions import Generations

__all__ = [
    "DELETED",
    "CrdWatch",
    "ReadCrd",
    "annotate",
    "deleted",
    "list_crds",
    "patch_stored_versions",
    "patiently",
    "read_crd",
]

_log = logging.getLogger(__name__)

DELETED = "{name} was deleted during the run, and its objects with it: there is nothing left to migrate"

_T = TypeVar("_T")

_ATTEMPTS = 6
_CONNECT_ATTEMPTS = 2  # whoever runs a command against a server that is not there wants to hear it soon
_BACKOFF = Backoff(first=0.5, most=8.0)
_WORTH_A_WORD = 2.0  # seconds of a wait
_PAGE = "50"  # a CRD can be a megabyte


@dataclass(frozen=True, slots=True)
class ReadCrd:
    """A CRD, and the API server's clock when it was read."""

    crd: Crd
    server_now: datetime | None


async def read_crd(cluster: Cluster, name: str) -> ReadCrd:
    """Read one CRD; short outages are waited out.

    Raises:
        Refused: there is no such CRD, or reading it is not allowed.
        KubeError: the API server cannot be reached.
    """

    async def read() -> ReadCrd:
        reply = await cluster.get(CRDS, name)
        return ReadCrd(Crd.from_document(reply.json()), reply.date)

    try:
        return await patiently(read)
    except NotFound as error:
        msg = f"there is no CRD {name!r} on {cluster.host}: give its full name, <plural>.<group> (kubectl get crds)"
        raise Refused(msg) from error
    except Forbidden as error:
        msg = f"no permission to get {CRDS.describe(name=name)}: {error.message}"
        raise Refused(msg) from error


async def deleted(cluster: Cluster, crd: Crd) -> str:
    """Return a sentence where the CRD was deleted since it was read; empty where it was not, or where none can tell."""
    try:
        reply = await patiently(lambda: cluster.get(CRDS, crd.name))
    except NotFound:
        return DELETED.format(name=crd.name)
    except KubeError:
        return ""
    if Crd.from_document(reply.json()).uid != crd.uid:
        return f"{crd.name} was deleted during the run, and created again: run again to migrate its objects"
    return ""


async def list_crds(cluster: Cluster) -> list[Crd]:
    """Read all CRDs, by name.

    Raises:
        Refused: listing them is not allowed.
        KubeError: the API server cannot be reached.
    """
    crds: list[Crd] = []
    params = {"limit": _PAGE}
    while True:
        try:
            reply = await patiently(lambda: cluster.list_page(CRDS, params=params))
        except Forbidden as error:
            msg = f"no permission to list {CRDS.full_name}: {error.message}. Name the CRDs instead"
            raise Refused(msg) from error
        page = reply.json()
        crds += [Crd.from_document(item | _TYPE) for item in page["items"]]
        token = page.get("metadata", {}).get("continue")
        if not token:
            return sorted(crds, key=lambda crd: crd.name)
        params["continue"] = token


_TYPE = {"apiVersion": CRDS.api_version, "kind": "CustomResourceDefinition"}
"""Items of a list of built-in resources do not say what they are."""


async def patch_stored_versions(cluster: Cluster, crd: Crd, versions: Sequence[str]) -> Crd:
    """Set ``status.storedVersions``, provided that the CRD is still the one given.

    Raises:
        Conflict: it was written meanwhile (judge anew).
        KubeError: anything else.
    """
    body = {"metadata": {"resourceVersion": crd.resource_version}, "status": {"storedVersions": list(versions)}}
    reply = await cluster.patch(
        CRDS,
        crd.name,
        msgspec.json.encode(body),
        patch_type=PatchType.MERGE,
        subresource="status",
        params={"fieldManager": FIELD_MANAGER},
    )
    return Crd.from_document(reply.json())


async def annotate(
    cluster: Cluster, crd: Crd, annotations: Mapping[str, str | None], *, unchanged: bool = False
) -> str:
    """Give a CRD these annotations (None takes one away); return what the API server said where it would not.

    Args:
        cluster: where.
        crd: the CRD as read.
        annotations: values by name.
        unchanged: only if the CRD is still the one given.

    Raises:
        Conflict: it was written meanwhile, and ``unchanged`` was asked for.
    """
    if all(crd.annotations.get(name) == value for name, value in annotations.items()):
        return ""
    metadata: dict[str, object] = {"annotations": annotations}
    if unchanged:
        metadata["resourceVersion"] = crd.resource_version
    try:
        await cluster.patch(
            CRDS,
            crd.name,
            msgspec.json.encode({"metadata": metadata}),
            patch_type=PatchType.MERGE,
            params={"fieldManager": FIELD_MANAGER},
            metadata_only=True,
        )
    except Conflict:
        if unchanged:
            raise
        return f"{crd.name} was written by others at the same moment"
    except KubeError as error:
        return error.said
    return ""


class CrdWatch:
    """The generations of one CRD, as a watch shows them while a migration runs.

    Should the watch break for good (no permission to watch, say), the record just has a gap, which the prune guard
    notices: nothing is assumed of what was not seen.
    """

    def __init__(self, start: Crd) -> None:
        self.generations = Generations()
        self._news = asyncio.Event()
        self._see(start)

    async def follow(self, cluster: Cluster) -> None:
        """Collect generations until cancelled, or until the watch cannot be kept."""
        selection = Selection(CRDS, field_selector=f"metadata.name={self._name}")
        try:
            async with watch(cluster, selection) as events:
                async for event in events:
                    self._take(event)
        except KubeError as error:
            _log.info("the watch of %s ended: %s", CRDS.describe(name=self._name), error)

    async def reach(self, generation: int, *, timeout_s: float = 3.0) -> None:
        """Wait, but not long, until a generation that was read elsewhere has arrived here too."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while generation not in self.generations.seen:
                    self._news.clear()
                    await self._news.wait()

    def _take(self, event: WatchEvent) -> None:
        if isinstance(event, Listed):
            found = event.items
        elif isinstance(event, (Added, Modified)):
            found = (event.item,)
        else:
            return
        for item in found:
            self._see(Crd.from_document(item.json() | _TYPE))

    def _see(self, crd: Crd) -> None:
        self._name = crd.name
        self.generations.add(crd)
        self._news.set()


async def patiently(request: Callable[[], Awaitable[_T]], *, connects: int = _CONNECT_ATTEMPTS) -> _T:
    """Repeat a request that failed for a reason that may pass; about 15 seconds in all.

    Args:
        request: sends it, and may read the answer: one that cannot be read may come again whole.
        connects: how often to try where no answer comes.
    """
    for failures in range(1, _ATTEMPTS):
        try:
            return await request()
        except (TooManyRequests, ServerError, Unreachable, BadReply) as error:
            refused = isinstance(error, Unreachable) and failures >= connects
            if refused:
                raise
            asked = error.retry_after if isinstance(error, ApiError) and error.retry_after else None
            wait = _BACKOFF.delay(failures, random.random()) if asked is None else min(asked, 10.0)
            if wait >= _WORTH_A_WORD:
                _log.warning("%s; waiting %.0f s to try again (try %d of %d)", error, wait, failures + 1, _ATTEMPTS)
            await asyncio.sleep(wait)
    return await request()
