"""Edits a document into its new data: lines of collections in block style, and values on one line.

Old and new values are matched first. Where no rule relates the items of a list, they match by their content: equal
items first, then objects that agree in most of their fields, then the rest in order. Fields and items keep the comments
that belong to them.

Pure, except for the anchors that a ``Draft`` records: values are written in the order of the new text.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, Protocol, TypeGuard

from restow.conversion.manifests import emit
from restow.conversion.manifests.document import (
    Child,
    Collection,
    Layout,
    YamlAlias,
    YamlMapping,
    YamlNode,
    YamlScalar,
    YamlSequence,
    data,
    is_block,
    merged,
    skip_blank,
)
from restow.conversion.manifests.emit import Style, style_of
from restow.conversion.model.fieldpath import Steps, value_at
from restow.conversion.model.values import ABSENT, canonical, same

#: The most pairs to compare; with more, the remaining items are paired in order.
_MOST_PAIRS: Final = 20_000


def align(old: Sequence[Any], new: Sequence[Any], *, taken: Container[int] = ()) -> list[int | None]:
    """Return for each new item the index of its old one or None; each old one, except ``taken``, is used once."""
    free = [index for index in range(len(old)) if index not in taken]
    found: list[int | None] = [None] * len(new)
    by_text: dict[bytes, deque[int]] = defaultdict(deque)
    for index in free:
        by_text[canonical(old[index])].append(index)
    for position, item in enumerate(new):
        same_ones = by_text.get(canonical(item))
        if same_ones:
            found[position] = same_ones.popleft()
    free = [index for index in free if index not in set(found)]
    left = [position for position, index in enumerate(found) if index is None]
    for position, index in _alike(old, new, free, left):
        found[position] = index
        free.remove(index)
        left.remove(position)
    if len(free) == len(left):
        for position, index in zip(left, free, strict=True):
            found[position] = index
    return found


def _alike(old: Sequence[Any], new: Sequence[Any], free: Sequence[int], left: Sequence[int]) -> list[tuple[int, int]]:
    if len(free) * len(left) > _MOST_PAIRS:
        return []
    scored = sorted(
        (-_likeness(old[index], new[position]), abs(index - position), position, index)
        for index in free
        for position in left
    )
    positions: set[int] = set()
    indices: set[int] = set()
    pairs = []
    for score, _, position, index in scored:
        if score < 0 and position not in positions and index not in indices:
            positions.add(position)
            indices.add(index)
            pairs.append((position, index))
    return pairs


def _likeness(old: Any, new: Any) -> float:
    """Return the share of fields that two objects have in common."""
    if not isinstance(old, dict) or not isinstance(new, dict) or not old or not new:
        return 0.0
    return sum(name in new and same(value, new[name]) for name, value in old.items()) / max(len(old), len(new))


class Tracing(Protocol):
    """The interface of ``restow.conversion.explain.FieldLinks``."""

    def trace(self, place: Steps) -> tuple[Steps, bool] | None:
        """Return the old place, and whether positions in lists are reliable; None if there was none."""
        ...


@dataclass(slots=True)
class Matches:
    """``before`` has the old place of each new field that has one of its own; ``after`` is its inverse.

    ``neighbours`` has the old place near which a new field without one belongs.
    """

    before: dict[Steps, Steps] = field(default_factory=dict)
    after: dict[Steps, Steps] = field(default_factory=dict)
    neighbours: dict[Steps, Steps] = field(default_factory=dict)

    def pair(self, new: Steps, old: Steps) -> None:
        """Record a match; the first new place that claims an old place gets it."""
        if new in self.before:
            return
        if old in self.after:
            self.neighbours.setdefault(new, old)
            return
        self.before[new] = old
        self.after[old] = new


def places(node: YamlNode, place: Steps = ()) -> Iterator[tuple[Steps, YamlNode]]:
    """Yield all values that are written out in a document with their places, without those of aliases and merges."""
    yield place, node
    if isinstance(node, YamlMapping):
        for entry in node.entries:
            if not entry.merges:
                yield from places(entry.value, (*place, entry.name))
    elif isinstance(node, YamlSequence):
        for index, item in enumerate(node.items):
            yield from places(item, (*place, index))


def match(nodes: dict[Steps, YamlNode], old: Any, new: Any, links: Tracing) -> Matches:
    """Match a document's ``nodes``, whose data is ``old``, with its new data."""
    found = Matches()
    found.pair((), ())
    matcher = _Matcher(nodes, links, found)
    matcher.in_place(new, ())
    matcher.elsewhere(old, new, ())
    return found


