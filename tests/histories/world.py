"""What histories share: the control plane, two API servers on one etcd, and when the second one lags."""

from __future__ import annotations

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
from tests.histories.asking import seldom_searching
from tests.histories.drawing import VERSIONS

GROUP = "histories.example.com"
NATIVE = "storagemigration.k8s.io/v1beta1"


@dataclass(slots=True)
class World:
    """See the module. Made by ``world``.

    Attributes:
        first, second: sessions to the API servers as administrator; the second one can lag.
        numbers: tell the kinds of histories apart.
    """

    plane: ControlPlane
    late: ApiServer
    first: HttpCluster
    second: HttpCluster
    folder: Path
    _line: LateLine
    holding: bool = False
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def hold(self) -> None:
        """Let the second API server hear of no change of a CRD any more."""
        self.holding = True
        self._line.hold()

    def release(self) -> None:
        """Let it hear of all of them."""
        self.holding = False
        self._line.release()


@asynccontextmanager
async def world(folder: Path) -> AsyncIterator[World]:
    """Run what histories share."""
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # clients that hang up are what this is about
    async with AsyncExitStack() as stack:
        stack.enter_context(seldom_searching())
        plane = await stack.enter_async_context(
            ControlPlane(feature_gates={"StorageVersionMigrator": True}, runtime_config={NATIVE: True})
        )
        late, line = await stack.enter_async_context(late_apiserver(plane))
        first = await stack.enter_async_context(connect(plane.kubeconfig))
        second = await stack.enter_async_context(connect(late.kubeconfig))
        await stack.enter_async_context(kept_group(first, GROUP, VERSIONS))
        yield World(plane, late, first, second, folder, line)
