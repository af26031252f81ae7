"""Drafts for fields without a rule: likely renames and moves, and nothing far-fetched."""

from __future__ import annotations

from typing import Any

import pytest

from restow.conversion import Registry, rules
from restow.conversion.definition.suggestions import Suggestion, suggestions
from tests.conversion.randomkinds import GROUP, KIND, crd, keyed, obj

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def drafts(spoke: dict[str, Any], hub: dict[str, Any], *declared: rules.Rule) -> list[str]:
    registry = Registry()
    registry.kind(GROUP, KIND, hub="v2").spoke("v1")(lambda: declared)
    kind = registry.freeze().kind(GROUP, KIND)
    found = suggestions(kind, crd({"v2": obj({"spec": obj(hub)}), "v1": obj({"spec": obj(spoke)})}))
    assert all((each.kind, each.version) == (f"{KIND}.{GROUP}", "v1") for each in found)
    return [each.rule + (f" in {each.inside}" if each.inside else "") for each in found]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ttl", "timeToLive"),
        ("minVersion", "minimumVersion"),
        ("hostname", "hostName"),
        ("cert", "certificate"),
        ("port", "portNumber"),
    ],
)
def test_likely_renames(old: str, new: str) -> None:
    """Abbreviations, spelling, one word more."""
    assert drafts({old: TEXT}, {new: TEXT}) == [f'rules.rename("spec.{old}", "spec.{new}")']


@pytest.mark.parametrize(
    ("spoke", "hub"),
    [
        ({"ttl": NUMBER}, {"timeToLive": TEXT}),
        ({"color": TEXT}, {"weight": TEXT}),
        ({"a": {"type": "array", "items": TEXT}}, {"a2": {"type": "array", "items": NUMBER}}),
        ({"same": TEXT}, {"same": TEXT}),
        ({"gone": TEXT}, {}),
    ],
)
def test_unlikely_ones_are_not_drafted(spoke: dict[str, Any], hub: dict[str, Any]) -> None:
    """A wrong draft costs more than none."""
    assert drafts(spoke, hub) == []


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("timeoutMinutes", "timeoutSeconds", 'rules.scale("spec.timeoutMinutes", "spec.timeoutSeconds", factor=60)'),
        ("sizeGiB", "sizeMiB", 'rules.scale("spec.sizeGiB", "spec.sizeMiB", factor=1024)'),
        ("timeout", "timeoutSeconds", None),
        ("minReplicas", "maxReplicas", None),
        ("memoryBytes", "memoryPercent", None),
    ],
)
def test_a_change_of_unit_or_meaning_is_no_rename(old: str, new: str, rule: str | None) -> None:
    """A rename would turn ten minutes into ten seconds, and be called lossless."""
    assert drafts({old: NUMBER}, {new: NUMBER}) == ([rule] if rule else [])


def test_moves() -> None:
    """The same name in another object; whole objects too."""
    assert drafts({"image": TEXT}, {"box": obj({"image": TEXT, "tag": TEXT})}) == []
    both = {"box": obj({"tag": TEXT})}
    assert drafts({"image": TEXT, **both}, {"box": obj({"image": TEXT, "tag": TEXT})}) == [
        'rules.move("spec.image", "spec.box.image")'
    ]
    inner = obj({"x": TEXT})
    assert drafts({"settings": inner}, {"setting": inner}) == ['rules.rename("spec.settings", "spec.setting")']


def test_claimed_fields_are_settled() -> None:
    """A field that a rule converts must not get a second suggestion."""
    assert drafts({"ttl": TEXT}, {"timeToLive": TEXT}, rules.rename("spec.ttl", "spec.timeToLive")) == []
    assert drafts({"ttl": TEXT}, {"timeToLive": TEXT}, rules.stash("spec.ttl")) == []


def test_inside_of_lists() -> None:
    """The draft says into which rule it belongs."""
    items = {"id": TEXT}
    assert drafts(
        {"parts": keyed(obj({**items, "qty": NUMBER}))},
        {"parts": keyed(obj({**items, "qtyTotal": NUMBER}))},
        rules.each("spec.parts", [], key="id"),
    ) == ['rules.rename("qty", "qtyTotal") in each(spec.parts <-> spec.parts)']


def test_each_field_is_drafted_once_and_for_its_best_match() -> None:
    """Two drafts for one field would contradict each other."""
    found = drafts({"nodePort": NUMBER, "node": NUMBER}, {"nodePortNumber": NUMBER, "nodes": NUMBER})
    assert sorted(found) == [
        'rules.rename("spec.node", "spec.nodes")',
        'rules.rename("spec.nodePort", "spec.nodePortNumber")',
    ]


def test_without_schemas_there_is_nothing_to_say() -> None:
    """A hub that is no version, or versions that the CRD does not have."""
    registry = Registry()
    registry.kind(GROUP, KIND, hub="internal").spoke("v1")(list)
    kind = registry.freeze().kind(GROUP, KIND)
    assert suggestions(kind, crd({"v1": obj({"a": TEXT})})) == []
    assert Suggestion("k", "v", "r").inside == ""
