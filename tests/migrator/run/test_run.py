"""Whole runs against an API server in memory: what they store, whom they leave as owner, and when they prune."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from restow.crds import Crd
from restow.kube import cluster
from restow.kube.cluster import Reply
from restow.kube.errors import BadReply, Conflict, TooManyRequests, Unreachable
from restow.kube.resources import CRDS
from restow.migrator import CrdReport, Migration, Options, Shard
from restow.migrator.decide.proof import ANNOTATION
from restow.migrator.requests.lostowners import LostOwners
from restow.migrator.run import run as run_module
from restow.migrator.run.shards import ShardRun
from tests.apiserver.kind import Impatient, Kind, entry_versions, owners
from tests.kube.conftest import RunInVirtualTime
from tests.memory.cluster import MemoryCluster, Request

Before = Callable[[Request], Awaitable[None]]

STATUS = {"phase": "Ready", "conditions": [{"type": "Ready", "status": "True"}]}


@pytest.fixture
def memory() -> MemoryCluster:
    """An API server."""
    return MemoryCluster()


@pytest.fixture
async def kind(memory: MemoryCluster) -> Kind:
    """Ten widgets of several owners, stored at v1alpha1; v1beta1 is the storage version since, with a new default."""
    made = Kind(memory, memory, "example.com")  # type: ignore[arg-type]  # it has what is used of both
    await made.create(made.document(storage="v1alpha1", versions=("v1alpha1",)))
    await made.populate(10)
    for name in ("w03", "w04"):
        await made.merge("v1alpha1", name, {"metadata": {"labels": {"edited": "yes"}}}, "erin")
        await made.apply(made.manifest("v1alpha1", name, status=STATUS), "ctl", subresource="status")
    await made.change(made.document(storage="v1beta1", default=True))
    memory.requests.clear()
    return made


async def migrate(memory: MemoryCluster, kind: Kind, stop: asyncio.Event | None = None, **options: Any) -> CrdReport:
    """Migrate the widgets, without a wait."""
    asked = Options(settle_s=0.0, page_size=3, concurrency=4, **options)
    return await Migration(memory, asked, stop=stop, chance=Impatient()).migrate(kind.name)


def writes(memory: MemoryCluster) -> list[Request]:
    """What was written for good."""
    return [each for each in memory.requests if each.verb in ("patch", "update", "delete") and not each.dry_run]


def once(wanted: Callable[[Request], bool], act: Callable[[], Awaitable[object]]) -> Before:
    """Act before the first request that is wanted."""
    pending = [act]

    async def before(request: Request) -> None:
        if pending and wanted(request):
            await pending.pop()()

    return before


def is_prune(request: Request) -> bool:
    """Whether storedVersions is written."""
    return request.resource == CRDS and request.subresource == "status"


def is_write_of(name: str) -> Callable[[Request], bool]:
    """Whether an object is written."""
    return lambda request: request.verb == "patch" and request.name == name


async def test_a_run_stores_every_object_and_moves_every_owner(memory: MemoryCluster, kind: Kind) -> None:
    """An object, or an owner, would be left behind at a version that the prune then gives up."""
    before = await kind.stored()
    report = await migrate(memory, kind)
    after = await kind.stored()
    assert report.pruned and report.objects.rewritten == 10 and not report.failures, report.to_json()
    assert {found["apiVersion"] for found in after.values()} == {"example.com/v1beta1"}
    assert await kind.stored_versions() == ["v1beta1"]
    for key, found in after.items():
        assert found["spec"]["policy"] == "Retain" and entry_versions(found) == {"v1beta1"}
        expected = {
            owner: {path.replace("/f:conditions", '/f:conditions/k:{"type":"Ready"}') for path in paths}
            for owner, paths in owners(before[key]).items()
            if owner[0] != "ctl"
        }
        found_owners = {owner: paths for owner, paths in owners(found).items() if owner[0] != "ctl"}
        assert found_owners == expected
    ctl = owners(after["default/w03"])["ctl", "Apply", "status"]
    assert '/f:status/f:conditions/k:{"type":"Ready"}/f:status' in ctl


async def test_a_second_run_writes_nothing(memory: MemoryCluster, kind: Kind) -> None:
    """Each restart of a Job would write all objects again."""
    await migrate(memory, kind)
    memory.requests.clear()
    report = await migrate(memory, kind)
    assert writes(memory) == [] and not report.unfinished
    assert [each for each in memory.requests if each.resource.plural == kind.plural] == []


async def test_a_second_run_that_ignores_the_proof_changes_nothing(memory: MemoryCluster, kind: Kind) -> None:
    """A run "to be sure" would change objects that were right."""
    await migrate(memory, kind)
    before = await kind.stored()
    report = await migrate(memory, kind, ignore_mark=True)
    assert report.objects.current == 10 and report.objects.rewritten == 0
    assert await kind.stored() == before


async def test_what_another_writer_changed_meanwhile_is_kept(memory: MemoryCluster, kind: Kind) -> None:
    """A migration would undo the change of a user who wrote between its read and its write."""
    change = {"spec": {"color": "blue"}}
    memory.before = once(is_write_of("w05"), lambda: kind.merge("v1alpha1", "w05", change, "erin"))
    report = await migrate(memory, kind)
    found = (await kind.stored())["default/w05"]
    assert not report.failures and report.pruned and report.requests.retried == 1
    assert found["spec"]["color"] == "blue" and found["apiVersion"] == "example.com/v1beta1"


@pytest.mark.parametrize(
    "error",
    [
        TooManyRequests(status=429, verb="patch", target="w05", message="later"),
        Unreachable("the connection was closed"),
    ],
    ids=["429", "no answer"],
)
async def test_a_write_that_failed_for_a_moment_is_repeated(
    memory: MemoryCluster, kind: Kind, error: Exception
) -> None:
    """One busy moment of the API server would leave an object behind, and the run would not prune."""

    async def fail() -> None:
        raise error

    memory.before = once(is_write_of("w05"), fail)
    report = await migrate(memory, kind)
    assert report.pruned and report.requests.retried == 1
    assert (await kind.stored())["default/w05"]["apiVersion"] == "example.com/v1beta1"


async def test_a_write_whose_answer_was_lost_leaves_every_owner(memory: MemoryCluster, kind: Kind) -> None:
    """The object would be written twice, or keep what the first write of the two left it."""
    before = owners((await kind.stored())["default/w05"])

    async def lose() -> None:
        msg = "the connection was closed"
        raise Unreachable(msg)

    memory.after = once(is_write_of("w05"), lose)
    report = await migrate(memory, kind)
    found = (await kind.stored())["default/w05"]
    assert report.pruned and report.requests.retried == 1 and not report.failures
    assert owners(found) == before and entry_versions(found) == {"v1beta1"}


async def test_a_prune_whose_answer_was_lost_is_a_prune(memory: MemoryCluster, kind: Kind) -> None:
    """The report would say that nothing was pruned, and no proof would be left."""

    async def lose() -> None:
        msg = "the connection was closed"
        raise Unreachable(msg)

    memory.after = once(is_prune, lose)
    report = await migrate(memory, kind)
    assert report.pruned and not report.unfinished and report.proof
    assert await kind.stored_versions() == ["v1beta1"]


async def test_an_object_that_was_deleted_meanwhile_is_no_failure(memory: MemoryCluster, kind: Kind) -> None:
    """A deletion during the run would keep it from pruning."""
    memory.before = once(is_write_of("w05"), lambda: kind.delete("v1alpha1", "w05"))
    report = await migrate(memory, kind)
    assert report.pruned and report.objects.gone == 1 and not report.failures


async def test_an_object_that_fails_keeps_the_run_from_pruning(memory: MemoryCluster, kind: Kind) -> None:
    """The version at which the object is stored would leave the CRD, and nobody could read it any more."""

    async def before(request: Request) -> None:
        if is_write_of("w05")(request):
            raise Conflict(status=409, verb="patch", target="w05", message="it is always written")

    memory.before = before
    report = await migrate(memory, kind, patience_s=0.0)
    assert report.objects.failed == 1 and not report.pruned
    assert await kind.stored_versions() == ["v1alpha1", "v1beta1"]


async def test_a_flip_back_before_the_prune_keeps_both_versions(memory: MemoryCluster, kind: Kind) -> None:
    """Objects that were stored at the old version since would be lost with it."""
    memory.before = once(is_prune, lambda: kind.change(kind.document(storage="v1alpha1", default=True)))
    report = await migrate(memory, kind, passes=1)
    assert not report.pruned and report.unfinished
    assert set(await kind.stored_versions()) == {"v1alpha1", "v1beta1"}
    again = await migrate(memory, kind)
    assert again.pruned and await kind.stored_versions() == ["v1alpha1"]
    assert {found["apiVersion"] for found in (await kind.stored()).values()} == {"example.com/v1alpha1"}


async def test_what_a_pass_found_outlives_an_outage_after_it(
    memory: MemoryCluster, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report of all writes would be lost, and which objects have no owners, which no later run sees."""
    flipped, pending = asyncio.Event(), [lambda: kind.change(kind.document(storage="v1alpha1", default=True))]
    opened = ShardRun.of

    async def before(request: Request) -> None:
        if pending and request.resource == CRDS and request.verb == "get" and memory_is_written(memory, kind):
            flipped.set()
            await pending.pop()()

    async def of(*given: Any) -> ShardRun | None:
        if flipped.is_set():
            raise Unreachable("the connection was refused")
        return await opened(*given)

    async def run_pass(environment: Any, crd: Any, policies: Any, options: Any, report: CrdReport, **more: Any) -> None:
        await passing(environment, crd, policies, options, report, **more)
        report.owners_lost.append("default/w05")

    passing = run_module.run_pass
    monkeypatch.setattr(run_module, "run_pass", run_pass)
    monkeypatch.setattr(run_module.ShardRun, "of", of)
    memory.before = before
    report = await migrate(memory, kind)
    assert report.objects.rewritten == 10 and report.unreachable and "refused" in report.unfinished
    assert LostOwners.noted_on(Crd.from_document((await memory.get(CRDS, kind.name)).json())).names == ("default/w05",)


