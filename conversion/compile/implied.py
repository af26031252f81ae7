"""Generates the code of fields that an object implies: constants and defaults.

What is said comes first: a value that is there, or that the stash has. Then, when all else has been put, what is only
implied goes into the objects that are there. A field goes to the stash unless the way back will imply it as it was.

Pure: writes text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from restow.conversion.compile.frame import Frame
from restow.conversion.compile.leaves import Leaves
from restow.conversion.compile.presence import Presence
from restow.conversion.compile.trie import Node
from restow.conversion.path import starts_with
from restow.conversion.rules.model import Constant, Default, Rule

__all__ = ["Implied"]


@dataclass(slots=True)
class _Put:
    """A field to be implied: the place, the code of its value, and the variable that says that it was settled."""

    node: Node
    value: str
    is_said: str


@dataclass(slots=True)
class _Take:
    """A field that the way back may imply: the place, its value, and the condition that the target says nothing."""

    node: Node
    value: Any
    is_silent: str


@dataclass(slots=True)
class Implied:
    """Writes these rules for one scope."""

    frame: Frame
    presence: Presence
    leaves: Leaves
    _puts: list[_Put] = field(default_factory=list)
    _takes: list[_Take] = field(default_factory=list)

    def observe(self, rules: Sequence[Rule]) -> None:
        """Write down what has to be known of the source before anything is put."""
        implied = [rule for rule in rules if isinstance(rule, Constant | Default)]
        self.presence.observe(self.frame.parent(node) for rule in implied for node in self.frame.takes(rule))

    def write_constant(self, rule: Constant) -> None:
        """Write that an implied field goes, or what the stash says of one that may be implied."""
        value = self.frame.writer.literal(rule.value)
        for node in self.frame.takes(rule):
            self._takes.append(_Take(node, rule.value, "True"))
            self.frame.carried[node.path] = f"not ({node.value} is A or {self._is(node.value, rule.value)})"
        for node in self.frame.puts(rule):
            entry = self.leaves.recalled(node) if self.frame.has_kept else None
            if entry:
                with self.frame.writer.block(f"if {entry} is not None and 'is' in {entry}:"):
                    self.frame.put(node, f"{entry}['is']")
            self._puts.append(_Put(node, value, f"{entry} is not None" if entry else "False"))

    def write_default(self, rule: Default) -> None:
        """Write that a value that is said goes up and down, but for the default going down."""
        (take,), (put,) = self.frame.takes(rule), self.frame.puts(rule)
        w, value, target = self.frame.writer, self.frame.writer.literal(rule.value), self.frame.writer.fresh("t")
        entry = self.leaves.recalled(put) if self.frame.has_kept else None
        if self.frame.stage.direction == "up":
            w(f"{target} = {take.value}")
            if entry:
                said = self._is(f"{entry}['is']", rule.value)
                with w.block(f"if {entry} is not None and {target} is A and 'is' in {entry} and {said}:"):
                    w(f"{target} = {value}")
            self.frame.carried[take.path] = f"{take.value} is not A"
            self._puts.append(_Put(put, value, f"({target} is not A{f' or {entry} is not None' if entry else ''})"))
            self.frame.later.append(partial(self._lose_spelled_out, rule, take))
        else:
            w(f"{target} = A if {self._is(take.value, rule.value)} else {take.value}")
            if entry:
                said = f"'is' in {entry} and SAME({entry}['is'], {take.value})"
                with w.block(f"if {entry} is not None and {said}:"):
                    w(f"{target} = {take.value}")
            self.frame.carried[take.path] = f"{target} is not A"
            self._takes.append(_Take(take, rule.value, f"{target} is A"))
        self.frame.put_present(put, target)

    def write_rest(self) -> None:
        """Write that what nobody has said is implied, in the objects that are there by now."""
        w = self.frame.writer
        there: dict[str, str] = {}
        for parent in [self.frame.parent(put.node) for put in self._puts]:
            if parent is not self.frame.root and parent.address not in there:
                there[parent.address] = w.fresh("there")
                w(f"{there[parent.address]} = {self.presence.is_there(parent)}")
        for put in self._puts:
            parent = self.frame.parent(put.node)
            is_there = f" and {there[parent.address]}" if parent is not self.frame.root else ""
            with w.block(f"if not {put.is_said}{is_there}:"):
                self.frame.put(put.node, put.value)

    def lose(self) -> None:
        """Write, at the end, that what the way back would not imply as it was goes to the stash."""
        w = self.frame.writer
        there: dict[str, str] = {}
        for parent in [self.frame.parent(take.node) for take in self._takes]:
            if parent is not self.frame.root and parent.address not in there:
                there[parent.address] = w.fresh("there")
                w(f"{there[parent.address]} = {self.presence.will_be_there(parent)}")
        for take in self._takes:
            parent = self.frame.parent(take.node)
            implied = self._is(take.node.value, take.value)
            condition = f"not {implied}"
            if parent is not self.frame.root:
                is_there = there[parent.address]
                absent = f"{is_there} or {self._is_said(parent)}"
                said = f"({absent}) if {take.node.value} is A else not ({is_there} and {implied})"
                condition = f"isinstance({parent.old}, dict) and ({said})"
            with w.block(f"if {take.is_silent} and {condition}:"):
                self.frame.lose(take.node.address, f"LEAF({take.node.value}, {self.presence.shown_after(parent)})")

    def _is_said(self, parent: Node) -> str:
        """Return the condition that the stash will say something of a field in an object not there otherwise."""
        within = [take.node.value for take in self._takes if starts_with(take.node.path, parent.path)]
        return f"({' or '.join(f'{value} is not A' for value in within)})"

    def _lose_spelled_out(self, rule: Default, take: Node) -> None:
        """Write that a default that was spelled out goes to the stash: the way back leaves it out."""
        with self.frame.writer.block(f"if {self._is(take.value, rule.value)}:"):
            around = self.presence.shown_after(self.frame.parent(take))
            self.frame.lose(take.address, f"LEAF({take.value}, {around})")

    def _is(self, variable: str, value: Any) -> str:
        """Return the condition that a variable is this value, as JSON means it."""
        if value is None or isinstance(value, bool):
            return f"{variable} is {value}"
        literal = self.frame.writer.literal(value)
        return f"{variable} == {literal}" if isinstance(value, str) else f"SAME({variable}, {literal})"
