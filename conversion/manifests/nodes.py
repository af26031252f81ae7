"""A YAML document as its values and where each of them stands in the text.

Offsets count characters of the whole text. A node's ``start`` is before its anchor and tag, its ``inner`` behind them,
its ``end`` behind its last character; comments and blank lines around it are not part of it.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from restow.conversion.values import Json

__all__ = [
    "Alias",
    "Collection",
    "Document",
    "Entry",
    "Mapping",
    "Node",
    "Scalar",
    "Sequence",
    "data",
    "is_block",
    "merged",
    "merged_names",
]


@dataclass(slots=True, eq=False)
class Node:
    """A value in the text."""

    start: int
    inner: int
    end: int
    anchor: str | None
    tag: str | None


@dataclass(slots=True, eq=False)
class Scalar(Node):
    """A scalar; ``style`` is the character that it begins with (``'``, ``"``, ``|``, ``>``), empty for a plain one."""

    value: Any
    style: str


@dataclass(slots=True, eq=False)
class Alias(Node):
    """A reference to an anchored node before it."""

    name: str
    target: Node


@dataclass(slots=True, eq=False)
class Entry:
    """A field of a mapping. ``merges``: it is a merge key (``<<``), whose fields become those of the mapping."""

    key: Scalar
    name: str
    value: Node
    merges: bool = False


@dataclass(slots=True, eq=False)
class Mapping(Node):
    """An object.

    ``column`` is that of its keys. ``odd``: written in a way that cannot be edited in place (``? key``).
    """

    flow: bool
    column: int
    entries: list[Entry] = field(default_factory=list)
    odd: bool = False


@dataclass(slots=True, eq=False)
class Sequence(Node):
    """A list.

    ``dashes`` are the offsets of its items' dashes, empty in flow style; ``column`` is that of the dashes.
    """

    flow: bool
    column: int
    items: list[Node] = field(default_factory=list)
    dashes: list[int] = field(default_factory=list)


Collection = Mapping | Sequence


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a stream. ``problem`` says why its data is no JSON, with the line; ``root`` is None if it is
    empty.

    ``begin`` is the offset of its ``---``, or of its first value; ``line`` is that of its first value, from 1.
    """

    root: Node | None
    begin: int
    line: int
    problem: str = ""

    @property
    def data(self) -> Any:
        """The whole as plain data, None if there is none."""
        return None if self.root is None or self.problem else data(self.root)


def is_block(node: Node) -> TypeGuard[Collection]:
    """Say whether a node is a collection in block style."""
    return isinstance(node, Mapping | Sequence) and not node.flow


def data(node: Node) -> Any:
    """Return a node as plain data, aliases and merge keys resolved."""
    return _data(node, {})


def _data(node: Node, known: dict[int, Any]) -> Any:
    if isinstance(node, Alias):
        node = node.target
    if id(node) in known:
        return known[id(node)]
    value: Any
    if isinstance(node, Mapping):
        value = {}
        for name, child in _fields(node):
            value[name] = _data(child, known)
    elif isinstance(node, Sequence):
        value = [_data(item, known) for item in node.items]
    else:
        assert isinstance(node, Scalar)
        value = node.value
    if node.anchor is not None:
        known[id(node)] = value
    return value


def merged_names(node: Node) -> set[str]:
    """Return the names of the fields that the value of a merge key brings."""
    return {name for source in _merge_sources(node) for name, _ in _fields(source)}


def merged(node: Mapping) -> Json:
    """Return the fields that merge keys bring into a mapping, whether or not its own override them."""
    fields: Json = {}
    for entry in node.entries:
        if entry.merges:
            for source in _merge_sources(entry.value):
                for name, child in _fields(source):
                    fields.setdefault(name, data(child))
    return fields


def _fields(node: Mapping) -> Iterator[tuple[str, Node]]:
    """Yield the fields of a mapping in order; its own win over merged ones, earlier merged ones over later."""
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


def _merge_sources(node: Node) -> Iterator[Mapping]:
    node = node.target if isinstance(node, Alias) else node
    if isinstance(node, Sequence):
        for item in node.items:
            yield from _merge_sources(item)
    elif isinstance(node, Mapping):
        yield node
