"""The part of every replica: follows the ConfigMaps, compiles revisions, converts by the active ones, and reports.

If a replica cannot read or compile a revision, it reports this, and continues with the last revision that it could. The
conversions of a CRD change between two reviews: a review ends with the rules with which it began.

A replica that has no earlier revision, because it has just started, refuses the requests for that kind, with a reason.
The API server asks again if another replica converts the kind. While another replica converts every kind, this one is
not ready (``peers`` says why not always).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from restow.conversion.certificates.wiring.clientconfig import Address
from restow.conversion.compile.graph import Graph
from restow.conversion.model.errors import ConversionError
from restow.conversion.model.values import Json
from restow.conversion.operate.members import LeasesOfReplicas
from restow.conversion.operate.peers import Peers
from restow.conversion.operate.revisions import (
    LABEL,
    Former,
    Report,
    Revision,
    RevisionRecord,
    StepState,
    record_name,
    report_key,
)
from restow.conversion.operate.wiring import At, KindsStep
from restow.conversion.operate.workers import Workers, is_costly, servable
from restow.conversion.server.webhook import WebhookServer
from restow.kube import Cluster, Controller, ControllerEvent, Key, PatchType, ReconcileResult
from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.errors import NotFound
from restow.kube.pager import list_pages
from restow.kube.resources import CONFIG_MAPS

_log = logging.getLogger(__name__)

_PAGE: Final = 50
_SELECTOR: Final = f"{LABEL}=rules"
_LOOK_S: Final = 2.0  # seconds between two looks at the other replicas, while a kind is lacking


class KeptWiring(Protocol):
    """Keeps the objects that name the webhook, as ``Certificates`` and ``MountedCertificates`` do."""

    def keep(
        self, crd: str, address: Address | None, composite: str = "", replaces: Mapping[str, Any] | None = None
    ) -> None:
        """Wire one more CRD from now on."""
        ...

    async def release(self, crd: str, composite: str = "") -> None:
        """Stop wiring a CRD."""
        ...

    def keep_configuration(self, wanted: Mapping[str, Any]) -> None:
        """Keep one more webhook configuration from now on."""
        ...

    async def release_configuration(self, wanted: Mapping[str, Any]) -> None:
        """Stop keeping a configuration."""
        ...


@dataclass(slots=True)
class _Served:
    """The conversions of one CRD in this process."""

    graphs: dict[str, Graph] = field(default_factory=dict)
    serves: str = ""
    wires: tuple[str, str] | None = None  # the apiVersion of the CompositeResourceDefinition, and what is replaced
    kept: dict[str, Json] = field(default_factory=dict)  # the webhook configurations that are kept, by step
    configurations: dict[str, Json] = field(default_factory=dict)  # those for the served conversions


class Replica:
    """The serving part of one process.

    Args:
        cluster: the API server.
        namespace: the namespace of the ConfigMaps.
        name: the name of this replica.
        webhook: the webhook that serves the conversions.
        workers: convert the kinds whose conversion may be costly.
        steps: the admission steps of ``webhook`` for the kinds that it converts.
        keeper: keeps the wiring of the CRDs that this replica passes to it, until they are released.
        at: returns the webhook's address for a path.
        controller_hook: called for the watch.
        clock: the clock for the watch.

    Attributes:
        unready: why this replica should get no requests, because another one converts what it lacks; empty otherwise.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        name: str,
        webhook: WebhookServer,
        *,
        workers: Workers,
        steps: Sequence[KindsStep],
        keeper: KeptWiring,
        at: At,
        controller_hook: Callable[[ControllerEvent], None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._name = name
        self._webhook = webhook
        self._workers = workers
        self._steps = tuple(steps)
        self._keeper = keeper
        self._at = at
        self._hook = controller_hook
        self._clock = clock
        self._served: dict[str, _Served] = {}
        self._leases = LeasesOfReplicas(cluster, namespace, clock)
        self._peers = Peers(name)
        self._staying: frozenset[str] = frozenset()
        self.unready = ""

    async def load(self) -> None:
        """Compile and serve all active revisions, before this replica becomes ready.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
        """
        selector = {"labelSelector": _SELECTOR}
        async for page in list_pages(self._cluster, CONFIG_MAPS, self._namespace, limit=_PAGE, params=selector):
            for item in page:
                record = RevisionRecord.read(item)
                served = self._served.setdefault(record.crd, _Served())
                await self._adopt(record, served)
                self._note(record, served)
                await self._wire(record, served)
        await self._judge()

    async def watch_peers(self) -> None:
        """Look at the other replicas while this one lacks a kind, until cancelled: the last other one may end.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
        """
        while True:
            await self._clock.sleep(_LOOK_S)
            await self._judge()

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
        self._note(record, served)
        await self._judge()
        await self._wire(record, served)
        steps = tuple(sorted(served.kept))
        report = Report(tuple(sorted(served.graphs)), served.serves, record.wired, steps, problem)
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
        """Compile the revisions of the record, and serve the active one; return the problem, empty if there is none."""
        problem = ""
        for name in filter(None, (record.active, record.candidate)):
            if name in served.graphs or name not in record.revisions:
                continue
            try:
                revision = Revision.read(name, record.revisions[name])
                served.graphs[name] = await asyncio.to_thread(servable, revision)
            except ConversionError as error:
                problem = f"revision {name}: {str(error)[:500]}"
                _log.error("%s: %s", record.crd, problem)
        if record.active != served.serves and record.active in served.graphs:
            graph, text = served.graphs[record.active], record.revisions[record.active]
            workers = self._workers.of(record.crd, record.active, text) if is_costly(graph) else None
            self._webhook.serve(record.crd, graph, None if workers is None else workers.review)
            served.serves = record.active
            revision = Revision.read(record.active, text)
            crds = revision.targets()
            for step in self._steps:
                step.serve(crds, graph, workers)
            served.configurations = {
                step.of.name: step.of.configuration_of(crds, revision.hub, self._at)
                for step in self._steps
                if step.of.is_for(graph, crds)
            }
            _log.info("%s: converting by revision %s", record.crd, record.active)
        needed = {record.active, record.candidate, served.serves}
        served.graphs = {name: graph for name, graph in served.graphs.items() if name in needed}
        return problem

    def _note(self, record: RevisionRecord, served: _Served) -> None:
        """Note what the replicas convert; refuse requests for a kind that this one should convert and cannot."""
        self._peers.note(record, served.serves)
        if served.serves:  # the last revision that it could compile
            return
        lacks = record.crd in self._peers.lacked
        for step in self._steps:
            if lacks and record.steps.get(step.of.name) is StepState.WANTED:
                step.suspend(record.crd)
            else:
                step.withdraw(record.crd)
        if lacks:
            self._suspend(record.crd)
        else:
            self._webhook.withdraw(record.crd)

    def _suspend(self, crd: str) -> None:
        why = f"this replica of restow cannot compile the active conversion rules of {crd}; its log says why"
        self._webhook.suspend(crd, why, elsewhere=self._peers.is_served_elsewhere(crd, self._staying))

    async def _judge(self) -> None:
        """Decide whether this replica is ready, by the replicas that live now."""
        lacked = tuple(self._peers.lacked)
        self._staying = await self._leases.staying() if lacked else frozenset()
        for crd in lacked:
            if crd in self._peers.lacked and not self._served[crd].serves:  # nothing changed while Leases were read
                self._suspend(crd)
        unready = self._peers.unready(self._staying)
        if unready and not self.unready:
            _log.error("not ready: %s", unready)
        elif self.unready and not unready:
            _log.warning("ready: %s", "no other replica converts every kind" if lacked else "no kind is lacking")
        self.unready = unready

    async def _forget(self, name: str) -> None:
        crd = name.removeprefix(record_name(""))
        self._peers.forget(crd)
        served = self._served.pop(crd, None)
        if served is not None:
            await self._wire(RevisionRecord(crd), served)
            self._webhook.withdraw(crd)
            for step in self._steps:
                step.withdraw(crd)
            _log.info("%s: not converted any more", crd)

    async def _wire(self, record: RevisionRecord, served: _Served) -> None:
        """Keep or release the wiring of a CRD, as the record demands."""
        wanted = (record.composite, record.former) if record.wired else None
        if wanted != served.wires:
            if served.wires is not None:
                await self._keeper.release(record.crd, served.wires[0])
            if wanted is not None:
                former = Former.read(record.former)
                replaces = former.conversion if former is not None and former.permitted else None
                self._keeper.keep(record.crd, self._at(f"/convert/{record.crd}"), record.composite, replaces)
            served.wires = wanted
        for step in (each.of.name for each in self._steps):
            asked = record.wired and record.steps.get(step) is StepState.WANTED
            configuration = served.configurations.get(step) if asked else None
            kept = served.kept.get(step)
            if configuration == kept:
                continue
            if kept is not None:
                await self._keeper.release_configuration(kept)
                del served.kept[step]
            if configuration is not None:
                self._keeper.keep_configuration(configuration)
                served.kept[step] = configuration
