"""Generates the code of the objects around fields: copied first, tied together last.

An object with fields is present. An object that lost all fields is removed, unless the target's schema requires it. An
object that was empty or null stays, unless only one of the versions declares it. If the way back by these rules would
change an object, its state goes to the stash. `ObjectPresence` writes the conditions: whether an object is in the
source, in the target, and in the result of the way back.

Pure: writes text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from restow.conversion.compile.codegen import PathNode, ScopeBuilder, SourceWriter
from restow.conversion.model.fieldpath import Path


@dataclass(slots=True)
class ObjectPresence:
    """The conditions for one scope. ``more`` has the variables that tell whether an object has undeclared fields."""

    frame: ScopeBuilder
    more: dict[Path, str] = field(default_factory=dict)

    def shown_before(self, node: PathNode) -> str:
        """Return the code of a tuple: are the objects from ``node`` outwards in the source?"""
        return self._outwards(node, self._was_there)

    def shown_after(self, node: PathNode) -> str:
        """Return the code of a tuple: are the objects from ``node`` outwards in the target? Valid only at the end."""
        return self._outwards(node, self._is_left)

    def is_there(self, node: PathNode) -> str:
        """Return the condition that an object is in the target when all except the implied fields are put."""
        if node is self.frame.root:
            return "True"
        inner = [child for child in node.objects if child.put is None]
        required = self.frame.is_required(self.frame.target_schema, node)
        stays = (
            f"STAYS({node.old}, {self.frame.kept}, {node.address!r}, {self.frame.schema_of(node)}, "
            f"required={required}, bare={not self.frame.is_one_sided(node)})"
        )
        return _any([self._has_more(node, inner), *map(self.is_there, inner), stays])

    def observe(self, nodes: Iterable[PathNode]) -> None:
        """Write code that records the state that ``will_be_there`` needs, before anything is put into the objects."""
        for node in nodes:
            if node is not self.frame.root and node.path not in self.more:
                self.more[node.path] = self.frame.writer.fresh("more")
                self.frame.writer(f"{self.more[node.path]} = {self._has_more(node, node.children.values())}")
                self.observe(child for child in node.objects if child.take is None)

    def will_be_there(self, node: PathNode) -> str:
        """Return the condition that the way back finds the object there. Valid only at the end."""
        if node is self.frame.root:
            return "True"
        carried = [each for child in node.children.values() if (each := self.frame.carried.get(child.path))]
        inner = [self.will_be_there(child) for child in node.objects if child.take is None]
        return _any([self.more[node.path], *carried, *inner, self._will_stay(node)])

    def _will_stay(self, node: PathNode) -> str:
        """Return the condition that the way back keeps the object even if it becomes empty (``STAYS``)."""
        if node.put is not None or self._is_in_a_field(self.frame.parent(node)):
            return "False"
        filled = "True" if self.frame.is_required(self.frame.source_schema, node) else f"not {node.old}"
        return f"{node.new} is not None and ({filled} if {node.new} else {not self.frame.is_one_sided(node)})"

    def _has_more(self, node: PathNode, known: Iterable[PathNode]) -> str:
        names = frozenset(child.name for child in known)
        if not names:
            return f"bool({node.new})"
        constant = self.frame.writer.constant("names", names)
        return f"({node.new} is not None and not {node.new}.keys() <= {constant})"

    def _outwards(self, node: PathNode, ask: Callable[[PathNode], str]) -> str:
        answers = []
        while node is not self.frame.root:
            answers.append(ask(node))
            node = self.frame.parent(node)
        return f"({''.join(f'{answer}, ' for answer in answers)})"

    def _was_there(self, node: PathNode) -> str:
        return f"{node.value} is not A" if node.take is not None else f"isinstance({node.old}, dict)"

    def _is_left(self, node: PathNode) -> str:
        around = self.frame.parent(node)
        if self._is_in_a_field(around):
            return "False"
        return f"{node.new} is not None" if node.put is None else f"{node.name!r} in ({around.new} or ())"

    def _is_in_a_field(self, node: PathNode) -> bool:
        """Return whether the object is, or is inside of, a single field of the target."""
        return node is not self.frame.root and (node.put is not None or self._is_in_a_field(self.frame.parent(node)))


def _any(conditions: Iterable[str]) -> str:
    return f"({' or '.join(f'({each})' for each in conditions)})"


@dataclass(slots=True)
class ParentObjects:
    """Writes the code of the objects around fields for one scope."""

    frame: ScopeBuilder
    presence: ObjectPresence

    def copy(self, node: PathNode) -> None:
        """Write code that copies the objects of the source, except those that are, or are inside of, a single field."""
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

    def tie(self, node: PathNode) -> None:
        """Write code that ties the copies to ``node``, innermost first.

        Afterwards ``new`` is None for objects that are missing.
        """
        for child in node.objects:
            if child.put is not None:
                continue  # an object of the source that is a field of the target: it is already put
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

    def _drop_emptied(self, node: PathNode, child: PathNode) -> None:
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

    def _bare(self, child: PathNode) -> str | None:
        """Write code for an object that is null or empty and that only one of the versions declares."""
        if child.take is not None or not self.frame.is_one_sided(child):
            return None
        bare = self._writer.fresh("bare")
        self._writer(f"{bare} = A")
        self.frame.lose_later(child, bare, self.presence.shown_after(child))
        return bare

    def _drop_bare(self, node: PathNode, child: PathNode, bare: str) -> None:
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

    def _note(self, child: PathNode) -> None:
        """Write code that stashes the state of an object that fields were put into, if needed."""
        with self._writer.block(f"if {child.new} and (not {child.old} or not isinstance({child.old}, dict)):"):
            entry = self._writer.fresh("entry")
            required = self.frame.is_required(self.frame.source_schema, child)
            self._writer(f"{entry} = NOTE({child.old}, required={required})")
            with self._writer.block(f"if {entry} is not None:"):
                self.frame.lose(child.address, entry)

    @property
    def _writer(self) -> SourceWriter:
        return self.frame.writer
