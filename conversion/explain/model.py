"""The data of an explanation: the origin of each leaf of the result, and the end of each leaf of the source.

Places are steps from the root of the object (``("spec", "ports", 0, "name")``), shown as JSON pointers. A leaf is a
value without content: a scalar, null, ``{}``, ``[]``.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from restow.conversion.model.fieldpath import Steps, pointer
from restow.conversion.model.values import ABSENT, Json


class OriginKind(StrEnum):
    """The kind of origin of a leaf of the result."""

    COPIED = "copied"
    """The source has it at the same place."""
    MOVED = "moved"
    """The source has the same value at another place."""
    COMPUTED = "computed"
    """A rule made it from the sources."""
    CONSTANT = "constant"
    """A rule gives it to every object."""
    DEFAULT = "default"
    """A rule fills it in because the source leaves it out."""
    STASH = "stash"
    """An earlier conversion kept it in the stash; sources, if any, guard it against later edits."""
    EMPTIED = "emptied"
    """An object that stays although rules took all of its content."""
    VERSION = "version"
    """The requested apiVersion."""
    ANNOTATION = "annotation"
    """The stash annotation itself; sources are the leaves that it keeps."""


class LeafEnding(StrEnum):
    """The end of a source leaf that the result does not simply contain."""

    DROPPED = "dropped"
    """A rule drops it; the reason is the author's."""
    STASHED = "stashed"
    """The target version has no field for it, or for a part of it: the stash keeps it."""
    KEPT = "kept"
    """Its rule failed: the stash keeps it as it is, because of ``on_error="keep"``."""
    IMPLIED = "implied"
    """The target leaves it out because every object has this value there."""
    LOST = "lost"
    """It belongs into the stash, which had no room."""


@dataclass(frozen=True, slots=True)
class LeafOrigin:
    """The origin of a leaf: the fields of the source that it was made from, and the rules in the order they acted.

    ``deciders`` are the fields of the source that decide about the branches of unions (``rules.when``) that convert the
    leaf. Another value there may give the leaf another origin.
    """

    how: OriginKind
    sources: tuple[Steps, ...] = ()
    rules: tuple[str, ...] = ()
    deciders: tuple[Steps, ...] = ()


@dataclass(frozen=True, slots=True)
class ResultLeaf:
    """One leaf of the result and its origin."""

    place: Steps
    value: Any
    origin: LeafOrigin

    @property
    def pointer(self) -> str:
        """The place as a JSON pointer."""
        return pointer(self.place)


@dataclass(frozen=True, slots=True)
class SourceLeaf:
    """The end of a leaf of the source.

    ``where`` is the stash entry (``v1 .spec.weight``), ``reason`` the author's.
    """

    place: Steps
    ending: LeafEnding
    rule: str
    where: str = ""
    reason: str = ""

    @property
    def pointer(self) -> str:
        """The place as a JSON pointer."""
        return pointer(self.place)


@dataclass(frozen=True, slots=True)
class DefaultedField:
    """A field that the API server adds because the target's schema has a default for it."""

    path: str
    value: Any


@dataclass(frozen=True, slots=True)
class DoubtfulEntry:
    """A stash entry of a list item that cannot be distinguished from others after an edit: it is lost.

    ``path`` is the path of the list's items, ``fields`` are those of the item.
    """

    path: str
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WaivedField:
    """A field that the result lacks although its version requires it.

    ``problem`` names the field, ``reason`` is the author's.
    """

    problem: str
    reason: str


@dataclass(frozen=True, slots=True)
class FieldLink:
    """The field of the source that corresponds to a field of the result; None if there is none.

    ``opaque``: a function made the value, so items of lists in it need not correspond by position.
    """

    source: Steps | None
    opaque: bool = False


@dataclass(frozen=True, slots=True)
class FieldLinks:
    """The source fields that correspond to fields of the result; fields without a link kept their place.

    There is one mapping for each leg of the route, in the order of the legs.
    """

    legs: tuple[Mapping[Steps, FieldLink], ...] = ()

    def source(self, place: Steps) -> Steps | None:
        """Return the field of the source for a field of the result; it need not exist. None if there is none."""
        found = self.trace(place)
        return None if found is None else found[0]

    def trace(self, place: Steps) -> tuple[Steps, bool] | None:
        """Return the field of the source, and whether positions in lists on the way to it are reliable."""
        exact = True
        for leg in reversed(self.legs):
            prefix = next((place[:size] for size in range(len(place), -1, -1) if place[:size] in leg), None)
            if prefix is None:
                continue
            link = leg[prefix]
            if link.source is None:
                return None
            exact = exact and not (link.opaque and len(prefix) < len(place))
            place = link.source + place[len(prefix) :]
        return place, exact


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one object's conversion. ``route`` are the versions on the way, including the first and last.

    ``doubtful`` are the entries of the stash that a conversion could not attribute to an item of their list. ``pruned``
    and ``defaulted`` are the fields that the API server removes and adds when the result is written, as paths of
    schemas; ``waived`` are those that the result lacks; all are empty if the target has no schema. ``stash_before`` and
    ``stash_after`` are the decoded annotations, None without one.
    """

    route: tuple[str, ...]
    source: Json = field(repr=False)
    result: Json = field(repr=False)
    leaves: tuple[ResultLeaf, ...]
    source_leaves: tuple[SourceLeaf, ...]
    stash_before: Json | None
    stash_after: Json | None
    doubtful: tuple[DoubtfulEntry, ...]
    pruned: tuple[str, ...]
    defaulted: tuple[DefaultedField, ...]
    waived: tuple[WaivedField, ...]
    links: FieldLinks = field(repr=False)
    kept: tuple[str, ...] = ()


def leaves(value: Any, place: Steps = ()) -> Iterator[tuple[Steps, Any]]:
    """Yield every leaf of a value with its place; nothing for ABSENT."""
    if value is ABSENT:
        return
    children: Sequence[tuple[str | int, Any]] = ()
    if isinstance(value, dict):
        children = tuple(value.items())
    elif isinstance(value, list):
        children = tuple(enumerate(value))
    if not children:
        yield place, value
    for step, child in children:
        yield from leaves(child, (*place, step))
