"""``restow diff``: its sources, its table, its exit codes, and rules by which a renamed field is no loss."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from restow.cli.tables import lay_out
from restow.commands.diff import command
from tests.restow.offline import run

CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  conversion: CONVERSION
  versions:
  - name: v1beta1
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
"""
NONE, WEBHOOK = "{strategy: None}", "{strategy: Webhook, webhook: {conversionReviewVersions: [v1]}}"
RULES = """\
apiVersion: restow.dev/v1alpha1
kind: ConversionRules
metadata: {name: widgets.example.com}
spec:
  target: {group: example.com, kind: Widget}
  hub: v1
  spokes:
  - version: v1beta1
    rules:
    - rename: {spoke: spec.size, hub: spec.replicas}
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A CRD whose versions agree."""
    (tmp_path / "old.yaml").write_text(CRD.replace("CONVERSION", NONE))
    return tmp_path / "old.yaml"


def renamed(old: Path, conversion: str = NONE) -> Path:
    """Return the CRD with another name of the field in v1 alone, as a new release has it."""
    before, mark, after = CRD.replace("CONVERSION", conversion).rpartition("size")
    assert mark
    new = old.with_name("new.yaml")
    new.write_text(f"{before}replicas{after}")
    return new


def test_nothing_breaks(old: Path) -> None:
    """A pipeline would stop at a CRD that stays as it is."""
    ran = run("diff", old, old)
    assert (ran.code, ran.out, ran.err) == (0, "widgets.example.com: ok\n", "0 breaking changes, 0 notices in 1 CRD\n")


def test_a_removed_field_breaks(old: Path) -> None:
    """A pipeline would let a field go that clients write, or not say which."""
    new = renamed(old)
    ran = run("diff", old, new)
    assert ran.code == 1
    rows = [line.split()[:3] for line in ran.out.splitlines() if line.startswith(("breaking", "notice"))]
    assert rows == [
        ["breaking", "v1", ".spec.size"],
        ["breaking", "v1beta1", ".spec.size"],
        ["notice", "v1", ".spec.replicas"],
    ]
    assert "  field-removed: The API server drops the field from writes, and readers find nothing. Keep it" in ran.out
    assert "field is new" not in ran.out
    assert "field is new" in run("diff", old, new, "-o", "wide").out
    found = run("diff", old, new, "-o", "json").json
    assert (found["verdict"], found["crds"]) == ("breaking", ["widgets.example.com"])
    assert found["findings"][0] == {
        "crd": "widgets.example.com",
        "version": "v1",
        "path": ".spec.size",
        "check": "field-removed",
        "verdict": "breaking",
        "change": "field is gone",
        "reason": "The API server drops the field from writes, and readers find nothing",
        "fix": "Keep it, or make the change in a new version with conversion rules",
    }


def test_rules_say_what_passes_between_versions(old: Path) -> None:
    """A version with a renamed field and complete rules would be refused as if it lost the field."""
    (old.parent / "rules.yaml").write_text(RULES)
    new = renamed(old, WEBHOOK)
    lacking = old.with_name("lacking.yaml")
    before, _, after = old.read_text().partition("  - name: v1\n")
    lacking.write_text(f"{before.replace('storage: false', 'storage: true')}")
    assert after
    without = run("diff", lacking, new, "-o", "json").json
    assert (without["verdict"], "conversion-unjudged") == ("notice", without["findings"][-1]["check"])
    assert "Give the rules with --rules" in without["findings"][-1]["fix"]
    judged = run("diff", lacking, new, "--rules", old.parent / "rules.yaml", "-o", "json")
    assert judged.code == 0
    assert {each["check"] for each in judged.json["findings"]} == {"storage", "conversion", "version-added"}
    (old.parent / "rules.yaml").write_text(RULES.replace("spec.replicas", "spec.count"))
    wrong = run("diff", lacking, new, "--rules", old.parent / "rules.yaml", "-o", "json")
    assert wrong.code == 1
    assert {(each["check"], each["path"]) for each in wrong.json["findings"] if each["verdict"] == "breaking"} == {
        ("conversion-rules", ".spec.count"),
        ("conversion-rules", ".spec.replicas"),
    }


def test_a_version_that_goes_is_judged_through_the_rules(old: Path) -> None:
    """The rules of a version that the new CRD lacks would be called wrong, though its objects still need them."""
    (old.parent / "rules.yaml").write_text(RULES)
    new = renamed(old, WEBHOOK)
    new.write_text(new.read_text().replace(new.read_text().split("  versions:\n")[1].split("  - name: v1\n")[0], ""))
    found = run("diff", old, new, "--rules", old.parent / "rules.yaml", "-o", "json").json["findings"]
    broken = [(each["check"], each["path"]) for each in found if each["verdict"] == "breaking"]
    assert broken == [("version-removed", "spec.versions"), ("field-removed", ".spec.size")]