@dataclass(slots=True)
class _Matcher:
    nodes: dict[Steps, YamlNode]
    links: Tracing
    found: Matches

    def in_place(self, new: Any, place: Steps) -> None:
        """Match the values that stay in place, so that no other value takes their lines."""
        children = new.items() if isinstance(new, dict) else enumerate(new) if isinstance(new, list) else ()
        for step, child in children:
            below = (*place, step)
            if self.links.trace(below) == (below, True) and below in self.nodes:
                self.found.pair(below, below)
            self.in_place(child, below)

    def elsewhere(self, old: Any, new: Any, place: Steps) -> Steps | None:
        """Match the rest; ``old`` is the data of the whole document.

        Return the old place of the first matched value in ``new``.
        """
        if isinstance(new, list):
            self._items(old, new, place)
        children = new.items() if isinstance(new, dict) else enumerate(new) if isinstance(new, list) else ()
        first = None
        for step, child in children:
            below = (*place, step)
            if isinstance(step, str):
                self._field(below, place)
            inside = self.elsewhere(old, child, below)
            first = first or inside
        if place in self.found.before:
            return self.found.before[place]
        if first is not None:
            self.found.neighbours.setdefault(place, first)
        return first

    def _field(self, place: Steps, around: Steps) -> None:
        traced = self.links.trace(place)
        if traced is None:
            return
        source, is_exact = traced
        if not is_exact and around in self.found.before:
            source = (*self.found.before[around], place[-1])
        if source in self.nodes and isinstance(source[-1], str):
            self.found.pair(place, source)

    def _items(self, old: Any, new: list[Any], place: Steps) -> None:
        for number in range(len(new)):
            traced = self.links.trace((*place, number))
            if traced is not None and traced[1] and traced[0] in self.nodes and isinstance(traced[0][-1], int):
                self.found.pair((*place, number), traced[0])
        source = self.found.before.get(place)
        if source is None or not isinstance(self.nodes.get(source), YamlSequence):
            return
        open_ones = [number for number in range(len(new)) if self._is_open((*place, number))]
        if not open_ones:
            return
        items = value_at(old, source)
        taken = {number for number in range(len(items)) if (*source, number) in self.found.after}
        aligned = align(items, [new[number] for number in open_ones], taken=taken)
        for number, index in zip(open_ones, aligned, strict=True):
            if index is not None:
                self.found.pair((*place, number), (*source, index))

    def _is_open(self, place: Steps) -> bool:
        """Return whether no rule relates an item to an old one, or declares that it has none."""
        traced = self.links.trace(place)
        return place not in self.found.before and traced is not None and not traced[1]


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


_COMMENT: Final = re.compile(r"(?<=[ \t])#[^\r\n]*")


