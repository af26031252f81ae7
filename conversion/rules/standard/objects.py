"""Objects in another shape: fields spread over several parents, and objects written as JSON texts.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from restow.conversion.model.values import ABSENT, canonical, depth, is_int64, plain
from restow.conversion.rules.known import Ends, Function, Misfit, Shape, Standard
from restow.conversion.rules.lens import Lens
from restow.conversion.rules.move import Move
from restow.conversion.rules.protocol import Rule, RuleGroup, declared
from restow.conversion.rules.sides import Direction, Side, opposite
from restow.conversion.rules.standard.parts import EditedParts, FittingPart
from restow.conversion.rules.standard.shapes import (
    ANY_SHAPE,
    OBJECT,
    TEXT,
    choices,
    direction_from,
    has_template,
    oriented,
)
from restow.crds import Schema

#: The fields of one parent: names that both versions have, or a mapping from the single object's names to the other
#: version's.
Names = Sequence[str] | Mapping[str, str]

_PLAIN: Final = re.compile(r"[A-Za-z0-9_$-]+")


@declared
def spread(spoke: str, hub: Mapping[str, Names]) -> Rule:
    """The fields of one object, moved to several parents: ``spread("spec.config", {"spec.network": ["cidr", "dns"],
    "spec.storage": {"class": "storageClass"}})``.

    Each field moves as with ``move``. The object's other fields stay where they are.

    ``spoke`` is the object.

    ``hub`` has the fields by their parent's path in the hub: a list of names, or a mapping from the spoke's names to
    the hub's.
    """
    moves = [(_inside(spoke, name), _inside(parent, new)) for parent, name, new in _placed(hub)]
    return RuleGroup(rules=tuple(Move(name="spread", spoke=(here,), hub=(there,)) for here, there in moves))


@declared
def gather(spoke: Mapping[str, Names], hub: str) -> Rule:
    """The fields of several parents, moved to one object: the inverse of ``spread``.

    ``spoke`` has the fields by their parent's path in the spoke: a list of names, or a mapping from the spoke's names
    to the hub's.

    ``hub`` is the object.
    """
    moves = [(_inside(parent, name), _inside(hub, new)) for parent, name, new in _placed(spoke)]
    return RuleGroup(rules=tuple(Move(name="gather", spoke=(here,), hub=(there,)) for here, there in moves))


def _placed(parents: Mapping[str, Names]) -> list[tuple[str, str, str]]:
    """Return parent, the spoke's name and the hub's name of each field."""
    return [
        (parent, *pair)
        for parent, names in parents.items()
        for pair in (names.items() if isinstance(names, Mapping) else [(name, name) for name in names])
    ]


def _inside(parent: str, name: str) -> str:
    step = name if _PLAIN.fullmatch(name) else f"[{canonical(name).decode()}]"
    return step if not parent else f"{parent}{'' if step.startswith('[') else '.'}{step}"


#: The kind of content that a JSON text may hold.
JsonType = Literal["object", "array", "any"]

#: The content of longer and deeper texts is not shown.
_LONGEST: Final = 256 * 1024
_DEEPEST: Final = 100


@declared
def json(spoke: str, hub: str | None = None, *, text: Side = "spoke", type: JsonType = "object") -> Rule:  # noqa: A002 the field's term
    """A text or an annotation with JSON, and its content: ``json('metadata.annotations["example.dev/limits"]',
    "spec.limits")``.

    Going back, the JSON has sorted keys and no spaces; the stash restores another spelling. A text is not shown, and
    the stash keeps it, if it is no JSON of that type or if the other field's schema cannot hold its content.

    ``hub`` is the path in the hub, if it differs.

    ``text`` is the side that has the text.

    ``type`` is the type of the text's content.
    """
    kinds = _KINDS.get(type, ())
    ways = oriented(text, _Decode(kinds), _Encode(kinds))
    shape: Shape = {"object": OBJECT, "array": {"type": "array"}}.get(type, ANY_SHAPE)
    return Lens(
        spoke=(spoke,),
        hub=(hub or spoke,),
        up=ways["up"],
        down=ways["down"],
        loses="both",
        standard=Standard(
            shapes={text: (TEXT,), opposite(text): (shape,)}, must_fit=opposite(text), image=_OpenImage(text, type)
        ),
        defects=choices(text=(text, Side), type=(type, JsonType)),
    )


@declared
def described(spoke: str, hub: str | None = None, *, by: Side = "hub", partial: bool = False) -> Rule:
    """A field that one version describes, while the other version keeps any value: ``described("spec.config")``.

    Values pass unchanged. A value that the schema cannot hold as a whole, because of an unknown field, a type or a
    missing field, is not shown there, and the stash keeps it.

    ``hub`` is the path in the hub, if it differs.

    ``by`` is the side whose schema describes the field.

    With ``partial`` the fields that fit are shown, and the stash keeps the value as it was. A list is shown if each of
    its items is. An edit changes only what it is about: the other fields stay, hidden ones too. Items are found by
    the list's keys, or else if they are unchanged or the list has as many as before.
    """
    return Lens(
        spoke=(spoke,),
        hub=(hub or spoke,),
        up=_unchanged,
        down=_unchanged,
        loses="both",
        standard=Standard(
            shapes={"spoke": (ANY_SHAPE,), "hub": (ANY_SHAPE,)},
            must_fit=by,
            passes=True,
            check=_DescribedCheck(by),
            by_schema=_ByParts(by) if partial else None,
        ),
        defects=choices(by=(by, Side)),
    )


def _unchanged(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True)
class _ByParts:
    by: Side

    def __call__(self, schema: Schema) -> tuple[Function, Function, Mapping[Direction, Function]]:
        ways = oriented(opposite(self.by), FittingPart(schema), _unchanged)
        return ways["up"], ways["down"], {direction_from(self.by): EditedParts(schema)}


@dataclass(frozen=True, slots=True)
class _DescribedCheck:
    by: Side

    def __call__(self, ends: Ends) -> Iterator[Misfit]:
        (typed,), (other,) = ends[self.by], ends[opposite(self.by)]
        if typed is None or other is None:
            return
        if typed.schema.kind == "any" and other.schema.kind != "any":
            problem = "describes nothing, and by= names the side whose schema describes the field"
            yield Misfit(self.by, 0, problem, f'Say by="{opposite(self.by)}"')


_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "object": (dict,),
    "array": (list,),
    "any": (dict, list, str, int, float, bool),
}


@dataclass(frozen=True, slots=True)
class _Decode:
    kinds: tuple[type, ...]
    templates: bool = True

    def __call__(self, value: Any) -> Any:
        if value.__class__ is not str or (self.templates and has_template(value)):
            return value
        if len(value) > _LONGEST or value.count("{") + value.count("[") > _LONGEST // 8:
            return ABSENT
        try:
            found = msgspec.json.decode(value)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return ABSENT
        is_shown = found.__class__ in self.kinds and depth(found) <= _DEEPEST and not _has_large_integer(found)
        return found if is_shown else ABSENT


def _has_large_integer(value: Any) -> bool:
    """Return whether a value has an integer that API servers turn into a float."""
    if isinstance(value, dict):
        return any(map(_has_large_integer, value.values()))
    if isinstance(value, list):
        return any(map(_has_large_integer, value))
    return value.__class__ is int and not is_int64(value)


@dataclass(frozen=True, slots=True)
class _Encode:
    """Writes the text. Its numbers are spelled as API servers spell them, so that the stash keeps other spellings."""

    kinds: tuple[type, ...]
    templates: bool = True

    def __call__(self, value: Any) -> Any:
        if value.__class__ not in self.kinds:
            return value
        try:
            text = canonical(plain(value)).decode()
        except (msgspec.MsgspecError, ValueError, TypeError, OverflowError):
            return ABSENT
        return value if self.templates and has_template(text) else text


@dataclass(frozen=True, slots=True)
class _OpenImage:
    """The hub's node: a text, or a field that keeps whatever a text may hold."""

    text: Side
    kind: str

    def __call__(self, _sources: Sequence[Shape | None]) -> Sequence[Shape]:
        if self.text == "hub":
            return (TEXT,)
        declared_type = {"type": self.kind} if self.kind == "object" else {}
        return ({**declared_type, "x-kubernetes-preserve-unknown-fields": True},)
