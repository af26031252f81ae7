"""The names of public classes: each means one thing in the whole product."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("kube", "crds", "conversion", "migrator", "cloudprofile", "controlplane", "restow")


def classes() -> dict[str, list[str]]:
    """The files that define a public class, by the name of the class."""
    found: dict[str, list[str]] = defaultdict(list)
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(str(file.relative_to(ROOT)))
    return found


def test_a_class_name_means_one_thing() -> None:
    """Two classes of one name make a reader of an import, a traceback or a log look at the wrong one."""
    assert {name: files for name, files in classes().items() if len(files) > 1} == {}


def test_the_classes_are_found() -> None:
    """A room that was renamed would leave the test without a class to look at."""
    files = [file for of_name in classes().values() for file in of_name]
    assert all(any(file.startswith(f"{room}/") for file in files) for room in ROOMS)
    assert len(files) > 300
