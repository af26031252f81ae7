"""The demo as its users run it: a process of its own, which brings its own control plane and takes it down again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from demo import fixtures
from restow.controlplane import ControlPlane
from restow.kube import connect
from restow.kube.resources import CRDS

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(300)

ROWS = {
    "restow migrate reports success",
    "status.storedVersions is v1beta1 alone",
    "no write of a client was refused meanwhile",
    "all objects are there, each with its uid",
    "etcd holds each object at v1beta1",
    "managedFields entries are at v1beta1, or just written at v1alpha1",
    "managedFields entries are at v1beta1",
    "each owner has exactly the fields it had",
    "restow owns nothing, nor anybody else new",
    "generations count what clients changed, no more",
    "contents are as their clients left them",
    "old manifests apply at v1alpha1, no force, no conflict",
    "restow ready --drop v1alpha1 says no",
    "restow ready --drop v1alpha1 says yes",
    "every ownerReference at v1alpha1 is found",
    "they name v1beta1, and their fields' owners stay",
    "restow ready says that v1alpha1 may be unserved",
    "the API server lets v1alpha1 go",
    "every manager applies at v1beta1, no force, no conflict",
    "and these applies changed not one byte in etcd",
    "a field goes when its only owner drops it",
    "an item of a keyed list goes, another manager's stays",
    "one condition goes, the other stays",
    "the owner takes the defaulted field, no conflict",
    "a stranger is refused, and told the owner",
    "dropping its finalizer ends a deletion that waited for it",
}

FAULTS = (
    "500: .spec.deletionPolicy: field not declared in schema",
    "request to convert CR to an invalid group/version: without.restow.dev/v1alpha1",
)
EMPTIED = (
    "managedFields of all 3 objects are empty now",
    'conflict with "before-first-apply" using without.restow.dev/v1beta1: .spec.storageGiB',
    "the field is still there; its owners now: before-first-apply.",
    "managedFields of the object are empty now",
)
KEPT = (
    "The managedFields entries of all 3 objects are still there: 9 at v1alpha1.",
    "The managedFields entries of the object are still there: 3 at v1alpha1.",
)


@asynccontextmanager
async def demo(folder: Path, *arguments: str) -> AsyncIterator[Process]:
    """Run the demo with its temporary files below a folder; it must leave nothing there, nor any process."""
    environment = os.environ | {"TMPDIR": str(folder)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "demo", *arguments, stdout=PIPE, stderr=PIPE, env=environment, cwd=ROOT, limit=2**20
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert list(folder.iterdir()) == []
    assert processes_of(folder) == []


def processes_of(folder: Path) -> list[str]:
    """Find processes that work in a folder, by their command lines."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # it has ended meanwhile
        if str(folder) in command:
            found.append(command)
    return found


async def read_until(process: Process, text: str) -> str:
    """Read its standard output until a line has this text; return the line."""
    assert process.stdout is not None
    async for line in process.stdout:
        if text in line.decode():
            return line.decode()
    assert process.stderr is not None
    pytest.fail(f"the demo ended without {text!r}: {(await process.stderr.read()).decode()}")


@pytest.fixture(autouse=True)
def binaries(control_plane: ControlPlane) -> None:
    """Where no control plane can be had, the demo cannot have one either."""


async def test_the_whole_scenario_succeeds(tmp_path: Path, keeps_owners: bool) -> None:
    """The demo is the toolkit's promise: each check of it must have looked at something and found nothing wrong."""
    async with demo(tmp_path, "--objects", "120", "-o", "json") as process:
        stdout, stderr = await process.communicate()
    told = stderr.decode()
    assert process.returncode == 0, told
    result = json.loads(stdout)
    assert result["result"] == "Passed"
    assert {row["check"] for row in result["checks"]} == ROWS
    assert all(row["passed"] and row["count"] > 0 for row in result["checks"])
    (owners,) = [row for row in result["checks"] if row["check"].startswith("each owner") and row["when"] == "migrated"]
    assert all(
        manager in owners["note"]
        for manager in (fixtures.PLATFORM, fixtures.BACKUP, fixtures.CONTROLLER, fixtures.EDITOR)
    )
    for said in (*FAULTS, *(KEPT if keeps_owners else EMPTIED)):
        assert said in told


async def test_keep_leaves_a_control_plane_to_look_at(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The command must return, and what it printed must lead to migrated objects and to others that are due."""
    async with demo(tmp_path, "--objects", "60", "--keep") as process:
        stdout, stderr = await process.communicate()
        told = stdout.decode()
        assert process.returncode == 0, stderr.decode()
        assert "checks passed, on Kubernetes" in told
        child = int(told.rpartition("$ kill ")[2])
        kubeconfig = told.partition("export KUBECONFIG=")[2].split()[0]
        async with connect(kubeconfig) as cluster:
            for name, versions in (("demo.restow.dev", ["v1beta1"]), ("example.com", ["v1alpha1", "v1beta1"])):
                crd = (await cluster.get(CRDS, f"databases.{name}")).json()
                assert crd["status"]["storedVersions"] == versions
        async with demo(tmp_path_factory.mktemp("second"), "--keep") as second:
            _, refused = await second.communicate()
            assert second.returncode == 1 and f"kill {child}" in refused.decode()
        os.kill(child, signal.SIGTERM)
        async with asyncio.timeout(60):
            while Path(kubeconfig).exists() or processes_of(tmp_path):
                await asyncio.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
async def test_a_signal_ends_what_is_to_be_kept(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C before the end would leave a control plane that nobody was told of."""
    async with demo(tmp_path, "--objects", "60", "--keep") as process:
        await read_until(process, "listens on https")
        process.send_signal(number)
        _, stderr = await process.communicate()
        assert process.returncode == 1, stderr.decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
async def test_a_signal_ends_it_at_once_and_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """Whoever stops the demo in the middle must not find an API server running tomorrow."""
    async with demo(tmp_path, "--objects", "60") as process:
        await read_until(process, "restow migrate databases.demo.restow.dev")
        assert processes_of(tmp_path) != []
        process.send_signal(number)
        stdout, stderr = await process.communicate()
        assert process.returncode == 1
        assert b"Interrupted" in stderr
        assert b"Traceback" not in stdout + stderr


async def test_a_failing_check_fails_the_demo(tmp_path: Path) -> None:
    """A demo that ends with 0 whatever it finds would prove nothing: here managedFields are left as they are."""
    broken = """
from demo import scenario
from demo.__main__ import command
from restow.migrator import Migration, Options, Phase

options = Options(skip=frozenset({Phase.MANAGED_FIELDS}), settle_s=0)
scenario.Migration = lambda cluster, _options, observer: Migration(cluster, options, observer=observer)
command()
"""
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", broken, "--objects", "60", stdout=PIPE, stderr=PIPE, env=environment, cwd=ROOT
    )
    stdout, stderr = await process.communicate()
    assert process.returncode == 1, stderr.decode()
    told = stdout.decode()
    assert "checks FAILED" in told
    assert "every manager applies at v1beta1, no force, no conflict: FAILED" in told
    assert list(tmp_path.iterdir()) == []
