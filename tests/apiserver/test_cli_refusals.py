"""What cannot be done is told in one sentence on stderr, with exit code 2, before anything was written."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from restow.controlplane.plane import ControlPlane
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.resources import CRDS
from tests.apiserver.kind import Document, Kind, until
from tests.restow.commandline import Ran, restow

WRITING = ("migrate", "migrate --only prune")
LOOKING = ("plan", "ready")
every_command = pytest.mark.parametrize("command", ["status", *LOOKING, *WRITING])


async def run(command: str, name: str, kubeconfig: Path | None, *more: str | Path, **environment: str) -> Ran:
    """A command on one CRD."""
    command, *flags = command.split()
    arguments = [*flags, name, *more]
    if command == "ready":
        arguments += ["--drop", "v1alpha1"]
    if command == "migrate":
        arguments += ["--settle", "0"]
    return await asyncio.to_thread(restow, command, *arguments, kubeconfig=kubeconfig, environment=environment)


@every_command
@pytest.mark.parametrize("form", ["table", "json"])
async def test_an_unknown_crd(command: str, form: str, kubeconfig: Path, control_plane: ControlPlane) -> None:
    """A name like no other; the sentence says what name is wanted, in every form of output."""
    refusal = (await run(command, "zzz", kubeconfig, "-o", form)).refusal
    assert refusal == f"there is no CRD 'zzz' on {control_plane.server}: kubectl get crds shows the names"


class TestStatesOfACrd:
    """A CRD that cannot be migrated as it is: named, told why, told what to do."""

    async def refusals(self, name: str, kubeconfig: Path) -> set[str]:
        """What the commands that look at objects say; it must be one sentence, and nothing may be written."""
        ran = await asyncio.gather(*(run(command, name, kubeconfig) for command in (*LOOKING, *WRITING)))
        status = await run("status", name, kubeconfig, "-o", "json")
        assert status.code == 0
        told: str = status.json["crds"][0]["refusal"]
        return {each.refusal for each in ran} | {told}

    @pytest.fixture
    async def held(self, kind: Kind, cluster: HttpCluster) -> AsyncIterator[Kind]:
        """A CRD that is being deleted and cannot go, since somebody holds it by a finalizer."""

        async def hold(finalizers: list[str]) -> None:
            now = (await cluster.get(CRDS, kind.name)).json()["metadata"].get("finalizers", [])
            others = [each for each in now if each != "example.com/hold"]
            body = json.dumps({"metadata": {"finalizers": others + finalizers}}).encode()
            await cluster.patch(CRDS, kind.name, body, patch_type=PatchType.MERGE)

        await hold(["example.com/hold"])
        await cluster.delete(CRDS, kind.name)
        yield kind
        await hold([])

    async def test_terminating(self, held: Kind, kubeconfig: Path) -> None:
        """Its objects are going too: writing them would only get in the way."""
        (refusal,) = await self.refusals(held.name, kubeconfig)
        assert refusal == (
            f"{held.name} is being deleted: there is nothing to migrate. Wait until it is gone, or apply it again"
        )
        table = await run("status", held.name, kubeconfig)
        assert table.rows[1][-1] == "terminating"

    async def test_held_by_an_object(self, kind: Kind, cluster: HttpCluster, kubeconfig: Path) -> None:
        """The usual reason why a CRD does not go: an object whose finalizer nobody takes off."""
        held = kind.manifest("v1alpha1", "held", spec={"size": 1}, metadata={"finalizers": ["example.com/hold"]})
        await kind.apply(held, "alice")
        await cluster.delete(CRDS, kind.name)
        (refusal,) = await self.refusals(kind.name, kubeconfig)
        assert refusal.startswith(f"{kind.name} is being deleted")

    async def test_not_established(self, kind: Kind, cluster: HttpCluster, kubeconfig: Path) -> None:
        """Another CRD has its kind: the API server's own reason is passed on."""
        document: Document = kind.document(storage="v1alpha1", versions=("v1alpha1",))
        document["metadata"]["name"] = name = f"gadgets.{kind.group}"
        document["spec"]["names"] |= {"plural": "gadgets", "singular": "gadget"}
        await cluster.create(CRDS, json.dumps(document).encode())

        async def judged() -> bool:
            return bool((await cluster.get(CRDS, name)).json().get("status", {}).get("conditions"))

        await until(judged, "the names were not judged")
        try:
            (refusal,) = await self.refusals(name, kubeconfig)
        finally:
            await cluster.delete(CRDS, name)
        assert refusal.startswith(f"{name} is not established (")
        assert "already in use" in refusal
        assert refusal.endswith("Wait for its Established condition and run again")

    async def test_storage_version_not_served(self, kind: Kind, kubeconfig: Path) -> None:
        """Its objects can neither be listed nor written at it; a list at another version would find them all "done"."""
        await kind.apply(kind.manifest("v1alpha1", "w", spec={"size": 1}), "alice")
        await kind.change(kind.document(storage="v1beta1", served=["v1alpha1"]))
        stored = await kind.stored()
        (refusal,) = await self.refusals(kind.name, kubeconfig)
        assert refusal == (
            f"the storage version v1beta1 of {kind.name} is not served, so its objects cannot be listed or written at "
            "it. Set served: true for it, or make a served version the storage version"
        )
        assert await kind.stored() == stored


