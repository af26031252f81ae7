"""The end before the end: reasons, and sleeps that do not outlast it. Time is virtual."""

from __future__ import annotations

import asyncio

import pytest

from restow.migrator.requests.environment import RunStop
from tests.kube.conftest import RunInVirtualTime


def test_nothing_is_raised_at_first(run_in_virtual_time: RunInVirtualTime) -> None:
    """A run must not end because nobody has asked for anything."""

    async def main() -> None:
        stop = RunStop()
        assert not stop
        assert stop.why == ""

    run_in_virtual_time(main())


def test_a_request_from_outside_is_a_reason(run_in_virtual_time: RunInVirtualTime) -> None:
    """SIGTERM must end the run, and the report must say so."""

    async def main() -> None:
        requested = asyncio.Event()
        stop = RunStop(requested)
        requested.set()
        assert stop
        assert stop.why == "the run was asked to stop"

    run_in_virtual_time(main())


def test_the_first_reason_stays(run_in_virtual_time: RunInVirtualTime) -> None:
    """What ended the run is its cause; what broke afterwards, or the request to stop, is a consequence."""

    async def main() -> None:
        requested = asyncio.Event()
        stop = RunStop(requested)
        stop.because("the credentials are no longer accepted")
        stop.because("the server cannot be reached")
        requested.set()
        assert stop
        assert stop.why == "the credentials are no longer accepted"

    run_in_virtual_time(main())


@pytest.mark.parametrize("from_outside", [True, False])
def test_a_sleep_ends_when_the_flag_is_raised(from_outside: bool, run_in_virtual_time: RunInVirtualTime) -> None:
    """A run in a long back-off must stop within its grace period, whoever asks."""

    async def main() -> None:
        requested, loop = asyncio.Event(), asyncio.get_running_loop()
        stop, start = RunStop(requested), loop.time()
        async with asyncio.TaskGroup() as group:
            group.create_task(stop.sleep(3600))
            await asyncio.sleep(2)
            if from_outside:
                requested.set()
            else:
                stop.because("enough")
        assert loop.time() - start == 2

    run_in_virtual_time(main())


def test_a_sleep_lasts_as_long_as_asked_for(run_in_virtual_time: RunInVirtualTime) -> None:
    """A wait that ends too early hammers a server in trouble."""

    async def main() -> None:
        stop, loop = RunStop(), asyncio.get_running_loop()
        start = loop.time()
        await stop.sleep(7)
        assert loop.time() - start == 7
        assert not stop

    run_in_virtual_time(main())


@pytest.mark.parametrize("seconds", [0, -1])
def test_no_time_is_no_sleep(seconds: float, run_in_virtual_time: RunInVirtualTime) -> None:
    """Where there is nothing to wait for, no timer and no task is made."""

    async def main() -> None:
        stop, loop = RunStop(), asyncio.get_running_loop()
        start = loop.time()
        await stop.sleep(seconds)
        assert loop.time() == start

    run_in_virtual_time(main())


def test_once_raised_nobody_sleeps_or_waits(run_in_virtual_time: RunInVirtualTime) -> None:
    """Every further wait of a run that ends must return at once."""

    async def main() -> None:
        stop, loop = RunStop(), asyncio.get_running_loop()
        start = loop.time()
        stop.because("enough")
        await stop.sleep(3600)
        await stop.wait()
        assert loop.time() == start

    run_in_virtual_time(main())


def test_many_sleepers_are_woken_together(run_in_virtual_time: RunInVirtualTime) -> None:
    """All workers wait on the same flag."""

    async def main() -> None:
        stop, loop = RunStop(), asyncio.get_running_loop()
        start = loop.time()
        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(stop.sleep(3600))
            await asyncio.sleep(1)
            stop.because("enough")
        assert loop.time() - start == 1

    run_in_virtual_time(main())


def test_a_cancelled_sleep_is_cancelled_and_leaves_no_task(run_in_virtual_time: RunInVirtualTime) -> None:
    """A sleep that swallows its cancellation would keep a worker alive; a task left behind would hang the loop."""

    async def main() -> None:
        stop = RunStop()
        sleeper = asyncio.create_task(stop.sleep(3600))
        await asyncio.sleep(1)
        sleeper.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeper
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_in_virtual_time(main())


def test_a_sleep_that_ends_by_itself_leaves_no_task(run_in_virtual_time: RunInVirtualTime) -> None:
    """A run makes thousands of these; each one's helpers must end with it."""

    async def main() -> None:
        await RunStop().sleep(1)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_in_virtual_time(main())
