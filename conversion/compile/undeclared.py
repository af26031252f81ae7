"""Generates the code for what stands undeclared in the way: at a path where a rule is about to put something.

It is taken out first, goes to the stash, and comes back when the field that took its place is taken again. Where an
object becomes a single field, what is left of it is in the way as a whole.

Pure: writes text.
"""

from __future__ import annotations

from dataclasses import dataclass

from restow.conversion.compile.frame import Frame
from restow.conversion.compile.leaves import Leaves
from restow.conversion.compile.presence import Presence
from restow.conversion.compile.trie import Node
from restow.conversion.compile.writer import Writer

__all__ = ["Undeclared"]


@dataclass(slots=True)
class Undeclared:
    """Writes this for one scope."""

    frame: Frame
    presence: Presence
    leaves: Leaves

    def clear(self, node: Node) -> None:
        """Write that it is taken out, below ``node``."""
        for child in node.children.values():
            if child.put and not child.take:
                value = self._writer.fresh("v", child.name)
                if child.children:
                    self._clear_object(node, child, value)
                    around = self.presence.shown_after(child)
                else:
                    there = f" if {node.new} is not None else A" if node is not self.frame.root else ""
                    self._writer(f"{value} = {node.new}.pop({child.name!r}, A){there}")
                    around = self.presence.shown_after(node)
                self.frame.carried[child.path] = f"{value} is not A"
                self.frame.lose_later(child, value, around)
            elif child.children and child.take is None:
                self.clear(child)

    def _clear_object(self, node: Node, child: Node, value: str) -> None:
        """Write that what is left of an object is taken out; nothing, if all of it was taken."""
        self._tie(child)
        with self._writer.block(f"if {child.old} is A:"):
            self._writer(f"{value} = A")
        with self._writer.block("else:"):
            self._writer(f"del {node.new}[{child.name!r}]")
            self._writer(f"{value} = {child.old} if {child.new} is None else {child.new}")
            with self._writer.block(f"if not {value} and {child.old} and {child.new} is not None:"):
                self._writer(f"{value} = A")

    def _tie(self, node: Node) -> None:
        for child in node.objects:
            self._tie(child)
            with self._writer.block(f"if {child.new}:"):
                self._writer(f"{node.new}[{child.name!r}] = {child.new}")
            with self._writer.block(f"elif {child.old} and {child.new} is not None:"):
                self._writer(f"del {node.new}[{child.name!r}]")

    def restore(self) -> None:
        """Write that it comes back where the field in its place has been taken."""
        for node in self.frame.root.walk() if self.frame.has_kept else ():
            if node.take is None or node.put is not None:
                continue
            if not node.children:
                self.leaves.restore(node)
                continue
            entry = self._writer.fresh("entry")
            arguments = f"{self.frame.kept}, {node.address!r}, {self.frame.schema_of(node)}"
            self._writer(f"{entry} = KEPT_LEAF({arguments})")
            shown = f"IS_SHOWN({entry}, {self.presence.shown_before(node)})"
            with self._writer.block(f"if {entry} is not None and 'is' in {entry} and {shown}:"):
                self._restore_object(node, f"{entry}['is']")

    def _restore_object(self, node: Node, value: str) -> None:
        with self._writer.block(f"if isinstance({value}, dict):"):
            self._merge(node, value)
            with self._writer.block(f"if not {node.new}:"):
                self.frame.put(node, "{}")
        with self._writer.block(f"elif {node.new} is None:"):
            self.frame.put(node, value)

    def _merge(self, node: Node, value: str) -> None:
        self._writer(f"{node.new} = {{**{value}, **({node.new} or {{}})}}")
        for child in node.objects:
            inner = self._writer.fresh("inner")
            self._writer(f"{inner} = {value}.get({child.name!r})")
            with self._writer.block(f"if isinstance({inner}, dict):"):
                self._merge(child, inner)

    @property
    def _writer(self) -> Writer:
        return self.frame.writer
