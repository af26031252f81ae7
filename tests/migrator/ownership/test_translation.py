"""Ownership through a converter: nobody gains a field that is not the image of his, and what is lost is said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.crds.fieldpath import FieldSet, from_paths
from restow.migrator.decide.policies import entry_policies
from restow.migrator.model.converter import Answer, Json, Unconverted
from restow.migrator.model.options import Options
from restow.migrator.ownership.conversion import Conversion, ConvertedEntry, Steps
from restow.migrator.ownership.entries import ManagedFieldsEntry
from restow.migrator.ownership.policy import EntryPolicies
from restow.migrator.ownership.translation import Translation, supposed, together, translate
from tests.migrator import builders as b
from tests.migrator.builders import api_version, entry
from tests.migrator.oracle import WHOLE, Mask, covered_values, field_set, is_one_leaf, members, owned_paths, values
from tests.migrator.strategies import Change, changes

V1, V2 = api_version("v1"), api_version("v2")

Converts = Callable[[Json, str], Answer]


def drive(steps: Steps[Any], convert: Converts) -> tuple[Any, list[list[Conversion]]]:
    """Answer what is asked for; also what was asked for, batch by batch."""
    asked: list[list[Conversion]] = []
    try:
        batch = next(steps)
        while True:
            asked.append(batch)
            batch = steps.send([convert(each.obj, each.api_version) for each in batch])
    except StopIteration as end:
        return end.value, asked


def rules_of(old: b.Node, new: b.Node, *, removed: bool = False) -> EntryPolicies:
    """The policies of a CRD with strategy Webhook."""
    versions = ("v2",) if removed else ("v1", "v2")
    schemas = {"v1": b.struct(spec=old), "v2": b.struct(spec=new)}
    return entry_policies(b.crd(versions, schemas=schemas, webhook=True), Options())


def live_object(spec: Json, **metadata: Any) -> Json:
    """An object at v2."""
    return {"apiVersion": V2, "kind": "Widget", "metadata": {"name": "w", "uid": "u"} | metadata, "spec": spec}


def carry(
    fields: FieldSet, live: Json, rules: EntryPolicies, convert: Converts
) -> tuple[ConvertedEntry, list[list[Conversion]]]:
    """What became of one entry at v1 that owns these fields of the spec."""
    owner = entry("alice", "v1", {"f:spec": fields})
    translation, asked = drive(translate([owner], live, rules), convert)
    assert not translation.failure
    return translation.converted[0], asked


def spec_of(carried: ConvertedEntry) -> FieldSet:
    """The part of a set below the spec."""
    fields: FieldSet = carried.fields.get("f:spec", {})
    return fields


# Random kinds: what is owned under one schema, moved to another one, with a field renamed on the way.


def renaming(change: Change, *, typed: bool) -> Converts:
    """A converter that calls x renamed in v2; a typed one fills in every field that an object may have."""

    def convert(obj: Json, to: str) -> Json:
        old, new = ("x", "renamed") if to == V2 else ("renamed", "x")
        spec = {new if name == old else name: value for name, value in obj.get("spec", {}).items()}
        node = renamed(change.new) if to == V2 else change.old
        made = obj | {"apiVersion": to} | ({"spec": spec} if "spec" in obj else {})
        return made | {"spec": filled(spec, node)} if typed else made

    return convert


def renamed(node: b.Node) -> b.Node:
    """A schema with x called renamed."""
    names = {"renamed" if name == "x" else name: child for name, child in node["properties"].items()}
    return node | {"properties": names}


def filled(value: Any, node: b.Node) -> Any:
    """A value as a typed program writes it: every field is there, empty where nothing was said."""
    if isinstance(value, list):
        return [filled(item, node["items"]) for item in value]
    if not isinstance(value, dict) or "properties" not in node:
        return value
    empty = {"string": "", "integer": 0, "object": {}, "array": None}
    made = {name: empty[child["type"]] for name, child in node["properties"].items()} | value
    made = {name: child for name, child in made.items() if child is not None}
    return {name: filled(child, node["properties"][name]) for name, child in made.items()}


def emptied(value: Any, node: b.Node) -> Any:
    """A value in which texts called z say nothing: as a typed converter makes them up, too."""
    if isinstance(value, dict):
        known, other = node.get("properties", {}), node.get("additionalProperties")
        return {
            name: "" if name == "z" and isinstance(child, str) else emptied(child, known.get(name) or other or node)
            for name, child in value.items()
        }
    return [emptied(item, node["items"]) for item in value] if isinstance(value, list) else value


def with_keys(mask: Mask, value: Any, node: b.Node) -> Mask:
    """A mask in which whoever owns an item owns its keys, too, as in any set that a server writes."""
    if mask is WHOLE:
        return mask
    if isinstance(value, list):
        keys = dict.fromkeys(node.get("x-kubernetes-list-map-keys", ()), WHOLE)
        below = {i: with_keys(mask[i], value[i], node["items"]) for i in mask}
        return {i: each if each is WHOLE else keys | each for i, each in below.items()}
    known, other = node.get("properties", {}), node.get("additionalProperties")
    return {name: with_keys(mask[name], value[name], known.get(name) or other or node) for name in mask}


def carried_over(change: Change, *, typed: bool) -> tuple[ConvertedEntry, Json, b.Node, Mask]:
    """What became of the masked part of a random object; the object and its schema at v2, and the mask there."""
    live = emptied(change.live, change.old)
    mask = with_keys(change.mask, live, change.old)
    fields = field_set(owned_paths(mask, live, change.old))
    new = renamed(change.new)
    live2 = {"renamed" if name == "x" else name: value for name, value in live.items()}
    if isinstance(mask, dict):
        mask = {"renamed" if name == "x" else name: value for name, value in mask.items()}
    rules = rules_of(change.old, new)
    return carry(fields, live_object(live2), rules, renaming(change, typed=typed))[0], live2, new, mask


@given(changes(), st.booleans())
def test_nobody_gains_a_path(change: Change, typed: bool) -> None:
    """Whoever is given another one's field keeps him from removing it, and removes it himself with his next apply."""
    carried, live, new, mask = carried_over(change, typed=typed)
    assert members(spec_of(carried)) <= owned_paths(mask, live, new)


