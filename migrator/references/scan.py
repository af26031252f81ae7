"""Search a cluster for references to versions of CRDs: ``find_references``.

Discovery names the resources: those that the garbage collector follows, since only they can be dependents, and they
include all custom resources. The scan lists each resource once, page by page, and a few resources at a time. It lists
only metadata if that is enough: for all built-in resources except a few, and for custom resources whose schema has no
room for a reference. It lists other resources whole, and decodes an object only if its text contains the group's name
and that of the kind.
Pages of whole objects are limited in bytes, so memory is bounded for any number and size of objects. An object that
cannot be decoded does not hide others.

The scan reports places that it cannot search, and never raises for them.
"""

from __future__ import annotations

import asyncio
import gzip
import itertools
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, TypeVar

import msgspec

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import ApiError, KubeError, one_line
from restow.kube.resources import CONFIG_MAPS, CRDS, SECRETS, Resource
from restow.kube.retry import RetryingCluster, jittered, without_retries
from restow.migrator.decide.errortable import ErrorAction, of_list_error
from restow.migrator.model.report import Requests
from restow.migrator.references.readers.clients import LONGEST_LINE, AuditTally, client_references
from restow.migrator.references.readers.helm import NoRelease, helm_references
from restow.migrator.references.readers.inventories import INVENTORIES, inventory_references
from restow.migrator.references.readers.mentions import Spellings, can_hold_mentions
from restow.migrator.references.readers.metadata import WriterTally, owner_references
from restow.migrator.references.readers.typed import ADMISSION, API_SERVICES, BUILT_IN, api_services, typed_references
from restow.migrator.references.reference import (
    FoundReferences,
    Looked,
    NotLookedAt,
    Reference,
    ReferenceKind,
    ReferenceTally,
    SoughtVersion,
    old_versions,
)
from restow.migrator.requests.environment import LONGEST_WAIT, RunStop
from restow.migrator.requests.lister import ListedPage, ListFailed, list_objects, readable_pages
from restow.migrator.requests.pace import each_of
from restow.migrator.requests.preflight import Permission, missing
from restow.migrator.requests.wire import Meta

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
    await each_of(asked, of_version, _AT_ONCE)
    return list(followed((*of, listings[of]) for of in asked if of in listings))


CLUSTER_KINDS: Final = frozenset(ReferenceKind) - {ReferenceKind.AUDIT_LOG, ReferenceKind.FILES}
"""The kinds of references that a cluster shows by itself."""

STANDING_KINDS: Final = CLUSTER_KINDS - {
    ReferenceKind.MANAGED_FIELDS,
    ReferenceKind.LAST_APPLIED,
    ReferenceKind.CLIENTS,
}
"""The kinds that can block a step. A separate check counts managedFields entries; the others never block."""

_BY_FIELDS: Final = {ReferenceKind.TYPED, ReferenceKind.ADMISSION}
_BY_WRITERS: Final = {ReferenceKind.LAST_APPLIED, ReferenceKind.MANAGED_FIELDS}
_BY_INVENTORIES: Final = {ReferenceKind.FLUX, ReferenceKind.ARGO_CD, ReferenceKind.OLM, ReferenceKind.CROSSPLANE}

Observe = Callable[[Resource, Meta, list[Reference]], Awaitable[None]]
"""Receives each object with references, and all of its references."""

_PAGE = 250
"""Objects per page; each may cost a conversion."""

_PAGE_BYTES = 2 * 1024 * 1024
"""The approximate bytes of a page of whole objects; one object may have more."""

_ATTEMPTS = 4
"""Attempts of one request; an aggregated API or a conversion that still fails is down for too long to wait."""

_ALL = Resource("*", "*", "*", namespaced=False)
_NOT_ALLOWED = "not allowed to list it"
_TOO_DEEP = "it is nested too deeply"

_RELEASES = "owner=helm"
"""The label of objects that Helm's storage drivers write."""

_VERSIONLESS: Final = (
    "RBAC rules and ResourceQuotas (count/{crd}) name the resource and its group without a version: nothing is to be "
    "changed in them"
)
_NO_LOG: Final = (
    "Clients were looked for only in the counters of the API server that answered, and these have no names. An audit "
    "log (--audit-log FILE) has users and user agents"
)


