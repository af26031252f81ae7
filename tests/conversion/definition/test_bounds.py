"""Bounds that one version narrows, and what check says to write for paths that rules cannot have."""

from __future__ import annotations

from typing import Any

import pytest

from restow.conversion import DefinitionError, Registry, rules
from restow.conversion.definition.bounds import narrowed_bounds
from tests.conversion.randomkinds import GROUP, KIND, crd, freeze, obj

NUMBER, TEXT = {"type": "integer"}, {"type": "string"}


def notes(spoke: dict[str, Any], hub: dict[str, Any], *declared: rules.Rule) -> list[tuple[str, str, str]]:
    versions = {"v2": obj({"spec": obj(hub)}), "v1": obj({"spec": obj(spoke)})}
    graph = freeze({"v1": list(declared)}, crd(versions))
    return [(note.version, note.path, note.problem) for note in narrowed_bounds(graph.kind(GROUP, KIND))]


@pytest.mark.parametrize(
    ("wide", "narrow", "keyword"),
    [
        ({**NUMBER, "minimum": 0}, {**NUMBER, "minimum": 1}, "minimum is 1"),
        (NUMBER, {**NUMBER, "maximum": 5}, "maximum is 5"),
        ({**NUMBER, "maximum": 5}, {**NUMBER, "maximum": 5, "exclusiveMaximum": True}, "maximum is 5"),
        (TEXT, {**TEXT, "maxLength": 9}, "maxLength is 9"),
        (TEXT, {**TEXT, "pattern": "^a$"}, "pattern is ^a$"),
        (TEXT, {**TEXT, "format": "date-time"}, "format is date-time"),
    ],
)
def test_a_narrowed_bound_is_noted(wide: dict[str, Any], narrow: dict[str, Any], keyword: str) -> None:
    """A value that the new version refuses would make its object unwritable, and only users would find out."""
    said = [("v1", ".spec.a", f"admits values that v2 refuses: {keyword} there")]
    assert notes({"a": wide}, {"a": narrow}) == said
    assert notes({"a": narrow}, {"a": narrow}) == []
    assert notes({"a": narrow}, {"a": wide})[0][0] == "v2"


def test_bounds_below_moves_lists_and_maps() -> None:
    """Values pass unchanged there too; what a function converts is not compared."""
    listed = {"type": "array", "items": obj({"n": NUMBER}), "minItems": 1}
    wide = {"type": "array", "items": obj({"n": NUMBER})}
    low = {**NUMBER, "minimum": 1}
    assert notes({"a": NUMBER}, {"b": low}, rules.rename("spec.a", "spec.b")) == [
        ("v1", ".spec.a", "admits values that v2 refuses: minimum is 1 there")
    ]
    assert notes({"a": wide}, {"a": listed}) == [
        ("v1", ".spec.a", "admits values that v2 refuses: minItems is 1 there")
    ]
    inner = {"type": "array", "items": obj({"m": low})}
    assert notes({"a": wide}, {"a": inner}, rules.each("spec.a", [rules.rename("n", "m")])) == [
        ("v1", ".spec.a[].n", "admits values that v2 refuses: minimum is 1 there")
    ]
    pair = rules.pair("spec.a", "spec.a", up=lambda v: v, down=lambda v: v)
    assert notes({"a": NUMBER}, {"a": low}, pair) == []


def fixes(*declared: rules.Rule, spoke: dict[str, Any], hub: dict[str, Any]) -> str:
    registry = Registry()
    registry.kind(GROUP, KIND, hub="v2").spoke("v1")(lambda: list(declared))
    with pytest.raises(DefinitionError) as caught:
        registry.freeze([crd({"v2": obj({"spec": obj(hub)}), "v1": obj({"spec": obj(spoke)})})])
    return str(caught.value)


def test_what_to_write_for_a_path_through_a_list() -> None:
    """The path that a finding prints is the first that its reader tries in a rule."""
    items = {"type": "array", "items": obj({"old": TEXT})}
    newer = {"type": "array", "items": obj({"new": TEXT})}
    shapes: Any = {"spoke": {"items": items}, "hub": {"items": newer}}
    said = fixes(rules.rename("spec.items[].old", "spec.items[].new"), **shapes)
    assert 'rules.each("spec.items", [… "old" …])' in said
    said = fixes(rules.rename("spec.items.old", "spec.items.new"), **shapes)
    assert 'It is in a list: write rules.each("spec.items", [… "old" …])' in said


def test_what_to_write_for_swapped_sides_and_wrong_scopes() -> None:
    """`Correct the path` sends people to look for a typo where there is none."""
    said = fixes(rules.rename("spec.new", "spec.old"), spoke={"old": TEXT}, hub={"new": TEXT})
    assert "Swap the sides: v2 declares it" in said
    mapped = {"type": "object", "additionalProperties": obj({"a": TEXT})}
    said = fixes(rules.each("spec.m", []), spoke={"m": mapped}, hub={"m": mapped})
    assert 'It is a map: write rules.each_value("spec.m", […])' in said
    listed = {"type": "array", "items": obj({"a": TEXT})}
    said = fixes(rules.each_value("spec.m", []), spoke={"m": listed}, hub={"m": listed})
    assert 'It is a list: write rules.each("spec.m", […])' in said