@given(changes(), st.booleans())
def test_what_is_called_complete_is_complete(change: Change, typed: bool) -> None:
    """An entry of a served version goes away only if nothing of it is lost; and a report must not say less.

    Empty values may be: a converter that makes them up proves nothing by them.
    """
    carried, live, new, mask = carried_over(change, typed=typed)
    empty = hollow(live, new) | (frozenset(silent(live)) if typed else frozenset())
    if carried.complete:
        assert covered_values(spec_of(carried), live, new) >= values(mask, live) - empty


def silent(value: Any, path: str = "") -> Iterator[str]:
    """The places of values that say nothing."""
    if not value:
        yield path
    below = value if isinstance(value, dict) else dict(enumerate(value)) if isinstance(value, list) else {}
    for name, child in below.items():
        yield from silent(child, f"{path}/{name}")


def hollow(value: Any, node: b.Node, path: str = "") -> frozenset[str]:
    """The places of empty lists that are owned item by item, and so by nobody."""
    if isinstance(value, list) and not is_one_leaf(value, node):
        below = (hollow(item, node["items"], f"{path}/{i}") for i, item in enumerate(value))
        return frozenset({path} if not value else set()).union(*below)
    if isinstance(value, dict) and not is_one_leaf(value, node):
        known, other = node.get("properties", {}), node.get("additionalProperties")
        below = (hollow(child, known.get(name) or other or node, f"{path}/{name}") for name, child in value.items())
        return frozenset().union(*below)
    return frozenset()


@given(changes(same=True))
def test_under_one_schema_all_is_carried_over(change: Change) -> None:
    """A rename and nothing else: every path must come out, the renamed ones under their new name."""
    carried, live, new, mask = carried_over(change, typed=False)
    assert carried.complete
    assert members(spec_of(carried)) == owned_paths(mask, live, new)


# One thing at a time.

SIZES = b.struct(cpu=b.STRING, unit=b.STRING, size=b.INTEGER, debug=b.STRING, color=b.STRING, on={"type": "boolean"})


def joint(obj: Json, to: str) -> Json:
    """v1 says cpu and unit where v2 says both in one, drops debug, and has a color that was an annotation of v1."""
    spec, metadata = dict(obj.get("spec", {})), dict(obj["metadata"])
    if to == V2:
        spec.pop("debug", None)
        if "cpu" in spec:
            spec["cpu"] += spec.pop("unit", "")
        spec.pop("unit", None)
        if color := metadata.get("annotations", {}).get("color"):
            spec["color"] = color
    else:
        if "cpu" in spec:
            spec["unit"], spec["cpu"] = spec["cpu"][-1], spec["cpu"][:-1]
        if "color" in spec:
            metadata["annotations"] = {"color": spec.pop("color"), "other": "thing"}
    return obj | {"apiVersion": to, "spec": spec, "metadata": metadata}


