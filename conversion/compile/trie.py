"""The objects that a set of rules passes through: claimed paths of both sides in one tree.

What no rule claims stays where it is, so both versions share one space of paths; a node is a field in it, taken by
a rule from the source, put by a rule into the target, or an object on the way to such fields. It may be a field of
one version and an object of the other.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from restow.conversion.path import Path, shown
from restow.conversion.rules.model import Constant, Default, Rule

__all__ = ["Claim", "Node"]

#: A rule (by identity) and which of its paths is meant.
Claim = tuple[Rule, int]


@dataclass(slots=True, eq=False)
class Node:
    """A field. ``value`` names the generated variable of what was taken; ``new`` and ``old`` those of an object: the
    copy that becomes the target's (None where there is none), and the source's own.
    """

    path: Path
    children: dict[str, Node] = field(default_factory=dict)
    take: Claim | None = None
    put: Claim | None = None
    value: str = ""
    new: str = ""
    old: str = ""

    @property
    def name(self) -> str:
        """The field's name in its object."""
        return self.path[-1]

    @property
    def address(self) -> str:
        """How the stash and messages write the field."""
        return shown(self.path)

    @property
    def objects(self) -> list[Node]:
        """The objects in this one that fields are taken from or put into."""
        return [child for child in self.children.values() if child.children]

    @property
    def in_place(self) -> bool:
        """Whether one rule reads and writes the field where it stands."""
        if self.take is None or self.put is None or self.take[0] is not self.put[0]:
            return False
        return not isinstance(self.take[0], Constant | Default)

    def reach(self, path: Path) -> Node:
        """Return the node of a path below this one, made if need be."""
        node = self
        for name in path:
            node = node.children.setdefault(name, Node((*node.path, name)))
        return node

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it."""
        yield self
        for child in self.children.values():
            yield from child.walk()
