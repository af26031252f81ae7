"""What the tests of packaging share: the wheel, built once, and empty environments to install it into."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
BIN = Path(sys.executable).parent
Installed = Callable[..., Path]


def run(*command: str | Path, cwd: Path = ROOT, code: int = 0) -> str:
    """Run a program; return what it printed, after checking its exit code."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == code, said
    return said


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the processes of a run share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@contextmanager
def first(folder: Path) -> Iterator[bool]:
    """Whether this process is the first to fill a folder; others wait until it is filled."""
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = folder.with_name(f"{folder.name}.done")
        yield not done.exists()
        done.touch()


@pytest.fixture(scope="session")
def built(shared: Path) -> tuple[Path, Path, str]:
    """The wheel (made of the sdist), the sdist, and what was printed meanwhile.

    They are built from a copy: setuptools writes into its folder, and tests that run in parallel share the checkout.
    """
    folder, copy, said = shared / "dist", shared / "source" / "restow", shared / "built.txt"
    with first(folder) as missing:
        if missing:
            ignored = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
            shutil.copytree(ROOT, copy, ignore=ignored)
            said.write_text(run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, copy))
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist, said.read_text()


@pytest.fixture(scope="session")
def installed(built: tuple[Path, Path, str], shared: Path) -> Installed:
    """A function from extras to the folder of programs of a new environment that has the wheel with these alone.

    The versions and hashes are those that are locked. ``besides`` are other distributions, which a page has installed.
    """

    def install(*extras: str, besides: tuple[str, ...] = ()) -> Path:
        folder = shared / "-".join(("with", *extras, *besides))
        with first(folder) as missing:
            if missing:
                run(BIN / "uv", "venv", "-q", "--python", sys.executable, folder)
                wheel = f"restow[{','.join(extras)}] @ {built[0].as_uri()}"
                locked = ROOT / "requirements" / ("dev.txt" if besides else "runtime.txt")
                into = ("--python", folder, "--constraint", locked)
                run(BIN / "uv", "pip", "install", "-q", *into, wheel, *besides)
        return folder / "bin"

    return install
