"""``restow diff --live``: what it says of stored objects is what the upgrade then does to them."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from restow.controlplane import ControlPlane
from restow.controlplane.pytest_plugin import running_plane
from restow.conversion import Graph, Registry, rules
from restow.crds import Crd
from restow.crds.crddiff import CrdFinding
from restow.kube import connect
from restow.migrator.requests.crdaccess import read_crd
from restow.upgrade.objects import judge_upgrades
from restow.upgrade.rehearsal import Upgrade
from restow.upgrade.schemas import judge_schemas
from restow.upgrade.stored import of_cluster
from tests.apiserver.kind import Document, Kind
from tests.restow.commandline import Cli


def next_release(kind: Kind, change: dict[str, Any], *, drop: tuple[str, ...] = ()) -> Document:
    """The CRD of the fixture with other fields of spec."""
    made = copy.deepcopy(kind.document(storage="v1alpha1", versions=("v1alpha1",)))
    spec = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    for name in drop:
        del spec[name]
    spec |= change
    return made


@pytest.fixture(scope="module")
def scratch() -> Iterator[ControlPlane]:
    """The control plane of rehearsals."""
    with running_plane(ControlPlane) as plane:
        yield plane


@dataclass
class Judge:
    """Tries a change of the widgets, and forgets it afterwards."""

    kind: Kind
    plane: ControlPlane

    async def __call__(self, new: Document, graph: Graph | None = None) -> tuple[list[CrdFinding], bool]:
        """Return what is found about objects and clients, and whether a migration is due."""
        old = await read_crd(self.kind.cluster, self.kind.name)
        stored = await of_cluster(self.kind.cluster, old)
        crd = Crd.from_document(new)
        schemas = judge_schemas({old.name: old}, {old.name: crd}, None)
        async with connect(self.plane.kubeconfig) as cluster:
            upgrade = Upgrade(old, crd, graph, stored)
            found = await judge_upgrades(self.plane, cluster, schemas, [upgrade])
        return [each for each in found.findings[old.name] if each not in schemas[old.name]], found.due


@pytest.fixture
def judged(kind: Kind, scratch: ControlPlane) -> Judge:
    """The verdict on a change of the widgets."""
    return Judge(kind, scratch)


async def test_objects_are_named_by_field_and_never_by_value(kind: Kind, cli: Cli, tmp_path: Path) -> None:
    """A release would go out that drops or refuses what objects hold; or secrets would stand in a pipeline's log."""
    await kind.apply(kind.manifest("v1alpha1", "plain", spec={"size": 1}), "alice")
    await kind.apply(kind.manifest("v1alpha1", "full", spec={"size": 77777, "color": "s3cret"}), "alice")
    await kind.merge("v1alpha1", "full", {"metadata": {"finalizers": ["example.com/held"]}}, "bob")
    new = next_release(
        kind, {"size": {"type": "integer", "maximum": 10}, "mode": {"type": "string", "default": "x"}}, drop=("color",)
    )
    (tmp_path / "new.json").write_text(json.dumps(new))
    program = (str(Path(sys.executable).with_name("restow")),)
    ran = await cli("diff", "cluster", tmp_path / "new.json", "--live", "-o", "json", command=program)
    assert ran.code == 1, ran.err
    found = [each for each in ran.json["findings"] if each["check"].startswith(("object", "clients"))]
    assert [(each["check"], each["path"], each.get("objects")) for each in found] == [
        ("clients", ".spec.color", None),
        ("object-refused", ".spec.size", ["default/full"]),
        ("object-pruned", ".spec.color", ["default/full"]),
        ("object-defaulted", ".spec.mode", ["default/full", "default/plain"]),
    ]
    assert found[0]["change"] == "written by alice (1)"
    assert "s3cret" not in ran.out + ran.err and "77777" not in ran.out + ran.err


async def test_what_was_wrong_before_is_no_finding(kind: Kind, judged: Judge) -> None:
    """Every release would be blamed for an object that the present CRD refuses already."""
    await kind.apply(kind.manifest("v1alpha1", "old", spec={"size": 7}), "alice")
    narrow = next_release(kind, {"size": {"type": "integer", "maximum": 5}})
    await kind.change(narrow)
    assert await judged(narrow) == ([], False)


async def test_a_new_storage_version_is_work_and_no_break(kind: Kind, judged: Judge) -> None:
    """A pipeline would not know that a migration has to follow, or would stop at an upgrade that loses nothing."""
    await kind.apply(kind.manifest("v1alpha1", "a", spec={"size": 1}), "alice")
    found, due = await judged(kind.document(storage="v1beta1"))
    assert (due, [each.check for each in found]) == (True, ["migration-due"])
    assert "1 of 1 objects are to be written at v1beta1, the owners of 1 to be moved" in found[0].what


async def test_an_owner_that_conflicts_is_named(kind: Kind, judged: Judge) -> None:
    """The next apply of a release would fail on a list that became one whole."""
    await kind.apply(kind.manifest("v1alpha1", "a", spec={"parts": [{"name": "x", "count": 1}]}), "alice")
    await kind.apply(kind.manifest("v1alpha1", "a", spec={"parts": [{"name": "y", "count": 1}]}), "bob")
    part = {"type": "object", "properties": {"name": {"type": "string"}, "count": {"type": "integer"}}}
    new = next_release(kind, {"parts": {"type": "array", "items": part}})
    found, _ = await judged(new)
    conflicts = {(each.check, each.path) for each in found}
    assert ("owner-conflict", ".spec.parts") in conflicts, found


async def test_a_version_with_objects_cannot_leave(kind: Kind, judged: Judge) -> None:
    """The CRD would be refused only when it is applied."""
    await kind.apply(kind.manifest("v1alpha1", "a", spec={"size": 1}), "alice")
    new = kind.document(storage="v1beta1", versions=("v1beta1",))
    found, _ = await judged(new)
    assert [each.check for each in found] == ["clients", "crd-refused"]
    assert "status.storedVersions" in found[1].what


def known(color: str) -> str:
    """A function of an author that knows two colors."""
    return {"red": "Red", "blue": "Blue"}[color]


async def test_an_object_that_the_rules_refuse_is_named(kind: Kind, judged: Judge) -> None:
    """One such object fails every list of the kind, and only once the new CRD is there."""
    await kind.apply(kind.manifest("v1alpha1", "good", spec={"color": "red"}), "alice")
    await kind.apply(kind.manifest("v1alpha1", "odd", spec={"color": "s3cret"}), "alice")
    new = kind.document(storage="v1beta1", keyed_conditions=False)
    new["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}
    registry = Registry()
    widget = registry.kind(kind.group, "Widget", hub="v1beta1")
    widget.spoke("v1alpha1")(lambda: [rules.pair("spec.color", "spec.color", up=known, down=str.lower)])
    found, _ = await judged(new, registry.freeze([Crd.from_document(new)]))
    unreadable = [each for each in found if each.check == "object-unreadable"]
    assert [(each.version, each.objects) for each in unreadable] == [("v1beta1", ("default/odd",))], found
    assert not [each for each in found if "good" in str(each.objects)]
    assert "s3cret" not in str(found)


async def test_a_webhook_without_rules_is_not_judged(kind: Kind, judged: Judge) -> None:
    """A pipeline would take the silence about objects for a yes."""
    await kind.apply(kind.manifest("v1alpha1", "a", spec={"size": 1}), "alice")
    new = kind.document(storage="v1beta1")
    new["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}
    found, due = await judged(new)
    assert ([each.check for each in found], due) == (["objects-unjudged"], False)