JOINT = rules_of(SIZES, SIZES)
LIVE = live_object({"cpu": "2m", "size": 3, "color": "red"})


@pytest.mark.parametrize(
    ("fields", "carried", "complete"),
    [
        ({"f:cpu": {}, "f:unit": {}}, {"f:cpu": {}}, True),
        ({"f:cpu": {}}, {"f:cpu": {}}, True),
        ({"f:unit": {}}, {"f:cpu": {}}, True),
        ({"f:unit": {}, "f:size": {}}, {"f:cpu": {}, "f:size": {}}, True),
        ({"f:size": {}}, {"f:size": {}}, True),
        ({"f:gone": {}}, {}, True),
        ({".": {}, "f:size": {}}, {".": {}, "f:size": {}}, True),
        ({".": {}}, {}, True),
    ],
    ids=[
        "both halves",
        "the half that the value stands with",
        "the half that says nothing alone",
        "a half that says nothing alone, and a field",
        "a field",
        "a field that is gone",
        "a place and a field",
        "a place",
    ],
)
def test_fields_with_a_joint_meaning(fields: FieldSet, carried: FieldSet, complete: bool) -> None:
    """Two managers may own the halves of what v2 says in one: each must own that, for either half changes it."""
    found, _asked = carry(fields, LIVE, JOINT, joint)
    assert members(spec_of(found)) == members(carried)
    assert found.complete is complete


def test_a_field_that_the_new_version_drops_is_lost_in_part() -> None:
    """The rest of the entry must be carried over, and the loss be said."""
    live = live_object({"size": 3})

    def kept(obj: Json, to: str) -> Json:
        made = joint(obj, to)
        return made | {"spec": made["spec"] | {"debug": "all"}} if to == V1 and obj is not LIVE else made

    found, _asked = carry({"f:size": {}, "f:debug": {}}, live, JOINT, kept)
    # v1 makes debug up again on the way back: presence alone would prove nothing, but here its value does.
    assert members(spec_of(found)) == {("f:size",)}


def test_owned_annotations_go_with_the_part_and_others_do_not() -> None:
    """A label may mean a field in the other version; a stash in an annotation would bring in fields of others."""
    mine = entry("alice", "v1", {"f:metadata": {"f:annotations": {"f:color": {}}}, "f:spec": {"f:size": {}}})
    translation, asked = drive(translate([mine], LIVE, JOINT), joint)
    assert members(translation.converted[0].fields) == {("f:spec", "f:size"), ("f:spec", "f:color")}
    [part] = asked[1]
    assert part.obj["metadata"] == {"name": "w", "uid": "u", "annotations": {"color": "red"}}


def test_what_the_converter_writes_into_annotations_is_nobodys() -> None:
    """A conversion may keep what it cannot say in an annotation: whoever owned that would fight the converter."""

    def sealing(obj: Json, to: str) -> Json:
        made = obj | {"apiVersion": to}
        return made | {"metadata": made["metadata"] | {"annotations": {"stash": "…"}}}

    live = live_object({"size": 3}, annotations={"stash": "…"})
    found, _asked = carry({"f:size": {}}, live, JOINT, sealing)
    assert found.fields == {"f:spec": {"f:size": {}}}


def switch(obj: Json, to: str) -> Json:
    """A typed converter: on in v1 is paused in v2, and both are there, false, whatever is said; so is size."""
    old, new = ("on", "paused") if to == V2 else ("paused", "on")
    spec = {new if name == old else name: value for name, value in obj.get("spec", {}).items()}
    return obj | {"apiVersion": to, "spec": {new: False, "size": 0} | spec}


SWITCH = rules_of(
    b.struct(on={"type": "boolean"}, size=b.INTEGER, text=b.STRING),
    b.struct(paused={"type": "boolean"}, size=b.INTEGER, text=b.STRING),
)


