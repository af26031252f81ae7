"""Which objects are there, as conditions in generated code.

Four questions about the object around a field; the root is always there:

- ``shown_before``, ``shown_after``: is it in the source, will it be in the target: the second guard of stash entries;
- ``is_there``: will it be in the target even without fields that are only implied (constants, defaults);
- ``will_be_there``: what the way back will answer to ``is_there``, if the stash says nothing of implied fields.

Pure: writes text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from restow.conversion.compile.frame import Frame
from restow.conversion.compile.trie import Node
from restow.conversion.path import Path

__all__ = ["Presence"]


@dataclass(slots=True)
class Presence:
    """The answers for one scope. ``more`` has the variables that say whether an object has undeclared fields."""

    frame: Frame
    more: dict[Path, str] = field(default_factory=dict)

    def shown_before(self, node: Node) -> str:
        """Return the code of a tuple: are the objects from ``node`` outwards in the source?"""
        return self._outwards(node, self._was_there)

    def shown_after(self, node: Node) -> str:
        """Return the code of a tuple: are the objects from ``node`` outwards in the target? For the very end."""
        return self._outwards(node, self._is_left)

    def is_there(self, node: Node) -> str:
        """Return the condition that an object is in the target, all its fields put but those that are implied."""
        if node is self.frame.root:
            return "True"
        inner = [child for child in node.objects if child.put is None]
        required = self.frame.is_required(self.frame.target_schema, node)
        stays = (
            f"STAYS({node.old}, {self.frame.kept}, {node.address!r}, {self.frame.schema_of(node)}, "
            f"required={required}, bare={not self.frame.is_one_sided(node)})"
        )
        return _any([self._has_more(node, inner), *map(self.is_there, inner), stays])

    def observe(self, nodes: Iterable[Node]) -> None:
        """Write down what ``will_be_there`` has to know of these objects, before anything is put into them."""
        for node in nodes:
            if node is not self.frame.root and node.path not in self.more:
                self.more[node.path] = self.frame.writer.fresh("more")
                self.frame.writer(f"{self.more[node.path]} = {self._has_more(node, node.children.values())}")
                self.observe(child for child in node.objects if child.take is None)

    def will_be_there(self, node: Node) -> str:
        """Return the condition that the way back finds the object there. For the very end."""
        if node is self.frame.root:
            return "True"
        carried = [each for child in node.children.values() if (each := self.frame.carried.get(child.path))]
        inner = [self.will_be_there(child) for child in node.objects if child.take is None]
        return _any([self.more[node.path], *carried, *inner, self._will_stay(node)])

    def _will_stay(self, node: Node) -> str:
        """Return the condition that the way back leaves the object there even if nothing is left in it (``STAYS``)."""
        if node.put is not None or self._is_in_a_field(self.frame.parent(node)):
            return "False"
        filled = "True" if self.frame.is_required(self.frame.source_schema, node) else f"not {node.old}"
        return f"{node.new} is not None and ({filled} if {node.new} else {not self.frame.is_one_sided(node)})"

    def _has_more(self, node: Node, known: Iterable[Node]) -> str:
        names = frozenset(child.name for child in known)
        if not names:
            return f"bool({node.new})"
        constant = self.frame.writer.constant("names", names)
        return f"({node.new} is not None and not {node.new}.keys() <= {constant})"

    def _outwards(self, node: Node, ask: Callable[[Node], str]) -> str:
        answers = []
        while node is not self.frame.root:
            answers.append(ask(node))
            node = self.frame.parent(node)
        return f"({''.join(f'{answer}, ' for answer in answers)})"

    def _was_there(self, node: Node) -> str:
        return f"{node.value} is not A" if node.take is not None else f"isinstance({node.old}, dict)"

    def _is_left(self, node: Node) -> str:
        around = self.frame.parent(node)
        if self._is_in_a_field(around):
            return "False"
        return f"{node.new} is not None" if node.put is None else f"{node.name!r} in ({around.new} or ())"

    def _is_in_a_field(self, node: Node) -> bool:
        """Say whether the object is, or is in, what is a single field of the target."""
        return node is not self.frame.root and (node.put is not None or self._is_in_a_field(self.frame.parent(node)))


def _any(conditions: Iterable[str]) -> str:
    return f"({' or '.join(f'({each})' for each in conditions)})"
