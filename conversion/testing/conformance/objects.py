"""Cases of the converted objects: their number, order and identity, and the metadata that may change."""

from __future__ import annotations

import asyncio

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
from restow.conversion.testing.conformance.case import Case, NotConformant, Severity, WebhookUnderTest, asked, expect

_MANY = 500
_LABELS = {"app.kubernetes.io/name": "sample", "tier": ""}
_ANNOTATIONS = {"example.dev/owner": "team-a", "example.dev/empty": "", "example.dev/json": '{"a": [1, 2.0]}'}
_KEPT = frozenset({"name", "namespace", "uid", "labels", "annotations"})


async def _count(webhook: WebhookUnderTest) -> None:
    source, target = webhook.samples.ways[0]
    for count in (1, 3):
        objects = [webhook.samples.full(source, number) for number in range(count)]
        exchange = await webhook.ask(objects, target)
        with asked(f"a review of {count} objects"):
            check_count(exchange.sent, exchange.answer)


async def _order(webhook: WebhookUnderTest) -> None:
    samples = webhook.samples
    target = samples.versions[0]
    sources = [source for source, way in samples.ways if way == target]
    objects = [samples.full(sources[number % len(sources)], number) for number in range(_MANY)]
    exchange = await webhook.ask([_small(obj) for obj in objects], target)
    with asked(f"a review of {_MANY} objects"):
        names = [_name(got) for got in exchange.objects]
    expected = [_name(obj) for obj in objects][: len(names)]
    expect(names == expected, f"{_MANY} objects came back in another order")


async def _version(webhook: WebhookUnderTest) -> None:
    for source, target in webhook.samples.ways:
        exchange = await webhook.ask([webhook.samples.full(source)], target)
        with asked(f"an object of {source} asked for at {target}"):
            check_version(exchange.sent.desired, exchange.objects[0])


async def _kind(webhook: WebhookUnderTest) -> None:
    for source, target in webhook.samples.ways:
        obj = webhook.samples.full(source)
        exchange = await webhook.ask([obj], target)
        found = converted_objects(exchange.answer)
        with asked(f"an object of {source} asked for at {target}"):
            check_object(found[0] if found else None)
            check_kind(obj, exchange.objects[0])


async def _identity(webhook: WebhookUnderTest) -> None:
    for source, target in webhook.samples.ways:
        obj = webhook.samples.full(source)
        exchange = await webhook.ask([obj], target)
        with asked(f"an object of {source} asked for at {target}"):
            check_identity(obj, exchange.objects[0])


async def _labels_kept(webhook: WebhookUnderTest) -> None:
    for source, target in webhook.samples.ways:
        obj = _with(webhook.samples.full(source), labels=_LABELS, annotations=_ANNOTATIONS)
        exchange = await webhook.ask([obj], target)
        with asked(f"an object of {source} asked for at {target}"):
            got = exchange.objects[0].get("metadata") or {}
        for field, sent in (("labels", _LABELS), ("annotations", _ANNOTATIONS)):
            answered = got.get(field)
            kept = answered if isinstance(answered, dict) else {}
            lost = sorted(key for key, value in sent.items() if kept.get(key) != value)
            expect(not lost, f"{source} to {target}: of the {field}, {', '.join(lost)} did not come back as sent")


async def _labels_valid(webhook: WebhookUnderTest) -> None:
    for source, target in webhook.samples.ways:
        for number, obj in enumerate(webhook.samples.objects(source)):
            exchange = await webhook.ask([obj], target)
            with asked(f"sample {number} of {source} asked for at {target}"):
                got = exchange.objects[0]
                if isinstance(got.get("metadata"), dict):
                    restore_metadata(obj, got)


