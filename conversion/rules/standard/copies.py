"""One value that a version has at several places, such as a field and its deprecated name.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from restow.conversion.model.values import ABSENT, same
from restow.conversion.rules.known import Ends, Misfit, Shape, Standard
from restow.conversion.rules.lens import Lens
from restow.conversion.rules.protocol import Rule, declared
from restow.conversion.rules.sides import Side, opposite
from restow.conversion.rules.standard.maps import differs
from restow.conversion.rules.standard.shapes import (
    ANY_SHAPE,
    AsEdited,
    choices,
    differs_in_type,
    direction_from,
    losing,
    oriented,
)
from restow.crds import Schema

#: A field's path, or the paths of its copies.
FieldOrCopies = str | Sequence[str]


#: The copies that a version shows: all of them, or one of the old name and the new one.
Shown = Literal["both", "old", "new"]
_ALONE: Final = ("old", "new")


@declared
def copy(spoke: FieldOrCopies, hub: FieldOrCopies, *, show: Shown = "both") -> Rule:
    """A field that the other version has at several places: ``copy(["spec.profile", "spec.profileName"],
    "spec.profile")``, where ``profileName`` is the deprecated name.

    One side is a path, the other one the paths of the copies. The first copy that is present counts; the stash keeps
    other copies that differ, and that a copy is missing. An edit of the single field reaches the copies that had its
    value.

    ``spoke`` is the spoke's field, or its copies: the one that counts first.

    ``hub`` is the hub's field, or its copies: the one that counts first.

    ``show`` are the copies that are written: with ``show="new"``, of the old name and the new one, in this order, only
    the new one. The other one counts if a client sets it, so no edit is ignored.
    """
    side: Side = "hub" if isinstance(spoke, str) else "spoke"
    field, given = (spoke, hub) if side == "hub" else (hub, spoke)
    paths = tuple(given) if _is_list(given) else (str(given),)
    single = field if isinstance(field, str) else ""
    is_sound = bool(single) and len(paths) > 1 and len(set(paths)) == len(paths)
    written = paths if show == "both" else paths[-1:] if show == "new" else paths[:1]
    take, give = _Take((*(path for path in paths if path not in written), *written)), _Show(written)
    ways = oriented(side, take, give)
    return Lens(
        spoke=paths if side == "spoke" else (single,),
        hub=paths if side == "hub" else (single,),
        up=ways["up"],
        down=ways["down"],
        spoke_packing="leaves" if side == "spoke" else "value",
        hub_packing="leaves" if side == "hub" else "value",
        loses=losing(up=side == "spoke", down=side == "hub"),
        standard=Standard(
            shapes={side: (ANY_SHAPE,) * len(paths), opposite(side): (ANY_SHAPE,)},
            quick={direction_from(opposite(side)): give},
            merge=oriented(side, AsEdited(take), _Keep(give)),
            repeats=side,
            check=_CheckCopies(side, tuple(path in written for path in paths)),
            image=_CopiesImage(side, len(paths)),
        ),
        defects=_defects(show, len(paths), is_sound=is_sound),
    )


def _defects(show: str, count: int, *, is_sound: bool) -> tuple[tuple[str, str], ...]:
    if not is_sound:
        return (("needs one path, and a list of two or more others", "Name each field once"),)
    if show in _ALONE and count != 2:
        return ((f"has {count} copies, of which none is the {show} one", "Name the old field, then the new one"),)
    return choices(show=(show, Shown))


def _is_list(given: Any) -> bool:
    return isinstance(given, Sequence) and not isinstance(given, str) and all(isinstance(each, str) for each in given)


@dataclass(frozen=True, slots=True)
class _Take:
    """Converts the copies to the field: the first one that is present counts."""

    paths: tuple[str, ...]

    def __call__(self, leaves: Any) -> Any:
        return next((leaves[path] for path in self.paths if path in leaves), ABSENT)


@dataclass(frozen=True, slots=True)
class _Show:
    """Converts the field to the copies."""

    paths: tuple[str, ...]

    def __call__(self, value: Any) -> Any:
        return dict.fromkeys(self.paths, value)


@dataclass(frozen=True, slots=True)
class _Keep:
    """Merges an edit of the field into copies that differ: those that had its value get the new one."""

    show: _Show

    def __call__(self, edited: Any, shown: Any, kept: Any) -> Any:
        if not isinstance(kept, dict) or not kept:
            return self.show(edited)
        return {path: edited if same(value, shown) else value for path, value in kept.items()}


_HIDDEN: Final = "is required, but show= names the other copy"


@dataclass(frozen=True, slots=True)
class _CheckCopies:
    """Checks for copies of another type than the field, and for required ones that no value reaches."""

    side: Side
    written: tuple[bool, ...]

    def __call__(self, ends: Ends) -> Iterator[Misfit]:
        copies, field = ends[self.side], ends[opposite(self.side)][0]
        for index, end in enumerate(copies):
            if end is None or field is None:
                continue
            if "any" not in (end.schema.kind, field.schema.kind) and _admit_others(end.schema, field.schema):
                problem = "does not admit the same values as the field in the other version"
                yield Misfit(self.side, index, problem, "Let both have the same schema, or convert it with rules.pair")
            elif end.required and not (field.required and self.written[index]):
                problem = "is required, but the field that it copies is not" if self.written[index] else _HIDDEN
                yield Misfit(self.side, index, problem, "Make it optional, or require both")
        if field is not None and field.required and not any(end is None or end.required for end in copies):
            problem = "is required, but none of the copies that it is made of is"
            yield Misfit(opposite(self.side), 0, problem, "Make it optional, or require one of the copies")


def _admit_others(ours: Schema, theirs: Schema) -> bool:
    """Return whether two schemas declare values of different types, or lists and objects with other content."""
    if ours.kind in ("map", "list") or theirs.kind in ("map", "list"):
        return differs(ours.node, theirs.node)
    return differs_in_type(ours.node, theirs.node) or ours.node.get("enum") != theirs.node.get("enum")


@dataclass(frozen=True, slots=True)
class _CopiesImage:
    side: Side
    count: int

    def __call__(self, sources: Sequence[Shape | None]) -> Sequence[Shape]:
        shape = next((source for source in sources if source), ANY_SHAPE)
        return (shape,) * (1 if self.side == "spoke" else self.count)
