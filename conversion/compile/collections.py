"""Generates the code of rules that apply inside of list items, map values, or one object.

Pure: writes text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from restow.conversion.compile.codegen import NOTHING_KEPT, LegBuilder, PathNode, ScopeBuilder, SourceWriter
from restow.conversion.compile.parents import ObjectPresence
from restow.conversion.model.fieldpath import Path, pointer
from restow.conversion.rules.functions import has_limits
from restow.conversion.rules.protocol import Rule, claimed_paths
from restow.conversion.rules.scopes import ScopedRules
from restow.conversion.rules.sides import Side
from restow.crds import Schema
from restow.crds.schema import schema_at

#: How often rules may apply again inside of themselves: a tenth of Python's default recursion limit, because the caller
#: may be deep as well. No schema describes as many levels.
MOST_LEVELS: Final = 100

#: Writes the code of the scope inside (``compile.route.write_scope``, which calls this module in turn).
Inner = Callable[..., tuple[str, str]]


def _dropped(rules: Sequence[Rule], side: Side) -> dict[str, Any]:
    """Return the fields of a side that rules drop on purpose, as ``WITHOUT_DROPPED`` takes them."""
    found: dict[str, Any] = {}
    for rule in rules:
        inner = _dropped(rule.contained, side) if rule.container == "object" else None
        if not inner and not rule.drops:
            continue
        for *around, name in claimed_paths(rule, side):
            fields = found
            for each in around:
                fields = fields.setdefault(each, {})
            fields[name] = inner
    return found


@dataclass(slots=True)
class CollectionBuilder:
    """One such rule: the source and target places of its container, and the variable of the result."""

    frame: ScopeBuilder
    rule: ScopedRules
    presence: ObjectPresence
    inner: Inner
    take: PathNode
    put: PathNode
    target: str

    @classmethod
    def of(cls, frame: ScopeBuilder, rule: ScopedRules, presence: ObjectPresence, inner: Inner) -> CollectionBuilder:
        """Return the builder of a rule in its scope."""
        (take,), (put,) = frame.takes(rule), frame.puts(rule)
        return cls(frame, rule, presence, inner, take, put, frame.writer.fresh("t"))

    def write(self) -> None:
        """Write the whole rule; a value that is no such container passes unchanged."""
        if self.rule.container == "object":
            self._write_object()
        else:
            kind = "list" if self.rule.container == "list" else "dict"
            with self._writer.block(f"if isinstance({self.take.value}, {kind}):"):
                self._write_list() if kind == "list" else self._write_map()
            with self._writer.block("else:"):
                self._writer(f"{self.target} = {self.take.value}")
                self._write_all_hidden()
            self.frame.carried[self.take.path] = f"{self.take.value} is not A"
        self.frame.put_present(self.put, self.target)

    @property
    def _writer(self) -> SourceWriter:
        return self.frame.writer

    def _write_object(self) -> None:
        """Write the conversion of one object. An object that becomes empty is removed."""
        w, value, target, kept = self._writer, self.take.value, self.target, self._kept("KEPT_INSIDE")
        source, lost = w.fresh("old", self.take.name), w.fresh("lost")
        w(f"{source} = {value}")
        w(f"{lost} = None")
        if self.frame.has_kept:
            with w.block(f"if {value} is A and {self.frame.kept}:"):
                around = self.presence.shown_before(self.frame.parent(self.put))
                w(f"{source} = HIDDEN_INSIDE({self.frame.kept}, {self.put.address!r}, (False, *{around}))")
        with w.block(f"if isinstance({source}, dict):"):
            with self._located(pointer(self.take.path)):
                new, inner_lost = self._write_inner(source, kept, *self._schemas())
            w(f"{lost} = {inner_lost} or {{}}")
            with w.block(f"if {new} or {value} == {{}}:"):
                w(f"{target} = {new}")
            with w.block(f"elif {value} is A:"):
                w(f"{target} = A")
            with w.block("else:"):
                natural = self.frame.is_required(self.frame.target_schema, self.put)
                w(f"{target} = LEFT_INSIDE({self.frame.kept}, {self.put.address!r}, natural={natural})")
        with w.block("else:"):
            w(f"{target} = {value}")
        self.frame.carried[self.take.path] = f"{value} is not A"
        self.frame.later.append(partial(self._lose_inside, lost))

    def _lose_inside(self, lost: str) -> None:
        entry, required = self._writer.fresh("entry"), self.frame.is_required(self.frame.source_schema, self.take)
        with self._writer.block(f"if {lost} is not None:"):
            around = f"({self.target} is not A, *{self.presence.shown_after(self.frame.parent(self.take))})"
            source, dropped = self.take.value, _dropped(self.rule.rules, self.frame.stage.source_side)
            if dropped:
                source = f"WITHOUT_DROPPED({source}, {self._writer.constant('dropped', dropped)})"
            arguments = f"{lost}, {source}, {self.target}, {around}, required={required}"
            self._writer(f"{entry} = INSIDE({arguments})")
            with self._writer.block(f"if {entry} is not None:"):
                self.frame.lose(self.take.address, entry)

    def _write_map(self) -> None:
        w, target = self._writer, self.target
        all_kept = self._kept("KEPT_VALUES")
        kept = w.fresh("kept") if self.frame.has_kept else NOTHING_KEPT
        all_lost, key, value = (w.fresh(stem) for stem in ("lost", "key", "old"))
        w(f"{target} = {{}}")
        w(f"{all_lost} = {{}}")
        with w.block(f"for {key}, {value} in {self.take.value}.items():"):
            with w.block(f"if not isinstance({value}, dict):"):
                w(f"{target}[{key}] = {value}")
                w("continue")
            if self.frame.has_kept:
                w(f"{kept} = {all_kept}.get({key}) if {all_kept} else None")
            with self._located(f"POINTER(({key},), {pointer(self.take.path)!r})", is_code=True):
                source, wanted = self._schemas()
                new, lost = self._write_inner(value, kept, source and source.values, wanted and wanted.values)
            w(f"{target}[{key}] = {new}")
            with w.block(f"if {lost}:"):
                w(f"{all_lost}[{key}] = {lost}")
        with w.block(f"if {all_lost}:"):
            self.frame.lose(self.take.address, f"{{'values': {all_lost}}}")

    def _write_list(self) -> None:
        w, target, items = self._writer, self.target, self.take.value
        all_kept, hidden, all_lost, item = (w.fresh(stem) for stem in ("kept", "hidden", "lost", "old"))
        kept = w.fresh("kept") if self.frame.has_kept else NOTHING_KEPT
        keys = self.rule.key_names(self.frame.stage.source_side)
        w(f"{all_lost} = None")
        if self.frame.has_kept:
            w(f"{all_kept} = {hidden} = {kept} = None")
            with w.block(f"if {self.frame.kept}:"):
                w(f"{all_kept}, {hidden} = KEPT_ITEMS({self.frame.kept}, {self.put.address!r}, {items}, {keys!r})")
                w(f"{all_kept} = iter({all_kept})")
        w(f"{target} = []")
        with w.block(f"for {item} in {items}:"):
            if self.frame.has_kept:
                with w.block(f"if {all_kept} is not None:"):
                    w(f"{kept} = next({all_kept})")
            with w.block(f"if not isinstance({item}, dict):"):
                w(f"{target}.append({item})")
                w("continue")
            place = f"POINTER((INDEX({items}, {item}),), {pointer(self.take.path)!r})"
            with self._located(place, is_code=True), self._inside(item, keys):
                self._write_hiding(item, all_lost)
                source, wanted = self._schemas()
                new, lost = self._write_inner(item, kept, source and source.items, wanted and wanted.items)
            with w.block(f"if {lost}:"):
                self._append(all_lost, f"(len({target}), None, {lost})")
            w(f"{target}.append({new})")
        self._write_list_end(all_lost, hidden)

    def _write_list_end(self, all_lost: str, hidden: str) -> None:
        w, target, entry = self._writer, self.target, self._writer.fresh("entry")
        new_keys = self.rule.key_names(self.frame.stage.target_side)
        with w.block(f"if {all_lost}:"):
            w(f"{entry} = LIST_ENTRY({all_lost}, {target}, {new_keys!r})")
            with w.block(f"if {entry} is not None:"):
                self.frame.lose(self.take.address, entry)
        if not self.frame.has_kept:
            return
        with w.block(f"if {hidden}:"):
            wanted = self._schemas()[1]
            schema = w.constant("schema", wanted and wanted.items)
            if self.rule.merge is None:
                w(f"{target} = WITH_HIDDEN({target}, {hidden}, {new_keys!r}, {schema})")
                return
            merge = w.constant("merge", self.rule.merge)
            with w.block("try:"):
                w(f"{target} = WITH_HIDDEN({target}, {hidden}, {new_keys!r}, {schema}, {merge})")
            with w.block("except (Exception, SystemExit) as error:"):
                self._write_failure("merge", self.take.path)
                if self._keeps or has_limits(self.rule):
                    w(f"{target} = WITH_HIDDEN({target}, {hidden}, {new_keys!r}, {schema})")

    def _write_all_hidden(self) -> None:
        """Write code that keeps hidden items without their list: a client that saw an empty list may leave it out."""
        hides = self.rule.container == "list" and self.rule.hide is not None
        if not hides or not self.frame.has_kept or self.frame.stage.direction == "down":
            return
        w, hidden, around = self._writer, self._writer.fresh("hidden"), self.frame.parent(self.put)
        with w.block(f"if {self.take.value} is A and {self.frame.kept} and all({self.presence.shown_before(around)}):"):
            w(f"{hidden} = KEPT_ITEMS({self.frame.kept}, {self.put.address!r}, (), ())[1]")
            wanted = self._schemas()[1]
            keys, schema = self.rule.key_names("hub"), w.constant("schema", wanted and wanted.items)
            w(f"{self.target} = WITH_HIDDEN((), {hidden}, {keys!r}, {schema}) or A")

    def _write_hiding(self, item: str, all_lost: str) -> None:
        if self.rule.hide is None or self.frame.stage.direction == "up":
            return
        hides, hide = self._writer.fresh("hides"), self._writer.constant("hide", self.rule.hide)
        with self._writer.block("try:"):
            self._writer(f"{hides} = {hide}({item}{self.frame.stage.reads(self.rule.reads, item)})")
        with self._writer.block("except (Exception, SystemExit) as error:"):
            self._write_failure("hide", ())
            if self._keeps or has_limits(self.rule):
                self._writer(f"{hides} = True")
        with self._writer.block(f"if {hides}:"):
            self._append(all_lost, f"(len({self.target}), {item}, None)")
            self._writer("continue")

    @property
    def _keeps(self) -> bool:
        return self.rule.on_error == "keep"

    def _write_failure(self, function: str, path: Path) -> None:
        """Write code for a function of the rule that raised at a place: it fails the object, or records the failure."""
        w, label, limits = self._writer, f"{self.rule.label} {function}", has_limits(self.rule)
        if not self._keeps:
            with w.block("if not isinstance(error, BEYOND_LIMITS):") if limits else nullcontext():
                w(f"raise FAILURE(error, {label!r}, {pointer(path)!r})")
        if self._keeps or limits:
            place = self.frame.stage.place(path)
            w(f"NOTE_KEPT(FAILURE(error, {label!r}, {place}, unasked={not self._keeps}))")

    def _append(self, name: str, value: str) -> None:
        with self._writer.block(f"if {name} is None:"):
            self._writer(f"{name} = []")
        self._writer(f"{name}.append({value})")

    def _kept(self, read: str) -> str:
        if not self.frame.has_kept:
            return NOTHING_KEPT
        kept = self._writer.fresh("kept")
        self._writer(f"{kept} = {read}({self.frame.kept}, {self.put.address!r}) if {self.frame.kept} else None")
        return kept

    def _schemas(self) -> tuple[Schema | None, Schema | None]:
        return schema_at(self.frame.source_schema, self.take.path), schema_at(self.frame.target_schema, self.put.path)

    def _write_inner(
        self, old: str, kept: str, source_schema: Schema | None, target_schema: Schema | None
    ) -> tuple[str, str]:
        stage, w, rule = self.frame.stage, self._writer, self.rule
        if not rule.recurse:
            return self._write_rules(stage, rule.rules, old, kept, source_schema, target_schema)
        own = (id(rule.rules), rule.recurse, rule.keys, id(rule.hide), id(rule.merge), rule.reads)
        write = partial(self._write_function, source_schema=source_schema, target_schema=target_schema)
        name = stage.function((*own, id(source_schema), id(target_schema)), write)
        new, lost = w.fresh("new"), w.fresh("lost")
        w(f"{new}, {lost} = {name}({stage.root}, {old}, {kept}, {stage.level} + 1)")
        return new, lost

    def _write_function(self, name: str, *, source_schema: Schema | None, target_schema: Schema | None) -> None:
        """Write the function of the inner scope: it calls itself where the rules apply again."""
        w, kept = self._writer, "kept" if self.frame.has_kept else NOTHING_KEPT
        with w.block(f"def {name}(obj, old, {kept if self.frame.has_kept else '_kept'}, level):"):
            stage = self.frame.stage.inside_function(pointer(self.take.path))
            with w.block(f"if level > {MOST_LEVELS}:"):
                error = f"TOO_DEEP({self.rule.label!r}, {MOST_LEVELS})"
                if self._keeps:
                    w(f"NOTE_KEPT({error}.under({stage.place(())}))")
                    w("return old, None")
                else:
                    w(f"raise {error}")
            new, lost = self._write_rules(stage, self.rule.inner, "old", kept, source_schema, target_schema)
            w(f"return {new}, {lost}")

    def _write_rules(
        self,
        stage: LegBuilder,
        rules: Sequence[Rule],
        old: str,
        kept: str,
        source_schema: Schema | None,
        target_schema: Schema | None,
    ) -> tuple[str, str]:
        return self.inner(stage, rules, old=old, kept=kept, source_schema=source_schema, target_schema=target_schema)

    @contextmanager
    def _inside(self, item: str, keys: tuple[str, ...]) -> Iterator[None]:
        """Make the current item known to reads by key."""
        self.frame.stage.items.append((item, keys))
        yield
        self.frame.stage.items.pop()

    @contextmanager
    def _located(self, place: str, *, is_code: bool = False) -> Iterator[None]:
        """Write a try block that adds the place to failures; it costs nothing while nothing fails."""
        self.frame.stage.around.append(place if is_code else repr(place))
        with self._writer.block("try:"):
            yield
        self.frame.stage.around.pop()
        with self._writer.block("except FAILED as error:"):
            self._writer(f"raise error.under({place if is_code else repr(place)})")
