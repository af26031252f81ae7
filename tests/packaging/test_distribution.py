"""Wheel and sdist: all that is in the rooms, and it runs where there is no checkout."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
ROOMS = ("restow", "cloudprofile", "controlplane", "conversion", "crds", "kube", "migrator")
NOT_SHIPPED = {"restow.crds.api"}  # writes crds/manifests/, which are shipped
Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.timeout(600)


def run(*command: str | Path, cwd: Path = ROOT, code: int = 0) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == code, said
    return said


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """The wheel (made of the sdist), the sdist, and what was said meanwhile."""
    folder = tmp_path_factory.mktemp("dist")
    said = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist, said


@pytest.fixture(scope="module")
def installed(built: tuple[Path, Path, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of a new environment into which the wheel was installed, with no extra."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=True)
    constraints = folder / "constraints.txt"
    locked = (ROOT / "requirements" / "runtime.txt").read_text()
    constraints.write_text("\n".join(re.findall(r"^\S+==\S+(?: ;[^\\\n]*)?", locked, re.MULTILINE)))
    run(folder / "bin" / "pip", "install", "-q", "-c", constraints, built[0], cwd=folder)
    return folder / "bin"


def packages() -> dict[str, Path]:
    """All packages of the rooms, and where they are."""
    found = {}
    for room in ROOMS:
        for marker in (ROOT / room).rglob("__init__.py"):
            inside = marker.parent.relative_to(ROOT).parts
            found[".".join(inside if room == "restow" else ("restow", *inside))] = marker.parent
    return {name: folder for name, folder in found.items() if name not in NOT_SHIPPED}


def test_every_package_is_listed() -> None:
    """A package that pyproject does not list works in a checkout and is missing for whoever installs."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    assert set(listed) - {"restow.crds.manifests"} == set(packages())


def test_building_says_nothing_bad(built: tuple[Path, Path, str]) -> None:
    """What setuptools deprecates today breaks somebody's build tomorrow."""
    assert not re.search(r"deprecat|absent|!!|no files found", built[2], re.IGNORECASE)


def test_the_wheel_has_all_modules_and_data(built: tuple[Path, Path, str]) -> None:
    """A file that is left out is missed at run time."""
    names = set(zipfile.ZipFile(built[0]).namelist())
    for package, folder in packages().items():
        assert {f"{package.replace('.', '/')}/{module.name}" for module in folder.glob("*.py")} <= names
    data = {
        "crds/manifests/core.gardener.cloud_shoots.yaml",
        "controlplane/binaries/kubernetes-minors/1.36/go.mod",
        "kube/py.typed",
    }
    assert {f"restow/{each}" for each in data} <= names
    assert not {name for name in names if name.startswith(("tests", "benchmarks")) or "crds/api" in name}


def test_the_sdist_has_what_a_distribution_needs(built: tuple[Path, Path, str]) -> None:
    """Whoever packages restow from source needs licence, readme and the rooms."""
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "conversion/server/tls.py", "restow/main.py"} <= names


@pytest.mark.parametrize("program", ["restow", "kubectl-restow"])
def test_the_commands_run(installed: Path, program: str) -> None:
    """An entry point that cannot be imported outside of a checkout is found by the first user."""
    assert "migrate" in run(installed / program, "--help", cwd=installed)


def test_data_is_found_where_it_is_installed(installed: Path) -> None:
    """The CRDs come with the package, not from the current folder."""
    code = "from restow.crds.cloudprofiles import documents; print(len(documents()))"
    assert run(installed / "python", "-c", code, cwd=installed).strip() == "3"


def test_what_needs_an_extra_says_which(installed: Path) -> None:
    """`No module named 'cryptography'` does not tell what to install."""
    said = run(installed / "restow", "serve", "--help", cwd=installed, code=2)
    assert "pip install 'restow[operator]'" in said


def test_no_module_needs_more_than_its_extra(installed: Path) -> None:
    """The migrator, conversions and the rules of profiles work without an extra."""
    modules = ("restow.migrator", "restow.conversion", "restow.cloudprofile", "restow.crds", "restow.kube")
    run(installed / "python", "-W", "error", "-c", f"import {', '.join(modules)}", cwd=installed)
