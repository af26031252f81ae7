"""What histories share: the control plane, two API servers on one etcd, and when the second one lags."""

from __future__ import annotations

import itertools
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from restow.controlplane.plane import ApiServer, ControlPlane
from restow.kube import connect
from restow.kube.client import HttpCluster
from tests.apiserver.admission import Held, asking
from tests.apiserver.anchor import kept_group
from tests.apiserver.kind import Kind
from tests.apiserver.lag import LateLine, late_apiserver
from tests.apiserver.webhook import conversion_webhook
from tests.histories.asking import seldom_searching
from tests.histories.drawing import VERSIONS
from tests.histories.owners import converted

GROUP = "histories.example.com"
HELD = {"held": "yes"}
"""The label of objects whose create an admission webhook may hold."""
NATIVE = "storagemigration.k8s.io/v1beta1"


@dataclass(slots=True)
class World:
    """See the module. Made by ``world``.

    Attributes:
        first, second: sessions to the API servers as administrator; the second one can lag.
        numbers: tell the kinds of histories apart.
        converter: the client configuration of the conversion webhook.
        asked: whether API servers ask the admission webhook already.
    """

    plane: ControlPlane
    late: ApiServer
    first: HttpCluster
    second: HttpCluster
    folder: Path
    _line: LateLine
    holding: bool = False
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    converter: dict[str, str] = field(default_factory=dict)
    asked: bool = False
    _held: dict[str, Held] = field(default_factory=dict)

    def hold(self) -> None:
        """Let the second API server hear of no change of a CRD any more."""
        self.holding = True
        self._line.hold()

    def release(self) -> None:
        """Let it hear of all of them."""
        self.holding = False
        self._line.release()

    def holds(self, name: str) -> Held:
        """Have the create of an object of this name held."""
        self._held[name] = held = Held()
        return held

    async def admit(self, request: dict[str, Any]) -> None:
        """Answer an API server's question about a create, once it is not held any more."""
        self.asked = True
        if (held := self._held.pop(request["name"], None)) is not None:
            held.came.set()
            await held.free.wait()


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
        webhook = await stack.enter_async_context(conversion_webhook(folder))
        webhook.converts = converted
        converter = {"url": webhook.url, "caBundle": webhook.ca_bundle}
        opened = World(plane, late, first, second, folder, line, converter=converter)
        every = Kind(first, plane.etcd, GROUP)
        every.plural = "*"
        await stack.enter_async_context(asking(every, folder, "CREATE", opened.admit, labels=HELD))
        yield opened
