"""An older version becomes the storage version again: what that would lose is named before, nothing else is lost."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar

import pytest

from restow.conversion import Graph
from restow.conversion.rulefiles import load, registry_of
from restow.crds import Crd
from restow.kube.client import HttpCluster
from restow.migrator import MigrationRefused, Options, migrate
from restow.migrator.planning.back import way_back
from restow.migrator.requests.crdaccess import read_crd
from restow.webhook.local import serve_locally
from tests.apiserver.kind import Document, Kind, owners, struct
from tests.restow.commandline import Cli

RULES = """\
apiVersion: restow.dev/v1alpha1
kind: ConversionRules
metadata: {{name: {name}}}
spec:
  target: {{group: {group}, kind: Widget}}
  hub: v2
  spokes:
  - version: v1
    rules:
    - rename: {{spoke: spec.size, hub: spec.replicas}}
    - stash: {{hub: spec.mode}}
"""
STRING, INTEGER = {"type": "string"}, {"type": "integer"}


class Widgets(Kind):
    """Widgets whose v1 has another name for a field of v2, and lacks one."""

    canary: ClassVar[Document] = {}

    def at_storage(self, storage: str, conversion: Mapping[str, Any]) -> Document:
        """The CRD."""
        made = copy.deepcopy(self.document(storage=storage, versions=("v1", "v2")))
        fields = {
            "v1": {"size": INTEGER, "color": STRING},
            "v2": {"replicas": INTEGER, "color": STRING, "mode": STRING},
        }
        for version in made["spec"]["versions"]:
            version["schema"] = {"openAPIV3Schema": struct(spec=struct(**fields[version["name"]]))}
        made["spec"]["conversion"] = dict(conversion)
        return made


@pytest.fixture
async def widgets(cluster: HttpCluster, control_plane: Any, group: str) -> AsyncIterator[Widgets]:
    """Widgets of a group, without a CRD yet."""
    made = Widgets(cluster, control_plane.etcd, group)
    yield made
    await made.remove()


def rules_of(kind: Widgets) -> Graph:
    """The rules between both versions."""
    return registry_of(load(RULES.format(name=kind.name, group=kind.group)).rules).freeze(
        [Crd.from_document(kind.at_storage("v2", {"strategy": "None"}))]
    )


async def moved(kind: Widgets, storage: str, conversion: Mapping[str, Any]) -> None:
    """Make a version the storage version, and migrate."""
    await kind.change(kind.at_storage(storage, conversion))
    [report] = (await migrate(kind.cluster, [kind.name], Options(settle_s=0.0))).crds
    assert (report.failures, report.stored_after, report.owners_lost) == ([], (storage,), [])
    assert report.stripped_owners == {}
    for stored in (await kind.stored()).values():
        assert stored["apiVersion"] == f"{kind.group}/{storage}"


async def test_there_and_back_and_there_loses_nothing(widgets: Widgets, cluster: HttpCluster) -> None:
    """A rollback would lose what the newer version had stored, or who owns it."""
    kind = widgets
    async with serve_locally(
        rules_of(kind), [Crd.from_document(kind.at_storage("v2", {"strategy": "None"}))]
    ) as served:
        conversion = served[kind.name]
        await kind.create(kind.at_storage("v1", conversion))
        await kind.apply(kind.manifest("v1", "old", spec={"size": 3}), "alice")
        await moved(kind, "v2", conversion)
        await kind.apply(kind.manifest("v2", "new", spec={"replicas": 2, "mode": "Fast"}), "bob")
        await kind.apply(kind.manifest("v2", "new", spec={"color": "red"}), "carol")
        before = {name: await kind.get("v2", name) for name in ("old", "new")}
        found = await way_back(cluster, await read_crd(cluster, kind.name), "v1")
        assert found.ready and found.objects == 2
        assert found.kept.to_json() == [{"path": ".spec.mode", "objects": 1, "example": "default/new"}]
        assert not found.lost.objects
        assert found.writers == {"alice": 1, "bob": 1, "carol": 1}
        await moved(kind, "v1", conversion)
        await moved(kind, "v2", conversion)
        for name, obj in before.items():
            now = await kind.get("v2", name)
            assert (now["spec"], owners(now)) == (obj["spec"], owners(obj))
        await kind.change(kind.at_storage("v2", {"strategy": "None"}))


async def test_what_the_older_version_lacks_is_lost_without_rules(widgets: Widgets, cli: Cli) -> None:
    """A flip back would drop fields of which nobody was told."""
    kind = widgets
    await kind.create(kind.at_storage("v2", {"strategy": "None"}))
    await kind.apply(kind.manifest("v2", "new", spec={"mode": "s3cret", "color": "red"}), "bob")
    ran = await cli("ready", kind.name, "--storage", "v1", "-o", "json")
    assert (ran.code, ran.json["lost"]) == (3, [{"path": ".spec.mode", "objects": 1, "example": "default/new"}])
    assert "s3cret" not in ran.out
    ran = await cli("plan", kind.name, "--storage", "v1")
    assert ran.code == 1
    assert ".spec.mode of 1 object (default/new): v1 cannot say it, and it would be lost" in ran.err
    await kind.merge("v2", "new", {"spec": {"mode": None}}, "bob")
    assert (await cli("ready", kind.name, "--storage", "v1")).code == 0
    assert (await cli("plan", kind.name, "--storage", "v1")).code == 3


async def test_a_version_that_cannot_be_stored_is_refused(kind: Kind, cluster: HttpCluster) -> None:
    """A misspelt version would be taken for one that is ready."""
    crd = await read_crd(cluster, kind.name)
    with pytest.raises(MigrationRefused, match=r"is the storage version of .* already"):
        await way_back(cluster, crd, "v1alpha1")
    with pytest.raises(MigrationRefused, match="has no version v1"):
        await way_back(cluster, crd, "v1")
