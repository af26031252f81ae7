"""A YAML document: its values, their positions in the text, and the lines and comments that belong to them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

from restow.conversion.model.values import Json


@dataclass(slots=True, eq=False)
class YamlNode:
    """A value in the text."""

    start: int
    inner: int
    end: int
    anchor: str | None
    tag: str | None


@dataclass(slots=True, eq=False)
class YamlScalar(YamlNode):
    """A scalar; ``style`` is its first character (``'``, ``"``, ``|``, ``>``), empty for a plain scalar."""

    value: Any
    style: str


@dataclass(slots=True, eq=False)
class YamlAlias(YamlNode):
    """A reference to an earlier anchored node."""

    name: str
    target: YamlNode


@dataclass(slots=True, eq=False)
class YamlEntry:
    """A field of a mapping. ``merges``: it is a merge key (``<<``), whose fields become those of the mapping."""

    key: YamlScalar
    name: str
    value: YamlNode
    merges: bool = False


@dataclass(slots=True, eq=False)
class YamlMapping(YamlNode):
    """An object.

    ``column`` is the column of its keys. ``odd``: its form cannot be edited in place (``? key``).
    """

    flow: bool
    column: int
    entries: list[YamlEntry] = field(default_factory=list)
    odd: bool = False


@dataclass(slots=True, eq=False)
class YamlSequence(YamlNode):
    """A list.

    ``dashes`` are the offsets of its items' dashes, empty in flow style; ``column`` is the column of the dashes.
    """

    flow: bool
    column: int
    items: list[YamlNode] = field(default_factory=list)
    dashes: list[int] = field(default_factory=list)


Collection = YamlMapping | YamlSequence


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """One document of a stream. ``problem`` says why its data is no JSON, with the line; an empty one has no ``root``.

    ``begin`` is the offset of its ``---``, or of its first value; ``line`` is the line of its first value, from 1.
    """

    root: YamlNode | None
    begin: int
    line: int
    problem: str = ""

    @property
    def data(self) -> Any:
        """The whole document as plain data, None if it is empty."""
        return None if self.root is None or self.problem else data(self.root)


def is_block(node: YamlNode) -> TypeGuard[Collection]:
    """Return whether a node is a collection in block style."""
    return isinstance(node, YamlMapping | YamlSequence) and not node.flow


def data(node: YamlNode) -> Any:
    """Return a node as plain data, aliases and merge keys resolved."""
    return _data(node, {})


def _data(node: YamlNode, known: dict[int, Any]) -> Any:
    if isinstance(node, YamlAlias):
        node = node.target
    if id(node) in known:
        return known[id(node)]
    value: Any
    if isinstance(node, YamlMapping):
        value = {}
        for name, child in _fields(node):
            value[name] = _data(child, known)
    elif isinstance(node, YamlSequence):
        value = [_data(item, known) for item in node.items]
    else:
        assert isinstance(node, YamlScalar)
        value = node.value
    if node.anchor is not None:
        known[id(node)] = value
    return value


def merged_names(node: YamlNode) -> set[str]:
    """Return the names of the fields that a merge key's value contributes."""
    return {name for source in _merge_sources(node) for name, _ in _fields(source)}


def merged(node: YamlMapping) -> Json:
    """Return the fields that merge keys contribute to a mapping, whether or not its own fields override them."""
    fields: Json = {}
    for entry in node.entries:
        if entry.merges:
            for source in _merge_sources(entry.value):
                for name, child in _fields(source):
                    fields.setdefault(name, data(child))
    return fields


def _fields(node: YamlMapping) -> Iterator[tuple[str, YamlNode]]:
    """Yield the fields of a mapping in order; its own override merged ones, earlier merged ones override later ones."""
    own = {entry.name for entry in node.entries if not entry.merges}
    seen: set[str] = set()
    for entry in node.entries:
        if not entry.merges:
            yield entry.name, entry.value
            continue
        for source in _merge_sources(entry.value):
            for name, child in _fields(source):
                if name not in own and name not in seen:
                    seen.add(name)
                    yield name, child


def _merge_sources(node: YamlNode) -> Iterator[YamlMapping]:
    node = node.target if isinstance(node, YamlAlias) else node
    if isinstance(node, YamlSequence):
        for item in node.items:
            yield from _merge_sources(item)
    elif isinstance(node, YamlMapping):
        yield node


_COMMENT: Final = re.compile(r"(?:(?<=[\s])|^)#[^\r\n]*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment and its line, from 1."""

    line: int
    text: str


def comments(text: str, root: YamlNode, start: int, end: int) -> Iterator[Comment]:
    """Yield the comments of a document between the offsets ``start`` and ``end`` of a text."""
    position, line = start, text.count("\n", 0, start) + 1
    for begin, behind in (*sorted(_leaves(root)), (end, end)):
        for found in _COMMENT.finditer(text, position, max(position, begin)):
            line += text.count("\n", position, found.start())
            position = found.start()
            yield Comment(line, found[0].rstrip())
        line += text.count("\n", position, max(position, behind))
        position = max(position, behind)


def missing(before: Iterable[Comment], after: Iterable[Comment]) -> list[Comment]:
    """Return the comments that no longer exist; a comment may have moved to another line."""
    left = Counter(comment.text for comment in after)
    gone = []
    for comment in before:
        left[comment.text] -= 1
        if left[comment.text] < 0:
            gone.append(comment)
    return gone


def _leaves(node: YamlNode) -> Iterator[tuple[int, int]]:
    if isinstance(node, YamlMapping):
        for entry in node.entries:
            yield entry.key.start, entry.key.end
            yield from _leaves(entry.value)
    elif isinstance(node, YamlSequence):
        for item in node.items:
            yield from _leaves(item)
    else:
        yield node.inner, node.end


_PROPERTIES: Final = re.compile(r"[&!]\S*(?:\s+[&!]\S*)?")


@dataclass(slots=True, eq=False)
class Child:
    """A field or item with its offsets in the text; all but ``mark`` are at the start of a line, or at the text's end.

    Attributes:
        free, head, start: the starts of its free lines, of its head and of its own lines. The first child of a
            collection that begins in the middle of a line (``- a: 1``) has no lines of its own; its ``start`` is
            ``mark``.
        mark: its key or its dash.
        floor: the start of the lines of its value, if that is a block collection; may also be in the middle of a line.
        tail: the start of its foot.
        end: the end of all of it.
    """

    name: str | int
    key: YamlScalar | None
    node: YamlNode
    merges: bool
    free: int
    head: int
    start: int
    mark: int
    floor: int
    tail: int
    end: int


@dataclass(slots=True)
class Layout:
    """The lines of one text, which must end with a line break."""

    text: str
    _known: dict[int, list[Child]] = field(default_factory=dict)

    def root(self, node: Collection) -> list[Child]:
        """Return the children of a document; comments around the document itself are left out."""
        floor = self.line_start(node.inner)
        if self.text[floor : node.inner].strip(" "):
            floor = node.inner
        return self._children(node, floor)

    def of(self, child: Child) -> list[Child]:
        """Return the children of a child that is a block collection."""
        assert is_block(child.node)
        return self._children(child.node, child.floor)

    def region_end(self, child: Child, column: int) -> int:
        """Return the end of the lines of a child's block collection, above the child's foot.

        ``column`` is the column of the child.
        """
        assert is_block(child.node)
        return self._foot(self.of(child)[-1].end, max(child.node.column, column + 1))

    def line_start(self, position: int) -> int:
        """Return the start of the line."""
        return self.text.rfind("\n", 0, position) + 1

    def line_end(self, position: int) -> int:
        """Return the start of the next line."""
        found = self.text.find("\n", position)
        return len(self.text) if found < 0 else found + 1

    def _children(self, node: Collection, floor: int) -> list[Child]:
        if id(node) not in self._known:
            self._known[id(node)] = found = []
            end = floor
            for index, (mark, behind, key, value, merges) in enumerate(_parts(node)):
                start = mark if index == 0 and floor == mark else self.line_start(mark)
                head = self._head(end, start)
                child = Child(
                    name=index if key is None else node.entries[index].name,  # type: ignore[union-attr]
                    key=key,
                    node=value,
                    merges=merges,
                    free=end,
                    head=head,
                    start=start,
                    mark=mark,
                    floor=self._floor(value, behind),
                    tail=0,
                    end=0,
                )
                child.tail = self._tail(child, behind, node.column)
                child.end = end = self._foot(child.tail, node.column + 1)
                found.append(child)
        return self._known[id(node)]

    def _tail(self, child: Child, behind: int, column: int) -> int:
        if is_block(child.node):
            return self.region_end(child, column)
        return self.line_end(max(child.node.end, behind))

    def _floor(self, node: YamlNode, behind: int) -> int:
        """Return the start of a value's lines: below the line of its key, dash or anchor, or on that line."""
        if not is_block(node):
            return node.inner
        if node.start < node.inner:
            found = _PROPERTIES.match(self.text, node.start)
            behind = node.start if found is None else found.end()
        return node.inner if "\n" not in self.text[behind : node.inner] else self.line_end(behind)

    def _head(self, free: int, start: int) -> int:
        """Return the start of the comment lines directly above ``start``."""
        while start > free:
            above = self.line_start(start - 1)
            if above < free or not self.text[above:start].lstrip(" \t").startswith("#"):
                break
            start = above
        return start

    def _foot(self, position: int, column: int) -> int:
        """Return the end of the comment lines from ``position`` on that are indented by ``column`` or deeper."""
        end = position
        while position < len(self.text):
            below = self.line_end(position)
            line = self.text[position:below]
            if line.strip():
                if not line.lstrip(" ").startswith("#") or len(line) - len(line.lstrip(" ")) < column:
                    break
                end = below
            position = below
        return end


def _parts(node: Collection) -> list[tuple[int, int, YamlScalar | None, YamlNode, bool]]:
    """Return for each child: its mark, the end of its key or dash, its key, its value, and whether it is a merge."""
    if isinstance(node, YamlMapping):
        return [(each.key.start, each.key.end, each.key, each.value, each.merges) for each in node.entries]
    return [(dash, dash + 1, None, item, False) for dash, item in zip(node.dashes, node.items, strict=True)]
