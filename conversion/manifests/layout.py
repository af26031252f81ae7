"""Which lines belong to which field or item of a block collection: its own, the comments above, beside and below it.

- comment lines directly above a field, without a blank line between, are its head and go where it goes;
- lines above those belong to nobody and stay where they are;
- comment lines below a field that are indented deeper than its key are its foot.

Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from restow.conversion.manifests.nodes import Collection, Mapping, Node, Scalar, is_block

__all__ = ["Child", "Layout"]

_PROPERTIES: Final = re.compile(r"[&!]\S*(?:\s+[&!]\S*)?")


@dataclass(slots=True, eq=False)
class Child:
    """A field or item and its place in the text; all but ``mark`` are at the beginning of a line, or behind the text.

    Attributes:
        free, head, start: where its free lines, its head and its own lines begin. The first child of a collection that
            begins in the middle of a line (``- a: 1``) has none of its own: there ``start`` is ``mark``.
        mark: its key or its dash.
        floor: where the lines of its value begin, if that is a block collection: may be in the middle of a line too.
        bottom: where the lines of its value end, foot of the innermost included.
        tail: where the foot begins.
        end: where all of it ends.
    """

    name: str | int
    key: Scalar | None
    node: Node
    merges: bool
    free: int
    head: int
    start: int
    mark: int
    floor: int
    tail: int
    end: int

    @property
    def is_compact(self) -> bool:
        """Whether it begins in the middle of a line."""
        return self.start == self.mark and self.free == self.mark


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
        """Return the children of a child, a block collection."""
        assert is_block(child.node)
        return self._children(child.node, child.floor)

    def region_end(self, child: Child, column: int) -> int:
        """Return where the lines of a child's block collection end, above the child's foot.

        ``column`` is the child's.
        """
        assert is_block(child.node)
        return self._foot(self.of(child)[-1].end, max(child.node.column, column + 1))

    def line_start(self, position: int) -> int:
        """Return where the line begins."""
        return self.text.rfind("\n", 0, position) + 1

    def line_end(self, position: int) -> int:
        """Return where the next line begins."""
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

    def _floor(self, node: Node, behind: int) -> int:
        """Return where the lines of a value begin: below the line of its key, dash or anchor, or beside that."""
        if not is_block(node):
            return node.inner
        if node.start < node.inner:
            found = _PROPERTIES.match(self.text, node.start)
            behind = node.start if found is None else found.end()
        return node.inner if "\n" not in self.text[behind : node.inner] else self.line_end(behind)

    def _head(self, free: int, start: int) -> int:
        """Return where the comment lines directly above ``start`` begin."""
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


def _parts(node: Collection) -> list[tuple[int, int, Scalar | None, Node, bool]]:
    """Return for each child: its mark, the end of its key or dash, its key, its value, and whether it is a merge."""
    if isinstance(node, Mapping):
        return [(each.key.start, each.key.end, each.key, each.value, each.merges) for each in node.entries]
    return [(dash, dash + 1, None, item, False) for dash, item in zip(node.dashes, node.items, strict=True)]