@pytest.mark.parametrize(
    ("fields", "carried"),
    [
        ({"f:text": {}}, {"f:text": {}}),
        ({"f:size": {}}, {"f:size": {}}),
        ({"f:on": {}}, {"f:paused": {}}),
        ({"f:on": {}, "f:text": {}}, {"f:paused": {}, "f:text": {}}),
    ],
    ids=["what is made up", "what looks made up", "what moved and looks made up", "both"],
)
def test_empty_values_that_a_typed_converter_makes_up(fields: FieldSet, carried: FieldSet) -> None:
    """Most webhooks are typed programs: a part without size comes out with size 0, which the live object may have."""
    live = live_object({"paused": False, "size": 0, "text": "t"})
    found, _asked = carry(fields, live, SWITCH, switch)
    assert members(spec_of(found)) == members(carried)
    assert found.complete


_SEATS = b.struct(id=b.STRING, port=b.INTEGER, tags={"type": "array", "items": b.STRING})
OTHER_KEYS = rules_of(b.struct(seats=b.keyed_list(_SEATS, "port")), b.struct(seats=b.keyed_list(_SEATS, "id")))


def seats(obj: Json, to: str) -> Json:
    """Nothing is called otherwise, and a seat always has tags, as a typed program writes it."""
    spec = obj.get("spec", {})
    items = {"seats": [{"id": "", "port": 0, "tags": []} | seat for seat in spec["seats"]]} if "seats" in spec else {}
    return obj | {"apiVersion": to, "spec": spec | items}


def test_empty_values_that_are_made_up_in_items_with_other_keys() -> None:
    """An entry would get another manager's empty field, because the item has other keys without the owned values."""
    live = live_object({"seats": [{"id": "a", "port": 80, "tags": []}]})
    owned = {'k:{"port":80}': {".": {}, "f:port": {}, "f:id": {}}}
    found, _asked = carry({"f:seats": owned}, live, OTHER_KEYS, seats)
    item = ("f:seats", 'k:{"id": "a"}')
    assert members(spec_of(found)) == {item, (*item, "f:id"), (*item, "f:port")}
    assert found.complete


NAMES = rules_of(
    b.struct(parts=b.keyed_list(b.struct(name=b.STRING, count=b.INTEGER), "name")),
    b.struct(pieces=b.keyed_list(b.struct(name=b.STRING, amount=b.INTEGER), "name")),
)


def pieces(obj: Json, to: str) -> Json:
    """Another name for a list, and for a field of its items."""
    pairs = {"parts": "pieces", "count": "amount"}
    names = pairs if to == V2 else {new: old for old, new in pairs.items()}

    def called(value: Any) -> Any:
        if isinstance(value, dict):
            return {names.get(name, name): called(child) for name, child in value.items()}
        return [called(item) for item in value] if isinstance(value, list) else value

    return obj | {"apiVersion": to, "spec": called(obj.get("spec", {}))}


K_A = 'k:{"name":"a"}'


@pytest.mark.parametrize(
    ("fields", "carried"),
    [
        (
            {K_A: {".": {}, "f:name": {}, "f:count": {}}},
            {K_A: {".": {}, "f:name": {}, "f:amount": {}}},
        ),
        ({K_A: {"f:count": {}}}, {K_A: {"f:amount": {}}}),
        ({K_A: {".": {}, "f:name": {}}}, {K_A: {".": {}, "f:name": {}}}),
    ],
    ids=["an item", "a field of an item", "an item's key"],
)
def test_items_are_owned_where_they_were(fields: FieldSet, carried: FieldSet) -> None:
    """Who owns a field of an item does not own the item: given it, he would keep its owner from removing it."""
    live = live_object({"pieces": [{"name": "a", "amount": 1}, {"name": "b", "amount": 1}]})
    found, _asked = carry({"f:parts": fields}, live, NAMES, pieces)
    assert members(spec_of(found)) == members({"f:pieces": carried})
    assert found.complete


def test_untouched_fields_cost_two_conversions() -> None:
    """Most entries are of fields that the versions have in common: no more is asked than where they came from."""
    found, asked = carry({"f:size": {}}, LIVE, JOINT, joint)
    assert [[each.api_version for each in batch] for batch in asked] == [[V1], [V2]]
    assert found == ConvertedEntry({"f:spec": {"f:size": {}}})


def test_without_anything_that_is_there_no_part_is_converted() -> None:
    """An entry of nothing but what is gone needs no converter but for the object itself."""
    found, asked = carry({"f:gone": {}}, LIVE, JOINT, joint)
    assert (len(asked), found) == (1, ConvertedEntry())


