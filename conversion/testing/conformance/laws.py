"""Cases of the laws: nothing is lost on a round trip, and the same object always gives the same answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from restow.conversion.model.values import Json, alike
from restow.conversion.testing.conformance.case import Case, Severity, Skipped, WebhookUnderTest, asked, expect
from restow.crds import ANY, Schema, pruned_paths
from restow.crds.paths import ROOT, field_path, items_path, values_path
from restow.crds.types import violations

_REPEATS = 5
_UNKNOWN = "zzUndeclared"
_TEXT = {"example.dev/text": '<&>\u2028 "é" \U0001f6a2 \\u003c\t日本'}


async def _deterministic(webhook: WebhookUnderTest) -> None:
    for source, target in webhook.samples.ways:
        obj = webhook.samples.full(source)
        with asked(f"an object of {source} asked for at {target}"):
            answers = [(await webhook.ask([obj], target)).objects[0] for _ in range(_REPEATS)]
        expect(
            all(answer == answers[0] for answer in answers),
            f"{source} to {target}: the same object was converted in different ways",
        )


async def _round_trip(webhook: WebhookUnderTest) -> None:
    samples = webhook.samples
    for source, target in samples.ways:
        for number, obj in enumerate(samples.objects(source)):
            with asked(f"sample {number} of {source} to {target} and back"):
                there = await webhook.convert(obj, target)
                back = await webhook.convert(there, source)
            place = _difference(_body(obj), _body(back), samples.schema(source), samples.acknowledged.get(source, ()))
            expect(not place, f"{source} to {target} and back: {place} of sample {number} is not what it was")


async def _idempotent(webhook: WebhookUnderTest) -> None:
    samples = webhook.samples
    for source, target in samples.ways:
        for number, obj in enumerate(samples.objects(source)):
            with asked(f"sample {number} of {source} to {target} and back, twice"):
                once = await webhook.convert(await webhook.convert(obj, target), source)
                again = await webhook.convert(await webhook.convert(once, target), source)
            place = _difference(_body(once), _body(again), samples.schema(source), ())
            expect(not place, f"{source} to {target} and back: {place} of sample {number} changes each time")


async def _path_independent(webhook: WebhookUnderTest) -> None:
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
            place = _difference(_body(straight), _body(around), samples.schema(target), ignored)
            expect(not place, f"{source} to {target} over {via}: {place} differs from the direct conversion")


async def _nothing_left(webhook: WebhookUnderTest) -> None:
    samples = webhook.samples
    for source, target in samples.ways:
        for number, obj in enumerate(samples.objects(source)):
            with asked(f"sample {number} of {source} to {target} and back"):
                back = await webhook.convert(await webhook.convert(obj, target), source)
            before, after = _notes(obj), _notes(back)
            left = sorted(key for key in {*before, *after} if before.get(key) != after.get(key))
            expect(not left, f"{source} to {target} and back: {', '.join(left)} is not what it was in the metadata")


async def _unknown_fields(webhook: WebhookUnderTest) -> None:
    samples = webhook.samples
    for source, target in samples.ways:
        full = samples.full(source)
        obj = {**full, "spec": {**(full.get("spec") or {}), _UNKNOWN: {"a": [1, None]}}}
        with asked(f"an object of {source} with an undeclared field, to {target} and back"):
            back = await webhook.convert(await webhook.convert(obj, target), source)
        kept = (back.get("spec") or {}).get(_UNKNOWN)
        expect(kept == {"a": [1, None]}, f"{source} to {target} and back: an undeclared field of the spec was lost")


async def _text(webhook: WebhookUnderTest) -> None:
    for source, target in webhook.samples.ways:
        full = webhook.samples.full(source)
        obj = {**full, "metadata": {**full["metadata"], "annotations": _TEXT}}
        exchange = await webhook.ask([obj], target)
        with asked(f"an object of {source} with all kinds of characters in an annotation"):
            got = (exchange.objects[0].get("metadata") or {}).get("annotations")
        key, text = next(iter(_TEXT.items()))
        answered = got.get(key) if isinstance(got, dict) else None
        expect(answered in (None, text), f"{source} to {target}: characters of an annotation were changed")


async def _fits_schema(webhook: WebhookUnderTest) -> None:
    samples = webhook.samples
    for source, target in samples.ways:
        schema = samples.schema(target)
        for number, obj in enumerate(samples.objects(source)):
            exchange = await webhook.ask([obj], target)
            with asked(f"sample {number} of {source} asked for at {target}"):
                got = _body(exchange.objects[0])
            pruned = next(iter(pruned_paths(got, schema)), "")
            expect(
                not pruned,
                f"{source} to {target}: {pruned} is not declared there, so the server drops it without a word",
            )
            wrong = next(violations(got, schema, types_only=True), "")
            expect(not wrong, f"{source} to {target}: {wrong}")


def _body(obj: Json) -> Json:
    return {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}


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


CASES = (
    Case(
        "deterministic",
        Severity.MUST,
        "The same object is converted to the same result, each time.",
        "Every write changes the stored object, and its resourceVersion, for ever.",
        "apiserver etcd3 store: no-op writes are found by comparing bytes",
        _deterministic,
    ),
    Case(
        "round-trip",
        Severity.MUST,
        "An object that is converted to another version and back is unchanged, except for acknowledged losses.",
        "A write at one version destroys data that was written at the other.",
        "Kubernetes deprecation policy, rule 2",
        _round_trip,
    ),
    Case(
        "idempotent",
        Severity.MUST,
        "A second round trip changes nothing.",
        "Objects drift with every write.",
        "Kubernetes deprecation policy, rule 2",
        _idempotent,
    ),
    Case(
        "path-independent",
        Severity.SHOULD,
        "A conversion over a third version gives the same result as a direct one.",
        "What a client sees depends on where the object was stored before.",
        "Kubernetes API changes: hub and spoke",
        _path_independent,
    ),
    Case(
        "nothing-left-behind",
        Severity.SHOULD,
        "After a round trip labels and annotations are unchanged.",
        "Metadata still has values that the object now has itself.",
        "deckhouse#21157",
        _nothing_left,
    ),
    Case(
        "unknown-fields",
        Severity.SHOULD,
        "Fields that no schema declares survive a round trip.",
        "Objects under x-kubernetes-preserve-unknown-fields lose them; a field is lost while webhook and CRD differ.",
        "tektoncd/pipeline#3206",
        _unknown_fields,
    ),
    Case(
        "text-survives",
        Severity.MUST,
        "All characters come back as they were: escapes, quotes, all of Unicode.",
        "Data is changed silently.",
        "RFC 8259",
        _text,
    ),
    Case(
        "fits-schema",
        Severity.MUST,
        "What comes back has the types of the version's schema, and no undeclared field.",
        "Undeclared fields are dropped silently; values of another type lose all owners.",
        "apiextensions schema/pruning; structured-merge-diff",
        _fits_schema,
    ),
)
