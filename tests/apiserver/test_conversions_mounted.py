"""``restow operator --conversions`` with a certificate in files, as cert-manager mounts it."""

from __future__ import annotations

import asyncio
import json
import shlex
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from restow.conversion.certificates import Bundle
from restow.conversion.certificates.ca.authority import Authority
from restow.kube import PatchType
from restow.kube.client import HttpCluster
from restow.kube.errors import ApiError
from restow.kube.resources import CRDS
from tests.apiserver.kind import until
from tests.apiserver.operators import ROOT, Operator
from tests.apiserver.test_conversions_in_cluster import Jobs, clean
from tests.docs.blocks import parse
from tests.ports import free_port

PAGE = "docs/conversions-in-cluster.md"
(COMMAND,) = (
    block.text.replace("\\\n", "")
    for block in parse(PAGE, (ROOT / PAGE).read_text(encoding="utf-8"))
    if block.language == "sh" and block.directives.get("tested by", "").endswith(Path(__file__).name)
)


class Secret:
    """A folder that is mounted from a Secret: all of it changes at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "certs"
        self._number = 0

    def renew(self, name: str) -> Authority:
        """Put a certificate by a new CA there."""
        authority = Authority.create(name, now=datetime.now(UTC), valid_for=timedelta(days=2))
        leaf = authority.issue(["127.0.0.1"], now=datetime.now(UTC), valid_for=timedelta(days=1))
        self._number += 1
        fresh = self.folder.with_name(f"certs-{self._number}")
        fresh.mkdir()
        for file, content in {
            "tls.crt": leaf.certificate,
            "tls.key": leaf.key,
            "ca.crt": authority.certificate,
        }.items():
            (fresh / file).write_bytes(content)
        link = self.folder.with_name("link")
        link.symlink_to(fresh)
        link.replace(self.folder)
        return authority


@pytest.fixture
async def operator(cluster: HttpCluster, kubeconfig: Path, tmp_path: Path) -> AsyncIterator[tuple[Operator, Secret]]:
    """A replica that serves by the first certificate."""
    secret, port = Secret(tmp_path), free_port()
    secret.renew("first")
    # The page's own flags, with the Secret and the address of this test.
    words = (each.replace("/certs/", f"{secret.folder}/") for each in shlex.split(COMMAND)[2:])
    flags = [f"https://127.0.0.1:{port}" if each == "restow-system/restow-conversions" else each for each in words]
    started = await Operator.start(*flags, f"--port={port}", f"--kubeconfig={kubeconfig}")
    try:
        yield started, secret
    finally:
        await started.stop()
        await clean(cluster)


async def test_a_renewed_authority_fails_no_read(
    cluster: HttpCluster, group: str, operator: tuple[Operator, Secret]
) -> None:
    """CA and certificate come together; served at once, the certificate would not verify until all CRDs are written."""
    jobs, (_, secret) = Jobs(cluster, group), operator
    await cluster.create(CRDS, json.dumps(jobs.crd()).encode())
    try:
        await jobs.served()
        await jobs.create("v1", "a", timeout="30s")
        await jobs.declare(jobs.rules())
        await jobs.condition("Ready", "True")
        failed: list[ApiError] = []
        reads = 0

        async def read_forever() -> None:
            nonlocal reads
            while True:
                try:
                    assert await jobs.spec("v1beta1", "a") == {"timeoutSeconds": 30}
                except ApiError as error:
                    failed.append(error)
                reads += 1
                await asyncio.sleep(0.02)

        reading = asyncio.create_task(read_forever())
        before = await bundle(cluster, jobs)
        second = secret.renew("second")
        new = Bundle.from_pem(second.certificate)

        async def trusted() -> bool:
            return await bundle(cluster, jobs) >= new | before

        await until(trusted, "the new CA is not trusted, or the former one is not any more")

        async def served() -> bool:
            found = await asyncio.to_thread(certificate_of, operator[0].port)
            return found.strip() == (secret.folder / "tls.crt").read_bytes().strip()

        await until(served, "the new certificate is not served")
        # By the new CA alone: what is served now needs no other one.
        body = {"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": new.base64}}}}}
        await cluster.patch(CRDS, jobs.name, json.dumps(body).encode(), patch_type=PatchType.MERGE)
        at = reads + 50

        async def goes_on() -> bool:
            return reads > at

        await until(goes_on, "nothing is read")
        reading.cancel()
        assert failed == []
    finally:
        await jobs.remove()


async def bundle(cluster: HttpCluster, jobs: Jobs) -> Bundle:
    """What the CRD trusts."""
    config = (await cluster.get(CRDS, jobs.name)).json()["spec"]["conversion"]["webhook"]["clientConfig"]
    return Bundle.from_base64(config["caBundle"])


def certificate_of(port: int) -> bytes:
    """What is served, PEM."""
    return ssl.get_server_certificate(("127.0.0.1", port)).encode()
