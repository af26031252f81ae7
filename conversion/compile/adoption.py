"""Adopts the stashes of other tools: annotations that hold a whole object of another version.

Go conversions usually keep the data that a version lacks as follows: the object of the hub, without its metadata, as
JSON in one annotation (Cluster API's ``MarshalData``, and tools modelled on it). Such an annotation becomes a stash of
restow's own. The object in it is converted down, and the resulting stash is the one that restow would have written. So
its guards also hold, and a later edit takes precedence. Objects that cannot be read or converted stay as they are.

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
from restow.conversion.stash.annotation import Stash, parse_stash, seal, unseal

#: Far more levels than any CRD schema has, and few enough for every decoder.
_MAX_DEPTH: Final = 128


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


def adoption(
    adopted: Sequence[Adopted],
    *,
    group: str,
    kind: str,
    source: str,
    back: Callable[[str], Callable[[Json], Json]],
    stash_key: str,
    budget: int,
) -> Callable[[Json], Json] | None:
    """Return a function that turns the annotations of other tools into a stash; None if there are none.

    ``back`` returns the conversion from a version to ``source``.
    """
    steps = [
        _Step(each, f"{group}/{each.version}", kind, back(each.version), stash_key, budget)
        for each in adopted
        if each.version != source
    ]
    if not steps:
        return None

    def adopt(obj: Json) -> Json:
        metadata = obj.get("metadata")
        annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
        if not isinstance(annotations, dict):
            return obj
        for step in steps:
            if step.adopted.annotation in annotations:
                obj = step.take(obj)
        return obj

    return adopt


@dataclass(frozen=True, slots=True)
class _Step:
    adopted: Adopted
    api_version: str
    kind: str
    back: Callable[[Json], Json]
    stash_key: str
    budget: int

    def take(self, obj: Json) -> Json:
        """Return the object with a stash of restow's own that holds the annotation's data."""
        annotations = obj["metadata"]["annotations"]
        theirs = self._kept(annotations[self.adopted.annotation])
        if theirs is None:
            return obj
        found, own = unseal(obj, self.stash_key) if self.stash_key in annotations else (obj, None)
        if own is not None and own.foreign:
            return obj
        left = {**(found.get("metadata") or {})}
        if not self.adopted.stays:
            others = {**left.get("annotations", {})}
            others.pop(self.adopted.annotation, None)
            left = {name: value for name, value in left.items() if name != "annotations"}
            left |= {"annotations": others} if others else {}
        found = {**found, "metadata": left}
        stash = Stash({**theirs, **own.kept}, own.dropped) if own is not None else Stash(dict(theirs))
        seal(found, self.stash_key, stash, self.budget)
        return found

    def _kept(self, text: Any) -> Mapping[str, Json] | None:
        """Return the entries that restow would have kept of the object in the annotation; None if there are none."""
        try:
            whole = msgspec.json.decode(text) if isinstance(text, str) else None
            if not isinstance(whole, dict) or depth(whole) > _MAX_DEPTH:
                return None
            shown_there = self.back({**whole, "apiVersion": self.api_version, "kind": self.kind, "metadata": {}})
        except (msgspec.MsgspecError, ValueError, RecursionError, ObjectError):
            return None
        annotations = shown_there["metadata"].get("annotations") or {}
        parsed = parse_stash(annotations.get(self.stash_key))
        kept = {} if parsed is None else parsed[0].kept
        return {version: self._chosen(entries) for version, entries in kept.items()}

    def _chosen(self, entries: Mapping[str, Any]) -> Json:
        if not self.adopted.fields:
            return dict(entries)
        places = [shown(parse(text)) for text in self.adopted.fields]
        return {
            path: entry
            for path, entry in entries.items()
            if any(path == place or path.startswith((f"{place}.", f"{place}[")) for place in places)
        }
