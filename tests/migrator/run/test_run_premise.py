"""Whole runs against an API server in memory, whose CRD or history changes in mid-run."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from restow.kube import cluster
from restow.kube.cluster import Cluster, Reply
from restow.kube.errors import Conflict, Unreachable
from restow.kube.resources import CRDS
from restow.migrator import CrdReport, Migration, Options
from restow.migrator.decide.proof import ANNOTATION
from restow.migrator.model.watermark import RUNS
from restow.migrator.requests import premisecheck
from tests.apiserver.kind import Impatient, Kind
from tests.memory.cluster import MemoryCluster, Request

COUNT = 10


class Restorable(MemoryCluster):
    """An API server whose etcd can be restored, revisions included."""

    _backup: Any = None

    def back_up(self) -> None:
        """Keep what etcd holds."""
        self._backup = copy.deepcopy((self._objects, self._history, self._revision))

    def restore(self) -> None:
        """Put back what etcd held."""
        self._objects, self._history, self._revision = copy.deepcopy(self._backup)


@pytest.fixture
def memory() -> Restorable:
    """An API server."""
    return Restorable()


@pytest.fixture
async def kind(memory: MemoryCluster) -> Kind:
    """Ten widgets, stored at v1alpha1; v1beta1 is the storage version since."""
    made = Kind(memory, memory, "example.com")  # type: ignore[arg-type]  # it has what is used of both
    await made.create(made.document(storage="v1alpha1", versions=("v1alpha1",)))
    await made.populate(COUNT)
    await made.change(made.document(storage="v1beta1"))
    return made


async def migrate(memory: MemoryCluster, kind: Kind, stop: asyncio.Event | None = None, **options: Any) -> CrdReport:
    """Migrate the widgets one after the other, without a wait."""
    asked = Options(settle_s=0.0, concurrency=1, **options)
    return await Migration(memory, asked, stop=stop, chance=Impatient()).migrate(kind.name)


async def old(kind: Kind) -> list[str]:
    """The objects that are stored at the old version."""
    return [name for name, found in (await kind.stored()).items() if found["apiVersion"].endswith("/v1alpha1")]


def is_token(request: Request) -> bool:
    """Whether the run leaves its token."""
    return request.resource == CRDS and RUNS in str(request.body)


def is_mark(request: Request) -> bool:
    """Whether the run leaves its proof."""
    return request.resource == CRDS and ANNOTATION in str(request.body)


def is_prune(request: Request) -> bool:
    """Whether storedVersions is written."""
    return request.resource == CRDS and request.subresource == "status"


def once(wanted: Callable[[Request], bool], act: Callable[[], Awaitable[None]]) -> Callable[[Request], Awaitable[None]]:
    """Act at the first request that is wanted."""
    pending = [act]

    async def hook(request: Request) -> None:
        if pending and wanted(request):
            await pending.pop()()

    return hook


async def test_a_crd_that_goes_while_the_token_is_left_ends_the_run_in_order(memory: Restorable, kind: Kind) -> None:
    """The run would end with a traceback in place of a report."""

    async def delete() -> None:
        await memory.delete(CRDS, kind.name)
        raise Conflict(status=409, verb="patch", target=kind.name, message="it is being deleted")

    memory.before = once(is_token, delete)
    report = await migrate(memory, kind)
    assert not report.pruned and "there is no CRD" in report.refused


@pytest.mark.parametrize("ignore_mark", [False, True])
async def test_a_mark_whose_answer_was_lost_is_no_restore(memory: Restorable, kind: Kind, ignore_mark: bool) -> None:
    """A complete run would write all objects a second time, and tell users that etcd was restored."""

    async def lose() -> None:
        msg = "the connection was closed"
        raise Unreachable(msg)

    memory.after = once(is_mark, lose)
    report = await migrate(memory, kind, ignore_mark=ignore_mark)
    assert report.pruned and report.passes == 1 and not report.warnings
    assert RUNS not in (await memory.get(CRDS, kind.name)).json()["metadata"]["annotations"]


async def test_a_client_that_keeps_removing_the_token_does_not_keep_the_run_from_its_end(
    memory: Restorable, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No run over many objects would ever end where a tool replaces the annotations every few minutes."""
    written = 0
    monkeypatch.setattr(premisecheck, "_CONFIRM_S", 0.01)

    async def replace(request: Request) -> None:
        nonlocal written
        if request.verb != "patch" or request.resource == CRDS:
            return
        written += 1
        if written % 3 == 0:
            await asyncio.sleep(0.05)  # the run compares
            crd = memory.find(CRDS.plural, kind.name)
            crd["metadata"]["annotations"] = {}
            await memory.replace(CRDS, kind.name, json.dumps(crd).encode())
            await asyncio.sleep(0.05)  # the watch shows it

    memory.before = replace
    report = await migrate(memory, kind)
    assert report.pruned and report.passes == 1 and not report.warnings and not report.failures
    assert await old(kind) == []