def memory_is_written(memory: MemoryCluster, kind: Kind) -> bool:
    """Whether every object was written."""
    return len({each.name for each in writes(memory) if each.resource.plural == kind.plural}) == 10


async def test_a_run_that_is_stopped_prunes_nothing(memory: MemoryCluster, kind: Kind) -> None:
    """Another process may lead by then, and the objects that were not begun are at the old version."""
    stop = asyncio.Event()

    async def ask() -> None:
        stop.set()

    memory.before = once(is_write_of("w05"), ask)
    report = await migrate(memory, kind, stop)
    assert not report.pruned and "asked to stop" in report.unfinished
    assert not any(map(is_prune, memory.requests))
    crd = (await memory.get(CRDS, kind.name)).json()
    assert ANNOTATION not in crd["metadata"].get("annotations", {})
    assert (await migrate(memory, kind)).pruned


async def test_a_run_that_is_stopped_just_before_the_prune_leaves_it(memory: MemoryCluster, kind: Kind) -> None:
    """A leader that lost its lease in that moment would prune at the same time as the next one."""
    stop, written = asyncio.Event(), set[str]()

    def is_last_read(request: Request) -> bool:
        if request.verb == "patch" and request.resource.plural == kind.plural:
            written.add(request.name)
        return request.verb == "get" and request.resource == CRDS and len(written) == 10

    async def ask() -> None:
        stop.set()

    memory.before = once(is_last_read, ask)
    report = await migrate(memory, kind, stop)
    assert stop.is_set() and report.objects.rewritten == 10
    assert not report.pruned and report.unfinished and not any(map(is_prune, memory.requests))


