"""Bad rules: each kind of mistake is one line with its place and a remedy, and nothing else happens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from restow.conversion.rulefiles import RuleFileError, json_schema, load
from restow.conversion.rulefiles.vocabulary import vocabulary

HEAD = """\
apiVersion: restow.dev/v1alpha1
kind: ConversionRules
spec:
  target: {group: example.dev, kind: Widget}
  hub: v2
  spokes:
  - version: v1
    rules:
"""
FIRST_RULE = len(HEAD.splitlines()) + 1


def mistakes(text: str) -> list[str]:
    """The mistakes that are reported for a text; each is one line."""
    with pytest.raises(RuleFileError) as raised:
        load(text).freeze()
    found = [str(each) for each in raised.value.mistakes]
    assert found
    assert all("\n" not in each for each in found)
    return found


FORMS = {
    "no YAML": ("a: [", "column 1: this is no YAML"),
    "empty": ("", "line 1, column 1: the file holds no document. Write a ConversionRules document."),
    "only comments": ("# nothing\n", "the file holds no document"),
    "a list": ("- 1", "line 1, column 1: is a list. Write an object with apiVersion: restow.dev/v1alpha1"),
    "a text": ("widget", "line 1, column 1: is a text."),
    "another kind": (HEAD.replace("ConversionRules", "Widget") + "    - {}", "line 2, column 1: kind is not Conv"),
    "no kind": (HEAD.replace("kind: ConversionRules\n", "") + "    - {}", "kind is not ConversionRules"),
    "another version": (HEAD.replace("restow.dev/v1alpha1", "restow.dev/v9"), "line 1, column 1: apiVersion is not"),
    "no spec": (HEAD.partition("spec:")[0], "is missing. Write an object with the fields target, hub"),
    "spec is a list": (HEAD.partition("spec:")[0] + "spec: []", "line 3, column 1: is a list"),
    "unknown field": (HEAD.replace("hub:", "hup:"), "line 5, column 3: hup is no field of this object. Write hub."),
    "unknown top field": ("specs: 1\n" + HEAD, "line 1, column 1: specs is no field of this object. Write spec."),
    "hub is a number": (HEAD.replace("hub: v2", "hub: 2"), "line 5, column 3: is an integer. Write a text."),
    "hub is empty": (HEAD.replace("hub: v2", 'hub: ""'), "line 5, column 3: is empty. Write a text."),
    "no hub": (HEAD.replace("  hub: v2\n", ""), "has no hub. Add hub: a text."),
    "no target": (HEAD.replace("  target: {group: example.dev, kind: Widget}\n", ""), "has no target"),
    "no group": (HEAD.replace("group: example.dev, ", ""), "line 4, column 3: has no group"),
    "target is a text": (HEAD.replace("{group: example.dev, kind: Widget}", "Widget"), "line 4, column 3: is a text"),
    "spokes are an object": (HEAD.partition("  spokes:")[0] + "  spokes: {}", "is an object. Write a list."),
    "a spoke is a text": (HEAD.partition("  - version")[0] + "  - v1", "line 7, column 5: is a text. Write an object"),
    "no version": (HEAD.replace("version: v1", "rule: []"), "has no version. Add version: a text."),
    "a spoke twice": (HEAD + "      []\n  - {version: v1, rules: []}", "the spoke v1 stands here a second time"),
    "rules are null": (HEAD, "line 8, column 5: is null. Write a list."),
    "a key twice": (HEAD.replace("hub: v2", "hub: v2\n  hub: v3") + "      []", "line 6, column 1: the document has"),
    "an unknown alias": (HEAD + "    - rename: *x", "line 9, column 1: this is no YAML"),
    "an alias bomb": (
        "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(9)),
        "its aliases expand to too many values",
    ),
    "a number that JSON lacks": (HEAD + "    - constant: {hub: spec.a, value: .nan}", "line 9"),
    "a huge file": ("#" * (4 * 1024 * 1024 + 1), "the file has more than 4 MiB"),
    "too many rules": (HEAD + "    - stash: {hub: spec.a}\n" * 5_001, "has more than 5000 rules"),
    "too deep": (
        HEAD + "    - each: {spoke: a, rules: [" + "{each: {spoke: a, rules: [" * 40 + "]}}" * 40 + "]}",
        "has more than 32 levels",
    ),
    "stash is a list": (HEAD + "      []\n  stash: []", "line 10, column 3: is a list. Write an object."),
    "budget is a text": (HEAD + "      []\n  stash: {budget: much}", "is a text. Write an integer."),
    "budget is true": (HEAD + "      []\n  stash: {budget: true}", "is a boolean. Write an integer."),
    "negative budget": (HEAD + "      []\n  stash: {budget: -1}", "has a negative stash_budget"),
    "a stash that no annotation can be named": (HEAD + '      []\n  stash: {annotation: "a b"}', "has the stash 'a b'"),
    "keyless is an object": (HEAD + "      []\n  keyless: {}", "line 10, column 3: is an object. Write a list."),
    "keyless without a reason": (
        HEAD + "      []\n  keyless: [{lists: [a]}]",
        "line 10, column 13: has no acknowledge",
    ),
    "keyless of a number": (
        HEAD + "      []\n  keyless: [{lists: [1], acknowledge: why}]",
        "line 10, column 14: has a path that is no text. Write a list of paths.",
    ),
    "keyless of nothing": (
        HEAD + "      []\n  keyless: [{lists: [], acknowledge: why}]",
        "keyless= names no list. Name the paths of lists, or remove it.",
    ),
    "keyless that covers nothing": (
        HEAD + "    - each: {spoke: a, rules: [{stash: {hub: b}}]}\n  keyless:\n  - {lists: [a, c], acknowledge: why}",
        "line 11, column 17: Widget.example.dev v2: keyless=c covers no list that needs a key. Remove it, or write",
    ),
    "a takeover of nothing": (
        HEAD + "      []\n  takeOver: webhook",
        "line 10, column 3: names no webhook. Write <namespace>",
    ),
    "a takeover without TLS": (HEAD + "      []\n  takeOver: http://host/convert", "names no webhook"),
    "the hub is a spoke": (
        HEAD.replace("version: v1", "version: v2") + "      []",
        "line 7, column 5: Widget.example.",
    ),
}

RULES = {
    "a text": ("rename", "column 7: is a text, and a rule has one. Write the name of one rule"),
    "null": ("", "is null, and a rule has one"),
    "two names": ("{rename: {spoke: a, hub: b}, stash: {hub: c}}", "has 2 fields, and a rule has one"),
    "no name": ("{}", "has 0 fields, and a rule has one"),
    "an unknown name": ("renam: {spoke: a, hub: b}", "column 7: there is no rule renam. Write rename."),
    "a name of another tool": ("fieldRename: {a: b}", "there is no rule fieldRename."),
    "arguments in a list": ("rename: [a, b]", "rename is a list. Write an object with its parameters: spoke, hub."),
    "no arguments": ("rename:", "rename is null. Write an object"),
    "a path that is none": ("rename: {spoke: a..b, hub: b}", "'a..b' is no path"),
    "an empty path": ('stash: {hub: ""}', "the path is empty"),
    "a path through a list": (
        'stash: {hub: "spec.a[].b"}',
        'goes through a list: write rules.each("spec.a", [… "b" …])',
    ),
    "another object": (
        "rename: {spoke: spec.a, hub: status.a}",
        "names another object. Use - move: {spoke: spec.a, hub: status.a}.",
    ),
    "overlapping claims": (
        "stash: {hub: spec.a}\n    - stash: {hub: spec.a.b}",
        "both stash(spec.a) and stash(spec.a.b)",
    ),
    "one claim twice": ("stash: {hub: a}\n    - rename: {spoke: b, hub: a}", "both stash(a) and rename(b <-> a) claim"),
    "metadata": ("stash: {hub: metadata.name}", "claims what belongs to the API server"),
    "apiVersion": ("rename: {spoke: apiVersion, hub: spec.a}", "claims what belongs to the API server"),
    "the stash itself": (
        "stash: {hub: 'metadata.annotations[\"example.dev/conversion-stash\"]'}",
        "claims what belongs to the API server",
    ),
    "two sides for one field": ("stash: {spoke: a, hub: b}", "must name one field of one side"),
    "no side": ("stash: {}", "must name one field of one side"),
    "no reason": ('drop: {hub: a, acknowledge: " "}', "does not say why the loss is none"),
    "a wrong direction": (
        "pair: {spoke: a, hub: b, up: self, down: self, loses: sideways}",
        "loses of pair is of a wrong type: invalid enum value 'sideways'. Write one of nothing, up, down, both.",
    ),
    "an expression that is none": ('pair: {spoke: a, hub: b, up: "self +", down: self}', "the CEL expression up= of"),
    "an unknown variable": ("pair: {spoke: a, hub: b, up: value, down: self}", "undeclared reference to `value`"),
    "an unknown function": ('pair: {spoke: a, hub: b, up: "now()", down: self}', "undeclared reference to `now`"),
    "a function of the operating system": (
        "pair: {spoke: a, hub: b, up: \"env('PATH')\", down: self}",
        "undeclared reference to `env`",
    ),
    "types that do not fit": ("pair: {spoke: a, hub: b, up: \"1 + 'a'\", down: self}", "found no matching overload"),
    "an expression that is a number": ("pair: {spoke: a, hub: b, up: 1, down: self}", "is an integer. Write a CEL"),
    "an optional result": ('pair: {spoke: a, hub: b, up: "self.?x", down: self}', "write .orValue(absent) behind it"),
    "a bad expression of merge": (
        "pair: {spoke: a, hub: b, up: self, down: self, merge: self}",
        "the CEL expression merge= of pair(a <-> b) is wrong: undeclared reference to `self`",
    ),
    "a bad expression of hide": ('each: {spoke: a, rules: [], hide: "x"}', "the CEL expression hide= of each(a <-> a)"),
    "claims of no side": ("pair: {spoke: [], hub: b, up: self, down: self}", "claims nothing on one side"),
    "reads that need a loss": ("pair: {spoke: a, hub: b, up: self, down: self, reads: c}", "Say loses: down"),
    "reads of too many lists": (
        'pair: {spoke: a, hub: b, up: self, down: self, loses: down, reads: "$.x[].y"}',
        "Write as many [] as there are each",
    ),
    "a key that a rule changes": (
        "each: {spoke: a, key: id, rules: [{stash: {hub: id}}]}",
        "stash(id) changes the key id that identifies the items",
    ),
    "a mistake inside": ("each: {spoke: a, rules: [{stash: {hup: b}}]}", "column 41: stash has no parameter hup"),
    "rules that are no list": ("each: {spoke: a, rules: {}}", "rules of each is an object. Write a list of rules."),
    "a rule inside that is none": ("each: {spoke: a, rules: [3]}", "column 32: is an integer, and a rule has one"),
    "described by no side": (
        "described: {spoke: a, by: both}",
        "by of described is of a wrong type: invalid enum value 'both'. Write one of spoke, hub.",
    ),
    "described, and a rule inside": (
        "described: {spoke: spec.a}\n    - stash: {hub: spec.a.b}",
        "both described(spec.a <-> spec.a) and stash(spec.a.b)",
    ),
    "a table of lists": ("enum: {spoke: a, values: 3}", "values of enum is of a wrong type"),
}

WRONG: Any = {"object": "3", "array": "3", "string": "[3]", "boolean": "x", "integer": "x", "number": "x"}


def wrong_parameters() -> Iterator[tuple[str, str, str]]:
    """For each rule: a parameter that it lacks, each required one missing, each one of a wrong type."""
    known = json_schema()["$defs"]["rule"]["properties"]
    for name, constructor in vocabulary().items():
        schemas = known[name]["properties"]
        good = {each: "[]" if schemas[each].get("type") == "array" else "a" for each in known[name].get("required", ())}
        yield f"{name}: unknown parameter", f"{name}: {flow({**good, 'nonsense': '1'})}", "has no parameter nonsense"
        for each, parameter in constructor.parameters.items():
            if parameter.required:
                rest = {other: value for other, value in good.items() if other != each}
                yield f"{name}: no {each}", f"{name}: {flow(rest)}", f"{name} has no {each}. Add {each}: "
            wrong = WRONG.get(schemas[each].get("type"))
            if wrong is not None:
                yield (
                    f"{name}: {each} of a wrong type",
                    f"{name}: {flow({**good, each: wrong})}",
                    f"{each} of {name} is",
                )


def flow(values: dict[str, str]) -> str:
    """A YAML object on one line."""
    return "{" + ", ".join(f"{name}: {value}" for name, value in values.items()) + "}"


PARAMETERS = [*wrong_parameters()]


@pytest.mark.parametrize("name", FORMS)
def test_a_malformed_document_is_refused_at_its_line(name: str) -> None:
    """A team would not find the mistake in its file, or the mistake would be taken for something else."""
    text, expected = FORMS[name]
    found = mistakes(text)
    assert any(expected in each for each in found), found


@pytest.mark.parametrize("name", RULES)
def test_a_bad_rule_is_refused_at_its_line(name: str) -> None:
    """A team would not find the rule, or the webhook would start with it."""
    text, expected = RULES[name]
    found = mistakes(f"{HEAD}    - {text}\n")
    assert any(expected in each and f"line {FIRST_RULE + text.count(chr(10))}," in each for each in found), found


@pytest.mark.parametrize(("text", "expected"), [each[1:] for each in PARAMETERS], ids=[each[0] for each in PARAMETERS])
def test_a_bad_parameter_is_refused_at_its_line(text: str, expected: str) -> None:
    """A parameter would be read as another one, or as a default."""
    found = mistakes(f"{HEAD}    - {text}\n")
    assert any(expected in each and f"line {FIRST_RULE}, column " in each for each in found), found


def test_there_are_a_hundred_kinds_of_mistakes() -> None:
    """Whole classes of mistakes could leave the tables above unseen."""
    assert len(FORMS) + len(RULES) + len(PARAMETERS) >= 100


def test_all_mistakes_are_reported_at_once_in_the_order_of_lines() -> None:
    """A team would fix one mistake for each run."""
    text = HEAD + "    - renam: {}\n    - stash: {hup: a}\n    - drop: {hub: b}\n"
    assert [each.partition(":")[0] for each in mistakes(text)] == [
        "line 9, column 7",
        "line 10, column 15",
        "line 11, column 7",
    ]
