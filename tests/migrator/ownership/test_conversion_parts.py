"""What a converter is asked with, and how the values that it answers with are compared."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

from restow.crds.fieldpath import FieldSet
from restow.migrator.model.converter import Answer, Json, Unconverted
from restow.migrator.ownership.conversion import ConvertedEntry, same, shows, texts_of
from restow.migrator.ownership.policy import EntryPolicies
from restow.migrator.ownership.translation import translate
from tests.migrator import builders as b
from tests.migrator.builders import entry
from tests.migrator.ownership import test_conversion_leaveout as unions
from tests.migrator.ownership.test_translation import (
    JOINT,
    K_A,
    SWITCH,
    V1,
    V2,
    Converts,
    carry,
    drive,
    joint,
    live_object,
    rules_of,
    seats,
    spec_of,
    switch,
)

# What a converter is asked with.


@pytest.mark.parametrize(
    ("fields", "spec", "rules", "convert", "steps"),
    [
        ({"f:size": {}}, {"size": 3}, JOINT, joint, [1, 1]),
        ({"f:cpu": {}, "f:unit": {}}, {"cpu": "2m"}, JOINT, joint, [1, 1, 1]),
        ({"f:on": {}}, {"paused": True, "size": 0}, SWITCH, switch, [1, 1, 1, 1]),
        ({"f:value": {}}, {"type": "a", "a": {"value": "x"}}, unions.RULES, unions.convert, [1, 1, 2, 1]),
    ],
    ids=["a part", "back", "bare", "left out"],
)
def test_a_converter_sees_whose_part_it_is(
    fields: FieldSet, spec: Json, rules: EntryPolicies, convert: Converts, steps: list[int]
) -> None:
    """A webhook refuses what is of another kind or version, or has no namespace, and the owners would be stripped."""
    metadata = {"name": "w", "namespace": "team", "uid": "u"}
    found, asked = carry(fields, live_object(spec, namespace="team"), rules, convert)
    assert found.complete and [len(batch) for batch in asked] == steps
    for each in chain.from_iterable(asked):
        assert (each.obj["kind"], each.obj["metadata"]) == ("Widget", metadata)
        assert {each.obj["apiVersion"], each.api_version} == {V1, V2}


@pytest.mark.parametrize("where", ["labels", "annotations"])
@pytest.mark.parametrize(
    ("texts", "sent"),
    [
        ({"color": "red", "other": "thing"}, {"color": "red"}),
        ({"other": "thing"}, None),
        ({}, None),
        (None, None),
    ],
    ids=["there", "gone", "none", "null"],
)
def test_only_owned_labels_go_with_a_part(where: str, texts: Any, sent: Any) -> None:
    """A label may mean a field in the other version: without it its owner loses that, with another one gains more."""

    def labelled(obj: Json, to: str) -> Json:
        return obj | {"apiVersion": to}

    fields = {"f:metadata": {f"f:{where}": {"f:color": {}}}, "f:spec": {"f:size": {}}}
    live = live_object({"size": 3}, **{where: texts})
    translation, asked = drive(translate([entry("alice", "v1", fields)], live, JOINT), labelled)
    assert translation.converted[0] == ConvertedEntry({"f:spec": {"f:size": {}}})
    [part] = asked[1]
    assert part.obj["metadata"] == {"name": "w", "uid": "u"} | ({where: sent} if sent else {})


@pytest.mark.parametrize("mine", [{"mine": "thing"}, {}], ids=["next to others", "alone"])
@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_texts_of_the_converter_are_left_out(where: str, mine: dict[str, str]) -> None:
    """What it wrote into a label gives back what was left out, and tells an owner nothing."""

    def sealing(obj: Json, to: str) -> Json:
        made = unions.convert(obj, to)
        texts = {name: text for name, text in (obj["metadata"].get(where) or {}).items() if name != "seal"}
        texts |= {"seal": "2", "at": to} if to == V2 else {"seal": "1", "at": to}
        return made | {"metadata": made["metadata"] | {where: texts}}

    live = unions.a_live({"type": "a", "value": "x"}, sealing)
    live["metadata"][where] |= mine
    found, asked = unions.carry(live, unions.VALUE, converts=sealing)
    assert [each.fields for each in found] == [unions.A_VALUE] and found[0].complete
    told = [each.obj["metadata"].get(where) for batch in asked[2:] for each in batch]
    assert told and all(each == (mine or None) for each in told)


# How values are compared.


@pytest.mark.parametrize(
    ("shown", "is_shown"),
    [
        ("x", True),
        ("other", True),
        ("", False),
        (False, False),
        ({}, False),
        ([], False),
        ({"a": {"b": "x"}}, True),
        ({"a": {"b": ""}, "c": 0}, False),
        ([{"a": "x"}], True),
        ([{"a": ""}, {}], False),
        (["", "x"], True),
    ],
    ids=str,
)
def test_an_empty_value_does_not_show_another_one(shown: Any, is_shown: bool) -> None:
    """A typed converter writes empty fields where there is nothing: the loss of a field would go unsaid."""
    path = ("f:spec", "f:x")
    assert shows({path: shown}, path, {"a": {"b": "y"}}) is is_shown
    assert shows({path: shown}, path, shown), "an empty value shows itself"
    assert not shows({("f:spec", "f:y"): shown}, path, shown), "at its own path"


@pytest.mark.parametrize(
    ("one", "other"),
    [(True, 1), (False, 0), ({"a": True}, {"a": 1}), ([1, False], [1, 0]), ([{"a": [1]}], [{"a": [True]}]), ("1", 1)],
    ids=str,
)
def test_true_is_not_one(one: Any, other: Any) -> None:
    """A number that a switch became would count as the switch, and its owner get another one's field."""
    assert same(one, one) and same(other, other)
    assert not same(one, other) and not same(other, one)
    assert set(texts_of(one)).isdisjoint(texts_of(other)) or one == [1, False]


