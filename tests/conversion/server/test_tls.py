"""The serving certificate: which pairs are taken over, and that taking over costs no request."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509 import load_pem_x509_certificate

from restow.conversion.server import BadCertificate, Limits, ServingCertificate
from restow.conversion.server.metrics import ServerMetrics
from tests.conversion.server.apiserver import ApiServer, api_server
from tests.conversion.server.clocks import HeldClock
from tests.conversion.server.gateways import new, old
from tests.conversion.server.rawhttp import connected, probe
from tests.conversion.server.webhooks import LOOPBACK, Authority, Running, running

LOADS = "restow_webhook_certificate_loads_total"
EXPIRY = "restow_webhook_certificate_expiry_timestamp_seconds"


class Files:
    """A certificate that is served from an authority's files, in held time."""

    def __init__(self, authority: Authority, held: HeldClock | None = None) -> None:
        self.authority = authority
        self.held = held or HeldClock()
        self.counts = ServerMetrics()
        if not authority.certificate.exists():
            authority.issue()
        self.certificate = ServingCertificate(
            authority.certificate, authority.key, counts=self.counts, clock=self.held.clock()
        )

    def loads(self, result: str) -> float:
        """How many pairs were taken over, or refused."""
        return self.counts.snapshot().counters.get((LOADS, result), 0)

    def served(self) -> int:
        """The serial number that a client is shown."""
        return shown(self.certificate, self.authority)


def shown(certificate: ServingCertificate, authority: Authority) -> int:
    """Shake hands in memory, and return the serial number of the certificate that was served."""
    sides = (ssl.MemoryBIO(), ssl.MemoryBIO())
    server = certificate.context.wrap_bio(sides[0], sides[1], server_side=True)
    client = authority.client().wrap_bio(sides[1], sides[0], server_hostname=LOOPBACK)
    todo = [client, server]
    while todo:
        for side in tuple(todo):
            try:
                side.do_handshake()
                todo.remove(side)
            except ssl.SSLWantReadError:
                pass
    der = client.getpeercert(binary_form=True)
    assert der is not None
    return serial(ssl.DER_cert_to_PEM_cert(der).encode())


def serial(certificate: bytes) -> int:
    return load_pem_x509_certificate(certificate).serial_number


@pytest.fixture
def files(authority: Authority) -> Files:
    return Files(authority)


async def test_a_new_pair_is_taken_over(files: Files) -> None:
    """A renewed certificate that is not loaded leaves the process with one that expires."""
    before = files.served()
    files.authority.issue()
    await files.certificate.look()
    assert files.served() == serial(files.authority.certificate.read_bytes()) != before
    assert (files.loads("loaded"), files.loads("refused")) == (2, 0)


async def test_the_same_content_is_no_news(files: Files) -> None:
    """Files are rewritten, and touched, without being changed."""
    files.authority.certificate.write_bytes(files.authority.certificate.read_bytes())
    await files.certificate.look()
    assert files.loads("loaded") == 1
    assert files.held.slept == []


async def test_a_swapped_symlink_is_taken_over(tmp_path: Path, authority: Authority) -> None:
    """A kubelet replaces a mounted Secret by swapping a symlink; the names of the files never change."""
    for version in ("one", "two"):
        (tmp_path / version).mkdir()
        pair = authority.pair()
        for name, content in zip(("tls.crt", "tls.key"), pair, strict=True):
            (tmp_path / version / name).write_bytes(content)
    data = tmp_path / "..data"
    data.symlink_to("one")
    for file in (authority.certificate, authority.key):
        file.symlink_to(Path("..data") / file.name)
    files = Files(authority)
    (tmp_path / "..new").symlink_to("two")
    (tmp_path / "..new").rename(data)
    await files.certificate.look()
    assert files.served() == serial((tmp_path / "two" / "tls.crt").read_bytes())


def other_key(authority: Authority) -> None:
    authority.key.write_bytes(authority.pair()[1])


