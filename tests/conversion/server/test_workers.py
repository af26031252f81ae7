"""Worker processes: one socket, one set of numbers, and none that stays dead."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from restow.conversion.server import Limits, Workers, WorkersKeepDying, bind, run_parent
from restow.kube.backoff import Backoff
from restow.kube.clock import SYSTEM_CLOCK
from tests.conversion.server.apiserver import ApiServer, review
from tests.conversion.server.gateways import old
from tests.conversion.server.rawhttp import Answer, connected, head
from tests.conversion.server.test_admitting import admission
from tests.conversion.server.webhooks import GATEWAYS, LOOPBACK, Authority
from tests.conversion.server.worker import LIMITS

WORKER = str(Path(__file__).with_name("worker.py"))
DEATHS, RUNNING = "restow_webhook_worker_deaths_total", "restow_webhook_workers"


@dataclass
class Parent:
    """A parent in this process, with workers of their own. Answers `connected` as a `Running` does."""

    workers: Workers
    authority: Authority
    port: int
    probes_port: int
    stop: asyncio.Event
    ended: asyncio.Task[None]

    @property
    def url(self) -> str:
        """Where conversions of gateways are served."""
        return f"https://{LOOPBACK}:{self.port}{GATEWAYS}"

    async def asked(self, path: str) -> Answer:
        """Ask a probe."""
        async with connected(self, probes=True) as client:
            return await client.post(path=path, method="GET", connection="close")

    async def numbers(self) -> dict[str, float]:
        """Scrape: the sum over all labels of each name."""
        text = (await self.asked("/metrics")).body.decode()
        found: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found[sample.name] = found.get(sample.name, 0) + sample.value
        return found

    async def until(self, name: str, value: float) -> None:
        """Wait for a number."""
        while (await self.numbers()).get(name, 0) != value:
            assert not self.ended.done()
            await asyncio.sleep(0.02)

    async def pid(self) -> int:
        """Ask some worker for its process, over a connection of its own."""
        async with connected(self) as client:
            answer = await client.post(admission(), path="/admit/pid", connection="close")
        return int(json.loads(answer.body)["response"]["status"]["message"])

    async def pids(self, number: int) -> set[int]:
        """Ask until so many different ones have answered."""
        found: set[int] = set()
        while len(found) < number:
            found.add(await self.pid())
        return found


@asynccontextmanager
async def parent(authority: Authority, number: int, *command: str, limits: Limits = LIMITS) -> AsyncIterator[Parent]:
    """Run some workers."""
    authority.issue()
    listener, probes, stop = bind(LOOPBACK, 0), bind(LOOPBACK, 0), asyncio.Event()
    ports = listener.getsockname()[1], probes.getsockname()[1]
    run: Sequence[str] = command or (sys.executable, WORKER, str(authority.certificate), str(authority.key))
    workers = Workers(
        run,
        listener,
        number,
        limits=limits,
        clock=SYSTEM_CLOCK,
        backoff=Backoff(first=0.01, most=0.01),
        chance=lambda: 0.0,
    )
    ended = asyncio.create_task(run_parent(workers, probes, stop, limits=limits))
    try:
        yield Parent(workers, authority, *ports, stop, ended)
    finally:
        stop.set()
        async with asyncio.timeout(30):
            await asyncio.wait((ended,))


async def test_numbers_add_up_and_deaths_cost_no_more_than_they_must(
    authority: Authority, api: ApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever scrapes sees all workers, the dead included; the others go on serving, and a new one takes its place."""
    async with parent(authority, 2) as running:
        assert (await running.asked("/livez")).status == 200
        await running.until(RUNNING, 2)
        assert (await running.asked("/readyz")).status == 200
        first = await running.pids(2)
        await asyncio.gather(*(api.convert(running.url, old(f"g{number}")) for number in range(40)))
        numbers = await running.numbers()
        assert numbers["restow_conversion_objects_total"] == 40
        assert numbers["restow_conversion_seconds_count"] == 40
        assert numbers["restow_webhook_certificate_loads_total"] == 2

        os.kill(min(first), signal.SIGKILL)
        await running.until(DEATHS, 1)
        assert min(first) not in await running.pids(1)
        assert (await running.asked("/readyz")).status == 200, "one is enough"
        await running.until(RUNNING, 2)
        second = await running.pids(2)
        assert max(first) in second
        assert min(first) not in second
        assert (await running.numbers())["restow_conversion_objects_total"] == 40, "what the dead one counted stays"

        async with connected(running) as client:
            body = admission()
            await client.send(head(path="/admit/die", content_length=str(len(body))) + body)
            assert await client.closed() == b""
        await running.until(DEATHS, 2)
        await running.until(RUNNING, 2)
        third = await running.pids(2)
        running.workers.signal(signal.SIGKILL)
        await running.until(DEATHS, 4)
        await running.until(RUNNING, 2)
        assert not third & await running.pids(2)
    assert running.ended.exception() is None
    assert sum("and is started anew" in line for line in caplog.messages) == 4


