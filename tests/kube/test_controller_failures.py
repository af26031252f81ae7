"""What a controller waits for after a reconcile that failed. Time is virtual."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from restow.kube.clock import Clock
from restow.kube.cluster import Reply, Request
from restow.kube.controller import Controller, ReconcileResult
from restow.kube.errors import KubeError, TooManyRequests, Unreachable
from restow.kube.listwatch import Key
from restow.kube.resources import NAMESPACES
from restow.kube.retry import Backoff
from tests.memory.stub import StubCluster

Run = Callable[[Coroutine[Any, Any, None]], None]


class OneNamespace(StubCluster):
    """A server with one namespace that never changes."""

    async def send(self, request: Request) -> Reply:
        metadata = {"name": "default", "uid": "1", "resourceVersion": "1"}
        return Reply(json.dumps({"metadata": {"resourceVersion": "1"}, "items": [{"metadata": metadata}]}).encode())

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[bytes]]:
        yield self._silence()

    async def _silence(self) -> AsyncIterator[bytes]:
        await asyncio.get_running_loop().create_future()
        yield b""


def busy(seconds: float) -> KubeError:
    """A server's answer that asks for some time."""
    return TooManyRequests(status=429, verb="patch", target="it", retry_after=seconds)


@pytest.mark.parametrize(
    ("error", "wait"),
    [(Unreachable("refused"), 0.5), (busy(0.0), 0.5), (busy(7.0), 7.0), (busy(86400.0), 60.0)],
    ids=str,
)
def test_a_failed_key_waits_for_the_server(error: KubeError, wait: float, run_in_virtual_time: Run) -> None:
    """A reconcile before the server's Retry-After keeps it busy; one that obeys a day leaves an object alone for it."""

    async def main() -> None:
        loop, times, done = asyncio.get_running_loop(), [], asyncio.Event()

        async def reconcile(_key: Key) -> ReconcileResult:
            times.append(loop.time())
            if len(times) == 1:
                raise error
            done.set()
            return ReconcileResult()

        controller = Controller(
            OneNamespace(),  # type: ignore[abstract]
            NAMESPACES,
            reconcile,
            backoff=Backoff(first=1.0, most=8.0),
            clock=Clock(monotonic=loop.time),
            chance=lambda: 0.0,
        )
        running = asyncio.create_task(controller.run())
        await done.wait()
        running.cancel()
        await asyncio.wait([running])
        assert times[1] - times[0] == pytest.approx(wait)

    run_in_virtual_time(main())
