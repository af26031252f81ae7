"""Random edits of a tree that remember what each new value was before, as a conversion's links do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from restow.conversion.explain import Steps
from tests.conversion.manifests.commented import KEYS, trees


@dataclass(eq=False)
class Cell:
    """A value under edit: a scalar, or children by name; ``source`` is its old place, None if it is new."""

    value: Any
    source: Steps | None

    @classmethod
    def of(cls, value: Any, source: Steps | None) -> Cell:
        def below(step: Any) -> Steps | None:
            return None if source is None else (*source, step)

        if isinstance(value, dict):
            return cls({name: cls.of(child, below(name)) for name, child in value.items()}, source)
        if isinstance(value, list):
            return cls([cls.of(child, below(index)) for index, child in enumerate(value)], source)
        return cls(value, source)

    @property
    def plain(self) -> Any:
        if isinstance(self.value, dict):
            return {name: child.plain for name, child in self.value.items()}
        return [child.plain for child in self.value] if isinstance(self.value, list) else self.value

    def walk(self) -> list[Cell]:
        children = (
            self.value.values() if isinstance(self.value, dict) else self.value if isinstance(self.value, list) else ()
        )
        return [self, *(cell for child in children for cell in child.walk())]


@dataclass
class Told:
    """What became of what, in full."""

    sources: dict[Steps, Steps | None] = field(default_factory=dict)
    vague: bool = False

    def note(self, cell: Cell, place: Steps = ()) -> None:
        self.sources[place] = cell.source
        children = (
            cell.value.items()
            if isinstance(cell.value, dict)
            else enumerate(cell.value)
            if isinstance(cell.value, list)
            else ()
        )
        for step, child in children:
            self.note(child, (*place, step))

    def is_untouched(self, place: Steps, old: Any, new: Any) -> bool:
        """Whether the field of the root at ``place`` is all that it was, where it was."""
        if place[0] not in new or self.vague:
            return False
        inner = {found: source for found, source in self.sources.items() if found[:1] == place}
        return json.dumps(new[place[0]]) == json.dumps(old) and all(found == source for found, source in inner.items())

    def trace(self, place: Steps) -> tuple[Steps, bool] | None:
        source = self.sources.get(place, place)
        return None if source is None else (source, not self.vague)


@st.composite
def mutated(draw: st.DrawFn, value: dict[str, Any]) -> tuple[dict[str, Any], Told]:
    """Draw another value made of this one, and what was what; at times without telling it of the items of lists."""
    root = Cell.of(value, ())
    for _ in range(draw(st.integers(1, 5))):
        _change(draw, root, ("rename", "delete", "insert", "change", "move", "swap"))
    told = Told(vague=draw(st.booleans()))
    told.note(root)
    return root.plain, told


@st.composite
def rearranged(draw: st.DrawFn, value: dict[str, Any]) -> tuple[dict[str, Any], Told]:
    """Draw a value that has all that this one has, elsewhere."""
    root = Cell.of(value, ())
    for _ in range(draw(st.integers(1, 5))):
        _change(draw, root, ("rename", "move", "swap"))
    told = Told()
    told.note(root)
    return root.plain, told


def _change(draw: Any, root: Cell, kinds: Sequence[str]) -> None:
    cells = [cell for cell in root.walk() if isinstance(cell.value, dict | list) and cell.value]
    if not cells:
        return
    cell = draw(st.sampled_from(cells))
    steps = list(cell.value) if isinstance(cell.value, dict) else list(range(len(cell.value)))
    step = draw(st.sampled_from(steps))
    child = cell.value[step]
    name = draw(st.sampled_from(KEYS))
    match draw(st.sampled_from(kinds)):
        case "rename" if isinstance(cell.value, dict) and name not in cell.value:
            cell.value[name] = cell.value.pop(step)
        case "delete" if cell is not root or len(cell.value) > 1:
            del cell.value[step]
        case "insert" if isinstance(cell.value, dict):
            cell.value.setdefault(name, Cell.of(draw(trees()), None))
        case "insert":
            cell.value.insert(step, Cell.of(draw(trees()), None))
        case "change":
            cell.value[step] = Cell(Cell.of(draw(trees()), None).value, child.source)
        case "move":
            targets = [each for each in cells if each not in child.walk() and isinstance(each.value, type(cell.value))]
            if targets and (cell is not root or len(cell.value) > 1):
                target = draw(st.sampled_from(targets))
                if isinstance(target.value, list):
                    del cell.value[step]
                    target.value.append(child)
                elif name not in target.value:
                    del cell.value[step]
                    target.value[name] = child
        case "swap" if isinstance(cell.value, list):
            other = draw(st.sampled_from(steps))
            cell.value[step], cell.value[other] = cell.value[other], cell.value[step]
