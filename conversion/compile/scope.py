"""Generates the code that converts one object (the root, a list item, a map value) by a set of rules.

The shape of that code, in this order:

1. the objects on claimed paths are copied, shallowly; everything else is shared with the input;
2. claimed fields are taken out of the copies, and so are undeclared ones that are in the way of what will be put;
3. every rule computes and puts its fields, with what the stash kept of this version's own;
4. what is only implied is put into the objects that are there;
5. the copies are tied together: an object with fields is there, one that lost all of them goes (unless the target's
   schema requires it), one that was empty stays (unless only one of the versions declares it);
6. what the way back would not bring is lost, and goes to the stash; so does the state of an object that the way back
   would not leave as it was.

Pure: writes text.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from restow.conversion.compile.frame import Frame
from restow.conversion.compile.implied import Implied
from restow.conversion.compile.leaves import Leaves
from restow.conversion.compile.presence import Presence
from restow.conversion.compile.repeats import Repeat
from restow.conversion.compile.stage import Stage, paths
from restow.conversion.compile.trie import Node
from restow.conversion.rules.model import Constant, Default, Lens, Move, Private, Rule, Scope
from restow.crds import Schema

__all__ = ["write_scope"]

_ORDER: Final[tuple[type[Rule], ...]] = (Move, Lens, Scope, Private, Constant, Default)


class ScopeWriter(Frame):
    """The steps of a scope's code that need its whole tree of fields."""

    def write(self, rules: Sequence[Rule]) -> None:
        """Write the whole scope."""
        presence = Presence(self)
        leaves, implied = Leaves(self, presence), Implied(self, presence)
        self.writer(f"{self.root.new} = {{**{self.root.old}}}")
        self.writer(f"{self.lost} = None")
        self._load(self.root)
        self._take(self.root)
        self._clear(self.root, presence)
        implied.observe(rules)
        for rule in sorted(rules, key=lambda rule: _ORDER.index(type(rule))):
            self._write_rule(rule, leaves, implied, presence)
        self._restore(leaves, presence)
        implied.write_rest()
        self._tie(self.root, presence)
        for write in self.later:
            write()
        implied.lose()

    def _write_rule(self, rule: Rule, leaves: Leaves, implied: Implied, presence: Presence) -> None:
        match rule:
            case Move():
                leaves.write_move(rule)
            case Lens():
                leaves.write_lens(rule)
            case Scope():
                Repeat.of(self, rule, presence, write_scope).write()
            case Private():
                leaves.write_private(rule)
            case Constant():
                implied.write_constant(rule)
            case Default():
                implied.write_default(rule)

    def _load(self, node: Node) -> None:
        """Copy the objects of the source; one that is a single field there, or inside of one, is not."""
        for child in node.objects:
            child.new, child.old = self.writer.fresh("new", child.name), self.writer.fresh("old", child.name)
            if child.take is not None:
                self.writer(f"{child.new} = None")
                self.writer(f"{child.old} = A")
            else:
                there = "" if node is self.root else f" if {node.new} is not None else A"
                self.writer(f"{child.old} = {node.new}.get({child.name!r}, A){there}")
                self.writer(f"{child.new} = {{**{child.old}}} if isinstance({child.old}, dict) else None")
            self._load(child)

    def _take(self, node: Node) -> None:
        takes = [child for child in node.children.values() if child.take]
        for child in takes:
            child.value = self.writer.fresh("v", child.name)
        if takes and node is not self.root:
            with self.writer.block(f"if {node.new} is None:"):
                self.writer(" = ".join(child.value for child in takes) + " = A")
            with self.writer.block("else:"):
                self._take_each(node, takes)
        else:
            self._take_each(node, takes)
        for child in node.objects:
            if child.take is None:
                self._take(child)

    def _take_each(self, node: Node, takes: Sequence[Node]) -> None:
        for child in takes:
            verb = "get" if child.in_place else "pop"
            self.writer(f"{child.value} = {node.new}.{verb}({child.name!r}, A)")

    def _clear(self, node: Node, presence: Presence) -> None:
        """Take out what stands undeclared at a path that a rule is about to put something at."""
        for child in node.children.values():
            if child.put and not child.take:
                value = self.writer.fresh("v", child.name)
                if child.children:
                    self._clear_object(node, child, value)
                    around = presence.shown_after(child)
                else:
                    there = f" if {node.new} is not None else A" if node is not self.root else ""
                    self.writer(f"{value} = {node.new}.pop({child.name!r}, A){there}")
                    around = presence.shown_after(node)
                self.carried[child.path] = f"{value} is not A"
                self.later.append(partial(self._lose_undeclared, child, value, around))
            elif child.children and child.take is None:
                self._clear(child, presence)

    def _clear_object(self, node: Node, child: Node, value: str) -> None:
        """Take out what is left of an object that becomes a single field; nothing, if all of it was taken."""
        self._tie_inner(child)
        with self.writer.block(f"if {child.old} is A:"):
            self.writer(f"{value} = A")
        with self.writer.block("else:"):
            self.writer(f"del {node.new}[{child.name!r}]")
            self.writer(f"{value} = {child.old} if {child.new} is None else {child.new}")
            with self.writer.block(f"if not {value} and {child.old} and {child.new} is not None:"):
                self.writer(f"{value} = A")

    def _tie_inner(self, node: Node) -> None:
        for child in node.objects:
            self._tie_inner(child)
            with self.writer.block(f"if {child.new}:"):
                self.writer(f"{node.new}[{child.name!r}] = {child.new}")
            with self.writer.block(f"elif {child.old} and {child.new} is not None:"):
                self.writer(f"del {node.new}[{child.name!r}]")

    def _lose_undeclared(self, node: Node, value: str, around: str) -> None:
        with self.writer.block(f"if {value} is not A:"):
            self.lose(node.address, f"LEAF({value}, {around})")

    def _restore(self, leaves: Leaves, presence: Presence) -> None:
        """Bring back what stood undeclared in the way of a field that has been taken now."""
        for node in self.root.walk() if self.has_kept else ():
            if node.take is None or node.put is not None:
                continue
            if not node.children:
                leaves.restore(node)
                continue
            entry = self.writer.fresh("entry")
            self.writer(f"{entry} = KEPT_LEAF({self.kept}, {node.address!r}, {self.schema_of(node)})")
            shown = f"IS_SHOWN({entry}, {presence.shown_before(node)})"
            with self.writer.block(f"if {entry} is not None and 'is' in {entry} and {shown}:"):
                self._restore_object(node, f"{entry}['is']")

    def _restore_object(self, node: Node, value: str) -> None:
        with self.writer.block(f"if isinstance({value}, dict):"):
            self._merge(node, value)
            with self.writer.block(f"if not {node.new}:"):
                self.put(node, "{}")
        with self.writer.block(f"elif {node.new} is None:"):
            self.put(node, value)

    def _merge(self, node: Node, value: str) -> None:
        self.writer(f"{node.new} = {{**{value}, **({node.new} or {{}})}}")
        for child in node.objects:
            inner = self.writer.fresh("inner")
            self.writer(f"{inner} = {value}.get({child.name!r})")
            with self.writer.block(f"if isinstance({inner}, dict):"):
                self._merge(child, inner)

    def _tie(self, node: Node, presence: Presence) -> None:
        """Tie the copies below `node` to it, inmost first; afterwards `new` is None of those that are not there."""
        for child in node.objects:
            if child.put is not None:
                continue  # an object of the source, a field of the target: put already
            self._tie(child, presence)
            bare = self._loses_bare(child, presence)
            with self.writer.block(f"if {child.new}:"):
                self.ensure(node)
                self.writer(f"{node.new}[{child.name!r}] = {child.new}")
            if child.take is None:
                with self.writer.block(f"elif {child.old} and {child.new} is not None:"):
                    self._drop_emptied(node, child)
                if bare:
                    self._drop_bare(node, child, bare, presence)
                self.later.append(partial(self._note, child))

    def _drop_emptied(self, node: Node, child: Node) -> None:
        required, schema = self.is_required(self.target_schema, child), self.schema_of(child)
        rest = self.writer.fresh("rest")
        self.writer(f"{rest} = EMPTIED({self.kept}, {child.address!r}, {schema}, required={required})")
        with self.writer.block(f"if {rest} is A:"):
            self.writer(f"del {node.new}[{child.name!r}]")
        with self.writer.block("else:"):
            self.writer(f"{node.new}[{child.name!r}] = {rest}")
        with self.writer.block(f"if not isinstance({rest}, dict):"):
            self.writer(f"{child.new} = None")

    def _loses_bare(self, child: Node, presence: Presence) -> str | None:
        """Prepare for an object that is null or empty where only one of the versions declares it."""
        if child.take is not None or not self.is_one_sided(child):
            return None
        bare = self.writer.fresh("bare")
        self.writer(f"{bare} = A")
        self.later.append(partial(self._lose_undeclared, child, bare, presence.shown_after(child)))
        return bare

    def _drop_bare(self, node: Node, child: Node, bare: str, presence: Presence) -> None:
        with self.writer.block(f"elif {child.old} is not A:"):
            self.writer(f"{bare} = {child.old}")
            self.writer(f"del {node.new}[{child.name!r}]")
            self.writer(f"{child.new} = None")
        if not self.has_kept:
            return
        with self.writer.block(f"elif {self.kept}:"):
            entry = self.writer.fresh("entry")
            self.writer(f"{entry} = KEPT_LEAF({self.kept}, {child.address!r}, {self.schema_of(child)})")
            shown = f"'is' in {entry} and IS_SHOWN({entry}, {presence.shown_before(child)})"
            with self.writer.block(f"if {entry} is not None and {shown}:"):
                self.writer(f"{child.new} = {{}} if isinstance({entry}['is'], dict) else None")
                self.ensure(node)
                self.writer(f"{node.new}[{child.name!r}] = {entry}['is'] if {child.new} is None else {child.new}")

    def _note(self, child: Node) -> None:
        """Write that the state of an object that fields were put into goes to the stash, if need be."""
        with self.writer.block(f"if {child.new} and (not {child.old} or not isinstance({child.old}, dict)):"):
            entry = self.writer.fresh("entry")
            required = self.is_required(self.source_schema, child)
            self.writer(f"{entry} = NOTE({child.old}, required={required})")
            with self.writer.block(f"if {entry} is not None:"):
                self.lose(child.address, entry)


def write_scope(
    stage: Stage,
    rules: Sequence[Rule],
    *,
    old: str,
    kept: str,
    source_schema: Schema | None,
    target_schema: Schema | None,
) -> tuple[str, str]:
    """Write the code that converts the object in the variable `old`; return the variables of the result and the loss.

    `kept` is the variable of what the stash has for this object, or `NOTHING_KEPT`.
    """
    root = Node(())
    root.old, root.new = old, stage.writer.fresh("new")
    for rule in rules:
        for index, path in enumerate(paths(rule, stage.source_side)):
            root.reach(path).take = (rule, index)
        for index, path in enumerate(paths(rule, stage.target_side)):
            root.reach(path).put = (rule, index)
    scope = ScopeWriter(
        stage=stage,
        root=root,
        kept=kept,
        lost=stage.writer.fresh("lost"),
        source_schema=source_schema,
        target_schema=target_schema,
    )
    scope.write(rules)
    return root.new, scope.lost
