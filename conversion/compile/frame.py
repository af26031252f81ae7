"""One scope of generated code under construction, and the pieces of code that several kinds of rules need.

Pure: writes text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from restow.conversion.compile.stage import Stage, paths
from restow.conversion.compile.trie import Node
from restow.conversion.compile.writer import Writer
from restow.conversion.path import Path
from restow.conversion.rules.model import Rule
from restow.crds import Schema
from restow.crds.schema import schema_at

__all__ = ["NOTHING_KEPT", "Frame"]

#: The variable of what the stash has, where the code is written for objects without one.
NOTHING_KEPT: Final = "None"


@dataclass(slots=True, kw_only=True)
class Frame:
    """One scope: its tree of fields, its schemas, and the variables of what the stash has and what gets lost.

    ``carried`` has, by path, the condition that the way back brings that field of the source, whatever is implied.
    ``later`` writes what goes to the stash; it is called when it is known which objects the target has.
    """

    stage: Stage
    root: Node
    kept: str
    lost: str
    source_schema: Schema | None
    target_schema: Schema | None
    carried: dict[Path, str] = field(default_factory=dict)
    later: list[Callable[[], None]] = field(default_factory=list)

    @property
    def writer(self) -> Writer:
        """Where the code goes."""
        return self.stage.writer

    @property
    def has_kept(self) -> bool:
        """Whether the code is for objects that may have a stash."""
        return self.kept != NOTHING_KEPT

    def takes(self, rule: Rule) -> list[Node]:
        """Return the fields of the source that a rule claims."""
        return [self.root.reach(path) for path in paths(rule, self.stage.source_side)]

    def puts(self, rule: Rule) -> list[Node]:
        """Return the fields of the target that a rule claims."""
        return [self.root.reach(path) for path in paths(rule, self.stage.target_side)]

    def parent(self, node: Node) -> Node:
        """Return the object around a field."""
        return self.root.reach(node.path[:-1])

    def lose(self, address: str, entry: str) -> None:
        """Write that something goes to the stash."""
        with self.writer.block(f"if {self.lost} is None:"):
            self.writer(f"{self.lost} = {{}}")
        self.writer(f"{self.lost}[{address!r}] = {entry}")

    def lose_later(self, node: Node, value: str, around: str) -> None:
        """Write, at the end, that a value of the source goes to the stash if there is one.

        ``around`` is the code of a tuple: are the objects around it in the target? (``Presence.shown_after``)
        """
        self.later.append(partial(self._lose_present, node.address, value, around))

    def _lose_present(self, address: str, value: str, around: str) -> None:
        with self.writer.block(f"if {value} is not A:"):
            self.lose(address, f"LEAF({value}, {around})")

    def put(self, node: Node, value: str) -> None:
        """Write that a value goes to a place of the target; the object around it is made if need be."""
        parent = self.parent(node)
        self.ensure(parent)
        self.writer(f"{parent.new}[{node.name!r}] = {value}")

    def put_present(self, node: Node, value: str) -> None:
        """Write that a value goes to its place if there is one, and that the place is empty if not."""
        with self.writer.block(f"if {value} is not A:"):
            self.put(node, value)
        if node.in_place and value != node.value:
            with self.writer.block(f"elif {node.value} is not A:"):
                self.writer(f"del {self.parent(node).new}[{node.name!r}]")

    def ensure(self, node: Node) -> None:
        """Write that an object of the target is there."""
        if node is not self.root:
            with self.writer.block(f"if {node.new} is None:"):
                self.writer(f"{node.new} = {{}}")

    def schema_of(self, node: Node) -> str:
        """Return the name of the target's schema of a field."""
        return self.writer.constant("schema", schema_at(self.target_schema, node.path))

    @staticmethod
    def is_required(schema: Schema | None, node: Node) -> bool:
        """Say whether the schema requires the field at the node of the object around it."""
        around = schema_at(schema, node.path[:-1])
        return around is not None and node.name in around.required

    def is_one_sided(self, node: Node) -> bool:
        """Say whether only one of the versions declares the field at the node; False if a schema is unknown."""
        if self.source_schema is None or self.target_schema is None:
            return False
        return (schema_at(self.source_schema, node.path) is None) != (schema_at(self.target_schema, node.path) is None)