def test_commits_and_folders(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline compares with the last release, which only git has."""
    monkeypatch.chdir(old.parent)
    (old.parent / "crds").mkdir()
    old.rename(old.parent / "crds" / "widgets.yaml")
    (old.parent / "crds" / "other.txt").write_text("no manifest")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com")
    for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "first")):
        subprocess.run([*git, *arguments], check=True)
    renamed(old).rename(old.parent / "crds" / "widgets.yaml")
    assert run("diff", "git:HEAD:crds", "crds").code == 1
    assert run("diff", "git:HEAD:crds/widgets.yaml", "git:HEAD:crds").code == 0
    assert run("diff", "crds", "git:HEAD:crds").code == 1
    assert run("diff", "git:HEAD:crds", "-", stdin=(old.parent / "crds" / "widgets.yaml").read_text()).code == 1


def test_a_crd_that_goes_or_comes(old: Path) -> None:
    """Whoever applies with pruning would lose every object of a CRD that a folder lacks."""
    other = old.with_name("gadgets.yaml")
    other.write_text(old.read_text().replace("widgets", "gadgets").replace("Widget", "Gadget"))
    found = run("diff", old, other, "-o", "json")
    assert [(each["crd"], each["check"]) for each in found.json["findings"]] == [
        ("gadgets.example.com", "crd-added"),
        ("widgets.example.com", "crd-removed"),
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("cluster", "cluster"), "OLD and NEW are both the cluster"),
        (("old.yaml", "none.yaml"), "'none.yaml' is no file, no folder, no git:REF:PATH, and not 'cluster'"),
        (("old.yaml", "git:HEAD"), "must be git:REF:PATH"),
        (("old.yaml", "git:--output=x:y"), "must be git:REF:PATH"),
        (("old.yaml", "git:nothing:crds"), "git:nothing:crds cannot be read"),
        (("old.yaml", "."), "holds the CRD widgets.example.com more than once"),
    ],
)
def test_what_cannot_be_compared(
    old: Path, arguments: tuple[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake in the command is a sentence, and no verdict."""
    monkeypatch.chdir(old.parent)
    renamed(old)
    ran = CliRunner().invoke(command, arguments)
    assert (ran.exit_code, said in ran.output) == (2, True), ran.output


def test_the_table_fits_80_columns(old: Path) -> None:
    """In a terminal, rows would wrap inside of words."""
    rows = [
        [each["verdict"], each["version"], each["path"], each["change"]]
        for each in run("diff", old, renamed(old), "-o", "json").json["findings"]
    ]
    table = lay_out(("verdict", "version", "path", "change"), rows, 80)
    assert table.heading and max(map(len, (*table.heading, *table.lines))) <= 80


def test_the_configuration_of_crdify_counts(old: Path) -> None:
    """A project that moves from crdify would get other verdicts than it has agreed on."""
    new = old.with_name("new.yaml")
    new.write_text(CRD.replace("CONVERSION", NONE).replace("type: integer", "type: integer, maximum: 5, format: int32"))
    config = old.with_name("crdify.yaml")
    for text, code, checks in (
        ("{}", 1, {"bound", "format"}),
        ("validations: [{name: maximum, enforcement: Warn}]\nunhandledEnforcement: None", 0, {"bound"}),
        ("validations: [{name: minimum, enforcement: None}]\nunhandledEnforcement: Warn", 1, {"bound", "format"}),
        ("validations: [{name: maximum, enforcement: None}]\nunhandledEnforcement: Warn", 0, {"format"}),
    ):
        config.write_text(text)
        ran = run("diff", old, new, "--crdify-config", config, "-o", "json")
        assert (ran.code, {each["check"] for each in ran.json["findings"]}) == (code, checks), text
    config.write_text("validations: [{name: maximun, enforcement: Warn}]")
    ran = run("diff", old, new, "--crdify-config", config)
    assert ran.code == 2 and "crdify has no validation 'maximun': did you mean" in ran.err


def test_a_new_value_of_an_enum_can_be_refused(old: Path) -> None:
    """crdify lets a project say that no enum may grow; the file would be read and that not obeyed."""
    one = CRD.replace("CONVERSION", NONE).replace("type: integer", "type: string, enum: [a]")
    old.write_text(one)
    (old.parent / "new.yaml").write_text(one.replace("[a]", "[a, b]"))
    (old.parent / "crdify.yaml").write_text(
        "validations: [{name: enum, enforcement: Error, configuration: {additionPolicy: Disallow}}]"
    )
    assert run("diff", old, old.parent / "new.yaml").code == 0
    assert run("diff", old, old.parent / "new.yaml", "--crdify-config", old.parent / "crdify.yaml").code == 1
