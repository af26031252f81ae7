"""Writes collections in block style: the lines of their fields and items, with the comments that belong to them.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

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
)
from restow.conversion.manifests.emit import Style, style_of
from restow.conversion.manifests.inline import Draft, inline
from restow.conversion.manifests.match import Tracing, match, places
from restow.conversion.model.fieldpath import Steps, value_at

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
