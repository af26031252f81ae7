"""Which fields the laws concentrate on: a field that is missing here is tried with hardly any values."""

from __future__ import annotations

from restow.conversion import Registry, rules
from restow.conversion.testing.touched import EVERYTHING, Touched, touched


def of(*declared: rules.Rule, version: str = "v1") -> Touched:
    """Return what these rules touch in a version."""
    registry = Registry()
    registry.kind("touched.example.dev", "Thing", hub="v2").spoke("v1")(lambda: declared)
    return touched(registry.freeze().kind("touched.example.dev", "Thing"), version)


def test_the_branches_of_unions_are_touched() -> None:
    """Every rule of a branch would be tried with objects of no branch alone."""
    by_value = rules.when([rules.rename("spec.a", "spec.b")], field="spec.type", equals="S3")
    by_presence = rules.when([rules.each("gcs.items", [rules.enum("m", {"x": "y"})], key="n")], has="gcs")
    found = of(by_value, by_presence)
    assert found.below["spec"] == Touched(below={"a": Touched(), "type": EVERYTHING})
    assert found.below["gcs"].full
    assert found.below["gcs"].below["items"].below["[]"].below.keys() == {"n", "m"}
    assert of(by_value, by_presence, version="v2").below["spec"].below.keys() == {"b", "type"}


def test_a_branch_inside_of_an_item_is_touched_there() -> None:
    """The paths of a branch begin at its scope, not at the object."""
    branch = rules.when([rules.enum("m", {"x": "y"})], field="type", equals="S3")
    items = of(rules.each("spec.items", [branch], key="n")).below["spec"].below["items"].below["[]"]
    assert items.below.keys() == {"n", "type", "m"} and items.below["m"].full


def test_a_tree_is_touched_at_all_levels() -> None:
    """Rules that apply again inside of an item would be tried with one level alone."""
    rule = rules.each("routes", [rules.enum("m", {"x": "y"})], key="n", recurse=["routes", "one.", "box.other{}"])
    item = of(rule).below["routes"].below["[]"]
    assert item.below["routes"].below["[]"] is item.below["one"] is item.below["box"].below["other"].below["{}"] is item
