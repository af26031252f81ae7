"""Guards that only one order of requests shows: each with that order, on the API server in memory.

A write of restow's loses the owners of an object (something in between sent an empty list in its place), and another
client writes the object before restow has put its owners right. Each scenario is carried out twice, with the migrator
as it is and with its guard broken.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import pytest

from restow.kube.cluster import PatchType
from restow.kube.errors import Unreachable
from restow.migrator import Migration, Options
from tests.apiserver.kind import Impatient, Kind, owners
from tests.faults.guards import DIRECTED
from tests.memory.cluster import MemoryCluster, Request

NAME = "w00"
OLD, NEW = "v1alpha1", "v1beta1"

Scenario = Callable[[MemoryCluster, Kind], Awaitable[set[str]]]


async def _kind(memory: MemoryCluster) -> Kind:
    """Widgets that alice applied at the old version; the new one is the storage version since, with a new default."""
    kind = Kind(memory, memory, "example.com")  # type: ignore[arg-type]  # it has what is used of both
    await kind.create(kind.document(storage=OLD, versions=(OLD,)))
    await kind.populate(2)
    await kind.change(kind.document(storage=NEW, default=True))
    return kind


def _lose(memory: MemoryCluster, meanwhile: Callable[[], Awaitable[object]], *, answered: bool) -> None:
    """Have the first patch with owners lose them all, and another client write before restow does again."""
    lost: list[Request] = []

    async def before(request: Request) -> None:
        body: dict[str, Any] = request.body or {}
        ours = request.patch_type is PatchType.MERGE and request.name == NAME
        if ours and not lost and "managedFields" in body["metadata"]:
            body["metadata"]["managedFields"] = [{}]
            lost.append(request)

    async def after(request: Request) -> None:
        if lost and request is lost[0]:
            await meanwhile()
            if not answered:
                msg = "the connection was closed"
                raise Unreachable(msg)

    memory.before, memory.after = before, after


async def _lost_after(memory: MemoryCluster, kind: Kind) -> set[str]:
    """Migrate; return which of the managers that wrote the object do not own it in the end."""
    options = Options(settle_s=0.0, concurrency=1, patience_s=0.0)
    await Migration(memory, options, chance=Impatient()).migrate(kind.name)
    found = (await kind.stored())[f"default/{NAME}"]
    return {"alice", "bob"} - {manager for manager, _operation, _subresource in owners(found)}


async def an_old_entry_during_a_restore(memory: MemoryCluster, kind: Kind) -> set[str]:
    """The client writes at the old version, which lacks the new default: its entry must be moved to be kept."""
    manifest = kind.manifest(OLD, NAME, status={"phase": "Ready"})
    _lose(memory, lambda: kind.apply(manifest, "bob", subresource="status"), answered=True)
    return await _lost_after(memory, kind)


async def an_apply_on_no_owner(memory: MemoryCluster, kind: Kind) -> set[str]:
    """The response is lost too, and the object that restow reads next has two owners, of which one is unknown."""
    manifest = kind.manifest(NEW, NAME, status={"phase": "Ready"})
    _lose(memory, lambda: kind.apply(manifest, "bob", subresource="status"), answered=False)
    return await _lost_after(memory, kind)


SCENARIOS: dict[str, Scenario] = {
    "restore-without-moving": an_old_entry_during_a_restore,
    "overlook-a-first-apply": an_apply_on_no_owner,
}


@pytest.mark.parametrize("guard", sorted(DIRECTED))
@pytest.mark.parametrize("broken", [False, True], ids=["as it is", "broken"])
async def test_only_a_broken_guard_loses_an_owner(guard: str, broken: bool) -> None:
    """A guard whose absence nothing shows may be removed by the next change, and an owner is lost without a trace."""
    memory = MemoryCluster()
    kind = await _kind(memory)
    with DIRECTED[guard]() if broken else nullcontext():
        lost = await SCENARIOS[guard](memory, kind)
    assert bool(lost) is broken, lost
