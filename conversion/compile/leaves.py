"""Generates the code of rules over single fields and groups of leaves.

Pure: writes text.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from restow.conversion.compile.frame import Frame
from restow.conversion.compile.lens import LensStep
from restow.conversion.compile.presence import Presence
from restow.conversion.compile.trie import Node
from restow.conversion.compile.writer import Writer
from restow.conversion.path import pointer
from restow.conversion.rules.model import Lens, Move, Private

__all__ = ["Leaves"]


@dataclass(slots=True)
class Leaves:
    """Writes these rules for one scope."""

    frame: Frame
    presence: Presence

    def write_move(self, rule: Move) -> None:
        """Write that a value goes from one place to the other."""
        (take,), (put,) = self.frame.takes(rule), self.frame.puts(rule)
        self.frame.carried[take.path] = f"{take.value} is not A"
        self.frame.put_present(put, take.value)

    def write_private(self, rule: Private) -> None:
        """Write that a field without a counterpart goes to the stash, or comes back from it, unless it is dropped."""
        if rule.acknowledge is not None:
            return
        for node in self.frame.takes(rule):
            self.frame.carried[node.path] = f"{node.value} is not A"
            self.frame.lose_later(node, node.value, self._around_after(node))
        for node in self.frame.puts(rule):
            self.restore(node)

    def restore(self, node: Node) -> None:
        """Write that a field comes back from the stash."""
        if self.frame.has_kept:
            entry = self.recalled(node)
            with self._writer.block(f"if {entry} is not None and 'is' in {entry}:"):
                self.frame.put(node, f"{entry}['is']")

    def recalled(self, node: Node) -> str:
        """Write that what the stash has for a field of the target is read; return the variable, None if it is void."""
        entry = self._writer.fresh("entry")
        around = self.presence.shown_before(self.frame.parent(node))
        self._writer(f"{entry} = None")
        with self._writer.block(f"if {self.frame.kept}:"):
            self._writer(f"{entry} = KEPT_LEAF({self.frame.kept}, {node.address!r}, {self.frame.schema_of(node)})")
            with self._writer.block(f"if {entry} is not None and not IS_SHOWN({entry}, {around}):"):
                self._writer(f"{entry} = None")
        return entry

    def write_lens(self, rule: Lens) -> None:
        """Write that functions convert a group of leaves, by a shortcut where nothing can be lost."""
        takes, puts = self.frame.takes(rule), self.frame.puts(rule)
        value, target, entry = self._packed(rule, takes), self._writer.fresh("t"), self._writer.fresh("entry")
        direction = self.frame.stage.direction
        step = LensStep.of(
            rule, direction, tuple(node.path for node in puts), self.frame.target_schema, puts[0].address
        )
        self.frame.carried |= {
            node.path: f"{node.value if step.inverse is not None else target} is not A" for node in takes
        }
        self._writer(f"{entry} = None")
        unless = f" and not {self.frame.kept}" if self.frame.has_kept else ""
        with self._writer.block(f"if {value} is A{unless}:"):
            self._writer(f"{target} = A")
        fast = self._fast(rule, value, target)
        if fast:
            condition, line = fast
            with self._writer.block(f"elif {condition}{unless}:"):
                self._writer(line)
        with self._writer.block("else:"):
            self._call(rule, step, takes[0], puts[0], value, target, entry)
        self._put_all(step, puts, target)
        self.frame.later.append(partial(self._lose_entry, takes[0], entry))

    def _lose_entry(self, node: Node, entry: str) -> None:
        with self._writer.block(f"if {entry} is not None:"):
            guarded = f"WITH_GONE({entry}, {self._around_after(node)})"
            self.frame.lose(node.address, f"{entry} if 'shown' in {entry} else {guarded}")

    def _put_all(self, step: LensStep, puts: list[Node], target: str) -> None:
        if step.gives == "value":
            self.frame.put_present(puts[0], target)
            return
        names = [self._writer.fresh("t") for _ in puts]
        if step.gives == "leaves":
            with self._writer.block(f"if {target} is A:"):
                self._writer(f"{' = '.join(names)} = A")
            with self._writer.block("else:"):
                for name, leaf in zip(names, step.leaves, strict=True):
                    self._writer(f"{name} = {target}.get({leaf!r}, A)")
        else:
            self._writer(f"{', '.join(names)}, = {self._writer.constant('unpacked', step.unpacked)}({target})")
        for node, name in zip(puts, names, strict=True):
            self.frame.put_present(node, name)

    def _packed(self, rule: Lens, takes: list[Node]) -> str:
        packing = rule.packing(self.frame.stage.source_side)
        if packing == "value":
            return takes[0].value
        value = self._writer.fresh("v")
        if packing == "tree":
            where = tuple(node.path for node in takes)
            self._writer(f"{value} = TREE({where!r}, {', '.join(node.value for node in takes)})")
            return value
        self._writer(f"{value} = {{}}")
        for leaf, node in zip(rule.claims(self.frame.stage.source_side), takes, strict=True):
            with self._writer.block(f"if {node.value} is not A:"):
                self._writer(f"{value}[{leaf!r}] = {node.value}")
        with self._writer.block(f"if not {value}:"):
            self._writer(f"{value} = A")
        return value

    def _fast(self, rule: Lens, value: str, target: str) -> tuple[str, str] | None:
        if rule.exact is not None:
            table = self._writer.constant("table", rule.exact[self.frame.stage.direction])
            return f"{value}.__class__ is str and ({target} := {table}.get({value})) is not None", "pass"
        if rule.singleton == self.frame.stage.target_side:
            return f"{value} is not None", f"{target} = [{value}]"
        if rule.singleton == self.frame.stage.source_side:
            one = f"isinstance({value}, list) and len({value}) == 1 and {value}[0] is not None"
            return one, f"{target} = {value}[0]"
        return None

    def _call(self, rule: Lens, step: LensStep, place: Node, put: Node, value: str, target: str, entry: str) -> None:
        """Call the functions right away where the stash has no say; ``LensStep`` does what is left."""
        w = self._writer
        name, forward = w.constant("step", step), w.constant("function", step.forward)
        with w.block("try:"):
            reads = self.frame.stage.reads(rule.reads, self.frame.root.old)
            if self.frame.has_kept:
                around = self.presence.shown_before(self.frame.parent(put))
                w(f"{target}, {entry} = {name}({value}, {self.frame.kept}, {around}{reads})")
            else:
                w(f"{target} = {forward}({value}{reads})")
                if step.gives != "value":
                    w(f"{target} = {w.constant('checked', step.checked)}({target})")
                if step.inverse is not None:
                    inverse = w.constant("function", step.inverse)
                    with w.block(f"if {target} is A or not SAME({inverse}({target}), {value}):"):
                        w(f"{target}, {entry} = {name}({value}, None, (){reads})")
        with w.block("except (Exception, SystemExit) as error:"):
            w(f"raise FAILURE(error, {rule.label!r}, {pointer(place.path)!r})")

    @property
    def _writer(self) -> Writer:
        return self.frame.writer

    def _around_after(self, node: Node) -> str:
        return self.presence.shown_after(self.frame.parent(node))
