"""The clock of this machine against a real API server, and against one of several whose clock is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from restow.kube.client import HttpCluster
from restow.kube.clock import Clock
from restow.kube.clockcheck import ClockCheck
from tests.apiserver.kind import until
from tests.apiserver.proxy import Answer, Fault, Proxy, Seen


async def soon(_seconds: float) -> None:
    """Ask again without the wait of half a minute."""
    await asyncio.sleep(0.01)


@asynccontextmanager
async def compared(proxy: Proxy, cluster: HttpCluster, ahead: float = 0.0) -> AsyncIterator[ClockCheck]:
    """Return a check that has been answered more often than it remembers."""
    check = ClockCheck(cluster, Clock(sleep=soon, now=lambda: datetime.now(UTC) + timedelta(seconds=ahead)))
    task = asyncio.create_task(check.run())

    before = len(proxy.seen)

    async def enough() -> bool:
        return len(proxy.seen) > before + 25

    try:
        await until(enough, "no answers")
        yield check
    finally:
        task.cancel()


async def test_a_real_api_server_agrees_with_its_own_machine(proxy: Proxy, through_proxy: HttpCluster) -> None:
    """The header of a real server would be misread, or one connection would stay with one server behind a balancer."""
    async with compared(proxy, through_proxy) as check:
        assert (check.obstacle, check.closest, check.farthest) == ("", 0.0, 0.0)
    assert len({seen.peer for seen in proxy.seen}) > 25
    async with compared(proxy, through_proxy, ahead=45.0) as check:
        assert "ahead of every API server" in check.obstacle


async def test_one_api_server_with_a_wrong_clock_ends_no_lead(proxy: Proxy, through_proxy: HttpCluster) -> None:
    """One of three API servers with a wrong clock would keep every replica from leading."""

    async def one_of_three(seen: Seen) -> Fault | None:
        if seen.number % 3:
            return None
        date = format_datetime(datetime.now(UTC) + timedelta(seconds=45), usegmt=True)
        return Answer(200, b"{}", {"Date": date})

    proxy.hook = one_of_three
    async with compared(proxy, through_proxy) as check:
        assert (check.obstacle, check.closest) == ("", 0.0)
        assert -46 < check.farthest < -40
