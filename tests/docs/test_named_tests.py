"""The tests that the documentation names as evidence exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
_EXAMPLES = re.compile(r"<!-- file: (\S+)")
_NAMED = re.compile(r"`((?:tests/[\w/]+/|…)?(?:test_\w+\.py)?)(?:::(test_\w+))?`")


@cache
def functions_of(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def named(page: Path) -> list[tuple[Path, str | None]]:
    """The files and tests that a page names; a file without a folder is in tests/apiserver/, ``…`` is the last one.

    A file that the page has its readers write is none of them.
    """
    found: list[tuple[Path, str | None]] = []
    text = page.read_text()
    examples = set(_EXAMPLES.findall(text))
    for path, test in _NAMED.findall(text):
        if path == "…":
            found.append((found[-1][0], test or None))
        elif path.endswith(".py") and path not in examples:
            file = ROOT / path if path.startswith("tests/") else ROOT / "tests" / "apiserver" / path
            found.append((file, test or None))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_named_tests_exist(page: Path) -> None:
    """Evidence that was renamed away is a claim that nothing shows any more."""
    for file, test in named(page):
        assert file.is_file(), f"{page.name} names {file}"
        assert test is None or test in functions_of(file), f"{page.name} names {file.name}::{test}"


def test_something_is_named() -> None:
    """A pattern that matches nothing would pass for ever."""
    assert len(named(ROOT / "docs" / "explanation.md")) > 20
    assert len(named(ROOT / "docs" / "security.md")) > 20