async def find_references(
    cluster: Cluster,
    versions: Collection[SoughtVersion],
    *,
    kinds: Collection[ReferenceKind] = CLUSTER_KINDS,
    audit_logs: Sequence[Path] = (),
    observe: Observe | None = None,
) -> dict[SoughtVersion, FoundReferences]:
    """Find the references to any of several versions, in one pass over all objects of the cluster.

    The search covers all resources that the garbage collector follows, which are all except Events. It raises no error
    of the API server: unreadable places are in ``not_looked_at`` of the result.

    Args:
        cluster: the API server.
        versions: the versions to search for; ``sought`` returns one of a CRD.
        kinds: the kinds of references to search for.
        audit_logs: audit logs of API servers, as JSON lines, gzipped or not.
        observe: receives each object with references during the search; its errors end the search.
    """
    search = _ReferenceSearch(cluster, versions, frozenset(kinds), observe)
    async with asyncio.TaskGroup() as group:
        logs = [group.create_task(asyncio.to_thread(read_audit_log, path, versions)) for path in audit_logs]
        await search.run()
    notes = []
    if ReferenceKind.CLIENTS in search.kinds and not audit_logs:
        notes.append(_NO_LOG)
    for references, unseen in (log.result() for log in logs):
        for reference in references:
            search.tally.add(reference)
        search.unseen += unseen
    found = search.tally.found(search.unseen, notes)
    looked = replace(search.looked, requests=search.requests.total + search.documents)
    return {
        of: replace(each, looked=looked, notes=(*each.notes, _VERSIONLESS.format(crd=of.crd)))
        for of, each in found.items()
    }


async def find_old_references(cluster: Cluster, crds: Iterable[Crd]) -> dict[str, tuple[FoundReferences, ...]]:
    """Find references that block the removal of old versions of several CRDs, in one search.

    Returns the references by the name of the CRD, with a result for each of its old versions.
    """
    versions = {crd.name: old_versions(crd) for crd in crds}
    every = [of for each in versions.values() for of in each]
    found = await find_references(cluster, every, kinds=STANDING_KINDS) if every else {}
    return {name: tuple(found[of] for of in each) for name, each in versions.items()}


@dataclass(frozen=True, slots=True)
class _Facts:
    """The facts about a CRD that decide how to list its objects: at which version, and whether whole."""

    version: str = ""
    whole: bool = True