async def _annotation_budget(webhook: WebhookUnderTest) -> None:
    filling = {"example.dev/large": "x" * (MAX_ANNOTATIONS - 1024)}
    for source, target in webhook.samples.ways:
        obj = _with(webhook.samples.full(source), annotations=filling)
        exchange = await webhook.ask([obj], target)
        with asked(f"an object of {source} with almost {MAX_ANNOTATIONS // 1024} KiB of annotations"):
            got = exchange.objects[0].get("metadata") or {}
        answered = got.get("annotations") or {}
        size = sum(len(f"{key}{value}".encode()) for key, value in answered.items())
        expect(size <= MAX_ANNOTATIONS, f"{source} to {target}: the annotations grew beyond {MAX_ANNOTATIONS} bytes")


async def _other_metadata(webhook: WebhookUnderTest) -> None:
    for source, target in webhook.samples.ways:
        obj = _with_server_metadata(webhook, source)
        exchange = await webhook.ask([obj], target)
        got = exchange.first.get("metadata") or {}
        changed = sorted(
            name for name, value in got.items() if name not in _KEPT and value != obj["metadata"].get(name)
        )
        expect(
            not changed, f"{source} to {target}: metadata.{', metadata.'.join(changed)} changed, which has no effect"
        )


async def _server_metadata(webhook: WebhookUnderTest) -> None:
    for source, target in webhook.samples.ways:
        exchange = await webhook.ask([_with_server_metadata(webhook, source)], target)
        with asked(f"an object of {source} with managedFields, owners, finalizers and a deletionTimestamp"):
            expect(exchange.objects, "no object came back")


async def _mixed(webhook: WebhookUnderTest) -> None:
    samples = webhook.samples
    for target in samples.versions:
        sources = [source for source, way in samples.ways if way == target]
        objects = [samples.full(source, number) for number, source in enumerate(sources * 2)]
        exchange = await webhook.ask(objects, target)
        with asked(f"a review with objects of {', '.join(sources)}"):
            expect(exchange.objects, "no object came back")


async def _same_version(webhook: WebhookUnderTest) -> None:
    for version in webhook.samples.versions:
        obj = webhook.samples.full(version)
        exchange = await webhook.ask([obj], version)
        with asked(f"an object that is at {version} already"):
            got = exchange.objects[0]
        expect(_content(got) == _content(obj), f"an object that is at {version} already came back changed")


async def _big_object(webhook: WebhookUnderTest) -> None:
    source, target = webhook.samples.ways[0]
    await _padded(webhook, source, target, objects=1, padding=1_500_000)


async def _big_review(webhook: WebhookUnderTest) -> None:
    source, target = webhook.samples.ways[0]
    await _padded(webhook, source, target, objects=64, padding=1 << 18)


async def _parallel(webhook: WebhookUnderTest) -> None:
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


async def _padded(webhook: WebhookUnderTest, source: str, target: str, *, objects: int, padding: int) -> None:
    """Send objects that are large because of their managedFields, as real ones are."""
    entry = {"manager": "m" * 100, "operation": "Update", "apiVersion": webhook.samples.api_version(source)}
    entries = [{**entry, "fieldsType": "FieldsV1", "fieldsV1": {f"f:{'x' * 1000}": {}}}] * (padding // 1200)
    sent = [_with(webhook.samples.full(source, number), managedFields=entries) for number in range(objects)]
    exchange = await webhook.ask(sent, target)
    size = sum(len(canonical(obj)) for obj in sent) / 1e6
    with asked(f"a review of {size:.1f} MB"):
        got = exchange.objects
    if not got:
        raise NotConformant(f"a review of {size:.1f} MB gave no object")


def _with_server_metadata(webhook: WebhookUnderTest, version: str) -> Json:
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
        managedFields=[{**owned, "fieldsType": "FieldsV1", "time": "2024-05-01T10:00:00Z", "fieldsV1": {"f:spec": {}}}],
    )


def _with(obj: Json, **metadata: object) -> Json:
    return {**obj, "metadata": {**obj["metadata"], **metadata}}


def _small(obj: Json) -> Json:
    """An object without its spec; five hundred full objects would test something else."""
    return {name: obj[name] for name in ("apiVersion", "kind", "metadata")} | {"spec": obj.get("spec", {})}


def _name(obj: Json) -> str:
    metadata = obj.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


