"""Fields whose place depends on others: each goes with its owners, and with nobody else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.crds.fieldpath import FieldSet
from restow.migrator.decide.policies import entry_policies
from restow.migrator.model.converter import Answer, Json, Unconverted
from restow.migrator.model.options import Options
from restow.migrator.ownership.conversion import Conversion, ConvertedEntry
from restow.migrator.ownership.entries import ManagedFieldsEntry
from restow.migrator.ownership.policy import EntryPolicies
from restow.migrator.ownership.translation import Translation, supposed, translate
from tests.migrator import builders as b
from tests.migrator.builders import api_version, entry
from tests.migrator.oracle import Path, field_set, members
from tests.migrator.ownership.test_translation import Converts, drive

V1, V2 = api_version("v1"), api_version("v2")
TYPES = ("a", "b")
STASH = "stash"

UNION1 = {"type": b.STRING, "value": b.STRING, "weight": b.INTEGER}
SIDE = b.struct(value=b.STRING, weight=b.INTEGER)
UNION2 = {"type": b.STRING, "a": SIDE, "b": SIDE}
SPEC1 = b.struct(
    **UNION1,
    size=b.INTEGER,
    debug=b.STRING,
    items=b.keyed_list(b.struct(name=b.STRING, **UNION1), "name"),
)
SPEC2 = b.struct(**UNION2, size=b.INTEGER, items=b.keyed_list(b.struct(name=b.STRING, **UNION2), "name"))
LEVEL1, LEVEL2 = b.struct(**UNION1), b.struct(**UNION2)


def rules_of(*, removed: bool = False) -> EntryPolicies:
    """The policies of a CRD with strategy Webhook, whose union v2 tells apart by structure."""
    schemas = {"v1": b.struct(spec=SPEC1, status=LEVEL1), "v2": b.struct(spec=SPEC2, status=LEVEL2)}
    return entry_policies(b.crd(("v2",) if removed else ("v1", "v2"), schemas=schemas, webhook=True), Options())


RULES = rules_of()


def sorted_out(part: Json) -> Json:
    """What v1 says of a union, as v2 says it: without a type nothing has a place."""
    rest = {name: value for name, value in part.items() if name not in ("value", "weight")}
    side = {name: part[name] for name in ("value", "weight") if name in part}
    return rest | {part["type"]: side} if side and "type" in part else rest


def put_together(part: Json) -> Json:
    """What v2 says of a union, as v1 says it."""
    return {name: value for name, value in part.items() if name not in TYPES} | part.get(part.get("type", ""), {})


def convert(obj: Json, to: str) -> Json:
    """A converter that keeps debug, which v2 cannot say, in an annotation."""
    if obj["apiVersion"] == to:
        return obj
    change = sorted_out if to == V2 else put_together
    annotations = dict(obj["metadata"].get("annotations", {}))
    made = obj | {"apiVersion": to}
    for name in ("spec", "status"):
        if name in obj:
            made[name] = change(obj[name])
    if "spec" in made:
        if "items" in made["spec"]:
            made["spec"]["items"] = [change(item) for item in made["spec"]["items"]]
        if to == V2 and "debug" in made["spec"]:
            annotations[STASH] = made["spec"].pop("debug")
        elif to == V1 and STASH in annotations:
            made["spec"]["debug"] = annotations.pop(STASH)
    metadata = {name: value for name, value in obj["metadata"].items() if name != "annotations"}
    return made | {"metadata": metadata | ({"annotations": annotations} if annotations else {})}


def filling(obj: Json, to: str) -> Json:
    """The same, as a typed converter does it: every field is there in v2, empty or with a default."""
    made = convert(obj, to)
    if to == V2:
        spec = made.get("spec", {})
        side = {"value": "none", "weight": 0}
        spec = {"type": "", "size": 0} | spec | {name: side | spec.get(name, {}) for name in TYPES}
        made["spec"] = spec
    return made


def untyped(obj: Json, to: str) -> Json:
    """The same, but v2 has no type: the side that is there tells."""
    if to == V1:
        spec = obj.get("spec", {})
        types = [name for name in TYPES if name in spec]
        return convert(obj | {"spec": spec | ({"type": types[0]} if types else {})}, to)
    made = convert(obj, to)
    return made | {"spec": {name: value for name, value in made.get("spec", {}).items() if name != "type"}}


def a_live(spec1: Json, converts: Converts = convert, status1: Json | None = None, **annotations: str) -> Json:
    """The live object at v2, by what it says at v1."""
    metadata = {"name": "w", "uid": "u"} | ({"annotations": annotations} if annotations else {})
    v1 = {"apiVersion": V1, "kind": "Widget", "metadata": metadata, "spec": spec1}
    live = converts(v1 | ({"status": status1} if status1 is not None else {}), V2)
    assert not isinstance(live, Unconverted)
    return live


def carry(
    live: Json, *owners: FieldSet, converts: Converts = convert, rules: EntryPolicies = RULES
) -> tuple[list[ConvertedEntry], list[list[Conversion]]]:
    """What became of entries at v1 that own these fields."""
    entries = [entry(f"m{number}", "v1", fields) for number, fields in enumerate(owners)]
    translation, asked = drive(translate(entries, live, rules), converts)
    assert not translation.failure
    assert sum(map(len, asked)) <= supposed(entries, rules)[1]
    return [translation.converted[number] for number in range(len(owners))], asked


def of(fields: FieldSet) -> FieldSet:
    """A set below the spec."""
    return {"f:spec": fields}


# Any union, and any owners of it.

NUMBERS = st.integers(1, 3)
UNIONS = st.fixed_dictionaries(
    {"type": st.sampled_from(TYPES)}, optional={"value": st.sampled_from(["x", "y", "a", "1"]), "weight": NUMBERS}
)
ITEMS = st.dictionaries(st.sampled_from("pqr"), UNIONS, max_size=2).map(
    lambda items: {"items": [{"name": name} | item for name, item in items.items()]} if items else {}
)
OTHERS = st.fixed_dictionaries({}, optional={"size": NUMBERS, "debug": st.sampled_from(["x", "all"])})


def leaves(spec: Json) -> dict[Path, Path | None]:
    """The paths to own at v1, and where each is at v2; None where v2 cannot say it."""
    found: dict[Path, Path | None] = {}

    def union(part: Json, path: Path) -> None:
        for name in part:
            here = (*path, f"f:{name}")
            found[here] = (*path, f"f:{part['type']}", f"f:{name}") if name in ("value", "weight") else here

    for item in spec.get("items", []):
        path = ("f:spec", "f:items", f'k:{{"name": "{item["name"]}"}}')
        found[path] = path
        union(item, path)
    union({name: value for name, value in spec.items() if name != "items"}, ("f:spec",))
    return {path: None if path[-1] == "f:debug" else there for path, there in found.items()}


@st.composite
def owned_unions(draw: st.DrawFn) -> tuple[Json, list[frozenset[Path]]]:
    """What an object says at v1, and what each of some managers owns of it."""
    spec = draw(UNIONS) | draw(ITEMS) | draw(OTHERS)
    every = sorted(leaves(spec))
    owners = draw(st.lists(st.frozensets(st.sampled_from(every), min_size=1), min_size=1, max_size=3))
    return spec, [frozenset(with_names(paths)) for paths in owners]


def with_names(paths: frozenset[Path]) -> frozenset[Path]:
    """Whoever owns an item owns its key, as in any set that a server writes."""
    items = {path[:3] for path in paths if len(path) == 3 or (len(path) == 4 and path[3] == "f:name")}
    return paths | items | {(*path, "f:name") for path in items}


@given(owned_unions(), st.sampled_from([convert, filling]), st.booleans())
def test_every_field_goes_with_its_owners_and_with_nobody_else(
    owned: tuple[Json, list[frozenset[Path]]], converts: Converts, removed: bool
) -> None:
    """A field too few would stay for ever, one too many be defended against its owner."""
    spec, owners = owned
    there, live = leaves(spec), a_live(spec, converts)
    found, _asked = carry(live, *map(field_set, owners), converts=converts, rules=rules_of(removed=removed))
    for carried, paths in zip(found, owners, strict=True):
        assert members(carried.fields) == {there[path] for path in paths} - {None}
        assert carried.complete == (("f:spec", "f:debug") not in paths)


# One thing at a time.

VALUE, TYPE = of({"f:value": {}}), of({"f:type": {}})
A_VALUE = of({"f:a": {"f:value": {}}})
LIVE = a_live({"type": "a", "value": "x", "size": 1})


def test_owners_of_one_field_each_get_it() -> None:
    """Each of them left out alone leaves the others' claim as it is, at the old version as at the new one."""
    found, _asked = carry(LIVE, VALUE, TYPE, of({"f:value": {}, "f:size": {}}))
    assert [each.fields for each in found] == [A_VALUE, TYPE, of({"f:size": {}, "f:a": {"f:value": {}}})]
    assert all(each.complete for each in found)


