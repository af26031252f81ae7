"""Cases of the converted objects: their number, order and identity, their metadata, and partial objects.

API servers send partial objects while they work on managedFields, without any earlier validation. Absent in, absent
out: a manager must not come to own a field that it never set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from restow.conversion.model.values import Json, canonical
from restow.conversion.reviews.responsechecks import (
    MAX_ANNOTATIONS,
    check_count,
    check_identity,
    check_kind,
    check_object,
    check_version,
    converted_objects,
    restore_metadata,
)
from restow.conversion.testing.conformance.case import (
    NotConformant,
    Skipped,
    WebhookUnderTest,
    asked,
    body,
    expect,
    must,
    should,
)
from restow.conversion.testing.findings import empties, support
from restow.crds import ANY, Schema

_MANY = 500
_LABELS = {"app.kubernetes.io/name": "sample", "tier": ""}
_ANNOTATIONS = {"example.dev/owner": "team-a", "example.dev/empty": "", "example.dev/json": '{"a": [1, 2.0]}'}
_KEPT = frozenset({"name", "namespace", "uid", "labels", "annotations"})


@must("count", "The whole review fails: returned … objects, expected …", "webhook_converter.go Convert")
async def _count(webhook: WebhookUnderTest) -> None:
    """As many objects come back as were sent."""
    for count in (1, 3):
        exchange = await webhook.ask_first(count)
        with asked(f"a review of {count} objects"):
            check_count(exchange.sent, exchange.answer)


@must("order", "The server takes one object for another, or refuses all.", "webhook_converter.go Convert (by index)")
async def _order(webhook: WebhookUnderTest) -> None:
    """Objects come back in the order in which they were sent, whatever their versions."""
    samples = webhook.samples
    target = samples.versions[0]
    sources = [source for source, way in samples.ways if way == target]
    objects = [samples.full(sources[number % len(sources)], number) for number in range(_MANY)]
    exchange = await webhook.ask([_small(obj) for obj in objects], target)
    with asked(f"a review of {_MANY} objects"):
        names = [_name(got) for got in exchange.objects]
    expected = [_name(obj) for obj in objects][: len(names)]
    expect(names == expected, f"{_MANY} objects came back in another order")


@must("api-version", "invalid groupVersion (expected …, received …)", "webhook_converter.go Convert")
async def _version(webhook: WebhookUnderTest) -> None:
    """apiVersion is the one that was asked for."""
    async for exchange in webhook.each_way():
        with asked(exchange.what):
            check_version(exchange.sent.desired, exchange.objects[0])


@must(
    "kind",
    "invalid kind (expected …, received …), or: unexpected end of JSON input",
    "webhook_converter.go Convert, validateConvertedObject",
)
async def _kind(webhook: WebhookUnderTest) -> None:
    """What comes back is an object of the same kind."""
    async for exchange in webhook.each_way():
        found = converted_objects(exchange.answer)
        with asked(exchange.what):
            check_object(found[0] if found else None)
            check_kind(exchange.obj, exchange.objects[0])


@must("identity", "must have the same name|namespace|UID", "webhook_converter.go validateConvertedObject")
async def _identity(webhook: WebhookUnderTest) -> None:
    """metadata.name, namespace and uid come back unchanged."""
    async for exchange in webhook.each_way():
        with asked(exchange.what):
            check_identity(exchange.obj, exchange.objects[0])


@must(
    "labels-and-annotations-kept",
    "What is left out is deleted from the stored object at the next write.",
    "webhook_converter.go restoreObjectMeta",
)
async def _labels_kept(webhook: WebhookUnderTest) -> None:
    """Labels and annotations of other owners come back unchanged."""
    async for exchange in webhook.each_way(_full_with(webhook, labels=_LABELS, annotations=_ANNOTATIONS)):
        with asked(exchange.what):
            got = exchange.objects[0].get("metadata") or {}
        for field, sent in (("labels", _LABELS), ("annotations", _ANNOTATIONS)):
            answered = got.get(field)
            kept = answered if isinstance(answered, dict) else {}
            lost = sorted(key for key, value in sent.items() if kept.get(key) != value)
            expect(not lost, f"{exchange.way}: of the {field}, {', '.join(lost)} did not come back as sent")


@must(
    "labels-and-annotations-valid",
    "The object cannot be read any more, and every list of its kind fails.",
    "webhook_converter.go restoreObjectMeta; tektoncd/pipeline#7022",
)
async def _labels_valid(webhook: WebhookUnderTest) -> None:
    """What the webhook adds to labels and annotations is valid: strings, well-formed keys, 256 KiB in all."""
    async for what, exchange in webhook.each_sample():
        with asked(what):
            got = exchange.objects[0]
            if isinstance(got.get("metadata"), dict):
                restore_metadata(exchange.obj, got)


@must(
    "annotation-budget",
    "The object cannot be read any more, and every list of its kind fails.",
    "apimachinery ValidateAnnotations; tektoncd/pipeline#6561",
)
async def _annotation_budget(webhook: WebhookUnderTest) -> None:
    """An object whose annotations are almost full is still converted within 256 KiB."""
    filling = {"example.dev/large": "x" * (MAX_ANNOTATIONS - 1024)}
    async for exchange in webhook.each_way(_full_with(webhook, annotations=filling)):
        with asked(f"an object of {exchange.source} with almost {MAX_ANNOTATIONS // 1024} KiB of annotations"):
            got = exchange.objects[0].get("metadata") or {}
        answered = got.get("annotations") or {}
        size = sum(len(f"{key}{value}".encode()) for key, value in answered.items())
        expect(size <= MAX_ANNOTATIONS, f"{exchange.way}: the annotations grew beyond {MAX_ANNOTATIONS} bytes")


@should(
    "other-metadata-left-alone",
    "The server ignores such changes silently, so nothing can rely on them.",
    "webhook_converter.go restoreObjectMeta",
)
async def _other_metadata(webhook: WebhookUnderTest) -> None:
    """No other metadata is changed (leaving it out is fine)."""
    async for exchange in webhook.each_way(_with_server_metadata(webhook)):
        got, sent = exchange.first.get("metadata") or {}, exchange.obj["metadata"]
        changed = sorted(name for name, value in got.items() if name not in _KEPT and value != sent.get(name))
        expect(not changed, f"{exchange.way}: metadata.{', metadata.'.join(changed)} changed, which has no effect")


@must(
    "server-metadata",
    "Every applied, owned or terminating object fails; namespaces hang.",
    "customresource_handler.go; kubernetes#118357",
)
async def _server_metadata(webhook: WebhookUnderTest) -> None:
    """Objects with managedFields, ownerReferences, finalizers and a deletionTimestamp are converted."""
    async for exchange in webhook.each_way(_with_server_metadata(webhook)):
        with asked(f"an object of {exchange.source} with managedFields, owners, finalizers and a deletionTimestamp"):
            expect(exchange.objects, "no object came back")


@must(
    "mixed-versions", "Lists fail while a storage migration is under way.", "webhook_converter.go getObjectsToConvert"
)
async def _mixed(webhook: WebhookUnderTest) -> None:
    """One review may hold objects of several versions."""
    samples = webhook.samples
    for target in samples.versions:
        sources = [source for source, way in samples.ways if way == target]
        objects = [samples.full(source, number) for number, source in enumerate(sources * 2)]
        exchange = await webhook.ask(objects, target)
        with asked(f"a review with objects of {', '.join(sources)}"):
            expect(exchange.objects, "no object came back")


@should(
    "same-version",
    "API servers do not ask; other callers of the webhook do.",
    "webhook_converter.go getObjectsToConvert",
)
async def _same_version(webhook: WebhookUnderTest) -> None:
    """An object that is at the version already comes back unchanged."""
    for version in webhook.samples.versions:
        exchange = await webhook.ask([webhook.samples.full(version)], version)
        with asked(f"an object that is at {version} already"):
            got = exchange.objects[0]
        expect(body(got) == body(exchange.obj), f"an object that is at {version} already came back changed")


@must(
    "big-object",
    "The largest objects cannot be read. Many servers limit bodies to 1 MB.",
    "etcd --max-request-bytes",
)
async def _big_object(webhook: WebhookUnderTest) -> None:
    """An object of etcd's maximum size (1.5 MB) is converted."""
    await _padded(webhook, objects=1, padding=1_500_000)


