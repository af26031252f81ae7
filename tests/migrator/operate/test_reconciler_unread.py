"""A CRD that cannot be read: when the migrator looks again. Time is virtual."""

from __future__ import annotations

import asyncio
import random

import pytest

from restow.kube.errors import KubeError, TooManyRequests, Unreachable
from restow.kube.retry import Backoff
from restow.migrator.operate.hooks import MigrationDetails, MigrationEvent
from restow.migrator.operate.reconciler import Migrator
from tests.kube.conftest import VirtualTimeLoop
from tests.memory.cluster import MemoryCluster, Request

NAME = "widgets.example.com"


class Whole(random.Random):
    """Chance by which every wait has its whole length."""

    def random(self) -> float:
        return 1.0


def busy(seconds: float) -> KubeError:
    """A server's answer that asks for some time."""
    return TooManyRequests(status=429, verb="get", target="it", retry_after=seconds)


@pytest.mark.parametrize(
    ("error", "wait"),
    [(Unreachable("refused"), 20.0), (busy(0.0), 20.0), (busy(45.0), 45.0), (busy(86400.0), 60.0)],
    ids=str,
)
def test_it_is_read_again_when_the_server_asks_for_it(error: KubeError, wait: float) -> None:
    """A look before the server's Retry-After keeps it busy; one that obeys a day leaves a CRD alone for it."""

    async def busy_server(_request: Request) -> None:
        raise error

    async def main() -> None:
        memory, told = MemoryCluster(), list[MigrationDetails]()

        async def hook(details: MigrationDetails) -> None:
            told.append(details)

        memory.before = busy_server
        backoff = Backoff(first=20.0, most=20.0)
        migrator = Migrator(memory, [NAME], hooks=[hook], backoff=backoff, chance=Whole())
        result = await migrator.reconcile(NAME)
        assert [each.event for each in told] == [MigrationEvent.FAILED]
        assert result.requeue_after == told[0].requeue_after == wait

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(main())
