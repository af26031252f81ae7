"""The end of a pass against an API server in memory: who prunes, and who leaves it to the next leader."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from restow.crds import Crd
from restow.kube.errors import Conflict, Forbidden, KubeError
from restow.kube.resources import CRDS
from restow.migrator.decide.premise import Premise
from restow.migrator.decide.proof import ANNOTATION
from restow.migrator.model import watermark
from restow.migrator.model.callbacks import MigrationRefused
from restow.migrator.model.options import Engine, Options, Phase, Shard
from restow.migrator.model.report import CrdReport, MigrationReport, MigrationResult
from restow.migrator.requests.crdaccess import DELETED
from restow.migrator.requests.environment import RunStop
from restow.migrator.requests.premisecheck import PremiseCheck
from restow.migrator.run.end import Pruner
from restow.migrator.run.shards import ShardRun
from tests.memory.cluster import MemoryCluster, Request
from tests.migrator import builders as b


class OneCrd(MemoryCluster):
    """An API server that has one CRD.

    Attributes:
        reading: is called at each read of it.
        refusing: what the next patches meet in place of an answer, the last one first; None for an answer.
    """

    def __init__(self, document: dict[str, Any], reading: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.reading = reading
        self.refusing: list[KubeError | None] = []
        self.patched: list[Request] = []
        self.before = self._answer
        self.seed(CRDS.plural, document)

    async def _answer(self, request: Request) -> None:
        if request.verb == "get":
            self.reading()
        elif self.refusing and (error := self.refusing.pop()) is not None:
            raise error
        else:
            self.patched.append(request)

    @property
    def document(self) -> dict[str, Any]:
        """The CRD as it is stored."""
        return self.find(CRDS.plural, f"widgets.{b.GROUP}")


async def conclude(server: OneCrd, stop: RunStop, start: Crd | None = None, **options: Any) -> CrdReport:
    """The report after the end of a pass that finished every object; ``start``: the CRD was another one before it."""
    start = start or Crd.from_document(server.document)
    report = CrdReport(name=start.name)
    verdict = await Pruner(server, Options(**options), stop, report).prune(PremiseCheck(server, Premise(start)), None)
    assert verdict.prune is bool(report.proof and not report.unfinished), (
        "the report has a proof if it prunes, and only then"
    )
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


async def test_a_run_that_lost_its_server_names_it() -> None:
    """The job would end as if users had stopped it, and would not be tried again."""
    stop = RunStop()
    server = OneCrd(
        b.crd_document(stored=("v1", "v2")),
        reading=lambda: stop.because("it stayed out of reach", unreachable="https://memory"),
    )
    report = await conclude(server, stop)
    assert server.patched == [] and not report.pruned
    assert report.unreachable == "https://memory" and "it stayed out of reach" in report.pruned_reason


async def test_a_shard_that_leaves_no_record_says_why() -> None:
    """The report would be silent about the reason, and the other shards wait for this one for ever."""
    server, report = OneCrd(b.crd_document(stored=("v1", "v2"))), CrdReport(name="widgets")
    start, options = Crd.from_document(server.document), Options(shard=Shard(0, 2))
    share = await ShardRun.of(server, start, options)
    server.seed(CRDS.plural, b.crd_document(stored=("v1", "v2"), storage="v1", generation=2))
    check = PremiseCheck(server, Premise(start))
    check.generations.add(Crd.from_document(server.document))
    verdict = await Pruner(server, options, RunStop(), report).prune(check, share)
    assert not verdict.prune and verdict.reason and report.pruned_reason == verdict.reason


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
    verdict = await Pruner(server, Options(), RunStop(), report).prune(PremiseCheck(server, Premise(start)), None)
    assert (verdict.prune, verdict.again, server.patched) == (False, True, [])
    assert "was written by others each time" in verdict.reason and report.pruned_reason == verdict.reason


async def test_a_storage_version_that_changed_before_the_prune_is_seen() -> None:
    """Objects that were stored at the other version in between would be lost with the version."""
    server, report = OneCrd(b.crd_document(stored=("v1", "v2"))), CrdReport(name="widgets")
    start = Crd.from_document(server.document)
    server.seed(CRDS.plural, b.crd_document(stored=("v1", "v2"), storage="v1", generation=2))
    check = PremiseCheck(server, Premise(start))
    check.generations.add(Crd.from_document(server.document))
    verdict = await Pruner(server, Options(), RunStop(), report).prune(check, None)
    assert (verdict.prune, verdict.again, server.patched) == (False, True, [])
    assert report.pruned_reason == verdict.reason


@pytest.mark.parametrize("phase", [Phase.PRUNE, Phase.STORAGE])
async def test_a_phase_that_is_switched_off_prunes_nothing(phase: Phase) -> None:
    """A user who keeps storedVersions on purpose would lose what they name."""
    server = OneCrd(b.crd_document(stored=("v1", "v2")))
    report = await conclude(server, RunStop(), skip=frozenset({phase}))
    assert not report.pruned and server.document["status"]["storedVersions"] == ["v1", "v2"]
    assert "phase is switched off" in report.pruned_reason


async def test_a_write_of_another_client_between_prune_and_proof_leaves_the_prune_ours() -> None:
    """The report would say that nothing was pruned, and name another run."""
    server = OneCrd(b.crd_document(stored=("v1", "v2")))
    server.refusing = [CONFLICT, None]
    report = await conclude(server, RunStop())
    assert report.pruned and report.pruned_reason == "every object is stored at the storage version"


async def test_changes_that_the_watch_has_seen_do_not_cost_the_prune() -> None:
    """A CRD whose description is edited twice during each run would keep its old version for ever."""
    states = [b.crd_document(stored=("v1", "v2"), generation=generation) for generation in (1, 2, 3)]
    server, report = OneCrd(states[-1]), CrdReport(name="widgets")
    check = PremiseCheck(server, Premise(Crd.from_document(states[0])))
    for state in states:
        check.generations.add(Crd.from_document(state))
    verdict = await Pruner(server, Options(), RunStop(), report).prune(check, None)
    assert verdict.prune and report.pruned


FORBIDDEN = Forbidden(status=403, verb="PATCH", target="the CRD", message="not for you")
AWAY = Forbidden(status=403, verb="PATCH", target="the CRD", message="the webhook is away")
AWAY.waited_s = 60.0


@pytest.mark.parametrize(
    ("error", "host"), [(FORBIDDEN, ""), (AWAY, "https://memory")], ids=["refused", "after retries"]
)
async def test_a_prune_that_the_server_refuses_is_left_to_the_next_run(error: KubeError, host: str) -> None:
    """The run would end as done, and its job would not be tried again."""
    server = OneCrd(b.crd_document(stored=("v1", "v2")))
    server.refusing = [error]
    report = await conclude(server, RunStop())
    assert not report.pruned and report.unreachable == host
    assert report.pruned_reason == f"status.storedVersions could not be pruned: {error.said}"
    assert report.unfinished.endswith("run again to prune")


async def test_a_proof_that_the_server_refuses_is_a_failure_of_a_run_that_prunes() -> None:
    """A Job would be green, and the version could never be removed; without the prune that is so anyway."""
    server = OneCrd(b.crd_document(stored=("v1", "v2")))
    server.refusing = [FORBIDDEN, None]
    report = await conclude(server, RunStop())
    assert report.pruned and not report.unfinished and not report.warnings
    assert "refuses restow's mark on" in report.unmarked
    assert MigrationReport((report,)).result is MigrationResult.FAILED
    server.refusing = [FORBIDDEN]
    report = await conclude(server, RunStop(), skip=frozenset({Phase.PRUNE}))
    [warning] = report.warnings
    assert "refuses restow's mark on" in warning and not report.unmarked
    assert MigrationReport((report,)).result is MigrationResult.SUCCEEDED


GONE_WRONG = [AWAY, MigrationRefused("widgets has no storage version")]


@pytest.mark.parametrize("error", GONE_WRONG, ids=["out of reach", "refused"])
async def test_a_crd_that_cannot_be_read_after_the_prune_leaves_the_proof_to_the_next_run(error: Exception) -> None:
    """The run would end as done without its proof, or its report would say that nothing was pruned."""
    server = OneCrd(b.crd_document(stored=("v1", "v2")))
    server.refusing = [CONFLICT, None]

    def reading() -> None:
        if server.patched:
            raise error

    server.reading = reading
    report = await conclude(server, RunStop())
    assert report.pruned and report.pruned_reason == "every object is stored at the storage version"
    said = error.said if isinstance(error, KubeError) else str(error)
    assert report.unfinished.startswith(f"the proof could not be left on {report.name}: ")
    assert report.unfinished.endswith(f"{said}. Run again to leave it")


async def test_a_proof_is_left_on_the_crd_as_it_was_pruned_alone() -> None:
    """A change between prune and proof may have let objects be stored at another version again."""
    server = OneCrd(b.crd_document(stored=("v1", "v2")))
    before = server.document["metadata"]["resourceVersion"]
    await conclude(server, RunStop())
    prune, proof = (each.body for each in server.patched)
    assert prune["metadata"]["resourceVersion"] == before
    after = server.document["metadata"]["resourceVersion"]
    assert int(before) < int(proof["metadata"]["resourceVersion"]) < int(after)


async def test_a_crd_that_was_deleted_meanwhile_ends_the_run_with_a_sentence() -> None:
    """An operator would search for a fault of the API server."""
    start = b.crd(stored=("v1", "v2"))
    server = OneCrd(b.crd_document() | {"metadata": {"name": "others.example.com"}})
    report = await conclude(server, RunStop(), start)
    assert report.pruned_reason == report.unfinished == DELETED.format(name=start.name)


@pytest.mark.parametrize(
    ("engine", "stored", "pruned", "said"),
    [
        (Engine.NATIVE, ("v1", "v2"), True, "the cluster's own migration pruned"),
        (Engine.DIRECT, ("v1", "v2"), False, "pruned by another run"),
        (Engine.NATIVE, ("v2",), False, "names only the storage version already"),
    ],
    ids=["the cluster", "another run", "nothing to prune"],
)
async def test_who_pruned_is_reported(engine: Engine, stored: tuple[str, ...], pruned: bool, said: str) -> None:
    """A user would look for the version that is gone, and for who took it off."""
    report = await conclude(OneCrd(b.crd_document()), RunStop(), b.crd(stored=stored), engine=engine)
    assert report.pruned is pruned and said in report.pruned_reason


@pytest.mark.parametrize(
    ("versions", "rewritten", "marked"),
    [(("v2",), 0, False), (("v2",), 1, True), (("v1", "v2"), 0, True)],
    ids=["one version", "one version, with work", "two versions"],
)
async def test_a_crd_of_one_version_without_work_is_not_marked(
    versions: tuple[str, ...], rewritten: int, marked: bool
) -> None:
    """A run over all CRDs would write every CRD of the cluster."""
    server, report = OneCrd(b.crd_document(versions)), CrdReport(name="widgets")
    report.objects.rewritten = rewritten
    start = Crd.from_document(server.document)
    await Pruner(server, Options(), RunStop(), report).prune(PremiseCheck(server, Premise(start)), None)
    assert (ANNOTATION in server.document["metadata"]["annotations"]) is marked and report.proof


async def test_the_watermark_goes_with_the_proof() -> None:
    """The next run would resume behind a pass that is complete."""
    server = OneCrd(b.crd_document(annotations={watermark.ANNOTATION: "old"}))
    await conclude(server, RunStop())
    assert watermark.ANNOTATION not in server.document["metadata"]["annotations"]
    server = OneCrd(b.crd_document(annotations={watermark.ANNOTATION: "old"}))
    await conclude(server, RunStop(), skip=frozenset({Phase.STORAGE}))
    assert watermark.ANNOTATION in server.document["metadata"]["annotations"], "its objects were not written"


@pytest.mark.parametrize("errors", [[], [CONFLICT]], ids=["written", "written by others meanwhile"])
async def test_a_proof_is_extended_on_the_crd_as_it_was_read(errors: list[KubeError | None]) -> None:
    """The second change of the CRD would take the proof away; written over another state, it would prove too much."""
    crd = b.proved(b.crd(generation=2), by=b.crd(generation=1))
    server, report = OneCrd(b.crd_document(generation=2)), CrdReport(name=crd.name)
    server.refusing = [*errors]
    await Pruner(server, Options(), RunStop(), report).extend_proof(crd)
    assert '"generation":2' in report.proof
    assert server.document["metadata"]["annotations"].get(ANNOTATION) == (None if errors else report.proof)
    assert all("resourceVersion" in request.body["metadata"] for request in server.patched)
