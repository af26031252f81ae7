"""What every replica does: follow the ConfigMaps, compile revisions, convert by the active ones, and report that.

A revision that this replica cannot read or compile is reported, and it goes on with the last one that it could. The
conversions of a CRD change between two reviews: one that has begun ends by the rules that it began with.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from restow.conversion.compile.graph import Graph
from restow.conversion.model.errors import ConversionError
from restow.conversion.operate.revisions import LABEL, Report, Revision, RevisionRecord, record_name, report_key
from restow.conversion.server.webhook import WebhookServer
from restow.kube import Cluster, Controller, ControllerEvent, Key, PatchType, ReconcileResult
from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.errors import NotFound
from restow.kube.resources import CONFIG_MAPS

__all__ = ["Replica"]

_log = logging.getLogger(__name__)

_PAGE: Final = 50
_SELECTOR: Final = f"{LABEL}=rules"

Wires = Callable[[frozenset[str]], Awaitable[None]]
"""Is given the CRDs whose wiring this replica keeps; returns once the former set is not kept any more."""


@dataclass(slots=True)
class _Served:
    """The conversions of one CRD in this process."""

    graphs: dict[str, Graph] = field(default_factory=dict)
    serves: str = ""
    wires: bool = False
    reported: Report | None = None


class Replica:
    """The serving part of one process.

    Args:
        cluster: the API server.
        namespace: of the ConfigMaps.
        name: of this replica.
        webhook: what serves.
        wires: told of the CRDs whose wiring is to be kept.
        controller_hook: called for the watch.
        clock: for the watch.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        name: str,
        webhook: WebhookServer,
        *,
        wires: Wires,
        controller_hook: Callable[[ControllerEvent], None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._name = name
        self._webhook = webhook
        self._wires = wires
        self._hook = controller_hook
        self._clock = clock
        self._served: dict[str, _Served] = {}
        self._wiring = asyncio.Lock()
        self._wired: frozenset[str] = frozenset()

    @property
    def wired(self) -> frozenset[str]:
        """The CRDs whose wiring is to be kept."""
        return frozenset(crd for crd, served in self._served.items() if served.wires)

    async def load(self) -> None:
        """Compile and serve all active revisions: what has to be done before this replica is ready.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
        """
        following = ""
        while True:
            params = {"limit": str(_PAGE), "labelSelector": _SELECTOR} | ({"continue": following} if following else {})
            page = (await self._cluster.list_page(CONFIG_MAPS, self._namespace, params=params)).json()
            for item in page["items"]:
                record = RevisionRecord.read(item)
                served = self._served.setdefault(record.crd, _Served())
                await self._adopt(record, served)
                served.wires = record.wired
            following = page["metadata"].get("continue") or ""
            if not following:
                self._wired = self.wired
                return

    async def run(self) -> None:
        """Follow the ConfigMaps until cancelled.

        Raises:
            KubeError: they cannot be watched: RBAC (403), credentials (401).
        """
        await Controller(
            self._cluster,
            CONFIG_MAPS,
            self._reconcile,
            name="conversions",
            namespace=self._namespace,
            label_selector=_SELECTOR,
            workers=2,
            hook=self._hook,
            clock=self._clock,
        ).run()

    async def _reconcile(self, key: Key) -> ReconcileResult:
        try:
            document = (await self._cluster.get(CONFIG_MAPS, key.name, self._namespace)).json()
        except NotFound:
            await self._forget(key.name)
            return ReconcileResult()
        record = RevisionRecord.read(document)
        served = self._served.setdefault(record.crd, _Served())
        problem = await self._adopt(record, served)
        served.wires = record.wired
        await self._keep_wired()
        report = Report(tuple(sorted(served.graphs)), served.serves, record.wired, problem)
        if record.reports.get(self._name) != report:
            body: Mapping[str, Any] = {"data": {report_key(self._name): report.text}}
            encoded = msgspec.json.encode(body)
            try:
                await self._cluster.patch(
                    CONFIG_MAPS, key.name, encoded, self._namespace, patch_type=PatchType.MERGE, metadata_only=True
                )
            except NotFound:
                return ReconcileResult(0.0)
        return ReconcileResult()

    async def _adopt(self, record: RevisionRecord, served: _Served) -> str:
        """Compile what the record names, and serve the active revision; return what went wrong."""
        problem = ""
        for name in filter(None, (record.active, record.candidate)):
            if name in served.graphs or name not in record.revisions:
                continue
            try:
                revision = Revision.read(name, record.revisions[name])
                served.graphs[name] = await asyncio.to_thread(revision.graph)
            except ConversionError as error:
                problem = f"revision {name}: {str(error)[:500]}"
                _log.error("%s: %s", record.crd, problem)
        if record.active != served.serves and record.active in served.graphs:
            self._webhook.serve(record.crd, served.graphs[record.active])
            served.serves = record.active
            _log.info("%s: converting by revision %s", record.crd, record.active)
        needed = {record.active, record.candidate, served.serves}
        served.graphs = {name: graph for name, graph in served.graphs.items() if name in needed}
        return problem

    async def _forget(self, name: str) -> None:
        crd = name.removeprefix(record_name(""))
        if self._served.pop(crd, None) is not None:
            self._webhook.withdraw(crd)
            await self._keep_wired()
            _log.info("%s: not converted any more", crd)

    async def _keep_wired(self) -> None:
        async with self._wiring:
            wanted = self.wired
            if wanted != self._wired:
                await self._wires(wanted)
                self._wired = wanted