def test_the_texts_of_a_value_are_all_its_scalars() -> None:
    """A field that shares a text only deep inside of it would not be taken for its image."""
    value = {"a": [{"b": "x"}, ["y", {}], None], "c": True, "d": []}
    assert list(texts_of(value)) == [(False, "x"), (False, "y"), (False, None), (True, True)]


PAIR = b.atomic(b.struct(first=b.STRING, second=b.STRING))
PAIRS = b.atomic_list(b.struct(first=b.STRING, second=b.STRING))


@pytest.mark.parametrize(
    ("node", "value", "empty"),
    [
        (PAIR, {"first": "x", "second": "y"}, {"first": "", "second": ""}),
        (PAIRS, [{"first": "x", "second": "y"}], [{"first": "", "second": ""}]),
    ],
    ids=["an object", "a list"],
)
def test_a_lost_value_is_not_hidden_by_an_empty_one(node: b.Node, value: Any, empty: Any) -> None:
    """The report would call an entry complete of which a typed webhook made up the rest on the way back."""
    rules = rules_of(b.struct(size=b.INTEGER, pair=node), b.struct(size=b.INTEGER))
    whole = {"size": 3, "pair": value}

    def typed(obj: Json, to: str) -> Answer:
        if to == V2:
            return obj | {"apiVersion": V2, "spec": {"size": obj["spec"].get("size", 0)}}
        # The live object has a stash in its uid's place: only the whole object comes back as it was.
        back = whole if "stash" in obj["metadata"].get("annotations", {}) else {"pair": empty} | obj["spec"]
        return obj | {"apiVersion": V1, "spec": back}

    live = live_object({"size": 3}, annotations={"stash": "pair"})
    found, _asked = carry({"f:size": {}, "f:pair": {}}, live, rules, typed)
    assert spec_of(found) == {"f:size": {}}
    assert not found.complete and list(found.lost.values()) == [value]


