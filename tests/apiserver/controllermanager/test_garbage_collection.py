"""What the garbage collector does with ownerReferences at an unserved version; what ``ready`` and a move do about it.

The oracle is kube-controller-manager itself; the other tests of ``ready`` take from here that these objects count.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

import pytest

from restow.kube.errors import NotFound
from restow.kube.resources import CONFIG_MAPS
from restow.migrator import Migration, Options, read_crd
from restow.migrator import ready as ask_ready
from restow.migrator.planning.ready import Readiness
from restow.migrator.references.move import move_references
from restow.migrator.references.reference import ReferenceKind
from tests.apiserver.kind import Kind, until

OLD, NEW = "v1alpha1", "v1beta1"


class Family:
    """Widgets that own ConfigMaps of the same name, by references at one version or the other."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.cluster = kind.cluster

    async def born(self, name: str, at: str) -> None:
        """An owner, and its dependent by a reference at a version."""
        owner = await self.kind.apply(self.kind.manifest(NEW, name, spec={"size": 1}), "alice")
        reference = {"apiVersion": f"{self.kind.group}/{at}", "kind": "Widget", "name": name}
        metadata = {"name": name, "ownerReferences": [reference | {"uid": owner["metadata"]["uid"]}]}
        await self.cluster.create(CONFIG_MAPS, json.dumps({"metadata": metadata}).encode(), "default")

    async def there(self, name: str) -> bool:
        """Whether the dependent still exists."""
        try:
            await self.cluster.get(CONFIG_MAPS, name, "default")
        except NotFound:
            return False
        return True

    def lacks(self, name: str) -> Callable[[], Awaitable[bool]]:
        """Return what tells whether the dependent is gone."""

        async def gone() -> bool:
            return not await self.there(name)

        return gone

    async def collected(self, name: str) -> None:
        """Delete the owner, and wait until the dependent is gone."""
        await self.kind.delete(NEW, name)
        await until(self.lacks(name), f"the ConfigMap {name} was not collected")

    async def outlives(self, name: str) -> bool:
        """Delete the owner of a dependent at the old version; whether the dependent outlives two that are collected."""
        await self.kind.delete(NEW, name)
        for number in range(2):
            control = f"{name}-control-{number}"
            await self.born(control, NEW)
            await self.collected(control)
        return await self.there(name)


@pytest.fixture
async def family(kind: Kind) -> Family:
    """Of a CRD that stores at v1beta1 and serves v1alpha1 still, migrated; the garbage collector is at work on it."""
    await kind.change(kind.document(storage=NEW))
    await Migration(kind.cluster, Options(settle_s=0.0)).migrate(kind.name)
    made = Family(kind)
    for version in (OLD, NEW):
        await made.born(f"before-{version}", version)
        await made.collected(f"before-{version}")
    return made


async def ready(kind: Kind) -> Readiness:
    """May v1alpha1 go."""
    return await ask_ready(kind.cluster, await read_crd(kind.cluster, kind.name), OLD)


async def test_dependents_need_the_version_that_they_name(kind: Kind, family: Family) -> None:
    """A yes from ``ready`` over such references costs objects at once, and leaves others behind for ever.

    One test, since the garbage collector takes half a minute to see a new CRD, and another one to read discovery again.
    """
    assert (await ready(kind)).ready
    for name in ("old", "older", "neighbour"):
        await family.born(name, OLD)
    answer = await ready(kind)
    assert not answer.ready
    (why,) = answer.against_unserving
    assert why in answer.against_removal
    assert "configmaps: 3, for example default/" in why

    await kind.change(kind.document(storage=NEW, served=[NEW]))
    await family.born("new", OLD)
    await until(family.lacks("new"), "the garbage collector spares what has a living owner: change what `ready` says")
    await kind.get(NEW, "new")

    async def stays() -> bool:
        """Whether two in a row outlive their owners: one alone may do so because the collector was late with it."""
        names = [f"later-{next(numbers)}" for _ in range(2)]
        for name in names:
            await family.born(name, OLD)
            if not await family.outlives(name):
                return False
        return all([await family.there(name) for name in names])

    numbers = iter(range(1000))
    await until(stays, "dependents at a version that is not served are collected all the same")
    assert await family.outlives("old")

    await kind.change(kind.document(storage=NEW, versions=[NEW]))
    assert await family.outlives("older")
    (why,) = (await ready(kind)).against_removal
    assert "v1alpha1 is not served, so the garbage collector does not find the owner" in why
    assert await family.there("neighbour")

    crd = await read_crd(kind.cluster, kind.name)
    report = await move_references(kind.cluster, crd, OLD, NEW)
    assert report.moved[ReferenceKind.OWNER_REFERENCES] == 1
    assert report.skipped[ReferenceKind.OWNER_REFERENCES] >= 2, "what has lost its owner is left as it is"
    await family.collected("neighbour")
