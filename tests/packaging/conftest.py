"""What the tests of packaging share: the wheel, built once, and empty environments to install it into."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
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
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """The wheel (made of the sdist), the sdist, and what was printed meanwhile.

    They are built from a copy: setuptools writes into its folder, and tests that run in parallel share the checkout.
    """
    folder, copy = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("source") / "restow"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__"))
    said = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, copy)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist, said


@pytest.fixture(scope="session")
def installed(built: tuple[Path, Path, str], tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """A function from extras to the folder of programs of a new environment that has the wheel with these alone.

    The versions and hashes are those that are locked. ``besides`` are other distributions, which a page has installed.
    """
    made: dict[tuple[tuple[str, ...], tuple[str, ...]], Path] = {}

    def install(*extras: str, besides: tuple[str, ...] = ()) -> Path:
        if (extras, besides) not in made:
            folder = tmp_path_factory.mktemp("-".join(("with", *extras, *besides)))
            run(BIN / "uv", "venv", "-q", "--python", sys.executable, folder / "venv")
            wheel = f"restow[{','.join(extras)}] @ {built[0].as_uri()}"
            locked = ROOT / "requirements" / ("dev.txt" if besides else "runtime.txt")
            into = ("--python", folder / "venv", "--constraint", locked)
            run(BIN / "uv", "pip", "install", "-q", *into, wheel, *besides)
            made[extras, besides] = folder / "venv" / "bin"
        return made[extras, besides]

    return install
