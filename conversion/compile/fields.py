"""Generates the code of fields: moved or computed ones, implied ones, and undeclared ones at a place that is needed.

- `LeafFields`: rules over single fields and groups of leaves;
- `ImpliedFields`: constants and defaults. An existing value, or one in the stash, comes first. Implied fields are put
  last, into the objects that then exist. A field goes to the stash unless the way back implies the same value;
- `UndeclaredFields`: an undeclared field at a path where a rule puts a value is taken out first and stashed. It is
  restored when the value in its place is taken out again.

Pure: writes text.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from restow.conversion.compile.codegen import PathNode, ScopeBuilder, SourceWriter
from restow.conversion.compile.lens import NARROW, LensStep, is_narrow
from restow.conversion.compile.parents import ObjectPresence
from restow.conversion.model.fieldpath import pointer, starts_with
from restow.conversion.rules.known import Inline, Remembered, Shortcut
from restow.conversion.rules.lens import Lens
from restow.conversion.rules.move import Move
from restow.conversion.rules.onesided import Constant, Default, Private
from restow.conversion.rules.protocol import Rule
from restow.crds.schema import schema_at


@dataclass(slots=True)
class LeafFields:
    """Writes the code of single fields and groups of leaves for one scope."""

    frame: ScopeBuilder
    presence: ObjectPresence

    def write_move(self, rule: Move) -> None:
        """Write code that moves a value."""
        (take,), (put,) = self.frame.takes(rule), self.frame.puts(rule)
        self.frame.carried[take.path] = f"{take.value} is not A"
        self.frame.put_present(put, take.value)

    def write_private(self, rule: Private) -> None:
        """Write code that stashes a field without a counterpart, or restores it, unless the field is dropped."""
        if rule.acknowledge is not None:
            return
        for node in self.frame.takes(rule):
            self.frame.carried[node.path] = f"{node.value} is not A"
            self.frame.lose_later(node, node.value, self._around_after(node))
        for node in self.frame.puts(rule):
            self.restore(node)

    def restore(self, node: PathNode) -> None:
        """Write code that restores a field from the stash."""
        if self.frame.has_kept:
            entry = self.recalled(node)
            with self._writer.block(f"if {entry} is not None and 'is' in {entry}:"):
                self.frame.put(node, f"{entry}['is']")

    def recalled(self, node: PathNode) -> str:
        """Write code that reads the stash entry of a target field; return its variable, None for an invalid entry."""
        entry = self._writer.fresh("entry")
        around = self.presence.shown_before(self.frame.parent(node))
        self._writer(f"{entry} = None")
        with self._writer.block(f"if {self.frame.kept}:"):
            self._writer(f"{entry} = KEPT_LEAF({self.frame.kept}, {node.address!r}, {self.frame.schema_of(node)})")
            with self._writer.block(f"if {entry} is not None and not IS_SHOWN({entry}, {around}):"):
                self._writer(f"{entry} = None")
        return entry

    def write_lens(self, rule: Lens) -> None:
        """Write code that converts a group of leaves by functions, with a shortcut where nothing can be lost."""
        takes, puts = self.frame.takes(rule), self.frame.puts(rule)
        value, target, entry = self._packed(rule, takes), self._writer.fresh("t"), self._writer.fresh("entry")
        direction = self.frame.stage.direction
        schemas = (self.frame.source_schema, self.frame.target_schema)
        step = LensStep.of(rule, direction, tuple(node.path for node in puts), schemas, puts[0].address)
        is_restored = step.inverse is not None or step.keeps or step.has_limits
        self.frame.carried |= {node.path: f"{node.value if is_restored else target} is not A" for node in takes}
        self._writer(f"{entry} = None")
        unless = f" and not {self.frame.kept}" if self.frame.has_kept else ""
        head = "if"
        for condition, line in (*self._fast(rule, value, target), (f"{value} is A", f"{target} = A")):
            with self._writer.block(f"{head} {condition}{unless}:"):
                self._writer(line)
            head = "elif"
        called = self._called(rule, value, target)
        if called:
            with self._writer.block(f"elif {called}{unless}:"):
                self._writer("pass")
        if not step.nulls:
            with self._writer.block(f"elif {value} is None{unless}:"):
                self._writer(f"{target} = None")
        with self._writer.block("else:"):
            self._call(rule, step, takes, puts[0], value, target, entry)
        self._put_all(step, puts, target)
        self.frame.later.append(partial(self._lose_entry, takes[0], entry))

    def _lose_entry(self, node: PathNode, entry: str) -> None:
        with self._writer.block(f"if {entry} is not None:"):
            guarded = f"WITH_GONE({entry}, {self._around_after(node)})"
            self.frame.lose(node.address, f"{entry} if 'shown' in {entry} else {guarded}")

    def _put_all(self, step: LensStep, puts: list[PathNode], target: str) -> None:
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

    def _packed(self, rule: Lens, takes: list[PathNode]) -> str:
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

    def _fast(self, rule: Lens, value: str, target: str) -> list[tuple[str, str]]:
        """Return conditions under which nothing can be lost, each with the code of the target."""
        if rule.exact is not None:
            table = self._writer.constant("table", rule.exact[self.frame.stage.direction])
            return [(f"{value}.__class__ is str and ({target} := {table}.get({value})) is not None", "pass")]
        if rule.singleton == self.frame.stage.target_side:
            return [(f"{value} is not A and {value} is not None", f"{target} = [{value}]")]
        if rule.singleton == self.frame.stage.source_side:
            one = f"isinstance({value}, list) and len({value}) == 1 and {value}[0] is not None"
            return [(one, f"{target} = {value}[0]")]
        quick = self._shortcut(rule)
        if isinstance(quick, Inline):
            code = quick.code.replace("VALUE", value)
            return [(f"({quick.when.replace('VALUE', value)}){self._in_range(rule, code)}", f"{target} = {code}")]
        if isinstance(quick, Remembered):
            known = self._writer.constant("known", quick.known)
            in_range = self._in_range(rule, target)
            is_known = f"{value}.__class__ is str and ({target} := {known}.get({value})) is not None{in_range}"
            return [(is_known, f"{target} = [*{target}]" if quick.gives_list else "pass")]
        return []

    def _called(self, rule: Lens, value: str, target: str) -> str | None:
        """Return the condition under which a function finds the target without the inverse."""
        quick = self._shortcut(rule)
        if quick is None or isinstance(quick, Inline):
            return None
        is_found = f"({target} := {self._writer.constant('quick', quick)}({value})) is not A"
        return is_found + self._in_range(rule, target)

    def _in_range(self, rule: Lens, target: str) -> str:
        """Return a further condition of a shortcut to a field that holds integers of 32 bits."""
        (put, *more) = self.frame.puts(rule)
        field = None if more else schema_at(self.frame.target_schema, put.path)
        return "" if field is None or not is_narrow(field) else f" and {-NARROW} <= {target} < {NARROW}"

    def _shortcut(self, rule: Lens) -> Shortcut | None:
        return None if rule.standard is None else rule.standard.quick.get(self.frame.stage.direction)

    def _call(
        self, rule: Lens, step: LensStep, takes: list[PathNode], put: PathNode, value: str, target: str, entry: str
    ) -> None:
        """Write the direct call of the functions where the stash does not matter; ``LensStep`` handles the rest."""
        w = self._writer
        name, forward = w.constant("step", step), w.constant("function", step.forward)
        with w.block("try:"):
            reads = self.frame.stage.reads(rule.reads, self.frame.read)
            if self.frame.has_kept:
                around = self.presence.shown_before(self.frame.parent(put))
                w(f"{target}, {entry} = {name}({value}, {self.frame.kept}, {around}{reads})")
            else:
                w(f"{target} = {forward}({value}{reads})")
                if step.gives != "value":
                    w(f"{target} = {w.constant('checked', step.checked)}({target})")
                if step.keeps:
                    text_or_json = f"{target}.__class__ is str or {target} is A or IS_JSON({target})"
                    with w.block(f"if not ({text_or_json}):"):
                        w(f"raise NO_JSON({rule.label!r})")
                if step.inverse is not None:
                    back = f"{w.constant('function', step.inverse)}({target}{reads})"
                    nothing = f"{target} is A" if step.nulls else f"{target} is A or {target} is None"
                    with w.block(f"if {nothing} or not {self._is_back(rule, takes, value, back)}:"):
                        w(f"{target}, {entry} = {name}({value}, None, (){reads})")
        with w.block("except (Exception, SystemExit) as error:"):
            if not step.keeps:
                with w.block("if not isinstance(error, BEYOND_LIMITS):") if step.has_limits else nullcontext():
                    w(f"raise FAILURE(error, {rule.label!r}, {pointer(takes[0].path)!r})")
            if step.keeps or step.has_limits:
                place = self.frame.stage.place(takes[0].path)
                w(f"{target}, {entry} = {w.constant('keep', step.kept)}(error, {value}, {place}{reads})")

    def _is_back(self, rule: Lens, takes: list[PathNode], value: str, back: str) -> str:
        """Return the condition that the inverse restored the original value.

        A text only equals the same text, so Python's own equality is enough for texts, at a fifth of the time.
        """
        packing = rule.packing(self.frame.stage.source_side)
        name = self._writer.fresh("back")
        if packing == "tree":
            return f"SAME({back}, {value})"
        texts = " and ".join(
            f"{node.value}.__class__ is str"
            if packing == "value"
            else f"({node.value}.__class__ is str or {node.value} is A)"
            for node in takes
        )
        return f"(({name} := {back}) == {value} and {texts} or SAME({name}, {value}))"

    @property
    def _writer(self) -> SourceWriter:
        return self.frame.writer

    def _around_after(self, node: PathNode) -> str:
        return self.presence.shown_after(self.frame.parent(node))


@dataclass(slots=True)
class _Put:
    """A field to be implied.

    It has the place, the code of its value, and the condition that its value is already decided. ``is_filled`` is the
    variable that records whether the value was implied, if that matters.
    """

    node: PathNode
    value: str
    is_said: str
    is_filled: str = ""


@dataclass(slots=True)
class _Take:
    """A field that the way back may imply: its place, its value, and the condition that the target does not have it."""

    node: PathNode
    value: Any
    is_silent: str


@dataclass(slots=True)
class ImpliedFields:
    """Writes the code of constants and defaults for one scope."""

    frame: ScopeBuilder
    presence: ObjectPresence
    leaves: LeafFields
    _puts: list[_Put] = field(default_factory=list)
    _takes: list[_Take] = field(default_factory=list)

    def observe(self, rules: Sequence[Rule]) -> None:
        """Write code that records the needed state of the source before anything is put."""
        implied = [rule for rule in rules if rule.filled_in is not None]
        self.presence.observe(self.frame.parent(node) for rule in implied for node in self.frame.takes(rule))

    def write_constant(self, rule: Constant) -> None:
        """Write code that takes an implied field, or restores its stashed value if it may be implied."""
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
        """Write code that passes an explicit value, unless it is hidden from the side that may omit it."""
        (take,), (put,) = self.frame.takes(rule), self.frame.puts(rule)
        target = self.frame.writer.fresh("t")
        entry = self.leaves.recalled(put) if self.frame.has_kept else None
        if self.frame.stage.target_side == rule.filled_in:
            self._write_filled_in(rule, take, put, target, entry)
        else:
            self._write_omitted(rule, take, target, entry)
        self.frame.put_present(put, target)

    def _write_filled_in(self, rule: Default, take: PathNode, put: PathNode, target: str, entry: str | None) -> None:
        w = self.frame.writer
        w(f"{target} = {take.value}")
        if entry:
            said = self._is(f"{entry}['is']", rule.value)
            with w.block(f"if {entry} is not None and {target} is A and 'is' in {entry} and {said}:"):
                w(f"{target} = {w.literal(rule.value)}")
        self.frame.carried[take.path] = f"{take.value} is not A"
        self._fill_later(rule, take, put, f"({target} is not A{f' or {entry} is not None' if entry else ''})")

    def _write_omitted(self, rule: Default, take: PathNode, target: str, entry: str | None) -> None:
        w, is_default = self.frame.writer, self._is(take.value, rule.value)
        w(f"{target} = A if {is_default} else {take.value}" if rule.hides else f"{target} = {take.value}")
        if entry and rule.hides:
            with w.block(f"if {entry} is not None and 'is' in {entry} and SAME({entry}['is'], {take.value}):"):
                w(f"{target} = {take.value}")
        elif entry:
            with w.block(f"if {entry} is not None and 'is' not in {entry} and {is_default}:"):
                w(f"{target} = A")
        self.frame.carried[take.path] = f"{target} is not A"
        self._takes.append(_Take(take, rule.value, f"{target} is A"))

    def _fill_later(self, rule: Default, take: PathNode, put: PathNode, is_said: str) -> None:
        """Write code that fills in a missing value after all other fields, and stashes what the way back needs."""
        filling = _Put(put, self.frame.writer.literal(rule.value), is_said)
        self._puts.append(filling)
        if rule.hides:
            self.frame.later.append(partial(self._lose_spelled_out, rule, take))
            return
        filling.is_filled = self.frame.writer.fresh("filled")
        self.frame.writer(f"{filling.is_filled} = False")
        self.frame.later.append(partial(self._lose_omitted, take, filling.is_filled))

    def write_rest(self) -> None:
        """Write code that fills in the implied values of missing fields in the objects that exist by now."""
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
                if put.is_filled:
                    w(f"{put.is_filled} = True")

    def lose(self) -> None:
        """Write code that at the end stashes fields for which the way back would imply another value."""
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

    def _is_said(self, parent: PathNode) -> str:
        """Return the condition that the stash has an entry for a field in an object that is otherwise missing."""
        within = [take.node.value for take in self._takes if starts_with(take.node.path, parent.path)]
        return f"({' or '.join(f'{value} is not A' for value in within)})"

    def _lose_spelled_out(self, rule: Default, take: PathNode) -> None:
        """Write code that stashes an explicit default, which the way back would leave out."""
        with self.frame.writer.block(f"if {self._is(take.value, rule.value)}:"):
            around = self.presence.shown_after(self.frame.parent(take))
            self.frame.lose(take.address, f"LEAF({take.value}, {around})")

    def _lose_omitted(self, take: PathNode, is_filled: str) -> None:
        """Write code that stashes the absence of a field, for which the way back would show the default."""
        with self.frame.writer.block(f"if {is_filled} and {take.value} is A:"):
            around = self.presence.shown_after(self.frame.parent(take))
            self.frame.lose(take.address, f"LEAF(A, {around})")

    def _is(self, variable: str, value: Any) -> str:
        """Return the condition that a variable has this value by JSON equality."""
        if value is None or isinstance(value, bool):
            return f"{variable} is {value}"
        literal = self.frame.writer.literal(value)
        return f"{variable} == {literal}" if isinstance(value, str) else f"SAME({variable}, {literal})"


@dataclass(slots=True)
class UndeclaredFields:
    """Writes the code of undeclared fields for one scope."""

    frame: ScopeBuilder
    presence: ObjectPresence
    leaves: LeafFields

    def clear(self, node: PathNode) -> None:
        """Write code that takes undeclared fields below ``node`` out of the way."""
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

    def _clear_object(self, node: PathNode, child: PathNode, value: str) -> None:
        """Write code that takes out the rest of an object; nothing if all of its fields were taken."""
        self._tie(child)
        with self._writer.block(f"if {child.old} is A:"):
            self._writer(f"{value} = A")
        with self._writer.block("else:"):
            self._writer(f"del {node.new}[{child.name!r}]")
            self._writer(f"{value} = {child.old} if {child.new} is None else {child.new}")
            with self._writer.block(f"if not {value} and {child.old} and {child.new} is not None:"):
                self._writer(f"{value} = A")

    def _tie(self, node: PathNode) -> None:
        for child in node.objects:
            self._tie(child)
            with self._writer.block(f"if {child.new}:"):
                self._writer(f"{node.new}[{child.name!r}] = {child.new}")
            with self._writer.block(f"elif {child.old} and {child.new} is not None:"):
                self._writer(f"del {node.new}[{child.name!r}]")

    def restore(self) -> None:
        """Write code that restores undeclared fields after the fields in their places have been taken."""
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

    def _restore_object(self, node: PathNode, value: str) -> None:
        with self._writer.block(f"if isinstance({value}, dict):"):
            self._merge(node, value)
            with self._writer.block(f"if not {node.new}:"):
                self.frame.put(node, "{}")
        with self._writer.block(f"elif {node.new} is None:"):
            self.frame.put(node, value)

    def _merge(self, node: PathNode, value: str) -> None:
        self._writer(f"{node.new} = {{**{value}, **({node.new} or {{}})}}")
        for child in node.objects:
            inner = self._writer.fresh("inner")
            self._writer(f"{inner} = {value}.get({child.name!r})")
            with self._writer.block(f"if isinstance({inner}, dict):"):
                self._merge(child, inner)

    @property
    def _writer(self) -> SourceWriter:
        return self.frame.writer
