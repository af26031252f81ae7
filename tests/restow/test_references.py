"""``restow references`` over files, without a cluster; and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.migrator import builders as b
from tests.migrator.references.found import OTHER, WIDGET
from tests.restow.commandline import Ran, restow


def look(folder: Path, *more: str) -> Ran:
    """Look through the manifests of a folder for v1."""
    crd = folder / "crd.yaml"
    crd.write_text(json.dumps(b.crd_document()))
    return restow("references", "-f", crd, "--version", "v1", "--files", folder / "manifests", *more)


def test_files_need_no_cluster(tmp_path: Path) -> None:
    """A repository's pipeline has no kubeconfig; it branches on the exit code and shows the places."""
    manifests = tmp_path / "manifests" / "more"
    manifests.mkdir(parents=True)
    (manifests / "other.yaml").write_text(OTHER)
    nothing = look(tmp_path)
    assert (nothing.code, nothing.out) == (0, ""), nothing.err
    (manifests / "widget.yaml").write_text(f"{OTHER}---\n{WIDGET}")
    (manifests / "chart.yaml").write_text(f"{{{{- if .Values.on }}}}\n{WIDGET}{{{{- end }}}}\n")
    ran = look(tmp_path, "-o", "json")
    (found,) = ran.json["versions"]
    assert (ran.code, found["counts"]) == (3, {"files": 2})
    places = {(Path(each["resource"]).name, each["where"], each["guess"]) for each in found["references"]}
    assert places == {("chart.yaml", "line 2", True), ("widget.yaml", "line 6", False)}
    shown = look(tmp_path)
    assert "(a guess)" in shown.out
    assert "restow convert" in shown.err


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """Silence about it would turn "not seen" into "not there"."""
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "bad.yaml").write_bytes(b"\xff\xfe kind: Widget")
    ran = look(tmp_path)
    assert ran.code == 1
    assert "bad.yaml (it is no UTF-8 text)" in ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "name the CRDs"),
        (("a.b", "--kinds", "helm,nothing"), "'nothing' is none of owner-references, typed, helm"),
        (("a.b", "--dry-run"), "--dry-run is for --move"),
        (("a.b", "--all-revisions"), "--all-revisions is for --move"),
        (("a.b", "--move", "v2"), "--move and --undo need the names of CRDs, and --version"),
        (("a.b", "--version", "v1", "--move", "v2", "--undo"), "--move and --undo exclude each other"),
        (("a.b", "--version", "v1", "--move", "v2", "--kinds", "clients"), "--move can write these kinds only"),
        (("a.b", "--version", "v1", "--move", "v2", "--files", "."), "leave --files and --audit-log out"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], said: str) -> None:
    """Exit code 2 and a hint; a run that began anyway would do something else than was meant."""
    ran = restow("references", *arguments, kubeconfig=Path("/nonexistent"))
    assert ran.code == 2
    assert said in " ".join(ran.err.split())
    assert ran.out == ""