async def test_all_of_them_drain(authority: Authority) -> None:
    """The parent is unready at once; each worker serves, says goodbye, finishes, and ends; then the parent does."""
    async with parent(authority, 2) as running:
        await running.until(RUNNING, 2)
        pids = await running.pids(2)
        body = review(old())
        async with connected(running) as slow, connected(running) as kept:
            assert (await kept.post(review(old()))).headers.get("connection") is None
            await slow.send(head(content_length=str(len(body))) + body[:50])
            await running.until("restow_webhook_bytes_in_flight", 50)
            running.stop.set()
            while (await running.asked("/readyz")).body != b"draining\n":
                await asyncio.sleep(0)
            assert (await running.asked("/livez")).status == 200
            while (answer := await kept.post(review(old()))).headers.get("connection") != "close":
                await asyncio.sleep(0)
            assert answer.status == 200
            while await _accepts(running.port):
                await asyncio.sleep(0.01)
            assert not running.ended.done()
            await slow.send(body[50:])
            assert (await slow.answer()).status == 200
        async with asyncio.timeout(20):
            await running.ended
        assert not any(_lives(pid) for pid in pids)


async def _accepts(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(LOOPBACK, port)
    except ConnectionRefusedError:
        return False
    writer.close()
    return True


async def test_one_that_hangs_is_killed(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    """A loop that does not turn accepts nothing and never ends by itself; no probe of the parent would show it."""
    async with parent(authority, 1) as running:
        await running.until(RUNNING, 1)
        hung = await running.pid()
        async with connected(running) as client:
            body = admission()
            await client.send(head(path="/admit/hang", content_length=str(len(body))) + body)
            await running.until(DEATHS, 1)
        await running.until(RUNNING, 1)
        assert await running.pid() != hung
    assert "a worker has not answered for 6 s and is killed" in caplog.messages


async def test_one_that_hangs_while_it_starts_is_killed_later(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    """Imports on a throttled CPU are no hang; but one that never comes up is not waited for without end either."""
    forever = (sys.executable, "-c", "import time; time.sleep(3600)")
    async with parent(authority, 1, *forever, limits=replace(LIMITS, silence_seconds=0.1)) as running:
        await running.until(DEATHS, 1)
    assert "a worker has not answered for 0.5 s and is killed" in caplog.messages
    assert not any("for 0.1 s" in line for line in caplog.messages)


async def test_those_that_die_at_once_are_given_up(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    """A wrong configuration does not become right by starting it again; whoever started the parent has to see it."""
    async with parent(authority, 2, sys.executable, "-c", "raise SystemExit(3)") as running:
        async with asyncio.timeout(30):
            await asyncio.wait((running.ended,))
        with pytest.raises(WorkersKeepDying, match="5 workers in a row ended at once, the last with code 3"):
            await running.ended
        assert running.stop.is_set()
    assert len(caplog.messages) >= 5


async def test_those_that_cannot_be_started_are_given_up_too(authority: Authority) -> None:
    """No processes left, or a command that is gone: the parent must neither spin nor fall over."""
    async with parent(authority, 2, "/nonexistent/python") as running:
        async with asyncio.timeout(30):
            await asyncio.wait((running.ended,))
        with pytest.raises(WorkersKeepDying, match="the last with code 127"):
            await running.ended


async def test_cancelled_it_kills_them(authority: Authority) -> None:
    """A second signal ends the parent at once; nothing may be left behind."""
    async with parent(authority, 1) as running:
        await running.until(RUNNING, 1)
        pid = await running.pid()
        running.ended.cancel()
        await asyncio.wait((running.ended,))
        assert not _lives(pid)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
