"""Where a proposal says that a rule has to stand: the place for which it is accepted, or the field around."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conversion.definition.following import followed, found_in
from tests.conversion.randomkinds import crd, obj

TEXT: dict[str, Any] = {"type": "string"}
NARROW, WIDE = obj({"a": TEXT}), obj({"a": TEXT, "b": TEXT})


def listed(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def mapped(values: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values}


#: what is around the object in both versions, the rules that there are, and the rule that is proposed.
PLACES = {
    "object": (lambda each: each, [], "- stash: {hub: f.b}"),
    "list": (listed, [], "- each: {spoke: f, rules: [{stash: {hub: b}}]}"),
    "map": (mapped, [], "- each_value: {spoke: f, rules: [{stash: {hub: b}}]}"),
    "map in a list": (
        lambda each: listed(obj({"m": mapped(each)})),
        [],
        "- each: {spoke: f, rules: [{each_value: {spoke: m, rules: [{stash: {hub: b}}]}}]}",
    ),
    "rules inside": (
        listed,
        [{"each": {"spoke": "f", "acknowledge": "why", "rules": []}}],
        "with - stash: {hub: b}, or let it go with - drop: {hub: b, acknowledge: why}, in the rules of each(f <-> f)",
    ),
    "map of lists": (lambda each: mapped(listed(each)), [], "- pair: {spoke: f, hub: f, up: …, down: …}"),
    "list of lists": (lambda each: listed(listed(each)), [], "- pair: {spoke: f, hub: f, up: …, down: …}"),
    "map of lists in a list": (
        lambda each: listed(obj({"m": mapped(listed(each))})),
        [],
        "- each: {spoke: f, rules: [{pair: {spoke: m, hub: m, up: …, down: …}}]}",
    ),
    "a rule that cannot look inside": (
        lambda each: mapped(listed(each)),
        [{"each_value": {"spoke": "f", "rules": []}}],
        "- pair: {spoke: f, hub: f, up: …, down: …} instead of each_value(f <-> f)",
    ),
}


@pytest.mark.parametrize("name", PLACES)
def test_the_place_of_a_rule_is_named(name: str) -> None:
    """The rule would be refused where it is advised, or cannot be written there at all."""
    around, declared, proposed = PLACES[name]
    document = crd({"v2": obj({"f": around(WIDE)}), "v1": obj({"f": around(NARROW)})})
    (found,) = found_in(declared, document, "v2", "v1")
    assert proposed in found.fix
    assert followed([*declared], document, "v2", "v1")


def test_a_difference_inside_of_a_moved_object_asks_for_rules_inside() -> None:
    """A stash of a field of what a rename converts would be refused: two rules claim it."""
    document = crd({"v2": obj({"g": WIDE}), "v1": obj({"f": NARROW})})
    renamed = {"rename": {"spoke": "f", "hub": "g"}}
    (found,) = found_in([renamed], document, "v2", "v1")
    inside = "- inside: {spoke: f, rules: [{stash: {hub: b}}], hub: g}"
    assert inside in found.fix
    assert found.fix.endswith("instead of rename(f <-> g)")
    assert followed([renamed], document, "v2", "v1") == [
        {"inside": {"spoke": "f", "rules": [{"stash": {"hub": "b"}}], "hub": "g"}}
    ]


def test_a_rule_of_one_field_on_the_wrong_side_is_written_for_the_other() -> None:
    """The advice to swap the sides would not say how, since the rule has only one."""
    document = crd({"v2": obj(WIDE["properties"]), "v1": obj(NARROW["properties"])})
    (found,) = (each for each in found_in([{"stash": {"spoke": "b"}}], document, "v2", "v1") if "names" in each.problem)
    assert found.fix == "Write - stash: {hub: b}: v2 declares it"
    assert not found_in([{"stash": {"hub": "b"}}], document, "v2", "v1")


def test_sides_are_swapped_only_if_the_rule_is_right_then() -> None:
    """A rule whose other field is misspelled would be swapped, and be wrong still."""
    document = crd({"v2": obj({"new": TEXT}), "v1": obj({"ttl": TEXT})})
    swapped = found_in([{"rename": {"spoke": "new", "hub": "ttl"}}], document, "v2", "v1")
    assert sum("Swap the sides" in each.fix for each in swapped) == 2
    wrong = found_in([{"rename": {"spoke": "new", "hub": "other"}}], document, "v2", "v1")
    assert not any("Swap the sides" in each.fix for each in wrong)


def test_a_misspelled_rule_has_no_second_finding() -> None:
    """An author would stash the field that the corrected rule converts, and be told that the two are contrary."""
    document = crd({"v2": obj({"ttl": TEXT}), "v1": obj({"ttl": TEXT, "age": TEXT})})
    declared = [{"rename": {"spoke": "ttl", "hub": "tll"}}, {"stash": {"spoke": "age"}}]
    (found,) = found_in(declared, document, "v2", "v1")
    assert found.fix == "Correct the path; .ttl is near"


def test_a_path_through_a_scope_goes_into_its_rules() -> None:
    """Rules that belong into each would be reported as contrary, with the advice to write a pair."""
    document = crd({"v2": obj({"f": listed(obj({"n": TEXT}))}), "v1": obj({"f": listed(obj({"o": TEXT}))})})
    declared = [{"each": {"spoke": "f", "rules": []}}, {"rename": {"spoke": "f.o", "hub": "f.n"}}]
    fixes = [each.fix for each in found_in(declared, document, "v2", "v1")]
    assert "Write rename(f.o <-> f.n) in the rules of each(f <-> f), with paths from there on" in fixes


def test_two_rules_for_one_scope_are_put_into_one() -> None:
    """Who follows two findings of one list would be told that the rules are contrary."""
    document = crd({"v2": obj({"f": listed(WIDE)}), "v1": obj({"f": listed(obj({"c": TEXT}))})})
    twice = [{"each": {"spoke": "f", "rules": [{"stash": inner}]}} for inner in ({"hub": "b"}, {"spoke": "c"})]
    assert any(each.fix == "Write the rules of both into one each" for each in found_in(twice, document, "v2", "v1"))