@dataclass(slots=True)
class Block:
    """The editor of block collections. ``owners`` maps old places to the movable children and their collections."""

    draft: Draft
    owners: dict[Steps, tuple[Child, Collection]] = field(default_factory=dict)

    def document(self, root: Collection, old: Any, new: Any) -> tuple[int, int, str]:
        """Write a whole document; return the start and end of the replaced part of the text, and the new part."""
        children = self.draft.layout.root(root)
        self._own(root, children, ())
        start, end = children[0].start, children[-1].end
        return start, end, self._lines(root, children, old, new, (), start, end)

    def _own(self, node: Collection, children: list[Child], place: Steps) -> None:
        for child in children if not (isinstance(node, YamlMapping) and node.odd) else ():
            if not child.merges:
                self.owners[(*place, child.name)] = child, node
                if is_block(child.node):
                    self._own(child.node, self.draft.layout.of(child), (*place, child.name))

    def _lines(
        self, node: Collection, children: list[Child], old: Any, new: Any, place: Steps, floor: int, bottom: int
    ) -> str:
        """Write a collection's lines from ``floor`` to ``bottom``.

        ``floor`` may be in the middle of a line (``- a: 1``).
        """
        if isinstance(node, YamlMapping):
            lines = "".join(self._fields(node, children, old, new, place))
        else:
            lines = "".join(self._items(node, children, old, new, place))
        lines += self.draft.text[children[-1].end : bottom]
        return lines if floor == self.draft.layout.line_start(floor) else _beside(lines, node.column)

    def _fields(self, node: YamlMapping, children: list[Child], old: Any, new: Any, place: Steps) -> Iterator[str]:
        names, keeps_merges = self.draft.fields(node, new)
        slots = self.draft.slots(node, names, place)
        for at, child in enumerate(children):
            stands = [name for name in slots[at] if self._stands((*place, name), place, child)]
            if stands or (child.merges and keeps_merges):
                yield self.draft.text[child.free : child.head]
            else:
                yield self._free(child, is_last=at == len(children) - 1)
            if child.merges and keeps_merges:
                self.draft.note(child.node)
                yield self._start(child, node) + self.draft.text[child.mark : child.end]
            for name in slots[at]:
                if name in stands:
                    yield self._field(child, node, value_at(old, (child.name,)), new[name], (*place, name))
                else:
                    yield self._moved(new[name], node.column, (*place, name))

    def _items(self, node: YamlSequence, children: list[Child], old: Any, new: Any, place: Steps) -> Iterator[str]:
        around = self.draft.before(place)
        index = {(*around, child.name): at for at, child in enumerate(children)}
        stands = [index.get(self.draft.before((*place, item))) for item in range(len(new))]
        kept = set(stands)
        seen = 0
        for item, at in enumerate(stands):
            below = (*place, item)
            if at is None:
                yield self._moved(new[item], node.column, below)
                continue
            for gone in range(seen, at):
                if gone not in kept:
                    yield self._free(children[gone], is_last=False)
            seen = max(seen, at + 1)
            yield self.draft.text[children[at].free : children[at].head]
            yield self._item(children[at], node, old[at], new[item], below)

    def _stands(self, new: Steps, around: Steps, child: Child) -> bool:
        return not child.merges and self.draft.before(new) == (*self.draft.before(around), child.name)

    def _free(self, child: Child, *, is_last: bool) -> str:
        """Return the free lines above a removed child; blank ones only if more lines follow."""
        lines = self.draft.text[child.free : child.head]
        return lines if "#" in lines or not is_last else ""

    def _moved(self, new: Any, column: int, place: Steps) -> str:
        """Write a field or item that was not in this collection: with its old lines if it has some, else new ones."""
        before = self.draft.before(place)
        name = place[-1]
        if before in self.owners and isinstance(before[-1], str) == isinstance(name, str):
            child, owner = self.owners[before]
            write = self._field if isinstance(name, str) else self._item
            lines = write(child, owner, data(child.node), new, place)
            return _shifted(lines, column - owner.column)
        return self._new(new, column, place)

    def _new(self, new: Any, column: int, place: Steps) -> str:
        """Write a field or item without an old counterpart; its content may have old lines nevertheless."""
        name, style = place[-1], self.draft.style
        if not isinstance(new, dict | list) or not new:
            lines = emit.field(name, new, column, style) if isinstance(name, str) else emit.item(new, column, style)
            return self.draft.broken(lines)
        if isinstance(name, int):
            return " " * column + "- " + _beside(self._inside(new, column + 2, place), column + 2)
        deeper = style.step if isinstance(new, dict) else style.offset
        return " " * column + emit.scalar(name, style) + ":" + style.newline + self._inside(new, column + deeper, place)

    def _inside(self, new: Any, column: int, place: Steps) -> str:
        steps = list(new) if isinstance(new, dict) else range(len(new))
        return "".join(self._moved(new[step], column, (*place, step)) for step in steps)

    def _start(self, child: Child, owner: Collection) -> str:
        """Return the text before the key or dash: the head, and the indentation."""
        text = self.draft.text
        pad = " " * owner.column if child.start == child.mark else text[child.start : child.mark]
        return text[child.head : child.start] + pad

    def _field(self, child: Child, owner: Collection, old: Any, new: Any, place: Steps) -> str:
        assert child.key is not None
        text, name = self.draft.text, str(place[-1])
        key = text[child.key.start : child.key.end]
        if name != child.name:
            key = emit.scalar(name, self.draft.style, quote=child.key.style)
        colon = text.index(":", child.key.end) + 1
        start = self._start(child, owner) + key + text[child.key.end : colon]
        return start + self._value(child, owner, old, new, place, colon)

    def _item(self, child: Child, owner: Collection, old: Any, new: Any, place: Steps) -> str:
        return self._start(child, owner) + "-" + self._value(child, owner, old, new, place, child.mark + 1)

    def _value(self, child: Child, owner: Collection, old: Any, new: Any, place: Steps, behind: int) -> str:
        """Write the text after the colon or dash that ends at ``behind``: the value, comments, and lines below."""
        draft, text, node = self.draft, self.draft.text, child.node
        if draft.stays(node, old, new):
            draft.note(node)
            return text[behind : child.end]
        if is_block(node) and draft.fits(node, new):
            bottom = draft.layout.region_end(child, owner.column)
            lines = self._lines(node, draft.layout.of(child), old, new, place, child.floor, bottom)
            draft.define(node, new)
            return text[behind : child.floor] + lines + text[bottom : child.end]
        if _is_inline(node) and (draft.fits(node, new) or not _wants_lines(new, node)):
            gap = text[behind : node.start] or " "
            return gap + inline(draft, node, old, new, place, flow=False) + text[node.end : child.end]
        return self._anew(child, owner, new, place, behind)

    def _anew(self, child: Child, owner: Collection, new: Any, place: Steps, behind: int) -> str:
        """Write a value of another shape than the old one; the comment on the key's line stays there."""
        draft, node, style = self.draft, child.node, self.draft.style
        draft.define(node, new)
        anchor = "" if node.anchor is None else f" &{node.anchor}"
        comment = self._comment(child, behind)
        foot = self._unowned(child) + draft.text[child.tail : child.end]
        in_list = isinstance(owner, YamlSequence)
        rest = anchor + (f" {comment}" if comment else "")
        if isinstance(new, dict | list) and new:
            deeper = 2 if in_list else style.step if isinstance(new, dict) else style.offset
            lines = self._inside(new, owner.column + deeper, place)
            if in_list and not rest:
                return " " + _beside(lines, owner.column + deeper) + foot
            return rest + style.newline + lines + foot
        written = emit.value(new, owner.column, style, in_list=in_list)
        head = anchor + (f" {written.head}" if written.head else "") + (f" {comment}" if comment else "")
        return head + draft.broken("\n" + written.body) + foot

    def _unowned(self, child: Child) -> str:
        """Return the comment lines inside of a value that belong to none of its fields or items: they stay."""
        if not is_block(child.node):
            return ""
        inside, text = self.draft.layout.of(child), self.draft.text
        free = [text[each.free : each.head] for each in inside] + [text[inside[-1].end : child.tail]]
        return "".join(lines for lines in free if "#" in lines)

    def _comment(self, child: Child, behind: int) -> str:
        """Return the comment on the line of the key or dash, or at the end of an inline value."""
        layout, node = self.draft.layout, child.node
        start = node.end if _is_inline(node) else behind
        end = child.floor if is_block(node) else layout.line_end(start)
        found = _COMMENT.search(self.draft.text, start, min(end, layout.line_end(start)))
        return "" if found is None else found[0].rstrip()


