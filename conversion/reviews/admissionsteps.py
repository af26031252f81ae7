"""Admission steps: ``restore_stash`` restores dropped stashes, ``refuse_kept`` refuses unconvertible values.

Register both at one version, preferably the hub's, with matchPolicy Equivalent (the default). The API server then
converts the objects of every request to the registered version first, with this same webhook.

``restore_stash`` handles UPDATE. A client that replaces an object at another version, and leaves the stash annotation
out, loses the fields that its version lacks. In the request,

- `oldObject` was converted with its stash: it has all values, and no stash for fields of the registered version;
- `object` was converted without a stash: the kept values are missing, and nothing in the object shows this.

So the step converts both back to the version of the request. There the old object has the stash that its client
received. The new object has exactly what the client sent, because a round trip is the identity: no stash means that the
client sent none. The step then adds the old stash to the new object, and converts it to the registered version once
more. The guards of the stash give every edit of the client precedence, so the result is the same as that of an edit
with the annotation in place. The difference is the patch.

The API server computes the field owners before it calls admission, and takes the missing fields from their owners. If
such an owner leaves the field out of its next apply, the field would stay for ever. So the patch restores to
`managedFields` what the owners lost; fields that did not change keep their owners.

Where `status` is a subresource, the server overwrites the status of such a request with the stored one after admission.
So this step converts the stored status; otherwise the part of the stash that belongs to it would be lost.

Sources: apiserver `admission/plugin/webhook/mutating/dispatcher.go` for the objects that a webhook with matchPolicy
Equivalent gets; `handlers/update.go` (the field manager comes before mutating admission) and `managedfields/internal`,
`admission.go`; KEP-555 for the form of FieldsV1.

``refuse_kept`` handles CREATE and UPDATE. A conversion webhook cannot tell a read from a write, and has to convert
both; an admission step can refuse a write. The step converts the object back to the version of the request, which gives
what the client sent, and then again to the registered version and to all others. It refuses a value that fails on the
way if the write adds it. A value that failed before may stay; otherwise no client could change anything else in its
object.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from restow.conversion.compile.graph import Graph
from restow.conversion.model.errors import ConversionError, RuleFailed, UnknownKind, kept_values
from restow.conversion.model.fieldpath import steps_of, value_at
from restow.conversion.model.values import ABSENT, Json, canonical, plain, same
from restow.conversion.reviews.admission import AdmissionRequest, AdmissionResponse, json_patch
from restow.conversion.stash.annotation import parse_stash
from restow.kube.suggestions import few

_ALLOWED: Final = AdmissionResponse()


def restore_stash(graph: Graph, request: AdmissionRequest, *, stored_status: bool) -> AdmissionResponse:
    """Restore the stash that a client left out of an update at another version.

    ``stored_status``: whether the kind's status is a subresource at the request's version. Kinds that the graph does
    not know, and everything but an update of a whole object, pass.

    Raises:
        ObjectError: a rule fails on one of the objects, or the kind has no such version.
    """
    new, old, asked = request.object, request.old_object, request.request_kind or request.kind
    if request.operation != "UPDATE" or request.sub_resource or asked == request.kind or new is None or old is None:
        return _ALLOWED
    try:
        key = graph.kind(request.kind.group, request.kind.kind).stash_key
    except UnknownKind:
        return _ALLOWED
    here, there = (f"{kind.group}/{kind.version}" for kind in (request.kind, asked))
    shown, sent = graph.convert(old, there), graph.convert(new, there)
    stash = annotations_of(shown).get(key)
    if parse_stash(stash) is None or parse_stash(annotations_of(sent).get(key)) is not None:
        return _ALLOWED
    if stored_status:
        sent = with_status_of(shown, sent)
    restored = graph.convert(annotated(sent, key, stash), here)
    return AdmissionResponse(patch=tuple(json_patch(new, with_owners(graph, old, restored))))


def annotations_of(obj: Json) -> Json:
    """Return an object's annotations, none if they are malformed."""
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations if isinstance(annotations, dict) else {}


def annotated(obj: Json, key: str, text: Any) -> Json:
    """Return an object with a further annotation."""
    metadata = {**(obj.get("metadata") or {}), "annotations": {**annotations_of(obj), key: text}}
    return {**obj, "metadata": metadata}


def with_status_of(stored: Json, obj: Json) -> Json:
    """Return an object with the status of the stored one."""
    others = {name: value for name, value in obj.items() if name != "status"}
    return {**others, "status": stored["status"]} if "status" in stored else others


def with_owners(graph: Graph, old: Json, restored: Json) -> Json:
    """Return a restored object; fields that did not change keep the owners that they had in the old object."""
    before, after = ((obj.get("metadata") or {}).get("managedFields") or [] for obj in (old, restored))

    def views(version: str) -> tuple[Json, Json] | None:
        try:
            return graph.convert(old, version), graph.convert(restored, version)
        except ConversionError:
            return None

    owned = restore_owners(before, after, views)
    return {**restored, "metadata": {**restored["metadata"], "managedFields": owned}} if owned else restored


