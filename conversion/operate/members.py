"""The replicas that serve conversions: each renews a Lease of its own, and the leader waits for those that do.

A replica joins before it is ready, so no request reaches a replica that the leader does not know. A replica that has
not renewed its Lease within the Lease's duration does not count any more. This time starts when this process saw the
last change, so that clocks need not agree.

A replica that is asked to stop still serves while it drains. The leader waits for it until then, but another replica
must not rely on it (``peers``): its Lease has an annotation.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import uuid4

import msgspec

from restow.conversion.operate.revisions import LABEL
from restow.kube import Cluster, KubeError, PatchType
from restow.kube.clock import SYSTEM_CLOCK, Clock, micro_time
from restow.kube.errors import Conflict, Forbidden, NotFound, describe_failure
from restow.kube.resources import LEASES

_log = logging.getLogger(__name__)

_PREFIX: Final = "restow-replica-"
_DURATION_S: Final = 15
_RENEW_S: Final = 4.0
_LEAVE_S: Final = 3.0
_FRESH_S: Final = 1.0
_STOPPING: Final = "restow.dev/stopping"
#: After how many durations the Leases of replicas that ended without ``leave`` are removed.
_FORGOTTEN: Final = 40


def unique_replica() -> str:
    """Return a new name for this process among the replicas."""
    return uuid4().hex[:12]


class Membership:
    """The Lease of this replica: call ``join``, then ``renew_forever``; ``stop`` before draining, and ``leave``."""

    def __init__(self, cluster: Cluster, namespace: str, replica: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self.replica: Final = replica
        self._cluster = cluster
        self._namespace = namespace
        self._clock = clock

    async def join(self) -> None:
        """Create the Lease, or renew it.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
        """
        body = {
            "apiVersion": LEASES.api_version,
            "kind": "Lease",
            "metadata": {"name": f"{_PREFIX}{self.replica}", "labels": {LABEL: "replica"}},
            "spec": {
                "holderIdentity": self.replica,
                "leaseDurationSeconds": _DURATION_S,
                "renewTime": micro_time(self._clock.now()),
            },
        }
        name, encoded = body["metadata"]["name"], msgspec.json.encode(body)  # type: ignore[index]
        try:
            await self._cluster.patch(LEASES, name, encoded, self._namespace, patch_type=PatchType.MERGE)
        except NotFound:
            await self._cluster.create(LEASES, encoded, self._namespace)

    async def renew_forever(self) -> None:
        """Renew the Lease until cancelled; failures are logged and retried."""
        while True:
            await self._clock.sleep(_RENEW_S)
            try:
                await self.join()
            except KubeError as error:
                _log.warning("the Lease of this replica was not renewed: %s", describe_failure(error))

    async def stop(self) -> None:
        """Record that this replica will end soon; a failure is logged."""
        body = msgspec.json.encode({"metadata": {"annotations": {_STOPPING: "true"}}})
        try:
            await self._cluster.patch(
                LEASES, f"{_PREFIX}{self.replica}", body, self._namespace, patch_type=PatchType.MERGE
            )
        except KubeError as error:
            _log.warning("the Lease of this replica does not say that it stops: %s", describe_failure(error))

    async def leave(self) -> None:
        """Delete the Lease, so that the leader does not wait for this replica; give up soon, because it expires."""
        try:
            async with asyncio.timeout(_LEAVE_S):
                await self._cluster.delete(LEASES, f"{_PREFIX}{self.replica}", self._namespace)
        except NotFound:
            return
        except (KubeError, TimeoutError) as error:
            reason = describe_failure(error) if isinstance(error, KubeError) else "no answer in time"
            _log.warning("the Lease of this replica stays until it ends: %s", reason)


@dataclass(slots=True)
class LeasesOfReplicas:
    """The leader's view of the Leases: when it saw the last change of each."""

    cluster: Cluster
    namespace: str
    clock: Clock = SYSTEM_CLOCK
    _seen: dict[str, tuple[str, float]] = field(default_factory=dict)
    _live: tuple[float, frozenset[str]] | None = None
    _stopping: frozenset[str] = frozenset()

    async def staying(self) -> frozenset[str]:
        """Return the live replicas that were not asked to stop.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
        """
        return await self.live() - self._stopping

    async def live(self) -> frozenset[str]:
        """Return the replicas that renew their Leases. The result is up to a second old, because each object asks.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
        """
        now = self.clock.monotonic()
        if self._live is not None and now - self._live[0] < _FRESH_S:
            return self._live[1]
        params = {"labelSelector": f"{LABEL}=replica"}
        items = (await self.cluster.list_page(LEASES, self.namespace, params=params)).json()["items"]
        seen: dict[str, tuple[str, float]] = {}
        found: set[str] = set()
        for item in items:
            name, version = item["metadata"]["name"], item["metadata"]["resourceVersion"]
            before = self._seen.get(name)
            since = before[1] if before is not None and before[0] == version else now
            seen[name] = (version, since)
            lasts = (item.get("spec") or {}).get("leaseDurationSeconds") or _DURATION_S
            if now - since <= lasts:
                found.add(name.removeprefix(_PREFIX))
            elif now - since > lasts * _FORGOTTEN:
                await self._forget(item)
        stopping = (each["metadata"] for each in items if _STOPPING in (each["metadata"].get("annotations") or {}))
        self._stopping = frozenset(each["name"].removeprefix(_PREFIX) for each in stopping)
        self._seen = seen
        self._live = (now, frozenset(found))
        return self._live[1]

    async def _forget(self, item: dict[str, Any]) -> None:
        metadata = item["metadata"]
        body = {"preconditions": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}}
        try:
            await self.cluster.delete(LEASES, metadata["name"], self.namespace, body=msgspec.json.encode(body))
        except (Conflict, Forbidden, NotFound):
            return
