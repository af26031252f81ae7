"""``restow diff --live``: what it says of stored objects is what the upgrade then does to them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import yaml

from restow.controlplane.binaries import BinarySearch
from restow.kube.client import HttpCluster
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


async def judged(kind: Kind, cli: Cli, folder: Path, new: Document, *more: str) -> tuple[int, list[Document], str]:
    """Return the exit code, the findings about objects and clients, and all output."""
    (folder / "new.json").write_text(json.dumps(new))
    cache = {"RESTOW_CONTROLPLANE_CACHE": str(BinarySearch.from_environment().folder)}  # it is below the home folder
    ran = await cli("diff", "cluster", str(folder / "new.json"), "-o", "json", *more, environment=cache)
    assert ran.out, ran.err
    kinds = ("object", "owner", "clients", "crd-refused", "migration", "version-needed")
    return ran.code, [each for each in ran.json["findings"] if each["check"].startswith(kinds)], ran.out + ran.err


async def test_objects_are_named_by_field_and_never_by_value(kind: Kind, cli: Cli, tmp_path: Path) -> None:
    """A release would go out that drops or refuses what objects hold; or secrets would stand in a pipeline's log."""
    await kind.apply(kind.manifest("v1alpha1", "plain", spec={"size": 1}), "alice")
    await kind.apply(kind.manifest("v1alpha1", "full", spec={"size": 77777, "color": "s3cret"}), "alice")
    await kind.merge("v1alpha1", "full", {"metadata": {"finalizers": ["example.com/held"]}}, "bob")
    new = next_release(
        kind, {"size": {"type": "integer", "maximum": 10}, "mode": {"type": "string", "default": "x"}}, drop=("color",)
    )
    code, found, out = await judged(kind, cli, tmp_path, new, "--live")
    assert code == 1
    assert [(each["check"], each["path"], each.get("objects")) for each in found] == [
        ("clients", ".spec.color", None),
        ("object-refused", ".spec.size", ["default/full"]),
        ("object-pruned", ".spec.color", ["default/full"]),
        ("object-defaulted", ".spec.mode", ["default/full", "default/plain"]),
    ]
    assert found[0]["change"] == "written by alice (1)"
    assert "s3cret" not in out and "77777" not in out


async def test_what_was_wrong_before_is_no_finding(kind: Kind, cli: Cli, tmp_path: Path, cluster: HttpCluster) -> None:
    """Every release would be blamed for an object that the present CRD refuses already."""
    await kind.apply(kind.manifest("v1alpha1", "old", spec={"size": 7}), "alice")
    narrow = next_release(kind, {"size": {"type": "integer", "maximum": 5}})
    await kind.change(narrow)
    code, found, _ = await judged(kind, cli, tmp_path, narrow, "--live")
    assert (code, found) == (0, [])


async def test_a_new_storage_version_is_work_and_no_break(kind: Kind, cli: Cli, tmp_path: Path) -> None:
    """A pipeline would not know that a migration has to follow, or would stop at an upgrade that loses nothing."""
    await kind.apply(kind.manifest("v1alpha1", "a", spec={"size": 1}), "alice")
    dump = {"kind": "List", "apiVersion": "v1", "items": [await kind.get("v1alpha1", "a")]}
    (tmp_path / "dump.yaml").write_text(yaml.safe_dump(dump))
    new = kind.document(storage="v1beta1")
    code, found, _ = await judged(kind, cli, tmp_path, new, "--objects", str(tmp_path / "dump.yaml"))
    assert (code, [each["check"] for each in found]) == (3, ["migration-due"])
    assert "1 of 1 objects are to be written at v1beta1, the owners of 1 to be moved" in found[0]["change"]


async def test_an_owner_that_conflicts_is_named(kind: Kind, cli: Cli, tmp_path: Path) -> None:
    """The next apply of a release would fail on a list that became one whole."""
    await kind.apply(kind.manifest("v1alpha1", "a", spec={"parts": [{"name": "x", "count": 1}]}), "alice")
    await kind.apply(kind.manifest("v1alpha1", "a", spec={"parts": [{"name": "y", "count": 1}]}), "bob")
    part = {"type": "object", "properties": {"name": {"type": "string"}, "count": {"type": "integer"}}}
    new = next_release(kind, {"parts": {"type": "array", "items": part}})
    code, found, _ = await judged(kind, cli, tmp_path, new, "--live")
    assert code == 1
    conflicts = {(each["check"], each["path"]) for each in found}
    assert ("owner-conflict", ".spec.parts") in conflicts, found


async def test_a_version_with_objects_cannot_leave(kind: Kind, cli: Cli, tmp_path: Path) -> None:
    """The CRD would be refused only when it is applied."""
    await kind.apply(kind.manifest("v1alpha1", "a", spec={"size": 1}), "alice")
    new = kind.document(storage="v1beta1", versions=("v1beta1",))
    code, found, _ = await judged(kind, cli, tmp_path, new, "--live")
    assert (code, [each["check"] for each in found]) == (1, ["clients", "crd-refused"])
    assert "status.storedVersions" in found[1]["change"]