@should(
    "big-review",
    "Lists fail on servers that convert a page at once.",
    "KEP-6178; client-go reads without a limit",
)
async def _big_review(webhook: WebhookUnderTest) -> None:
    """A review of 16 MiB is answered."""
    await _padded(webhook, objects=64, padding=1 << 18)


@must("parallel", "API servers keep 25 connections to a host.", "client-go transport/cache.go")
async def _parallel(webhook: WebhookUnderTest) -> None:
    """25 reviews at once each get their own answer."""
    source, target = webhook.samples.ways[0]

    async def one(number: int) -> str:
        exchange = await webhook.ask([webhook.samples.full(source, number)], target)
        return _name(exchange.objects[0])

    with asked("25 reviews at once"):
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(number)) for number in range(25)]
        except* Exception as errors:  # noqa: BLE001 - the first one is enough
            raise errors.exceptions[0] from None
    mixed_up = [number for number, task in enumerate(tasks) if task.result() != f"sample-{number}"]
    expect(not mixed_up, f"of 25 reviews at once, {len(mixed_up)} got the answer to another one")


async def _padded(webhook: WebhookUnderTest, *, objects: int, padding: int) -> None:
    """Send objects that are large because of their managedFields, as real ones are."""
    source, target = webhook.samples.ways[0]
    entry = {"manager": "m" * 100, "operation": "Update", "apiVersion": webhook.samples.api_version(source)}
    entries = [{**entry, "fieldsType": "FieldsV1", "fieldsV1": {f"f:{'x' * 1000}": {}}}] * (padding // 1200)
    sent = [_with(webhook.samples.full(source, number), managedFields=entries) for number in range(objects)]
    exchange = await webhook.ask(sent, target)
    size = sum(len(canonical(obj)) for obj in sent) / 1e6
    with asked(f"a review of {size:.1f} MB"):
        got = exchange.objects
    if not got:
        raise NotConformant(f"a review of {size:.1f} MB gave no object")


def _full_with(webhook: WebhookUnderTest, **metadata: object) -> Callable[[str], Json]:
    return lambda version: _with(webhook.samples.full(version), **metadata)


def _with_server_metadata(webhook: WebhookUnderTest) -> Callable[[str], Json]:
    def build(version: str) -> Json:
        owned = {"manager": "kubectl", "operation": "Apply", "apiVersion": webhook.samples.api_version(version)}
        return _with(
            webhook.samples.full(version),
            generation=7,
            resourceVersion="4711",
            creationTimestamp="2024-05-01T10:00:00Z",
            deletionTimestamp="2024-05-02T10:00:00Z",
            deletionGracePeriodSeconds=0,
            finalizers=["example.dev/keep"],
            ownerReferences=[{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "1-2-3"}],
            managedFields=[
                {**owned, "fieldsType": "FieldsV1", "time": "2024-05-01T10:00:00Z", "fieldsV1": {"f:spec": {}}}
            ],
        )

    return build


def _with(obj: Json, **metadata: object) -> Json:
    return {**obj, "metadata": {**obj["metadata"], **metadata}}


def _small(obj: Json) -> Json:
    """An object without its spec; five hundred full objects would test something else."""
    return {name: obj[name] for name in ("apiVersion", "kind", "metadata")} | {"spec": obj.get("spec", {})}


def _name(obj: Json) -> str:
    metadata = obj.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


_APPLY_FAILS = "Server-side apply and managedFields fail."
_ISSUES = "kubernetes#117356, #117357; website#48055"


@must("no-spec", f"{_APPLY_FAILS} The commonest crash of typed converters.", _ISSUES)
async def _no_spec(webhook: WebhookUnderTest) -> None:
    """An object without spec and status is converted."""
    await _each(webhook, "an object that is only metadata", _nameplates(webhook))


@must("status-only", "Appliers of the status subresource fail.", _ISSUES)
async def _status_only(webhook: WebhookUnderTest) -> None:
    """An object with a status and no spec is converted."""

    def status(version: str) -> Json | None:
        full = webhook.samples.full(version)
        return {name: full[name] for name in ("apiVersion", "kind", "metadata", "status")} if "status" in full else None

    await _each(webhook, "an object without a spec, with a status", status)


@must(
    "no-metadata", "missing metadata in converted object", "webhook_converter.go restoreObjectMeta; kubernetes#117260"
)
async def _no_metadata(webhook: WebhookUnderTest) -> None:
    """An object without metadata is converted, and comes back with `metadata: {}`."""

    def without(version: str) -> Json:
        return {name: value for name, value in webhook.samples.full(version).items() if name != "metadata"}

    async for exchange in webhook.each_way(without):
        with asked(f"an object of {exchange.source} without metadata, asked for at {exchange.target}"):
            got = exchange.objects[0]
        expect(
            isinstance(got.get("metadata"), dict),
            f"{exchange.way}: an object without metadata came back without `metadata: {{}}`, which the server "
            "refuses: missing metadata in converted object",
        )


@must("nameless", _APPLY_FAILS, _ISSUES)
async def _nameless(webhook: WebhookUnderTest) -> None:
    """An object without name, namespace and uid is converted."""
    labels = {"metadata": {"labels": {"a": "b"}}}
    what = "an object whose metadata has only labels"
    await _each(webhook, what, lambda version: {**webhook.samples.full(version), **labels})


@must("empty-spec", _APPLY_FAILS, _ISSUES)
async def _empty_spec(webhook: WebhookUnderTest) -> None:
    """An object with an empty spec is converted."""
    await _each(webhook, "an object with an empty spec", _nameplates(webhook, spec={}))


@should("null-spec", "Old stored objects may have one.", _ISSUES)
async def _null_spec(webhook: WebhookUnderTest) -> None:
    """An object whose spec is null is converted."""
    await _each(webhook, "an object whose spec is null", _nameplates(webhook, spec=None))


@must("list-items-with-only-keys", "Server-side apply of a part of a list fails.", f"{_ISSUES}; karpenter#6867")
async def _only_keys(webhook: WebhookUnderTest) -> None:
    """Items of keyed lists that have nothing but their keys are converted."""

    def keys(version: str) -> Json | None:
        schema = webhook.samples.schema(version)
        candidates = (obj for obj in webhook.samples.objects(version) if any(True for _ in _keyed_items(obj, schema)))
        return next((_reduced(obj, schema) for obj in candidates), None)

    await _each(webhook, "an object whose list items have only their keys", keys)


@must("any-part", _APPLY_FAILS, _ISSUES)
async def _any_part(webhook: WebhookUnderTest) -> None:
    """Whatever part of a spec a manager owns is converted."""
    for source, target in webhook.samples.ways:
        for number, (_, part) in enumerate(webhook.samples.parts(source)):
            exchange = await webhook.ask([part], target)
            with asked(f"part {number} of an object of {source}, asked for at {target}"):
                expect(exchange.objects, "no object came back")


@must(
    "nothing-invented",
    "Managers become owners of fields that they never set, and conflict over them.",
    "structured-merge-diff#204; materialize#37634",
)
async def _nothing_invented(webhook: WebhookUnderTest) -> None:
    """An absent field stays absent: no default, null, {} or [] is added."""
    contents: tuple[tuple[str, Json], ...] = (("only metadata", {}), ("an empty spec", {"spec": {}}))
    for what, content in contents:
        async for exchange in webhook.each_way(_nameplates(webhook, **content)):
            part, way = exchange.obj, exchange.way
            got = exchange.first or part
            added = sorted(name for name in got if name not in part)
            more = empties(body(got), webhook.samples.schema(exchange.target)) - empties(body(part), None)
            expect(not added, f"{way}: an object with {what} came back with {', '.join(added)}")
            expect(not more, f"{way}: {', '.join(more)} was invented in an object with {what}")
            expect(not got.get("spec"), f"{way}: fields were invented in an object with {what}")


@should(
    "parts-of-parts",
    "As above, for fields of any depth; fields with a joint meaning may be exempt.",
    "structured-merge-diff#204",
)
async def _parts_of_parts(webhook: WebhookUnderTest) -> None:
    """A part of an object converts to a part of what the whole converts to."""
    for source, target in webhook.samples.ways:
        schema = webhook.samples.schema(target)
        for whole, part in webhook.samples.parts(source):
            exchange = await webhook.ask([whole], target)
            other = await webhook.ask([part], target)
            extra = sorted(support(body(other.first), schema) - support(body(exchange.first), schema))
            expect(
                not extra,
                f"{source} to {target}: a part of an object has {extra[0] if extra else ''}, which the whole has not",
            )


async def _each(webhook: WebhookUnderTest, what: str, build: Callable[[str], Json | None]) -> None:
    """Send such an object of each version in each direction; skip the case if no version has one."""
    asked_any = False
    async for exchange in webhook.each_way(build):
        asked_any = True
        with asked(f"{what}, of {exchange.source}, asked for at {exchange.target}"):
            expect(exchange.objects, "no object came back")
    if not asked_any:
        raise Skipped(f"no version has {what}")


def _nameplates(webhook: WebhookUnderTest, **content: Any) -> Callable[[str], Json]:
    """Build objects with nothing but a name and the content."""
    return lambda version: {**webhook.samples.named(webhook.samples.bare(version), 0), **content}


def _keyed_items(value: Any, schema: Schema) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _keyed_items(child, schema.field(name) or ANY)
    elif isinstance(value, list) and schema.list_type == "map":
        yield from value


def _reduced(value: Any, schema: Schema) -> Any:
    """Return a value with list-map items reduced to their keys."""
    if isinstance(value, dict):
        return {name: _reduced(child, schema.field(name) or ANY) for name, child in value.items()}
    if isinstance(value, list) and schema.list_type == "map":
        keys = schema.list_keys
        return [{name: item[name] for name in keys if name in item} for item in value if isinstance(item, dict)]
    return value
