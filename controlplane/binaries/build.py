"""Binaries built from source: the versions of a minor's ``go.mod``, the contents of its ``go.sum``, Go, and some
minutes.

Why it exists: it works where the archives' host cannot be reached but a Go module proxy can, it has
kube-controller-manager, and it has patch releases that no archive has.

Invariants: no cgo, so the binaries run on any libc; the version is linked in, because a kube-apiserver that
calls itself v0.0.0 serves other defaults; only what is asked for is built; a binary appears in the cache
complete or not at all. Module and build caches are Go's own (GOMODCACHE, GOCACHE), so that a CI can keep
them.
"""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

from restow.controlplane.binaries.cache import install, scratch
from restow.controlplane.binaries.command import run
from restow.controlplane.binaries.names import BINARIES
from restow.controlplane.binaries.pins import go_module, minors, pinned_version
from restow.controlplane.binaries.toolchain import find_go
from restow.controlplane.errors import BinariesUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from restow.controlplane.binaries.search import Search

__all__ = ["build", "build_environment", "linker_flags"]

_REPORT_EVERY = 15.0  # seconds between progress lines
_VERSION_PACKAGE = "k8s.io/component-base/version"


async def build(names: Sequence[str], search: Search, progress: Callable[[str], None]) -> None:
    """Build the named binaries into the cache folder, one after the other.

    The caller holds the cache's lock.

    Raises:
        BinariesUnavailableError: a binary cannot be built; what was built before stays installed.
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
        for name in names:
            progress(f"Building {name} with {go} (once; about 2 minutes on 2 cores, less with a warm cache).")
            output = await _build_one(go, name, search, work, progress)
            install(output, search.folder, name)
    except OSError as error:
        message = f"the build in {search.folder} could not be done: {error}."
        raise BinariesUnavailableError(message) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    progress(f"Installed {', '.join(names)} of Kubernetes {search.version} into {search.folder}.")


async def _build_one(go: Path, name: str, search: Search, work: Path, progress: Callable[[str], None]) -> Path:
    output = work / f"{name}.built"
    command = [str(go), "build", "-v", "-trimpath", "-buildvcs=false", "-mod=readonly"]
    command += ["-ldflags", linker_flags(search.version), "-o", str(output), BINARIES[name].package]
    environment = build_environment(os.environ, offline=search.offline)
    await run(command, cwd=work, environment=environment, on_line=_reporter(name, progress))
    return output


def linker_flags(version: str) -> str:
    """Return the -ldflags: no debug information, and the version that the server reports."""
    major, minor, _ = version.split(".", 2)
    values = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s", "-w", *(f"-X {_VERSION_PACKAGE}.{name}={value}" for name, value in values.items())])


def build_environment(environment: Mapping[str, str], *, offline: bool) -> dict[str, str]:
    """Return the build's environment: the caller's Go settings, no cgo, no other module or toolchain."""
    result = {**environment, "CGO_ENABLED": "0", "GOWORK": "off", "GO111MODULE": "on", "GOTOOLCHAIN": "local"}
    for foreign in ("GOOS", "GOARCH", "GOFLAGS", "GOROOT"):
        result.pop(foreign, None)
    if offline:
        result |= {"GOPROXY": "off", "GOSUMDB": "off"}
    return result


def _reporter(name: str, progress: Callable[[str], None]) -> Callable[[str], None]:
    """Turn ``go build -v``'s line per package into a line now and then, so that a log shows that it goes on."""
    done, reported = 0, time.monotonic()

    def on_line(_line: str) -> None:
        nonlocal done, reported
        done += 1
        if time.monotonic() - reported >= _REPORT_EVERY:
            reported = time.monotonic()
            progress(f"Still building {name}: {done} packages compiled or modules loaded.")

    return on_line
