"""Generates the code of the objects on the way to fields: copied at first, tied together in the end.

An object with fields is there; one that lost all of them goes, unless the target's schema requires it; one that was
empty or null stays, unless only one of the versions declares it. Where the way back would not leave an object as it was
by these rules, its state goes to the stash.

Pure: writes text.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from restow.conversion.compile.frame import Frame
from restow.conversion.compile.presence import Presence
from restow.conversion.compile.trie import Node
from restow.conversion.compile.writer import Writer

__all__ = ["Objects"]


@dataclass(slots=True)
class Objects:
    """Writes this for one scope."""

    frame: Frame
    presence: Presence

    def copy(self, node: Node) -> None:
        """Write that the objects of the source are copied; what is a single field there, or inside of one, is none."""
        for child in node.objects:
            child.new, child.old = self._writer.fresh("new", child.name), self._writer.fresh("old", child.name)
            if child.take is not None:
                self._writer(f"{child.new} = None")
                self._writer(f"{child.old} = A")
            else:
                there = "" if node is self.frame.root else f" if {node.new} is not None else A"
                self._writer(f"{child.old} = {node.new}.get({child.name!r}, A){there}")
                self._writer(f"{child.new} = {{**{child.old}}} if isinstance({child.old}, dict) else None")
            self.copy(child)

    def tie(self, node: Node) -> None:
        """Write that the copies are tied to ``node``, inmost first.

        Then ``new`` is None of those that are not there.
        """
        for child in node.objects:
            if child.put is not None:
                continue  # an object of the source, a field of the target: put already
            self.tie(child)
            bare = self._bare(child)
            with self._writer.block(f"if {child.new}:"):
                self.frame.ensure(node)
                self._writer(f"{node.new}[{child.name!r}] = {child.new}")
            if child.take is None:
                with self._writer.block(f"elif {child.old} and {child.new} is not None:"):
                    self._drop_emptied(node, child)
                if bare:
                    self._drop_bare(node, child, bare)
                self.frame.later.append(partial(self._note, child))

    def _drop_emptied(self, node: Node, child: Node) -> None:
        required = self.frame.is_required(self.frame.target_schema, child)
        rest = self._writer.fresh("rest")
        arguments = f"{self.frame.kept}, {child.address!r}, {self.frame.schema_of(child)}, required={required}"
        self._writer(f"{rest} = EMPTIED({arguments})")
        with self._writer.block(f"if {rest} is A:"):
            self._writer(f"del {node.new}[{child.name!r}]")
        with self._writer.block("else:"):
            self._writer(f"{node.new}[{child.name!r}] = {rest}")
        with self._writer.block(f"if not isinstance({rest}, dict):"):
            self._writer(f"{child.new} = None")

    def _bare(self, child: Node) -> str | None:
        """Prepare for an object that is null or empty where only one of the versions declares it."""
        if child.take is not None or not self.frame.is_one_sided(child):
            return None
        bare = self._writer.fresh("bare")
        self._writer(f"{bare} = A")
        self.frame.lose_later(child, bare, self.presence.shown_after(child))
        return bare

    def _drop_bare(self, node: Node, child: Node, bare: str) -> None:
        w = self._writer
        with w.block(f"elif {child.old} is not A:"):
            w(f"{bare} = {child.old}")
            w(f"del {node.new}[{child.name!r}]")
            w(f"{child.new} = None")
        if not self.frame.has_kept:
            return
        with w.block(f"elif {self.frame.kept}:"):
            entry = w.fresh("entry")
            w(f"{entry} = KEPT_LEAF({self.frame.kept}, {child.address!r}, {self.frame.schema_of(child)})")
            shown = f"'is' in {entry} and IS_SHOWN({entry}, {self.presence.shown_before(child)})"
            with w.block(f"if {entry} is not None and {shown}:"):
                w(f"{child.new} = {{}} if isinstance({entry}['is'], dict) else None")
                self.frame.ensure(node)
                w(f"{node.new}[{child.name!r}] = {entry}['is'] if {child.new} is None else {child.new}")

    def _note(self, child: Node) -> None:
        """Write that the state of an object that fields were put into goes to the stash, if need be."""
        with self._writer.block(f"if {child.new} and (not {child.old} or not isinstance({child.old}, dict)):"):
            entry = self._writer.fresh("entry")
            required = self.frame.is_required(self.frame.source_schema, child)
            self._writer(f"{entry} = NOTE({child.old}, required={required})")
            with self._writer.block(f"if {entry} is not None:"):
                self.frame.lose(child.address, entry)

    @property
    def _writer(self) -> Writer:
        return self.frame.writer
