"""End a run whose writes lose the owners of one object after another, and name the likely cause.

That is a mutating admission webhook that empties ``metadata.managedFields`` (Kubernetes issue 101899). It sees every
write, including the one that would restore them, so that a run would empty all objects of the kind. A reconciler runs
again and again: where an earlier run has lost owners, the first writes are rehearsed, and lose no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import KubeError, NotFound
from restow.kube.pager import list_pages
from restow.kube.resources import Object, Resource
from restow.migrator.decide.decision import ObjectDecision
from restow.migrator.requests.lostowners import LostOwners
from restow.migrator.requests.stop import RunStop

MOST_LOST = 3
"""Objects in a row that may lose owners before the run ends."""

_PAGE = 100
_NAMED = 5
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
        found = list(dict.fromkeys(found))
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        return _SEEN.format(names=", ".join(found[:_NAMED]) + more, crd=self._crd.name)

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
