"""What the code may weigh: lines of each room, names that are exported, modules that an import loads.

Each number may only go down: whoever makes something smaller lowers it here. ``make lint`` runs these tests.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).parents[2]


class Budget(NamedTuple):
    """The most lines of a room's modules, blank ones and docstrings included, and how many there should be."""

    ceiling: int
    target: int


LINES: Final = {
    "cloudprofile": Budget(8_200, 8_200),
    "controlplane": Budget(2_720, 2_700),
    "conversion": Budget(36_240, 25_400),
    "crds": Budget(3_290, 2_900),  # 2,100, and 800 for restow diff: crddiff, schemachanges, composites, files
    "kube": Budget(5_130, 4_300),
    "migrator": Budget(17_100, 14_400),
    "restow": Budget(14_100, 9_400),
}
SLACK: Final = 100
"""How far a room may be below its ceiling before the ceiling has to follow."""

UNUSED: Final = 21
"""How many exported names only tests use."""

IMPORTS: Final = {
    "restow.cloudprofile": (5, ()),
    "restow.crds": (8, ("aiohttp", "asyncio", "msgspec", "yaml")),
    "restow.kube": (8, ("aiohttp", "asyncio", "msgspec", "yaml")),
    "restow.migrator": (8, ("aiohttp", "asyncio", "msgspec", "yaml")),
    "restow.conversion": (140, ("aiohttp", "asyncio", "ssl", "yaml", "restow.conversion.explain")),
    "restow.conversion.rulefiles": (
        195,
        ("aiohttp", "asyncio", "ssl", "restow.conversion.explain", "restow.conversion.manifests.edit"),
    ),
    "restow.migrator.decide.decision": (75, ("aiohttp", "asyncio", "ssl", "yaml")),
}
"""The most modules that an import loads, and modules that it must not load."""


@pytest.mark.parametrize("room", LINES)
def test_a_room_grows_no_further(room: str) -> None:
    """Nothing that was added was ever taken out again, until each change had to pay for its lines."""
    lines = sum(len(file.read_bytes().splitlines()) for file in (ROOT / room).rglob("*.py"))
    ceiling, target = LINES[room]
    assert lines <= ceiling, f"{room} has {lines:,} lines, {ceiling:,} is the most (target: {target:,}): delete some"
    assert target <= ceiling
    assert lines > ceiling - SLACK, f"lower the ceiling of {room}, which has {lines:,} lines"


def exports(file: Path) -> list[str]:
    """The names in ``__all__`` of a package."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=names)):
                return [each.value for each in names if isinstance(each, ast.Constant)]
    return []


def without_user() -> Iterator[tuple[str, bool]]:
    """Yield each exported name that no code or page outside its package uses, and whether a test does."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    kinds = (".py", ".md", ".toml")
    names = [name for name in listed if name.endswith(kinds) and name != "CHANGELOG.md" and (ROOT / name).exists()]
    words = {name: {*re.findall(r"\w+", (ROOT / name).read_text(encoding="utf-8"))} for name in names}
    packages = [file for room in LINES for file in sorted((ROOT / room).rglob("__init__.py*")) if file.suffix != ".pyc"]
    for file in packages:
        folder = f"{file.parent.relative_to(ROOT)}/"
        for export in exports(file):
            users = [name for name in names if not name.startswith(folder) and export in words[name]]
            if all(name.startswith("tests/") for name in users):
                yield f"{folder}: {export}", bool(users)


def test_an_exported_name_has_a_user() -> None:
    """A public name is a promise; one that nobody asked for binds whoever changes the code."""
    found = dict(without_user())
    assert [name for name, tested in found.items() if not tested] == []
    assert len(found) <= UNUSED, f"{len(found)} names are exported for tests alone:\n" + "\n".join(found)
    assert len(found) == UNUSED, f"lower UNUSED to {len(found)}"


@pytest.mark.parametrize("module", IMPORTS)
def test_an_import_loads_little(module: str) -> None:
    """A conversion does no HTTP, and whoever decides needs no event loop; each would slow every start."""
    script = f"import sys; bare = {{*sys.modules}}; import {module}; print(*(sys.modules.keys() - bare))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT.parent)
    loaded = {*ran.stdout.split()}
    most, never = IMPORTS[module]
    assert loaded.isdisjoint(never), sorted(loaded.intersection(never))
    assert len(loaded) <= most, sorted(loaded)
