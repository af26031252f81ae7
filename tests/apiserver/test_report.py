"""``restow report`` of a real cluster: what the page's tables say of CRDs before, within and after their migration."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest

from restow.crds.cloudprofiles import documents
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.errors import NotFound
from restow.kube.resources import CRDS, Resource
from tests.apiserver.kind import Kind, until
from tests.restow.commandline import Cli

HOSTILE = "<script>alert(1)</script>"


class Tables(HTMLParser):
    """The rows of a page's tables, by the table's id: heading -> text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: dict[str, list[dict[str, str]]] = {}
        self.scripts = 0
        self._headings: list[str] = []
        self._cells: list[str] = []
        self._id = ""
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note where the parser is."""
        self.scripts += tag == "script"
        if tag == "caption":
            self._id, self._headings, self._inside = str(dict(attrs)["id"]), [], ""
            self.found[self._id] = []
        elif tag in {"thead", "tbody"}:
            self._inside = tag
        elif tag == "tr":
            self._cells = []
        elif tag in {"td", "th"}:
            self._cells.append("")

    def handle_data(self, data: str) -> None:
        """Gather text."""
        if self._inside and self._cells:
            self._cells[-1] += data

    def handle_endtag(self, tag: str) -> None:
        """Close a row or a table."""
        cells = [" ".join(cell.split()) for cell in self._cells]
        if tag == "tr" and self._inside == "thead":
            self._headings = cells
        elif tag == "tr" and self._inside == "tbody":
            self.found[self._id].append(dict(zip(self._headings, cells, strict=True)))
        elif tag == "table":
            self._inside = ""

    def rows(self, table: str, **where: str) -> list[dict[str, str]]:
        """The rows of a table with these cells."""
        rows = self.found.get(f"{table}-caption", [])
        return [row for row in rows if all(row[key] == value for key, value in where.items())]


@pytest.fixture
async def migrated(kind: Kind) -> Kind:
    """Widgets of alice and of one with a vile name at v1alpha1, one of bob at v1beta1, which has become storage."""
    for number in range(3):
        await kind.apply(kind.manifest("v1alpha1", f"w{number}", spec={"size": number}), "alice")
    await kind.merge("v1alpha1", "w0", {"spec": {"color": "red"}}, HOSTILE)
    await kind.change(kind.document(storage="v1beta1"))
    await kind.apply(kind.manifest("v1beta1", "new", spec={"size": 9}), "bob")
    return kind


async def tables(cli: Cli, file: Path, *arguments: str | Path, code: int = 0) -> Tables:
    """Make a report and read it."""
    ran = await cli("report", *arguments, "-o", file)
    assert (ran.code, ran.out) == (code, ""), ran.err
    page = Tables(file.read_text(encoding="utf-8"))
    assert page.scripts == 1, "names of managers are texts"
    return page


async def test_a_cluster_before_and_after(migrated: Kind, cli: Cli, tmp_path: Path) -> None:
    """Who plans a removal believes these tables: stored where, owned by whom, what may go."""
    name, file = migrated.name, tmp_path / "report.html"
    page = await tables(cli, file, name)
    (crd,) = page.rows("stored", CRD=f"{name} namespaced")
    assert crd["State"].endswith("migration due")
    assert (crd["Storage version"], crd["storedVersions"]) == ("v1beta1", "v1alpha1 v1beta1")
    assert (crd["Objects"], crd["Owned at others"]) == ("4", "3")
    (old,) = page.rows("leave", Version="v1alpha1")
    assert (old["Stored objects"], old["Owned objects"]) == ("0 to 4", "3")
    assert old["May it go?"].endswith("may be unserved, not removed")
    assert "status.storedVersions names v1alpha1" in old["Why"]
    owners = {row["Manager"]: row for row in page.rows("owners")}
    assert {manager: row["Objects"] for manager, row in owners.items()} == {"alice": "3", HOSTILE: "1"}
    assert owners["alice"]["Version"] == f"{migrated.group}/v1alpha1"
    assert owners["alice"]["Last write"].startswith("20")
    assert [row["State"][2:] for row in page.rows("act")] == ["migration due"]

    ran = await cli("migrate", name, "--settle", "0", "--report", tmp_path / "run.json")
    assert ran.code == 0
    page = await tables(cli, file, name, "-f", tmp_path / "run.json")
    (crd,) = page.rows("stored")
    assert crd["State"].endswith("migrated")
    assert (crd["storedVersions"], crd["Owned at others"]) == ("v1beta1", "0")
    (old,) = page.rows("leave", Version="v1alpha1")
    assert (old["Stored objects"], old["Owned objects"]) == ("0", "0")
    assert old["May it go?"].endswith("may be unserved, then removed")
    assert page.rows("owners") == []
    (done,) = page.rows("run")
    assert (done["CRD"], done["Listed"], done["Rewritten"], done["Failed"]) == (name, "4", "3", "0")
    assert done["storedVersions"] == "v1alpha1, v1beta1 → v1beta1"
    assert done["State"].endswith("done")


async def test_a_version_that_left_the_crd_with_its_entries(migrated: Kind, cli: Cli, tmp_path: Path) -> None:
    """The worst state of all has to be seen: nobody can apply these objects any more."""
    assert (await cli("migrate", migrated.name, "--settle", "0", "--managed-fields", "keep")).code == 0
    await migrated.change(migrated.document(storage="v1beta1", versions=("v1beta1",)))
    page = await tables(cli, tmp_path / "report.html", migrated.name)
    (gone,) = page.rows("leave", Version="v1alpha1")
    assert (gone["Is"], gone["Owned objects"]) == ("not in the CRD", "3")
    assert gone["May it go?"].endswith("migrate before it goes")
    assert {row["Is"] for row in page.rows("owners")} == {"removed"}
    assert [row["State"][2:] for row in page.rows("act")] == ["migration due"]


async def test_all_crds_one_of_which_cannot_be_listed(migrated: Kind, cli: Cli, tmp_path: Path) -> None:
    """One broken CRD must not hide the others, nor look as if it had no objects."""
    await migrated.change(migrated.document(storage="v1beta1", served=("v1alpha1",)))
    page = await tables(cli, tmp_path / "report.html", "--all", code=1)
    (crd,) = page.rows("stored", CRD=f"{migrated.name} namespaced")
    assert crd["Objects"] == "-"
    assert {row["Stored objects"] for row in page.rows("leave", CRD=migrated.name)} == {"unknown"}
    (seen,) = page.rows("act", About=migrated.name)
    assert "is not served" in seen["What to know"]


async def test_it_writes_nothing(migrated: Kind, cli: Cli, tmp_path: Path) -> None:
    """A report of a cluster that changes it is none."""
    before = await migrated.stored()
    await tables(cli, tmp_path / "report.html", migrated.name)
    assert await migrated.stored() == before
    assert await migrated.stored_versions() == ["v1alpha1", "v1beta1"]


async def test_profiles_of_the_cluster(cluster: HttpCluster, cli: Cli, tmp_path: Path) -> None:
    """Lifecycles come from the live profiles; where there is no such CRD there is nothing to show, and no error."""
    document = documents()["cloudprofiles.core.gardener.cloud"]
    document["spec"].pop("conversion")
    document["spec"]["versions"] = [each for each in document["spec"]["versions"] if each["storage"]]
    with pytest.raises(NotFound):
        await cluster.get(CRDS, document["metadata"]["name"])
    empty = await cli("report", "--profiles", "-o", tmp_path / "empty.html")
    assert (empty.code, "CloudProfiles" in (tmp_path / "empty.html").read_text()) == (0, False)
    await cluster.create(CRDS, json.dumps(document).encode())
    try:
        await _profile(cluster)
        page = await tables(cli, tmp_path / "report.html", "--profiles")
    finally:
        await cluster.delete(CRDS, document["metadata"]["name"])
    (version,) = page.found["profile-1"]
    assert (version["Of"], version["Version"], version["Now"]) == ("Kubernetes", "1.33.6", "supported")
    assert version["Next"] == "deprecated from 2999-01-01"


async def _profile(cluster: HttpCluster) -> None:
    resource = Resource("core.gardener.cloud", "v1beta2", "cloudprofiles", namespaced=False)
    lifecycle = [{"classification": "supported"}, {"classification": "deprecated", "startTime": "2999-01-01T00:00:00Z"}]
    profile = {
        "apiVersion": resource.api_version,
        "kind": "CloudProfile",
        "metadata": {"name": "metal"},
        "spec": {
            "type": "metal",
            "kubernetes": {"versions": [{"version": "1.33.6", "lifecycle": lifecycle}]},
            "machineImages": [],
            "machineTypes": [],
            "regions": [{"name": "earth"}],
        },
    }

    async def applied() -> bool:
        try:
            await cluster.patch(
                resource,
                "metal",
                json.dumps(profile).encode(),
                patch_type=PatchType.APPLY,
                params={"fieldManager": "test"},
            )
        except NotFound:
            return False
        return True

    await until(applied, "CloudProfiles are not served")
