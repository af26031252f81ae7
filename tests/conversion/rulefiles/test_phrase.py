"""Proposals in the words of a rule file: what a finding says can be pasted into the file that it is about."""

from __future__ import annotations

import pytest

from restow.conversion.rulefiles import as_data
from tests.conversion.definition.following import found_in
from tests.conversion.randomkinds import crd, obj

TEXTS = {
    "rename": ('Use rules.rename("spec.a", "spec.b")', "Use - rename: {spoke: spec.a, hub: spec.b}"),
    "two rules": (
        'keep it with rules.stash(hub="spec.x"), or with rules.drop("a", acknowledge="why")',
        "keep it with - stash: {hub: spec.x}, or with - drop: {spoke: a, acknowledge: why}",
    ),
    "nested": (
        'rules.each("items", [rules.enum("mode", {"a": "b"}, up={"c": …})]) instead of each(x <-> y)',
        "- each: {spoke: items, rules: [{enum: {spoke: mode, values: {a: b}, up: {c: …}}}]} instead of each(x <-> y)",
    ),
    "a name": ("Use rules.stash or rules.drop", "Use stash or drop"),
    "open rules": ('rules.inside("a", […], hub="b") instead', "- inside: {spoke: a, rules: […], hub: b} instead"),
    "an open object": ('rules.default("spec", {…})', "- default: {spoke: spec, value: {…}}"),
    "among others": ('write rules.each("f", [… "rest" …])', "write - each: {spoke: f, rules: […, rest, …]}"),
    "functions": ('rules.pair("a", "a", up=…, down=…)', "- pair: {spoke: a, hub: a, up: …, down: …}"),
    "an argument": ('Say omitted_in="hub", since v1', "Say omitted_in: hub, since v1"),
    "keys": ('Identify the items with key=("a", "b") in each(x)', "Identify the items with key: [a, b] in each(x)"),
    "no value": ("Fill in acknowledge=", "Fill in acknowledge:"),
    "an option": ('leave it alone: leaves=["v1"]', "leave it alone: leaves: [v1]"),
    "no rule": ("a rules.file(x) with colour=True", "a rules.file(x) with colour=True"),
    "a path with a quote": (
        'rules.move(\'metadata.annotations["a.b/c"]\', "x")',
        "- move: {spoke: 'metadata.annotations[\"a.b/c\"]', hub: x}",
    ),
    "no call": ('rules.default("a", true)', 'rules.default("a", true)'),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_proposal_is_written_as_data(name: str) -> None:
    """An author without Python would have to translate each proposal."""
    python, data = TEXTS[name]
    assert as_data(python) == data


def test_the_findings_of_a_rule_file_propose_what_can_be_pasted() -> None:
    """Findings of the server, the operator and the check would speak of calls that no rule file has."""
    document = crd(
        {"v2": obj({"a": {"type": "string"}, "b": {"type": "string"}}), "v1": obj({"a": {"type": "string"}})}
    )
    (found,) = found_in([], document, "v2", "v1")
    assert "keep it with - stash: {hub: b}, or let it go with - drop: {hub: b, acknowledge: why}" in found.fix
    assert "rules." not in found.fix
