"""Cases of the laws: nothing is lost on a round trip, and the same object always gives the same answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any, NamedTuple

from restow.conversion.model.values import Json, alike
from restow.conversion.testing.conformance.case import Skipped, WebhookUnderTest, asked, body, expect, must, should
from restow.crds import ANY, Schema, pruned_paths
from restow.crds.paths import ROOT, field_path, items_path, values_path
from restow.crds.types import violations

_REPEATS = 5
_UNKNOWN = "zzUndeclared"
_TEXT = {"example.dev/text": '<&>\u2028 "é" \U0001f6a2 \\u003c\t日本'}


@must(
    "deterministic",
    "Every write changes the stored object, and its resourceVersion, for ever.",
    "apiserver etcd3 store: no-op writes are found by comparing bytes",
)
async def _deterministic(webhook: WebhookUnderTest) -> None:
    """The same object is converted to the same result, each time."""
    async for exchange in webhook.each_way():
        with asked(exchange.what):
            first = exchange.objects[0]
            others = [(await webhook.ask([exchange.obj], exchange.target)).objects[0] for _ in range(1, _REPEATS)]
        expect(
            all(answer == first for answer in others),
            f"{exchange.way}: the same object was converted in different ways",
        )


@must(
    "round-trip",
    "A write at one version destroys data that was written at the other.",
    "Kubernetes deprecation policy, rule 2",
)
async def _round_trip(webhook: WebhookUnderTest) -> None:
    """An object that is converted to another version and back is unchanged, except for acknowledged losses."""
    samples = webhook.samples
    async for trip in _round_trips(webhook):
        ignored = samples.acknowledged.get(trip.source, ())
        place = _difference(body(trip.before), body(trip.after), samples.schema(trip.source), ignored)
        expect(not place, f"{trip.way}: {place} of sample {trip.number} is not what it was")


@must("idempotent", "Objects drift with every write.", "Kubernetes deprecation policy, rule 2")
async def _idempotent(webhook: WebhookUnderTest) -> None:
    """A second round trip changes nothing."""
    async for trip in _round_trips(webhook):
        with asked(f"sample {trip.number} of {trip.way}, twice"):
            again = await webhook.convert(await webhook.convert(trip.after, trip.target), trip.source)
        place = _difference(body(trip.after), body(again), webhook.samples.schema(trip.source), ())
        expect(not place, f"{trip.way}: {place} of sample {trip.number} changes each time")


@should(
    "path-independent",
    "What a client sees depends on where the object was stored before.",
    "Kubernetes API changes: hub and spoke",
)
async def _path_independent(webhook: WebhookUnderTest) -> None:
    """A conversion over a third version gives the same result as a direct one."""
    samples = webhook.samples
    if len(samples.versions) < 3:
        raise Skipped(f"{samples.crd.name} has only two versions")
    for source, target in samples.ways:
        for via in samples.versions:
            if via in (source, target):
                continue
            obj = samples.full(source)
            with asked(f"an object of {source} to {target}, also over {via}"):
                straight = await webhook.convert(obj, target)
                around = await webhook.convert(await webhook.convert(obj, via), target)
            ignored = (*samples.acknowledged.get(target, ()), *samples.acknowledged.get(via, ()))
            place = _difference(body(straight), body(around), samples.schema(target), ignored)
            expect(not place, f"{source} to {target} over {via}: {place} differs from the direct conversion")


@should("nothing-left-behind", "Metadata still has values that the object now has itself.", "deckhouse#21157")
async def _nothing_left(webhook: WebhookUnderTest) -> None:
    """After a round trip labels and annotations are unchanged."""
    async for trip in _round_trips(webhook):
        before, after = _notes(trip.before), _notes(trip.after)
        left = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
        expect(not left, f"{trip.way}: {', '.join(left)} is not what it was in the metadata")


@should(
    "unknown-fields",
    "Objects under x-kubernetes-preserve-unknown-fields lose them; a field is lost while webhook and CRD differ.",
    "tektoncd/pipeline#3206",
)
async def _unknown_fields(webhook: WebhookUnderTest) -> None:
    """Fields that no schema declares survive a round trip."""
    samples = webhook.samples
    for source, target in samples.ways:
        full = samples.full(source)
        obj = {**full, "spec": {**(full.get("spec") or {}), _UNKNOWN: {"a": [1, None]}}}
        with asked(f"an object of {source} with an undeclared field, to {target} and back"):
            back = await webhook.convert(await webhook.convert(obj, target), source)
        kept = (back.get("spec") or {}).get(_UNKNOWN)
        expect(kept == {"a": [1, None]}, f"{source} to {target} and back: an undeclared field of the spec was lost")


@must("text-survives", "Data is changed silently.", "RFC 8259")
async def _text(webhook: WebhookUnderTest) -> None:
    """All characters come back as they were: escapes, quotes, all of Unicode."""

    def annotated(version: str) -> Json:
        full = webhook.samples.full(version)
        return {**full, "metadata": {**full["metadata"], "annotations": _TEXT}}

    async for exchange in webhook.each_way(annotated):
        with asked(f"an object of {exchange.source} with all kinds of characters in an annotation"):
            got = (exchange.objects[0].get("metadata") or {}).get("annotations")
        key, text = next(iter(_TEXT.items()))
        answered = got.get(key) if isinstance(got, dict) else None
        expect(answered in (None, text), f"{exchange.way}: characters of an annotation were changed")


@must(
    "fits-schema",
    "Undeclared fields are dropped silently; values of another type lose all owners.",
    "apiextensions schema/pruning; structured-merge-diff",
)
async def _fits_schema(webhook: WebhookUnderTest) -> None:
    """What comes back has the types of the version's schema, and no undeclared field."""
    async for what, exchange in webhook.each_sample():
        schema, way = webhook.samples.schema(exchange.target), exchange.way
        with asked(what):
            got = body(exchange.objects[0])
        pruned = next(iter(pruned_paths(got, schema)), "")
        expect(not pruned, f"{way}: {pruned} is not declared there, so the server drops it without a word")
        wrong = next(violations(got, schema, types_only=True), "")
        expect(not wrong, f"{way}: {wrong}")


