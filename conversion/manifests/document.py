"""A YAML document: its values, their positions in the text, and the lines and comments that belong to them.

``read`` reads YAML and JSON, with scalars as kubectl reads them, which follows neither YAML 1.1 nor 1.2. JSON that no
YAML parser accepts (several values in a row, escaped surrogate pairs, very long keys) is read as JSON text.

``restow.crds.documents`` also reads YAML, with the same scalars, and both are needed. This reader is for manifests that
are edited: it keeps the places of values, so that an edit leaves all other text as it was, and builds a node for every
value in Python. ``restow.crds.documents`` is for files of which only the data counts, such as CRDs; it is faster.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

import yaml

from restow.conversion.model.values import Json
from restow.crds.documents import MOST_VALUES, NotYaml, not_yaml
from restow.crds.scalars import NotRepresentable, key_text, resolve


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


_Loader: Final[Any] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

_BLANK: Final = re.compile(r"(?:[ \t\r\n]+|(?:(?<=[ \t\r\n])|(?<![^\n]))#[^\r\n]*)*")
_PROPERTY: Final = re.compile(r"[&!][^ \t\r\n]*")
_MERGE: Final = "<<"


def read(text: str) -> list[YamlDocument]:
    """Return the documents of a text without byte order mark.

    Raises:
        NotYaml: the text is neither YAML nor JSON, or is nested too deeply.
    """
    try:
        return list(_documents(text))
    except yaml.YAMLError as error:
        raise not_yaml(error) from error
    except RecursionError:
        raise NotYaml(1, "it is nested too deeply") from None


def skip_blank(text: str, position: int) -> int:
    """Return the next position that is neither blank nor in a comment."""
    found = _BLANK.match(text, position)
    return position if found is None else found.end()


def _documents(text: str) -> Iterator[YamlDocument]:
    events: Iterator[Any] = iter(yaml.parse(text, Loader=_Loader))
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            composer = _Composer(text, events)
            first = next(events)
            root = composer.node(first)
            is_empty = isinstance(root, YamlScalar) and root.start == root.end
            yield YamlDocument(None if is_empty else root, _begin(event), first.start_mark.line + 1, composer.problem)


@dataclass(slots=True)
class _Composer:
    """Makes the nodes of one document. ``problem`` is the first value in it that JSON cannot represent."""

    text: str
    events: Iterator[Any]
    problem: str = ""
    _anchors: dict[str, YamlNode] = field(default_factory=dict)
    _open: set[str] = field(default_factory=set)
    _sizes: dict[int, int] = field(default_factory=dict)
    _values: int = 0

    def node(self, event: Any) -> YamlNode:
        start, end = _begin(event), _end(event)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event.anchor or "", start, end)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, start, end)
        before = self._values
        if event.anchor is not None:
            self._open.add(event.anchor)
        found = self._mapping(event) if isinstance(event, yaml.MappingStartEvent) else self._sequence(event)
        if event.tag not in (None, "!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"):
            self._refuse(start, f"the tag {event.tag[:100]}")
        self._open.discard(event.anchor)
        return self._known(found, self._values - before)

    def _known(self, node: YamlNode, size: int) -> YamlNode:
        self._values += 1
        if node.anchor is not None:
            self._anchors[node.anchor] = node
            self._sizes[id(node)] = size + 1
        return node

    def _alias(self, name: str, start: int, end: int) -> YamlNode:
        target = self._anchors.get(name)
        if target is None or name in self._open:
            raise NotYaml(_line(self.text, start), "an alias without an anchor before it")
        self._values += self._sizes[id(target)]
        if self._values > MOST_VALUES:
            raise NotYaml(_line(self.text, start), "its aliases expand to too many values")
        return YamlAlias(start, start, end, None, None, name, target)

    def _scalar(self, event: Any, start: int, end: int) -> YamlNode:
        style = event.style or ""
        inner = min(self._behind_properties(event), end)
        if style in ("|", ">"):
            end = self._block_end(inner, end)
        value: Any = event.value
        try:
            value = resolve(event.value, plain=not style, tag=event.tag)
        except NotRepresentable as error:
            self._refuse(start, str(error))
        return self._known(YamlScalar(start, inner, end, event.anchor, event.tag, value, style), 0)

    def _block_end(self, inner: int, end: int) -> int:
        """Return the end of a block scalar: blank lines after it belong to it only if it keeps them (``|+``)."""
        keeps = "+" in self.text[inner : self.text.find("\n", inner)].partition("#")[0]
        body = self.text[inner:end]
        if keeps:
            return inner + len(body.removesuffix("\n").removesuffix("\r"))
        return inner + len(body.rstrip(" \t\r\n" if body.count("\n") else "\r\n"))

    def _mapping(self, event: Any) -> YamlMapping:
        start = _begin(event)
        inner = self._behind_properties(event)
        found = YamlMapping(start, inner, inner, event.anchor, event.tag, bool(event.flow_style), 0)
        names: set[str] = set()
        position = inner
        while not isinstance(inside := next(self.events), yaml.MappingEndEvent):
            key = self.node(inside)
            found.odd = found.odd or self._is_explicit(position, key, flow=found.flow)
            value = self.node(next(self.events))
            position = max(key.end, value.end)
            entry = self._entry(key, value)
            if entry.name in names:
                self._refuse(key.start, f"the key {entry.name[:100]} a second time")
            if entry.merges and names & merged_names(entry.value):
                self._refuse(key.start, "a merge key behind a field that it brings too")
            names.add(entry.name)
            found.entries.append(entry)
        found.end = _end(inside) if found.flow else position
        found.odd = found.odd or (found.flow and self.text[inner] != "{")
        if found.entries:
            found.column = self._column(found.entries[0].key.start)
        return found

    def _entry(self, key: YamlNode, value: YamlNode) -> YamlEntry:
        if not isinstance(key, YamlScalar):
            self._refuse(key.start, "a key that is no text")
            return YamlEntry(YamlScalar(key.start, key.start, key.end, None, None, "", ""), f"\0{key.start}", value)
        if key.value == _MERGE and not key.style and key.tag is None:
            return YamlEntry(key, _MERGE, value, merges=self._can_merge(value))
        try:
            name = key_text(key.value)
        except NotRepresentable as error:
            self._refuse(key.start, str(error))
            name = f"\0{key.start}"
        return YamlEntry(key, name, value)

    def _can_merge(self, value: YamlNode) -> bool:
        node = value.target if isinstance(value, YamlAlias) else value
        if isinstance(node, YamlMapping) or (isinstance(node, YamlSequence) and all(map(self._can_merge, node.items))):
            return True
        self._refuse(value.start, "a merge key with something else than objects")
        return False

    def _sequence(self, event: Any) -> YamlSequence:
        start = _begin(event)
        inner = self._behind_properties(event)
        found = YamlSequence(start, inner, inner, event.anchor, event.tag, bool(event.flow_style), 0)
        position = inner
        while not isinstance(inside := next(self.events), yaml.SequenceEndEvent):
            item = self.node(inside)
            if not found.flow:
                found.dashes.append(skip_blank(self.text, position))
            position = max(position, item.end)
            found.items.append(item)
        found.end = _end(inside) if found.flow else position
        if found.dashes:
            found.column = self._column(found.dashes[0])
        return found

    def _behind_properties(self, event: Any) -> int:
        """Return the start of a value after its anchor and tag, if it has any."""
        position = _begin(event)
        for _ in range((event.anchor is not None) + (event.tag is not None)):
            found = _PROPERTY.match(self.text, position)
            position = position if found is None else skip_blank(self.text, found.end())
        return position

    def _is_explicit(self, position: int, key: YamlNode, *, flow: bool) -> bool:
        if flow:
            return "?" in self.text[position : key.start].partition("#")[0] or isinstance(
                key, YamlMapping | YamlSequence
            )
        return self.text[skip_blank(self.text, position)] == "?" and key.start > skip_blank(self.text, position)

    def _column(self, position: int) -> int:
        return position - (self.text.rfind("\n", 0, position) + 1)

    def _refuse(self, position: int, what: str) -> None:
        if not self.problem:
            self.problem = f"line {_line(self.text, position)}: {what}"


def _begin(event: Any) -> int:
    offset: int = event.start_mark.index
    return offset


def _end(event: Any) -> int:
    offset: int = event.end_mark.index
    return offset


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


_JSON_BLANK: Final = re.compile(r"[ \t\r\n]*")
_INDENT: Final = re.compile(r"[{\[]\r?\n([ \t]+)")


@dataclass(frozen=True, slots=True)
class JsonText:
    """One value and its place."""

    start: int
    end: int
    line: int
    value: Any


def read_json(text: str) -> list[JsonText] | None:
    """Return the values of a text; None if it is no JSON."""
    decoder = json.JSONDecoder(parse_constant=_refuse)
    found: list[JsonText] = []
    position = _behind_blank(text, 0)
    try:
        while position < len(text):
            value, end = decoder.raw_decode(text, position)
            found.append(JsonText(position, end, text.count("\n", 0, position) + 1, value))
            position = _behind_blank(text, end)
    except (ValueError, RecursionError):
        return None
    return found


def write_json(value: Any, like: str) -> str:
    """Return a value as JSON, indented like another text."""
    indent = _INDENT.search(like)
    written = json.dumps(
        value,
        ensure_ascii=like.isascii(),
        indent=None if indent is None else indent[1],
        separators=None if indent is not None or ": " in like else (",", ":"),
    )
    return written.replace("\n", "\r\n") if "\r\n" in like else written


def _behind_blank(text: str, position: int) -> int:
    found = _JSON_BLANK.match(text, position)
    return position if found is None else found.end()


def _refuse(_constant: str) -> Any:
    raise ValueError