async def test_a_dry_run_stores_nothing(memory: MemoryCluster, kind: Kind) -> None:
    """What was to be shown would be done."""
    before = await kind.stored()
    report = await migrate(memory, kind, dry_run=True)
    assert report.objects.rewritten == 10 and await kind.stored() == before and writes(memory) == []


async def test_a_list_that_expired_goes_on(memory: MemoryCluster, kind: Kind) -> None:
    """A list that takes longer than the API server remembers would never end."""
    pages = 0

    async def before(request: Request) -> None:
        nonlocal pages
        pages += request.verb == "list" and request.resource.plural == kind.plural
        if pages == 2:
            memory.compact()

    memory.before = before
    report = await migrate(memory, kind)
    assert report.pruned and report.objects.rewritten == 10


_REVISION = {"resourceVersion": "9"}
_NO_LIST = {
    "a Status": {"kind": "Status", "metadata": {}, "status": "Failure", "message": "no backend", "code": 503},
    "no items": {"kind": "WidgetList", "apiVersion": "example.com/v1beta1", "metadata": _REVISION},
    "no resourceVersion": {"metadata": {}, "items": []},
    "more follows": {"metadata": _REVISION | {"remainingItemCount": 7}, "items": []},
    "the same page": {"metadata": _REVISION | {"continue": "token"}, "items": []},
}


