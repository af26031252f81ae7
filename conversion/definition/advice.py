"""Says where a rule for a field has to stand, as text to paste: in which rules, inside of new ones, or instead of one.

A path of a rule never goes through a list or a map, so a field below one needs ``each`` or ``each_value`` around its
rule. A field below an object that a ``rename`` or ``move`` converts as a whole needs ``inside`` in its place. No rule
looks into a list in a list or in a map: the field around it is converted as a whole.

Messages have Python's notation; ``rulefiles.phrase`` writes them as rules in YAML.

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from restow.conversion.model.fieldpath import Path, argument
from restow.conversion.rules.protocol import Container, Rule
from restow.conversion.rules.sides import Side
from restow.crds import Schema

_SCOPES: Final = {"list": "each", "map": "each_value", "object": "inside"}

#: The most fields of an example value; a larger one would hide what the message says.
_MOST_FIELDS: Final = 8


@dataclass(frozen=True, slots=True)
class Around:
    """One step from the object around to its content: the path on either side, and the rule that is there.

    ``wrapped`` is a value of one side that stands in a list on the other one. ``rule`` is None where no rule applies.
    ``keys`` are the fields that identify an item of a list. ``required``: the versions that require the field at the
    end of the path.
    """

    container: Container | Literal["wrapped"]
    spoke: Path
    hub: Path
    rule: Rule | None = None
    keys: frozenset[str] = frozenset()
    required: frozenset[Side] = frozenset()


@dataclass(frozen=True, slots=True)
class Spot:
    """The place of a rule: its paths there, the scopes to write around it, and the rules that are concerned.

    ``is_whole``: no rule can look inside, so the paths are those of the innermost field that a rule can convert.
    ``is_key``: that is so since the field identifies the items of a list. ``required``: the versions that require the
    field.
    """

    spoke: Path
    hub: Path
    scopes: tuple[Around, ...] = ()
    within: Rule | None = None
    instead: Rule | None = None
    is_whole: bool = False
    required: frozenset[Side] = frozenset()
    is_key: bool = False

    def rule(self, name: str, *arguments: str) -> str:
        """Return the text of a rule, with the scopes to write around it."""
        return self.around(f"rules.{name}({', '.join(filter(None, arguments))})")

    def around(self, text: str) -> str:
        """Return a rule's text inside of the scopes to write around it."""
        for scope in reversed(self.scopes):
            ends = [argument(scope.spoke), "" if scope.spoke == scope.hub else f"hub={argument(scope.hub)}"]
            keys = ", ".join(filter(None, (ends[0], f"[{text}]", ends[1])))
            text = f"rules.{_SCOPES[scope.container]}({keys})"
        return text

    @property
    def note(self) -> str:
        """Which rule to replace, and in which rules to write: the end of a sentence, empty if nothing is to be said."""
        replaced = f" instead of {self.instead.label}" if self.instead is not None else ""
        return f"{replaced}, in the rules of {self.within.label}" if self.within is not None else replaced

    @property
    def ends(self) -> tuple[str, str]:
        """The paths of a rule that has both, as arguments; the hub's is empty if it is the same."""
        return argument(self.spoke), "" if self.spoke == self.hub else argument(self.hub)

    @property
    def renamed(self) -> str:
        """The hub's field as an argument; empty if it has the same path as the spoke's."""
        return "" if self.spoke == self.hub else self.one("hub")

    def one(self, side: Side) -> str:
        """Return the field of one side as an argument."""
        return argument(self.spoke) if side == "spoke" else f"hub={argument(self.hub)}"

    @property
    def pair(self) -> str:
        """The rule of two functions for the field as a whole."""
        return self.rule("pair", argument(self.spoke), argument(self.hub), "up=…", "down=…")

    @property
    def conversion_as_a_whole(self) -> str:
        """The advice where no rule can look inside."""
        if self.is_key:
            reason = "since no rule of an item changes what identifies it"
            return f"Convert the list as a whole with {self.pair}{self.note}, {reason}"
        return f"Convert what is around it as a whole with {self.pair}{self.note}"


