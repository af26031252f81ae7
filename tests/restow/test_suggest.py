"""``restow suggest``: a draft on stdout, open questions on stderr, and its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from restow.conversion.rulefiles import load
from restow.crds import load as load_crds
from tests.restow.offline import CRDS, PROVIDER, run

LAMP = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.example.dev}
spec:
  group: example.dev
  names: {kind: Lamp, plural: lamps}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: false, schema: {openAPIV3Schema: {type: object, properties: {spec: OLD}}}}
  - {name: v2, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: NEW}}}}
"""


@pytest.fixture
def lamp(tmp_path: Path) -> Path:
    """A CRD whose versions differ in a name, a unit, and what only one of them has."""
    old = "{type: object, properties: {ttl: {type: integer}, delayMinutes: {type: integer}, MORE}}"
    new = "{type: object, properties: {timeToLive: {type: integer}, delaySeconds: {type: integer}}}"
    (tmp_path / "lamp.yaml").write_text(LAMP.replace("OLD", old.replace(", MORE", "")).replace("NEW", new))
    (tmp_path / "open.yaml").write_text(
        LAMP.replace("OLD", old.replace("MORE", "limit: {type: integer}")).replace(
            "NEW", new.replace("}}}", "}, limitSeconds: {type: integer}}}")
        )
    )
    return tmp_path


def test_a_draft_with_nothing_open(lamp: Path) -> None:
    """The file can be checked, and served, as it is."""
    ran = run("suggest", "--crd", lamp / "lamp.yaml", "--from", "v1", "--to", "v2")
    assert ran.code == 0 and "nothing is open" in ran.err
    assert "    # delayMinutes and delaySeconds are the same in another unit: times 60\n" in ran.out
    load(ran.out).freeze(load_crds(lamp / "lamp.yaml"))
    python = run("suggest", "--crd", lamp / "lamp.yaml", "--from", "v1", "--to", "v2", "-o", "python")
    assert 'rules.rename("spec.ttl", "spec.timeToLive"),' in python.out


def test_open_questions_are_told_by_the_exit_code(lamp: Path) -> None:
    """A pipeline must not take a draft with questions for rules."""
    ran = run("suggest", "--crd", lamp / "open.yaml", "--from", "v1", "--to", "v2")
    assert ran.code == 1 and ran.err.splitlines()[-1] == "1 open question, 0 findings"
    assert "question 1: v1 .spec.limit: may be .spec.limitSeconds of v2, but only one of" in ran.err
    load(ran.out).freeze(load_crds(lamp / "open.yaml"))


def test_questions_are_in_the_language_of_the_file(lamp: Path) -> None:
    """An author of YAML who has to translate calls of Python guesses the names of parameters."""
    struct, text = "{{type: object, properties: {{{}}}}}", "url: {type: string}"
    both = ", ".join(f"{name}: {struct.format(text)}" for name in ("git", "web"))
    two = lamp / "two.yaml"
    two.write_text(LAMP.replace("OLD", struct.format(text)).replace("NEW", struct.format(both)))
    asked = ("suggest", "--crd", two, "--from", "v1", "--to", "v2")
    data, python = run(*asked), run(*asked, "-o", "python")
    assert "rules." not in data.err and "If so, write - move: {spoke: spec.url, hub: spec.git.url}." in data.err
    assert 'If so, write rules.move("spec.url", "spec.git.url").' in python.err


def test_what_cannot_be_drafted(lamp: Path) -> None:
    """A mistake in the command is a sentence."""
    for flags, said in (
        (("--from", "v0", "--to", "v2"), "has no version v0, only v1, v2"),
        (("--from", "v2", "--to", "v2"), "--from and --to both name v2"),
    ):
        ran = run("suggest", "--crd", lamp / "lamp.yaml", *flags)
        assert ran.code == 2 and said in ran.err
    ran = run("suggest", *CRDS, "--from", "v1", "--to", "v2")
    assert ran.code == 2 and "name one kind with --kind" in ran.err


def test_the_example_provider() -> None:
    """What its author wrote by hand is drafted, or asked."""
    gateways = ("--crd", PROVIDER / "manifests" / "gateways.yaml")
    ran = run("suggest", *gateways, "--from", "v1alpha1", "--to", "v1", "-o", "python")
    assert ran.code == 1
    for rule in (
        'rules.move("spec.certificate", "spec.tls.certificate")',
        'rules.stash(hub="spec.tls.minVersion")',
        'rules.wrap("spec.host", "spec.hosts[]")',
        'rules.rename("title", "name")',
        'rules.stash(hub="weight")',
    ):
        assert rule in ran.out
    assert ".spec.listeners[].timeout of v1, but no format or pattern says that timeout is a duration" in ran.err
    assert 'no value of the other version is spelled like "Mesh"' in ran.err
