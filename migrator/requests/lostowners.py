"""Objects that lose their field owners: record them on the CRD, and end a run that loses those of one after another.

An object does not show its loss: it is stored at the storage version, and has no entry to translate. The log of a Job's
first pod no longer exists by then. The names stay in an annotation of the CRD until each of these objects has owners
again, or is deleted. The length of the annotation is limited; further objects are only counted.

The likely cause is a mutating admission webhook that empties ``metadata.managedFields`` (Kubernetes issue 101899). It
sees every write, including the one that would restore them, so that a run would empty all objects of the kind:
``OwnershipBrake`` ends it after a few. A reconciler runs again and again: where an earlier run has lost owners, the
first writes are rehearsed, and lose no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import msgspec

from restow.crds import Crd, CrdError
from restow.kube.cluster import Cluster
from restow.kube.errors import Conflict, KubeError, NotFound, OutcomeUnknown
from restow.kube.pager import list_pages
from restow.kube.resources import Object, Resource
from restow.kube.retry import with_retries
from restow.migrator.decide.decision import ObjectDecision
from restow.migrator.model.callbacks import MigrationRefused
from restow.migrator.model.report import few
from restow.migrator.ownership.entries import FIELD_MANAGER
from restow.migrator.requests.crdaccess import annotate, read_crd
from restow.migrator.requests.environment import RunStop
from restow.migrator.requests.wire import object_decoder

ANNOTATION = "restow.dev/owners-lost"
MOST_NAMED = 100
"""The most objects by name: at most 50 KiB of the 256 KiB that all annotations of a CRD share."""

_ATTEMPTS = 5
_SHOWN = 10


class _Record(msgspec.Struct, frozen=True):
    objects: list[str]
    more: int = 0


@dataclass(frozen=True, slots=True)
class LostOwners:
    """Objects without owners.

    Attributes:
        names: ``namespace/name``, or ``name`` of cluster-scoped objects.
        more: the number of further objects whose names did not fit.
    """

    names: tuple[str, ...] = ()
    more: int = 0

    @classmethod
    def noted_on(cls, crd: Crd) -> LostOwners:
        """Return the record in the CRD's annotation; an empty one if there is none or it cannot be decoded."""
        try:
            record = msgspec.json.decode(crd.annotations.get(ANNOTATION, ""), type=_Record)
        except msgspec.MsgspecError:
            return cls()
        return cls(tuple(record.objects[:MOST_NAMED]), record.more)

    def joined(self, names: Iterable[str], more: int = 0) -> LostOwners:
        """Return this record with more objects; names beyond the limit are only counted."""
        known = tuple(dict.fromkeys((*self.names, *sorted(names))))
        return LostOwners(known[:MOST_NAMED], self.more + more + len(known[MOST_NAMED:]))

    def encode(self) -> str | None:
        """Return the annotation's value; None, which removes it, if there is nothing to record."""
        if not self.names:
            return None
        return msgspec.json.encode(_Record(list(self.names), self.more)).decode()

    @property
    def sentence(self) -> str:
        """Return the warning for the user; empty if all objects have owners."""
        if not self.names:
            return ""
        more = len(self.names) - _SHOWN + self.more if len(self.names) > _SHOWN else self.more
        return (
            f"an earlier run left objects without field owners, and they still have none: "
            f"{', '.join(self.names[:_SHOWN])}{f' and {more} more' if more > 0 else ''}. Have each manager apply them "
            "once more; where it also changes a field, it needs --force-conflicts"
        )


async def still_lost(cluster: Cluster, crd: Crd, *, forget: bool = True) -> LostOwners:
    """Return the recorded objects that still have no owner, and remove the others from the record.

    Args:
        cluster: the API server.
        crd: the CRD as just read.
        forget: whether to update the annotation; a run that stores nothing does not.
    """
    noted = LostOwners.noted_on(crd)
    left = [name for name in noted.names if await _without_owners(cluster, crd, name)]
    still = LostOwners(tuple(left), noted.more if left else 0)
    if forget and still != noted:
        done = set(noted.names) - set(left)
        await _note(cluster, crd.name, lambda now: _without(now, done))
    return still


async def remember(cluster: Cluster, name: str, names: Iterable[str], more: int = 0) -> str:
    """Add objects to the record of a CRD; return the API server's message if it refuses the write."""
    return await _note(cluster, name, lambda now: now.joined(names, more))


def _without(now: LostOwners, done: set[str]) -> LostOwners:
    left = tuple(name for name in now.names if name not in done)
    return LostOwners(left, now.more if left else 0)


async def _without_owners(cluster: Cluster, crd: Crd, where: str) -> bool:
    namespace, _, name = where.rpartition("/")
    try:
        reply = await with_retries(cluster).get(
            crd.resource_at(crd.storage.name), name, namespace or None, metadata_only=True
        )
    except NotFound:
        return False
    except KubeError:
        return True  # not readable now; the next run checks again
    entries = reply.decode(object_decoder).metadata.managed_fields
    return all(entry.manager == FIELD_MANAGER for entry in entries)


async def _note(cluster: Cluster, name: str, change: Callable[[LostOwners], LostOwners]) -> str:
    """Change the record, and repeat if another client writes the CRD in between, as concurrent shards do."""
    cluster, conflicts = with_retries(cluster), 0
    while conflicts < _ATTEMPTS:
        try:
            crd = await read_crd(cluster, name)
            return await annotate(cluster, crd, {ANNOTATION: change(LostOwners.noted_on(crd)).encode()}, unchanged=True)
        except Conflict as conflict:
            conflicts += not isinstance(conflict, OutcomeUnknown)
        except KubeError as error:
            return error.said
        except (MigrationRefused, CrdError) as error:
            return str(error)
    return f"{name} is written by others all the time"


