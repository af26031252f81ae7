"""What there is to own of a value, against the server's own answer: the set of fields of a server-side apply."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from restow.controlplane.etcd import Etcd
from restow.crds import Crd
from restow.crds.fieldpath import from_paths
from restow.crds.ownedpaths import owned
from restow.kube.client import HttpCluster
from restow.migrator.ownership.projection import project
from tests.apiserver.kind import Document, Kind
from tests.migrator import builders as b
from tests.migrator.oracle import members

KEYS = b.struct(id=b.STRING, port=b.INTEGER | {"default": 80}) | {"required": ["id"]}

CONTAINERS = {
    "struct": lambda inner: b.struct(x=inner, y=b.STRING),
    "atomicStruct": lambda inner: b.atomic(b.struct(x=inner, y=b.STRING)),
    "map": b.mapping,
    "atomicMap": lambda inner: b.atomic(b.mapping(inner)),
    "list": lambda inner: b.atomic_list(b.struct(x=inner)),
    "keyed": lambda inner: b.keyed_list(KEYS | {"properties": KEYS["properties"] | {"x": inner}}, "id", "port"),
    "keyedAtomic": lambda inner: b.keyed_list(b.atomic(b.struct(id=b.STRING, x=inner) | {"required": ["id"]}), "id"),
}
LEAVES = {
    "text": b.STRING,
    "number": {"type": "number"},
    "either": {"x-kubernetes-int-or-string": True},
    "nullable": b.STRING | {"nullable": True},
    "set": b.set_list(b.STRING),
    "numbers": b.set_list(b.INTEGER),
    "anything": b.ANYTHING,
    "open": b.EVERYTHING_KEPT,
}
VALUES: dict[str, list[Any]] = {
    "text": ["a", ""],
    "number": [1.5, 2],
    "either": [1, "50%"],
    "nullable": [None, "a"],
    "set": [["a", 'b"<é'], []],
    "numbers": [[1, 2], [0]],
    "anything": [{"a": [1, {"b": None}], "c": {}}, [1, 2], "text", {}],
    "open": [{"any": {"thing": 1}, "list": [{}]}, {}],
}


def around(container: str, value: Any) -> list[Any]:
    """Values of a container that hold a value, and one that does not."""
    return {
        "struct": [{"x": value, "y": "y"}, {"x": value}, {}],
        "atomicStruct": [{"x": value}, {}],
        "map": [{"one": value, "a.b/c": value}, {}],
        "atomicMap": [{"one": value}],
        "list": [[{"x": value}, {}], []],
        "keyed": [[{"id": "a", "port": 1, "x": value}, {"id": "a"}, {"id": "b", "x": value}], []],
        "keyedAtomic": [[{"id": "a", "x": value}, {"id": "b"}], []],
    }[container]


def fields() -> dict[str, tuple[Document, list[Any]]]:
    """Schemas and values by the field of the spec that they are for: leaves, containers, containers in containers."""
    made = {leaf: (LEAVES[leaf], VALUES[leaf]) for leaf in LEAVES}
    for outer, leaf in itertools.product(CONTAINERS, LEAVES):
        values = [each for value in VALUES[leaf] for each in around(outer, value)]
        made[f"{outer}Of{leaf}"] = (CONTAINERS[outer](LEAVES[leaf]), values)
    for outer, inner in itertools.product(CONTAINERS, CONTAINERS):
        values = [each for value in around(inner, "text") for each in around(outer, value)]
        made[f"{outer}Of{inner}"] = (CONTAINERS[outer](CONTAINERS[inner](b.STRING)), values)
    return made


FIELDS = fields()
MOST = max(len(values) for _schema, values in FIELDS.values())


class AllFields(Kind):
    """Widgets with every kind of field."""

    canary: ClassVar[Document] = {}

    def document(self, *, storage: str, **_: Any) -> Document:
        """The CRD."""
        made = super().document(storage=storage, versions=(storage,))
        schema = b.struct(spec=b.struct(**{name: schema for name, (schema, _values) in FIELDS.items()}))
        made["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
        return made


@pytest.fixture
async def kind(cluster: HttpCluster, etcd: Etcd, group: str) -> AsyncIterator[AllFields]:
    """The CRD, served; deleted again."""
    made = AllFields(cluster, etcd, group)
    await made.create(made.document(storage="v1"))
    yield made
    await made.remove()


async def test_all_that_is_owned_of_a_value_is_what_the_server_says(kind: AllFields) -> None:
    """A path too few is an owner lost in the translation, one too many a field that somebody is given."""
    crd = Crd.from_document(kind.document(storage="v1"))
    schema = crd.storage.schema
    seen = 0
    for number in range(MOST):
        spec = {name: values[number % len(values)] for name, (_schema, values) in FIELDS.items()}
        applied = await kind.apply(kind.manifest("v1", f"w{number}", spec=spec), "alice")
        [entry] = applied["metadata"]["managedFields"]
        theirs = members(entry["fieldsV1"])
        # What was applied, as the server reads it: defaults that are keys count.
        ours = owned({"spec": spec}, schema)
        assert members(from_paths(ours)) == theirs, number
        shown = project(entry["fieldsV1"], {"spec": applied["spec"]}, schema)
        assert set(shown.owned) == set(ours), number
        assert without_nothing(shown.part["spec"]) == without_nothing(spec), number
        seen += len(theirs)
    assert seen > 1000


def without_nothing(value: Any) -> Any:
    """A value without what nobody owns (empty lists that are owned item by item), nor the default of a key."""
    if isinstance(value, dict):
        kept = {name: without_nothing(child) for name, child in value.items() if (name, child) != ("port", 80)}
        return {name: child for name, child in kept.items() if child != [] and (child != {} or value[name] == {})}
    return [without_nothing(item) for item in value] if isinstance(value, list) else value
