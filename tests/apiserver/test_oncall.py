"""What an operator on call sees of a migrator that is embedded: numbers that move, and what the API server said."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from restow.kube.client import HttpCluster
from restow.kube.resources import EVENTS
from restow.migrator import Events, MigrationDetails, MigrationEvent, Migrator, Options, log_details
from restow.migrator.operate.metrics import MigrationMetrics
from tests.apiserver.admission import denying
from tests.apiserver.kind import Kind, until
from tests.apiserver.proxy import Fault, Proxy, Seen

COUNT = 12
SOON = Options(settle_s=0.0, concurrency=2)


@pytest.fixture
async def due(kind: Kind) -> Kind:
    """Objects of alice at v1alpha1; v1beta1 has become the storage version."""
    await kind.populate(COUNT)
    await kind.change(kind.document(storage="v1beta1"))
    return kind


async def test_numbers_move_while_a_run_is_under_way(due: Kind, proxy: Proxy, through_proxy: HttpCluster) -> None:
    """A run of an hour whose gauges stand still looks like one that hangs."""
    registry = CollectorRegistry()
    goes_on = asyncio.Event()
    writes = 0

    async def hook(seen: Seen) -> Fault | None:
        nonlocal writes
        if seen.is_write:
            writes += 1
            if writes > COUNT // 2:
                await goes_on.wait()
        return None

    def sample(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"restow_migrator_{name}", {"crd": due.name} | labels)

    async def half() -> bool:
        return sample("objects_total", outcome="rewritten") == COUNT // 2

    proxy.hook = hook
    migrator = Migrator(through_proxy, [due.name], SOON, hooks=[MigrationMetrics(registry)], progress_s=0.05)
    async with asyncio.TaskGroup() as group:
        group.create_task(migrator.reconcile(due.name))
        await until(half, "the counter did not move")
        assert sample("objects_remaining") == COUNT // 2
        assert sample("requests_total", kind="write") >= COUNT // 2
        goes_on.set()
    assert sample("objects_remaining") == 0
    assert sample("objects_total", outcome="rewritten") == COUNT
    assert sample("requests_total", kind="write") == writes == COUNT


@pytest.mark.parametrize("code", [403, 422])
async def test_what_the_api_server_said_about_the_first_failures_is_passed_on(
    due: Kind, cluster: HttpCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    """On-call learns why objects fail from the Event, and does not have to run the command again to see it."""
    told: list[MigrationDetails] = []
    status = {"code": code, "message": "frozen until Friday"}
    denied = [f"w{number:02}" for number in range(3, 9)]
    hooks = [log_details, Events(cluster), told.append]
    async with denying(due, tmp_path, "v1beta1", denied, status):
        with caplog.at_level(logging.INFO, "restow.migrator.operate.log"):
            await Migrator(cluster, [due.name], SOON, hooks=hooks).reconcile(due.name)
    said = f'admission webhook "asks.{due.group}" denied the request: frozen until Friday'
    failed = next(each for each in told if each.event is MigrationEvent.FAILED)
    assert [each.name for each in failed.failed] == denied[:3]
    assert all(said in each.message for each in failed.failed)
    assert said in failed.message and failed.message.startswith("6 of 12 objects failed, the first: default/w03 (")
    assert any(said in record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)
    events = (await cluster.list_page(EVENTS, "default")).json()["items"]
    notes = [each["note"] for each in events if each["regarding"]["name"] == due.name]
    assert any(said in note for note in notes), notes
