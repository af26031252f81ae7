"""One direction between a spoke and its hub: what all scopes of it share while code is generated.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from restow.conversion.compile.writer import Writer
from restow.conversion.path import Path, parse
from restow.conversion.rules.model import Direction, Rule, Scope, Side

__all__ = ["FROM_ROOT", "Stage", "key_names", "paths"]

#: How a read from the root of the object, not of the scope, begins.
FROM_ROOT: Final = "$."


@dataclass(slots=True)
class Stage:
    """The stage under construction; `root` is the variable of the whole source object."""

    writer: Writer
    direction: Direction
    root: str
    _start: int = 0
    _depth: int = 0
    _reads: dict[Path, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._start, self._depth = self.writer.position(), self.writer.depth

    @property
    def source_side(self) -> Side:
        """The side that is read."""
        return "spoke" if self.direction == "up" else "hub"

    @property
    def target_side(self) -> Side:
        """The side that is written."""
        return "hub" if self.direction == "up" else "spoke"

    def reads(self, texts: Sequence[str], scope: str) -> str:
        """Return the further arguments of an author's function, as code; reads from the root are made once."""
        if self.direction == "up":
            return ""
        arguments = []
        for text in texts:
            if text.startswith(FROM_ROOT):
                arguments.append(self._read_once(parse(text.removeprefix(FROM_ROOT))))
            else:
                arguments.append(f"DIG({scope}, {parse(text)!r})")
        return "".join(f", {argument}" for argument in arguments)

    def _read_once(self, path: Path) -> str:
        if path not in self._reads:
            name = self._reads[path] = self.writer.fresh("read")
            self.writer.insert(self._start, f"{name} = DIG({self.root}, {path!r})", self._depth)
        return self._reads[path]


def paths(rule: Rule, side: Side) -> tuple[Path, ...]:
    """Return the parsed claims of a rule."""
    return tuple(parse(text) for text in rule.claims(side))


def key_names(scope: Scope, side: Side) -> tuple[str, ...]:
    """Return the fields that identify an item, by their names on that side: only a rename may touch them."""
    keys = scope.keys or ()
    if side == "hub":
        return keys
    renamed = {parse(rule.hub[0])[-1]: parse(rule.spoke[0])[-1] for rule in scope.rules if rule.name == "rename"}
    return tuple(renamed.get(key, key) for key in keys)