MOST_LOST = 3
"""Objects in a row that may lose owners before the run ends."""

_PAGE = 100
_GROUP = "admissionregistration.k8s.io"


class OwnershipBrake:
    """Counts the objects of one CRD that lost owners in a row, and ends the run after a few.

    Args:
        cluster: the API server.
        crd: the CRD.
        stop: requested after ``MOST_LOST`` objects.
    """

    def __init__(self, cluster: Cluster, crd: Crd, stop: RunStop) -> None:
        self._cluster = cluster
        self._crd = crd
        self._stop = stop
        self._lost = 0
        self._first = asyncio.Lock()
        self._open = False
        self._noted = bool(LostOwners.noted_on(crd).names)
        self._cause = ""

    @property
    def on(self) -> bool:
        """Whether no further object may be written."""
        return self._lost >= MOST_LOST

    @property
    def rehearses(self) -> bool:
        """Whether a write must be tried as a dry run first: an earlier run lost owners, and this one kept none yet."""
        return self._noted and not self._open

    @asynccontextmanager
    async def turn(self, decision: ObjectDecision) -> AsyncIterator[None]:
        """Wait for the turn of an object: until one was written without a loss, only one at a time."""
        if decision.steps and decision.entries and not self._open:
            async with self._first:
                if not self._open:
                    failed = False
                    try:
                        yield
                    except KubeError:
                        failed = True  # a refused write shows nothing about owners
                        raise
                    finally:
                        self._open = not (self._lost or failed)
                    return
        yield

    def kept(self) -> None:
        """Note that a write left an object with its owners."""
        self._lost = 0

    async def lost(self, said: str = "") -> str:
        """Count an object that lost owners; return sentences for the report, with what the server said."""
        await self._count()
        return f"{_LOST}{said}. {self._cause}"

    async def would_be_lost(self, *, counted: bool = False) -> str:
        """Return the sentences about an object that a dry run shows without its owners; ``counted`` as a lost one."""
        await (self._count() if counted else self._look())
        return f"{_WOULD_BE_LOST}. {self._cause}"

    async def _count(self) -> None:
        await self._look()
        self._lost += 1
        if self.on:
            self._stop.because(f"the writes of {self._lost} objects in a row lose their field owners. {self._cause}")

    async def _look(self) -> None:
        """Find the mutating admission that sees updates of the objects, or where else to look."""
        self._cause = self._cause or await self._ask()

    async def _ask(self) -> str:
        try:
            found = [*_webhooks(await self._all("v1", "mutatingwebhookconfigurations"), self._crd)]
            for version in ("v1", "v1beta1"):
                found += _policies(await self._all(version, "mutatingadmissionpolicies"), self._crd)
        except KubeError as error:
            return _UNSEEN.format(said=error.said)
        if not found:
            return _NONE
        return _SEEN.format(names=few(list(dict.fromkeys(found))), crd=self._crd.name)

    async def _all(self, version: str, plural: str) -> Sequence[Object]:
        """Return all objects of a resource; none if the API server does not serve it."""
        resource, found = Resource(_GROUP, version, plural, namespaced=False), []
        try:
            async for page in list_pages(self._cluster, resource, limit=_PAGE):
                found += page
        except NotFound:
            return []
        return found


def _webhooks(configurations: Sequence[Object], crd: Crd) -> Iterator[str]:
    for each in configurations:
        for webhook in each.get("webhooks") or ():
            if _matches(webhook, webhook.get("rules") or (), crd):
                configuration = each["metadata"]["name"]
                yield f"the webhook {webhook.get('name')} of the MutatingWebhookConfiguration {configuration}"


def _policies(policies: Sequence[Object], crd: Crd) -> Iterator[str]:
    for each in policies:
        constraints = each["spec"].get("matchConstraints") or {}
        if _matches(constraints, constraints.get("resourceRules") or (), crd):
            yield f"the MutatingAdmissionPolicy {each['metadata']['name']}"


def _matches(of: Mapping[str, Any], rules: Sequence[Mapping[str, Any]], crd: Crd) -> bool:
    """Return whether a rule matches updates of the CRD's objects; selectors and conditions may except some of them."""
    exact = of.get("matchPolicy") == "Exact"
    wanted = {
        "apiGroups": {crd.group},
        "apiVersions": {crd.storage.name} if exact else {version.name for version in crd.versions},
        "operations": {"UPDATE"},
        "resources": {crd.plural, "*/*"},
    }
    scopes = ("*", "Namespaced" if crd.namespaced else "Cluster")
    return any(
        all((names | {"*"}) & {*(rule.get(key) or ())} for key, names in wanted.items())
        and rule.get("scope", "*") in scopes
        for rule in rules
    )


_LOST = (
    "the API server stored it with other managedFields than it was given, and again when they were restored: its field "
    "owners are lost in part. Each manager's next apply may need --force-conflicts"
)
_WOULD_BE_LOST = (
    "a dry run shows that the API server would store it with other managedFields than it is given, so field owners "
    "would be lost"
)
_SEEN = (
    "Each write passes {names}, which may change metadata.managedFields. Have it leave managedFields as they are, or "
    "take {crd} out of its rules, before the next run"
)
_UNSEEN = (
    "A mutating webhook may change metadata.managedFields; those of the cluster could not be listed ({said}): see "
    "kubectl get mutatingwebhookconfigurations before the next run"
)
_NONE = "Look at the API server's log for 'failed to update managedFields' before the next run"
