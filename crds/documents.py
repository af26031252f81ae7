"""YAML and JSON documents as plain data, fast, with scalars as kubectl reads them.

libyaml parses and composes; one walk over its nodes makes JSON values. ``restow.conversion.manifests.read`` builds a
node for every value, keeps places and comments, and so can edit the text; this module keeps only the line of each
object. Aliases are expanded by reference and bounded, so that a small text cannot expand to billions of values.

Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import yaml

from restow.crds.scalars import NotRepresentable, key_text, resolve

#: The most values that a document may have with its aliases expanded; more is an attack or a mistake. Kubernetes has
#: its own bound.
MOST_VALUES: Final = 5_000_000

_TAGS: Final = "tag:yaml.org,2002:"
_STRING, _PLAIN, _MAP, _LIST = f"{_TAGS}str", "!plain", f"{_TAGS}map", f"{_TAGS}seq"
_ANCHOR: Final = re.compile(r"&[^\s,\[\]{}]")
_MARK: Final = "\ufeff"
_DEEP: Final = 500
_LONG_LINE: Final = re.compile(rf"[^\n]{{{_DEEP}}}")


class NotYaml(ValueError):
    """An error: the text cannot be read. ``line`` counts from 1; ``problem`` is the parser's message."""

    def __init__(self, line: int, problem: str) -> None:
        self.line = line
        self.problem = problem
        super().__init__(f"line {line}: {problem}")


def not_yaml(error: yaml.YAMLError) -> NotYaml:
    """Return the parser's error with its line: the line where the failing construct begins, if the parser knows it."""
    mark = getattr(error, "context_mark", None) or getattr(error, "problem_mark", None)
    problem = str(getattr(error, "problem", None) or str(error).splitlines()[0])
    return NotYaml(1 if mark is None else mark.line + 1, problem)


def load_documents(text: str | bytes) -> list[Any]:
    """Return the documents of a text as JSON values, without empty ones.

    Raises:
        NotYaml: the text is neither YAML nor JSON, or contains a value that JSON cannot represent.
    """
    return [value for _, value, _ in _documents(text) if value is not None]


def load_objects(text: str | bytes) -> Iterator[tuple[int, Any]]:
    """Yield (line, value) for each document of a text, and for each item of a ``…List`` instead of the list.

    Raises:
        NotYaml: the text is neither YAML nor JSON, or contains a value that JSON cannot represent.
    """
    for line, value, node in _documents(text):
        if value is not None:
            yield from _opened(line, value, node)


def _opened(line: int, value: Any, node: yaml.Node | None) -> Iterator[tuple[int, Any]]:
    items = value.get("items") if isinstance(value, dict) and str(value.get("kind")).endswith("List") else None
    if not isinstance(items, list):
        yield line, value
        return
    nodes = _items_of(node)
    for index, item in enumerate(items):
        below = nodes[index] if index < len(nodes) else None
        yield from _opened(line if below is None else below.start_mark.line + 1, item, below)


def _items_of(node: yaml.Node | None) -> list[yaml.Node]:
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if key.value == "items" and isinstance(value, yaml.SequenceNode):
            return list(value.value)
    return []


class _Composer(getattr(yaml, "CBaseLoader", yaml.BaseLoader)):  # type: ignore[misc]  # the C loader if it is installed
    """A composer of libyaml's nodes whose tags distinguish a plain scalar from a quoted one."""

    def resolve(self, kind: type[yaml.Node], _value: Any, implicit: Any) -> str:
        """Return the tag of a node that has no explicit tag."""
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit[0] else _STRING
        return _MAP if kind is yaml.MappingNode else _LIST


