"""A webhook under attack, and the real API server that reads through it meanwhile: no read fails."""

from __future__ import annotations

import asyncio
import re
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from restow.kube.client import HttpCluster
from tests.apiserver.provider import GATEWAYS, Provider
from tests.apiserver.serving import Instance, certified
from tests.conversion.server.rawhttp import head

MIB: Final = 1024 * 1024
MANY: Final = 1100
PARALLEL: Final = 8
_DEADLINE: Final = 30.0

#: What an attack may cost at most, as docs/security.md states it: bytes of memory, and of the log.
MOST_FOR_CONNECTIONS: Final = 150 * MIB
MOST_FOR_BODIES: Final = 3 * 32 * MIB
MOST_OF_A_LOG: Final = 3000

#: Of the same shape as the defaults, but cheaper to fill.
FLAGS = ("--max-body-mib=16", "--max-in-flight-mib=32")


class Attacked:
    """A ``restow serve`` that is attacked, and what the API server reads through it."""

    def __init__(self, instance: Instance, provider: Provider) -> None:
        self.instance = instance
        self.pid = instance.process.pid
        self._provider = provider

    def connections(self, number: int, *, tls: bool = False, probes: bool = False) -> list[socket.socket]:
        """Open some that say nothing."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        made = []
        for _ in range(number):
            opened = socket.create_connection(("127.0.0.1", self._port(probes)), timeout=_DEADLINE)
            made.append(context.wrap_socket(opened) if tls else opened)
        return made

    async def begin(self, clients: list[socket.socket], sent: bytes) -> None:
        """Send something on each, as far as the other side takes it."""

        def send(client: socket.socket) -> None:
            with suppress(OSError):  # it was ended already
                client.sendall(sent)

        for client in clients:
            await asyncio.to_thread(send, client)

    async def is_served(self) -> None:
        """Read objects at another version on more connections than the API server has open, and ask the probes."""
        async with asyncio.timeout(_DEADLINE):
            reads = (self._provider.get(GATEWAYS, "v1alpha1", f"g{number}") for number in range(PARALLEL))
            assert [each["spec"] for each in await asyncio.gather(*reads)] == [{"host": "a"}] * PARALLEL
            for path in ("/livez", "/readyz", "/metrics"):
                assert await self._status(path) == b"200", path

    def memory(self) -> int:
        """The largest resident size so far, in bytes."""
        return int(re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())[0]) * 1024

    async def refusals(self) -> list[tuple[str, str]]:
        """Stop it; return the reason and the peer of each line about a refusal."""
        await self._provider.remove()  # while it is converted: objects that nobody converts hold their CRD back
        assert await self.instance.stop() == 0
        log = b"".join(self.instance.log).decode()
        return re.findall(r': refused why="([^"]*)"(?: peer="([^"]*)")?', log)

    def _port(self, probes: bool) -> int:
        return self.instance.probes if probes else self.instance.port

    async def _status(self, path: str) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.instance.probes)
        with closing(writer):
            writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            return (await reader.readline()).split()[1]


@contextmanager
def _few_files() -> Iterator[None]:
    """Have new processes begin with the soft limit that most systems give."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@asynccontextmanager
async def _attacked(cluster: HttpCluster, folder: Path) -> AsyncIterator[Attacked]:
    bundle, provider = certified(folder), Provider(cluster)
    with _few_files():
        instance = await Instance.start(folder, flags=FLAGS, forked=False)
    try:
        await provider.install(GATEWAYS, instance.port, bundle)
        for number in range(PARALLEL):
            await provider.create(GATEWAYS, "v1", f"g{number}", {"hosts": ["a"]})
        yield Attacked(instance, provider)
    finally:
        await provider.remove()
        await instance.stop()


@contextmanager
def _open(clients: list[socket.socket]) -> Iterator[list[socket.socket]]:
    try:
        yield clients
    finally:
        for client in clients:
            client.close()


async def test_connections_that_wait_keep_nobody_out(cluster: HttpCluster, tmp_path: Path) -> None:
    """Whoever reaches the port could hide all objects of a kind by connecting a thousand times, and saying nothing."""
    async with _attacked(cluster, tmp_path) as attacked:
        assert resource.prlimit(attacked.pid, resource.RLIMIT_NOFILE)[0] > 1024, "as many files as it may"
        await attacked.is_served()
        before = attacked.memory()
        with _open(await asyncio.to_thread(attacked.connections, MANY, tls=True)) as silent:
            await attacked.is_served()
            await attacked.begin(silent[-100:], head(content_length="5")[:-2])
            with _open(await asyncio.to_thread(attacked.connections, MANY)):
                await attacked.is_served()
                with _open(await asyncio.to_thread(attacked.connections, MANY, probes=True)):
                    await attacked.is_served()
                    assert attacked.memory() - before < MOST_FOR_CONNECTIONS
        assert ("too-many-connections", "127.0.0.1") in await attacked.refusals()


async def test_bodies_that_stall_keep_nobody_waiting(cluster: HttpCluster, tmp_path: Path) -> None:
    """Two clients that send all but the last byte of the largest bodies would hold all bytes that may be at work."""
    async with _attacked(cluster, tmp_path) as attacked:
        before = attacked.memory()
        with _open(await asyncio.to_thread(attacked.connections, 3, tls=True)) as large:
            await attacked.begin(large, head(content_length=str(16 * MIB)) + b"x" * (16 * MIB - 1))
            await attacked.is_served()
            with _open(await asyncio.to_thread(attacked.connections, 20, tls=True)) as small:
                await attacked.begin(small, head(content_length=str(3 * MIB)) + b"x" * (3 * MIB - 1))
                for _ in range(3):
                    await attacked.is_served()
        assert attacked.memory() - before < MOST_FOR_BODIES
        assert {why for why, _ in await attacked.refusals()} & {"too-slow", "overload"}


async def test_a_lack_of_files_is_told_once(cluster: HttpCluster, tmp_path: Path) -> None:
    """A traceback for each connection that cannot be accepted fills a disk in an hour; and who waits gives its own."""
    async with _attacked(cluster, tmp_path) as attacked:
        await attacked.is_served()
        limit = len(tuple(Path(f"/proc/{attacked.pid}/fd").iterdir())) + 40
        resource.prlimit(attacked.pid, resource.RLIMIT_NOFILE, (limit, limit))
        with _open(await asyncio.to_thread(attacked.connections, 150)):
            await asyncio.sleep(1.5)  # what counts is how little happens in that time
            await attacked.is_served()
        refusals = await attacked.refusals()
        assert [why for why, _ in refusals].count("no-file") == 1
        assert sum(map(len, attacked.instance.log)) < MOST_OF_A_LOG


@pytest.fixture(autouse=True)
def _enough_files() -> Iterator[None]:
    """Let this process open the connections of an attacker."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
