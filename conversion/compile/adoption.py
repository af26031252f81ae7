"""Adopts the stashes of other tools: annotations that hold a whole object of another version.

Go conversions usually keep the data that a version lacks as follows: the object of the hub, without its metadata, as
JSON in one annotation (Cluster API's ``MarshalData``, and tools modelled on it). Such an annotation becomes a stash of
restow's own. The object in it is converted down, and the resulting stash is the one that restow would have written. So
its guards also hold, and a later edit takes precedence. Objects that cannot be read or converted stay as they are.

An annotation counts once. One that stays has the old values for ever, so the stash says that it was adopted; on an
object at its own version it never counts, because the object says more than the annotation.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from restow.conversion.model.errors import ObjectError
from restow.conversion.model.fieldpath import parse, shown
from restow.conversion.model.values import Json, depth
from restow.conversion.stash.annotation import Stash, annotations_of, parse_stash, seal, section, unseal, with_section

#: Far more levels than any CRD schema has, and few enough for every decoder.
_MAX_DEPTH: Final = 128

#: The section of a stash that names the annotations that stay, once they are adopted. No version can have this name.
ADOPTED: Final = "adopted annotations"


@dataclass(frozen=True, slots=True)
class Adopted:
    """An annotation of another tool: ``version`` is the version of the whole object in it.

    ``fields`` are the paths to take from it; without them, all fields that the rules keep. ``stays``: the annotation is
    not removed, because another tool still reads it. It then has the old values, without later edits.
    """

    annotation: str
    version: str
    fields: tuple[str, ...] = ()
    stays: bool = False


class Adoption:
    """The adoption of one kind's annotations, for objects of one version.

    ``back`` returns the conversion from a version to ``source``.
    """

    def __init__(
        self,
        adopted: Sequence[Adopted],
        *,
        group: str,
        kind: str,
        source: str,
        back: Callable[[str], Callable[[Json], Json]],
        stash_key: str,
        budget: int,
    ) -> None:
        self._steps = [
            _Step(
                each,
                f"{group}/{each.version}",
                kind,
                None if each.version == source else back(each.version),
                stash_key,
                budget,
            )
            for each in adopted
        ]

    def take(self, obj: Json) -> Json:
        """Return an object in which a stash replaces the annotations."""
        for step in self._steps:
            if step.adopted.annotation in annotations_of(obj):
                obj = step.take(obj)
        return obj

    def arrive(self, obj: Json) -> Json:
        """Return a converted object whose stash does not say what its version shows: what was adopted from it."""
        for step in self._steps:
            if step.back is None and step.adopted.annotation in annotations_of(obj):
                obj = step.unmarked(obj)
        return obj


@dataclass(frozen=True, slots=True)
class _Step:
    """An annotation and objects of one version; ``back`` is None if that is the annotation's own version."""

    adopted: Adopted
    api_version: str
    kind: str
    back: Callable[[Json], Json] | None
    stash_key: str
    budget: int

    def take(self, obj: Json) -> Json:
        """Return the object with a stash of restow's own that holds the annotation's data."""
        annotations = obj["metadata"]["annotations"]
        theirs = self._kept(annotations[self.adopted.annotation])
        if theirs is None:
            return obj
        found, own = unseal(obj, self.stash_key) if self.stash_key in annotations else (obj, None)
        stash = own or Stash()
        marks = stash.kept.get(ADOPTED, {})
        if stash.foreign or self.adopted.annotation in marks:
            return obj
        stash = Stash({**theirs.kept, **stash.kept}, stash.dropped + theirs.dropped)
        if self.adopted.stays:
            stash.put(ADOPTED, {**marks, self.adopted.annotation: {}})
        else:
            others = {name: text for name, text in annotations_of(found).items() if name != self.adopted.annotation}
            left = {name: value for name, value in found["metadata"].items() if name != "annotations"}
            found = {**found, "metadata": left | ({"annotations": others} if others else {})}
        sealed = {**found}
        seal(sealed, self.stash_key, stash, self.budget)
        holds = stash.dropped or any(stash.kept.values())
        return obj if holds and self.stash_key not in annotations_of(sealed) else sealed

    def unmarked(self, obj: Json) -> Json:
        """Return the object without the entry that says that the annotation was adopted."""
        marks = section(obj, self.stash_key, ADOPTED)
        if self.adopted.annotation not in marks:
            return obj
        others = {name: mark for name, mark in marks.items() if name != self.adopted.annotation}
        return with_section(obj, self.stash_key, ADOPTED, others, self.budget)

    def _kept(self, text: Any) -> Stash | None:
        """Return the stash that restow would have made of the object in the annotation; None if it holds none."""
        try:
            whole = msgspec.json.decode(text) if isinstance(text, str) else None
            if not isinstance(whole, dict) or depth(whole) > _MAX_DEPTH:
                return None
            if self.back is None:
                return Stash()
            shown_there = self.back({**whole, "apiVersion": self.api_version, "kind": self.kind, "metadata": {}})
        except (msgspec.MsgspecError, ValueError, RecursionError, ObjectError):
            return None
        parsed = parse_stash(annotations_of(shown_there).get(self.stash_key))
        stash = Stash() if parsed is None else parsed[0]
        return Stash({version: self._chosen(entries) for version, entries in stash.kept.items()}, stash.dropped)

    def _chosen(self, entries: Mapping[str, Any]) -> Json:
        if not self.adopted.fields:
            return dict(entries)
        places = [shown(parse(text)) for text in self.adopted.fields]
        return {
            path: entry
            for path, entry in entries.items()
            if any(path == place or path.startswith((f"{place}.", f"{place}[")) for place in places)
        }
