"""``--rules FILE`` and ``restow rules``: conversions as data, through every command that converts."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from restow.conversion.rulefiles import load
from tests.restow.offline import CONVERTED, CRDS, GATEWAY, NEW, OLD, PROVIDER, run

FILE = PROVIDER / "conversions.yaml"
RULES = ("--rules", str(FILE))

PLAIN = """\
from restow.conversion import Registry, rules
registry = Registry()
kind = registry.kind("example.dev", "Widget", hub="v2")
kind.spoke("v1")(lambda: [rules.rename("spec.ttl", "spec.timeToLive")])
mixed = Registry()
kind = mixed.kind("example.dev", "Widget", hub="v2")
kind.spoke("v1")(lambda: [rules.pair("spec.ttl", "spec.timeToLive", up=str, down="int(self)")])
"""


@pytest.fixture
def gateway(tmp_path: Path) -> Path:
    """A manifest of the first version."""
    file = tmp_path / "gateway.yaml"
    file.write_text(GATEWAY)
    return file


def test_every_field_is_accounted_for() -> None:
    """A file of rules would not be checked against the CRDs, or would lack what the registry says."""
    ran = run("check", *RULES, *CRDS)
    assert (ran.code, ran.out, ran.err) == (0, "", "every field of 2 CRDs is accounted for\n")


def test_a_file_converts_manifests_there_and_back(gateway: Path) -> None:
    """Rules as data would convert otherwise than their twins in Python."""
    ran = run("convert", *RULES, *CRDS, "-f", gateway, "--to", NEW)
    assert (ran.code, ran.out) == (0, CONVERTED)
    gateway.write_text(ran.out)
    assert run("convert", *RULES, *CRDS, "-f", gateway, "--to", OLD).out == GATEWAY


def test_explain_and_roundtrip_take_a_file(gateway: Path) -> None:
    """A command would still demand a registry of Python."""
    assert "duration" in run("explain", *RULES, *CRDS, "-f", gateway, "--to", NEW).out
    assert run("roundtrip", *RULES, *CRDS, "-f", gateway).code == 0


def test_a_defect_of_freezing_has_its_line(tmp_path: Path) -> None:
    """A team would search the rule that a finding is about."""
    file = tmp_path / "rules.yaml"
    file.write_text(FILE.read_text().replace("        - stash: {hub: weight}\n", ""))
    ran = run("check", "--rules", file, *CRDS, "-o", "json")
    assert ran.code == 1
    (finding,) = ran.json["findings"]
    assert (finding["at"], finding["path"]) == (f"{file}:10:5", ".spec.listeners[].weight")


def test_a_mistake_has_its_line_in_every_command(tmp_path: Path, gateway: Path) -> None:
    """A team would get a traceback, or a message without a place."""
    file = tmp_path / "rules.yaml"
    file.write_text(FILE.read_text().replace("- stash: {hub: weight}", "- stash: {hup: weight}"))
    ran = run("convert", "--rules", file, "-f", gateway, "--to", NEW)
    assert ran.code == 2
    assert ran.err.splitlines() == [
        f"restow: --rules {file} cannot be used, it has 1 mistake:",
        f"{file}:23:19: stash has no parameter hup. Write hub.",
    ]


def test_a_file_and_a_registry_exclude_each_other(gateway: Path) -> None:
    """One of them would win in silence."""
    ran = run("convert", *RULES, "--registry", "a:b", "-f", gateway, "--to", NEW)
    assert ran.code == 2
    assert "--registry and --rules both say what to convert with: give one" in ran.err


def test_a_registry_without_functions_prints_as_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A team could not move from Python to data."""
    (tmp_path / "plain_rules.py").write_text(PLAIN)
    monkeypatch.syspath_prepend(tmp_path)
    ran = run("rules", "print", "--registry", "plain_rules:registry")
    assert ran.code == 0
    assert [rule.label for rule in load(ran.out).rules[0].spokes["v1"]] == ["rename(spec.ttl <-> spec.timeToLive)"]
    refused = run("rules", "print", "--registry", "plain_rules:mixed")
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.splitlines()[1] == "- v1 pair(spec.ttl <-> spec.timeToLive): up"


def test_the_schema_is_printed_as_json() -> None:
    """An editor could not read it."""
    printed = msgspec.json.decode(run("rules", "schema").out)
    assert "rename" in printed["$defs"]["rule"]["properties"]


def test_rules_are_listed_and_explained() -> None:
    """An author without the documentation would have to guess the names of rules and of their parameters."""
    listed = run("rules", "list")
    assert listed.code == 0 and "described" in listed.out and "A duration as a text and as a number." in listed.out
    found = run("rules", "explain", "duration")
    assert found.code == 0 and found.out.startswith("RULE:  duration\n") and "  unit  <" in found.out
    assert "- duration: {spoke: spec.ttl, hub: spec.ttlSeconds, unit: s}" in found.out and "LOSES:" in found.out
    missing = run("rules", "explain", "duraton")
    assert (missing.code, missing.err) == (2, "restow: there is no rule duraton: did you mean duration?\n")
