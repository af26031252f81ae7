"""The Go client of docs/howto/from-go.md on a real API server, with the rights of that page.

``make peers`` compiles and runs it, and records its requests. Otherwise those requests are sent again, so that no Go
is needed: a changed client, module or right fails the test.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
import yaml

from restow.controlplane.plane import ControlPlane
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.resources import CRDS
from restow.migrator import Migrator, Options
from restow.migrator.operate.policy import LABEL, asking
from restow.rbac import ServiceAccount
from tests.apiserver.accounts import Account, Accounts
from tests.apiserver.kind import Kind, until
from tests.apiserver.operators import migrating
from tests.apiserver.proxy import Seen, proxy_before
from tests.docs.blocks import parse
from tests.peers.building import Project, fingerprint, installed
from tests.peers.recordings import Mode, mode

__all__: list[str] = []

pytestmark = pytest.mark.apiserver

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "howto" / "from-go.md"
CLIENT: Final = Project("go-client", folder=ROOT / "docs" / "examples" / "go")
RECORDING: Final = Path(__file__).parent / "recordings" / "go-client.json"
AT_ONCE: Final = Options(settle_s=0.0, resume=True)
DEADLINE: Final = 60.0


@pytest.fixture
async def kind(cluster: HttpCluster, control_plane: ControlPlane) -> AsyncIterator[Kind]:
    """The CRD of the page, with objects of an old version."""
    made = Kind(cluster, control_plane.etcd, "example.com")
    await made.create(made.document(storage="v1alpha1"))
    await made.populate(3)
    yield made
    await made.remove()


@pytest.fixture
async def cluster(kubeconfig: Path) -> AsyncIterator[HttpCluster]:
    """A session as administrator."""
    async with connect(kubeconfig) as opened:
        yield opened


@pytest.fixture
async def account(control_plane: ControlPlane, cluster: HttpCluster, tmp_path: Path) -> AsyncIterator[Account]:
    """The account of the page, with its rights and no other."""
    made = Accounts(control_plane, cluster, tmp_path)
    (rights,) = (each.text for each in parse(str(PAGE), PAGE.read_text(encoding="utf-8")) if each.language == "yaml")
    documents = list(yaml.safe_load_all(rights))
    account = ServiceAccount(documents[1]["subjects"][0]["namespace"], documents[1]["subjects"][0]["name"])
    await made.namespace(account.namespace)
    yield await made.bound([_account(account), *documents], account)
    await made.remove()


def _account(account: ServiceAccount) -> dict[str, Any]:
    metadata = {"name": account.name, "namespace": account.namespace}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def test_the_client_is_short() -> None:
    """A page that asks for more than that would not be copied."""
    source = (ROOT / "docs" / "examples" / "go" / "main.go").read_text(encoding="utf-8")
    assert source.count("\n") <= 60
    pins = (ROOT / "docs" / "examples" / "go" / "go.mod").read_text(encoding="utf-8").split(")")[0]
    assert pins.count(" v") == 2, "it needs client-go, and the types that belong to it, alone"


async def test_the_client_waits_until_the_migration_is_done(
    kind: Kind, cluster: HttpCluster, account: Account, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """An operator would remove a version that objects are still stored at, or wait forever."""
    body = json.dumps({"metadata": {"labels": {LABEL: "true"}}}).encode()
    await cluster.patch(CRDS, kind.name, body, patch_type=PatchType.MERGE)
    if mode() is Mode.RECORDED:
        recorded = json.loads(RECORDING.read_text(encoding="utf-8"))
        assert recorded["built"] == fingerprint(CLIENT), "the client has changed since: run `make peers`"
        assert recorded["said"][-1].startswith("Migrated: 3 objects: 3 rewritten")
        assert recorded["requests"]
        for each in recorded["requests"]:
            assert await _status(control_plane, account, each) == 200, each
        return
    migrator = Migrator(cluster, asking(AT_ONCE), AT_ONCE, lease=None, condition=True)
    async with migrating(migrator):
        code, _, told = await _run(account.kubeconfig, kind.name)
        assert code == 0, told
    flipped = (await cluster.get(CRDS, kind.name)).json() | {"spec": kind.document(storage="v1beta1")["spec"]}
    await cluster.replace(CRDS, kind.name, json.dumps(flipped).encode())
    async with proxy_before(control_plane, tmp_path) as proxy:
        waiting = asyncio.create_task(_run(proxy.kubeconfig, kind.name))

        async def asked() -> bool:
            return bool(proxy.seen)

        await until(asked, "the client asks nothing")
        assert not waiting.done(), "it takes the condition of the former spec for that of the present one"
        async with migrating(migrator), asyncio.timeout(DEADLINE):
            code, said, told = await waiting
        assert code == 0, told
        stored = await kind.stored()
        assert len(stored) == 3 and all(found["apiVersion"].endswith("/v1beta1") for found in stored.values())
        assert await kind.stored_versions() == ["v1beta1"]
        if mode() is Mode.RECORDING:
            recording = {"built": fingerprint(CLIENT), "requests": list(map(_kept, proxy.seen)), "said": said}
            RECORDING.write_text(json.dumps(recording, indent=1) + "\n", encoding="utf-8")


async def _run(kubeconfig: Path, name: str) -> tuple[int, list[str], str]:
    """Run the compiled client; return its exit code, and the lines that it printed and complained."""
    program = await asyncio.to_thread(installed, CLIENT)
    process = await asyncio.create_subprocess_exec(
        *(program / "oracle", name),
        env=os.environ | {"KUBECONFIG": str(kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode().splitlines(), err.decode()


def _kept(seen: Seen) -> dict[str, Any]:
    """A request as it is recorded: without what belongs to one moment."""
    query = {name: value for name, value in seen.query.items() if name not in ("resourceVersion", "timeoutSeconds")}
    return {"method": seen.method, "path": seen.path, "query": query}


async def _status(plane: ControlPlane, account: Account, request: Mapping[str, Any]) -> int:
    """Send a recorded request again as the account; a watch ends after a second."""
    token = yaml.safe_load(account.kubeconfig.read_text())["users"][0]["user"]["token"]
    trusted = ssl.create_default_context(cafile=plane.ca_file)
    query = request["query"] | ({"timeoutSeconds": "1"} if "watch" in request["query"] else {})
    async with (
        aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session,
        session.request(request["method"], plane.server + request["path"], params=query, ssl=trusted) as answer,
    ):
        return answer.status
