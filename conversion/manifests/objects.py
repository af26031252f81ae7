"""The objects of a document, and their conversion: a document is one object, or a list of them.

``kind: List``, as kubectl prints it, may hold objects of any kind; a typed list (``WidgetList``) holds those of one,
which may leave out apiVersion and kind.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from restow.conversion.errors import ObjectError, RuleFailed
from restow.conversion.explain import Ending, Explanation, Fate, Links, Steps, explain
from restow.conversion.graph import Graph
from restow.conversion.manifests.targets import Targets
from restow.conversion.path import pointer
from restow.conversion.stash import unseal
from restow.conversion.values import Json
from restow.kube.resources import qualified_name

__all__ = ["LAST_APPLIED", "Outcome", "Status", "Work", "convert_objects", "objects_of"]

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class Status(StrEnum):
    """What became of an object."""

    CONVERTED = "converted"
    CURRENT = "current"
    """It is at the version that was asked for."""
    FAILED = "failed"
    """It could not be converted, and is as it was."""
    OTHER = "other"
    """It is of a kind that nobody asked for."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One object. ``line`` is that of its document, ``pointer`` its place in it (empty for a document of its own).

    ``error`` is a sentence without values, ``lost`` what a stash would have kept and nothing keeps now, ``warnings``
    are sentences.
    """

    status: Status
    line: int
    pointer: str
    api_version: str
    kind: str
    namespace: str
    name: str
    target: str = ""
    error: str = ""
    lost: tuple[Fate, ...] = ()
    warnings: tuple[str, ...] = ()
    before: Json | None = field(default=None, repr=False)
    after: Json | None = field(default=None, repr=False)
    explanation: Explanation | None = field(default=None, repr=False)

    def taken_back(self, why: str) -> Outcome:
        """Return what is told of an object that was converted, and then had to stay as it was."""
        if self.status is not Status.CONVERTED:
            return self
        return replace(self, status=Status.FAILED, error=why, lost=(), warnings=(), after=None, explanation=None)

    @property
    def title(self) -> str:
        """How messages name the object."""
        names = qualified_name(self.namespace, self.name)
        return " ".join(part for part in (self.kind, names) if part) or "a document without a kind"


@dataclass(slots=True)
class Work:
    """One document at work: its objects so far, its data as it becomes, and what its fields stand for."""

    graph: Graph
    targets: Targets
    line: int
    keeps_stash: bool = True
    outcomes: list[Outcome] = field(default_factory=list)
    links: dict[Steps, Links] = field(default_factory=dict)

    def trace(self, place: Steps) -> tuple[Steps, bool] | None:
        """Return the old place of a field of the document, as ``Links.trace`` does for one object."""
        for size in range(len(place), -1, -1):
            links = self.links.get(place[:size])
            if links is not None:
                found = links.trace(place[size:])
                return None if found is None else (place[:size] + found[0], found[1])
        return place, True


def objects_of(document: Any, place: Steps = ()) -> Iterator[tuple[str, Json]]:
    """Yield the objects of a document with their pointers; items of a typed list with the type that it gives them."""
    if not isinstance(document, dict):
        return
    kind, items = document.get("kind"), document.get("items")
    if not isinstance(kind, str) or not kind.endswith("List") or not isinstance(items, list):
        yield pointer(place), document
        return
    given = {} if kind == "List" else {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")}
    for index, item in enumerate(items):
        if isinstance(item, dict):
            yield from objects_of({**given, **item}, (*place, "items", index))


def convert_objects(work: Work, document: Any, place: Steps = (), given: Mapping[str, str] | None = None) -> Any:
    """Return a document with its objects converted; those that cannot be are as they were.

    ``given`` are the apiVersion and kind that an item of a typed list may leave out.
    """
    if not isinstance(document, dict):
        work.outcomes.append(_outcome(work, Status.OTHER, {}, place))
        return document
    whole = {**(given or {}), **document}
    api_version, kind = whole.get("apiVersion"), whole.get("kind")
    item_kind = work.targets.kind_of_items(api_version, kind)
    if isinstance(document.get("items"), list) and (item_kind or (api_version, kind) == ("v1", "List")):
        return _list(work, document, place, item_kind)
    target = work.targets.of_object(api_version, kind)
    if target is None or target == api_version:
        status = Status.OTHER if target is None else Status.CURRENT
        work.outcomes.append(_outcome(work, status, whole, place))
        return document
    converted = _convert(work, whole, place, target)
    left_out = (given or {}).keys() - document.keys()
    return {name: value for name, value in converted.items() if name not in left_out}


def _list(work: Work, document: Json, place: Steps, item_kind: str | None) -> Json:
    version = document.get("apiVersion", "")
    given = {} if item_kind is None else {"apiVersion": version, "kind": item_kind}
    begin = len(work.outcomes)
    items = [
        convert_objects(work, item, (*place, "items", index), given) for index, item in enumerate(document["items"])
    ]
    target = None if item_kind is None else work.targets.of_object(version, item_kind)
    has_failed = any(outcome.status is Status.FAILED for outcome in work.outcomes[begin:])
    if target is None or target == version:
        return {**document, "items": items}
    if not has_failed:
        return {**document, "apiVersion": target, "items": items}
    if all(isinstance(item, dict) and "apiVersion" in item for item in document["items"]):
        return {**document, "items": items}
    _take_back(work, begin, place)
    return document


def _take_back(work: Work, begin: int, place: Steps) -> None:
    """A list whose items take their version from it is converted as a whole, or not at all."""
    why = "another item of its list cannot be converted, and items without apiVersion have that of their list"
    work.outcomes[begin:] = [outcome.taken_back(why) for outcome in work.outcomes[begin:]]
    for known in [known for known in work.links if known[: len(place)] == place]:
        del work.links[known]


def _convert(work: Work, obj: Json, place: Steps, target: str) -> Json:
    warnings = []
    if LAST_APPLIED in _annotations(obj):
        warnings.append(f"the annotation {LAST_APPLIED} is left as it is, at the old version; kubectl apply renews it")
    try:
        work.graph.route(obj["kind"], obj["apiVersion"], target, visible=True)
        explanation = explain(work.graph, obj, target)
    except ObjectError as error:
        rule = f" ({error.rule})" if isinstance(error, RuleFailed) and error.rule not in error.reason else ""
        work.outcomes.append(replace(_outcome(work, Status.FAILED, obj, place), target=target, error=f"{error}{rule}"))
        return obj
    result, lost = explanation.result, [fate for fate in explanation.fates if fate.ending is Ending.LOST]
    if not work.keeps_stash and explanation.stash_after is not None:
        key = work.graph.kind(target.rpartition("/")[0], obj["kind"]).stash_key
        result, _ = unseal(result, key)
        lost += [fate for fate in explanation.fates if fate.ending is Ending.STASHED]
        if explanation.stash_after["kept"].keys() - set(explanation.route):
            warnings.append("what earlier conversions kept in its stash is lost too")
    work.links[place] = explanation.links
    work.outcomes.append(
        replace(
            _outcome(work, Status.CONVERTED, obj, place),
            target=target,
            lost=tuple(lost),
            warnings=tuple(warnings),
            before=obj,
            after=result,
            explanation=explanation,
        )
    )
    return result


def _outcome(work: Work, status: Status, obj: Json, place: Steps) -> Outcome:
    metadata = obj.get("metadata")
    names = metadata if isinstance(metadata, dict) else {}
    texts = (obj.get("apiVersion"), obj.get("kind"), names.get("namespace"), names.get("name"))
    api_version, kind, namespace, name = (text if isinstance(text, str) else "" for text in texts)
    return Outcome(status, work.line, pointer(place), api_version, kind, namespace, name)


def _annotations(obj: Json) -> Json:
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations if isinstance(annotations, dict) else {}
