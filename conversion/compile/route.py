"""Compiles the rules between two versions into one function.

A route is one leg (spoke to hub, hub to spoke) or two (spoke to spoke); the stash is read before the first and written
after the last. The generated text is kept (`Route.source`) for reading. The code of one scope (the root, a list item,
a map value) has this order:

1. the objects on claimed paths are copied, shallowly; everything else is shared with the input;
2. claimed fields are taken out of the copies, and also undeclared ones at places where values will be put;
3. every rule computes and puts its fields, with the stashed values of the target's version;
4. implied fields are put into the objects that exist by then;
5. the copies are tied together;
6. values that the way back would not restore are lost, and go to the stash.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from restow.conversion.compile.branches import BranchBuilder
from restow.conversion.compile.codegen import NOTHING_KEPT, LegBuilder, PathNode, ScopeBuilder, SourceWriter
from restow.conversion.compile.collections import CollectionBuilder
from restow.conversion.compile.fields import ImpliedFields, LeafFields, UndeclaredFields
from restow.conversion.compile.layers import ImpliedLayer, layers_of
from restow.conversion.compile.lens import failure, found, indexed, no_json, too_deep, tree
from restow.conversion.compile.parents import ObjectPresence, ParentObjects
from restow.conversion.model.errors import RuleFailed, ValueBeyondLimits, note_kept
from restow.conversion.model.fieldpath import dig, parse, pointer
from restow.conversion.model.values import ABSENT, Json, is_json, same
from restow.conversion.rules.functions import FROM_ROOT, any_has_limits, keeping, read_steps
from restow.conversion.rules.lens import Lens
from restow.conversion.rules.move import Move
from restow.conversion.rules.onesided import Constant, Default, Private
from restow.conversion.rules.protocol import Rule, claimed_paths, everywhere
from restow.conversion.rules.scopes import ScopedRules
from restow.conversion.rules.sides import Direction, Side
from restow.conversion.rules.unions import branched, discriminators, flattened
from restow.conversion.stash import entries
from restow.conversion.stash import items as lists
from restow.conversion.stash.annotation import Stash, seal, unseal
from restow.crds import Schema

_ORDER: Final[tuple[type[Rule], ...]] = (Move, Lens, ScopedRules, Private, Constant, Default)


def write_scope(
    stage: LegBuilder,
    rules: Sequence[Rule],
    *,
    old: str,
    kept: str,
    source_schema: Schema | None,
    target_schema: Schema | None,
    read: str | None = None,
) -> tuple[str, str]:
    """Write the code that converts the object in the variable ``old``; return the variables of the result and the loss.

    ``kept`` is the variable of the object's stash, or ``NOTHING_KEPT``. ``read`` is the variable of the object before
    the other rules of the scope, if these have changed it since; reads are relative to that object.
    """
    write = partial(_write_step, stage, read=read or old, source_schema=source_schema, target_schema=target_schema)
    scope = branched(rules)
    if not scope.unions:
        return write(_write_layers, rules, old, kept)
    return BranchBuilder(stage, scope, old, kept, partial(write, _write_layers), partial(write, write_scope)).write()


def _write_step(
    stage: LegBuilder, how: Callable[..., tuple[str, str]], rules: Sequence[Rule], old: str, kept: str, **more: Any
) -> tuple[str, str]:
    return how(stage, rules, old=old, kept=kept, **more)


def _write_layers(
    stage: LegBuilder,
    rules: Sequence[Rule],
    *,
    old: str,
    read: str,
    kept: str,
    source_schema: Schema | None,
    target_schema: Schema | None,
) -> tuple[str, str]:
    """Write the rules that hold for every object of a scope, or of a branch, layer by layer."""
    layers = layers_of(rules)
    before, after = layers.around(stage.direction)
    source, target = (layers.schema(source_schema, stage.source_side), layers.schema(target_schema, stage.target_side))
    losses = []
    new = old
    for layer in before:
        new, lost = _write_implied(stage, layer, new, kept, source_schema)
        losses.append((layer, lost))
    new, all_lost = _write_base(
        stage, layers.base, old=new, read=read, kept=kept, source_schema=source, target_schema=target
    )
    for layer in after:
        new, lost = _write_implied(stage, layer, new, kept, target_schema)
        losses.append((layer, lost))
    for layer, lost in losses:
        with stage.writer.block(f"if {lost}:"):
            stage.writer(f"{all_lost} = {{**({all_lost} or {{}}), {layer.address!r}: {lost}}}")
    return new, all_lost


def _write_implied(
    stage: LegBuilder, layer: ImpliedLayer, old: str, kept: str, schema: Schema | None
) -> tuple[str, str]:
    """Write one implied field as a conversion of its own, between two states of one version."""
    inner = NOTHING_KEPT
    if kept != NOTHING_KEPT:
        inner = stage.writer.fresh("kept")
        stage.writer(f"{inner} = LAYER({kept}, {layer.address!r})")
    return _write_base(stage, (layer.rule,), old=old, read=old, kept=inner, source_schema=schema, target_schema=schema)


def _write_base(
    stage: LegBuilder,
    rules: Sequence[Rule],
    *,
    old: str,
    read: str,
    kept: str,
    source_schema: Schema | None,
    target_schema: Schema | None,
) -> tuple[str, str]:
    """Write one layer. ``read`` is the variable of the object whose further fields functions read."""
    frame = ScopeBuilder(
        stage=stage,
        root=_tree(stage, rules, old),
        read=read,
        kept=kept,
        lost=stage.writer.fresh("lost"),
        source_schema=source_schema,
        target_schema=target_schema,
    )
    presence = ObjectPresence(frame)
    objects, leaves = ParentObjects(frame, presence), LeafFields(frame, presence)
    implied, undeclared = ImpliedFields(frame, presence, leaves), UndeclaredFields(frame, presence, leaves)
    frame.writer(f"{frame.root.new} = {{**{old}}}")
    frame.writer(f"{frame.lost} = None")
    objects.copy(frame.root)
    _take(frame, frame.root)
    undeclared.clear(frame.root)
    implied.observe(rules)
    write: dict[type[Rule], Callable[[Any], None]] = {
        Move: leaves.write_move,
        Lens: leaves.write_lens,
        ScopedRules: lambda rule: CollectionBuilder.of(frame, rule, presence, write_scope).write(),
        Private: leaves.write_private,
        Constant: implied.write_constant,
        Default: implied.write_default,
    }
    for rule in sorted(rules, key=lambda rule: _ORDER.index(type(rule))):
        write[type(rule)](rule)
    undeclared.restore()
    implied.write_rest()
    objects.tie(frame.root)
    for lose in frame.later:
        lose()
    implied.lose()
    return frame.root.new, frame.lost


def _tree(stage: LegBuilder, rules: Sequence[Rule], old: str) -> PathNode:
    root = PathNode(())
    root.old, root.new = old, stage.writer.fresh("new")
    for rule in rules:
        for index, path in enumerate(claimed_paths(rule, stage.source_side)):
            root.reach(path).take = (rule, index)
        for index, path in enumerate(claimed_paths(rule, stage.target_side)):
            root.reach(path).put = (rule, index)
    return root


def _take(frame: ScopeBuilder, node: PathNode) -> None:
    """Write code that takes claimed fields out of the copies."""
    takes = [child for child in node.children.values() if child.take]
    for child in takes:
        child.value = frame.writer.fresh("v", child.name)
    if takes and node is not frame.root:
        with frame.writer.block(f"if {node.new} is None:"):
            frame.writer(" = ".join(child.value for child in takes) + " = A")
        with frame.writer.block("else:"):
            _take_each(frame, node, takes)
    else:
        _take_each(frame, node, takes)
    for child in node.objects:
        if child.take is None:
            _take(frame, child)


def _take_each(frame: ScopeBuilder, node: PathNode, takes: Sequence[PathNode]) -> None:
    for child in takes:
        verb = "get" if child.in_place else "pop"
        frame.writer(f"{child.value} = {node.new}.{verb}({child.name!r}, A)")


def _index(items: Sequence[Any], item: Any) -> int:
    return next(index for index, each in enumerate(items) if each is item)


_GLOBALS: Final[Mapping[str, Any]] = {
    "A": ABSENT,
    "BRANCH_ENTRY": entries.branch_entry,
    "DIG": dig,
    "EMPTIED": entries.emptied,
    "FAILED": RuleFailed,
    "FAILURE": failure,
    "FOUND": found,
    "HIDDEN_INSIDE": entries.hidden_inside,
    "INDEX": _index,
    "INDEXED": indexed,
    "INSIDE": entries.inside,
    "IS_JSON": is_json,
    "IS_SHOWN": entries.is_shown,
    "KEPT_BRANCH": entries.kept_branch,
    "KEPT_INSIDE": entries.kept_inside,
    "KEPT_ITEMS": lists.kept_items,
    "KEPT_LEAF": entries.kept_leaf,
    "KEPT_VALUES": entries.kept_values,
    "LAYER": entries.kept_layer,
    "LEAF": entries.leaf,
    "LEFT_INSIDE": entries.left_inside,
    "LIST_ENTRY": lists.list_entry,
    "NOTE": entries.note,
    "NOTE_KEPT": note_kept,
    "BEYOND_LIMITS": ValueBeyondLimits,
    "NO_JSON": no_json,
    "POINTER": lambda steps, before: before + pointer(steps),
    "SAME": same,
    "STAYS": entries.stays,
    "TOO_DEEP": too_deep,
    "TREE": tree,
    "WITHOUT_DROPPED": entries.without_dropped,
    "WITH_GONE": entries.with_gone,
    "WITH_HIDDEN": lists.with_hidden,
}


@dataclass(frozen=True, slots=True)
class Leg:
    """The rules of a spoke in one direction. Versions are names; schemas None if unknown."""

    direction: Direction
    rules: tuple[Rule, ...]
    source: str
    target: str
    source_schema: Schema | None
    target_schema: Schema | None


@dataclass(frozen=True, slots=True, eq=False)
class CompiledLeg:
    """Two generated functions for a leg: for objects without a stash, which is the usual case, and for those with one.

    Both return the new object and the entries of values that the target's version cannot express (None without any);
    ``with_stash`` also takes the entries of values that only the target's version can express. ``source`` is their
    text.
    """

    leg: Leg
    plain: Callable[[Json], tuple[Json, Json | None]]
    with_stash: Callable[[Json, Json | None], tuple[Json, Json | None]]
    source: str


@dataclass(frozen=True, slots=True, eq=False)
class Route:
    """A compiled conversion. ``function`` takes an object (a JSON tree) and returns another; its input never changes.

    ``touched`` are the top-level fields that the route reads, apart from apiVersion and metadata: the values of all
    other fields are passed on unchanged. ``keeps``: some rule keeps values that it cannot convert, and records them
    (``model.errors.kept_values``). ``records``: the same, or some rule has an expression that cannot take every value.
    ``source`` is the text of the generated code.
    """

    source_version: str
    target_version: str
    function: Callable[[Json], Json] = field(repr=False)
    source: str = field(repr=False)
    touched: frozenset[str]
    keeps: bool
    records: bool


def compile_leg(leg: Leg) -> CompiledLeg:
    """Write and compile the code of a leg."""
    writer = SourceWriter(dict(_GLOBALS))
    writer(f"# {leg.source} -> {leg.target}")
    for arguments, kept in ("(obj)", NOTHING_KEPT), ("_with_stash(obj, kept)", "kept"):
        with writer.block(f"def convert{arguments}:"):
            stage = LegBuilder(writer, leg.direction, "obj")
            new, lost = write_scope(
                stage,
                leg.rules,
                old="obj",
                kept=kept,
                source_schema=leg.source_schema,
                target_schema=leg.target_schema,
            )
            writer(f"return {new}, {lost}")
        stage.write_functions()
    namespace = writer.names
    exec(compile(writer.source, f"<conversion {leg.source} to {leg.target}>", "exec"), namespace)  # noqa: S102 our own
    return CompiledLeg(leg, namespace["convert"], namespace["convert_with_stash"], writer.source)


def join_route(legs: Sequence[CompiledLeg], api_version: str, *, stash_key: str, budget: int) -> Route:
    """Join compiled legs to a route whose results are of ``api_version`` (``group/version``)."""

    def convert_with_stash(obj: Json) -> Json:
        obj, stash = unseal(obj, stash_key)
        for compiled in legs:
            kept = None
            if stash is not None:
                kept = stash.take(compiled.leg.target)
                stash.take(compiled.leg.source)
            obj, lost = compiled.with_stash(obj, kept)
            if kept and stash is not None:
                stash.dropped += len(lists.doubtful(kept))
            if lost:
                stash = _put_away(stash, compiled.leg.source, lost)
        obj["apiVersion"] = api_version
        if stash is not None:
            seal(obj, stash_key, stash, budget)
        return obj

    def convert(obj: Json) -> Json:
        metadata = obj.get("metadata")
        annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
        if isinstance(annotations, dict) and stash_key in annotations:
            return convert_with_stash(obj)
        stash = None
        for name, function in steps:
            obj, lost = function(obj)
            if lost:
                stash = _put_away(stash, name, lost)
        obj["apiVersion"] = api_version
        if stash is not None:
            seal(obj, stash_key, stash, budget)
        return obj

    steps = [(compiled.leg.source, compiled.plain) for compiled in legs]
    keeps = any(next(keeping(compiled.leg.rules), None) for compiled in legs)
    return Route(
        source_version=legs[0].leg.source,
        target_version=legs[-1].leg.target,
        function=convert,
        source="\n".join(compiled.source for compiled in legs),
        touched=frozenset(name for compiled in legs for name in _touched(compiled.leg.rules)),
        keeps=keeps,
        records=keeps or any(any_has_limits(compiled.leg.rules) for compiled in legs),
    )


def _put_away(stash: Stash | None, version: str, lost: Json) -> Stash:
    stash = Stash() if stash is None else stash
    stash.put(version, lost)
    return stash


def _touched(rules: Sequence[Rule]) -> set[str]:
    """Return the top-level fields that rules of the root scope read."""
    sides: tuple[Side, Side] = ("spoke", "hub")
    every = tuple(flattened(rules))
    names = {path[0] for rule in every for side in sides for path in claimed_paths(rule, side)}
    names |= {filled[0][0] for rule in every for side in sides if (filled := rule.fills(side)) is not None}
    names |= {parse(text)[0] for text in discriminators(rules)}
    return names | {read_steps(text)[0][0] for text in _root_reads(rules)} | _own_reads(rules)


def _own_reads(rules: Sequence[Rule]) -> set[str]:
    reads = (text for rule in flattened(rules) for text in rule.reads)
    return {parse(text)[0] for text in reads if not text.startswith(FROM_ROOT)}


def _root_reads(rules: Sequence[Rule]) -> set[str]:
    return {text for rule in everywhere(rules) for text in rule.reads if text.startswith(FROM_ROOT)}
