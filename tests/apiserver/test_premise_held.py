"""A server that lagged may still have a request under way that began then, even if restow never saw the lag."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from restow.controlplane.plane import ControlPlane
from restow.kube import connect
from restow.kube.resources import CRDS
from restow.migrator import Migration, Options, read_crd, ready
from tests.apiserver.admission import holding
from tests.apiserver.kind import Kind
from tests.apiserver.lag import late_apiserver

OLD, NEW = "v1alpha1", "v1beta1"
LONG_AGO = "2020-01-01T00:00:00Z"
SETTLE_S, HELD_S = 8.0, 4.0


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    """A control plane of the test's own, to which a second API server belongs."""
    async with ControlPlane() as running:
        yield running


async def seems_settled(kind: Kind) -> None:
    """The CRD's managedFields say that its spec was written long ago."""
    crd = (await kind.cluster.get(CRDS, kind.name)).json()
    crd["metadata"]["annotations"] = {"example.com/restored": "yes"}  # times alone are no change
    for entry in crd["metadata"]["managedFields"]:
        entry["time"] = LONG_AGO
    await kind.cluster.replace(CRDS, kind.name, json.dumps(crd).encode(), params={"fieldManager": "dump"})


@pytest.mark.timeout(180)
async def test_a_create_that_began_while_a_server_lagged_is_waited_for(plane: ControlPlane, tmp_path: Path) -> None:
    """The API server stores it at the old version after the run has pruned, and the next removal loses the kind."""
    async with (
        late_apiserver(plane) as (server, line),
        connect(plane.kubeconfig) as first,
        connect(server.kubeconfig) as second,
    ):
        kind = Kind(first, plane.etcd, "held.example.com")
        lagging = Kind(second, plane.etcd, kind.group)
        both, flipped = (kind.document(storage=version, keyed_conditions=False) for version in (OLD, NEW))
        await kind.create(both)
        await lagging.serves(both)
        await kind.apply(kind.manifest(NEW, "early", spec={"size": 1}), "alice")
        async with holding(lagging, tmp_path, NEW, "late") as held, asyncio.TaskGroup() as group:
            line.hold()
            await kind.change(flipped)
            late = lagging.manifest(NEW, "late", spec={"size": 2})
            creating = group.create_task(second.create(lagging.at(NEW), json.dumps(late).encode(), "default"))
            await held.came.wait()
            line.release()
            await lagging.serves(flipped)
            await seems_settled(kind)
            asyncio.get_running_loop().call_later(HELD_S, held.free.set)
            options = Options(settle_s=SETTLE_S, api_servers=(server.admin.server,))
            report = await Migration(first, options).migrate(kind.name)
            await creating
        stored = {name: found["apiVersion"] for name, found in (await kind.stored()).items()}
        answer = await ready(
            first, await read_crd(first, kind.name), OLD, api_servers=[server.admin.server], references=False
        )
    assert report.pruned and answer.ready, report.to_json()
    assert stored == dict.fromkeys(("default/early", "default/late"), f"{kind.group}/{NEW}")
