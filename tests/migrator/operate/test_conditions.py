"""The condition ``restow.dev/Migrated``: when it is written, and on which API servers."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from restow.crds import Crd
from restow.kube.cluster import Reply, Request
from restow.kube.errors import Forbidden, KubeError, ServerError, Unreachable
from restow.migrator.operate.conditions import MIGRATED, MigratedCondition
from restow.migrator.operate.hooks import MigrationDetails, MigrationEvent
from tests.memory.cluster import MemoryCluster
from tests.migrator import builders as b

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)


class Server(MemoryCluster):
    """Keeps one CRD's conditions; ``refuse`` may raise for one, ``drops`` loses its generation."""

    def __init__(self) -> None:
        super().__init__()
        self.applied: list[list[dict[str, Any]]] = []
        self.refuse: Callable[[dict[str, Any]], KubeError | None] = lambda _: None
        self.drops = False
        self.generation = 1
        self.document = b.crd_document()

    async def send(self, request: Request) -> Reply:
        """Take an apply of the status."""
        assert request.body is not None
        conditions = json.loads(request.body)["status"]["conditions"]
        for each in conditions:
            if (error := self.refuse(each)) is not None:
                raise error
            if self.drops:
                each.pop("observedGeneration", None)
        self.applied.append(conditions)
        self.document["status"]["conditions"] = [{"type": "Established", "status": "True"}, *conditions]
        metadata = self.document["metadata"]
        metadata["resourceVersion"] = str(int(metadata.get("resourceVersion") or 1) + 1)
        return Reply(json.dumps(self.document).encode())

    def crd(self, *, changed: bool = False) -> Crd:
        """Read the CRD, perhaps after a change of its spec."""
        self.generation += changed
        self.document["metadata"]["generation"] = self.generation
        self.document.setdefault("status", {})
        return Crd.from_document(json.loads(json.dumps(self.document)))

    @property
    def reasons(self) -> list[str]:
        """The reasons that were written."""
        return [each["reason"] for conditions in self.applied for each in conditions]


@pytest.fixture
def server() -> Server:
    return Server()


def said(event: MigrationEvent, message: str = "m", after: float | None = None) -> MigrationDetails:
    """An event of the CRD."""
    return MigrationDetails(event=event, at=NOON, crd=b.crd().name, uid="u", message=message, requeue_after=after)


async def test_it_is_written_when_it_changes(server: Server) -> None:
    """Each write of a CRD is an event for all who watch CRDs, this reconciler too."""
    condition = MigratedCondition(server)
    for event in (MigrationEvent.SETTLING, MigrationEvent.SETTLING, MigrationEvent.STARTED, MigrationEvent.PROGRESS):
        await condition.tell(server.crd(), said(event))
    await condition.tell(server.crd(), said(MigrationEvent.FINISHED, "3 objects"))
    await condition.tell(server.crd(), said(MigrationEvent.IDLE, "nothing is due"))
    assert server.reasons == ["Settling", "Migrating", "Migrated"]
    assert server.applied[-1][0]["message"] == "3 objects" and server.applied[-1][0]["observedGeneration"] == 1
    await condition.tell(server.crd(changed=True), said(MigrationEvent.IDLE, "nothing is due"))
    assert server.reasons[3:] == ["Migrated"] and server.applied[-1][0]["observedGeneration"] == 2


async def test_a_run_that_left_work_is_not_migrated(server: Server) -> None:
    """The CRD was changed in mid-run: a client would take the old version away before the next run."""
    await MigratedCondition(server).tell(server.crd(), said(MigrationEvent.FINISHED, after=0.0))
    assert server.reasons == []


async def test_a_further_try_does_not_hide_the_failure(server: Server) -> None:
    """Each change of a CRD is reconciled: a try that changed the condition would end its own wait, for ever."""
    condition = MigratedCondition(server)
    for event in (MigrationEvent.STARTED, MigrationEvent.FAILED, MigrationEvent.SETTLING, MigrationEvent.STARTED):
        await condition.tell(server.crd(), said(event))
    await condition.tell(server.crd(), said(MigrationEvent.FAILED))
    assert server.reasons == ["Migrating", "Failed"]
    await condition.tell(server.crd(changed=True), said(MigrationEvent.STARTED))
    assert server.reasons[2:] == ["Migrating"], "a changed spec may be the fix"


@pytest.mark.parametrize("how", ["refused", "dropped"])
async def test_api_servers_without_observed_generations_get_it_too(server: Server, how: str) -> None:
    """No client of an older API server would ever see the condition, or each reconcile would write it again."""

    def refused(condition: dict[str, Any]) -> KubeError | None:
        if "observedGeneration" not in condition:
            return None
        message = f'.status.conditions[type="{MIGRATED}"].observedGeneration: field not declared in schema'
        return ServerError(status=500, verb="patch", target="crd", message=message)

    server.drops = how == "dropped"
    server.refuse = refused if how == "refused" else server.refuse
    condition = MigratedCondition(server)
    for _ in range(3):
        await condition.tell(server.crd(), said(MigrationEvent.IDLE))
    assert server.reasons == ["Migrated"]
    assert "observedGeneration" not in server.applied[0][0]


async def test_what_could_not_be_written_is_owed(server: Server) -> None:
    """A client would wait for ever, because nothing else reconciles a CRD that is done."""
    condition, name = MigratedCondition(server), b.crd().name
    server.refuse = lambda _: Unreachable("away")
    await condition.tell(server.crd(), said(MigrationEvent.IDLE))
    assert (condition.owes(name, None), condition.owes(name, 5.0), condition.owes("other", None)) == (10.0, 5.0, None)
    server.refuse = lambda _: None
    await condition.tell(server.crd(), said(MigrationEvent.IDLE))
    assert condition.owes(name, None) is None and server.reasons == ["Migrated"]
    server.refuse = lambda _: Forbidden(status=403, verb="patch", target="crd")
    await condition.tell(server.crd(changed=True), said(MigrationEvent.IDLE))
    assert condition.owes(name, None) is None, "a missing right does not come by asking"


async def test_a_crd_that_asks_no_more_loses_it(server: Server) -> None:
    """Nobody would keep it true."""
    condition = MigratedCondition(server)
    await condition.remove(server.crd())
    assert server.applied == []
    await condition.tell(server.crd(), said(MigrationEvent.IDLE))
    await condition.remove(server.crd())
    assert server.applied[1:] == [[]]