def test_an_object_that_comes_back_from_a_text_is_carried_over() -> None:
    """The whole object would be converted twice more for each entry, and an entry be called lost that is not."""

    def joining(obj: Json, to: str) -> Json:
        spec = dict(obj.get("spec", {}))
        if to == V2 and "pair" in spec:
            spec["text"] = "/".join(spec.pop("pair").values())
        elif to == V1 and "text" in spec:
            first, second = spec.pop("text").split("/")
            spec["pair"] = {"first": first, "second": second}
        return obj | {"apiVersion": to, "spec": spec}

    rules = rules_of(b.struct(pair=PAIR), b.struct(text=b.STRING))
    found, asked = carry({"f:pair": {}}, live_object({"text": "x/y"}), rules, joining)
    assert found == ConvertedEntry({"f:spec": {"f:text": {}}})
    assert [len(batch) for batch in asked] == [1, 1, 1, 1]


def listing(obj: Json, to: str) -> Json:
    """v2 says in one list, or in one object, what v1 says in two fields."""
    spec = dict(obj.get("spec", {}))
    if to == V2:
        halves = {name: spec.pop(name) for name in ("first", "second") if name in spec}
        made = {"list": list(halves.values()), "map": halves} if halves else {}
    else:
        spec.pop("list", None)
        made = spec.pop("map", {})
    return obj | {"apiVersion": to, "spec": spec | made}


def test_fields_after_a_default_of_the_converter_are_carried_over() -> None:
    """What it fills in where others have a value would end the search, and cost each entry three more conversions."""

    def defaulting(obj: Json, to: str) -> Json:
        return obj | {"apiVersion": to, "spec": {"color": "blue"} | obj.get("spec", {})}

    found, asked = carry(
        {"f:size": {}, "f:cpu": {}}, live_object({"color": "red", "cpu": "2m", "size": 3}), JOINT, defaulting
    )
    assert found == ConvertedEntry({"f:spec": {"f:size": {}, "f:cpu": {}}})
    assert [len(batch) for batch in asked] == [1, 1]


LISTS = rules_of(
    b.struct(first=b.STRING, second=b.STRING, size=b.INTEGER),
    b.struct(list=b.atomic_list(b.STRING), map=PAIR, size=b.INTEGER),
)


@pytest.mark.parametrize("name", ["first", "second"])
def test_whoever_owns_a_half_owns_what_it_became_a_part_of(name: str) -> None:
    """He set a value of the list, and would get a conflict when he sets another one."""
    live = live_object({"list": ["x", "y"], "map": {"first": "x", "second": "y"}, "size": 3})
    found, asked = carry({f"f:{name}": {}}, live, LISTS, listing)
    assert [len(batch) for batch in asked] == [1, 1, 1, 1], "the way back shows it, so the whole is not asked for"
    assert found == ConvertedEntry({"f:spec": {"f:list": {}, "f:map": {}}})
    found, _asked = carry({"f:size": {}}, live, LISTS, listing)
    assert found == ConvertedEntry({"f:spec": {"f:size": {}}})


SEAT = b.struct(id=b.STRING, port=b.INTEGER, tags=b.set_list(b.STRING))
WITH_SIZE = rules_of(
    b.struct(seats=b.keyed_list(SEAT, "port"), size=b.INTEGER), b.struct(seats=b.keyed_list(SEAT, "id"), size=b.INTEGER)
)


def test_an_item_that_gets_other_keys_without_its_owners_value_is_not_his() -> None:
    """Its empty fields, which a typed webhook fills in, would go to him; all of the item has another name then."""

    def convert(obj: Json, to: str) -> Answer:
        return Unconverted("it has no size") if "size" not in obj["spec"] else seats(obj, to)

    live = live_object({"seats": [{"id": "a", "port": 80, "tags": []}], "size": 1})
    found, _asked = carry({"f:seats": {'k:{"port":80}': {"f:id": {}}}}, live, WITH_SIZE, convert)
    assert found == ConvertedEntry(complete=False) and list(found.lost.values()) == ["a"]


UNIT1 = {"on": {"type": "boolean"}, "idle": {"type": "boolean"}, "label": b.STRING}
UNIT2 = {"paused": {"type": "boolean"}, "idle": {"type": "boolean"}, "off": {"type": "boolean"}, "title": b.STRING}


