"""Reads YAML and JSON into nodes that know their places, with scalars as kubectl reads them.

kubectl follows neither YAML 1.1 nor 1.2. JSON that no YAML parser accepts (several values in a row, escaped surrogate
pairs, very long keys) is read as JSON text.

``restow.crds.documents`` also reads YAML, with the same scalars, and both are needed. This reader is for manifests that
are edited: it keeps the places of values, so that an edit leaves all other text as it was, and builds a node for every
value in Python. ``restow.crds.documents`` is for files of which only the data counts, such as CRDs; it is faster.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from restow.conversion.manifests.document import (
    YamlAlias,
    YamlDocument,
    YamlEntry,
    YamlMapping,
    YamlNode,
    YamlScalar,
    YamlSequence,
    merged_names,
)
from restow.crds.documents import MOST_VALUES, NotYaml, not_yaml
from restow.crds.scalars import NotRepresentable, key_text, resolve

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
