"""The shared state of an edit: the text, its layout, the matches of values, and the anchors written so far.

Pure, except for the anchors that it records: values are written in the order of the new text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, TypeGuard

from restow.conversion.manifests import emit
from restow.conversion.manifests.document import (
    Collection,
    Layout,
    YamlAlias,
    YamlMapping,
    YamlNode,
    YamlScalar,
    YamlSequence,
    data,
    merged,
)
from restow.conversion.manifests.emit import Style
from restow.conversion.manifests.match import Matches
from restow.conversion.manifests.reader import skip_blank
from restow.conversion.model.fieldpath import Steps, value_at
from restow.conversion.model.values import ABSENT, same

_NOWHERE: Final[Steps] = ("", -1)


@dataclass(slots=True)
class Draft:
    """One document under edit. ``text`` is the text of the whole stream and ends with a line break."""

    text: str
    style: Style
    layout: Layout
    matches: Matches
    has_aliases: bool
    emitted: dict[str, Any] = field(default_factory=dict)

    def stays(self, node: YamlNode, old: Any, new: Any) -> bool:
        """Return whether a value can be copied unchanged: it is the same, and so are the values of its aliases."""
        return same(old, new) and (not self.has_aliases or self._aliases_hold(node))

    def can_say(self, alias: YamlAlias, value: Any) -> bool:
        """Return whether an unchanged alias means ``value`` in the new text."""
        return alias.name in self.emitted and same(self.emitted[alias.name], value)

    def note(self, node: YamlNode) -> None:
        """Record the anchors of a value that is copied unchanged."""
        if self.has_aliases:
            for inner in _all(node):
                self.define(inner, None if inner.anchor is None else data(inner))

    def define(self, node: YamlNode, value: Any) -> None:
        """Record the value of a node's anchor, if it has one, from here on."""
        if node.anchor is not None:
            self.emitted[node.anchor] = value

    def fits(self, node: YamlNode, new: Any) -> TypeGuard[Collection]:
        """Return whether a collection can be edited into ``new``: both have the same kind, and neither is empty."""
        if isinstance(node, YamlMapping):
            return isinstance(new, dict) and bool(new) and bool(node.entries) and not node.odd
        return isinstance(node, YamlSequence) and isinstance(new, list) and bool(new) and bool(node.items)

    def before(self, place: Steps) -> Steps:
        """Return the old place of a new value; an impossible place if it is new."""
        return self.matches.before.get(place, _NOWHERE)

    def fields(self, node: YamlMapping, new: dict[str, Any]) -> tuple[list[str], bool]:
        """Return the fields to write for a mapping, and whether its merge keys stay and provide the others."""
        sources = [entry.value for entry in node.entries if entry.merges]
        brought = merged(node)
        if not sources or not brought.keys() <= new.keys() or not all(map(self._aliases_hold, sources)):
            return list(new), False
        own = {entry.name for entry in node.entries}
        return [name for name in new if name in own or not same(brought.get(name, ABSENT), new[name])], True

    def slots(self, node: YamlMapping, names: list[str], place: Steps) -> list[list[str]]:
        """Return for each old field the new ones to write at its place, its own first; the rest comes last."""
        around = self.before(place)
        index = {(*around, entry.name): at for at, entry in enumerate(node.entries) if not entry.merges}
        slots: list[list[str]] = [[] for _ in node.entries]
        for name in names:
            below = (*place, name)
            here = index.get(self.before(below))
            if here is not None:
                slots[here].insert(0, name)
                continue
            near = self.before(below) if below in self.matches.before else self.matches.neighbours.get(below, _NOWHERE)
            slots[index.get(near[: len(around) + 1], -1)].append(name)
        return slots

    def broken(self, lines: str) -> str:
        """Return new lines with the line breaks of the document."""
        return lines if self.style.newline == "\n" else lines.replace("\n", self.style.newline)

    def _aliases_hold(self, node: YamlNode) -> bool:
        inner = list(_all(node))
        own = {id(each) for each in inner}
        return all(
            id(each.target) in own or self.can_say(each, data(each.target))
            for each in inner
            if isinstance(each, YamlAlias)
        )


def _all(node: YamlNode) -> Iterator[YamlNode]:
    """Yield a node and all nodes in it, including the values of merge keys."""
    yield node
    if isinstance(node, YamlMapping):
        for entry in node.entries:
            yield from _all(entry.value)
    elif isinstance(node, YamlSequence):
        for item in node.items:
            yield from _all(item)


def inline(draft: Draft, node: YamlNode, old: Any, new: Any, place: Steps, *, flow: bool) -> str:
    """Return the new text of a value, including its anchor. ``flow``: it is in a collection in flow style."""
    if draft.stays(node, old, new):
        draft.note(node)
        return draft.text[node.start : node.end]
    if isinstance(node, YamlAlias) and draft.can_say(node, new):
        return draft.text[node.start : node.end]
    anchor = "" if node.anchor is None else f"&{node.anchor} "
    if isinstance(node, YamlMapping) and draft.fits(node, new):
        written = _Flow(draft, node, place).mapping(old, new)
    elif draft.fits(node, new):
        written = _Flow(draft, node, place).sequence(old, new)
    elif isinstance(new, dict | list) or draft.style.json:
        written = emit.flow(new, draft.style, indent=_indent(draft, node.start) if flow else None)
    else:
        quote = node.style if isinstance(node, YamlScalar) and node.style in ("'", '"') else ""
        written = emit.scalar(new, draft.style, flow=flow, quote=quote)
    draft.define(node, new)
    return anchor + written


@dataclass(frozen=True, slots=True)
class _Part:
    """A field or item in flow style."""

    name: str | int
    key: YamlScalar | None
    node: YamlNode
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
        assert isinstance(self.node, YamlMapping)
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
        if not isinstance(self.node, YamlMapping):
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
        """Join the parts, with the old commas and line breaks between those that were neighbours before."""
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
    """Return the indentation of the line at ``position``, None if the whole document is on one line."""
    start = draft.layout.line_start(position)
    line = draft.text[start : draft.layout.line_end(position)]
    return line[: len(line) - len(line.lstrip(" \t"))] if draft.text.rstrip().count("\n") else None