def unfilled(obj: Json, to: str) -> Json:
    """The same, but an empty side tells nothing."""
    return untyped(obj | {"spec": {name: side for name, side in obj.get("spec", {}).items() if side != {}}}, to)


@pytest.mark.parametrize("converts", [untyped, unfilled])
def test_whoever_owns_the_type_alone_does_not_get_the_value(converts: Converts) -> None:
    """In a version without types the value moves with the type, but it was never his."""
    live = a_live({"type": "a", "value": "x"}, converts)
    found, _asked = carry(live, TYPE, VALUE, converts=converts)
    assert [each.fields for each in found] == [{}, A_VALUE]
    assert [each.complete for each in found] == [False, True]
    assert list(found[0].lost) == [("f:spec", "f:type")]


def test_an_empty_value_goes_with_its_owner() -> None:
    """It says something where the converter fills nothing in: its owner could not change it any more."""
    live = a_live({"type": "a", "value": ""})
    found, _asked = carry(live, VALUE, TYPE)
    assert found == [ConvertedEntry(A_VALUE), ConvertedEntry(TYPE)]


def test_a_value_that_another_field_has_too_is_still_its_owners() -> None:
    """By its text alone it would be taken for the other field's, which v2 cannot say."""
    found, _asked = carry(a_live({"type": "a", "value": "x", "debug": "x"}), VALUE)
    assert found == [ConvertedEntry(A_VALUE)]


