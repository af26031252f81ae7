"""The end of a pass against a CRD in memory: who prunes, and who leaves it to the next leader."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from restow.crds import Crd
from restow.kube.cluster import Cluster, Reply
from restow.kube.resources import Resource
from restow.migrator.crdaccess import CrdWatch
from restow.migrator.halt import Halt
from restow.migrator.model import Options
from restow.migrator.proof import ANNOTATION
from restow.migrator.prune import Conclusion
from restow.migrator.report import CrdReport
from tests.migrator import builders as b


@dataclass
class OneCrd(Cluster):
    """A server that has one CRD; ``reading`` is called at each read of it, ``patched`` has the bodies of patches."""

    document: dict[str, Any]
    reading: Callable[[], None] = lambda: None
    patched: list[dict[str, Any]] = field(default_factory=list)
    host: str = "https://server"  # type: ignore[misc]

    async def get(self, resource: Resource, name: str, namespace: str | None = None, **_more: Any) -> Reply:
        self.reading()
        return Reply(json.dumps(self.document).encode())

    async def patch(
        self, resource: Resource, name: str, body: bytes, namespace: str | None = None, **_more: Any
    ) -> Reply:
        change = json.loads(body)
        self.patched.append(change)
        self.document["status"] |= change.get("status", {})
        self.document["metadata"]["annotations"] |= change["metadata"].get("annotations", {})
        return Reply(json.dumps(self.document).encode())


async def conclude(server: OneCrd, halt: Halt, **options: Any) -> CrdReport:
    """The report after the end of a pass that finished every object."""
    start, report = Crd.from_document(server.document), CrdReport(name=str(server.document["metadata"]["name"]))
    await Conclusion(server, Options(**options), halt, report).of(start, CrdWatch(start), None)
    return report


async def test_what_was_finished_is_pruned_and_proved() -> None:
    """The old version could never leave the CRD."""
    server = OneCrd(b.crd_document(stored=("v1", "v2")))
    report = await conclude(server, Halt())
    assert report.pruned and server.document["status"]["storedVersions"] == ["v2"]
    assert ANNOTATION in server.document["metadata"]["annotations"]


@pytest.mark.parametrize("when", ["before", "while the CRD is read"])
async def test_a_run_that_was_stopped_prunes_nothing_and_proves_nothing(when: str) -> None:
    """Another process may lead by then, and users may have flipped the storage version under it."""
    halt = Halt()
    server = OneCrd(b.crd_document(stored=("v1", "v2")), reading=lambda: halt.because("it was asked to stop"))
    if when == "before":
        server.reading()
    report = await conclude(server, halt)
    assert server.patched == []
    assert not report.pruned and "it was asked to stop" in report.unfinished and report.pruned_reason


async def test_a_dry_run_prunes_nothing() -> None:
    """It would do for real what it only shows."""
    server = OneCrd(b.crd_document(stored=("v1", "v2")))
    report = await conclude(server, Halt(), dry_run=True)
    assert server.patched == [] and report.pruned_reason == "dry run"
