"""kubectl's client-side apply with a conversion webhook that renames a field: what the documentation advises."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from restow.controlplane.binaries import find_binaries
from restow.controlplane.etcd import Etcd
from restow.kube.client import HttpCluster
from restow.migrator import Migration, Options
from tests.apiserver.kind import Document
from tests.apiserver.webhook import ConvertedKind, Webhook

Kubectl = Callable[..., Awaitable[None]]


@pytest.fixture
async def kind(cluster: HttpCluster, etcd: Etcd, group: str, webhook: Webhook) -> AsyncIterator[ConvertedKind]:
    """Widgets stored at v1."""
    made = ConvertedKind(cluster, etcd, group, webhook)
    await made.create(made.document(storage="v1"))
    yield made
    await made.remove()


@pytest.fixture
async def kubectl(kubeconfig: Path) -> Kubectl:
    """Run kubectl with a manifest on its stdin."""
    binary = (await find_binaries(("kubectl",)))["kubectl"]

    async def run(manifest: Document, *arguments: str) -> None:
        process = await asyncio.create_subprocess_exec(
            str(binary),
            "--kubeconfig",
            str(kubeconfig),
            *arguments,
            "-f",
            "-",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        told, _ = await process.communicate(json.dumps(manifest).encode())
        assert process.returncode == 0, told.decode()

    return run


@pytest.fixture
async def migrated(kind: ConvertedKind, kubectl: Kubectl, cluster: HttpCluster) -> ConvertedKind:
    """An object that was applied at v1 on the client side, and migrated to v2, where ``host`` is ``address``."""
    await kubectl(kind.manifest("v1", "w", spec={"host": "a.local", "size": 1}), "apply")
    await kind.change(kind.document(storage="v2"))
    assert (await Migration(cluster, Options(settle_s=0.0)).migrate(kind.name)).pruned
    return kind


async def test_a_field_left_out_in_the_step_to_the_new_version_stays(migrated: ConvertedKind, kubectl: Kubectl) -> None:
    """The annotation says ``host``, which v2 does not have: kubectl has nothing to delete, and reports success."""
    await kubectl(migrated.manifest("v2", "w", spec={"size": 1}), "apply")
    assert (await migrated.get("v2", "w"))["spec"] == {"size": 1, "address": "a.local"}


@pytest.mark.parametrize(
    "way",
    [("apply", "apply"), ("apply --server-side",), ("replace",), ("apply --server-side", "apply --server-side")],
    ids=["a step in between", "server-side apply", "replace", "server-side apply first"],
)
async def test_the_ways_that_work(way: tuple[str, ...], migrated: ConvertedKind, kubectl: Kubectl) -> None:
    """What the documentation advises has to take the field away."""
    for command in way[:-1]:
        await kubectl(migrated.manifest("v2", "w", spec={"address": "a.local", "size": 1}), *command.split())
    await kubectl(migrated.manifest("v2", "w", spec={"size": 1}), *way[-1].split())
    assert (await migrated.get("v2", "w"))["spec"] == {"size": 1}
