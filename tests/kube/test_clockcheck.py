"""The clock of this machine against the clocks of API servers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import cycle, repeat
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.kube.clock import Clock
from restow.kube.clockcheck import ClockCheck, ServerClock
from restow.kube.cluster import Cluster, Reply, Request
from restow.kube.errors import KubeError, Unreachable, api_error
from restow.kube.leaderelection import LeaderElector, LeaseTiming
from tests.memory.cluster import MemoryCluster
from tests.memory.stub import StubCluster

Run = Callable[[Coroutine[Any, Any, None]], None]
TRUTH = datetime(2030, 1, 2, 3, 4, 5, 600_000, tzinfo=UTC)
HEADER = "%a, %d %b %Y %H:%M:%S GMT"


class Machine:
    """A machine in virtual time whose clock is ``ahead`` of the true time."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.loop = asyncio.get_running_loop()
        self.ahead = ahead
        self.clock = Clock(monotonic=self.loop.time, now=lambda: self.truth() + timedelta(seconds=self.ahead))

    def truth(self) -> datetime:
        return TRUTH + timedelta(seconds=self.loop.time())


class Servers(StubCluster):
    """API servers behind a load balancer: how far the clock of each connection's server is ahead, or its error."""

    def __init__(self, machine: Machine, ahead: Iterator[float | KubeError], takes: float = 0.01) -> None:
        self.machine = machine
        self.each = ahead
        self.takes = takes
        self.connections = 0
        self.says = True
        self.refuses = False

    @asynccontextmanager
    async def at(self, host: str = "", server_name: str = "") -> AsyncIterator[Cluster]:
        self.connections += 1
        yield self

    async def send(self, request: Request) -> Reply:
        ahead = next(self.each)
        if isinstance(ahead, KubeError):
            raise ahead
        await asyncio.sleep(self.takes / 2)
        date = (self.machine.truth() + timedelta(seconds=ahead)).replace(microsecond=0)
        await asyncio.sleep(self.takes / 2)
        if self.refuses:
            headers = {"Date": date.strftime(HEADER)}
            raise api_error(status=403, body=b"no", headers=headers, verb="get", target=request.target)
        return Reply(b"{}", date if self.says else None)


@asynccontextmanager
async def checked(servers: Servers) -> AsyncIterator[ClockCheck]:
    """Return a check that runs inside of the block."""
    check = ClockCheck(servers, servers.machine.clock)
    task = asyncio.create_task(check.run())
    await check.asked.wait()
    yield check
    task.cancel()


@given(
    ahead=st.floats(-1e6, 1e6),
    sent=st.floats(0, 1e6),
    there=st.floats(0, 100),
    back=st.floats(0, 100),
)
def test_only_a_certain_difference_counts(ahead: float, sent: float, there: float, back: float) -> None:
    """A slow answer would make a right clock wrong, or hide more of an error than the latency explains."""
    answered = TRUTH + timedelta(seconds=sent + there)
    server = ServerClock.read(answered.replace(microsecond=0), sent, sent + there + back)
    now = sent + there + back
    clock = Clock(monotonic=lambda: now, now=lambda: TRUTH + timedelta(seconds=now + ahead))
    found = server.difference(clock)
    assert abs(found) <= abs(ahead) + 1e-3
    assert abs(found) >= abs(ahead) - (there + back + 1.0) - 1e-3
    assert found * ahead >= 0


@pytest.mark.parametrize(
    ("ahead", "wrong"), [(0.0, False), (-8.0, False), (9.0, False), (12.0, True), (-12.0, True), (45.0, True)]
)
def test_a_clock_is_wrong_beyond_a_bound(ahead: float, wrong: bool, run_in_virtual_time: Run) -> None:
    """A leader whose clock is 45 s ahead would write statuses that the next leader takes back."""

    async def main() -> None:
        async with checked(Servers(Machine(ahead), repeat(0.0))) as check:
            assert bool(check.obstacle) is wrong
            assert abs(check.closest - ahead) < 1.1

    run_in_virtual_time(main())


def test_a_clock_that_is_set_counts_at_once(run_in_virtual_time: Run) -> None:
    """A leader would continue by a wrong clock until the next answer, or not lead again once the clock is right."""

    async def main() -> None:
        machine = Machine()
        async with checked(Servers(machine, repeat(0.0))) as check:
            await asyncio.sleep(10)
            machine.ahead = 45.0
            assert "at least 44 s ahead of every API server" in check.obstacle
            await asyncio.sleep(3600)
            assert check.obstacle
            machine.ahead = 0.0
            assert not check.obstacle

    run_in_virtual_time(main())