def units_of(key1: str, key2: str) -> EntryPolicies:
    """Units of one spec and of a list in it, with other keys in v2."""
    names = {"name": b.STRING, "port": b.INTEGER}
    old, new = b.struct(**names, **UNIT1), b.struct(**names, **UNIT2)
    return rules_of(b.struct(**UNIT1, units=b.keyed_list(old, key1)), b.struct(**UNIT2, units=b.keyed_list(new, key2)))


def filling(obj: Json, to: str) -> Json:
    """A typed converter: ``idle`` and a name are always there; ``on`` is called ``paused`` in v2."""
    old, new = ("on", "paused") if to == V2 else ("paused", "on")

    def unit(value: Json) -> Json:
        return {"idle": False} | {new if name == old else name: child for name, child in value.items()}

    spec = unit(obj.get("spec", {}))
    units = {"units": [{"name": ""} | unit(each) for each in spec["units"]]} if "units" in spec else {}
    return obj | {"apiVersion": to, "spec": spec | units}


def test_a_field_that_both_versions_have_does_not_move() -> None:
    """Whoever says no would own each other no that a typed webhook fills in, and undo what others say there."""
    live = live_object({"paused": False, "idle": False, "units": [{"name": "a", "idle": False}]})
    item: FieldSet = {K_A: {".": {}, "f:name": {}}}
    found, _asked = carry({"f:on": {}, "f:units": item}, live, units_of("name", "name"), filling)
    assert found == ConvertedEntry({"f:spec": {"f:paused": {}, "f:units": item}})


def deriving(obj: Json, to: str) -> Json:
    """v2 says ``off`` for a unit that is on in v1, and a label in capitals; a unit always has a name."""

    def unit(value: Json) -> Json:
        made = dict(value)
        if to == V2:
            made |= {"off": not made.pop("on")} if "on" in made else {}
            made |= {"title": made.pop("label").upper()} if "label" in made else {}
        else:
            made |= {"on": not made.pop("off")} if "off" in made else {}
            made |= {"label": made.pop("title").lower()} if "title" in made else {}
        return {"name": ""} | made

    spec = obj.get("spec", {})
    return obj | {"apiVersion": to, "spec": {"units": [unit(each) for each in spec["units"]]} if spec else {}}


def test_a_value_that_is_derived_in_an_item_is_its_owners() -> None:
    """An empty value that the converter does not fill in, or a text in an item with other keys, would be stripped."""
    live = live_object({"units": [{"name": "a", "off": False}]})
    found, asked = carry({"f:units": {K_A: {"f:on": {}}}}, live, units_of("name", "name"), deriving)
    assert found == ConvertedEntry({"f:spec": {"f:units": {K_A: {"f:off": {}}}}})
    assert [len(batch) for batch in asked] == [1, 1, 1, 1]
    live = live_object({"units": [{"name": "a", "port": 80, "title": "X"}]})
    fields: FieldSet = {'k:{"port":80}': {".": {}, "f:name": {}, "f:port": {}, "f:label": {}}}
    found, asked = carry({"f:units": fields}, live, units_of("port", "name"), deriving)
    item: FieldSet = {".": {}, "f:name": {}, "f:port": {}, "f:title": {}}
    assert found == ConvertedEntry({"f:spec": {"f:units": {K_A: item}}})
    assert [len(batch) for batch in asked] == [1, 1, 1, 1]


# Places.

NESTED = b.struct(inner=b.struct(a=b.STRING, b=b.STRING), map=b.mapping(b.struct(a=b.STRING)), size=b.INTEGER)


def as_it_is(obj: Json, to: str) -> Json:
    return obj | {"apiVersion": to}