def _content(obj: Json) -> Json:
    return {name: value for name, value in obj.items() if name not in ("apiVersion", "kind", "metadata")}


CASES = (
    Case(
        "count",
        Severity.MUST,
        "As many objects come back as were sent.",
        "The whole review fails: returned … objects, expected …",
        "webhook_converter.go Convert",
        _count,
    ),
    Case(
        "order",
        Severity.MUST,
        "Objects come back in the order in which they were sent, whatever their versions.",
        "The server takes one object for another, or refuses all.",
        "webhook_converter.go Convert (by index)",
        _order,
    ),
    Case(
        "api-version",
        Severity.MUST,
        "apiVersion is the one that was asked for.",
        "invalid groupVersion (expected …, received …)",
        "webhook_converter.go Convert",
        _version,
    ),
    Case(
        "kind",
        Severity.MUST,
        "What comes back is an object of the same kind.",
        "invalid kind (expected …, received …), or: unexpected end of JSON input",
        "webhook_converter.go Convert, validateConvertedObject",
        _kind,
    ),
    Case(
        "identity",
        Severity.MUST,
        "metadata.name, namespace and uid come back unchanged.",
        "must have the same name|namespace|UID",
        "webhook_converter.go validateConvertedObject",
        _identity,
    ),
    Case(
        "labels-and-annotations-kept",
        Severity.MUST,
        "Labels and annotations of other owners come back unchanged.",
        "What is left out is deleted from the stored object at the next write.",
        "webhook_converter.go restoreObjectMeta",
        _labels_kept,
    ),
    Case(
        "labels-and-annotations-valid",
        Severity.MUST,
        "What the webhook adds to labels and annotations is valid: strings, well-formed keys, 256 KiB in all.",
        "The object cannot be read any more, and every list of its kind fails.",
        "webhook_converter.go restoreObjectMeta; tektoncd/pipeline#7022",
        _labels_valid,
    ),
    Case(
        "annotation-budget",
        Severity.MUST,
        "An object whose annotations are almost full is still converted within 256 KiB.",
        "The object cannot be read any more, and every list of its kind fails.",
        "apimachinery ValidateAnnotations; tektoncd/pipeline#6561",
        _annotation_budget,
    ),
    Case(
        "other-metadata-left-alone",
        Severity.SHOULD,
        "No other metadata is changed (leaving it out is fine).",
        "The server ignores such changes silently, so nothing can rely on them.",
        "webhook_converter.go restoreObjectMeta",
        _other_metadata,
    ),
    Case(
        "server-metadata",
        Severity.MUST,
        "Objects with managedFields, ownerReferences, finalizers and a deletionTimestamp are converted.",
        "Every applied, owned or terminating object fails; namespaces hang.",
        "customresource_handler.go; kubernetes#118357",
        _server_metadata,
    ),
    Case(
        "mixed-versions",
        Severity.MUST,
        "One review may hold objects of several versions.",
        "Lists fail while a storage migration is under way.",
        "webhook_converter.go getObjectsToConvert",
        _mixed,
    ),
    Case(
        "same-version",
        Severity.SHOULD,
        "An object that is at the version already comes back unchanged.",
        "API servers do not ask; other callers of the webhook do.",
        "webhook_converter.go getObjectsToConvert",
        _same_version,
    ),
    Case(
        "big-object",
        Severity.MUST,
        "An object of etcd's maximum size (1.5 MB) is converted.",
        "The largest objects cannot be read. Many servers limit bodies to 1 MB.",
        "etcd --max-request-bytes",
        _big_object,
    ),
    Case(
        "big-review",
        Severity.SHOULD,
        "A review of 16 MiB is answered.",
        "Lists fail on servers that convert a page at once.",
        "KEP-6178; client-go reads without a limit",
        _big_review,
    ),
    Case(
        "parallel",
        Severity.MUST,
        "25 reviews at once each get their own answer.",
        "API servers keep 25 connections to a host.",
        "client-go transport/cache.go",
        _parallel,
    ),
)
