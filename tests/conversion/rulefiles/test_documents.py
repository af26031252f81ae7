"""Rules as data: what is printed reads back as the same, and documents convert as their Python twins do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.conversion import Registry, RuleFailed, rules
from restow.conversion.rulefiles import NotData, RuleFileError, dump, json_schema, load
from restow.conversion.rulefiles.vocabulary import vocabulary
from restow.conversion.rules.scopes import ScopedRules
from restow.conversion.rules.unions import When
from restow.crds import conversionrules
from tests.conversion import randomkinds

WIDGET = """\
apiVersion: restow.dev/v1alpha1
kind: ConversionRules
metadata: {name: widget.example.dev}
spec:
  target: {group: example.dev, kind: Widget}
  hub: v1
  stash: {annotation: example.dev/kept, budget: 1000}
  spokes:
  - version: v1alpha1
    rules:
    - rename: {spoke: spec.ttl, hub: spec.timeToLive}
    - enum: {spoke: spec.mode, values: {a: Alpha, "y": "n"}, down: {Gamma: a}}
    - each:
        spoke: spec.items
        key: name
        rules:
        - stash: {hub: weight}
        - pair: {spoke: size, hub: text, up: string(self), down: int(self)}
    - pair:
        spoke: [spec.host, spec.port]
        hub: spec.address
        up: |-
          self["spec.host"] + ":" +
          string(self["spec.port"])
        down: "{'spec.host': self.split(':')[0], 'spec.port': int(self.split(':')[1])}"
    - constant: {value: {a: [1, x y, 1.5, null, true]}, hub: spec.tier}
  - version: v1beta1
    rules: []
"""


def registry(declared: list[rules.Rule]) -> Registry:
    """One kind with these rules."""
    made = Registry()
    made.kind("example.dev", "Widget", hub="v2").spoke("v1")(lambda: declared)
    return made


def without_functions(declared: list[rules.Rule]) -> list[rules.Rule]:
    """The rules that are data, at every depth."""
    kept: list[rules.Rule] = []
    for rule in declared:
        if isinstance(rule, ScopedRules | When):
            if isinstance(rule, When) or rule.hide is None:
                make = getattr(rules, rule.name)
                kept.append(make(**{**rule.arguments, "rules": without_functions([*rule.rules])}))
        elif not any(callable(each) for each in rule.arguments.values()):
            kept.append(rule)
    return kept


def test_a_file_in_the_printed_form_prints_as_the_same_bytes() -> None:
    """A team that prints its rules would get a diff each time."""
    assert dump(load(WIDGET).registry) == WIDGET


def test_what_a_kind_declares_prints_as_the_same_bytes() -> None:
    """A printed registry would lose an annotation that it adopts, or the reason of its lists without keys."""
    text = WIDGET.replace(
        "  spokes:",
        "  onError: keep\n"
        "  adopt: [{annotation: example.dev/whole, version: v1, fields: [spec.a, spec.b], stays: true}]\n"
        "  leaves: [v1alpha0]\n"
        '  keyless: [{lists: [spec.things, "spec.pools[].*"], acknowledge: they are replaced as a whole}]\n'
        "  spokes:",
    )
    (found,) = load(text).rules
    assert (found.keyless[0].lists, found.leaves) == (("spec.things", "spec.pools[].*"), ("v1alpha0",))
    assert dump(load(text).registry) == text


@given(randomkinds.scopes(root=True))
def test_what_is_printed_reads_back_as_the_same_rules(scope: randomkinds.Scope) -> None:
    """A registry that moved to a file would convert differently."""
    declared = without_functions(scope.rules)
    text = dump(registry(declared))
    found = load(text)
    assert dump(found.registry) == text
    ours = registry(declared).freeze().kinds["example.dev", "Widget"]
    theirs = found.freeze().kinds["example.dev", "Widget"]
    assert [each.label for each in ours.spokes["v1"].rules] == [each.label for each in theirs.spokes["v1"].rules]


def test_a_document_converts_as_it_says() -> None:
    """A parameter of a document would be read and not used."""
    graph = load(WIDGET).freeze()
    old = {
        "apiVersion": "example.dev/v1alpha1",
        "kind": "Widget",
        "spec": {"ttl": 1, "mode": "a", "items": [{"name": "x", "size": 3}], "host": "h", "port": 80},
    }
    new = graph.convert(old, "example.dev/v1")
    assert new["spec"] == {
        "timeToLive": 1,
        "mode": "Alpha",
        "items": [{"name": "x", "text": "3"}],
        "address": "h:80",
        "tier": {"a": [1, "x y", 1.5, None, True]},
    }
    assert graph.convert(new, "example.dev/v1alpha1") == old


def test_a_document_may_keep_what_its_expressions_cannot_convert() -> None:
    """An author without Python needs it as much: CEL fails for every text that is no number."""
    text = """\
