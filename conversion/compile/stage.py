"""One direction between a spoke and its hub: what all scopes of it share while code is generated.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from restow.conversion.compile.writer import Writer
from restow.conversion.path import Path, parse
from restow.conversion.rules.model import Direction, Rule, Scope, Side

__all__ = ["FROM_ROOT", "Stage", "key_names", "paths", "read_steps"]

#: How a read from the root of the object, not of the scope, begins.
FROM_ROOT: Final = "$."

#: In such a read: the item that has the keys of the item that the rule stands in.
_SAME_KEYS: Final = "[]"

#: The variable of a list item, and its key fields.
Item = tuple[str, tuple[str, ...]]


@dataclass(slots=True)
class Stage:
    """The stage under construction; ``root`` is the variable of the whole source object.

    ``items`` are the list items that the code being written stands in, outermost first.
    """

    writer: Writer
    direction: Direction
    root: str
    items: list[Item] = field(default_factory=list)
    _start: int = 0
    _depth: int = 0
    _reads: dict[Any, str] = field(default_factory=dict)

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
            if not text.startswith(FROM_ROOT):
                arguments.append(f"DIG({scope}, {parse(text)!r})")
                continue
            steps = read_steps(text)
            items = self.items[: len(steps) - 1]
            name = self._read_once(steps, tuple(keys for _, keys in items))
            found = "".join(f"({item}, {keys!r}), " for item, keys in items)
            arguments.append(f"FOUND({name}, ({found}))" if items else name)
        return "".join(f", {argument}" for argument in arguments)

    def _read_once(self, steps: tuple[Path, ...], keys: tuple[tuple[str, ...], ...]) -> str:
        if (steps, keys) not in self._reads:
            name = self._reads[steps, keys] = self.writer.fresh("read")
            read = f"INDEXED({self.root}, {steps!r}, {keys!r})" if keys else f"DIG({self.root}, {steps[0]!r})"
            self.writer.insert(self._start, f"{name} = {read}", self._depth)
        return self._reads[steps, keys]


def paths(rule: Rule, side: Side) -> tuple[Path, ...]:
    """Return the parsed claims of a rule."""
    return tuple(parse(text) for text in rule.claims(side))


def read_steps(text: str) -> tuple[Path, ...]:
    """Return the paths of a read from the root: to a list, from its item on, and so on.

    Raises:
        PathError: the text is no path.
    """
    first, *others = text.removeprefix(FROM_ROOT).split(_SAME_KEYS)
    return (parse(first), *(parse(other) if other else () for other in others))


def key_names(scope: Scope, side: Side) -> tuple[str, ...]:
    """Return the fields that identify an item, by their names on that side: only a rename may touch them."""
    keys = scope.keys or ()
    if side == "hub":
        return keys
    renamed = {parse(rule.hub[0])[-1]: parse(rule.spoke[0])[-1] for rule in scope.rules if rule.name == "rename"}
    return tuple(renamed.get(key, key) for key in keys)