def _is_inline(node: YamlNode) -> bool:
    """Return whether a value is on the line of its key (a collection in flow style may continue on further lines)."""
    return not is_block(node) and not (isinstance(node, YamlScalar) and node.style in ("|", ">"))


def _wants_lines(new: Any, node: YamlNode) -> bool:
    """Return whether a value is better written on lines of its own."""
    if isinstance(new, dict | list):
        return bool(new)
    has_quotes = isinstance(node, YamlScalar) and node.style in ("'", '"')
    return isinstance(new, str) and "\n" in new.rstrip("\n") and not has_quotes


def _beside(lines: str, column: int) -> str:
    """Return a collection's lines at ``column`` for use after a dash: without leading blank lines and indentation."""
    while "\n" in lines and not lines.partition("\n")[0].strip():
        lines = lines.partition("\n")[2]
    return lines.removeprefix(" " * column)


def _shifted(lines: str, by: int) -> str:
    """Return lines indented by this many columns more, or less if negative."""
    return "\n".join(_shift(line, by) for line in lines.split("\n")) if by else lines


def _shift(line: str, by: int) -> str:
    if not line.strip("\r"):
        return line
    if by > 0:
        return " " * by + line
    return line[min(-by, len(line) - len(line.lstrip(" "))) :]


@dataclass(frozen=True, slots=True)
class Edit:
    """A part of a text, by its offsets, and its replacement."""

    start: int
    end: int
    text: str


def edit(text: str, root: YamlNode, new: Any, links: Tracing) -> Edit:
    """Return the edit of ``text`` after which its document at ``root`` has the data ``new``."""
    whole = text if text.endswith("\n") else text + "\n"
    nodes, old = dict(places(root)), data(root)
    draft = Draft(
        text=whole,
        style=style_of(text, root),
        layout=Layout(whole),
        matches=match(nodes, old, new, links),
        has_aliases=any(isinstance(node, YamlAlias) or node.anchor is not None for node in nodes.values()),
    )
    if is_block(root) and draft.fits(root, new):
        start, end, written = Block(draft).document(root, old, new)
    else:
        start, end, written = root.start, root.end, inline(draft, root, old, new, (), flow=False)
    if end > len(text):
        return Edit(start, len(text), written.removesuffix("\n").removesuffix("\r"))
    return Edit(start, end, written)


def rewrite(text: str, root: YamlNode, new: Any) -> Edit:
    """Return the edit that rewrites the whole document, without its comments."""
    style = style_of(text, root)
    begins_line = root.start == text.rfind("\n", 0, root.start) + 1
    if style.json or not begins_line or not isinstance(new, dict | list) or not new:
        return Edit(root.start, root.end, emit.flow(new, style, indent="" if "\n" in text.rstrip() else None))
    end = text.find("\n", root.end)
    lines = emit.lines(new, 0, style).replace("\n", style.newline)
    if end < 0:
        return Edit(root.start, len(text), lines.removesuffix(style.newline))
    return Edit(root.start, end + 1, lines)


def write_yaml(value: Any) -> str:
    """Return a value as a YAML document of its own, quoted so that kubectl reads exactly this value."""
    style = Style()
    return emit.lines(value, 0, style) if isinstance(value, dict | list) and value else emit.flow(value, style) + "\n"