class _ReferenceSearch:
    def __init__(
        self,
        cluster: Cluster,
        versions: Collection[SoughtVersion],
        kinds: frozenset[ReferenceKind],
        observe: Observe | None,
    ) -> None:
        # Some of many documents and lists may be missing, so try each only a few times.
        self._cluster = without_retries(cluster)
        self._observe = observe
        self._versions = tuple(versions)
        self._owners = {(of.api_version, of.kind): of for of in versions}
        self._spellings = Spellings(versions)
        self._writers = {of: WriterTally(of) for of in versions}
        self._facts: dict[str, _Facts] = {}
        self._facts_known = False
        self._random = random.Random()
        self._ask_for_each = False
        self.kinds = kinds
        self.tally = ReferenceTally(versions)
        self.unseen: list[NotLookedAt] = []
        self.requests = Requests()
        self.documents = 0
        self.looked = Looked()

    async def run(self) -> None:
        resources = await discover(self._document)
        self._ask_for_each = not await self._allowed(_ALL)
        await self._read_crds()
        jobs: list[Callable[[], Awaitable[None]]] = []
        if ReferenceKind.HELM in self.kinds:  # first, because they may take the longest
            jobs += [partial(self._look_at, each, self._releases, _RELEASES) for each in (SECRETS, CONFIG_MAPS)]
        jobs += [partial(self._look_at, self._best(each), self._reader(each)) for each in resources]
        if ReferenceKind.CLIENTS in self.kinds:
            jobs.append(self._metrics)
        self.looked = Looked(resources=len(resources))
        await each_of(jobs, lambda job: job(), _AT_ONCE)
        for writer in self._writers.values():
            for reference in writer.references():
                self._count(reference)

    async def _document(self, path: str, decoder: msgspec.json.Decoder[_T]) -> _T | None:
        """Read a discovery document; record an unreadable one."""
        reply = await self._read(path)
        try:
            return None if reply is None else reply.decode(decoder)
        except KubeError as error:
            self._missed(path, error)
            return None

    async def _read(self, path: str) -> Any:
        for attempt in itertools.count(1):
            try:
                self.documents += 1
                return await self._cluster.discover(path)
            except KubeError as error:
                outcome = of_list_error(error, attempt=attempt)
                if outcome.action is not ErrorAction.RETRY or attempt == _ATTEMPTS:
                    self._missed(path, error)
                    return None
                await asyncio.sleep(self._jitter(outcome.wait))
        return None

    async def _read_crds(self) -> None:
        """Learn from all CRDs which objects have to be listed whole; without the right to read CRDs, all are."""
        if not self.kinds & _BY_FIELDS:
            return
        if self._ask_for_each and not await self._allowed(CRDS):
            return
        try:
            async for page in self._pages(CRDS, texts=True):
                for text in page.texts:
                    name, facts = _facts_of(text)
                    self._facts[name] = facts
        except (KubeError, ListFailed):
            return  # the scan of CRDs as a resource reports the failure
        self._facts_known = True

    def _best(self, resource: Resource) -> Resource:
        """Return the resource at its storage version, so that a list needs no conversion."""
        facts = self._facts.get(resource.full_name)
        return replace(resource, version=facts.version) if facts is not None and facts.version else resource

    def _reader(self, resource: Resource) -> Callable[[Resource, Meta, bytes], Iterator[Reference]] | None:
        """Return the reader of whole objects of a resource; None if metadata is enough."""
        name = resource.full_name
        if name == API_SERVICES:
            return self._api_services if ReferenceKind.API_SERVICES in self.kinds else None
        own = any(name == of.crd for of in self._versions)
        if (own and self.kinds & _BY_WRITERS) or (name in INVENTORIES and self.kinds & _BY_INVENTORIES):
            return self._content
        if name in ADMISSION:
            return self._content if ReferenceKind.ADMISSION in self.kinds else None
        if not self.kinds & _BY_FIELDS:
            return None
        facts = self._facts.get(name, _Facts(whole=not self._facts_known and "." in resource.group))
        return self._content if facts.whole or name in BUILT_IN else None

    async def _look_at(
        self,
        resource: Resource,
        reader: Callable[[Resource, Meta, bytes], Iterator[Reference]] | None,
        selector: str | None = None,
    ) -> None:
        try:
            # Check first, because a refused list is retried, as after a start of the API server.
            if self._ask_for_each and not await self._allowed(resource):
                self.unseen.append(NotLookedAt(resource.full_name, _NOT_ALLOWED))
                return
            async for page in self._pages(resource, texts=reader is not None, selector=selector):
                texts: Iterable[Any] = page.texts if reader is not None else itertools.repeat(b"")
                for (meta, _live), text in zip(page.items, texts, strict=reader is not None):
                    await self._object(resource, reader, meta, bytes(text), releases=selector is not None)
                if selector is None:
                    self.looked = replace(self.looked, objects=self.looked.objects + len(page.items))
                await asyncio.sleep(0)
        except (KubeError, ListFailed) as error:
            self._missed(resource.full_name, error)

    async def _object(
        self,
        resource: Resource,
        reader: Callable[[Resource, Meta, bytes], Iterator[Reference]] | None,
        meta: Meta,
        text: bytes,
        *,
        releases: bool,
    ) -> None:
        found = [] if releases else list(owner_references(resource.full_name, meta, self._owners))
        if reader is not None:
            try:
                found += reader(resource, meta, text)
            except NoRelease as problem:
                self.unseen.append(NotLookedAt(f"{resource.full_name} {meta.key}", str(problem)))
            except (msgspec.MsgspecError, RecursionError):
                self.unseen.append(NotLookedAt(f"{resource.full_name} {meta.key}", _TOO_DEEP))
        counted = [each for each in found if self._count(each)]
        if counted and self._observe is not None:
            await self._observe(resource, meta, counted)

    def _content(self, resource: Resource, meta: Meta, text: bytes) -> Iterator[Reference]:
        name = resource.full_name
        for of, writer in self._writers.items():
            if of.crd == name:
                writer.add(meta, text)
        if not self._spellings.may_be_in(text):
            return
        obj = msgspec.json.decode(text)
        yield from typed_references(name, obj, self._spellings)
        yield from inventory_references(name, obj, self._versions)

    def _api_services(self, resource: Resource, _meta: Meta, text: bytes) -> Iterator[Reference]:
        yield from api_services(resource.full_name, msgspec.json.decode(text), self._versions)

    def _releases(self, resource: Resource, _meta: Meta, text: bytes) -> Iterator[Reference]:
        yield from helm_references(resource.full_name, msgspec.json.decode(text), self._owners)

    async def _metrics(self) -> None:
        """Count requests at the versions; a missing right shows at the request."""
        if (reply := await self._read("/metrics")) is not None:
            text = reply.body.decode(errors="replace")
            for reference in client_references(text, self._versions, self._cluster.host):
                self._count(reference)

    def _count(self, reference: Reference) -> bool:
        wanted = reference.kind in self.kinds
        if wanted:
            self.tally.add(reference)
        return wanted

    def _pages(self, resource: Resource, *, texts: bool, selector: str | None = None) -> AsyncIterator[ListedPage]:
        def list_from(token: str) -> AsyncIterator[ListedPage]:
            return list_objects(
                self._cluster,
                resource,
                page_size=_PAGE,
                page_bytes=_PAGE_BYTES if texts else 0,
                requests=self.requests,
                stop=RunStop(),
                jitter=self._jitter,
                attempts=_ATTEMPTS,
                selector=selector,
                start=token,
                texts=texts,
                stored=False,
            )

        def too_deep(meta: Meta) -> None:
            self.unseen.append(NotLookedAt(f"{resource.full_name} {meta.key}", _TOO_DEEP))

        if not texts:
            return list_from("")
        return readable_pages(
            self._cluster, resource, list_from, selector=selector, requests=self.requests, too_deep=too_deep
        )

    async def _allowed(self, resource: Resource) -> bool:
        """Return whether the user may list a resource; true if the API server does not answer the question."""
        try:
            return not await missing(RetryingCluster(self._cluster, patience_s=0.0), [Permission(resource, "list")])
        except KubeError:
            return True

    def _missed(self, what: str, error: Exception) -> None:
        cause = error.__cause__ if isinstance(error, ListFailed) else error
        reason = f"{cause.status}: {cause.said}" if isinstance(cause, ApiError) else str(cause or error)
        self.unseen.append(NotLookedAt(what, one_line(reason)))

    def _jitter(self, seconds: float) -> float:
        return min(LONGEST_WAIT, jittered(seconds, self._random))