ATOMIC = b.atomic(b.struct(name=b.STRING, x=b.STRING))
ITEM = {"name": "p", "x": "1"}


@pytest.mark.parametrize(
    ("node", "value", "owned", "removed"),
    [
        (ATOMIC, ITEM, {}, False),
        (b.atomic_list(b.STRING), ["x", "y"], {}, False),
        (b.atomic_list(b.STRING), ["x", "y"], {}, True),
        (b.set_list(b.STRING), ["x"], {'v:"x"': {}}, False),
        (b.set_list(b.STRING), ["x"], {'v:"x"': {}}, True),
        (b.keyed_list(ATOMIC, "name"), [ITEM], {'k:{"name":"p"}': {}}, False),
        (b.keyed_list(ATOMIC, "name"), [ITEM], {'k:{"name":"p"}': {}}, True),
    ],
    ids=["object", "list", "list, removed", "set", "set, removed", "items", "items, removed"],
)
def test_a_value_that_is_a_whole_goes_with_its_owner(node: b.Node, value: Any, owned: FieldSet, removed: bool) -> None:
    """An object, a list or an item that is owned as one would be stripped, where a text is carried over."""
    side = b.struct(value=node)
    schemas = {
        "v1": b.struct(spec=b.struct(type=b.STRING, value=node)),
        "v2": b.struct(spec=b.struct(type=b.STRING, a=side, b=side)),
    }
    rules = entry_policies(b.crd(("v2",) if removed else ("v1", "v2"), schemas=schemas, webhook=True), Options())
    found, _asked = carry(a_live({"type": "a", "value": value}), of({"f:value": owned}), TYPE, rules=rules)
    assert found == [ConvertedEntry(of({"f:a": {"f:value": owned}})), ConvertedEntry(TYPE)]


def test_an_object_that_a_typed_converter_empties_is_not_there() -> None:
    """The way back would show the object still, and its owner lose what is in it."""

    def emptying(obj: Json, to: str) -> Json:
        made = convert(obj, to)
        return made if to == V2 else made | {"spec": {"value": {"x": ""}} | made["spec"]}

    node = b.atomic(b.struct(x=b.STRING))
    side = b.struct(value=node)
    schemas = {
        "v1": b.struct(spec=b.struct(type=b.STRING, value=node)),
        "v2": b.struct(spec=b.struct(type=b.STRING, a=side, b=side)),
    }
    rules = entry_policies(b.crd(schemas=schemas, webhook=True), Options())
    found, _asked = carry(a_live({"type": "a", "value": {"x": "1"}}), VALUE, converts=emptying, rules=rules)
    assert found == [ConvertedEntry(A_VALUE)]


def test_the_status_is_carried_by_its_own_managers() -> None:
    """A status depends on a spec often enough; its managers can own nothing of that."""

    def reflecting(obj: Json, to: str) -> Json:
        made = convert(obj, to)
        ready = "on" if made.get("status", {}).get("a") else "off"
        return made | {"spec": made.get("spec", {}) | {"a": {"value": ready}}} if to == V2 else made

    live = a_live({"type": "a"}, reflecting, {"type": "a", "value": "x"})
    found, _asked = carry(live, {"f:status": {"f:value": {}}}, converts=reflecting)
    assert found == [ConvertedEntry({"f:status": {"f:a": {"f:value": {}}}})]