def half_a_certificate(authority: Authority) -> None:
    certificate, key = authority.pair()
    authority.certificate.write_bytes(certificate[: len(certificate) // 2])
    authority.key.write_bytes(key)


def empty(authority: Authority) -> None:
    authority.certificate.write_bytes(b"")


def gone(authority: Authority) -> None:
    authority.key.unlink()


def garbage(authority: Authority) -> None:
    authority.certificate.write_bytes(b"\x00secret")
    authority.key.write_bytes(b"secret")


def encrypted(authority: Authority) -> None:
    certificate, key = authority.pair()
    authority.certificate.write_bytes(certificate)
    locked = load_pem_private_key(key, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    authority.key.write_bytes(locked)


def expired(authority: Authority) -> None:
    authority.issue(not_after=datetime.now(UTC) - timedelta(days=1))


@pytest.mark.parametrize("spoil", [other_key, half_a_certificate, empty, gone, garbage, encrypted, expired])
async def test_a_bad_pair_is_reported_and_the_old_one_stays(
    files: Files, spoil: Callable[[Authority], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Serving it, or nothing, would fail every request; and it is reported once, not with every look."""
    before, expiry = files.served(), files.counts.snapshot().gauges[EXPIRY,]
    spoil(files.authority)
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            await files.certificate.look()
    assert (files.served(), files.counts.snapshot().gauges[EXPIRY,]) == (before, expiry)
    assert (files.loads("loaded"), files.loads("refused")) == (1, 1)
    (line,) = caplog.messages
    assert "the certificate in use stays, it expires" in line
    assert "secret" not in line
    files.authority.issue()
    await files.certificate.look()
    assert files.served() == serial(files.authority.certificate.read_bytes())


async def test_a_pair_is_not_believed_while_it_changes(authority: Authority) -> None:
    """A tool writes the new certificate, then its key; a pair that is read in between does not match."""
    held = HeldClock()
    files = Files(authority, held)
    before = files.served()
    certificate, key = authority.pair()
    authority.certificate.write_bytes(certificate)
    waiting = asyncio.create_task(files.certificate.look())
    while not held.slept and not waiting.done():
        await asyncio.sleep(0)
    authority.key.write_bytes(key)
    await waiting
    assert files.served() == serial(certificate) != before
    assert files.loads("refused") == 0


async def test_a_chain_that_is_still_being_written_is_not_believed(authority: Authority) -> None:
    """Cut off between two certificates it loads, and matches, and no client could verify it."""
    held = HeldClock()
    files = Files(authority, held)
    certificate, key = authority.pair()
    authority.certificate.write_bytes(certificate)
    authority.key.write_bytes(key)
    waiting = asyncio.create_task(files.certificate.look())
    while not held.slept and not waiting.done():
        await asyncio.sleep(0)
    authority.certificate.write_bytes(certificate + b"\n" + authority.pair()[0])
    await waiting
    assert files.loads("loaded") == 2, "it was taken over once, whole"


def test_without_a_pair_nothing_starts(authority: Authority) -> None:
    """A server that cannot shake hands had better say so and end."""
    with pytest.raises(BadCertificate, match=r"tls\.crt and .*tls\.key cannot be read"):
        ServingCertificate(authority.certificate, authority.key, counts=ServerMetrics(), clock=HeldClock().clock())
    authority.issue()
    other_key(authority)
    with pytest.raises(BadCertificate, match="are no certificate with its key"):
        ServingCertificate(authority.certificate, authority.key, counts=ServerMetrics(), clock=HeldClock().clock())


async def test_an_expired_pair_will_do_to_start_with(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    """A process that runs takes over the new one sooner than one that is started again and again."""
    expired(authority)
    files = Files(authority)
    assert "expired" in caplog.text
    authority.issue()
    await files.certificate.look()
    assert files.loads("loaded") == 2


async def test_asked_to_reload_it_looks_at_once(authority: Authority) -> None:
    """After SIGHUP the new certificate is served at once, not after the next look."""
    async with running(authority) as webhook:
        authority.issue()
        webhook.certificate.reload()
        while shown(webhook.certificate, authority) != serial(authority.certificate.read_bytes()):
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("turns", range(6))
async def test_asked_to_reload_and_to_end_at_once_it_ends(authority: Authority, turns: int) -> None:
    """A watch that loses its cancellation to a reload keeps the process from ending: the pod is killed in the end."""
    authority.issue()
    certificate = Files(authority).certificate
    watching = asyncio.create_task(certificate.watch())
    await asyncio.sleep(0.01)
    certificate.reload()
    for _ in range(turns):
        await asyncio.sleep(0)
    watching.cancel()
    for _ in range(20):
        await asyncio.sleep(0)
    assert watching.done()


@pytest.mark.parametrize("name", ["localhost", None])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_clients_with_and_without_a_server_name(
    webhook: Running, version: ssl.TLSVersion, name: str | None
) -> None:
    """The new certificate is handed over in the SNI callback; an API server that has an address sends no name."""
    context = webhook.authority.client()
    context.minimum_version = context.maximum_version = version
    context.check_hostname = name is not None
    context.set_alpn_protocols(["h2", "http/1.1"])
    reader, writer = await asyncio.open_connection(LOOPBACK, webhook.port, ssl=context, server_hostname=name or "")
    connection = writer.get_extra_info("ssl_object")
    assert connection.selected_alpn_protocol() == "http/1.1"
    writer.close()
    await reader.read()


async def test_old_tls_is_refused(webhook: Running) -> None:
    """1.2 is the oldest that an API server speaks."""
    context = webhook.authority.client()
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection(LOOPBACK, webhook.port, ssl=context, server_hostname=LOOPBACK)


# Under load.

ROTATIONS = 120


async def test_rotations_under_load_fail_no_request(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    """Good, torn and bad pairs, by symlink and by overwriting: no request fails, and only the counters show them."""
    caplog.set_level(logging.ERROR)
    held = HeldClock()
    converted = 0
    done = asyncio.Event()

    async def ask(api: ApiServer, url: str) -> None:
        nonlocal converted
        while not done.is_set():
            assert await api.convert(url, old(timeoutSeconds=5)) == [new(timeout="5s")]
            converted += 1

    async def ask_again(webhook: Running) -> None:
        """Each over a connection of its own, as after a restart of an API server."""
        while not done.is_set():
            async with api_server(authority.client()) as api:
                assert await api.convert(webhook.url, old(timeoutSeconds=5)) == [new(timeout="5s")]

    async with (
        running(authority, limits=Limits(drain_seconds=0), certificate_clock=held.clock()) as webhook,
        api_server(authority.client()) as api,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(3):
            group.create_task(ask(api, webhook.url))
        group.create_task(ask_again(webhook))
        good = serial(authority.certificate.read_bytes())
        for number in range(ROTATIONS):
            good = await _rotate(number, authority, webhook.certificate, good)
            assert shown(webhook.certificate, authority) == good
            target = converted + 2
            while converted < target:
                await asyncio.sleep(0)
            if number % 20 == 0:
                assert (await probe(webhook, "/readyz")).status == 200
        done.set()
        async with connected(webhook) as client:
            connection = client.writer.get_extra_info("ssl_object")
            assert connection.getpeercert()["serialNumber"] == f"{good:X}".zfill(
                len(f"{good:X}") + len(f"{good:X}") % 2
            )
    assert converted > 2 * ROTATIONS
    counters = webhook.webhook.counts.snapshot().counters
    assert counters[LOADS, "loaded"] == 1 + ROTATIONS * 3 // 5
    assert counters[LOADS, "refused"] >= ROTATIONS * 2 // 5


async def _rotate(number: int, authority: Authority, serving: ServingCertificate, good: int) -> int:
    """Change the files in one of five ways; return the serial number that has to be served then."""
    certificate, key = authority.pair()
    match number % 5:
        case 0:  # the whole folder at once, as a kubelet does
            folder = authority.certificate.parent / f"..{number}"
            folder.mkdir()
            for file, content in ((authority.certificate, certificate), (authority.key, key)):
                (folder / file.name).write_bytes(content)
                link = folder / f"{file.name}.link"
                link.symlink_to(folder / file.name)
                link.rename(file)
        case 1:  # one after the other, with a look in between
            authority.certificate.write_bytes(certificate)
            await serving.look()
            authority.key.write_bytes(key)
        case 2:  # a key of another certificate
            authority.key.write_bytes(key)
            certificate = b""
        case 3:  # half a certificate
            authority.certificate.write_bytes(certificate[:-400])
            certificate = b""
        case 4:  # plain, over whatever was there
            authority.certificate.write_bytes(certificate)
            authority.key.write_bytes(key)
    await serving.look()
    return serial(certificate) if certificate else good