def test_the_parts_of_an_object_are_asked_for_together() -> None:
    """One review for all of an object's parts, whatever the number of its managers."""
    owners = [entry("alice", "v1", {"f:spec": {"f:size": {}}}), entry("bob", "v1", {"f:spec": {"f:cpu": {}}})]
    _translation, asked = drive(translate(owners, LIVE, JOINT), joint)
    assert [each.obj["spec"] for each in asked[1]] == [{"size": 3}, {"cpu": "2"}]


def test_a_field_that_only_got_another_name_takes_no_part_without_it() -> None:
    """A conversion with nothing owned in it would tell nothing: its value is that of the field that is gone."""
    rules = rules_of(b.struct(name=b.STRING, size=b.INTEGER), b.struct(title=b.STRING, size=b.INTEGER))

    def renamed(obj: Json, version: str) -> Answer:
        before, after = ("name", "title") if version == V2 else ("title", "name")
        spec = {after if name == before else name: value for name, value in obj.get("spec", {}).items()}
        return obj | {"apiVersion": version, "spec": spec}

    live = live_object({"title": "Mr", "size": 3})
    found, asked = carry({"f:name": {}, "f:size": {}}, live, rules, renamed)
    assert [[each.obj.get("spec") for each in batch] for batch in asked] == [
        [{"title": "Mr", "size": 3}],
        [{"name": "Mr", "size": 3}],
        [{"title": "Mr", "size": 3}],
    ]
    assert found == ConvertedEntry({"f:spec": {"f:title": {}, "f:size": {}}})


def test_managed_fields_are_not_sent() -> None:
    """They are most of an object's bytes, and no conversion may look at them."""
    live = live_object({"size": 3}, managedFields=[{"manager": "alice"}], labels={"a": "b"})
    _found, asked = carry({"f:size": {}}, live, JOINT, joint)
    assert asked[0][0].obj["metadata"] == {"name": "w", "uid": "u", "labels": {"a": "b"}}
    assert "managedFields" in live["metadata"]


# The converter says no, or nothing.


def failing(when: Callable[[Json, str], bool], *, refused: bool) -> Converts:
    """A converter that does not convert some objects."""

    def convert(obj: Json, to: str) -> Answer:
        return Unconverted("out of order", refused=refused) if when(obj, to) else joint(obj, to)

    return convert


def is_whole(obj: Json, to: str) -> bool:
    return to == V1 and "color" in obj["spec"]


def is_part(obj: Json, to: str) -> bool:
    return to == V2


def is_bare(obj: Json, to: str) -> bool:
    return to == V2 and not obj["spec"]


def is_back(obj: Json, to: str) -> bool:
    return to == V1 and obj["spec"] != LIVE["spec"]


OWNS = entry("alice", "v1", {"f:spec": {"f:cpu": {}, "f:unit": {}}})
REMOVED = rules_of(SIZES, SIZES, removed=True)


@pytest.mark.parametrize("rules", [JOINT, REMOVED], ids=["a version of the CRD", "a removed version"])
@pytest.mark.parametrize("when", [is_whole, is_part, is_back], ids=["whole", "part", "back"])
def test_an_answer_that_was_not_given_may_be_given_another_time(rules: EntryPolicies, when: Any) -> None:
    """Stripping what a broken webhook did not answer for would lose owners that it could carry over once healed."""
    translation, _asked = drive(translate([OWNS], LIVE, rules), failing(when, refused=False))
    assert "out of order" in translation.failure


def test_a_bare_part_that_was_not_answered_for_is_a_failure_too() -> None:
    """Without it nobody can tell what is made up."""
    rules, live = SWITCH, live_object({"paused": True, "size": 0})

    def convert(obj: Json, to: str) -> Answer:
        return Unconverted("out of order", refused=False) if not obj["spec"] and to == V2 else switch(obj, to)

    translation, _asked = drive(translate([entry("alice", "v1", {"f:spec": {"f:on": {}}})], live, rules), convert)
    assert translation.failure


def test_a_whole_object_that_is_refused_fails_it() -> None:
    """The CRD has the version, so its converter must be able to: something is broken that a person has to see."""
    translation, _asked = drive(translate([OWNS], LIVE, JOINT), failing(is_whole, refused=True))
    assert translation.failure == f"it cannot be converted to {V1}, at which managers own fields of it: out of order"