def test_what_is_lost_next_to_a_value_is_said() -> None:
    """The report must name an owner who lost a part, though the rest of it found its place."""
    live = a_live({"type": "a", "value": "x", "debug": "all"})
    found, _asked = carry(live, of({"f:value": {}, "f:debug": {}}))
    assert found == [ConvertedEntry(A_VALUE, complete=False)]
    assert dict(found[0].lost) == {("f:spec", "f:debug"): "all"}


def test_a_field_that_only_a_digest_depends_on_is_not_carried() -> None:
    """A value that is worked out from all others changes with each of them, and is no image of any."""

    def digesting(obj: Json, to: str) -> Json:
        made = convert(obj, to)
        spec = {name: value for name, value in made["spec"].items() if name != "size"}
        return made | {"spec": spec | ({"size": len(str(obj))} if to == V2 else {})}

    live = a_live({"type": "a", "debug": "all"}, digesting)
    found, _asked = carry(live, of({"f:debug": {}}), converts=digesting)
    assert found == [ConvertedEntry(complete=False)]


def test_a_field_that_stays_without_what_depends_on_it_is_not_carried() -> None:
    """Its owner would own a number that is worked out from all fields, and not the field."""

    def counting(obj: Json, to: str) -> Answer:
        if "size" not in obj["spec"]:
            return Unconverted("it has no size")
        spec = {name: value for name, value in obj["spec"].items() if name != "weight"}
        return obj | {"apiVersion": to, "spec": {"type": "a"} | spec | ({"weight": len(spec)} if to == V2 else {})}

    schemas = dict.fromkeys(("v1", "v2"), b.struct(spec=b.struct(type=b.STRING, size=b.INTEGER, weight=b.INTEGER)))
    rules = entry_policies(b.crd(schemas=schemas, webhook=True), Options())
    found, _asked = carry(a_live({"type": "a", "size": 3}, counting), TYPE, converts=counting, rules=rules)
    assert found == [ConvertedEntry(complete=False)]
    assert dict(found[0].lost) == {("f:spec", "f:type"): "a"}


def named(obj: Json, to: str) -> Json:
    """v1 says by name, and with a type, what v2 says in a list, with the sum of an item that has both halves."""
    spec = obj.get("spec", {})
    if to == V2:
        items = [{"name": name, **_sum(item)} for name, item in spec.get("named", {}).items()] if "type" in spec else []
        return obj | {"apiVersion": to, "spec": {"list": items} if items else {}}
    halves = {
        item["name"]: dict(zip("xy", item["sum"].split("/"), strict=True)) if "sum" in item else {}
        for item in spec.get("list", [])
    }
    return obj | {"apiVersion": to, "spec": {"type": "all", "named": halves} if halves else {}}


def _sum(item: Json) -> Json:
    return {"sum": f"{item['x']}/{item['y']}"} if item.keys() >= {"x", "y"} else {}


NAMED = entry_policies(
    b.crd(
        schemas={
            "v1": b.struct(spec=b.struct(type=b.STRING, named=b.mapping(b.struct(x=b.STRING, y=b.STRING)))),
            "v2": b.struct(spec=b.struct(list=b.keyed_list(b.struct(name=b.STRING, sum=b.STRING), "name"))),
        },
        webhook=True,
    ),
    Options(),
)


def test_an_item_whose_key_is_a_name_in_the_old_version_is_not_his_who_owns_the_type() -> None:
    """The owner of the type would get the key, which another manager owns as the name of a field."""
    live = a_live({"type": "all", "named": {"p": {}}}, named)
    found, _asked = carry(live, TYPE, converts=named, rules=NAMED)
    assert found == [ConvertedEntry(complete=False)]


def test_what_is_worked_out_from_a_value_is_its_owners() -> None:
    """It is neither his value nor a value that only moved: its owner could not change it any more."""
    live = a_live({"type": "all", "named": {"p": {"x": "1", "y": "2"}}}, named)
    half = of({"f:named": {"f:p": {"f:x": {}}}})
    found, _asked = carry(live, half, converts=named, rules=NAMED)
    assert found == [ConvertedEntry(of({"f:list": {'k:{"name":"p"}': {"f:sum": {}}}}))]


