"""``restow operator`` is asked to stop while its API server is away, or never answers."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from restow.controlplane.plane import ControlPlane
from tests.apiserver.kind import until
from tests.apiserver.operators import Operator
from tests.apiserver.proxy import Fault, Seen, proxy_before
from tests.ports import free_port
from tests.restow.forked import Forked

MODES: dict[str, tuple[str, ...]] = {"family": (), "conversions": ("--conversions",)}
LEASES = {"family": "restow-operator", "conversions": "restow-operator-conversions"}


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    """One whose API server may go."""
    async with ControlPlane() as running:
        yield running


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("away", ["stopped", "frozen"])
async def test_it_ends_although_its_api_server_is_away(plane: ControlPlane, mode: str, away: str) -> None:
    """A node that is drained during an outage would wait for it, until the kubelet kills it."""
    port = free_port()
    operator = await Operator.start(
        *MODES[mode],
        *(f"--own-ca=https://127.0.0.1:{port}", f"--port={port}", "--install-crds"),
        f"--kubeconfig={plane.kubeconfig}",
    )
    (server,) = plane.apiservers
    assert server.process is not None
    pid = server.process.pid

    async def leads() -> bool:
        return f'restow_leader{{lease="default/{LEASES[mode]}"}} 1.0' in (await operator.get("/metrics"))[1]

    await until(leads, "it does not lead")
    if away == "stopped":
        await server.stop(10)
    else:
        os.kill(pid, signal.SIGSTOP)
    try:
        assert await operator.stop() == 0
    finally:
        if away == "frozen":
            os.kill(pid, signal.SIGCONT)
    log = "".join(operator.log)
    assert f"lease default/{LEASES[mode]}: not released, so it has to expire: " in log
    assert ("the Lease of this replica stays until it ends: " in log) is (mode == "conversions")


#: Where the start hangs, in its order.
STEPS = {"family": ("apiservices", "secrets"), "conversions": ("apiservices", "leases", "configmaps", "secrets")}


@pytest.mark.parametrize("mode", MODES)
async def test_a_start_ends_although_no_answer_comes(plane: ControlPlane, tmp_path: Path, mode: str) -> None:
    """A rollout during an outage would wait for the kubelet to kill each new replica, as long as a request may last."""
    for step in STEPS[mode]:
        asked = asyncio.Event()

        async def hang(seen: Seen, step: str = step, asked: asyncio.Event = asked) -> Fault | None:
            if asked.is_set() or step in seen.path:
                asked.set()
                await asyncio.get_running_loop().create_future()
            return None

        async with proxy_before(plane, tmp_path) as proxy:
            proxy.hook = hang
            process = await Forked.start(
                *("operator", *MODES[mode], "--install-crds"),
                *(f"--own-ca=https://127.0.0.1:{free_port()}", "--bind=127.0.0.1", "--port=0", "--metrics-port=0"),
                *("--request-timeout=0", f"--kubeconfig={proxy.kubeconfig}"),
            )
            try:
                async with asyncio.timeout(60):
                    await asked.wait()
                    process.terminate()
                    assert await process.wait() == 0, step
            finally:
                if process.returncode is None:
                    process.kill()
