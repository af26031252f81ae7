"""How a document is written, so that what is added to it looks like the rest.

Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from restow.conversion.manifests.nodes import Alias, Mapping, Node, Scalar, Sequence, is_block

__all__ = ["Style", "style_of"]


@dataclass(frozen=True, slots=True)
class Style:
    """The indentation of nested objects (``step``) and of lists in objects (``offset``), in columns; the line break.

    ``quote`` is what texts that need quotes have around them, if it can say them. ``json``: the document is JSON.
    """

    step: int = 2
    offset: int = 0
    newline: str = "\n"
    quote: str = "'"
    json: bool = False


def style_of(text: str, root: Node) -> Style:
    """Return the style that most of a document has."""
    steps, offsets = Counter[int](), Counter[int]()
    for outer, inner in _nested(root):
        if isinstance(outer, Mapping):
            (steps if isinstance(inner, Mapping) else offsets)[inner.column - outer.column] += 1
    part = text[root.start : root.end]
    breaks = part.count("\n")
    quotes = Counter(_quotes(root))
    is_json = _is_json(root)
    if is_json and breaks and isinstance(root, Mapping) and root.entries:
        steps[root.column] += 1
    return Style(
        step=_most(steps, 2),
        offset=_most(offsets, 0),
        newline="\r\n" if breaks and part.count("\r\n") * 2 > breaks else "\n",
        quote='"' if quotes['"'] > quotes["'"] else "'",
        json=is_json,
    )


def _nested(node: Node) -> Iterator[tuple[Mapping | Sequence, Mapping | Sequence]]:
    children = _children(node)
    for child in children:
        if is_block(child):
            assert isinstance(node, Mapping | Sequence)
            yield node, child
        yield from _nested(child)


def _children(node: Node) -> list[Node]:
    if isinstance(node, Mapping):
        return [entry.value for entry in node.entries]
    return node.items if isinstance(node, Sequence) else []


def _quotes(node: Node) -> Iterator[str]:
    """Yield the quotes around the texts of a document."""
    if isinstance(node, Scalar):
        yield node.style
    for child in _children(node):
        yield from _quotes(child)


def _most(found: Counter[int], otherwise: int) -> int:
    usual = [(count, -size) for size, count in found.items() if size >= 0]
    return -max(usual)[1] if usual else otherwise


def _is_json(node: Node) -> bool:
    """Say whether everything is written as in JSON: flow style throughout, and double quotes around all texts."""
    if isinstance(node, Alias) or node.anchor is not None or node.tag is not None:
        return False
    if isinstance(node, Scalar):
        return node.style == '"' or (not node.style and not isinstance(node.value, str))
    if isinstance(node, Mapping) and not all(_is_json(entry.key) for entry in node.entries):
        return False
    assert isinstance(node, Mapping | Sequence)
    return node.flow and all(map(_is_json, _children(node)))
