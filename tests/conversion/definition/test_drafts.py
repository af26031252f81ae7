"""Drafts from schemas alone: what is certain is a rule, what is not is a question, and nothing is lost meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from restow.conversion import Registry, rules
from restow.conversion.definition.drafts import RulesDraft, drafted
from restow.conversion.definition.suggestions import python_source
from restow.conversion.rulefiles import load
from restow.conversion.rulefiles.dump import draft_as_python, draft_as_yaml
from tests.conversion.randomkinds import GROUP, KIND, crd, keyed, obj

TEXT, NUMBER, FLAG = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
QUANTITY = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
TEXTS = {"type": "array", "items": TEXT}
PORTS = {"type": "array", "items": obj({"name": TEXT, "number": NUMBER}, required=["name"])}


def draft(spoke: dict[str, Any], hub: dict[str, Any]) -> RulesDraft:
    """Draft the rules between two objects spec, and check that every field is accounted for."""
    document = crd({"v2": obj({"spec": obj(hub)}), "v1": obj({"spec": obj(spoke)})})
    versions = document.version("v1"), document.version("v2")
    found = drafted(versions[0].schema, versions[1].schema, names=("v1", "v2"))  # type: ignore[union-attr]
    registry = Registry()
    registry.kind(GROUP, KIND, hub="v2").spoke("v1")(lambda: [each.rule for each in found.rules])
    registry.freeze([document])
    return found


def sources(found: RulesDraft) -> list[str]:
    """Return the drafted rules as Python."""
    return [python_source(each.rule) for each in found.rules]


CERTAIN = {
    "an abbreviation": ({"ttl": NUMBER}, {"timeToLive": NUMBER}, 'rules.rename("spec.ttl", "spec.timeToLive")'),
    "another unit": (
        {"timeoutMinutes": NUMBER},
        {"timeoutSeconds": NUMBER},
        'rules.scale("spec.timeoutMinutes", "spec.timeoutSeconds", factor=60)',
    ),
    "a smaller unit": (
        {"delaySeconds": NUMBER},
        {"delayHours": NUMBER},
        'rules.scale("spec.delaySeconds", "spec.delayHours", factor="1/3600")',
    ),
    "a duration": (
        {"interval": {**TEXT, "format": "duration"}},
        {"intervalSeconds": NUMBER},
        'rules.duration("spec.interval", "spec.intervalSeconds", unit="s")',
    ),
    "a number that became a duration": (
        {"graceMinutes": NUMBER},
        {"grace": {**TEXT, "format": "duration"}},
        'rules.duration("spec.graceMinutes", "spec.grace", unit="m", text="hub")',
    ),
    "a quantity": (
        {"memory": QUANTITY},
        {"memoryMiB": NUMBER},
        'rules.quantity("spec.memory", "spec.memoryMiB", unit="Mi")',
    ),
    "values in another spelling": (
        {"mode": {**TEXT, "enum": ["on-demand", "always"]}},
        {"mode": {**TEXT, "enum": ["OnDemand", "Always"]}},
        'rules.enum("spec.mode", {"on-demand": "OnDemand", "always": "Always"})',
    ),
    "a value that became a list": ({"host": TEXT}, {"hosts": TEXTS}, 'rules.wrap("spec.host", "spec.hosts[]")'),
    "a list that became a value": ({"zones": TEXTS}, {"zone": TEXT}, 'rules.unwrap("spec.zones[]", "spec.zone")'),
    "a list that became a map": (
        {"ports": PORTS},
        {"ports": {"type": "object", "additionalProperties": obj({"number": NUMBER})}},
        'rules.keyed("spec.ports", key="name")',
    ),
    "a map of scalars": (
        {"env": {"type": "object", "additionalProperties": TEXT}},
        {"env": {"type": "array", "items": obj({"name": TEXT, "value": TEXT}, required=["name"])}},
        'rules.keyed("spec.env", key="name", value="value", items="hub")',
    ),
    "a move": (
        {"storageClassName": TEXT},
        {"storage": obj({"storageClassName": TEXT})},
        'rules.move("spec.storageClassName", "spec.storage.storageClassName")',
    ),
    "a digit text": (
        {"port": {**TEXT, "pattern": "^[0-9]+$"}},
        {"port": NUMBER},
        'rules.cast("spec.port", spoke_type="string", hub_type="integer")',
    ),
    "a key with another name": (
        {"items": keyed(obj({"title": TEXT}), "title")},
        {"items": keyed(obj({"name": TEXT}), "name")},
        'rules.each("spec.items", [rules.rename("title", "name")])',
    ),
    "a renamed list of objects": (
        {"certs": keyed(obj({"id": TEXT, "cert": TEXT, "a": NUMBER}))},
        {"certificates": keyed(obj({"id": TEXT, "certificate": TEXT, "a": NUMBER}))},
        'rules.each("spec.certs", [rules.rename("cert", "certificate")], hub="spec.certificates")',
    ),
}


@pytest.mark.parametrize(("spoke", "hub", "rule"), CERTAIN.values(), ids=CERTAIN)
def test_what_is_certain_is_a_rule(spoke: dict[str, Any], hub: dict[str, Any], rule: str) -> None:
    """A team that has to write what is plain by itself takes no draft."""
    found = draft(spoke, hub)
    assert sources(found) == [rule] and not found.questions
    assert all(each.why or each.inner for each in found.rules)


OPEN = {
    "an opposite": ({"minReplicas": NUMBER}, {"maxReplicas": NUMBER}),
    "a unit of one": ({"timeout": NUMBER}, {"timeoutSeconds": NUMBER}),
    "a vague unit": ({"sizeMB": NUMBER}, {"sizeMiB": NUMBER}),
    "a flag turned round": ({"enabled": FLAG}, {"disabled": FLAG}),
    "one word more": ({"cohort": TEXT}, {"cohortName": TEXT}),
    "the beginning of a word": ({"port": NUMBER}, {"portal": NUMBER}),
    "another range": ({"cert": {**TEXT, "maxLength": 5}}, {"certificate": TEXT}),
    "another default": ({"cert": {**TEXT, "default": "a"}}, {"certificate": {**TEXT, "default": "b"}}),
    "a text that may be a duration": ({"interval": TEXT}, {"intervalSeconds": NUMBER}),
    "a common name elsewhere": ({"name": TEXT}, {"box": obj({"name": TEXT})}),
    "two that it may be": ({"cert": TEXT}, {"certificate": TEXT, "Cert": TEXT}),
    "one of several fields": ({"image": TEXT}, {"image": obj({"name": TEXT, "tag": TEXT})}),
    "other values": ({"mode": {**TEXT, "enum": ["a", "b"]}}, {"mode": {**TEXT, "enum": ["A", "C"]}}),
    "a field that is called old": ({"state": TEXT}, {"state": TEXT, "deprecated": obj({"state": TEXT})}),
}


@pytest.mark.parametrize(("spoke", "hub"), OPEN.values(), ids=OPEN)
def test_what_is_not_certain_is_a_question(spoke: dict[str, Any], hub: dict[str, Any]) -> None:
    """An unchecked wrong rule corrupts objects; the stash loses nothing until the author answers."""
    found = draft(spoke, hub)
    assert found.questions and {each.rule.name for each in found.rules} <= {"stash"}


#: The fields of both versions, the drafted rule, and what the question says of it.
GAINED = {
    "a value": (
        {**TEXT, "enum": ["Owner", "Orphan"], "default": "Owner"},
        {**TEXT, "enum": ["Orphan", "Owner", "Merge"], "default": "Owner"},
        'rules.enum("spec.f", {}, down={"Merge": "Owner"})',
        'shows "Owner" for "Merge"',
    ),
    "a value less": (
        {**TEXT, "enum": ["X", "Y", "Z"]},
        {**TEXT, "enum": ["X", "Y"]},
        'rules.enum("spec.f", {}, up={"Z": "X"})',
        'shows "X" for "Z"',
    ),
    "a number": (
        {**NUMBER, "enum": [1, 2]},
        {**NUMBER, "enum": [1, 2, 3]},
        'rules.enum("spec.f", {}, down=[[3, 1]])',
        "shows 1 for 3",
    ),
    "an empty text": (
        {**TEXT, "enum": ["on"]},
        {**TEXT, "enum": ["", "on"]},
        'rules.enum("spec.f", {}, down={"": "on"})',
        'shows "on" for ""',
    ),
    "a value and a spelling": (
        {**TEXT, "enum": ["on-demand", "off"]},
        {**TEXT, "enum": ["OnDemand", "off", "Auto"]},
        'rules.enum("spec.f", {"on-demand": "OnDemand"}, down={"Auto": "on-demand"})',
        'shows "on-demand" for "Auto"',
    ),
}


@pytest.mark.parametrize(("ours", "theirs", "rule", "says"), GAINED.values(), ids=GAINED)
def test_an_enum_with_another_value_shows_the_values_that_both_have(
    ours: dict[str, Any], theirs: dict[str, Any], rule: str, says: str
) -> None:
    """A draft that hides the whole field makes controllers act by a default that no author wrote."""
    found = draft({"f": ours}, {"f": theirs})
    assert sources(found) == [rule]
    (question,) = found.questions
    assert says in str(question)
    inner = draft({"items": keyed(obj({"id": TEXT, "f": ours}))}, {"items": keyed(obj({"id": TEXT, "f": theirs}))})
    assert rule.replace("spec.", "") in sources(inner)[0] and len(inner.questions) == 1
    yaml = draft_as_yaml(found.rules, group=GROUP, kind=KIND, hub="v2", spoke="v1")
    assert load(yaml)


def test_an_enum_that_became_free_text_passes() -> None:
    """A draft that hides the field from one version shows its clients nothing."""
    found = draft({"f": {**TEXT, "enum": ["P", "Q"]}}, {"f": TEXT})
    assert sources(found) == ['rules.enum("spec.f", {"P": "P", "Q": "Q"})'] and not found.questions


def test_a_draft_is_a_rule_file_and_a_module() -> None:
    """The printed document and module must declare the rules that were checked."""
    spoke = {"ttl": NUMBER, "gone": TEXT, "items": keyed(obj({"id": TEXT, "cert": TEXT}))}
    found = draft(spoke, {"timeToLive": NUMBER, "items": keyed(obj({"id": TEXT, "certificate": TEXT}))})
    text = draft_as_yaml(found.rules, group=GROUP, kind=KIND, hub="v2", spoke="v1")
    (document,) = load(text).rules
    assert [*map(python_source, document.spokes["v1"])] == sources(found)
    assert text.count("# ") == 3
    module: dict[str, Any] = {}
    exec(draft_as_python(found.rules, group=GROUP, kind=KIND, hub="v2", spoke="v1"), module)
    assert [*map(python_source, module["v1"]())] == sources(found)
    assert python_source(rules.stash(hub="a")) == 'rules.stash(hub="a")'
