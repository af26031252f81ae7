"""Who asks the operator for admission: an API server that shows a certificate, and callers who are up to no good."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import re
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from restow.controlplane import ControlPlane
from restow.controlplane.users import ControlPlaneAuthority
from restow.conversion.certificates import Bundle
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.kube.errors import ApiError, Invalid
from tests.apiserver.kind import Document, until
from tests.apiserver.operators import Operator, Starter, bundles, operators
from tests.apiserver.profile_api import GROUP, Api
from tests.apiserver.profile_controllers import World

OLDEST, NEWEST = {"version": "1.30.5", "classification": "deprecated"}, {"version": "1.31.2"}
SHOOTS = {"group": GROUP, "version": "v1beta2", "resource": "shoots"}
MIB = 1024 * 1024
#: Bytes of the reviews that are refused, and the most memory that the operator may take meanwhile (docs/security.md).
TOO_LARGE = 16 * MIB
MOST_MEMORY = 512 * MIB


@pytest.fixture
async def starter(cluster: HttpCluster) -> AsyncIterator[Starter]:
    """A way to start operators; all that they leave goes."""
    async with operators(cluster) as made:
        yield made


async def wired(cluster: HttpCluster) -> Bundle:
    """Wait until API servers know and trust the operator everywhere; return by what it is verified."""
    return (await until(lambda: bundles(cluster), "CRDs and configurations do not name the operator"))[0]


class Caller:
    """Somebody who reaches the port, with no certificate."""

    def __init__(self, session: aiohttp.ClientSession, operator: Operator) -> None:
        self._session = session
        self._url = f"https://127.0.0.1:{operator.port}"

    async def post(self, path: str, body: bytes) -> tuple[int, str]:
        """Send a body; return the status and the answer's text."""
        async with self._session.post(self._url + path, data=io.BytesIO(body)) as answer:
            return answer.status, await answer.text()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """Connections of a caller who verifies nobody."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0)) as made:
        yield made


def review(new: Document, old: Document | None = None) -> bytes:
    """An AdmissionReview as an API server would send it about a profile."""
    kind = {"group": GROUP, "version": "v1beta2", "kind": new["kind"]}
    request = {
        "uid": "u",
        "kind": kind,
        "resource": {"group": GROUP, "version": "v1beta2", "resource": f"{new['kind'].lower()}s"},
        "operation": "CREATE" if old is None else "UPDATE",
        "name": new["metadata"]["name"],
        "namespace": new["metadata"].get("namespace", ""),
        "object": new,
        "oldObject": old,
    }
    envelope = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(envelope, separators=(",", ":")).encode()


def profile(*versions: Document, **spec: Any) -> Document:
    """A CloudProfile of the hub version."""
    listed = [{"version": each["version"]} for each in versions]
    return Api.manifest(Api(None, "v1beta2"), "CloudProfile", "a", {"kubernetes": {"versions": listed}} | spec)  # type: ignore[arg-type]  # sends nothing


# Without certificates.


async def test_nobody_is_told_names_and_no_review_costs_more_than_its_share(
    starter: Starter, cluster: HttpCluster, kubeconfig: Path, session: aiohttp.ClientSession
) -> None:
    """Ten reviews took 3.8 GB and both leases, and one told anybody the Shoots of every tenant."""
    operator = await starter.start(kubeconfig, "--install-crds", forked=False)
    await wired(cluster)
    old, world, caller = Api(cluster, "v1beta1"), World(cluster), Caller(session, operator)
    await old.create(old.manifest("CloudProfile", "a", {"kubernetes": {"versions": [NEWEST, OLDEST]}}))
    await world.shoot("secret", "CloudProfile", "a", kubernetes={"version": "1.30.5"})
    await until(operator.leads, "it does not lead")

    invented = review(profile(NEWEST), profile(NEWEST, OLDEST))
    status, text = await caller.post("/admit/cloudprofiles", invented)
    assert status == 200
    assert "version is still in use by 1 shoot" in text and "(the operator's log names the objects)" in text, text
    assert "secret" not in text

    async def named() -> bool:
        return any("shoot 'default/secret'" in line for line in operator.log)

    await until(named, "the log has not the name")

    done = asyncio.Event()
    reads, writes = asyncio.create_task(reading(old, done)), asyncio.create_task(writing(old, done))
    too_large = review(profile(NEWEST, x="y" * TOO_LARGE))
    answers = await asyncio.gather(*(caller.post("/admit/cloudprofiles", too_large) for _ in range(10)))
    assert {status for status, _ in answers} == {413}
    for part in (
        {"x": [{"": "a" * 14}] * 130_000},
        {"x": [{"": {"": {"": {}}}}] * 50_000},
        {"regions": [{"name": "a" * 20}] * 90_000},
    ):
        dense = review(profile(NEWEST, **part), profile(NEWEST, OLDEST, **part))
        answers = await asyncio.gather(*(caller.post("/admit/cloudprofiles", dense) for _ in range(10)))
        assert {status for status, _ in answers} <= {200, 429}, answers
        assert (await operator.get("/livez"))[0] == 200
    done.set()
    assert await reads > 0
    assert await writes > 0
    peak = int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{operator.process.pid}/status").read_text())[1]) * 1024  # type: ignore[index]
    assert peak < MOST_MEMORY, f"{peak // MIB} MiB, half of the chart's limit is 512"
    assert not [line for line in operator.log if "lost the lead" in line or " ERROR " in line], operator.log


async def reading(old: Api, done: asyncio.Event) -> int:
    """Read at the version that has to be converted, again and again; each read has to succeed."""
    count = 0
    while not done.is_set():
        assert (await old.cluster.get(old.at("CloudProfile"), "a")).json()["spec"]
        count += 1
    return count


async def writing(old: Api, done: asyncio.Event) -> int:
    """Change a spec, again and again: admission is asked each time."""
    count = 0
    found = (await old.cluster.get(old.at("CloudProfile"), "a")).json() | {"kind": "CloudProfile"}
    while not done.is_set():
        await old.change(found, regions=[{"name": f"r{count}"}])
        count += 1
    return count


async def test_wrong_types_and_deep_nesting_are_told_by_their_place(
    starter: Starter, cluster: HttpCluster, kubeconfig: Path
) -> None:
    """Mutating admission comes before the API server's validation: ``version: 1.31`` was a 500, ``try again later``."""
    await starter.start(kubeconfig, "--install-crds")
    await wired(cluster)
    hub, world = Api(cluster, "v1beta2"), World(cluster)
    await world.profile("a", {"version": "1.31.2"})
    reference = {"kind": "CloudProfile", "name": "a"}

    async def refused(**spec: Any) -> str:
        with pytest.raises(Invalid) as error:
            await hub.create(hub.manifest("Shoot", "s", {"cloudProfile": reference} | spec))
        return error.value.message

    assert "spec.kubernetes.version: Invalid value: must be a string, not a number" in await refused(
        kubernetes={"version": 1.31}
    )
    assert "spec.provider.workers: Invalid value: must be a list, not a string" in await refused(
        provider={"workers": "one"}
    )
    made = json.dumps(hub.manifest("Shoot", "s", {"cloudProfile": reference, "other": "DEEP"}))
    deep = made.replace('"DEEP"', '{"a":' * 5000 + "1" + "}" * 5000)
    with pytest.raises(Invalid, match="object: Invalid value: is nested more than 200 levels deep"):
        await cluster.create(hub.at("Shoot"), deep.encode(), "default")


