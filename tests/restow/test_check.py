"""``restow check``: findings, drafts, the report, and its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.restow.commandline import restow
from tests.restow.offline import CRDS, PROVIDER, REGISTRY, ROOT, Ran, run

MANIFESTS = PROVIDER / "manifests"


def check(*arguments: str | Path) -> Ran:
    return run("check", *arguments)


@pytest.fixture
def edited(tmp_path: Path) -> Path:
    """A folder with the provider's CRDs, after somebody has renamed a field in one version and added one."""
    gateways = (MANIFESTS / "gateways.yaml").read_text()
    old = gateways.index("- name: v1alpha1")
    gateways = gateways[:old] + gateways[old:].replace("certificate:", "cert:")
    gateways = gateways.replace(
        "weight: {type: integer}", "weight: {type: integer}\n                    drain: {type: boolean}", 1
    )
    (tmp_path / "gateways.yaml").write_text(gateways)
    (tmp_path / "caches.yaml").write_text((MANIFESTS / "caches.yaml").read_text())
    (tmp_path / "values.yaml").write_text("replicas: 1\n")
    (tmp_path / "template.yaml").write_text("{{ x }}: {{\n")
    return tmp_path


def test_all_is_well() -> None:
    """Silence on stdout, a word on stderr, exit code 0."""
    ran = check(*REGISTRY, *CRDS)
    assert (ran.code, ran.out, ran.err) == (0, "", "every field of 2 CRDs is accounted for\n")
    assert check(*REGISTRY, *CRDS, "-o", "json").json == {
        "crds": ["caches.edge.example.dev", "gateways.edge.example.dev"],
        "findings": [],
        "notes": [],
        "drafts": [],
    }


def test_a_field_that_somebody_added_later_is_found(edited: Path) -> None:
    """That is what the command is for."""
    ran = check(*REGISTRY, "--crd", edited)
    assert ran.code == 1
    told = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert told[0] == "KIND VERSION FIELD PROBLEM FIX"
    assert any(
        line.startswith("Gateway.edge.example.dev v1 .spec.listeners[].drain has no counterpart in v1beta1")
        for line in told
    )
    assert any(
        line.startswith("Gateway.edge.example.dev v1alpha1 .spec.cert has no counterpart in v1") for line in told
    )
    assert "template.yaml cannot be read as YAML (line " in ran.err
    assert "it is passed over" in ran.err


def test_a_likely_rename_is_drafted(edited: Path) -> None:
    """The rule to write is often obvious; then it should be offered."""
    gateways = (edited / "gateways.yaml").read_text()
    (edited / "gateways.yaml").write_text(
        gateways.replace("weight: {type: integer}", "burden: {type: integer}", 1).replace(
            "drain: {type: boolean}", "ready: {type: boolean}"
        )
    )
    ran = check(*REGISTRY, "--crd", edited, "-o", "json")
    assert ran.code == 1
    assert {finding["version"] for finding in ran.json["findings"]} == {"v1", "v1alpha1", "v1beta1"}
    plain = (MANIFESTS / "gateways.yaml").read_text()
    beta = plain.index("- name: v1beta1")
    changed = plain[:beta] + plain[beta:].replace("minVersion", "minimumVersion", 1)
    (edited / "gateways.yaml").write_text(changed)
    ran = check(*REGISTRY, "--crd", edited)
    assert (
        'Gateway.edge.example.dev v1beta1: did you mean rules.rename("spec.tls.minimumVersion", "spec.tls.minVersion")?'
        in ran.out
    )


def test_the_report() -> None:
    """What each rule may lose, and what becomes of that."""
    ran = check(*REGISTRY, *CRDS, "--report")
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert ran.code == 0
    assert (
        "Gateway.edge.example.dev v1alpha1 drop(.spec.debug) dropped lossless "
        "only read by the first prototype of the controller"
    ) in lines
    assert (
        "Gateway.edge.example.dev v1alpha1 pair(.spec.listeners[].timeoutSeconds <-> .spec.listeners[].timeout) "
        "lossless stashed -"
    ) in lines
    rules = check(*REGISTRY, *CRDS, "--report", "-o", "yaml").yaml["rules"]
    assert {
        "kind": "Gateway.edge.example.dev",
        "version": "v1alpha1",
        "hub": "v1",
        "rule": "stash(weight)",
        "paths": {"version": [], "hub": [".spec.listeners[].weight"]},
        "up": "lossless",
        "down": "stashed",
    } in rules


def test_without_crds_the_rules_alone_are_checked() -> None:
    """And it is said that nothing more was."""
    ran = check(*REGISTRY)
    assert (ran.code, ran.err) == (0, "the rules are sound; give --crd to check the fields\n")


