"""The end of a pass against an API server in memory: who prunes, and who leaves it to the next leader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from restow.crds import Crd
from restow.kube.errors import Conflict, KubeError
from restow.kube.resources import CRDS
from restow.migrator.decide.proof import ANNOTATION
from restow.migrator.model.options import Options, Phase
from restow.migrator.model.report import CrdReport
from restow.migrator.requests.crdaccess import CrdWatch
from restow.migrator.requests.stop import RunStop
from restow.migrator.run.prune import Pruner
from tests.memory.cluster import MemoryCluster, Request
from tests.migrator import builders as b


class OneCrd(MemoryCluster):
    """An API server that has one CRD.

    Attributes:
        reading: is called at each read of it.
        refusing: what the next patches meet in place of an answer.
    """

    def __init__(self, document: dict[str, Any], reading: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.reading = reading
        self.refusing: list[KubeError] = []
        self.patched: list[Request] = []
        self.before = self._answer
        self.seed(CRDS.plural, document)

    async def _answer(self, request: Request) -> None:
        if request.verb == "get":
            self.reading()
        elif self.refusing:
            raise self.refusing.pop()
        else:
            self.patched.append(request)

    @property
    def document(self) -> dict[str, Any]:
        """The CRD as it is stored."""
        return self.find(CRDS.plural, f"widgets.{b.GROUP}")


async def conclude(server: OneCrd, stop: RunStop, **options: Any) -> CrdReport:
    """The report after the end of a pass that finished every object."""
    start, report = Crd.from_document(server.document), CrdReport(name=str(server.document["metadata"]["name"]))
    await Pruner(server, Options(**options), stop, report).prune(start, CrdWatch(start), None)
    return report


async def test_what_was_finished_is_pruned_and_proved() -> None:
    """The old version could never leave the CRD."""
    server = OneCrd(b.crd_document(stored=("v1", "v2")))
    report = await conclude(server, RunStop())
    assert report.pruned and server.document["status"]["storedVersions"] == ["v2"]
    assert ANNOTATION in server.document["metadata"]["annotations"]


@pytest.mark.parametrize("when", ["before", "while the CRD is read"])
async def test_a_run_that_was_stopped_prunes_nothing_and_proves_nothing(when: str) -> None:
    """Another process may lead by then, and users may have flipped the storage version under it."""
    stop = RunStop()
    server = OneCrd(b.crd_document(stored=("v1", "v2")), reading=lambda: stop.because("it was asked to stop"))
    if when == "before":
        server.reading()
    report = await conclude(server, stop)
    assert server.patched == []
    assert not report.pruned and "it was asked to stop" in report.unfinished and report.pruned_reason


async def test_a_dry_run_prunes_nothing() -> None:
    """It would do for real what it only shows."""
    server = OneCrd(b.crd_document(stored=("v1", "v2")))
    report = await conclude(server, RunStop(), dry_run=True)
    assert server.patched == [] and report.pruned_reason == "dry run"


CONFLICT = Conflict(status=409, verb="PATCH", target="the CRD", message="it was written meanwhile")


@pytest.mark.parametrize("conflicts", [1, 9])
async def test_a_prune_that_met_another_writer_is_judged_again(conflicts: int) -> None:
    """A CA bundle that is rotated at that moment would leave the old version in the CRD until the next run."""
    server = OneCrd(b.crd_document(stored=("v1", "v2")))
    server.refusing = [CONFLICT] * conflicts
    report = await conclude(server, RunStop())
    assert report.pruned and report.stored_after == ("v2",) and not report.unfinished


async def test_a_crd_that_is_always_written_by_others_is_passed_over_again() -> None:
    """The run would try for ever, or end as if nothing were left to do."""
    server, report = OneCrd(b.crd_document(stored=("v1", "v2"))), CrdReport(name="widgets")
    server.refusing = [CONFLICT] * 10
    start = Crd.from_document(server.document)
    verdict = await Pruner(server, Options(), RunStop(), report).prune(start, CrdWatch(start), None)
    assert (verdict.prune, verdict.again, server.patched) == (False, True, [])
    assert "was written by others each time" in verdict.reason and report.pruned_reason == verdict.reason


async def test_a_storage_version_that_changed_before_the_prune_is_seen() -> None:
    """Objects that were stored at the other version in between would be lost with the version."""
    server, report = OneCrd(b.crd_document(stored=("v1", "v2"))), CrdReport(name="widgets")
    start = Crd.from_document(server.document)
    server.seed(CRDS.plural, b.crd_document(stored=("v1", "v2"), storage="v1", generation=2))
    watching = CrdWatch(start)
    watching.generations.add(Crd.from_document(server.document))
    verdict = await Pruner(server, Options(), RunStop(), report).prune(start, watching, None)
    assert (verdict.prune, verdict.again, server.patched) == (False, True, [])
    assert report.pruned_reason == verdict.reason


@pytest.mark.parametrize("phase", [Phase.PRUNE, Phase.STORAGE])
async def test_a_phase_that_is_switched_off_prunes_nothing(phase: Phase) -> None:
    """A user who keeps storedVersions on purpose would lose what they name."""
    server = OneCrd(b.crd_document(stored=("v1", "v2")))
    report = await conclude(server, RunStop(), skip=frozenset({phase}))
    assert not report.pruned and server.document["status"]["storedVersions"] == ["v1", "v2"]
    assert "phase is switched off" in report.pruned_reason
