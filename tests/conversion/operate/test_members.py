"""The Lease of a replica whose API server is away."""

from __future__ import annotations

import asyncio
import logging

import pytest

from restow.conversion.operate import members
from restow.conversion.operate.members import Membership
from restow.kube.clock import SYSTEM_CLOCK
from tests.memory.cluster import MemoryCluster, Request


async def test_a_replica_does_not_wait_to_say_goodbye(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A request to an API server that hangs lasts 75 s, and the kubelet kills the process before."""
    memory, never = MemoryCluster(), asyncio.Event()

    async def hang(_request: Request) -> None:
        await never.wait()

    monkeypatch.setattr(members, "_LEAVE_S", 0.01)
    member = Membership(memory, "default", "a", SYSTEM_CLOCK)
    await member.join()
    memory.before = hang
    with caplog.at_level(logging.WARNING):
        await member.leave()
    assert "the Lease of this replica stays until it ends: no answer in time" in caplog.text
