"""Several processes on a real API server: they end as one does, whatever fails, dies or is asked to stop."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from restow.kube.client import HttpCluster
from restow.migrator import CrdReport, Migration, MigrationReport, MigrationResult, NamedConverters, Options
from tests.apiserver.kind import Kind, entry_versions, owners
from tests.apiserver.proxy import Answer, Fault, Proxy, Seen
from tests.restow.commandline import RESTOW

COUNT = 60


@pytest.fixture
async def stored_old(kind: Kind) -> Kind:
    """Objects stored and owned at v1alpha1, with v1beta1 (and its new default) the storage version now."""
    await kind.populate(COUNT)
    await kind.change(kind.document(storage="v1beta1", default=True))
    return kind


def options(**more: Any) -> Options:
    """Two processes, and pages so small that the list has several."""
    return Options(**({"settle_s": 0.0, "page_size": 10, "processes": 2} | more))


async def start(proxy: Proxy, kind: Kind, *more: str) -> asyncio.subprocess.Process:
    """``restow migrate`` through the proxy, with two processes."""
    arguments = ["migrate", kind.name, "--kubeconfig", str(proxy.kubeconfig), "--settle", "0", "-o", "json"]
    arguments += ["--processes", "2", "--page-size", "10", *more]
    return await asyncio.create_subprocess_exec(
        *RESTOW, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )


def workers_of(pid: int) -> list[int]:
    """The processes that a process has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children]


async def assert_all_done(kind: Kind) -> None:
    """Every object is stored and owned at v1beta1, and storedVersions says so."""
    stored = await kind.stored()
    assert len(stored) == COUNT
    for key, found in stored.items():
        assert found["apiVersion"] == f"{kind.group}/v1beta1", key
        assert entry_versions(found) == {"v1beta1"}
        assert owners(found) == {("alice", "Apply", ""): frozenset({"/f:spec/f:size"})}
        assert found["metadata"]["generation"] == 1
    assert await kind.stored_versions() == ["v1beta1"]


async def test_two_processes_store_and_prune(stored_old: Kind, cluster: HttpCluster) -> None:
    """Objects that no worker is dealt stay at the old version, and the prune would lose them."""
    report = await Migration(cluster, options()).migrate(stored_old.name)
    assert report.complete and report.pruned, report.to_json()
    assert (report.objects.listed, report.objects.rewritten) == (COUNT, COUNT)
    await assert_all_done(stored_old)