def test_a_version_that_the_converter_has_forgotten_is_not_carried_over() -> None:
    """It left the CRD, and its converter too: the entry would fail every apply for ever if it stayed."""
    translation, _asked = drive(translate([OWNS], LIVE, REMOVED), failing(is_whole, refused=True))
    assert translation == Translation({0: ConvertedEntry(complete=False)})


def test_a_part_that_is_refused_is_not_carried_over() -> None:
    """Converters that insist on whole objects exist; the object itself is none the worse for it."""
    translation, _asked = drive(translate([OWNS], LIVE, JOINT), failing(is_part, refused=True))
    assert translation == Translation({0: ConvertedEntry(complete=False)})


def test_what_cannot_be_proven_is_not_called_complete() -> None:
    """An entry of a served version stays until somebody can say that nothing of it is lost."""
    translation, _asked = drive(translate([OWNS], LIVE, JOINT), failing(is_back, refused=True))
    assert translation == Translation({0: ConvertedEntry({"f:spec": {"f:cpu": {}}}, complete=False)})


def test_a_bare_part_that_is_refused_proves_nothing() -> None:
    """A converter that wants a field to be there makes nothing up without it."""
    live = live_object({"paused": True, "size": 0})

    def convert(obj: Json, to: str) -> Answer:
        if to == V2 and not obj["spec"]:
            return Unconverted("nothing to convert")
        return pick(obj, to)

    def pick(obj: Json, to: str) -> Json:
        return {**switch(obj, to), "spec": {k: v for k, v in switch(obj, to)["spec"].items() if k != "size"}}

    found, _asked = carry({"f:on": {}}, live, SWITCH, convert)
    assert members(spec_of(found)) == {("f:paused",)}


# Which entries are due, and what a plan supposes of them.


def test_only_what_has_to_be_converted_is() -> None:
    """Entries at the storage version, of labels alone, of another group: none of them is the converter's business."""
    label = {"f:metadata": {"f:labels": {"f:a": {}}}}
    foreign = msgspec.structs.replace(OWNS, api_version="other/v1")
    entries = [entry("a", "v2"), entry("b", "v1", label), foreign]
    assert drive(translate(entries, LIVE, JOINT), joint) == (Translation(), [])
    assert supposed(entries, JOINT) == (Translation(), 0)


def test_an_entry_that_is_no_field_set_is_left_to_the_decision() -> None:
    """One malformed entry must not end the page that its object is on."""
    odd = msgspec.structs.replace(OWNS, fields=msgspec.Raw(b"[]"))
    assert drive(translate([odd], LIVE, JOINT), joint) == (Translation(), [])


def test_a_plan_supposes_that_all_is_carried_over_and_counts() -> None:
    """The numbers decide on a maintenance window: each must hold whatever the converter answers."""
    entries: list[ManagedFieldsEntry] = [OWNS, entry("bob", "v1"), entry("carol", "v2")]
    translation, conversions = supposed(entries, JOINT)
    assert translation.converted == {
        0: ConvertedEntry({"f:spec": {"f:cpu": {}, "f:unit": {}}}),
        1: ConvertedEntry({"f:spec": {"f:size": {}}}),
    }
    assert conversions == 13
    for converts in (joint, switch, failing(is_back, refused=True)):
        _translation, asked = drive(translate(entries, LIVE, JOINT), converts)
        assert sum(map(len, asked)) <= conversions


def countdown(name: str, times: int) -> Steps[str]:
    """A piece of work of so many questions."""
    for number in range(times):
        [answer] = yield [Conversion({"spec": {name: number}}, V2)]
        assert isinstance(answer, dict) and answer["spec"] == {name: number}
    return name


def test_pieces_of_work_go_side_by_side_and_get_their_own_answers() -> None:
    """An answer that reached another piece of work would give one manager what another one owns."""
    result, asked = drive(together([countdown("a", 3), countdown("b", 0), countdown("c", 2)]), lambda obj, _to: obj)
    assert result == ["a", "b", "c"]
    assert [[each.obj["spec"] for each in batch] for batch in asked] == [
        [{"a": 0}, {"c": 0}],
        [{"a": 1}, {"c": 1}],
        [{"a": 2}],
    ]


def test_from_paths_is_the_inverse_of_members() -> None:
    """What was carried is a set of paths; as an entry it must own exactly those."""
    paths = {("f:a",), ("f:a", "f:b"), ("f:c", 'k:{"n": 1}', "f:d")}
    assert members(from_paths(paths)) == paths
    assert from_paths([("f:a",)]) == {"f:a": {}}
