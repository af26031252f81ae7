"""A reconciler waits for API servers and their requests: from when on, and for how long. Time stands still between."""

from __future__ import annotations

import copy
from typing import Any

from restow.kube.clock import Clock
from restow.kube.cluster import Reply, Request
from restow.kube.retry import Backoff
from restow.migrator import Options
from restow.migrator.operate.hooks import MigrationDetails, MigrationEvent
from restow.migrator.operate.reconciler import Migrator
from tests.apiserver.kind import Impatient, Kind
from tests.memory.cluster import MemoryCluster

SETTLE_S = 65.0


class Behind(MemoryCluster):
    """An API server whose discovery never shows the storage version, as where an APIService serves the group."""

    behind = False

    async def send(self, request: Request) -> Reply:
        if self.behind and request.resource is None:
            return Reply(b'{"kind": "APIResourceList", "resources": []}')
        return await super().send(request)


class Reconciling:
    """A reconciler of widgets, and what it told."""

    def __init__(self, memory: MemoryCluster, kind: Kind) -> None:
        self.now = 0.0
        self.told: list[MigrationDetails] = []
        self._name = kind.name
        self._migrator = Migrator(
            memory,
            [kind.name],
            Options(settle_s=SETTLE_S),
            hooks=[self.told.append],
            backoff=Backoff(first=600.0, most=600.0),
            clock=Clock(monotonic=lambda: self.now),
            chance=Impatient(),
        )

    async def __call__(self, passed: float = 0.0) -> tuple[MigrationEvent, float | None]:
        """The last event of one reconcile, and when the next one is due."""
        self.now += passed
        result = await self._migrator.reconcile(self._name)
        return self.told[-1].event, result.requeue_after


async def flipped(memory: MemoryCluster) -> Kind:
    """Three widgets that are stored at the old version."""
    kind = Kind(memory, memory, "example.com")  # type: ignore[arg-type]  # it has what is used of both
    await kind.create(kind.document(storage="v1alpha1", versions=("v1alpha1",)))
    await kind.populate(3)
    await kind.change(kind.document(storage="v1beta1"))
    return kind


async def test_a_change_that_is_made_again_after_a_restore_is_waited_for_again() -> None:
    """The generation was waited for already, but a request from before may still store at the old version."""
    memory: Any = Behind()
    kind = Kind(memory, memory, "example.com")
    await kind.create(kind.document(storage="v1alpha1", versions=("v1alpha1",)))
    await kind.populate(3)
    backup = copy.deepcopy((memory._objects, memory._history, memory._revision))
    await kind.change(kind.document(storage="v1beta1"))
    reconcile = Reconciling(memory, kind)
    assert await reconcile() == (MigrationEvent.SETTLING, SETTLE_S)
    assert await reconcile(SETTLE_S) == (MigrationEvent.FINISHED, None)
    assert await reconcile() == (MigrationEvent.IDLE, None)
    memory._objects, memory._history, memory._revision = backup
    await kind.change(kind.document(storage="v1beta1"))
    assert await reconcile(SETTLE_S) == (MigrationEvent.SETTLING, SETTLE_S)


async def test_a_server_that_never_follows_is_a_failure_in_the_end() -> None:
    """The CRD would never be migrated, and no event and no line of the log would say so."""
    memory = Behind()
    kind = await flipped(memory)
    reconcile = Reconciling(memory, kind)
    memory.behind = True
    assert (await reconcile())[0] is MigrationEvent.SETTLING
    assert (await reconcile(200.0))[0] is MigrationEvent.SETTLING
    assert await reconcile(200.0) == (MigrationEvent.FAILED, reconcile.told[-1].requeue_after)
    assert "does not store" in reconcile.told[-1].message and reconcile.told[-1].failures == 1
    memory.behind = False
    assert await reconcile(600.0) == (MigrationEvent.SETTLING, SETTLE_S)
    assert (await reconcile(SETTLE_S))[0] is MigrationEvent.FINISHED