def _documents(text: str | bytes) -> Iterator[tuple[int, Any, yaml.Node | None]]:
    try:
        text = (text if isinstance(text, str) else text.decode()).removeprefix(_MARK)
    except UnicodeDecodeError:
        raise NotYaml(1, "it is no UTF-8 text") from None
    if text.lstrip()[:1] in ("{", "["):
        try:
            yield 1, json.loads(text, parse_constant=_no_constant), None
        except (ValueError, RecursionError):
            pass  # flow style looks like JSON; the YAML parser gives the better message
        else:
            return
    try:
        _check_depth(text)
        composer = _Composer(text)
        try:
            while composer.check_node():
                node = composer.get_node()
                yield node.start_mark.line + 1, _Reader(has_aliases=bool(_ANCHOR.search(text))).value(node), node
        finally:
            composer.dispose()
    except yaml.YAMLError as error:
        raise not_yaml(error) from error
    except RecursionError:
        raise NotYaml(1, "it is nested too deeply") from None


def _check_depth(text: str) -> None:
    """Refuse a text that is nested too deeply for libyaml, whose composer recurses in C without a bound.

    Every level needs a bracket, or a character at the start of some line. Only a text with many brackets or with a long
    line is parsed to count its depth.
    """
    if text.count("[") + text.count("{") < _DEEP and _LONG_LINE.search(text) is None:
        return
    depth = 0
    for event in yaml.parse(text, Loader=_Composer):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEP:
            raise NotYaml(1 if event.start_mark is None else event.start_mark.line + 1, "it is nested too deeply")


def _no_constant(_text: str) -> NoReturn:
    raise ValueError("a number that JSON does not have")


class _Reader:
    """A builder of JSON values from the nodes of one document.

    An aliased node is built once, and its values count each time it is used. ``has_aliases`` may be true for a document
    without aliases; that only costs time.
    """

    def __init__(self, *, has_aliases: bool) -> None:
        self._known: dict[int, tuple[Any, int]] | None = {} if has_aliases else None
        self._open: set[int] = set()
        self._count = 0

    def value(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if self._known is None:
            return self._container(node)
        if id(node) in self._open:
            raise NotYaml(node.start_mark.line + 1, "an alias of what it stands in")
        if id(node) in self._known:
            found, size = self._known[id(node)]
            self._add(size, node)
            return found
        before = self._count
        self._open.add(id(node))
        found = self._container(node)
        self._open.discard(id(node))
        self._known[id(node)] = found, self._count - before
        return found

    def _container(self, node: yaml.Node) -> Any:
        self._add(1 + len(node.value), node)
        if node.tag not in (_MAP, _LIST):
            raise NotYaml(node.start_mark.line + 1, f"the tag {node.tag[:100]}")
        if isinstance(node, yaml.SequenceNode):
            value = self.value
            return [value(item) for item in node.value]
        return self._mapping(node)

    def _mapping(self, node: yaml.Node) -> dict[str, Any]:
        made: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        value = self.value
        for key, below in node.value:
            if key.tag is _PLAIN and key.value == "<<":
                merged = {**self._merged(below), **merged}
                continue
            name = key.value if key.tag is _STRING else self._key(key)
            if name in made:
                raise NotYaml(key.start_mark.line + 1, f"the key {name[:100]} a second time")
            made[name] = value(below)
        return {**merged, **made} if merged else made

    def _merged(self, node: yaml.Node) -> dict[str, Any]:
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        found: dict[str, Any] = {}
        for part in parts:
            value = self.value(part)
            if not isinstance(value, dict):
                raise NotYaml(part.start_mark.line + 1, "a merge key (<<) of what is no object")
            found = {**value, **found}
        return found

    def _key(self, node: yaml.Node) -> str:
        try:
            return key_text(self._scalar(node) if isinstance(node, yaml.ScalarNode) else None)
        except NotRepresentable as error:
            raise NotYaml(node.start_mark.line + 1, str(error)) from error

    def _scalar(self, node: yaml.Node) -> Any:
        tag = node.tag
        if tag is _STRING:
            return node.value
        try:
            plain = tag is _PLAIN
            return resolve(node.value, plain=True, tag=None if plain else tag)
        except NotRepresentable as error:
            raise NotYaml(node.start_mark.line + 1, str(error)) from error

    def _add(self, count: int, node: yaml.Node) -> None:
        self._count += count
        if self._count > MOST_VALUES:
            raise NotYaml(node.start_mark.line + 1, "its aliases expand to too many values")