# With certificates.


async def test_an_api_server_shows_its_certificate_and_nobody_else_is_answered(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    """``kubeConfigFile`` is how an API server is told which certificate to show; docs/security.md says so."""
    authority = ControlPlaneAuthority.create("api-servers")
    (tmp_path / "clients.pem").write_bytes(authority.certificate)
    pair = authority.issue_client("kube-apiserver", not_after=datetime.now(UTC) + timedelta(days=1))
    user = {
        "client-certificate-data": base64.b64encode(pair.certificate).decode(),
        "client-key-data": base64.b64encode(pair.key).decode(),
    }
    kubeconfig = {"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": user}]}
    configuration = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "WebhookAdmissionConfiguration",
        "kubeConfigFile": str(tmp_path / "admission.kubeconfig"),
    }
    plugins = [
        {"name": name, "configuration": configuration}
        for name in ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
    ]
    admission = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins}
    (tmp_path / "admission.json").write_text(json.dumps(admission))
    arguments = {"admission-control-config-file": str(tmp_path / "admission.json")}
    (tmp_path / "admission.kubeconfig").write_text(json.dumps(kubeconfig))
    async with (
        ControlPlane(apiserver_args=arguments) as plane,
        connect(plane.kubeconfig) as cluster,
        operators(cluster) as starter,
    ):
        flags = (f"--client-ca={tmp_path / 'clients.pem'}", "--client-name=kube-apiserver", "--install-crds")
        operator = await starter.start(plane.kubeconfig, *flags)
        await wired(cluster)
        old, world = Api(cluster, "v1beta1"), World(cluster)
        await old.create(old.manifest("CloudProfile", "a", {"kubernetes": {"versions": [NEWEST, OLDEST]}}))
        await world.shoot("s", "CloudProfile", "a", kubernetes={"version": "1.30.5"})
        with pytest.raises(Invalid, match="still in use by shoot 'default/s'"):
            await old.change(await world.get("CloudProfile", "a"), kubernetes={"versions": [NEWEST]})

        status, text = await Caller(session, operator).post("/admit/cloudprofiles", review(profile(NEWEST)))
        assert (status, "only to clients with a certificate" in text) == (401, True)

        other = authority.issue_client("somebody", not_after=datetime.now(UTC) + timedelta(days=1))
        user["client-certificate-data"] = base64.b64encode(other.certificate).decode()
        user["client-key-data"] = base64.b64encode(other.key).decode()
        (tmp_path / "admission.kubeconfig").write_text(json.dumps(kubeconfig))
        await plane.restart_apiserver()
        with pytest.raises(ApiError, match="none of those that --client-name allows"):
            await old.change(await world.get("CloudProfile", "a"), kubernetes={"versions": [NEWEST, OLDEST, OLDEST]})
        assert (await cluster.get(old.at("CloudProfile"), "a")).json()["spec"], "conversion needs no certificate"