@pytest.mark.parametrize(
    ("fields", "carried"),
    [
        ({"f:inner": {".": {}, "f:gone": {}}}, {"f:inner": {}}),
        ({"f:inner": {".": {}, "f:gone": {}}, "f:size": {}}, {"f:inner": {}, "f:size": {}}),
        ({"f:map": {".": {}, "f:k": {".": {}, "f:gone": {}}}}, {"f:map": {".": {}, "f:k": {}}}),
    ],
    ids=["alone", "and a field", "a key of a map"],
)
@pytest.mark.parametrize("removed", [False, True], ids=["a version of the CRD", "a removed version"])
def test_an_object_that_became_empty_keeps_its_owner(fields: FieldSet, carried: FieldSet, removed: bool) -> None:
    """The owner could no longer remove the object, because no manager would own it."""
    live = live_object({"inner": {}, "map": {"k": {}}, "size": 3})
    found, _asked = carry(fields, live, rules_of(NESTED, NESTED, removed=removed), as_it_is)
    assert found == ConvertedEntry({"f:spec": carried})


def itemizing(obj: Json, to: str) -> Json:
    """v1 has by name in a map what v2 has in a list."""
    spec = obj.get("spec", {})
    if to == V2 and "map" in spec:
        spec = {"items": [{"name": name, **child} for name, child in spec["map"].items()]}
    elif to == V1 and "items" in spec:
        spec = {"map": {item["name"]: {"x": item["x"]} if "x" in item else {} for item in spec["items"]}}
    return obj | {"apiVersion": to, "spec": spec}


@pytest.mark.parametrize(
    ("key", "item"),
    [
        ({".": {}, "f:x": {}}, {".": {}, "f:name": {}, "f:x": {}}),
        ({}, {".": {}, "f:name": {}}),
        ({".": {}}, {".": {}, "f:name": {}}),
        ({"f:x": {}}, {"f:x": {}}),
    ],
    ids=["all of it", "the key", "the key with a dot", "a field in it"],
)
@pytest.mark.parametrize("value", [{"x": "1"}, {"x": "k"}, {}], ids=["a value", "a value like the key", "nothing"])
def test_a_key_that_becomes_an_item_keeps_its_owner(key: FieldSet, item: FieldSet, value: Json) -> None:
    """The owner could no longer remove the item; the owner of a single field in it does not get the item."""
    rules = rules_of(
        b.struct(map=b.mapping(b.struct(x=b.STRING))),
        b.struct(items=b.keyed_list(b.struct(name=b.STRING, x=b.STRING), "name")),
    )
    found, _asked = carry({"f:map": {"f:a": key}}, live_object({"items": [{"name": "a", **value}]}), rules, itemizing)
    item = {name: node for name, node in item.items() if name != "f:x" or value}
    assert found == ConvertedEntry({"f:spec": {"f:items": {K_A: item}}} if item else {})


@pytest.mark.parametrize("place", [{}, {".": {}, "f:a": {".": {}}}], ids=["alone", "with one in it"])
def test_a_place_that_becomes_a_key_of_a_map_keeps_its_owner(place: FieldSet) -> None:
    """He owned an object whatever its content, and could not remove it any more."""
    inner = b.struct(a=b.struct(x=b.STRING))
    rules = rules_of(b.struct(map=b.struct(k=inner)), b.struct(map=b.mapping(inner)))
    found, _asked = carry({"f:map": {"f:k": place}}, live_object({"map": {"k": {"a": {"x": "1"}}}}), rules, as_it_is)
    assert found.complete
    assert spec_of(found) == {"f:map": {"f:k": {".": {}, "f:a": {}} if place else {}}}


def test_a_place_that_becomes_atomic_is_not_owned_with_what_others_put_there() -> None:
    """He owned an object whatever its content, and would own the content, against those who wrote it."""
    inner = b.struct(a=b.STRING)
    rules = rules_of(b.struct(inner=inner, size=b.INTEGER), b.struct(inner=b.atomic(inner), size=b.INTEGER))
    live = live_object({"inner": {"a": "x"}, "size": 3})
    found, _asked = carry({"f:inner": {".": {}, "f:gone": {}}, "f:size": {}}, live, rules, as_it_is)
    assert spec_of(found) == {"f:size": {}}
