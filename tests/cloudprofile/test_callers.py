"""A check that every rule has a caller, because a rule that only tests reach never applies to a request.

The call graph is read from the sources. A function or class reaches the names in its body, by imports and their
aliases. Code that runs on import reaches from the start, and so does the application, which uses the family. A method
counts as reached with its class if its name is used anywhere.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "restow.cloudprofile"
FAMILY, APPLICATION = ROOT / "cloudprofile", ROOT / "restow"

Name = tuple[str, str]
"""A module and a definition in it."""

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass
class Module:
    """One source: its definitions, its imports from the family, and the code that runs on import."""

    name: str
    tree: ast.Module
    definitions: dict[str, ast.stmt] = field(default_factory=dict)
    imports: dict[str, Name] = field(default_factory=dict)

    @classmethod
    def read(cls, name: str, text: str) -> Module:
        """Read a source."""
        made = cls(name, ast.parse(text))
        made.definitions = {each.name: each for each in made.tree.body if isinstance(each, _DEFINITIONS)}
        for node in ast.walk(made.tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
                for alias in node.names:
                    made.imports[alias.asname or alias.name] = (node.module or "", alias.name)
        return made

    def on_import(self) -> Iterator[ast.AST]:
        """Yield the code that runs when the module is imported: statements, decorators, defaults."""
        for each in self.tree.body:
            if isinstance(each, _DEFINITIONS):
                yield from each.decorator_list
                if any(map(_registers, each.decorator_list)):
                    yield each
            elif not isinstance(each, ast.Import | ast.ImportFrom) and not _is_all(each):
                yield each


def _registers(decorator: ast.expr) -> bool:
    """Return whether a decorator passes a function to an object, like ``@registry.kind(...)``, which may call it."""
    called = decorator.func if isinstance(decorator, ast.Call) else None
    return isinstance(called, ast.Attribute) and not (
        isinstance(called.value, ast.Name) and called.value.id == "functools"
    )


def _is_all(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(each, ast.Name) and each.id == "__all__" for each in node.targets
    )


class CallGraph:
    """The definitions that each definition reaches."""

    def __init__(self, modules: list[Module]) -> None:
        self._modules = {module.name: module for module in modules}

    def reached(self, roots: list[Module]) -> set[Name]:
        """Return the definitions that the family's imports and the roots reach."""
        waiting = [name for module in roots for name in self._named(module, [module.tree])]
        waiting += [name for module in self._modules.values() for name in self._named(module, module.on_import())]
        found: set[Name] = set()
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                module = self._modules[name[0]]
                waiting += self._named(module, [module.definitions[name[1]]])
        return found

    def _named(self, module: Module, nodes: Iterator[ast.AST] | list[ast.AST]) -> list[Name]:
        found = []
        for node in (inner for each in nodes for inner in ast.walk(each)):
            if isinstance(node, ast.Name):
                found.append(self._resolved(module, node.id))
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                found.append(self._attribute(module, node.value.id, node.attr))
        return [each for each in found if each is not None]

    def _resolved(self, module: Module, name: str) -> Name | None:
        if name in module.definitions and module.name in self._modules:
            return module.name, name
        if name not in module.imports:
            return None
        source, original = module.imports[name]
        found = self._modules.get(source)
        return None if found is None else self._resolved(found, original)

    def _attribute(self, module: Module, name: str, attribute: str) -> Name | None:
        """Resolve ``semver.parse``, where ``semver`` is an imported module."""
        if name not in module.imports:
            return None
        source, original = module.imports[name]
        found = self._modules.get(f"{source}.{original}")
        return None if found is None else self._resolved(found, attribute)


def family() -> list[Module]:
    return [Module.read(_dotted(path), path.read_text()) for path in sorted(FAMILY.rglob("*.py"))]


def application() -> list[Module]:
    return [Module.read(f"restow.{path.stem}", path.read_text()) for path in sorted(APPLICATION.rglob("*.py"))]


def _dotted(path: Path) -> str:
    parts = path.relative_to(FAMILY).with_suffix("").parts
    return ".".join([PACKAGE, *(part for part in parts if part != "__init__")])


def unreached(modules: list[Module], roots: list[Module]) -> list[str]:
    """Return the public functions, classes and methods that only tests reach."""
    reached = CallGraph(modules).reached(roots)
    used = {
        node.attr for module in (*modules, *roots) for node in ast.walk(module.tree) if isinstance(node, ast.Attribute)
    }
    found = []
    for module in modules:
        for name, definition in module.definitions.items():
            if not name.startswith("_") and (module.name, name) not in reached:
                found.append(f"{module.name}.{name}")
            if isinstance(definition, ast.ClassDef) and not name.startswith("_"):
                methods = [each.name for each in definition.body if isinstance(each, _DEFINITIONS)]
                found += [
                    f"{module.name}.{name}.{each}" for each in methods if not each.startswith("_") and each not in used
                ]
    return found


def test_no_rule_is_without_a_caller() -> None:
    """A rule would be tested at length and never apply to a request."""
    assert list(unreached(family(), application())) == []


def test_the_check_finds_what_only_tests_reach() -> None:
    """The check would pass whatever the sources contain."""
    rules = Module.read(
        f"{PACKAGE}.rules",
        "def used(): return _inner()\ndef _inner(): return helper()\ndef helper(): ...\n"
        "def forgotten(): return only_by_forgotten()\ndef only_by_forgotten(): ...\n"
        "class Kept:\n    def called(self): ...\n    def left(self): ...\n",
    )
    user = Module.read(
        "restow.main", f"from {PACKAGE} import rules\nfrom {PACKAGE}.rules import Kept\nrules.used()\nKept().called()\n"
    )
    assert unreached([rules], [user]) == [
        f"{PACKAGE}.rules.forgotten",
        f"{PACKAGE}.rules.only_by_forgotten",
        f"{PACKAGE}.rules.Kept.left",
    ]
