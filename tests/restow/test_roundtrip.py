"""``restow roundtrip`` on files: what it counts, what it tells, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.restow.commandline import restow
from tests.restow.offline import CONVERTED, CRDS, GATEWAY, REGISTRY, ROOT, Ran, run

LOSSY = """\
from restow.conversion import Registry, rules

registry = Registry()
kind = registry.kind("a.dev", "A", hub="v2")


@kind.spoke("v1")
def v1():
    return [rules.pair("spec.secret", "spec.secret", up=lambda v: v, down=lambda v: v[:1], loses="up")]
"""
SECRET = "apiVersion: a.dev/v2\nkind: A\nmetadata: {name: x, namespace: web}\nspec: {secret: hunter2, other: 1}\n"


def roundtrip(*arguments: str | Path, stdin: str = "") -> Ran:
    return run("roundtrip", *arguments, stdin=stdin)


@pytest.fixture
def lossy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """A registry with a rule that cuts texts and says that it does not."""
    (tmp_path / "lossy_conversions.py").write_text(LOSSY)
    monkeypatch.chdir(tmp_path)
    return ("--registry", "lossy_conversions:registry")


def test_objects_that_keep_the_laws(tmp_path: Path) -> None:
    """Counted by kind; other kinds are passed over."""
    (tmp_path / "a.yaml").write_text(f"{GATEWAY}---\n{CONVERTED}---\nkind: ConfigMap\napiVersion: v1\n")
    (tmp_path / "b.yaml").write_text("apiVersion: edge.example.dev/v2\nkind: Cache\nspec: {capacity: 5Mi}\n")
    ran = roundtrip("-f", tmp_path, *REGISTRY, *CRDS)
    assert ran.code == 0
    assert [line.split()[:4] for line in ran.out.splitlines()] == [
        ["KIND", "OBJECTS", "CONVERSIONS", "BROKEN"],
        ["Gateway.edge.example.dev", "2", "24", "0"],
        ["Cache.edge.example.dev", "1", "12", "0"],
    ]
    report = roundtrip("-f", tmp_path, *REGISTRY, "-o", "json").json
    assert (report["result"], report["findings"], report["unlisted"]) == ("Kept", [], 0)


def test_what_rules_drop_is_no_loss() -> None:
    """It is declared, with a reason."""
    assert roundtrip("-f", "-", *REGISTRY, stdin=GATEWAY.replace("host:", "debug: true\n  host:")).code == 0


def test_a_broken_law(lossy: tuple[str, ...], tmp_path: Path) -> None:
    """Which object, which way, where; and no values unless they are asked for."""
    ran = roundtrip("-f", "-", *lossy, "--report", tmp_path / "report.json", stdin=SECRET)
    assert ran.code == 1
    assert ran.out.splitlines()[2:] == ["stdin:1: A web/x: round trip, v2 -> v1 -> v2", "  ~ /spec/secret"]
    report = (tmp_path / "report.json").read_text()
    assert "hunter2" not in ran.out + ran.err + report
    (finding,) = json.loads(report)["findings"]
    assert finding == {
        "kind": "A",
        "namespace": "web",
        "name": "x",
        "where": "stdin:1",
        "law": "round trip",
        "way": ["v2", "v1", "v2"],
        "message": "",
        "changes": [{"change": "changed", "pointer": "/spec/secret"}],
    }
    shown = roundtrip("-f", "-", *lossy, "--show-values", stdin=SECRET)
    assert shown.out.splitlines()[-1] == '  ~ /spec/secret: "hunter2" -> "h"'


def test_memory_is_bounded_by_the_findings_that_are_told(
    lossy: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster full of broken objects is counted, not collected."""
    monkeypatch.setattr("restow.commands.roundtrip._LISTED", 2)
    ran = roundtrip("-f", "-", *lossy, stdin="---\n".join([SECRET] * 5))
    assert ran.out.splitlines()[1].split()[:4] == ["A.a.dev", "5", "20", "5"]
    assert ran.out.splitlines()[-1] == "… and 3 more"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*REGISTRY], "name CRDs of the cluster (<plural>.<group>), or give -f FILE"),
        ([*REGISTRY, "-f", "-", "widgets.example.com"], "name CRDs of the cluster"),
        (["-f", "-"], "say what to convert with"),
        ([*REGISTRY, "-f", "-"], "there is no object of a kind that the registry converts in -"),
    ],
)
def test_wrong_use(arguments: list[str], said: str) -> None:
    """Exit code 2, and nothing on stdout."""
    ran = roundtrip(*arguments, stdin="kind: ConfigMap\n")
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_an_object_at_a_version_that_is_unknown_is_refused() -> None:
    """Its laws cannot be judged, and counting it as kept would be a lie."""
    ran = roundtrip("-f", "-", *REGISTRY, stdin="kind: Gateway\napiVersion: edge.example.dev/v7\n")
    assert "has no version v7" in ran.refusal


def test_as_a_process() -> None:
    """No bar and no colour in a pipe."""
    ran = restow("roundtrip", "-f", "-", *REGISTRY, *CRDS, stdin=GATEWAY, cwd=ROOT)
    assert (ran.code, ran.err) == (0, "")
    assert ran.rows[1][:4] == ["Gateway.edge.example.dev", "1", "12", "0"]


def test_an_unreachable_cluster_is_refused() -> None:
    """One sentence, exit code 2."""
    ran = restow("roundtrip", "widgets.example.com", *REGISTRY, kubeconfig=Path("/nonexistent"), cwd=ROOT)
    assert "/nonexistent" in ran.refusal