@pytest.mark.parametrize("wrong", [-45.0, 45.0])
def test_one_bad_api_server_ends_no_lead(
    wrong: float, run_in_virtual_time: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """One of three API servers with a wrong clock would keep every replica from leading."""

    async def main() -> None:
        async with checked(Servers(Machine(), cycle([0.0, wrong, wrong, wrong, 0.0, 0.0]))) as check:
            for _ in range(600):
                await asyncio.sleep(1)
                assert not check.obstacle
            assert check.closest == 0
            assert abs(check.farthest + wrong) < 1.1

    with caplog.at_level(logging.WARNING):
        run_in_virtual_time(main())
    (said,) = caplog.messages
    assert "one API server and agrees with another" in said


def test_a_start_at_a_bad_api_server_is_corrected_soon(run_in_virtual_time: Run) -> None:
    """A replica whose first answers are wrong would not lead for minutes."""

    async def main() -> None:
        machine = Machine()
        servers = Servers(machine, iter([-45.0, -45.0, *repeat(0.0, 100)]))
        async with checked(servers) as check:
            assert check.obstacle
            await asyncio.sleep(2.5)
            assert not check.obstacle

    run_in_virtual_time(main())


def test_a_machine_that_slept_is_noticed(run_in_virtual_time: Run) -> None:
    """Answers from before would hide that the monotonic clock and the wall clock both stood still for an hour."""

    async def main() -> None:
        async with checked(Servers(Machine(), iter([*repeat(0.0, 20), *repeat(3600.0, 1000)]))) as check:
            await asyncio.sleep(20 * 30)
            assert not check.obstacle
            await asyncio.sleep(60)
            assert "behind every API server" in check.obstacle

    run_in_virtual_time(main())


def test_requests_are_few(run_in_virtual_time: Run) -> None:
    """Each replica opens connections for nothing but the time."""

    async def main() -> None:
        servers = Servers(Machine(), repeat(0.0))
        async with checked(servers):
            await asyncio.sleep(3599)
            assert servers.connections <= 120

    run_in_virtual_time(main())


@pytest.mark.parametrize("how", ["unreachable", "no date", "slow"])
def test_without_an_answer_nothing_is_wrong(how: str, run_in_virtual_time: Run) -> None:
    """A cluster whose proxy drops the header, or that answers slowly, would have no leader."""

    async def main() -> None:
        gone: Iterator[float | KubeError] = repeat(Unreachable("no answer"))
        servers = Servers(
            Machine(45.0), gone if how == "unreachable" else repeat(0.0), takes=6.0 if how == "slow" else 0.01
        )
        servers.says = how != "no date"
        async with checked(servers) as check:
            await asyncio.sleep(100)
            assert (check.obstacle, check.closest, check.farthest) == ("", 0.0, 0.0)

    run_in_virtual_time(main())


def test_a_refusal_says_the_time_too(run_in_virtual_time: Run) -> None:
    """Where RBAC does not allow /version, the clock would never be compared."""

    async def main() -> None:
        servers = Servers(Machine(45.0), repeat(0.0))
        servers.refuses = True
        async with checked(servers) as check:
            assert check.obstacle

    run_in_virtual_time(main())


def test_a_state_is_reported_once(run_in_virtual_time: Run, caplog: pytest.LogCaptureFixture) -> None:
    """A wrong clock would fill the log, or the log would not say when the clock was corrected."""

    async def main() -> None:
        machine = Machine(5.0)
        async with checked(Servers(machine, repeat(0.0))):
            await asyncio.sleep(600)
            machine.ahead = 0.0
            await asyncio.sleep(600)

    with caplog.at_level(logging.INFO, "restow.kube.clockcheck"):
        run_in_virtual_time(main())
    assert caplog.messages == [
        "the clock of this machine is at least 4 s ahead of every API server that answered: correct it",
        "the clock of this machine agrees with the API servers",
    ]


def test_a_leader_with_a_wrong_clock_hands_over(run_in_virtual_time: Run) -> None:
    """Statuses would be written by the wrong time, or no other replica could lead until the lease expires."""

    async def main() -> None:
        timing = LeaseTiming(lease_duration=3600, renew_deadline=1800.0, retry_period=2.0)
        machines = {"wrong": Machine(), "right": Machine()}
        memory, led = MemoryCluster(), list[tuple[str, bool]]()

        async def lead(name: str, check: ClockCheck) -> None:
            async def body() -> None:
                led.append((name, True))
                try:
                    await asyncio.Event().wait()
                finally:
                    led.append((name, False))

            clock = machines[name].clock
            elector = LeaderElector(
                memory, "lease", "default", identity=name, timing=timing, clock=clock, obstacle=lambda: check.obstacle
            )
            await elector.run(body)

        servers = {name: Servers(machine, repeat(0.0)) for name, machine in machines.items()}
        async with checked(servers["wrong"]) as one, checked(servers["right"]) as two:
            tasks = [asyncio.create_task(lead("wrong", one))]
            await asyncio.sleep(10)
            tasks.append(asyncio.create_task(lead("right", two)))
            await asyncio.sleep(10)
            assert led == [("wrong", True)]
            machines["wrong"].ahead = 45.0
            await asyncio.sleep(10)
            assert led == [("wrong", True), ("wrong", False), ("right", True)]
            machines["right"].ahead = -45.0
            await asyncio.sleep(60)
            assert led[3:] == [("right", False)]
            machines["wrong"].ahead = 0.0
            await asyncio.sleep(10)
            assert led[4:] == [("wrong", True)]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    run_in_virtual_time(main())