def test_the_usual_case_costs_no_more_conversions() -> None:
    """A webhook is asked for the whole twice more only where something is lost, and then for all owners together."""
    _found, asked = carry(LIVE, TYPE, of({"f:size": {}}))
    assert [[each.api_version for each in batch] for batch in asked] == [[V1], [V2, V2]]
    _found, asked = carry(LIVE, VALUE, TYPE, VALUE)
    assert [[each.api_version for each in batch] for batch in asked] == [[V1], [V2] * 3, [V2] * 3, [V1] * 2]


# The converter says no, or nothing.


@pytest.mark.parametrize("refused", [True, False], ids=["refused", "not answered"])
@pytest.mark.parametrize("step", ["without his part", "back"])
def test_a_converter_that_insists_on_what_was_left_out(step: str, refused: bool) -> None:
    """A refusal leaves it at what was carried; an answer that was not given may be given another time."""

    def insisting(obj: Json, to: str) -> Answer:
        lacking = "value" not in obj["spec"] if to == V2 else "value" not in obj["spec"].get("a", {})
        if lacking and obj["spec"] and (to == V2) == (step == "without his part"):
            return Unconverted("there is no value", refused=refused)
        return convert(obj, to)

    entries: list[ManagedFieldsEntry] = [entry("bob", "v1", VALUE)]
    translation, _asked = drive(translate(entries, LIVE, RULES), insisting)
    if refused:
        assert translation == Translation({0: ConvertedEntry(complete=False)})
    else:
        assert translation.failure == "there is no value"


def test_a_refusal_concerns_the_entry_that_it_was_met_for() -> None:
    """The owners of all other fields would lose them with the one whose field the converter insists on."""

    def insisting(obj: Json, to: str) -> Answer:
        lacking = to == V1 and "value" not in obj["spec"].get("a", {"value": ""})
        return Unconverted("there is no value") if lacking else convert(obj, to)

    weight = of({"f:weight": {}})
    live = a_live({"type": "a", "value": "x", "weight": 1})
    found, _asked = carry(live, VALUE, weight, TYPE, converts=insisting)
    assert found == [
        ConvertedEntry(complete=False),
        ConvertedEntry(of({"f:a": {"f:weight": {}}})),
        ConvertedEntry(TYPE),
    ]


@pytest.mark.parametrize("refused", [True, False], ids=["refused", "not answered"])
def test_a_converter_that_takes_no_whole_object(refused: bool) -> None:
    """Where it takes parts alone it leaves it at what was carried; an answer may be given another time."""

    def insisting(obj: Json, to: str) -> Answer:
        is_whole = to == V2 and obj["spec"].keys() >= {"type", "value", "size"}
        return Unconverted("it is too large", refused=refused) if is_whole else convert(obj, to)

    translation, _asked = drive(translate([entry("bob", "v1", VALUE)], LIVE, RULES), insisting)
    if refused:
        assert translation == Translation({0: ConvertedEntry(complete=False)})
    else:
        assert translation.failure == "it is too large"


@pytest.mark.parametrize("refused", [True, False], ids=["refused", "not answered"])
def test_a_converter_that_insists_on_its_own_annotation(refused: bool) -> None:
    """Without the object as it was, nothing shows what changes; an answer may be given another time."""

    def insisting(obj: Json, to: str) -> Answer:
        lacking = to == V1 and STASH not in obj["metadata"].get("annotations", {}) and "value" in obj["spec"]["a"]
        return Unconverted("there is no stash", refused=refused) if lacking else convert(obj, to)

    live = a_live({"type": "a", "value": "x", "debug": "all"})
    translation, _asked = drive(translate([entry("bob", "v1", VALUE)], live, RULES), insisting)
    if refused:
        assert translation == Translation({0: ConvertedEntry(complete=False)})
    else:
        assert translation.failure == "there is no stash"


def test_a_converter_that_takes_whole_objects_alone() -> None:
    """The part alone is refused, and the whole without it is not: that is enough to tell."""

    def whole(obj: Json, to: str) -> Answer:
        return Unconverted("it has no size") if "size" not in obj["spec"] else convert(obj, to)

    found, _asked = carry(LIVE, VALUE, converts=whole)
    assert found == [ConvertedEntry(A_VALUE)]


def test_annotations_of_the_converter_are_left_out() -> None:
    """A stash gives back what was left out, or goes with what it was made for: neither tells an owner anything."""
    live = a_live({"type": "a", "value": "x", "debug": "all"}, mine="thing")
    _found, asked = carry(live, VALUE)
    told: list[Any] = [each.obj["metadata"].get("annotations") for batch in asked[2:] for each in batch]
    assert told and all(each == {"mine": "thing"} for each in told)
