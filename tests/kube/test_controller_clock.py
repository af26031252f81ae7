"""What a controller does when the wall clock is set. Time is virtual."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from restow.kube.clock import Clock
from restow.kube.controller import Controller, ReconcileResult
from restow.kube.listwatch import Key
from restow.kube.resources import NAMESPACES
from tests.kube.test_controller_failures import OneNamespace, Run

DAY = 86400.0


def reconciled_at(run: Run, *, set_by: dict[float, float], resync: float | None, seconds: float) -> list[float]:
    """Return when the only object is reconciled, if the wall clock is set by so many seconds at these times."""
    times: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()

        def now() -> datetime:
            passed = loop.time() - begun
            ahead = sum(by for at, by in set_by.items() if at <= passed)
            return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=passed + ahead)

        async def reconcile(_key: Key) -> ReconcileResult:
            times.append(loop.time() - begun)
            return ReconcileResult(requeue_after=DAY)  # it waits for a time of day

        controller = Controller(
            OneNamespace(),  # type: ignore[abstract]
            NAMESPACES,
            reconcile,
            resync=resync,
            clock=Clock(monotonic=loop.time, now=now),
            chance=lambda: 0.5,
        )
        running = asyncio.create_task(controller.run())
        await asyncio.wait([running], timeout=seconds)
        running.cancel()
        await asyncio.wait([running])

    run(main())
    return times


@pytest.mark.parametrize("by", [3600.0, -3600.0, 5.0], ids=str)
@pytest.mark.parametrize("resync", [None, 6 * 3600.0], ids=str)
def test_objects_are_reconciled_soon_after_the_clock_was_set(
    by: float, resync: float | None, run_in_virtual_time: Run
) -> None:
    """A version would expire, or a Shoot be maintained, hours late after a virtual machine was resumed."""
    first, *then = reconciled_at(run_in_virtual_time, set_by={1000.0: by}, resync=resync, seconds=3000.0)
    assert first < 1.0
    assert len(then) == 1 and 1000.0 <= then[0] <= 1061.0


@pytest.mark.parametrize(("resync", "count"), [(None, 1), (1000.0, 3)], ids=str)
def test_a_clock_that_is_slewed_causes_no_reconcile(resync: float | None, count: int, run_in_virtual_time: Run) -> None:
    """NTP corrects a clock a little all the time; every object would be reconciled each minute."""
    slewed = {float(at): 0.02 for at in range(10, 3000, 60)}
    times = reconciled_at(run_in_virtual_time, set_by=slewed, resync=resync, seconds=2500.0)
    assert len(times) == count
