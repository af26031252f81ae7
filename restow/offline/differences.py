"""What a conversion changed, as JSON pointers, told by deepdiff: for people, never on a hot path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from restow.conversion.path import pointer

__all__ = ["Change", "changes"]

Kind = Literal["added", "removed", "changed"]
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


@dataclass(frozen=True, slots=True)
class Change:
    """One field that is new, gone, or other than before. ``before`` and ``after`` are None where there is none."""

    kind: Kind
    steps: tuple[str | int, ...]
    before: Any = None
    after: Any = None

    @property
    def pointer(self) -> str:
        """The place as a JSON pointer."""
        return pointer(self.steps)

    def line(self, *, values: bool = True) -> str:
        """Write it on one line: ``~ /spec/mode: "private" -> "Private"``."""
        place = f"{_SIGNS[self.kind]} {self.pointer or '/'}"
        if not values:
            return place
        told = [_json(value) for value, kind in ((self.before, "added"), (self.after, "removed")) if self.kind != kind]
        return f"{place}: {' -> '.join(told)}"

    def to_json(self, *, values: bool = True) -> dict[str, Any]:
        """Return it for a program."""
        shown: dict[str, Any] = {"change": self.kind, "pointer": self.pointer}
        if values and self.kind != "added":
            shown["before"] = self.before
        if values and self.kind != "removed":
            shown["after"] = self.after
        return shown


def changes(before: Any, after: Any) -> list[Change]:
    """Return what differs, in the order of the places."""
    from deepdiff import DeepDiff  # costs as much as the rest of the start

    tree = DeepDiff(before, after, view="tree", threshold_to_diff_deeper=0)
    found = [change for kind in tree for change in _changes(kind, tree[kind])]
    return [change for _, change in sorted(found, key=lambda pair: pair[0])]


def _changes(kind: str, nodes: Any) -> Iterator[tuple[list[tuple[bool, Any]], Change]]:
    for node in nodes:
        place = tuple(node.path(output_format="list"))
        order = [(isinstance(step, str), step) for step in place]
        if kind.endswith("_added"):
            yield order, Change("added", place, after=node.t2)
        elif kind.endswith("_removed"):
            yield order, Change("removed", place, before=node.t1)
        else:
            yield order, Change("changed", place, node.t1, node.t2)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