class _RoundTrip(NamedTuple):
    """A sample before and after its conversion to another version and back."""

    source: str
    target: str
    number: int
    before: Json
    after: Json

    @property
    def way(self) -> str:
        return f"{self.source} to {self.target} and back"


async def _round_trips(webhook: WebhookUnderTest) -> AsyncIterator[_RoundTrip]:
    for source, target in webhook.samples.ways:
        for number, obj in enumerate(webhook.samples.objects(source)):
            with asked(f"sample {number} of {source} to {target} and back"):
                back = await webhook.convert(await webhook.convert(obj, target), source)
            yield _RoundTrip(source, target, number, obj, back)


def _notes(obj: Json) -> Json:
    metadata = obj["metadata"]
    return {f"{field}.{key}": text for field in ("labels", "annotations") for key, text in _items(metadata, field)}


def _items(metadata: Json, field: str) -> Iterable[tuple[str, Any]]:
    found = metadata.get(field)
    return found.items() if isinstance(found, dict) else ()


def _difference(left: Any, right: Any, schema: Schema, ignored: Iterable[str], path: str = ROOT) -> str:
    """Return the first difference of two objects, empty if there is none; the spelling of a number does not count."""
    if path in ignored or alike(left, right):
        return ""
    if isinstance(left, dict) and isinstance(right, dict):
        for name in sorted({*left, *right}):
            below = field_path(path, name) if schema.is_declared(name) else values_path(path)
            if below in ignored:
                continue
            if name not in left or name not in right:
                return field_path(path, name)
            place = _difference(left[name], right[name], schema.field(name) or ANY, ignored, below)
            if place:
                return place
        return ""
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        places = (
            _difference(ours, theirs, schema.items or ANY, ignored, items_path(path))
            for ours, theirs in zip(left, right, strict=True)
        )
        return next(filter(None, places), "")
    return path