def _facts_of(text: msgspec.Raw) -> tuple[str, _Facts]:
    """Return the name of a CRD, and how to list its objects."""
    try:
        crd = msgspec.json.decode(text)
        stored = next(each for each in crd["spec"]["versions"] if each.get("storage"))
        schema = (stored.get("schema") or {}).get("openAPIV3Schema")
        whole = crd["spec"].get("preserveUnknownFields") is True or can_hold_mentions(schema)
        return crd["metadata"]["name"], _Facts(stored["name"] if stored.get("served") else "", whole)
    except (msgspec.MsgspecError, RecursionError, KeyError, StopIteration):
        return "", _Facts()


def read_audit_log(path: Path, versions: Collection[SoughtVersion]) -> tuple[list[Reference], list[NotLookedAt]]:
    """Read an audit log line by line; return the references to the versions, and the unreadable parts."""
    tally = AuditTally(versions, str(path))
    try:
        with path.open("rb") as file, gzip.GzipFile(fileobj=file) as unzipped:
            zipped = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            for line in _lines(unzipped if zipped else file):
                if line is None:
                    tally.skip()
                else:
                    tally.add(line)
    except (OSError, EOFError) as error:
        why = getattr(error, "strerror", None) or "it is broken gzip"
        return list(tally.references()), [*tally.unread(), NotLookedAt(str(path), str(why))]
    return list(tally.references()), list(tally.unread())


def _lines(file: BinaryIO | gzip.GzipFile) -> Iterator[bytes | None]:
    """Yield each line; None for one that is too long."""
    while line := file.readline(LONGEST_LINE):
        if line.endswith(b"\n") or len(line) < LONGEST_LINE:
            yield line
            continue
        yield None
        while (rest := file.readline(LONGEST_LINE)) and not rest.endswith(b"\n"):
            pass
