"""The modules that the pages about the code name."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("kube", "crds", "conversion", "migrator", "cloudprofile", "controlplane")
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
#: Pages that lead readers to modules, and how many they name at least.
LEADING = {"docs/architecture.md": 40}
_MODULE = re.compile(r"`(restow(?:\.[A-Za-z_]\w*)+)`")
_OTHERS = ("restow.dev", "restow.core.gardener.cloud")
"""What looks like a module, and is a domain."""


def named(page: Path) -> list[str]:
    """The modules, and names in them, that a page mentions as code."""
    return [name for name in _MODULE.findall(page.read_text(encoding="utf-8")) if not name.startswith(_OTHERS)]


def source_of(module: str) -> Path | None:
    """The file of a module, if there is one."""
    first, *rest = module.split(".")
    path = ROOT.joinpath(*rest) if rest and rest[0] in ROOMS else ROOT.joinpath(first, *rest)
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def exists(name: str) -> bool:
    """Whether a name is a module, or is defined in or exported from one."""
    if source_of(name):
        return True
    module, _, attribute = name.rpartition(".")
    source = source_of(module)
    if source is None:
        return "." in module and exists(module)  # an attribute of a class
    return attribute in words(source)


def words(source: Path) -> set[str]:
    """What a module defines, imports or exports."""
    found: set[str] = set()
    stub = source.with_suffix(".pyi")  # of a package that imports its modules when they are needed
    text = (stub if stub.exists() else source).read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Name(id=name) | ast.alias(name=name) | ast.Constant(value=str(name)):
                found.add(name)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_modules_exist(page: Path) -> None:
    """A page that names a module of an earlier release sends its readers to a file that is not there."""
    assert [name for name in named(page) if not exists(name)] == []


@pytest.mark.parametrize("page", LEADING)
def test_pages_about_the_code_name_modules(page: str) -> None:
    """A pattern that matches nothing would pass for ever."""
    assert len(named(ROOT / page)) >= LEADING[page]


def test_a_module_that_is_gone_is_noticed() -> None:
    """The check itself must tell a module from nothing."""
    assert exists("restow.migrator.decide.prune") and exists("restow.kube.connect")
    assert not exists("restow.migrator.decide.gone") and not exists("restow.kube.gone.also")


def test_the_architecture_names_every_folder_of_the_rooms() -> None:
    """A reader looks for a folder on the page about folders."""
    folders = {
        f"restow.{file.parent.relative_to(ROOT).as_posix().replace('/', '.')}"
        for room in ("migrator", "conversion", "cloudprofile")
        for file in (ROOT / room).glob("*/__init__.py")
    }
    assert folders - set(named(ROOT / "docs" / "architecture.md")) == set()
