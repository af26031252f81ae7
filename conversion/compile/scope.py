"""Generates the code that converts one object (the root, a list item, a map value) by a set of rules.

The shape of that code, in this order:

1. the objects on claimed paths are copied, shallowly; everything else is shared with the input;
2. claimed fields are taken out of the copies, and so are undeclared ones that are in the way of what will be put;
3. every rule computes and puts its fields, with what the stash kept of this version's own;
4. what is only implied is put into the objects that are there;
5. the copies are tied together;
6. what the way back would not bring is lost, and goes to the stash.

Pure: writes text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from restow.conversion.compile.frame import Frame
from restow.conversion.compile.implied import Implied
from restow.conversion.compile.leaves import Leaves
from restow.conversion.compile.objects import Objects
from restow.conversion.compile.presence import Presence
from restow.conversion.compile.repeats import Repeat
from restow.conversion.compile.stage import Stage, paths
from restow.conversion.compile.trie import Node
from restow.conversion.compile.undeclared import Undeclared
from restow.conversion.rules.model import Constant, Default, Lens, Move, Private, Rule, Scope
from restow.crds import Schema

__all__ = ["write_scope"]

_ORDER: Final[tuple[type[Rule], ...]] = (Move, Lens, Scope, Private, Constant, Default)


def write_scope(
    stage: Stage,
    rules: Sequence[Rule],
    *,
    old: str,
    kept: str,
    source_schema: Schema | None,
    target_schema: Schema | None,
) -> tuple[str, str]:
    """Write the code that converts the object in the variable ``old``; return the variables of the result and the loss.

    ``kept`` is the variable of what the stash has for this object, or ``NOTHING_KEPT``.
    """
    frame = Frame(
        stage=stage,
        root=_tree(stage, rules, old),
        kept=kept,
        lost=stage.writer.fresh("lost"),
        source_schema=source_schema,
        target_schema=target_schema,
    )
    presence = Presence(frame)
    objects, leaves = Objects(frame, presence), Leaves(frame, presence)
    implied, undeclared = Implied(frame, presence, leaves), Undeclared(frame, presence, leaves)
    frame.writer(f"{frame.root.new} = {{**{old}}}")
    frame.writer(f"{frame.lost} = None")
    objects.copy(frame.root)
    _take(frame, frame.root)
    undeclared.clear(frame.root)
    implied.observe(rules)
    write: dict[type[Rule], Callable[[Any], None]] = {
        Move: leaves.write_move,
        Lens: leaves.write_lens,
        Scope: lambda rule: Repeat.of(frame, rule, presence, write_scope).write(),
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


def _tree(stage: Stage, rules: Sequence[Rule], old: str) -> Node:
    root = Node(())
    root.old, root.new = old, stage.writer.fresh("new")
    for rule in rules:
        for index, path in enumerate(paths(rule, stage.source_side)):
            root.reach(path).take = (rule, index)
        for index, path in enumerate(paths(rule, stage.target_side)):
            root.reach(path).put = (rule, index)
    return root


def _take(frame: Frame, node: Node) -> None:
    """Write that claimed fields are taken out of the copies."""
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


def _take_each(frame: Frame, node: Node, takes: Sequence[Node]) -> None:
    for child in takes:
        verb = "get" if child.in_place else "pop"
        frame.writer(f"{child.value} = {node.new}.{verb}({child.name!r}, A)")