@pytest.mark.parametrize("answer", _NO_LIST.values(), ids=_NO_LIST)
@pytest.mark.parametrize("first", [1, 2], ids=["the first page", "another page"])
async def test_a_success_that_is_no_list_proves_nothing(
    memory: MemoryCluster, kind: Kind, answer: dict[str, Any], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer of a proxy that decodes as the end of a list would prove that nothing is left to store."""
    send, pages = memory.send, 0

    async def answered(request: cluster.Request) -> Reply:
        nonlocal pages
        is_page = request.verb == "list" and request.resource is not None and request.resource.plural == kind.plural
        pages += is_page
        if pages < first or not is_page:
            return await send(request)
        return Reply(json.dumps(answer).encode())

    monkeypatch.setattr(memory, "send", answered)
    report = await migrate(memory, kind, patience_s=0.0)
    assert not report.pruned and report.unfinished and report.unreachable and not report.proof, report.to_json()
    assert await kind.stored_versions() == ["v1alpha1", "v1beta1"]


@pytest.mark.parametrize("answer", [{}, [], {"kind": "Widget"}, {"kind": "List", "metadata": {}, "items": []}])
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_success_that_is_no_crd_is_an_outage(
    memory: MemoryCluster, kind: Kind, answer: Any, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One answer of a proxy would refuse the CRD for good, which ends a Job, or end the run with a traceback."""
    send, reads = memory.send, 0

    async def answered(request: cluster.Request) -> Reply:
        nonlocal reads
        is_read = request.verb == "get" and request.resource == CRDS
        reads += is_read
        return Reply(json.dumps(answer).encode()) if is_read and reads == number else await send(request)

    monkeypatch.setattr(memory, "send", answered)
    if number <= 2 or isinstance(answer, list) or "metadata" not in answer:
        with pytest.raises(BadReply) as raised:  # before the first object: exit code 4, and a Job tries again
            await migrate(memory, kind)
        assert raised.value.out_of_reach and all(each.resource == CRDS for each in writes(memory))
    else:
        report = await migrate(memory, kind)
        assert report.pruned and not report.refused, report.to_json()


def test_a_crd_that_is_changed_all_the_time_is_not_waited_for_for_ever(run_in_virtual_time: RunInVirtualTime) -> None:
    """A Job would wait without end for a CRD of which two tools install different versions."""

    async def main() -> None:
        memory = MemoryCluster()
        kind = Kind(memory, memory, "example.com")  # type: ignore[arg-type]  # it has what is used of both
        await kind.create(kind.document(storage="v1alpha1", versions=("v1alpha1",)))
        await kind.change(kind.document(storage="v1beta1", default=True))
        defaults = itertools.cycle((False, True))

        async def before(request: Request) -> None:
            if request.resource == CRDS and request.verb == "get" and request.name == kind.name and not changing:
                changing.append(True)
                await kind.change(kind.document(storage="v1beta1", default=next(defaults)))
                changing.clear()

        changing: list[bool] = []
        memory.before = before
        loop = asyncio.get_running_loop()
        report = await Migration(memory, Options(), clock=loop.time, chance=Impatient()).migrate(kind.name)
        assert not report.pruned and "two tools install different versions" in report.unfinished

    run_in_virtual_time(main())


async def test_shards_share_the_objects_and_the_last_one_prunes(memory: MemoryCluster, kind: Kind) -> None:
    """An object would belong to no shard, or the first shard would prune what the second has not done."""
    reports = [await migrate(memory, kind, shard=Shard(index, 2)) for index in (0, 1)]
    assert [report.pruned for report in reports] == [False, True]
    assert sum(report.objects.rewritten for report in reports) == 10
    assert all(0 < report.objects.rewritten < 10 for report in reports)
