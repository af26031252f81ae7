"""List keys and set items beyond 2^53, against the API server, which reads a number in a path element as a float64."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from restow.controlplane.etcd import Etcd
from restow.crds.fieldpath import equal
from restow.kube.client import HttpCluster
from restow.migrator import Migration, Options
from tests.apiserver.kind import Document, Kind, entry_versions, owners
from tests.migrator import builders as b

EXACT = 2**53
NUMBERS = (EXACT - 1, EXACT, EXACT + 1, EXACT + 2, 2**60 + 1, 2**63 - 1)
ITEM = b.struct(k=b.INTEGER, x=b.STRING) | {"required": ["k", "x"]}

ONE = {"k": 1, "x": "y"}


class Numbers(Kind):
    """Widgets whose lists of numbers are owned item by item at v2, and differently at v1."""

    canary: ClassVar[Document] = {}

    def document(self, *, storage: str, **_: Any) -> Document:
        """The CRD."""
        made = super().document(storage=storage, versions=("v1", "v2"))
        same = {"sameSet": b.set_list(b.INTEGER), "same": b.keyed_list(ITEM, "k")}
        old = {"numbers": b.atomic_list(b.INTEGER), "items": b.atomic_list(ITEM), "other": b.keyed_list(ITEM, "k")}
        new = {
            "numbers": b.set_list(b.INTEGER),
            "items": b.keyed_list(ITEM, "k"),
            "other": b.keyed_list(ITEM, "k", "x"),
        }
        for place, fields in enumerate((old, new)):
            schema = b.struct(spec=b.struct(**same, **fields))
            made["spec"]["versions"][place]["schema"] = {"openAPIV3Schema": schema}
        return made


@pytest.fixture
async def kind(cluster: HttpCluster, etcd: Etcd, group: str) -> AsyncIterator[Numbers]:
    """The CRD, stored at v1."""
    made = Numbers(cluster, etcd, group)
    await made.create(made.document(storage="v1"))
    yield made
    await made.remove()


def spec(number: int) -> Document:
    """All lists, with one number."""
    items = [{"k": number, "x": "x"}, ONE]
    return {"sameSet": [number, 1], "numbers": [number, 1], "same": items, "items": items, "other": items}


@pytest.mark.parametrize("sign", [1, -1])
async def test_what_the_server_rounds_is_no_lost_owner(kind: Numbers, cluster: HttpCluster, sign: int) -> None:
    """Any write rounds such a key in managedFields, so a comparison to the digit would report an owner as lost."""
    for place, number in enumerate(NUMBERS):
        await kind.apply(kind.manifest("v1", f"w{place}", spec=spec(sign * number)), "alice")
        if place % 2:
            await kind.merge("v1", f"w{place}", {"metadata": {"labels": {"a": "b"}}}, "editor")
    await kind.change(kind.document(storage="v2"))
    for place, number in enumerate(NUMBERS):
        await kind.apply(kind.manifest("v2", f"twin{place}", spec=spec(sign * number)), "alice")
        await kind.merge("v2", f"twin{place}", {"metadata": {"labels": {"a": "b"}}}, "editor")
    report = await Migration(cluster, Options(settle_s=0.0)).migrate(kind.name)
    assert report.complete and report.pruned and report.objects.repaired == 0, report.to_json()
    stored = await kind.stored()
    for place in range(len(NUMBERS)):
        found, twin = stored[f"default/w{place}"], stored[f"default/twin{place}"]
        assert entry_versions(found) == {"v2"}
        assert owners(found)["alice", "Apply", ""] == owners(twin)["alice", "Apply", ""]
        smaller = {"sameSet": [1], "numbers": [1], "same": [ONE], "items": [ONE], "other": [ONE]}
        applied = await kind.apply(kind.manifest("v2", f"w{place}", spec=smaller), "alice")
        assert applied["spec"] == smaller


async def test_only_what_the_server_rounds_is_equal(kind: Numbers) -> None:
    """Two keys that the server keeps apart must stay apart, or a lost owner would go unseen."""
    every = [sign * number for sign in (1, -1) for number in NUMBERS]
    exact, rounded = [], []
    for place, number in enumerate(every):
        applied = await kind.apply(kind.manifest("v2", f"w{place}", spec={"sameSet": [number]}), "alice")
        exact.append(of_alice(applied))
        rounded.append(of_alice(await kind.merge("v2", f"w{place}", {"metadata": {"labels": {"a": "b"}}}, "editor")))
    for one, number in enumerate(every):
        for other, another in enumerate(every):
            assert equal(exact[one], rounded[other]) == (float(number) == float(another)), (number, another)


def of_alice(document: Document) -> bytes:
    """What alice owns, as the API server writes it."""
    entries = document["metadata"]["managedFields"]
    return json.dumps(next(entry["fieldsV1"] for entry in entries if entry["manager"] == "alice")).encode()