async def test_a_restore_after_the_last_write_is_seen(memory: Restorable, kind: Kind) -> None:
    """A backup from within the run has its token, and no write is left that would get an older resourceVersion."""

    async def at_half(request: Request) -> None:
        if request.name == "w05":
            memory.back_up()

    async def restore() -> None:
        memory.restore()
        msg = "the connection was closed"
        raise Unreachable(msg)

    memory.before = at_half
    memory.after = once(is_prune, restore)
    report = await migrate(memory, kind, passes=1)
    assert not report.pruned and "etcd is restored" in report.unfinished
    assert len(await old(kind)) == COUNT // 2
    memory.before = memory.after
    assert (await migrate(memory, kind)).pruned and await old(kind) == []


async def test_an_object_that_a_restore_brings_back_after_the_list_is_not_overlooked(
    memory: Restorable, kind: Kind
) -> None:
    """It is in no list, and the CRD is as the run read it, so that the run would prune with it at the old version."""
    memory.back_up()
    await kind.delete("v1alpha1", "w05")
    for number in range(5):
        memory.seed("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"other{number}"}})

    async def restore() -> None:
        memory.restore()

    memory.before = once(is_token, restore)
    report = await migrate(memory, kind)
    assert report.pruned and await old(kind) == []


@pytest.mark.parametrize("refused", [False, True], ids=["the run is stopped", "the next pass is refused"])
async def test_what_no_pass_checks_again_is_reported(memory: Restorable, kind: Kind, refused: bool) -> None:
    """Owners that were decided by the schema of before the change would be wrong, and no one would hear of it."""
    stop = asyncio.Event()

    async def change() -> None:
        await kind.change(kind.document(storage="v1beta1", default=True))
        if refused:
            crd = memory.find(CRDS.plural, kind.name)
            crd["status"]["conditions"] = []
            memory.seed(CRDS.plural, crd)
        else:
            stop.set()

    memory.before = once(lambda request: request.name == "w05", change)
    report = await migrate(memory, kind, stop)
    assert not report.pruned and (report.refused if refused else report.unfinished)
    assert {"w00", "w04"} <= {each.name for each in report.failures if each.reason == "OwnershipUnconfirmed"}


class Absent(MemoryCluster):
    """Another API server of the cluster, that answers nothing, and then lags behind by a generation for a while."""

    def __init__(self, host: str, world: WithAnother) -> None:
        super().__init__()
        self.host = host
        self._world = world

    async def send(self, request: cluster.Request) -> Reply:
        if request.resource is None:
            return await self._world.send(request)
        if self._world.behind is None:
            msg = "the connection was refused"
            raise Unreachable(msg)
        found = (await self._world.send(request)).json()
        found["metadata"]["generation"] -= self._world.behind
        self._world.behind = 0
        return Reply(json.dumps(found).encode())


class WithAnother(Restorable):
    """An API server, and another one: ``behind`` is by how many generations its next answer lags, None: no answer."""

    behind: int | None = None

    @asynccontextmanager
    async def at(self, host: str = "", server_name: str = "") -> AsyncIterator[Cluster]:
        yield Absent(host, self) if host else self


async def test_a_watermark_of_a_pass_with_a_lag_is_no_watermark() -> None:
    """The next pass, or the next process, would skip what the lagging API server stored at the old version since."""
    memory = WithAnother()
    address = {"addresses": ["10.0.0.1"], "conditions": {"ready": True}}
    labels = {"kubernetes.io/service-name": "kubernetes"}
    metadata = {"name": "kubernetes", "namespace": "default", "labels": labels}
    ports = [{"name": "https", "port": 6443}]
    memory.seed("endpointslices", {"metadata": metadata, "ports": ports, "endpoints": [address]})
    kind = Kind(memory, memory, "example.com")  # type: ignore[arg-type]
    await kind.create(kind.document(storage="v1alpha1", versions=("v1alpha1",)))
    await kind.populate(COUNT)
    await kind.change(kind.document(storage="v1beta1"))

    async def store_late() -> None:
        memory.before = nothing
        await kind.apply(kind.manifest("v1beta1", "late", spec={"size": 1}), "alice")
        late = memory.find(kind.plural, "late", "default") | {"apiVersion": "example.com/v1alpha1"}
        memory.seed(kind.plural, late)
        memory.behind = 1

    async def nothing(_request: Request) -> None:
        pass

    memory.before = once(lambda request: request.verb == "patch" and request.name == "w05", store_late)
    report = await migrate(memory, kind, resume=True, patience_s=0.0)
    assert report.passes == 2 and report.pruned, report.to_json()
    assert await old(kind) == []