class TestServersAndCredentials:
    """No API server, or none that wants to speak with this user."""

    @pytest.fixture
    def admin(self, kubeconfig: Path) -> str:
        """The administrator's kubeconfig as text, to be spoilt."""
        return kubeconfig.read_text()

    @every_command
    async def test_unreachable(self, command: str, admin: str, tmp_path: Path, control_plane: ControlPlane) -> None:
        """Which server, why not, and what to check; and a Job runs again."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            server = f"https://127.0.0.1:{taken.getsockname()[1]}"
            config = tmp_path / "config"
            config.write_text(admin.replace(control_plane.server, server))
            ran = await run(command, "widgets.example.com", config, RESTOW_PATIENCE="0")
        assert ran.code == 4, "a Job gives up for good on 2"
        assert ran.err == (
            "restow: get customresourcedefinitions.apiextensions.k8s.io widgets.example.com: "
            f"{server} cannot be reached (connection refused). Check that it runs, and that this is the cluster you "
            "mean (--kubeconfig, --context)\n"
        )

    @every_command
    async def test_expired_certificate(self, command: str, control_plane: ControlPlane) -> None:
        """A year later kubeadm's admin.conf has expired: it is no matter of rights."""
        user = control_plane.user(f"expired-{command}", valid_for=-timedelta(hours=1))
        refusal = (await run(command, "widgets.example.com", user.kubeconfig)).refusal
        assert refusal == (
            "get customresourcedefinitions.apiextensions.k8s.io widgets.example.com: the API server does not accept "
            "the credentials; they are wrong or have expired. Renew them and run again"
        )

    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            ("kind: Config", "kind: {{ Config", "is not YAML (line "),
            ("current-context", "previous-context", "names no current-context: give --context NAME"),
            ("client-key-data: ", "client-key-data: AAAA", "client certificate and key of context"),
            ("certificate-authority-data: ", "certificate-authority-data: AAAA", "certificate-authority of context"),
            ("server: https://", "server: ", "it must be a URL, https://HOST:PORT"),
        ],
    )
    async def test_broken_kubeconfigs(self, old: str, new: str, said: str, admin: str, tmp_path: Path) -> None:
        """A kubeconfig that was cut, or repaired by hand."""
        config = tmp_path / "config"
        config.write_text(admin.replace(old, new))
        refusal = (await run("plan", "widgets.example.com", config)).refusal
        assert said in refusal
        assert str(config) in refusal

    async def test_no_kubeconfig(self, tmp_path: Path, kubeconfig: Path) -> None:
        """Missing, a folder, named by the environment, or without the context; never another cluster instead."""
        name, missing = "widgets.example.com", tmp_path / "missing"
        assert (await run("migrate", name, missing)).refusal.startswith(f"kubeconfig '{missing}' does not exist")
        assert (
            await run("migrate", name, tmp_path)
        ).refusal == f"kubeconfig '{tmp_path}' cannot be read: Is a directory"
        ran = await run("migrate", name, None, KUBECONFIG=str(missing))
        assert ran.refusal == f"kubeconfig '{missing}' does not exist: give --kubeconfig FILE or set KUBECONFIG"
        ran = await run("migrate", name, kubeconfig, "--context", "other")
        assert f"kubeconfig '{kubeconfig}' has no context 'other': give --context NAME (it has " in ran.refusal
        ran = await run("migrate", name, None)
        assert ran.refusal.startswith("no cluster is configured: ")

    async def test_a_plugin_that_fails(self, admin: str, tmp_path: Path) -> None:
        """What the plugin says ("log in first") is told once, and it is not mistaken for the API server."""
        config = tmp_path / "config"
        plugin = {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": "sh",
                "args": ["-c", "echo log in first >&2; exit 1"],
            }
        }
        document = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": plugin}],
        }
        config.write_text(json.dumps(document))
        assert "exec: process returned 1. log in first" in (await run("plan", "widgets.example.com", config)).refusal


async def test_a_webhook_in_a_namespace_that_is_not_there(kubeconfig: Path, tmp_path: Path) -> None:
    """`namespaces "…" not found`, of the attempt to create a Secret, does not say what to do."""
    crds = Path(__file__).parents[2] / "docs" / "examples" / "provider" / "manifests"
    (tmp_path / "tls").mkdir()
    ran = await asyncio.to_thread(
        restow,
        "serve",
        *("--registry", "docs.examples.provider.conversions:registry"),
        *("--crd", crds / "gateways.yaml", "--crd", crds / "caches.yaml"),
        *("--own-ca", "missing/webhook", "--cert", tmp_path / "tls" / "tls.crt", "--key", tmp_path / "tls" / "tls.key"),
        *("--port", "0"),
        kubeconfig=kubeconfig,
    )
    assert ran.code == 2
    assert ran.refusal.endswith('namespaces "missing" not found. Create the namespace first')
