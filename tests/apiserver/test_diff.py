"""The API server as the judge of ``restow diff``: it refuses, drops or fills in what the verdict says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from restow.crds import Schema
from restow.crds.schemachanges import schema_changes
from restow.kube.client import HttpCluster
from restow.kube.errors import Invalid
from tests.apiserver.kind import Document, Kind, until
from tests.migrator import builders as b
from tests.restow.commandline import Cli

INTEGER, STRING = {"type": "integer"}, {"type": "string"}
PAIR = {"type": "object", "properties": {"k": STRING, "n": STRING}, "required": ["k"]}
LIST = {"type": "array", "items": PAIR}


def struct(*required: str, **fields: Any) -> Document:
    return {"type": "object", "properties": fields, "required": list(required)}


def cel(rule: str) -> Document:
    return {"x-kubernetes-validations": [{"rule": rule}]}


NARROWED: dict[str, tuple[Document, Document, Any]] = {
    "type": (INTEGER, STRING, 3),
    "integer": ({"type": "number"}, INTEGER, 1.5),
    "enum": ({**STRING, "enum": ["a", "b"]}, {**STRING, "enum": ["a"]}, "b"),
    "newEnum": (STRING, {**STRING, "enum": ["a"]}, "b"),
    "maximum": ({**INTEGER, "maximum": 9}, {**INTEGER, "maximum": 5}, 7),
    "exclusive": ({**INTEGER, "maximum": 5}, {**INTEGER, "maximum": 5, "exclusiveMaximum": True}, 5),
    "minLength": (STRING, {**STRING, "minLength": 2}, "a"),
    "maxItems": (LIST, {**LIST, "maxItems": 1}, [{"k": "a"}, {"k": "b"}]),
    "multipleOf": (INTEGER, {**INTEGER, "multipleOf": 2}, 3),
    "pattern": (STRING, {**STRING, "pattern": "^a"}, "b"),
    "format": (STRING, {**STRING, "format": "date-time"}, "b"),
    "byte": (STRING, {**STRING, "format": "byte"}, "not base64!"),
    "int32": (INTEGER, {**INTEGER, "format": "int32"}, 2**40),
    "required": (struct(a=STRING, b=STRING), struct("b", a=STRING, b=STRING), {"a": "x"}),
    "duplicates": (
        LIST,
        {**LIST, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]},
        [{"k": "a"}, {"k": "a"}],
    ),
    "nullItem": (
        {"type": "array", "items": {**STRING, "nullable": True}},
        {"type": "array", "items": STRING},
        [None],
    ),
    "cel": (STRING, {**STRING, **cel("self != 'b'")}, "b"),
    "oneOf": (struct(a=STRING, b=STRING), {**struct(a=STRING, b=STRING), "not": {"required": ["a"]}}, {"a": "x"}),
}
"""By field: its old and new schema, and a value that the old one takes and the new one does not."""

OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
TAKEN: dict[str, tuple[Document, Document, Any]] = {
    "wider": ({**INTEGER, "maximum": 5}, {**INTEGER, "maximum": 9}, 5),
    "number": (INTEGER, {"type": "number"}, 5),
    "values": ({**STRING, "enum": ["a"]}, {**STRING, "enum": ["a", "b"]}, "a"),
    "least": (STRING, {**STRING, "minLength": 0}, ""),
    "int64": (INTEGER, {**INTEGER, "format": "int64"}, 2**40),
    "filled": (struct(a=STRING), struct("a", a={**STRING, "default": "x"}), {}),
    "opened": (struct(a=STRING), {**OPEN, "properties": {"a": STRING}}, {"a": "x"}),
    "nullField": ({**STRING, "nullable": True}, STRING, None),
    "lessCel": ({**STRING, **cel("self != 'b'")}, STRING, "a"),
}
"""By field: schemas of which the verdict is that the new one takes every value of the old one."""


def document(kind: Kind, place: int) -> Document:
    """The CRD with the fields as they were (0) or are (1)."""
    made = kind.document(storage="v1alpha1", versions=("v1alpha1",))
    fields = {name: row[place] for name, row in (NARROWED | TAKEN).items()}
    gone = {} if place else {"gone": STRING}
    spec = b.struct(size=INTEGER, **fields, **gone)
    made["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": b.struct(spec=spec)}
    return made


def breaks(row: tuple[Document, Document, Any]) -> bool:
    """Whether the verdict on a field is that it breaks."""
    old, new = (Schema.root(struct(f=node)) for node in row[:2])
    return any(each.severity == "breaking" for each in schema_changes(old, new))


async def taken(kind: Kind, cluster: HttpCluster, field: str, value: Any) -> Document | None:
    """Return what the server would store of a new object with the value; None if it refuses it."""
    body = json.dumps(kind.manifest("v1alpha1", field.lower(), spec={field: value})).encode()
    try:
        reply = await cluster.create(kind.at("v1alpha1"), body, "default", params={"dryRun": "All"})
    except Invalid:
        return None
    found: Document = reply.json()
    return found


async def test_the_server_refuses_what_breaks_and_takes_the_rest(kind: Kind, cluster: HttpCluster) -> None:
    """A verdict would stop an upgrade that breaks nothing, or let one through that refuses what clients send."""
    await kind.change(document(kind, 0))
    rows = NARROWED | TAKEN
    assert [field for field, row in rows.items() if await taken(kind, cluster, field, row[2]) is None] == []
    assert await taken(kind, cluster, "gone", "a")
    await kind.change(document(kind, 1))

    async def drops() -> bool:
        found = await taken(kind, cluster, "gone", "a")
        return found is not None and "gone" not in found["spec"]

    await until(drops, "the removed field is still kept")
    refused = {field for field, row in rows.items() if await taken(kind, cluster, field, row[2]) is None}
    assert refused == NARROWED.keys()
    assert {field for field, row in rows.items() if breaks(row)} == refused
    filled = await taken(kind, cluster, "filled", {})
    assert filled is not None and filled["spec"]["filled"] == {"a": "x"}


async def test_the_cluster_is_a_side(kind: Kind, cli: Cli, tmp_path: Path) -> None:
    """Nobody has the manifest of what is served; it must be enough to name the cluster."""
    await kind.change(document(kind, 0))
    (tmp_path / "new.json").write_text(json.dumps(document(kind, 1)))
    (tmp_path / "old.json").write_text(json.dumps(document(kind, 0)))
    ran = await cli("diff", "cluster", str(tmp_path / "old.json"), "-o", "json")
    assert (ran.code, ran.json["verdict"]) == (0, "ok"), ran.out
    ran = await cli("diff", "cluster", str(tmp_path / "new.json"), "-o", "json")
    assert ran.code == 1
    assert ".spec.gone" in {each["path"] for each in ran.json["findings"] if each["check"] == "field-removed"}
