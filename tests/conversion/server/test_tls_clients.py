"""Who may ask: clients with and without a certificate, and what becomes of them when the authority changes."""

from __future__ import annotations

import asyncio
import json
import ssl
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from restow.controlplane.users import ControlPlaneAuthority
from restow.conversion.reviews.admission import AdmissionRequest, AdmissionResponse
from restow.conversion.server import BadCertificate, Clients, ServingCertificate
from restow.conversion.server.metrics import ServerMetrics
from restow.kube.clock import SYSTEM_CLOCK
from tests.conversion.server.apiserver import review
from tests.conversion.server.gateways import old
from tests.conversion.server.rawhttp import Answer, Client, head
from tests.conversion.server.test_admission import admission
from tests.conversion.server.test_hostile import refused
from tests.conversion.server.webhooks import GATEWAYS, LOOPBACK, Authority, Running, running


async def _yes(_request: AdmissionRequest) -> AdmissionResponse:
    return AdmissionResponse()


@dataclass
class Signers:
    """Who signs clients' certificates: the authority that is trusted, in a file, and another one."""

    file: Path
    trusted: ControlPlaneAuthority
    other: ControlPlaneAuthority

    def client(
        self, authority: Authority, signer: ControlPlaneAuthority | None, name: str = "apiserver"
    ) -> ssl.SSLContext:
        """What a client shows that has a certificate of a signer."""
        context = authority.client()
        if signer is not None:
            shown = signer.issue_client(name, not_after=datetime.now(UTC) + timedelta(days=1))
            with tempfile.NamedTemporaryFile() as file:
                file.write(shown.certificate + shown.key)
                file.flush()
                context.load_cert_chain(file.name)
        return context


@pytest.fixture
def signers(tmp_path: Path) -> Signers:
    trusted, other = ControlPlaneAuthority.create("trusted"), ControlPlaneAuthority.create("other")
    file = tmp_path / "clients.pem"
    file.write_bytes(trusted.certificate)
    return Signers(file, trusted, other)


@pytest.fixture
async def webhook(authority: Authority, signers: Signers) -> AsyncIterator[Running]:
    clients = Clients(admission=True, names=frozenset({"apiserver"}))
    async with running(authority, clients=clients, client_ca=signers.file, validating={"yes": _yes}) as found:
        yield found


async def post(webhook: Running, context: ssl.SSLContext, body: bytes, path: str) -> Answer:
    reader, writer = await asyncio.open_connection(LOOPBACK, webhook.port, ssl=context, server_hostname=LOOPBACK)
    try:
        return await Client(reader, writer).post(body, path=path)
    finally:
        writer.transport.abort()


async def test_admission_is_for_clients_with_a_certificate(webhook: Running, signers: Signers) -> None:
    """Anybody else would be told what the step reads with the operator's rights; conversion goes on without."""
    authority = webhook.authority
    shown = signers.client(authority, signers.trusted)
    assert json.loads((await post(webhook, shown, admission(), "/admit/yes")).body)["response"]["allowed"] is True

    nobody = signers.client(authority, None)
    answer = await post(webhook, nobody, admission(), "/admit/yes")
    assert (answer.status, answer.headers["connection"]) == (401, "close")
    assert "only to clients with a certificate" in answer.message
    assert (await post(webhook, nobody, review(old()), GATEWAYS)).status == 200

    kubelet = signers.client(authority, signers.trusted, "kubelet")
    answer = await post(webhook, kubelet, admission(), "/admit/yes")
    assert (answer.status, "none of those" in answer.message) == (403, True)
    assert refused(webhook) == {"no-certificate": 1, "wrong-certificate": 1}

    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        await post(webhook, signers.client(authority, signers.other), admission(), "/admit/yes")


async def test_a_body_is_not_read_for_a_client_without_a_certificate(webhook: Running, signers: Signers) -> None:
    """Six megabytes from everybody who is refused anyway would be what hostile clients want."""
    context = signers.client(webhook.authority, None)
    reader, writer = await asyncio.open_connection(LOOPBACK, webhook.port, ssl=context, server_hostname=LOOPBACK)
    client = Client(reader, writer)
    await client.send(head(path="/admit/yes", content_length="6000000"))
    assert (await client.answer()).status == 401
    writer.transport.abort()


async def test_a_new_authority_is_followed_and_no_session_outlives_the_old_one(
    webhook: Running, signers: Signers
) -> None:
    """A resumed session would keep the rights of a certificate whose authority is no longer trusted."""
    context = signers.client(webhook.authority, signers.trusted)
    assert (await post(webhook, context, admission(), "/admit/yes")).status == 200
    signers.file.write_bytes(signers.other.certificate)
    await webhook.certificate.look()
    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        await post(webhook, context, admission(), "/admit/yes")
    assert (
        await post(webhook, signers.client(webhook.authority, signers.other), admission(), "/admit/yes")
    ).status == 200

    signers.file.write_text("no certificate")
    await webhook.certificate.look()
    answer = await post(webhook, signers.client(webhook.authority, signers.other), admission(), "/admit/yes")
    assert answer.status == 200, "a file that is no authority leaves the one that is trusted"


def test_without_an_authority_nothing_starts(authority: Authority, tmp_path: Path) -> None:
    """A server that trusts no client, or every client, had better say so and end."""
    authority.issue()
    for content in (None, "", "no certificate"):
        if content is not None:
            (tmp_path / "clients.pem").write_text(content)
        with pytest.raises(BadCertificate, match=r"clients\.pem holds no certificates"):
            ServingCertificate(
                authority.certificate,
                authority.key,
                client_ca=tmp_path / "clients.pem",
                counts=ServerMetrics(),
                clock=SYSTEM_CLOCK,
            )


async def test_everything_may_need_a_certificate(authority: Authority, signers: Signers) -> None:
    """Behind a proxy that shows one for conversions as well, nothing is left to others."""
    clients = Clients(admission=True, conversion=True)
    async with running(authority, clients=clients, client_ca=signers.file) as webhook:
        assert (await post(webhook, authority.client(), review(old()), GATEWAYS)).status == 401
        shown = signers.client(authority, signers.trusted, "proxy")
        assert (await post(webhook, shown, review(old()), GATEWAYS)).status == 200
