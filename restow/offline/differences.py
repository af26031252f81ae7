"""The changes of a conversion as JSON pointers, found by deepdiff; for people, never on a hot path."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

import msgspec
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from restow.cli.printing import console
from restow.conversion.model.fieldpath import pointer

__all__ = ["Counting", "FieldChange", "changes"]


Kind = Literal["added", "removed", "changed"]
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field that was added, removed or changed. ``before`` is None if it was added, ``after`` if it was removed."""

    kind: Kind
    steps: tuple[str | int, ...]
    before: Any = None
    after: Any = None

    @property
    def pointer(self) -> str:
        """The place of the field as a JSON pointer."""
        return pointer(self.steps)

    def line(self, *, values: bool = True) -> str:
        """Format the change as one line: ``~ /spec/mode: "private" -> "Private"``."""
        place = f"{_SIGNS[self.kind]} {self.pointer or '/'}"
        if not values:
            return place
        told = [_json(value) for value, kind in ((self.before, "added"), (self.after, "removed")) if self.kind != kind]
        return f"{place}: {' -> '.join(told)}"

    def to_json(self, *, values: bool = True) -> dict[str, Any]:
        """Return the change as JSON."""
        shown: dict[str, Any] = {"change": self.kind, "pointer": self.pointer}
        if values and self.kind != "added":
            shown["before"] = self.before
        if values and self.kind != "removed":
            shown["after"] = self.after
        return shown


def changes(before: Any, after: Any) -> list[FieldChange]:
    """Return the changes, sorted by place."""
    from deepdiff import DeepDiff  # importing it takes as long as the rest of the start

    tree = DeepDiff(before, after, view="tree", threshold_to_diff_deeper=0)
    found = [change for kind in tree for change in _changes(kind, tree[kind])]
    return [change for _, change in sorted(found, key=lambda pair: pair[0])]


def _changes(kind: str, nodes: Any) -> Iterator[tuple[list[tuple[bool, Any]], FieldChange]]:
    for node in nodes:
        place = tuple(node.path(output_format="list"))
        order = [(isinstance(step, str), step) for step in place]
        if kind.endswith("_added"):
            yield order, FieldChange("added", place, after=node.t2)
        elif kind.endswith("_removed"):
            yield order, FieldChange("removed", place, before=node.t1)
        else:
            yield order, FieldChange("changed", place, node.t1, node.t2)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


_LINE_PERIOD = 5.0


class Counting:
    """Shows a count of objects on stderr, for one kind after the other."""

    def __init__(self) -> None:
        self._console = console(stderr=True)
        self._terminal = self._console.is_terminal
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self._console,
            auto_refresh=False,
        )
        self._bar: TaskID | None = None
        self._name = ""
        self._last = time.monotonic()

    def __enter__(self) -> Self:
        if self._terminal:
            self._bars.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._terminal:
            self._bars.stop()

    def begin(self, name: str) -> None:
        """Start with another kind."""
        self._name = name
        if self._terminal:
            self._bar = self._bars.add_task(name, total=None)

    def at(self, done: int, total: int | None) -> None:
        """Show the progress; ``total`` is None if it is unknown."""
        if self._terminal and self._bar is not None:
            self._bars.update(self._bar, completed=done, total=total)
            self._bars.refresh()
        elif time.monotonic() - self._last >= _LINE_PERIOD:
            self._last = time.monotonic()
            of = f" of {total}" if total else ""
            self._console.print(f"{self._name}: {done}{of} objects", markup=False)
