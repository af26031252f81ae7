"""Wheel and sdist: all that is in the rooms, and it runs where there is no checkout."""

from __future__ import annotations

import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.packaging.conftest import ROOT, Installed, run

ROOMS = ("restow", "cloudprofile", "controlplane", "conversion", "crds", "kube", "migrator")

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def programs(installed: Installed) -> Path:
    """The folder of programs of a new environment into which the wheel was installed with the command line."""
    return installed("cli")


def packages() -> dict[str, Path]:
    """All packages of the rooms, and where they are."""
    found = {}
    for room in ROOMS:
        for marker in (ROOT / room).rglob("__init__.py"):
            inside = marker.parent.relative_to(ROOT).parts
            found[".".join(inside if room == "restow" else ("restow", *inside))] = marker.parent
    return found


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
    assert not {name for name in names if name.startswith(("tests", "benchmarks", "demo", "hack", "restow/demo"))}


def test_the_sdist_has_what_a_distribution_needs(built: tuple[Path, Path, str]) -> None:
    """Whoever packages restow from source needs licence, readme and the rooms."""
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "pyproject.toml", "conversion/server/tls.py", "restow/main.py"} <= names


@pytest.mark.parametrize("program", ["restow", "kubectl-restow"])
def test_the_commands_run(programs: Path, program: str) -> None:
    """An entry point that cannot be imported outside of a checkout is found by the first user."""
    assert "migrate" in run(programs / program, "--help", cwd=programs)


def test_data_is_found_where_it_is_installed(programs: Path) -> None:
    """The CRDs come with the package, not from the current folder."""
    code = "from restow.crds.cloudprofiles import documents; print(len(documents()))"
    assert run(programs / "python", "-c", code, cwd=programs).strip() == "3"
