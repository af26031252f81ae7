"""Cases of partial objects: a server sends them while it works on managedFields, without any earlier validation.

Absent in, absent out: a manager must not come to own a field that it never set.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from restow.conversion.model.values import Json
from restow.conversion.testing.conformance.case import Case, Severity, Skipped, WebhookUnderTest, asked, expect
from restow.conversion.testing.findings import empties, support
from restow.crds import ANY, Schema

_HEAD = ("apiVersion", "kind", "metadata")
_ISSUES = "kubernetes#117356, #117357; website#48055"


async def _no_spec(webhook: WebhookUnderTest) -> None:
    await _each(webhook, "an object that is only metadata", lambda version: _nameplate(webhook, version))


async def _status_only(webhook: WebhookUnderTest) -> None:
    def status(version: str) -> Json | None:
        full = webhook.samples.full(version)
        return {name: full[name] for name in (*_HEAD, "status")} if "status" in full else None

    await _each(webhook, "an object without a spec, with a status", status)


async def _no_metadata(webhook: WebhookUnderTest) -> None:
    for source, target in webhook.samples.ways:
        full = webhook.samples.full(source)
        obj = {name: value for name, value in full.items() if name != "metadata"}
        exchange = await webhook.ask([obj], target)
        with asked(f"an object of {source} without metadata, asked for at {target}"):
            got = exchange.objects[0]
        expect(
            isinstance(got.get("metadata"), dict),
            f"{source} to {target}: an object without metadata came back without `metadata: {{}}`, which the server "
            "refuses: missing metadata in converted object",
        )


async def _nameless(webhook: WebhookUnderTest) -> None:
    await _each(
        webhook,
        "an object whose metadata has only labels",
        lambda version: {**webhook.samples.full(version), "metadata": {"labels": {"a": "b"}}},
    )


async def _empty_spec(webhook: WebhookUnderTest) -> None:
    await _each(webhook, "an object with an empty spec", lambda version: {**_nameplate(webhook, version), "spec": {}})


async def _null_spec(webhook: WebhookUnderTest) -> None:
    await _each(webhook, "an object whose spec is null", lambda version: {**_nameplate(webhook, version), "spec": None})


async def _only_keys(webhook: WebhookUnderTest) -> None:
    def keys(version: str) -> Json | None:
        schema = webhook.samples.schema(version)
        candidates = (_keys_only(obj, schema) for obj in webhook.samples.objects(version))
        return next((found for found in candidates if found is not None), None)

    await _each(webhook, "an object whose list items have only their keys", keys)


async def _any_part(webhook: WebhookUnderTest) -> None:
    for source, target in webhook.samples.ways:
        for number, (_, part) in enumerate(webhook.samples.parts(source)):
            exchange = await webhook.ask([part], target)
            with asked(f"part {number} of an object of {source}, asked for at {target}"):
                expect(exchange.objects, "no object came back")


async def _nothing_invented(webhook: WebhookUnderTest) -> None:
    for source, target in webhook.samples.ways:
        schema = webhook.samples.schema(target)
        for what, part in (
            ("only metadata", _nameplate(webhook, source)),
            ("an empty spec", {**_nameplate(webhook, source), "spec": {}}),
        ):
            exchange = await webhook.ask([part], target)
            got = exchange.first or part
            added = sorted(name for name in got if name not in part)
            more = empties(_body(got), schema) - empties(_body(part), None)
            expect(not added, f"{source} to {target}: an object with {what} came back with {', '.join(added)}")
            expect(not more, f"{source} to {target}: {', '.join(more)} was invented in an object with {what}")
            expect(not got.get("spec"), f"{source} to {target}: fields were invented in an object with {what}")


async def _parts_of_parts(webhook: WebhookUnderTest) -> None:
    for source, target in webhook.samples.ways:
        schema = webhook.samples.schema(target)
        for whole, part in webhook.samples.parts(source):
            exchange = await webhook.ask([whole], target)
            other = await webhook.ask([part], target)
            extra = sorted(support(_body(other.first), schema) - support(_body(exchange.first), schema))
            expect(
                not extra,
                f"{source} to {target}: a part of an object has {extra[0] if extra else ''}, which the whole has not",
            )


async def _each(webhook: WebhookUnderTest, what: str, build: Any) -> None:
    """Send such an object of each version in each direction. ``build`` returns None for a version without one."""
    asked_any = False
    for source, target in webhook.samples.ways:
        obj = build(source)
        if obj is None:
            continue
        asked_any = True
        exchange = await webhook.ask([obj], target)
        with asked(f"{what}, of {source}, asked for at {target}"):
            expect(exchange.objects, "no object came back")
    if not asked_any:
        raise Skipped(f"no version has {what}")


def _nameplate(webhook: WebhookUnderTest, version: str) -> Json:
    return webhook.samples.named(webhook.samples.bare(version), 0)


def _body(obj: Json) -> Json:
    """The fields of the object that a manager can own."""
    return {name: value for name, value in obj.items() if name not in _HEAD}


def _keys_only(obj: Json, schema: Schema) -> Json | None:
    """Return the object with list-map items reduced to their keys; None if it has no such item."""
    found = list(_keyed_items(obj, schema))
    return _reduced(obj, schema) if found else None


def _keyed_items(value: Any, schema: Schema) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, child in value.items():
            yield from _keyed_items(child, schema.field(name) or ANY)
    elif isinstance(value, list) and schema.list_type == "map":
        yield from value


def _reduced(value: Any, schema: Schema) -> Any:
    if isinstance(value, dict):
        return {name: _reduced(child, schema.field(name) or ANY) for name, child in value.items()}
    if isinstance(value, list) and schema.list_type == "map":
        keys = schema.list_keys
        return [{name: item[name] for name in keys if name in item} for item in value if isinstance(item, dict)]
    return value


CASES = (
    Case(
        "no-spec",
        Severity.MUST,
        "An object without spec and status is converted.",
        "Server-side apply and managedFields fail. The commonest crash of typed converters.",
        _ISSUES,
        _no_spec,
    ),
    Case(
        "status-only",
        Severity.MUST,
        "An object with a status and no spec is converted.",
        "Appliers of the status subresource fail.",
        _ISSUES,
        _status_only,
    ),
    Case(
        "no-metadata",
        Severity.MUST,
        "An object without metadata is converted, and comes back with `metadata: {}`.",
        "missing metadata in converted object",
        "webhook_converter.go restoreObjectMeta; kubernetes#117260",
        _no_metadata,
    ),
    Case(
        "nameless",
        Severity.MUST,
        "An object without name, namespace and uid is converted.",
        "Server-side apply and managedFields fail.",
        _ISSUES,
        _nameless,
    ),
    Case(
        "empty-spec",
        Severity.MUST,
        "An object with an empty spec is converted.",
        "Server-side apply and managedFields fail.",
        _ISSUES,
        _empty_spec,
    ),
    Case(
        "null-spec",
        Severity.SHOULD,
        "An object whose spec is null is converted.",
        "Old stored objects may have one.",
        _ISSUES,
        _null_spec,
    ),
    Case(
        "list-items-with-only-keys",
        Severity.MUST,
        "Items of keyed lists that have nothing but their keys are converted.",
        "Server-side apply of a part of a list fails.",
        f"{_ISSUES}; karpenter#6867",
        _only_keys,
    ),
    Case(
        "any-part",
        Severity.MUST,
        "Whatever part of a spec a manager owns is converted.",
        "Server-side apply and managedFields fail.",
        _ISSUES,
        _any_part,
    ),
    Case(
        "nothing-invented",
        Severity.MUST,
        "An absent field stays absent: no default, null, {} or [] is added.",
        "Managers become owners of fields that they never set, and conflict over them.",
        "structured-merge-diff#204; materialize#37634",
        _nothing_invented,
    ),
    Case(
        "parts-of-parts",
        Severity.SHOULD,
        "A part of an object converts to a part of what the whole converts to.",
        "As above, for fields of any depth; fields with a joint meaning may be exempt.",
        "structured-merge-diff#204",
        _parts_of_parts,
    ),
)
