"""The changes of a conversion as JSON pointers, found by deepdiff; for people, never on a hot path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from restow.conversion.model.fieldpath import pointer

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