apiVersion: restow.dev/v1alpha1
kind: ConversionRules
metadata: {name: widget.example.dev}
spec:
  target: {group: example.dev, kind: Widget}
  hub: v1
  onError: keep
  leaves: [v1alpha0]
  spokes:
  - version: v1alpha1
    rules:
    - pair: {spoke: size, hub: count, up: int(self), down: string(self)}
    - pair: {spoke: old, hub: new, up: int(self), down: string(self), on_error: fail}
"""
    assert dump(load(text).registry) == text
    obj = {"apiVersion": "example.dev/v1alpha1", "kind": "Widget", "metadata": {"name": "w"}, "size": "huge"}
    graph = load(text).freeze()
    there = graph.convert(obj, "example.dev/v1")
    assert "count" not in there and graph.convert(there, "example.dev/v1alpha1") == obj
    with pytest.raises(RuleFailed):
        graph.convert({**obj, "old": "huge"}, "example.dev/v1")
    with pytest.raises(RuleFileError, match=r"line 7, column 3: is neither keep nor fail"):
        load(text.replace("onError: keep", "onError: kept"))


def test_json_is_a_rule_file_too() -> None:
    """An API server's JSON, or a generator's, could not be checked offline."""
    document = {
        "apiVersion": "restow.dev/v1alpha1",
        "kind": "ConversionRules",
        "spec": {
            "target": {"group": "example.dev", "kind": "Widget"},
            "hub": "v2",
            "spokes": [{"version": "v1", "rules": [{"stash": {"hub": "spec.weight"}}]}],
        },
    }
    (found,) = load(json.dumps(document)).rules
    assert found.spokes["v1"][0].label == "stash(spec.weight)"


def test_aliases_share_rules_between_lists_of_one_document() -> None:
    """A kind with many lists of one shape would repeat the rules of each."""
    text = WIDGET.replace("        rules:\n        - stash", "        rules: &item\n        - stash", 1).replace(
        "    - constant:", "    - each: {spoke: spec.more, key: name, rules: *item}\n    - constant:"
    )
    first, second = (rule for rule in load(text).rules[0].spokes["v1alpha1"] if isinstance(rule, ScopedRules))
    assert first.rules == second.rules


def test_functions_are_no_data_and_are_named() -> None:
    """A registry would be printed without what its functions do."""
    declared = [
        rules.each("spec.items", [rules.pair("a", "b", up=str, down=int)], hide=bool),
        rules.pair("spec.c", "spec.d", up=str, down="int(self)"),
        rules.stash("spec.e"),
    ]
    with pytest.raises(NotData) as raised:
        dump(registry(declared))
    assert raised.value.rules == (
        "v1 pair(a <-> b): up",
        "v1 pair(a <-> b): down",
        "v1 each(spec.items <-> spec.items): hide",
        "v1 pair(spec.c <-> spec.d): up",
    )


def test_the_schema_for_editors_knows_every_rule_and_parameter() -> None:
    """An editor would mark a correct rule as wrong, or complete one that does not exist."""
    known = json_schema()["$defs"]["rule"]["properties"]
    assert {name: set(each["properties"]) for name, each in known.items()} == {
        name: set(each.parameters) for name, each in vocabulary().items()
    }
    assert all(each["description"] for each in known.values())


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
        lambda each: st.lists(each) | st.dictionaries(st.text(), each),
    )
)
def test_any_json_value_survives_printing(value: Any) -> None:
    """A constant with an odd text would come back as another value."""
    declared = registry([rules.constant(hub="spec.tier", value=value)])
    (found,) = load(dump(declared)).rules
    assert found.spokes["v1"][0].arguments["value"] == value


def test_the_crd_declares_every_field_of_a_document() -> None:
    """An API server would prune a field that only rule files know, and the rules in the cluster convert differently."""
    (version,) = conversionrules.document()["spec"]["versions"]
    in_cluster = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert names_of(in_cluster) == names_of(json_schema()["properties"]["spec"])


def names_of(node: dict[str, Any]) -> Any:
    """The fields of a schema and those below, but for those of rules."""
    if "items" in node:
        return names_of(node["items"])
    fields = {name: below for name, below in (node.get("properties") or {}).items() if name != "rules"}
    return {name: names_of(below) for name, below in fields.items()}
