"""``restow roundtrip`` and ``restow check --live`` on a real API server: listed page by page, and nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apiserver.kind import Kind
from tests.restow.commandline import Ran, restow

CONVERSIONS = """\
from restow.conversion import Registry, rules

kept, broken = Registry(), Registry()
kept.kind("{group}", "Widget", hub="v1beta1").spoke("v1alpha1")(lambda: [])
broken.kind("{group}", "Widget", hub="v1beta1").spoke("v1alpha1")(
    lambda: [rules.pair("spec.color", "spec.color", up=lambda v: v, down=lambda v: v[:3], loses="up")]
)
"""


@pytest.fixture
async def folder(kind: Kind, tmp_path: Path) -> Path:
    """Seven widgets of two versions in two namespaces, and an author's conversions of them."""
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    await kind.namespace("other")
    for number in range(7):
        namespace = "other" if number == 6 else "default"
        metadata = {"labels": {"even": str(number % 2 == 0)}}
        spec = {"size": number, "color": "green" if number == 3 else "red"}
        await kind.apply(kind.manifest("v1alpha1", f"w{number}", namespace, metadata=metadata, spec=spec), "owner")
    (tmp_path / "widget_conversions.py").write_text(CONVERSIONS.format(group=kind.group))
    return tmp_path


def run(folder: Path, kubeconfig: Path, *arguments: str) -> Ran:
    return restow(*arguments, kubeconfig=kubeconfig, cwd=folder)


async def test_objects_of_a_cluster(kind: Kind, folder: Path, kubeconfig: Path) -> None:
    """Every page is looked at, a broken law is told with its object, and the objects stay as they are."""
    before = await kind.stored()
    kept = ("roundtrip", kind.name, "--registry", "widget_conversions:kept")
    report = run(folder, kubeconfig, *kept, "--page-size", "2", "-o", "json")
    assert report.code == 0
    (counts,) = report.json["kinds"]
    assert (counts["kind"], counts["objects"], counts["broken"]) == (f"Widget.{kind.group}", 7, 0)
    for arguments, objects in (
        (("-n", "other"), 1),
        (("-l", "even=True"), 4),
        (("-n", "default", "-l", "even=True"), 3),
    ):
        assert run(folder, kubeconfig, *kept, *arguments, "-o", "json").json["kinds"][0]["objects"] == objects
    broken = run(folder, kubeconfig, "roundtrip", kind.name, "--registry", "widget_conversions:broken")
    assert broken.code == 1
    assert broken.out.splitlines()[2:] == [
        f"{kind.name}: Widget default/w3: round trip, v1beta1 -> v1alpha1 -> v1beta1",
        "  ~ /spec/color",
    ]
    assert await kind.stored() == before


async def test_check_against_the_cluster(kind: Kind, folder: Path, kubeconfig: Path) -> None:
    """What is installed may be another release than what is in the repository."""
    check = ("check", "--live", "--registry", "widget_conversions:kept")
    ran = run(folder, kubeconfig, *check)
    assert (ran.code, ran.err) == (0, f"every field of {kind.name} is accounted for\n")
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False, default=True))
    ran = run(folder, kubeconfig, *check, "-o", "json")
    assert ran.code == 1
    assert [finding["path"] for finding in ran.json["findings"]] == [".spec.policy"]


async def test_what_cannot_be_listed_is_refused(kind: Kind, folder: Path, kubeconfig: Path) -> None:
    """One sentence, and exit code 2."""
    registry = ("--registry", "widget_conversions:kept")
    assert (
        "no CRD 'nothing.example.com'" in run(folder, kubeconfig, "roundtrip", "nothing.example.com", *registry).refusal
    )
    await kind.change(kind.document(storage="v1beta1", served=["v1alpha1"], keyed_conditions=False))
    assert (
        "does not serve its storage version v1beta1"
        in run(folder, kubeconfig, "roundtrip", kind.name, *registry).refusal
    )
    (folder / "widget_conversions.py").write_text(CONVERSIONS.format(group="other.example.com"))
    assert f"does not convert Widget.{kind.group}" in run(folder, kubeconfig, "roundtrip", kind.name, *registry).refusal
    assert "has no CRD of a kind" in run(folder, kubeconfig, "check", "--live", *registry).refusal