def test_rules_that_make_no_sense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Defects of the rules themselves are findings, not a crash."""
    (tmp_path / "odd_conversions.py").write_text(
        "from restow.conversion import Registry, rules\n"
        "registry = Registry()\n"
        "kind = registry.kind('a.dev', 'A', hub='v1')\n"
        "kind.spoke('v0')(lambda: [rules.rename('spec.a', 'spec.b'), rules.rename('spec.a', 'spec.c')])\n"
    )
    monkeypatch.chdir(tmp_path)
    ran = check("--registry", "odd_conversions:registry", "-o", "json")
    assert ran.code == 1
    assert [finding["path"] for finding in ran.json["findings"]] == [".spec.a"]


def test_a_graph_that_was_frozen_against_something_else_is_refused(edited: Path) -> None:
    """It cannot be frozen again; saying that all is well would be a lie."""
    graph = ("--registry", "docs.examples.provider.conversions:graph")
    ran = check(*graph, "--crd", edited)
    assert (ran.code, ran.out) == (2, "")
    assert "was frozen against another gateways.edge.example.dev" in ran.err.splitlines()[-1]
    assert check(*graph, *CRDS).code == 0


def test_wrong_use(tmp_path: Path) -> None:
    """Exit code 2 and a hint."""
    (tmp_path / "a.yaml").write_text("a: 1\n")
    for arguments, said in (
        ([*CRDS], "say what to convert with"),
        ([*REGISTRY, *CRDS, "--live"], "--live reads the CRDs from the cluster, --crd from files"),
        ([*REGISTRY, "--crd", tmp_path / "a.yaml"], "holds no CustomResourceDefinition"),
        ([*REGISTRY, "--crd", tmp_path], "holds no CustomResourceDefinition"),
    ):
        ran = check(*arguments)
        assert (ran.code, ran.out) == (2, "")
        assert said in ran.err


def test_crds_of_some_kinds_alone() -> None:
    """A kind whose CRD is not given would go unchecked, and the command would say that all is well."""
    ran = check(*REGISTRY, "--crd", MANIFESTS / "caches.yaml", "-o", "json")
    assert ran.code == 1
    (finding,) = ran.json["findings"]
    assert (finding["kind"], finding["problem"]) == ("Gateway.edge.example.dev", "has no CRD among those given")


def test_as_a_process() -> None:
    """From the repository's folder, as in CI."""
    ran = restow("check", *REGISTRY, *CRDS, cwd=ROOT)
    assert (ran.code, ran.out, ran.err) == (0, "", "every field of 2 CRDs is accounted for\n")


def test_the_report_names_opaque_fields(tmp_path: Path) -> None:
    """A field that no schema describes is accounted for by name only: its content passes unconverted."""
    gateways = (MANIFESTS / "gateways.yaml").read_text()
    opened = gateways.replace("weight: {type: integer}", "weight: {x-kubernetes-preserve-unknown-fields: true}")
    (tmp_path / "gateways.yaml").write_text(opened)
    (tmp_path / "caches.yaml").write_text((MANIFESTS / "caches.yaml").read_text())
    ran = check(*REGISTRY, "--crd", tmp_path, "--report", "-o", "json")
    assert ran.code == 0
    (field,) = ran.json["opaque"]
    assert field["paths"] == {"version": ".spec.listeners[].weight", "hub": ".spec.listeners[].weight"}
    assert field["says"] == {"version": "anything", "hub": "anything"}
    told = check(*REGISTRY, "--crd", tmp_path, "--report")
    assert "no rule looks into 1 opaque field: what stands there passes as it is" in told.err


LISTS = """\
apiVersion: restow.dev/v1alpha1
kind: ConversionRules
metadata: {name: gateways.edge.example.dev}
spec:
  target: {group: edge.example.dev, kind: Gateway}
  hub: v2
  adopt: [{annotation: example.dev/whole, version: v2, fields: [spec.weight]}]
  keyless: [{lists: ["spec.**"], acknowledge: clients replace them}]
  spokes:
  - version: v1
    rules:
    - each: {spoke: spec.parts, rules: [{stash: {hub: a}}]}
    - each: {spoke: spec.others, rules: [{stash: {hub: b}}]}
"""


def test_the_report_names_accepted_lists_and_adopted_annotations(tmp_path: Path) -> None:
    """A reviewer would not see which lists a pattern covers, nor that stored annotations of another tool are read."""
    (tmp_path / "rules.yaml").write_text(LISTS)
    ran = check("--rules", tmp_path / "rules.yaml", "--report", "-o", "json")
    covered = {"kind": "Gateway.edge.example.dev", "version": "v1", "hub": "v2"}
    why = {"pattern": "spec.**", "reason": "clients replace them"}
    assert ran.json["keyless"] == [covered | {"path": path} | why for path in (".spec.parts", ".spec.others")]
    (adopted,) = ran.json["adopted"]
    assert adopted == {
        "kind": "Gateway.edge.example.dev",
        "annotation": "example.dev/whole",
        "version": "v2",
        "fields": ["spec.weight"],
        "stays": False,
    }
    told = check("--rules", tmp_path / "rules.yaml", "--report").out
    assert "spec.**" in told
    assert "v2 .spec.others" in told
    assert "example.dev/whole" in told
    assert "is removed" in told
