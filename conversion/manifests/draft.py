"""What all parts of an edit share: the text, how it is laid out, what stands for what, and which anchors exist by now.

Pure, but for the anchors that it is told of: values are written in the order of the new text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

from restow.conversion.explain.model import Steps
from restow.conversion.manifests.layout import Layout
from restow.conversion.manifests.match import Matches
from restow.conversion.manifests.nodes import Alias, Collection, Mapping, Node, Sequence, data, merged
from restow.conversion.manifests.style import Style
from restow.conversion.values import ABSENT, same

__all__ = ["Draft"]

_NOWHERE: Final[Steps] = ("", -1)


@dataclass(slots=True)
class Draft:
    """One document under edit. ``text`` is all of its stream and ends with a line break."""

    text: str
    style: Style
    layout: Layout
    matches: Matches
    has_aliases: bool
    emitted: dict[str, Any] = field(default_factory=dict)

    def stays(self, node: Node, old: Any, new: Any) -> bool:
        """Say whether a value can be copied as it stands: it is the same, and so are those that its aliases mean."""
        return same(old, new) and (not self.has_aliases or self._aliases_hold(node))

    def can_say(self, alias: Alias, value: Any) -> bool:
        """Say whether an alias, as it stands, means ``value`` in the new text."""
        return alias.name in self.emitted and same(self.emitted[alias.name], value)

    def note(self, node: Node) -> None:
        """Take note of the anchors of what is copied as it stands."""
        if self.has_aliases:
            for inner in _all(node):
                self.define(inner, None if inner.anchor is None else data(inner))

    def define(self, node: Node, value: Any) -> None:
        """Take note of what a node's anchor, if it has one, means from here on."""
        if node.anchor is not None:
            self.emitted[node.anchor] = value

    def fits(self, node: Node, new: Any) -> TypeGuard[Collection]:
        """Say whether a collection can be edited into ``new``: both are of a kind, and neither is empty."""
        if isinstance(node, Mapping):
            return isinstance(new, dict) and bool(new) and bool(node.entries) and not node.odd
        return isinstance(node, Sequence) and isinstance(new, list) and bool(new) and bool(node.items)

    def before(self, place: Steps) -> Steps:
        """Return the old place of a new value; nowhere if it is new."""
        return self.matches.before.get(place, _NOWHERE)

    def fields(self, node: Mapping, new: dict[str, Any]) -> tuple[list[str], bool]:
        """Return the fields to be written out for a mapping, and whether its merge keys stay and bring the others."""
        sources = [entry.value for entry in node.entries if entry.merges]
        brought = merged(node)
        if not sources or not brought.keys() <= new.keys() or not all(map(self._aliases_hold, sources)):
            return list(new), False
        own = {entry.name for entry in node.entries}
        return [name for name in new if name in own or not same(brought.get(name, ABSENT), new[name])], True

    def slots(self, node: Mapping, names: list[str], place: Steps) -> list[list[str]]:
        """Return for each old field the new ones to be written at its place, its own first; the rest comes last."""
        around = self.before(place)
        index = {(*around, entry.name): at for at, entry in enumerate(node.entries) if not entry.merges}
        slots: list[list[str]] = [[] for _ in node.entries]
        for name in names:
            below = (*place, name)
            here = index.get(self.before(below))
            if here is not None:
                slots[here].insert(0, name)
                continue
            near = self.before(below) if below in self.matches.before else self.matches.beside.get(below, _NOWHERE)
            slots[index.get(near[: len(around) + 1], -1)].append(name)
        return slots

    def broken(self, lines: str) -> str:
        """Return new lines with the line breaks of the document."""
        return lines if self.style.newline == "\n" else lines.replace("\n", self.style.newline)

    def _aliases_hold(self, node: Node) -> bool:
        inner = list(_all(node))
        own = {id(each) for each in inner}
        return all(
            id(each.target) in own or self.can_say(each, data(each.target)) for each in inner if isinstance(each, Alias)
        )


def _all(node: Node) -> Iterator[Node]:
    """Yield a node and all in it, what merge keys refer to included."""
    yield node
    if isinstance(node, Mapping):
        for entry in node.entries:
            yield from _all(entry.value)
    elif isinstance(node, Sequence):
        for item in node.items:
            yield from _all(item)
