"""A pipeline's fixed v1beta1 file, sent by kubectl again and again while a profile lives its life.

The file is as it was written once; it has no stash, and knows nothing of stages that were planned at v1beta2 since.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from restow.controlplane.binaries import find_binaries
from restow.controlplane.etcd import Etcd
from tests.apiserver.profile_world import CLOUD_PROFILE, REST, Family, lifecycle, living, stage

pytestmark = pytest.mark.asyncio(loop_scope="module")

VERSION, PLAIN, LATER, HIDDEN = "1.30.1", "1.29.7", "1.31.0", "1.32.0"
REPLACE, CLIENT_SIDE, SERVER_SIDE = ("replace",), ("apply",), ("apply", "--server-side")


@dataclass(frozen=True)
class Kubectl:
    """The real kubectl."""

    binary: Path
    kubeconfig: Path
    cache: Path

    async def __call__(self, *arguments: str) -> tuple[int, str]:
        """Run a command; return its exit code and what it says on stderr."""
        process = await asyncio.create_subprocess_exec(
            *(str(self.binary), f"--kubeconfig={self.kubeconfig}", f"--cache-dir={self.cache}", *arguments),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        _, said = await process.communicate()
        assert process.returncode is not None
        return process.returncode, said.decode()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def family(kubeconfig: Path, etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Family]:
    """The family with its controllers, for all tests: its clock goes on from one to the next."""
    async with living(kubeconfig, etcd, tmp_path_factory.mktemp("family")) as (made, _), made.controlled():
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kubectl(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """Kubectl as administrator."""
    binary = (await find_binaries(("kubectl",)))["kubectl"]
    return Kubectl(binary, kubeconfig, tmp_path_factory.mktemp("kubectl"))


@pytest.mark.parametrize("way", [REPLACE, CLIENT_SIDE, SERVER_SIDE], ids="-".join)
async def test_a_pipelines_fixed_file_loses_nothing(
    family: Family, kubectl: Kubectl, way: tuple[str, ...], tmp_path: Path
) -> None:
    """A stage that goes, or a hidden version, would be missed on the day when it should have begun."""
    name, after = f"pipeline-{'-'.join(way).replace('--', '')}", family.time.after
    ends = after(days=120)
    written = [
        {"version": VERSION, "classification": "preview", "expirationDate": ends},
        {"version": PLAIN, "classification": "supported"},
    ]
    spec = REST | {"type": "local", "kubernetes": {"versions": written}}
    file = tmp_path / "profile.json"
    file.write_text(json.dumps(family.old.manifest(CLOUD_PROFILE, name, spec)))
    code, said = await kubectl(*(("create",) if way is REPLACE else way), f"--filename={file}")
    assert code == 0, said
    stages = stage("preview"), stage("supported", after(days=1)), stage("deprecated", after(days=90))
    later, hidden = stage("preview", after(days=100)), stage("preview", after(days=3650))
    planned = [
        lifecycle(VERSION, *stages, stage("expired", ends)),
        lifecycle(PLAIN, stage("supported")),
        lifecycle(LATER, later),
        lifecycle(HIDDEN, hidden, stage("supported", after(days=3700))),
    ]
    plans = await family.edit(
        "v1beta2", CLOUD_PROFILE, name, lambda found: found["spec"].update(kubernetes={"versions": planned})
    )
    wanted = plans.json()["spec"]
    assert wanted["kubernetes"]["versions"] == planned
    for days, is_now in ((0, "preview"), (1, "supported"), (89, "deprecated")):
        await family.pass_time(days=days)
        await family.settles(CLOUD_PROFILE, name)
        for _ in range(2):
            code, said = await kubectl(*way, f"--filename={file}")
            assert code == 0, said
            stays = f"Warning: Kubernetes {VERSION}: classification stays {is_now}, by its lifecycle"
            assert (stays in said) == (is_now != "preview"), said
            assert (await family.settles(CLOUD_PROFILE, name))["spec"] == wanted
    await family.pass_time(days=10)
    await family.settles(CLOUD_PROFILE, name)
    code, said = await kubectl(*way, f"--filename={file}")
    assert code == 0, said
    assert (f"Warning: Kubernetes {LATER} stays: v1beta1 has not always shown it" in said) == (way is not SERVER_SIDE)
    await family.pass_time(days=20)
    assert (await family.settles(CLOUD_PROFILE, name))["spec"] == wanted
