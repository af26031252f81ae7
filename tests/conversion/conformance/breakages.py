"""A good webhook, and the same one broken in one way for each case: the name is the case that has to find it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.conversion.conformance.server import Reply
from tests.conversion.conformance.widgets import GROUP, VERSIONS, Json, Refusal, convert

Convert = Callable[[Json, str], Json]


@dataclass(frozen=True)
class Webhook:
    """A webhook in parts that can be replaced. ``options`` are those of its server."""

    convert: Convert = convert
    review: Callable[[Json], Json] = lambda review: review
    objects: Callable[[list[Json], list[Json]], list[Any]] = lambda _sent, got: got
    answer: Callable[[Json, Json], Any] = lambda _review, answer: answer
    reply: Callable[[Reply], Reply] = lambda reply: reply
    malformed: Reply = field(default_factory=lambda: Reply(b"no review", 400))
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, body: bytes) -> Reply:
        """Answer a review."""
        try:
            review = self.review(json.loads(body))
        except ValueError:
            return self.malformed
        request = review["request"]
        response: Json = {"uid": request["uid"], "result": {"status": "Success"}}
        try:
            got = [self.convert(obj, request["desiredAPIVersion"]) for obj in request["objects"]]
            response["convertedObjects"] = self.objects(request["objects"], got)
        except Refusal as error:
            response |= {"convertedObjects": [], "result": {"status": "Failure", "message": str(error)}}
        envelope = {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}
        return self.reply(Reply(json.dumps(self.answer(review, envelope)).encode()))


GOOD = Webhook()


def in_response(change: Callable[[Json], Json]) -> Webhook:
    """A webhook with another response."""
    return replace(GOOD, answer=lambda _review, answer: {**answer, "response": change(answer["response"])})


def in_result(where: str, **changes: str) -> Webhook:
    """A webhook with another result, where it has this status."""
    return in_response(
        lambda response: (
            {**response, "result": {**response["result"], **changes}}
            if response["result"]["status"] == where
            else response
        )
    )


def converting(change: Callable[[Json, Json, str], Json]) -> Webhook:
    """A webhook whose converted object is changed by (sent, converted, desired)."""
    return replace(GOOD, convert=lambda obj, desired: change(obj, convert(obj, desired), desired))


def crashing(when: Callable[[Json], object]) -> Webhook:
    """A webhook that fails for some objects."""

    def strict(obj: Json, desired: str) -> Json:
        if when(obj):
            raise Refusal("nil pointer dereference")
        return convert(obj, desired)

    return replace(GOOD, convert=strict)


def reading(when: Callable[[Json], object]) -> Webhook:
    """A webhook that cannot read some reviews."""

    def read(review: Json) -> Json:
        if when(review):
            raise ValueError
        return review

    return replace(GOOD, review=read)


def metadata(change: Callable[[Json], Json]) -> Webhook:
    """A webhook that changes metadata, where there is some."""
    return converting(
        lambda _sent, got, _desired: {**got, "metadata": change(got["metadata"])} if got["metadata"] else got
    )


def spec(change: Callable[[Json, str, str], Json]) -> Webhook:
    """A webhook that changes the spec by (spec, source, desired), where it is more than nothing."""
    return converting(
        lambda sent, got, desired: (
            {**got, "spec": change(got["spec"], sent["apiVersion"], desired)} if got.get("spec") else got
        )
    )


def noting(key: str, value: Callable[[], str]) -> Webhook:
    """A webhook that keeps an annotation on objects at v1alpha1, and only there."""

    def change(sent: Json, got: Json, desired: str) -> Json:
        if not got["metadata"].get("name"):
            return got
        annotations = without(got["metadata"].get("annotations") or {}, key)
        if desired.endswith("v1alpha1"):
            annotations[key] = value()
        found = without(got["metadata"], "annotations") | ({"annotations": annotations} if annotations else {})
        return {**got, "metadata": found}

    return converting(change)


def without(fields: Json, *names: str) -> Json:
    """Fields without some."""
    return {name: value for name, value in fields.items() if name not in names}


def passing_on(when: Callable[[Json, str], object]) -> Webhook:
    """A webhook that passes on as they are some objects that it does not know."""

    def convert_or_not(obj: Json, desired: str) -> Json:
        return {**obj, "apiVersion": desired} if when(obj, desired) else convert(obj, desired)

    return replace(GOOD, convert=convert_or_not)


def other_version_only(obj: Json, desired: str) -> Json:
    """Refuse to convert to the version that an object has, as controller-runtime does."""
    if obj["apiVersion"] == desired:
        raise Refusal("conversion is not allowed between same type")
    return convert(obj, desired)


def one_version_only(sent: list[Json], got: list[Json]) -> list[Json]:
    """Refuse a few objects of several versions."""
    if len({obj["apiVersion"] for obj in sent}) > 1 and len(sent) < 10:
        raise Refusal("objects of several versions")
    return got


def another_one(_sent: list[Json], got: list[Json]) -> list[Json]:
    """Answer to one request of many as if it were another."""
    if len(got) == 1 and got[0]["metadata"].get("name") == "sample-20":
        return [{**got[0], "metadata": {**got[0]["metadata"], "name": "sample-21"}}]
    return got


def legacy(fields: Json, source: str, desired: str) -> Json:
    """Write a field at v1alpha1 that its schema does not declare."""
    if source == desired:
        return fields
    fields = without(fields, "legacy")
    return {**fields, "legacy": True} if desired.endswith("v1alpha1") else fields


def straight_only(fields: Json, source: str, desired: str) -> Json:
    """Mean the opposite by ``on``, but only on the straight way between v1alpha1 and v1."""
    ways = {source.rpartition("/")[2], desired.rpartition("/")[2]}
    return {**fields, "on": not fields["on"]} if ways == {"v1alpha1", "v1"} and "on" in fields else fields


def lossy(fields: Json, source: str, desired: str) -> Json:
    """Lose a field at v1alpha1."""
    return without(fields, "on") if desired.endswith("v1alpha1") and source != desired else fields


def drifting(fields: Json, source: str, desired: str) -> Json:
    """Grow with every conversion."""
    return {**fields, "size": (fields["size"] + 1) % 1000} if "size" in fields and source != desired else fields


def as_ascii(text: Any) -> Any:
    """What is left of a text in an encoding of the past."""
    return text.encode("ascii", "replace").decode() if isinstance(text, str) else text


def is_bare(obj: Json) -> bool:
    """Whether an object is nothing but metadata."""
    return not obj.keys() - {"apiVersion", "kind", "metadata"}


def has_only_keys(obj: Json) -> bool:
    """Whether all ports of a full object have only their name."""
    spec = obj.get("spec") or {}
    ports = spec.get("ports")
    return len(spec) == 5 and bool(ports) and all(len(port) == 1 for port in ports)


def filled(sent: Json, got: Json, _desired: str) -> Json:
    """Put a default where there is an empty spec."""
    return {**got, "spec": {"size": 1}} if got.get("spec") == {} else got


def is_odd(obj: Json) -> bool:
    """Whether an object has ports, but not the field that every full object has."""
    spec = obj.get("spec") or {}
    return "ports" in spec and "on" not in spec


def completed(_sent: Json, got: Json, _desired: str) -> Json:
    """Put a default where others of a full object are."""
    return {**got, "spec": {**got["spec"], "zz": True}} if is_odd(got) else got


_COUNTER = itertools.count()


@dataclass(frozen=True)
class Breakage:
    """A broken webhook, and what else breaks with it because it must."""

    webhook: Webhook
    also: frozenset[str] = frozenset()


def alone(webhook: Webhook) -> Breakage:
    """A breakage that one case finds."""
    return Breakage(webhook)


BREAKAGES: Mapping[str, Breakage] = {
    "answers": alone(replace(GOOD, reply=lambda _reply: Reply(b"panic: nil map", 500, {"Content-Type": "text/plain"}))),
    "content-type": alone(replace(GOOD, reply=lambda reply: replace(reply, headers={"Content-Type": "/json"}))),
    "review-kind": alone(replace(GOOD, answer=lambda _review, answer: {**answer, "kind": "Review"})),
    "uid": alone(
        in_response(
            lambda response: {**response, "uid": "1"} if response["result"]["status"] == "Success" else response
        )
    ),
    "result-success": alone(in_result("Success", status="success")),
    "stub-response": alone(reading(lambda review: "response" in review)),
    "unknown-envelope-fields": alone(
        reading(lambda review: review.keys() - {"apiVersion", "kind", "request", "response"})
    ),
    "v1beta1": alone(replace(GOOD, answer=lambda _review, answer: {**answer, "apiVersion": "apiextensions.k8s.io/v1"})),
    "empty-list": alone(reading(lambda review: not review["request"]["objects"])),
    "count": alone(replace(GOOD, objects=lambda _sent, got: got[:-1] if len(got) > 1 else got)),
    "order": alone(replace(GOOD, objects=lambda _sent, got: got[::-1])),
    "api-version": alone(converting(lambda sent, got, _desired: {**got, "apiVersion": sent["apiVersion"]})),
    "kind": alone(converting(lambda _sent, got, _desired: {**got, "kind": "Gadget"})),
    "identity": alone(metadata(lambda found: {**found, "uid": "1"} if "uid" in found else found)),
    "labels-and-annotations-kept": alone(metadata(lambda found: without(found, "labels"))),
    "labels-and-annotations-valid": alone(noting("no key!", lambda: "x")),
    "annotation-budget": Breakage(noting("example.dev/stash", lambda: "x" * 2048), frozenset({"nothing-left-behind"})),
    "other-metadata-left-alone": alone(
        metadata(lambda found: {**found, "generation": 99} if "generation" in found else found)
    ),
    "server-metadata": alone(crashing(lambda obj: "deletionTimestamp" in (obj.get("metadata") or {}))),
    "mixed-versions": alone(replace(GOOD, objects=one_version_only)),
    "same-version": alone(replace(GOOD, convert=other_version_only)),
    "big-object": Breakage(replace(GOOD, options={"limit": 1 << 20}), frozenset({"big-review"})),
    "big-review": alone(replace(GOOD, options={"limit": 4 << 20})),
    "parallel": alone(replace(GOOD, objects=another_one)),
    "no-spec": alone(crashing(is_bare)),
    "status-only": alone(crashing(lambda obj: "status" in obj and "spec" not in obj)),
    "no-metadata": alone(
        converting(lambda sent, got, _desired: got if "metadata" in sent else without(got, "metadata"))
    ),
    "nameless": alone(crashing(lambda obj: obj.get("metadata") and "name" not in obj["metadata"])),
    "empty-spec": alone(crashing(lambda obj: obj.get("spec") == {})),
    "null-spec": alone(crashing(lambda obj: "spec" in obj and obj["spec"] is None)),
    "list-items-with-only-keys": alone(crashing(has_only_keys)),
    "any-part": alone(crashing(is_odd)),
    "nothing-invented": alone(converting(filled)),
    "parts-of-parts": alone(converting(completed)),
    "deterministic": Breakage(
        noting("example.dev/at", lambda: str(next(_COUNTER))), frozenset({"nothing-left-behind"})
    ),
    "round-trip": Breakage(
        spec(lossy),
        frozenset({"path-independent"}),
    ),
    "idempotent": Breakage(spec(drifting), frozenset({"round-trip", "path-independent"})),
    "path-independent": alone(spec(straight_only)),
    "nothing-left-behind": alone(
        metadata(lambda found: {**found, "annotations": {**(found.get("annotations") or {}), "example.dev/x": ""}})
    ),
    "unknown-fields": alone(spec(lambda fields, _source, _desired: without(fields, "zzUndeclared"))),
    "text-survives": alone(
        metadata(
            lambda found: (
                {**found, "annotations": {key: as_ascii(text) for key, text in found["annotations"].items()}}
                if "annotations" in found
                else found
            )
        )
    ),
    "fits-schema": Breakage(spec(legacy), frozenset({"round-trip"})),
    "unknown-version": alone(passing_on(lambda _obj, desired: desired.removeprefix(f"{GROUP}/") not in VERSIONS)),
    "unknown-kind": alone(passing_on(lambda obj, _desired: obj["kind"] != "Widget")),
    "one-bad-object": alone(
        passing_on(lambda obj, _desired: obj["apiVersion"].removeprefix(f"{GROUP}/") not in VERSIONS)
    ),
    "failure-says-why": alone(in_result("Failure", status="Failed")),
    "bad-object-named": alone(in_result("Failure", message="conversion failed")),
    "malformed-body": alone(replace(GOOD, malformed=Reply(b"panic", 500))),
    "wrong-method": alone(replace(GOOD, options={"methods": "*"})),
    "keep-alive": alone(
        replace(GOOD, reply=lambda reply: replace(reply, headers={**reply.headers, "Connection": "close"}))
    ),
}