Views = Callable[[str], tuple[Json, Json] | None]
"""The object before and after, at an apiVersion; None if it cannot be converted to that version."""

_SELF: Final = "."


def restore_owners(before: Iterable[Json], after: Iterable[Json], views: Views) -> list[Json]:
    """Return the managedFields ``after``; entries of ``before`` get their lost fields back if these did not change."""
    left = {_identity(entry): entry for entry in after}
    entries = []
    for entry in before:
        now, seen = left.pop(_identity(entry), None), views(str(entry.get("apiVersion")))
        owned = (now or {}).get("fieldsV1") or {}
        fields = _merged(entry.get("fieldsV1") or {}, owned, *seen) if seen is not None else owned
        if now is not None or fields:
            entries.append({**(now or entry), "fieldsV1": fields})
    return [*entries, *left.values()]


def _identity(entry: Json) -> tuple[Any, ...]:
    return tuple(entry.get(name) for name in ("manager", "operation", "subresource", "apiVersion"))


def _merged(before: Json, now: Json, was: Any, becomes: Any) -> Json:
    """Return the fields ``now``, and those of ``before`` whose values are the same in ``was`` and ``becomes``."""
    fields = dict(now)
    for name, below in before.items():
        if name == _SELF:
            fields[name] = {}
            continue
        old, new = _value(was, name), _value(becomes, name)
        if old is ABSENT or new is ABSENT:
            continue
        if not below:
            fields |= {name: {}} if same(old, new) else {}
        elif found := _merged(below, now.get(name) or {}, old, new):
            fields[name] = found
    return fields


def _value(parent: Any, name: str) -> Any:
    """Return the value for a path element of FieldsV1, ABSENT if there is none."""
    kind, _, rest = name.partition(":")
    if kind == "f":
        return parent.get(rest, ABSENT) if isinstance(parent, dict) else ABSENT
    if not isinstance(parent, list):
        return ABSENT
    if kind == "i":
        return parent[int(rest)] if int(rest) < len(parent) else ABSENT
    wanted = msgspec.json.decode(rest)
    if kind == "v":
        return wanted if wanted in parent else ABSENT
    items = (item for item in parent if isinstance(item, dict))
    return next((item for item in items if all(item.get(key) == value for key, value in wanted.items())), ABSENT)


_UNPROCESSABLE: Final = 422
_MOST_NAMED: Final = 10
_INDEX: Final = re.compile(r"/[0-9]+(?=/|$)")

#: The source and target version of a failure, its rule, its place without the indexes of lists, and the value.
_Failure = tuple[str, str, str, str, bytes]


def refuse_kept(graph: Graph, request: AdmissionRequest) -> AdmissionResponse:
    """Refuse a create or an update that adds values which rules cannot convert to some version.

    Kinds that the graph does not know, and those that keep nothing, pass.

    Raises:
        ObjectError: a rule that keeps nothing fails on the object, or the kind has no such version.
    """
    new, old, asked = request.object, request.old_object, request.request_kind or request.kind
    if request.operation not in ("CREATE", "UPDATE") or new is None:
        return _ALLOWED
    try:
        kind = graph.kind(request.kind.group, request.kind.kind)
    except UnknownKind:
        return _ALLOWED
    if not kind.keeps:
        return _ALLOWED
    before = {} if old is None else dict(_failures(graph, old, asked.version))
    found = {key: failed for key, failed in _failures(graph, new, asked.version) if key not in before}
    if not found:
        return _ALLOWED
    listed = few([f"{failed} (from {key[0]} to {key[1]})" for key, failed in found.items()], _MOST_NAMED, "; ")
    message = f"other versions could not show what is written: {listed}. Write values that they have."
    return AdmissionResponse(allowed=False, message=message, code=_UNPROCESSABLE)


def _failures(graph: Graph, obj: Json, asked: str) -> Iterator[tuple[_Failure, RuleFailed]]:
    """Yield an object's failures: from the requested version to its own, and from its own to all others."""
    group, _, here = obj["apiVersion"].rpartition("/")
    versions = graph.kind(group, obj["kind"]).visible_versions
    if asked != here:
        yield from _tried(graph, graph.convert(obj, f"{group}/{asked}"), here)
    for version in versions:
        if version != here:
            yield from _tried(graph, obj, version)


def _tried(graph: Graph, obj: Json, version: str) -> Iterator[tuple[_Failure, RuleFailed]]:
    group, _, source = obj["apiVersion"].rpartition("/")
    with kept_values() as found:
        graph.convert(obj, f"{group}/{version}")
    for failed in found:
        value = value_at(obj, steps_of(obj, failed.pointer))
        kept = canonical(plain(None if value is ABSENT else value))
        yield (source, version, failed.rule, _INDEX.sub("/*", failed.pointer), kept), failed
