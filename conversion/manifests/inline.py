"""Writes values that stand on the line of their key: scalars, aliases, and collections in flow style.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from restow.conversion.explain.model import Steps, value_at
from restow.conversion.manifests import emit
from restow.conversion.manifests.draft import Draft
from restow.conversion.manifests.nodes import Alias, Collection, Mapping, Node, Scalar
from restow.conversion.manifests.reader import skip_blank

__all__ = ["inline"]


def inline(draft: Draft, node: Node, old: Any, new: Any, place: Steps, *, flow: bool) -> str:
    """Return the new text of a value, anchor included. ``flow`` says that it stands in a collection in flow style."""
    if draft.stays(node, old, new):
        draft.note(node)
        return draft.text[node.start : node.end]
    if isinstance(node, Alias) and draft.can_say(node, new):
        return draft.text[node.start : node.end]
    anchor = "" if node.anchor is None else f"&{node.anchor} "
    if isinstance(node, Mapping) and draft.fits(node, new):
        written = _Flow(draft, node, place).mapping(old, new)
    elif draft.fits(node, new):
        written = _Flow(draft, node, place).sequence(old, new)
    elif isinstance(new, dict | list) or draft.style.json:
        written = emit.flow(new, draft.style, indent=_indent(draft, node.start) if flow else None)
    else:
        quote = node.style if isinstance(node, Scalar) and node.style in ("'", '"') else ""
        written = emit.scalar(new, draft.style, flow=flow, quote=quote)
    draft.define(node, new)
    return anchor + written


@dataclass(frozen=True, slots=True)
class _Part:
    """A field or item in flow style."""

    name: str | int
    key: Scalar | None
    node: Node
    start: int
    end: int
    merges: bool = False


@dataclass(slots=True)
class _Flow:
    draft: Draft
    node: Collection
    place: Steps

    def mapping(self, old: Any, new: Any) -> str:
        """Write an object."""
        assert isinstance(self.node, Mapping)
        names, keeps_merges = self.draft.fields(self.node, new)
        slots = self.draft.slots(self.node, names, self.place)
        parts = list(self._parts())
        written: list[tuple[str, int | None]] = []
        for at, part in enumerate(parts):
            if part.merges and keeps_merges:
                self.draft.note(part.node)
                written.append((self.draft.text[part.start : part.end], at))
            for name in slots[at]:
                below = (*self.place, name)
                if self.draft.before(below) == (*self.draft.before(self.place), part.name) and not part.merges:
                    written.append((self._field(part, value_at(old, (part.name,)), new[name], below), at))
                else:
                    written.append((self._new_field(parts[0], name, new[name]), None))
        return self._joined(parts, written)

    def sequence(self, old: Any, new: Any) -> str:
        """Write a list."""
        parts = list(self._parts())
        around = self.draft.before(self.place)
        index = {(*around, part.name): at for at, part in enumerate(parts)}
        written: list[tuple[str, int | None]] = []
        for item, value in enumerate(new):
            below = (*self.place, item)
            at = index.get(self.draft.before(below))
            if at is None:
                written.append((self._new(parts[0], value), None))
            else:
                part = parts[at]
                text = inline(self.draft, part.node, value_at(old, (at,)), value, below, flow=True)
                written.append((text, at))
        return self._joined(parts, written)

    def _parts(self) -> Iterator[_Part]:
        if not isinstance(self.node, Mapping):
            for number, item in enumerate(self.node.items):
                yield _Part(number, None, item, item.start, item.end)
            return
        for entry in self.node.entries:
            end = entry.value.end
            if entry.value.start == end:
                colon = skip_blank(self.draft.text, entry.key.end)
                end = colon + 1 if self.draft.text[colon] == ":" else entry.key.end
            yield _Part(entry.name, entry.key, entry.value, entry.key.start, end, entry.merges)

    def _field(self, part: _Part, old: Any, new: Any, place: Steps) -> str:
        assert part.key is not None
        text, name = self.draft.text, str(place[-1])
        key = text[part.start : part.key.end] if name == part.name else self._key(name)
        if self.draft.stays(part.node, old, new):
            self.draft.note(part.node)
            return key + text[part.key.end : part.end]
        between = text[part.key.end : part.node.start] if part.node.end > part.node.start else ": "
        return key + between + inline(self.draft, part.node, old, new, place, flow=True)

    def _new_field(self, like: _Part, name: str, value: Any) -> str:
        assert like.key is not None
        between = self.draft.text[like.key.end : like.node.start] if like.node.end > like.node.start else ": "
        return self._key(name) + (between if not between.strip(" :") else ": ") + self._new(like, value)

    def _new(self, like: _Part, value: Any) -> str:
        indent = _indent(self.draft, like.start)
        return self.draft.broken(emit.flow(value, self.draft.style, indent=indent))

    def _key(self, name: str) -> str:
        return emit.flow(name, self.draft.style)

    def _joined(self, parts: list[_Part], written: list[tuple[str, int | None]]) -> str:
        """Put the parts together, with the old commas and line breaks between those that were neighbours before."""
        text = self.draft.text
        prefix, suffix = text[self.node.inner : parts[0].start], text[parts[-1].end : self.node.end]
        separators = [text[left.end : right.start] for left, right in pairwise(parts)]
        usual = separators[0] if separators else "," + (prefix[1:] if "\n" in prefix else " ")
        if "#" in usual:
            usual = ", "
        joined, last = [prefix], -2
        for number, (piece, at) in enumerate(written):
            if number:
                joined.append(separators[last] if at is not None and at == last + 1 and last >= 0 else usual)
            joined.append(piece)
            last = -2 if at is None else at
        return "".join((*joined, suffix))


def _indent(draft: Draft, position: int) -> str | None:
    """Return the indentation of the line at ``position``, None if the whole document stands on one line."""
    start = draft.layout.line_start(position)
    line = draft.text[start : draft.layout.line_end(position)]
    return line[: len(line) - len(line.lstrip(" \t"))] if draft.text.rstrip().count("\n") else None
