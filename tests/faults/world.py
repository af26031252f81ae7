"""What runs share: the control plane, a session to it, the webhook, and a second API server once a seed needs one."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from restow.controlplane.plane import ApiServer, ControlPlane
from restow.kube import connect
from restow.kube.client import HttpCluster
from tests.apiserver.anchor import kept_group
from tests.apiserver.lag import LateLine, late_apiserver
from tests.faults.conversion import ConversionWebhook, conversion_webhook
from tests.faults.widgets import GROUP, NEW, OLD, REMOVED


@dataclass(frozen=True, slots=True)
class Late:
    """The second API server, a session to it, and its line to etcd."""

    server: ApiServer
    cluster: HttpCluster
    line: LateLine


@dataclass(slots=True)
class World:
    """See the module. Made by ``world``.

    Attributes:
        numbers: tell the kinds of runs apart.
        late_turn: held by the run that uses the second API server.
        restart_turn: held by the run that uses the API server that is restarted.
    """

    plane: ControlPlane
    cluster: HttpCluster
    webhook: ConversionWebhook
    folder: Path
    _stack: AsyncExitStack
    _late: Late | None = None
    _restarted: ApiServer | None = None
    late_turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    restart_turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def late(self) -> Late:
        """The second API server; started at the first call."""
        if self._late is None:
            server, line = await self._stack.enter_async_context(late_apiserver(self.plane))
            cluster = await self._stack.enter_async_context(connect(server.kubeconfig))
            self._late = Late(server, cluster, line)
        return self._late

    async def restarted(self) -> ApiServer:
        """The API server that a run may restart, while all others go on; started at the first call."""
        if self._restarted is None:
            self._restarted = await self.plane.another_apiserver()
        return self._restarted


@asynccontextmanager
async def world(plane: ControlPlane, folder: Path) -> AsyncIterator[World]:
    """Open what runs share."""
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # clients that hang up are what this is about
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(connect(plane.kubeconfig))
        webhook = await stack.enter_async_context(conversion_webhook(folder))
        await stack.enter_async_context(kept_group(cluster, GROUP, (REMOVED, OLD, NEW)))
        yield World(plane, cluster, webhook, folder, stack)
