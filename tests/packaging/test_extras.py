"""Dependencies: the core is enough for the libraries, each extra for what it is for, and every one of them is used."""

from __future__ import annotations

import ast
import sys
import tomllib
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.conftest import ROOT, Installed, run

#: What a module needs besides the core, by the longest prefix of its name.
NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "restow": ("cli",),
    "restow.cloudprofile": (),
    "restow.cloudprofile.admission": ("operator",),
    "restow.cloudprofile.controllers": ("operator",),
    "restow.cloudprofile.management": ("models",),
    "restow.commands.operator": ("cli", "operator"),
    "restow.commands.report": ("cli", "report"),
    "restow.commands.serve": ("cli", "operator"),
    "restow.controlplane": (),
    "restow.controlplane.users": ("controlplane",),
    "restow.controlplane.plane": ("controlplane",),
    "restow.controlplane.pytest_plugin": ("controlplane", "testing"),
    "restow.conversion": (),
    "restow.conversion.certificates": ("operator",),
    "restow.conversion.operate": ("operator",),
    "restow.conversion.operate.gates": (),
    "restow.conversion.operate.overview": (),
    "restow.conversion.operate.revisions": (),
    "restow.conversion.server": ("operator",),
    "restow.conversion.testing": ("testing",),
    "restow.conversion.rules.cel": ("cel",),
    "restow.conversion.rules.typed": ("models",),
    "restow.crds": (),
    "restow.kube": (),
    "restow.migrator": (),
    "restow.migrator.operate.metrics": ("operator",),
    "restow.migrator.timeline": ("models",),
    "restow.operator": ("cli", "operator"),
    "restow.webhook.authority": ("cli", "operator"),
    "restow.rbac": (),
    "restow.report": ("report",),
    "restow.scripts": (),
    "restow.upgrade": ("cli",),
    "restow.upgrade.objects": ("cli", "operator"),
    "restow.upgrade.rehearsal": ("cli", "operator"),
    "restow.webhook.local": ("operator",),
    "restow.webhook.pytest_plugin": ("testing",),
    "restow.webhook.serving": ("cli", "operator"),
    "restow.webhook.testing": ("operator",),
}
#: What is installed for its entry point, which no module imports.
PLUGINS: Final = {"pytest-asyncio": "pytest runs tests that are coroutine functions by it"}
#: What is part of another library's public interface, and comes with it.
PARTS: Final = {"multidict": "aiohttp", "yarl": "aiohttp", "markupsafe": "jinja2"}
LOADS: Final = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
"""

pytestmark = pytest.mark.timeout(600)


def needs(module: str) -> tuple[str, ...]:
    """The extras of a module."""
    return NEEDS[_prefix(module)]


def _prefix(module: str) -> str:
    return max((each for each in NEEDS if f"{module}.".startswith(f"{each}.")), key=len)


@cache
def sources(wheel: Path) -> dict[str, str]:
    """The text of each module of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        files = [each for each in archive.namelist() if each.endswith(".py")]
        texts = {each: archive.read(each).decode() for each in files}
    return {name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): text for name, text in texts.items()}


def imported(source: str) -> set[str]:
    """The distributions that a module imports, at its top or where it needs them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module.partition(".")[0])
    others = found - sys.stdlib_module_names - {"restow"}
    names = {canonicalize_name(each) for name in others for each in distributions().get(name, [name])}
    return {PARTS.get(name, name) for name in names}


@cache
def distributions() -> Mapping[str, list[str]]:
    """The distributions of each importable name."""
    return packages_distributions()


@cache
def declared() -> dict[str, frozenset[str]]:
    """The distributions of each extra, without those that it includes by another extra; the core's are under ''."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = {"": project["dependencies"], **project["optional-dependencies"]}
    return {
        extra: frozenset(canonicalize_name(Requirement(each).name) for each in lines) - {"restow"}
        for extra, lines in listed.items()
    }


