"""A kind of rule owns its behaviour: other modules call its methods, and do not ask for its type."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ROOMS: Final = ("conversion", "migrator", "cloudprofile", "restow")
KINDS: Final = frozenset(
    (
        "Rule",
        "Move",
        "Lens",
        "Constant",
        "Default",
        "Waiver",
        "Private",
        "ScopedRules",
        "RuleGroup",
        "When",
        "Implied",
        "NoRule",
    )
)

CEILING: Final = 0
"""How many type tests there are. The number may only go down: whoever removes some lowers it here."""


def classes(node: ast.AST) -> frozenset[str]:
    """Return the classes for which a node asks: ``isinstance(rule, Move | Lens)``, or ``case Move():``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
        return frozenset(each.id for each in ast.walk(node.args[1]) if isinstance(each, ast.Name))
    return frozenset((node.cls.id,) if isinstance(node, ast.MatchClass) and isinstance(node.cls, ast.Name) else ())


def type_tests(file: Path) -> Iterator[int]:
    """Yield the lines of a file that ask for a kind of rule which the file does not define itself."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    own = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    for node in ast.walk(tree):
        if classes(node) & (KINDS - own):
            yield getattr(node, "lineno", 0)


def test_no_module_asks_for_one_more_kind_of_rule() -> None:
    """Each type test is a place that a new kind of rule needs too, and that its author may overlook."""
    files = [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))]
    found = [f"{file.relative_to(ROOT)}:{line}" for file in files for line in type_tests(file)]
    assert len(found) <= CEILING, f"{len(found)} type tests: give the class of the rule a method\n" + "\n".join(found)
    assert len(found) == CEILING, f"lower CEILING to {len(found)}"


def test_type_tests_are_found(tmp_path: Path) -> None:
    """A search that overlooks a form of type test would let it come back."""
    file = tmp_path / "some.py"
    file.write_text(
        "class When: ...\n"
        "isinstance(rule, Move)\n"
        "isinstance(rule, int | Lens)\n"
        "isinstance(rule, (Default, str))\n"
        "isinstance(rule, When)\n"
        "isinstance(rule, str)\n"
        "match rule:\n    case Private() | Constant():\n        pass\n    case str():\n        pass\n"
    )
    assert sorted(type_tests(file)) == [2, 3, 4, 8, 8]
