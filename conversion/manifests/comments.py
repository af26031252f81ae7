"""The comments of a document: found between its values, where a ``#`` is no part of a text.

Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from restow.conversion.manifests.nodes import Mapping, Node
from restow.conversion.manifests.nodes import Sequence as List

__all__ = ["Comment", "comments", "missing"]

_COMMENT: Final = re.compile(r"(?:(?<=[\s])|^)#[^\r\n]*", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment and its line, from 1."""

    line: int
    text: str


def comments(text: str, root: Node, start: int, end: int) -> Iterator[Comment]:
    """Yield the comments of a document that stands from ``start`` to ``end`` in a text."""
    position, line = start, text.count("\n", 0, start) + 1
    for begin, behind in (*sorted(_leaves(root)), (end, end)):
        for found in _COMMENT.finditer(text, position, max(position, begin)):
            line += text.count("\n", position, found.start())
            position = found.start()
            yield Comment(line, found[0].rstrip())
        line += text.count("\n", position, max(position, behind))
        position = max(position, behind)


def missing(before: Iterable[Comment], after: Iterable[Comment]) -> list[Comment]:
    """Return the comments that are no longer there, wherever those that are may stand now."""
    left = Counter(comment.text for comment in after)
    gone = []
    for comment in before:
        left[comment.text] -= 1
        if left[comment.text] < 0:
            gone.append(comment)
    return gone


def _leaves(node: Node) -> Iterator[tuple[int, int]]:
    if isinstance(node, Mapping):
        for entry in node.entries:
            yield entry.key.start, entry.key.end
            yield from _leaves(entry.value)
    elif isinstance(node, List):
        for item in node.items:
            yield from _leaves(item)
    else:
        yield node.inner, node.end
