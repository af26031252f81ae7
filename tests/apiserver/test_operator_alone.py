"""``restow operator`` is asked to stop while its API server is away: what it wants to say last cannot be said."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator

import pytest

from restow.controlplane.plane import ControlPlane
from tests.apiserver.kind import until
from tests.apiserver.operators import Operator, free_port

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