def literal(value: Any) -> str:
    """Return a scalar as source text."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def spot(
    around: Sequence[Around],
    spoke: Path,
    hub: Path,
    *,
    next_to_move: bool = False,
    keeps_key: bool = False,
    required: frozenset[Side] = frozenset(),
) -> Spot:
    """Return the place of a rule for a field that these versions require.

    With ``next_to_move`` the rule may stand next to the move of an object that contains the field. With ``keeps_key``
    it may stand inside of a list although the field identifies the items.
    """
    frames: list[Around] = []
    before = Around("object", (), ())
    for step in around:
        ours, theirs = before.spoke + step.spoke, before.hub + step.hub
        if step.container == "wrapped":
            return _placed(frames, replace(step, spoke=ours, hub=theirs), step.rule, is_whole=True)
        if step.container == "object" and not _is_scope(step.rule):
            moved = step.rule if step.rule is not None and step.rule.moves else before.rule
            before = Around("object", ours, theirs, moved, required=step.required)
            continue
        if not ours and not theirs:
            return _whole(frames)
        if before.rule is not None and (step.spoke or step.hub):  # the move also converts what is next to this
            frames.append(before)
            ours, theirs, before = step.spoke, step.hub, Around("object", (), ())
        frames.append(replace(step, spoke=ours, hub=theirs, rule=step.rule or before.rule))
        before = Around("object", (), ())
    ends = before.spoke + spoke, before.hub + hub
    if frames and not keeps_key and any(len(path) == 1 and path[0] in frames[-1].keys for path in ends):
        return replace(_whole(frames), is_key=True)
    field = Around("object", spoke, hub, required=required)
    if not (before.spoke or before.hub):
        return _placed(frames, field, None) if spoke or hub else _whole(frames)
    if not (spoke or hub):
        return _placed(frames, before, before.rule)
    if next_to_move or (before.rule is None and before.spoke == before.hub):
        return _placed(frames, replace(field, spoke=before.spoke + spoke, hub=before.hub + hub), None)
    return _placed([*frames, before], field, None)


def _whole(frames: list[Around]) -> Spot:
    """Return the place of a rule for the innermost list, map or object around."""
    if not frames:
        return Spot((), (), is_whole=True)
    last = frames[-1]
    return _placed(frames[:-1], last, last.rule, is_whole=True)


def _placed(frames: Sequence[Around], field: Around, replaced: Rule | None, *, is_whole: bool = False) -> Spot:
    written = [number for number, frame in enumerate(frames) if _is_scope(frame.rule)]
    around = (frames[number].rule for number in reversed(written))
    within = next((rule for rule in around if rule is not None and not rule.is_again), None)
    scopes = tuple(frames[written[-1] + 1 :] if written else frames)
    moved = next((frame.rule for frame in scopes if frame.rule is not None), None)
    return Spot(field.spoke, field.hub, scopes, within, moved or replaced, is_whole, field.required)


def _is_scope(rule: Rule | None) -> bool:
    return rule is not None and rule.container is not None


def example(schema: Schema | None) -> str:
    """Return a value with all that a schema requires, as source text; ``…`` stands for what an author has to choose."""
    if schema is not None and sum(1 for _ in _leaves(schema)) > _MOST_FIELDS:
        return "{…}"
    return _example(schema)


def _example(schema: Schema | None) -> str:
    if schema is not None and schema.has_default and not isinstance(schema.default, dict | list):
        return literal(schema.default)
    if schema is None or schema.kind not in ("map", "list"):
        return "…"
    if schema.kind == "list":
        count = schema.node.get("minItems") or 0
        return f"[{', '.join([_example(schema.items)] * min(count, 1))}]"
    fields = ((json.dumps(name, ensure_ascii=False), schema.field(name)) for name in schema.node.get("required") or ())
    return f"{{{', '.join(f'{name}: {_example(field)}' for name, field in fields)}}}"


def _leaves(schema: Schema) -> Iterator[Any]:
    for name in schema.required:
        field = schema.field(name)
        if field is not None and field.kind == "map" and field.required:
            yield from _leaves(field)
        else:
            yield name
