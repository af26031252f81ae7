"""One command on three clusters, one of which is away.

The page is docs/howto/fleet.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import pytest
import yaml

from restow.controlplane.plane import ControlPlane
from restow.controlplane.pytest_plugin import running_plane
from restow.kube import connect
from tests.apiserver.kind import Kind
from tests.restow.commandline import Ran, restow

NAMES = ("canary", "north", "south")
PAGE = Path(__file__).parents[2] / "docs/howto/fleet.md"


@pytest.fixture(scope="module")
def planes() -> Iterator[list[ControlPlane]]:
    """Three control planes."""
    with ExitStack() as stack:
        yield [stack.enter_context(running_plane(ControlPlane)) for _ in NAMES]


@pytest.fixture
async def kinds(planes: list[ControlPlane], group: str) -> AsyncIterator[list[Kind]]:
    """A CRD with two objects at its old version in each cluster."""
    async with AsyncExitStack() as stack:
        made = []
        for plane in planes:
            cluster = await stack.enter_async_context(connect(plane.kubeconfig))
            kind = Kind(cluster, plane.etcd, group)
            await kind.create(kind.document(storage="v1alpha1", versions=("v1alpha1",)))
            await kind.populate(2)
            await kind.change(kind.document(storage="v1beta1"))
            made.append(kind)
        yield made
        for kind in made:
            await kind.remove()


@pytest.fixture
def fleet(planes: list[ControlPlane], tmp_path: Path) -> Path:
    """One kubeconfig with a context for each cluster, and one for an API server that is gone."""
    merged: dict[str, list[dict[str, object]]] = {"contexts": [], "clusters": [], "users": []}
    for name, plane in zip(NAMES, planes, strict=True):
        document = yaml.safe_load(plane.kubeconfig.read_text())
        merged["clusters"].append({"name": name, "cluster": document["clusters"][0]["cluster"]})
        merged["users"].append({"name": name, "user": document["users"][0]["user"]})
        merged["contexts"].append({"name": name, "context": {"cluster": name, "user": name}})
    file = tmp_path / "fleet"
    file.write_text(yaml.safe_dump({"current-context": NAMES[0], **merged}))
    return file


async def run(*arguments: str, fleet: Path) -> Ran:
    """Run ``restow`` with the kubeconfig of all clusters."""
    return await asyncio.to_thread(restow, *arguments, kubeconfig=fleet)


def results(ran: Ran) -> list[list[str]]:
    """The name and the result of each cluster."""
    return [row[:2] for row in ran.rows[1:]]


async def test_the_journey_of_three_clusters_one_of_them_away(
    kinds: list[Kind], planes: list[ControlPlane], fleet: Path
) -> None:
    """A cluster that is away in a fleet of many is usual: the others must be done, and the exit code must tell."""
    canary, north, south = kinds
    name, servers = canary.name, planes[1].apiservers
    migrate = ("migrate", name, "--all-contexts", "--settle", "0", "--patience", "1", "--parallel", "1")
    ran = await run("plan", name, "--all-contexts", fleet=fleet)
    assert (ran.code, results(ran)) == (3, [[each, "work is due"] for each in NAMES]), ran.err

    await servers[0].stop(grace=5)
    try:
        ran = await run(*migrate, fleet=fleet)
        assert (ran.code, results(ran)) == (
            4,
            [["canary", "migrated"], ["north", "out of reach"], ["south", "not started"]],
        ), ran.err
        last = ran.err.splitlines()[-1]
        assert ran.out.strip() in PAGE.read_text(), ran.out
        assert last == "not started: south. Run again: what is done is skipped"
        assert await canary.stored_versions() == ["v1beta1"]
        assert await south.stored_versions() == ["v1alpha1", "v1beta1"]

        ran = await run(*migrate, "--keep-going", fleet=fleet)
        assert (ran.code, results(ran)) == (
            4,
            [["canary", "migrated"], ["north", "out of reach"], ["south", "migrated"]],
        ), ran.err
        assert await south.stored_versions() == ["v1beta1"]
    finally:
        await servers[0].start(timeout=120)

    ran = await run("ready", name, "--drop", "v1alpha1", "--all-contexts", "-o", "json", fleet=fleet)
    assert ran.code == 3, ran.err
    found = {each["name"]: each for each in ran.json["clusters"]}
    assert [found[each]["exitCode"] for each in NAMES] == [0, 3, 0]
    assert found["canary"]["result"]["mayBeRemoved"] and not found["north"]["result"]["mayBeRemoved"]

    ran = await run(*migrate, fleet=fleet)
    assert (ran.code, results(ran)) == (0, [[each, "migrated"] for each in NAMES]), ran.err
    assert await north.stored_versions() == ["v1beta1"]
    ran = await run("status", name, "--contexts", "south,north", fleet=fleet)
    assert (ran.code, ran.rows[1:]) == (
        0,
        [["south", "shown", "1", "1 migrated"], ["north", "shown", "1", "1 migrated"]],
    )
