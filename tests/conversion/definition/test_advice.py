"""Where a proposal says that a rule has to stand: the place for which it is accepted, or the field around."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.conversion.definition.following import followed, found_in
from tests.conversion.randomkinds import crd, keyed, obj

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


@pytest.mark.parametrize("other", [TEXT, {"type": "integer"}])
def test_a_list_and_a_map_are_keyed_only_if_their_fields_are_alike(other: dict[str, Any]) -> None:
    """The rule keyed would be proposed, and then be refused without another proposal."""
    spoke = obj({"f": mapped(obj({"b": TEXT, "c": TEXT}))})
    hub = obj({"f": keyed(obj({"b": TEXT, "c": other, "id": TEXT}))})
    document = crd({"v2": hub, "v1": spoke})
    (found,) = found_in([], document, "v2", "v1")
    pair = "- pair: {spoke: f, hub: f, up: …, down: …}"
    with_keyed = f"Convert it with - keyed: {{spoke: f, key: id, items: hub}}, or with {pair}"
    assert found.fix == (with_keyed if other is TEXT else f"Convert it with {pair}")
    assert followed([], document, "v2", "v1")


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


@pytest.mark.parametrize("around", [listed, mapped])
def test_a_difference_in_a_list_of_a_moved_object_leaves_its_other_fields_moved(
    around: Callable[[dict[str, Any]], dict[str, Any]],
) -> None:
    """A rule for the list instead of the rename would leave the fields next to it to be stashed or dropped."""
    document = crd(
        {"v2": obj({"g": obj({"n": TEXT, "l": around(WIDE)})}), "v1": obj({"f": obj({"n": TEXT, "l": around(NARROW)})})}
    )
    renamed = {"rename": {"spoke": "f", "hub": "g"}}
    rules = [{"stash": {"hub": "b"}}]
    inner = {"each": {"spoke": "l", "rules": rules, "acknowledge": "why"}}
    if around is mapped:
        inner = {"each_value": {"spoke": "l", "rules": rules}}
    expected = [{"inside": {"spoke": "f", "rules": [inner], "hub": "g"}}]
    assert followed([renamed], document, "v2", "v1", choice=0) == expected


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


ANYTHING: dict[str, Any] = {"x-kubernetes-preserve-unknown-fields": True}
PAIR = "Convert it with - pair: {spoke: f, hub: f, up: …, down: …}"
DESCRIBED = {
    "field": (NARROW, ANYTHING, [], f"{PAIR}, since v2 requires it; or describe it in both versions"),
    "object of any fields": (
        obj(NARROW["properties"]),
        {"type": "object", **ANYTHING},
        [],
        f"{PAIR}, since v2 requires it; or describe it in both versions",
    ),
    "list with rules": (
        listed(NARROW),
        listed(ANYTHING),
        [{"each": {"spoke": "f", "acknowledge": "why", "rules": []}}],
        f"{PAIR} instead of each(f <-> f), since v2 requires it; or describe it in both versions",
    ),
    "moved": (
        NARROW,
        ANYTHING,
        [{"rename": {"spoke": "g", "hub": "f"}}],
        (
            "Convert it with - pair: {spoke: g, hub: f, up: …, down: …} instead of rename(g <-> f), "
            "since v2 requires it; or describe it in both versions"
        ),
    ),
}


@pytest.mark.parametrize("name", DESCRIBED)
@pytest.mark.parametrize("is_required", [True, False])
def test_a_field_that_only_one_version_describes_is_stashed_only_if_it_may_be_missing(
    name: str, is_required: bool
) -> None:
    """The rule described would be proposed, and then be refused since it may leave out what is required."""
    hub, spoke, declared, fix = DESCRIBED[name]
    required = {"required": ["f"]} if is_required else {}
    field = "g" if name == "moved" else "f"
    document = crd({"v2": obj({"f": hub}, **required), "v1": obj({field: spoke})})
    found = next(each for each in found_in(declared, document, "v2", "v1") if "keeps any" in each.problem)
    assert (found.fix == fix) is is_required
    assert ("described" in found.fix) is not is_required
    followed([*declared], document, "v2", "v1")


CHOICE, OTHER = {"type": "string", "enum": ["a"]}, {"type": "string", "enum": ["A"]}
IN_CONTAINERS = {
    "list of values": (listed, "- pair: {spoke: f, hub: f, up: …, down: …}"),
    "list of objects": (lambda each: listed(obj({"n": each})), "- each: {spoke: f, rules: []}"),
    "map of values": (mapped, "- pair: {spoke: f, hub: f, up: …, down: …}"),
    "map of objects": (lambda each: mapped(obj({"n": each})), "- each_value: {spoke: f, rules: []}"),
    "object": (lambda each: obj({"n": each}), "- inside: {spoke: f, rules: []}"),
}


@pytest.mark.parametrize("name", IN_CONTAINERS)
def test_a_table_of_values_on_a_list_or_an_object_leads_to_what_is_inside(name: str) -> None:
    """Each entry of a right table would be refused, with the advice to correct the table."""
    around, proposed = IN_CONTAINERS[name]
    document = crd({"v2": obj({"f": around(OTHER)}), "v1": obj({"f": around(CHOICE)})})
    (found,) = found_in([{"enum": {"spoke": "f", "values": {"a": "A"}}}], document, "v2", "v1")
    kind = "a list" if name.startswith("list") else "an object"
    assert found.problem == f"enum(f <-> f) converts one value, and this is {kind}"
    assert found.fix == f"Convert it with {proposed} instead of enum(f <-> f)"
    followed([{"enum": {"spoke": "f", "values": {"a": "A"}}}], document, "v2", "v1")


AROUND = obj({"a": TEXT, "b": TEXT, "c": obj({"n": TEXT, "o": TEXT}, required=["n"])}, required=["b", "c"])
PLAIN: dict[str, Any] = {"pair": {"spoke": "f.a", "hub": "g", "up": "self", "down": "self"}}
INNER: dict[str, Any] = {"pair": {"spoke": "f.c.o", "hub": "h", "up": "self", "down": "self"}}
MADE: dict[str, tuple[list[dict[str, Any]], str]] = {
    "nothing converts what is required": (
        [PLAIN],
        'Add - constant: {spoke: f.b, value: …} and - constant: {spoke: f.c, value: {"n": …}} and ',
    ),
    "a required object has other content": (
        [PLAIN, INNER],
        (
            "Add - constant: {spoke: f.b, value: …} and - constant: {spoke: f.c.n, value: …} and "
            "- constant: {spoke: f.c, value: {}} and "
        ),
    ),
    "a stash keeps what is required": (
        [PLAIN, {"stash": {"spoke": "f.b"}}],
        (
            "Add - constant: {spoke: f.b, value: …} instead of stash(f.b) and "
            '- constant: {spoke: f.c, value: {"n": …}} and '
        ),
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_an_object_that_rules_make_gets_all_that_it_requires(name: str) -> None:
    """An empty object would be proposed, and be refused for what it lacks without a way out."""
    declared, fix = MADE[name]
    document = crd({"v2": obj({"g": TEXT, "h": TEXT}), "v1": obj({"f": AROUND}, required=["f"])})
    (found,) = (each for each in found_in(declared, document, "v2", "v1") if each.path == ".f")
    made = (
        "- constant: {spoke: f, value: {}}, or accept with - waive: {spoke: f, acknowledge: why} that it may be missing"
    )
    assert found.fix == f"{fix}{made}"
    followed([*declared], document, "v2", "v1")


def test_an_object_that_functions_share_is_left_to_a_rule_or_to_a_waiver() -> None:
    """A default of one of several fields of a pair would be proposed, which cannot be declared."""
    document = crd(
        {"v2": obj({"g": TEXT}), "v1": obj({"f": obj({"a": TEXT}, required=["a"]), "b": TEXT}, required=["f"])}
    )
    declared = [{"pair": {"spoke": ["f.a", "b"], "hub": "g", "up": "'x'", "down": "{}"}}]
    (found,) = (each for each in found_in(declared, document, "v2", "v1") if each.path == ".f")
    waived = "accept with - waive: {spoke: f, acknowledge: why} that it may be missing"
    assert found.fix == f"Let a rule give it a value, or {waived}"
    waiver = {"waive": {"spoke": "f", "acknowledge": "why"}}
    assert not any("nothing to put" in each.problem for each in found_in([*declared, waiver], document, "v2", "v1"))


ID: dict[str, Any] = {"type": "string"}
WHOLE = (
    "Convert the list as a whole with - pair: {spoke: f, hub: f, up: …, down: …}, "
    "since no rule of an item changes what identifies it"
)
ACCEPTED = "accept with - each: {{spoke: f, rules: [{{waive: {{{}: id, acknowledge: why}}}}]}} that it may be missing"
RENAMED = "Rename what identifies an item, with - each: {spoke: f, rules: [{rename: {spoke: b, hub: id}}]}"


def by_id(**fields: dict[str, Any]) -> dict[str, Any]:
    return keyed(obj({"id": ID, **fields}))


#: The list of either version, the place of the finding, and what it proposes.
IDENTIFIED = {
    "other type": (by_id(), by_id(id={"type": "integer"}), "v1 .f[].id", WHOLE),
    "other values": (by_id(), by_id(id={**ID, "enum": ["a"]}), "v1 .f[].id", WHOLE),
    "any value": (listed(obj({"id": ANYTHING})), by_id(), "v1 .f[].id", f"{WHOLE}; or describe it in both versions"),
    "may be missing in the spoke": (
        listed(obj({"id": ID})),
        by_id(),
        "v2 .f[].id",
        f"{WHOLE}; or {ACCEPTED.format('hub')}",
    ),
    "may be missing in the hub": (
        by_id(),
        listed(obj({"id": ID})),
        "v1 .f[].id",
        f"{WHOLE}; or {ACCEPTED.format('spoke')}",
    ),
    "another name": (listed(obj({"a": TEXT, "b": TEXT})), by_id(a=TEXT), "v2 .f[].id", RENAMED),
    "another name in the other version": (listed(obj({"a": TEXT, "b": TEXT})), by_id(a=TEXT), "v1 .f[].b", RENAMED),
}


@pytest.mark.parametrize("name", IDENTIFIED)
@pytest.mark.parametrize("choice", [0, 1])
def test_what_identifies_an_item_is_renamed_or_converted_with_its_list(name: str, choice: int) -> None:
    """A cast, a default or a stash of a key would be proposed, and be refused with the sentence that keys stay."""
    spoke, hub, place, fix = IDENTIFIED[name]
    document = crd({"v2": obj({"f": hub}), "v1": obj({"f": spoke})})
    fixes = [each.fix for each in found_in([], document, "v2", "v1") if f"{each.version} {each.path}" == place]
    assert fixes == [fix]
    followed([], document, "v2", "v1", choice=choice)


def test_a_field_that_a_rule_keeps_can_still_identify_an_item() -> None:
    """An author who stashed the field would be told to convert the whole list, or that two rules are contrary."""
    document = crd({"v2": obj({"f": by_id()}), "v1": obj({"f": listed(obj({"b": TEXT}))})})
    declared = [{"each": {"spoke": "f", "key": "id", "rules": [{"drop": {"spoke": "b", "acknowledge": "why"}}]}}]
    (found,) = (each for each in found_in(declared, document, "v2", "v1") if each.path == ".f[].id")
    renamed = "- rename: {spoke: b, hub: id} instead of drop(b), in the rules of each(f <-> f)"
    assert found.fix == f"Rename what identifies an item, with {renamed}"
    assert followed(declared, document, "v2", "v1", choice=1)


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