def allowed(extras: tuple[str, ...]) -> set[str]:
    """The distributions that somebody has who installed these extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    found, waiting = set(declared()[""]), list(extras)
    while waiting:
        extra = waiting.pop()
        found |= declared()[extra]
        waiting += [more for each in map(Requirement, project[extra]) if each.name == "restow" for more in each.extras]
    return found


def together(modules: Iterator[str] | list[str]) -> dict[tuple[str, ...], list[str]]:
    """Modules by the extras that they need."""
    found: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for module in modules:
        found[needs(module)].append(module)
    return found


def test_the_table_names_what_there_is(built: tuple[Path, Path, str]) -> None:
    """A row for a module that was renamed would let the module under its new name need more than it may."""
    modules = sources(built[0])
    assert {prefix for prefix in NEEDS if prefix not in modules} == set()
    assert {extra for extras in NEEDS.values() for extra in extras} == set(declared()) - {""}


@pytest.mark.parametrize("extras", sorted(set(NEEDS.values())), ids=lambda extras: "+".join(extras) or "core")
def test_every_module_needs_no_more_than_its_extra(
    built: tuple[Path, Path, str], installed: Installed, extras: tuple[str, ...]
) -> None:
    """A module that imports a library of another extra fails for whoever installed only its own."""
    modules = together(list(sources(built[0])))[extras]
    python = installed(*extras) / "python"
    run(python, "-W", "error", "-c", LOADS, *modules, cwd=python.parent)


def test_imports_in_functions_need_no_more_either(built: tuple[Path, Path, str]) -> None:
    """What is imported late fails late, in front of the user."""
    missing = {
        (module, each)
        for module, source in sources(built[0]).items()
        for each in imported(source) - allowed(needs(module))
    }
    assert missing == set()


@pytest.mark.parametrize("extra", sorted(declared()), ids=lambda extra: extra or "core")
def test_every_dependency_is_imported(built: tuple[Path, Path, str], extra: str) -> None:
    """A library that nothing imports costs everybody its size and its advisories."""
    asks = [source for module, source in sources(built[0]).items() if extra in needs(module) or not extra]
    used = {each for source in asks for each in imported(source)}
    assert declared()[extra] - used - PLUGINS.keys() == set()


def test_the_core_is_what_the_libraries_import(built: tuple[Path, Path, str]) -> None:
    """An embedder of the client, the migrator or conversions pays for nothing else."""
    rooms = ("restow.kube", "restow.crds", "restow.migrator", "restow.conversion")
    used = {
        each
        for module, source in sources(built[0]).items()
        if module.startswith(rooms) and not needs(module)
        for each in imported(source)
    }
    assert used == declared()[""]


@pytest.mark.parametrize("program", ["restow", "kubectl-restow"])
def test_without_the_command_line_a_script_says_what_to_install(installed: Installed, program: str) -> None:
    """A traceback about click does not tell an embedder who tries the command what to install."""
    folder = installed()
    said = run(folder / program, "--help", cwd=folder, code=2)
    assert said == "restow: the command line needs click: pip install 'restow[cli]'\n"


def test_without_the_command_line_kubectl_is_offered_nothing(installed: Installed) -> None:
    """Whatever it printed would be written into the line that is being typed."""
    folder = installed()
    assert run(folder / "kubectl_complete-restow", "", cwd=folder) == ""


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["serve", "--cert", "c", "--key", "k"], "operator"),
        (["operator", "--own-ca", "a/b"], "operator"),
        (["report", "--all", "-o", "-"], "report"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else value,
)
def test_a_command_that_needs_another_extra_says_which(installed: Installed, arguments: list[str], extra: str) -> None:
    """`No module named 'jinja2'` does not tell what to install."""
    folder = installed("cli")
    said = run(folder / "restow", *arguments, cwd=folder, code=2)
    assert said.startswith(f"restow: restow {arguments[0]} needs ")
    assert said.endswith(f": pip install 'restow[{extra}]'\n")
    assert said.count("\n") == 1


def test_the_extra_for_tests_runs_coroutine_functions(installed: Installed, tmp_path: Path) -> None:
    """A test of an API server is one; without a plugin pytest fails it."""
    folder = installed("testing")
    (tmp_path / "test_it.py").write_text("async def test_it():\n    assert True\n")
    said = run(folder / "python", "-m", "pytest", "-o", "asyncio_mode=auto", "test_it.py", cwd=tmp_path)
    assert "1 passed" in said
