"""Every standard rule in every place: the laws, what it shows, and what is refused when it is declared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from restow.conversion import DefinitionError, Registry, rules
from restow.conversion.compile.graph import KindGraph
from restow.conversion.explain import explain
from restow.conversion.rulefiles import dump, load
from restow.conversion.testing.laws import Laws
from restow.conversion.testing.strategies import Generator, objects, partial_objects
from tests.conversion.rules.standardkinds import (
    ANYTHING,
    BOOLEAN,
    CASES,
    GROUP,
    INTEGER,
    KIND,
    NUMBER,
    TEXT,
    Case,
    crd_of,
    everywhere,
    frozen,
    listed,
    mapped,
    obj,
    overrides,
    spec_of,
)

Strategy = st.SearchStrategy[Any]


@pytest.mark.parametrize("source", ["v1", "v2"])
@pytest.mark.parametrize("name", CASES)
def test_every_rule_holds_the_laws_in_every_place(name: str, source: str) -> None:
    """A rule would lose, invent or mix up values, in some place or for some values of its fields."""
    case, target = CASES[name], "v1" if source == "v2" else "v2"
    kind = frozen(everywhere(case.rule), crd_of(spec_of(case.spoke), spec_of(case.hub))).kind(GROUP, KIND)
    laws, whole, parts = Laws(kind), _objects(kind, target, case), _objects(kind, source, case, partial_objects)

    @settings(max_examples=15, suppress_health_check=list(HealthCheck))
    @given(thing=_objects(kind, source, case), edited=whole, parts=parts)
    def check(thing: Any, edited: Any, parts: Any) -> None:
        laws.round_trip(thing, target)
        laws.determinism(thing, target)
        laws.unchanged_input(thing, target)
        laws.validity(thing, target)
        laws.partial(*parts, target)
        laws.round_trip(parts[1], target)
        laws.edits_win(thing, edited)
        laws.forget(thing, target)

    check()


@pytest.mark.parametrize("more", [{"other": "text"}, {}], ids=["next to another field", "alone"])
def test_a_part_of_a_value_may_fit_where_the_whole_does_not(more: dict[str, str]) -> None:
    """The laws would report the rule ``described`` for an object with an undeclared field."""
    case = CASES["described by the hub"]
    kind = frozen(everywhere(case.rule), crd_of(spec_of(case.spoke), spec_of(case.hub))).kind(GROUP, KIND)
    part = {"apiVersion": f"{GROUP}/v1", "kind": KIND, "spec": {"a": {"x": 1}}}
    Laws(kind).partial({**part, "spec": {"a": {"x": 1, "z": 2}, **more}}, part, "v2")


def _objects(kind: KindGraph, version: str, case: Case, generate: Callable[..., Strategy] = objects) -> Strategy:
    schema = kind.schema(version)
    assert schema is not None
    generator = Generator(overrides(case.spoke_values if version == "v1" else case.hub_values))
    return generate(schema, f"{GROUP}/{version}", KIND, generator=generator)


def convert(rule: rules.Rule, fields: Any, *, up: bool) -> tuple[Any, bool]:
    """Return the spec that one is converted to, and whether converting it back needs the stash."""
    graph = frozen([rules.inside("spec", [rule])], None)
    source, target = ("v1", "v2") if up else ("v2", "v1")
    obj = {"apiVersion": f"{GROUP}/{source}", "kind": KIND, "metadata": {"name": "a"}, "spec": {"zz": 1, **fields}}
    there = graph.convert(obj, f"{GROUP}/{target}")
    assert graph.convert(there, f"{GROUP}/{source}") == obj
    return {name: value for name, value in there["spec"].items() if name != "zz"}, "annotations" in there["metadata"]


SECONDS = rules.duration("a", "b", unit="s")
MEBIBYTES = rules.quantity("a", "b", unit="Mi")
SIZE = rules.scale("a", "b", factor="1.5")
PORT = rules.cast("a", "b", spoke_type="int-or-string", hub_type="string")
COUNT = rules.cast("a", "b", spoke_type="string", hub_type="integer")
SWITCH = rules.enum("a", [[True, "On"], [False, "Off"], [1, "One"]], hub="b")

#: rule, direction, what is there, what is shown of it (``...`` for nothing), whether it needs the stash.
SHOWN = [
    (SECONDS, "up", "1m30s", 90, False),
    (SECONDS, "up", "90s", 90, True),
    (SECONDS, "up", "1500ms", 1, True),
    (SECONDS, "up", "soon", ..., True),
    (SECONDS, "up", None, None, False),
    (SECONDS, "up", ["1m"], ["1m"], False),
    (SECONDS, "up", 5, 5, True),
    (SECONDS, "up", "${DRAIN:-10m0s}", "${DRAIN:-10m0s}", False),
    (SECONDS, "up", "{{ .Values.drain }}", "{{ .Values.drain }}", False),
    (SECONDS, "up", "$(DRAIN)", "$(DRAIN)", False),
    (SECONDS, "down", 5400, "1h30m0s", False),
    (SECONDS, "down", 10**17, ..., True),
    (SECONDS, "down", True, True, False),
    (rules.duration("a", "b", unit="s", otherwise=-1), "up", "soon", -1, True),
    (rules.duration("a", "b", unit="d", rounding="up"), "up", "25h0m0s", 2, True),
    (rules.duration("a", "b", unit="h", number="number"), "up", "1h30m0s", 1.5, False),
    (MEBIBYTES, "up", "1Gi", 1024, False),
    (MEBIBYTES, "up", "1024Mi", 1024, True),
    (MEBIBYTES, "up", "1k", 1, True),
    (MEBIBYTES, "up", 1048576, 1, True),
    (MEBIBYTES, "up", "much", ..., True),
    (MEBIBYTES, "down", 1536, "1536Mi", False),
    (rules.quantity("a", "b", unit="m"), "down", 1500, "1500m", False),
    (rules.quantity("a", "b", unit="M", format="exponent"), "down", 2, "2e6", False),
    (SIZE, "up", 2, 3, False),
    (SIZE, "up", 1, 2, False),
    (SIZE, "down", 3, 2, False),
    (SIZE, "down", "3", "3", False),
    (rules.scale("a", "b", factor=0.1, hub_type="number"), "up", 3, 0.3, False),
    (PORT, "up", 80, "80", False),
    (PORT, "up", "80%", "80%", False),
    (PORT, "up", "80", "80", True),
    (PORT, "down", "80", 80, False),
    (COUNT, "up", "7", 7, False),
    (COUNT, "up", "007", 7, True),
    (COUNT, "up", "x", ..., True),
    (COUNT, "up", "9" * 5000, ..., True),
    (rules.cast("a", "b", spoke_type="number", hub_type="string"), "up", 1.5, "1.5", False),
    (SWITCH, "up", True, "On", False),
    (SWITCH, "up", 1, "One", False),
    (SWITCH, "up", 1.0, 1.0, False),
    (SWITCH, "down", "Off", False, False),
]


@pytest.mark.parametrize(("rule", "way", "value", "shown", "stashed"), SHOWN)
def test_what_is_shown_and_what_needs_the_stash(
    rule: rules.Rule, way: str, value: Any, shown: Any, stashed: bool
) -> None:
    """A value would be shown as another one, or the stash would be used for what comes back anyway."""
    here, there = ("a", "b") if way == "up" else ("b", "a")
    expected = {} if shown is ... else {there: shown}
    converted, has_stash = convert(rule, {here: value}, up=way == "up")
    assert repr(converted) == repr(expected)
    assert has_stash is stashed


@pytest.mark.parametrize(
    ("rule", "value", "back"),
    [
        (rules.duration("a", "b", unit="s", acknowledge="the same time"), "90s", "1m30s"),
        (rules.duration("a", "b", unit="s", acknowledge="the same time"), "1500ms", "1500ms"),
        (rules.duration("a", "b", unit="s", acknowledge="the same time"), "soon", "soon"),
        (rules.duration("a", "b", unit="s", acknowledge="the same time"), "${A}", "${A}"),
        (rules.duration("a", "b", unit="s", otherwise=0, acknowledge="the same time"), "soon", "soon"),
        (rules.quantity("a", "b", unit="Mi", acknowledge="the same size"), "1024Mi", "1Gi"),
        (rules.quantity("a", "b", unit="Mi", acknowledge="the same size"), 2**20, "1Mi"),
        (rules.quantity("a", "b", unit="Mi", acknowledge="the same size"), "1k", "1k"),
    ],
)
def test_an_acknowledged_spelling_comes_back_canonical(rule: rules.Rule, value: Any, back: Any) -> None:
    """The stash would keep a spelling that is no loss, or lose a text whose number does not mean the same."""
    graph = frozen([rules.inside("spec", [rule])], None)
    obj = {"apiVersion": f"{GROUP}/v1", "kind": KIND, "metadata": {"name": "a"}, "spec": {"a": value}}
    there = graph.convert(obj, f"{GROUP}/v2")
    assert ("annotations" in there["metadata"]) is (value == back and "$" not in back)
    assert graph.convert(there, f"{GROUP}/v1")["spec"] == {"a": back}


def _problems(rule: rules.Rule, spoke: dict[str, Any], hub: dict[str, Any], **more: Any) -> list[str]:
    with pytest.raises(DefinitionError) as caught:
        frozen([rules.inside("spec", [rule])], crd_of(obj(spoke), obj(hub, **more)))
    return [f"{each.version} {each.path} {each.problem}" for each in caught.value.diagnostics]


texts = {"type": "array", "items": TEXT}
ports = {"type": "array", "items": obj({"name": TEXT, "port": INTEGER})}

BOX = obj({"x": INTEGER})
NAME = rules.copy(["profile", "name"], "profile")

#: rule, the spoke's fields, the hub's fields, which field is refused, and how.
REFUSED = [
    (SECONDS, {"a": INTEGER}, {"b": INTEGER}, "v1 .spec.a", "is an integer, not a string"),
    (SECONDS, {"a": TEXT}, {"b": NUMBER}, "v2 .spec.b", "is a number, not an integer"),
    (MEBIBYTES, {"a": BOOLEAN}, {"b": INTEGER}, "v1 .spec.a", "is a boolean, not an integer or a string"),
    (
        rules.duration("a", "b", unit="ns"),
        {"a": TEXT},
        {"b": {"type": "integer", "format": "int32"}},
        "v2 .spec.b",
        "is an int32, which holds no more than 2.1s in the unit ns",
    ),
    (
        rules.duration("a", "b", unit="s", text="hub", acknowledge="why"),
        {"a": INTEGER},
        {"b": TEXT},
        "v1 .spec",
        "has acknowledge= for a text of the hub",
    ),
    (
        rules.quantity("a", "b", acknowledge=" "),
        {"a": TEXT},
        {"b": INTEGER},
        "v1 .spec",
        "forgets values of v1, and does not say why that is no loss",
    ),
    (rules.scale("a", factor=2, hub_type="number"), {"a": INTEGER}, {"a": INTEGER}, "v2 .spec.a", "not a number"),
    (COUNT, {"a": TEXT}, {"b": TEXT}, "v2 .spec.b", "is a string, not an integer"),
    (rules.duration("a", "b", unit="week"), {"a": TEXT}, {"b": INTEGER}, "v1 .spec", "has unit='week'"),  # type: ignore[arg-type]
    (rules.scale("a", factor="1/0"), {"a": INTEGER}, {"a": INTEGER}, "v1 .spec", "has factor='1/0'"),
    (rules.cast("a", spoke_type="string", hub_type="string"), {"a": TEXT}, {"a": TEXT}, "v1 .spec", "on both sides"),
    (rules.enum("a", [[1, "x", 2]]), {"a": TEXT}, {"a": TEXT}, "v1 .spec", "an entry that is no pair"),
    (rules.join("a", separator=""), {"a": texts}, {"a": TEXT}, "v1 .spec", "has separator=''"),
    (rules.join("a"), {"a": {**texts, "x-kubernetes-list-type": "set"}}, {"a": TEXT}, "v1 .spec.a", "is a set"),
    (rules.split("a"), {"a": TEXT}, {"a": {"type": "array", "items": INTEGER}}, "v2 .spec.a", "each is an integer"),
    (rules.keyed("a", key="id"), {"a": ports}, {"a": mapped(obj({"port": INTEGER}))}, "v1 .spec.a", "no field id"),
    (rules.keyed("a", key="name"), {"a": ports}, {"a": mapped(obj({"port": TEXT}))}, "v1 .spec.a", "field port inside"),
    (rules.fields({"x": "x"}, "m"), {"x": INTEGER}, {"m": mapped(TEXT)}, "v1 .spec.x", "is of another type"),
    (rules.fields("x", "m"), {"x": INTEGER}, {"m": mapped(TEXT)}, "v1 .spec", "has no map or no fields"),
    (rules.keys("a", {"x": "z", "y": "z"}), {"a": mapped(TEXT)}, {"a": mapped(TEXT)}, "v1 .spec", "with one new name"),
    (NAME, {"profile": TEXT, "name": INTEGER}, {"profile": TEXT}, "v1 .spec.name", "not admit the same values"),
    (NAME, {"profile": BOX, "name": mapped(TEXT)}, {"profile": BOX}, "v1 .spec.name", "not admit the same values"),
    (rules.copy(["a"], "b"), {"a": TEXT}, {"b": TEXT}, "v1 .spec", "needs one path, and a list of two or more others"),
    (rules.copy("a", "b"), {"a": TEXT}, {"b": TEXT}, "v1 .spec", "needs one path, and a list of two or more others"),
    (rules.enum("a", {"x": 1}), {"a": TEXT}, {"a": TEXT}, "v1 .spec.a", "gives 1, which v2 does not admit"),
]


@pytest.mark.parametrize(("rule", "spoke", "hub", "place", "problem"), REFUSED)
def test_what_cannot_be_right_is_refused_with_its_place(
    rule: rules.Rule, spoke: dict[str, Any], hub: dict[str, Any], place: str, problem: str
) -> None:
    """A rule on fields of other types would be accepted, and show values that the server refuses."""
    assert any(each.startswith(place) and problem in each for each in _problems(rule, spoke, hub))


#: rules, the spoke's fields, the hub's, the place of the problem, and the rule to write.
ONE_SIDED = [
    ([], {"a": ANYTHING}, {"a": BOX}, "v1 .spec.a", 'rules.described("a", by="hub", partial=True)'),
    (
        [],
        {"a": BOX},
        {"a": {"type": "object", **ANYTHING}},
        "v2 .spec.a",
        'rules.described("a", by="spoke", partial=True)',
    ),
    ([], {"a": INTEGER}, {"a": ANYTHING}, "v2 .spec.a", 'rules.described("a", by="spoke")'),
    (
        [rules.rename("a.y", "a.x")],
        {"a": ANYTHING},
        {"a": BOX},
        "v1 .spec.a",
        'rules.described("a", by="hub", partial=True)',
    ),
    (
        [rules.rename("a", "b")],
        {"a": ANYTHING},
        {"b": BOX},
        "v1 .spec.a",
        'rules.described("a", "b", by="hub", partial=True) instead of rename(a <-> b)',
    ),
    (
        [rules.inside("a", [rules.rename("y", "x")])],
        {"a": ANYTHING},
        {"a": BOX},
        "v1 .spec.a",
        'rules.described("a", by="hub", partial=True) instead of inside(a <-> a)',
    ),
    (
        [rules.each("a", [rules.rename("y", "x")])],
        {"a": ANYTHING},
        {"a": listed(BOX)},
        "v1 .spec.a[]",
        'rules.described("a", by="hub", partial=True) instead of each(a <-> a)',
    ),
    (
        [rules.each_value("a", [])],
        {"a": {"type": "object", **ANYTHING}},
        {"a": mapped(BOX)},
        "v1 .spec.a{}",
        'rules.described("a", by="hub", partial=True) instead of each_value(a <-> a)',
    ),
]


@pytest.mark.parametrize(("declared", "spoke", "hub", "place", "remedy"), ONE_SIDED)
def test_a_field_that_one_version_describes_is_refused_once_with_the_rule_to_write(
    declared: list[rules.Rule], spoke: dict[str, Any], hub: dict[str, Any], place: str, remedy: str
) -> None:
    """An author got a finding for each field inside, whose advice led to the next finding."""
    with pytest.raises(DefinitionError) as caught:
        frozen([rules.inside("spec", declared)], crd_of(obj(spoke), obj(hub)))
    (found,) = caught.value.diagnostics
    assert f"{found.version} {found.path}" == place
    where = f"{remedy}, in the rules of inside(spec <-> spec)"
    assert f"Pass what fits, and stash the rest, with {where}; or describe it in both versions" == found.fix


def test_a_described_field_can_fail_to_fit_so_it_must_be_optional() -> None:
    """A client at the hub would get objects without a field that its schema requires."""
    found = _problems(rules.described("a"), {"a": ANYTHING}, {"a": BOX}, required=["a"])
    assert any("described(a <-> a) shows only values that fit" in each for each in found)
    found = _problems(rules.described("a", by="spoke"), {"a": ANYTHING}, {"a": BOX})
    assert any("describes nothing, and by= names the side" in each for each in found)


def test_a_required_number_needs_a_value_for_texts_that_are_none() -> None:
    """A client at the hub would get objects without a field that its schema requires."""
    found = _problems(SECONDS, {"a": TEXT}, {"b": INTEGER}, required=["b"])
    assert any("the text that it is made of may be no duration" in each for each in found)


@pytest.mark.parametrize(
    ("spoke", "hub", "problem"),
    [
        (["name"], [], "v1 .spec.name is required, but the field that it copies is not"),
        (["name"], ["profile"], ""),
        ([], ["profile"], "v2 .spec.profile is required, but none of the copies that it is made of is"),
    ],
)
def test_a_required_copy_needs_a_value(spoke: list[str], hub: list[str], problem: str) -> None:
    """A client would get objects without a field that its schema requires."""
    fields = obj({"profile": TEXT, "name": TEXT}, required=spoke), obj({"profile": TEXT}, required=hub)
    try:
        frozen([rules.inside("spec", [NAME])], crd_of(*fields))
        found = ""
    except DefinitionError as error:
        (defect,) = error.diagnostics
        found = f"{defect.version} {defect.path} {defect.problem}"
    assert found == problem


#: These leave an empty object behind, or keep what a closed schema would not.
OPEN = {"spread", "gather", "json"}


@pytest.mark.parametrize("name", [name for name in CASES if name not in OPEN])
def test_a_derived_hub_has_the_type_that_the_rule_makes(name: str) -> None:
    """An internal hub would have another type than what it is given, and other spokes be checked against that."""
    case = CASES[name]
    registry = Registry()
    kind = registry.kind(GROUP, KIND, hub="internal")
    kind.spoke("v1")(lambda: [rules.inside("spec", [case.rule()])])
    kind.spoke("v2")(list)
    registry.freeze([crd_of(obj(case.spoke), obj(case.hub))])


PLACE = rules.template(
    "a", {"host": "h", "port": "p"}, pattern="(?P<host>[^:]+)(?::(?P<port>[0-9]+))?", types={"port": "integer"}
)
PORTS = rules.keyed("a", key="name")
ENVIRONMENT = rules.keyed("a", key="name", value="value")
LIMITS = rules.fields({"cpu": "c", "memory": "m"}, "limits")
APP = rules.keys("a", {"app": "application"})

#: rule, the spoke's fields, the hub's fields: each is shown as the other one, and needs no stash.
FORMS = [
    (rules.join("a", "b"), {"a": ["x", "y"]}, {"b": "x,y"}),
    (rules.join("a", "b"), {"a": []}, {"b": ""}),
    (rules.join("a", "b"), {"a": None}, {"b": None}),
    (rules.split("a", separator=" "), {"a": "1 2"}, {"a": ["1", "2"]}),
    (rules.split("a", item_type="integer"), {"a": "1,2"}, {"a": [1, 2]}),
    (PLACE, {"a": "db:5432"}, {"h": "db", "p": 5432}),
    (PLACE, {"a": "db"}, {"h": "db"}),
    (PORTS, {"a": [{"name": "x", "port": 1}, {"name": "y"}]}, {"a": {"x": {"port": 1}, "y": {}}}),
    (PORTS, {"a": []}, {"a": {}}),
    (PORTS, {"a": None}, {"a": None}),
    (ENVIRONMENT, {"a": [{"name": "A", "value": "1"}]}, {"a": {"A": "1"}}),
    (LIMITS, {"c": "1", "m": "2"}, {"limits": {"cpu": "1", "memory": "2"}}),
    (rules.fields("a", {"x": "x"}, rest="more"), {"a": {"x": 1, "y": 2}}, {"x": 1, "more": {"y": 2}}),
    (APP, {"a": {"app": "1", "x": "2"}}, {"a": {"application": "1", "x": "2"}}),
    (NAME, {"profile": {"n": 1}, "name": {"n": 1}}, {"profile": {"n": 1}}),
    (NAME, {"profile": None, "name": None}, {"profile": None}),
    (rules.copy("a", ["b", "c.d"]), {"a": []}, {"b": [], "c": {"d": []}}),
]


@pytest.mark.parametrize(("rule", "spoke", "hub"), FORMS)
def test_forms_of_the_same_value(rule: rules.Rule, spoke: dict[str, Any], hub: dict[str, Any]) -> None:
    """A rule would show other values, or use the stash for what comes back anyway."""
    assert convert(rule, spoke, up=True) == (hub, False)
    assert convert(rule, hub, up=False) == (spoke, False)


#: rule, direction, what is there, what is shown; the stash keeps what it does not say.
LOST = [
    (rules.join("a"), "up", {"a": ["x,y"]}, {"a": "x,y"}),
    (rules.join("a"), "up", {"a": ["x", "{{ .y }}"]}, {"a": ["x", "{{ .y }}"]}),
    (rules.split("a", item_type="integer"), "up", {"a": "1,x"}, {"a": [1]}),
    (PLACE, "up", {"a": "db:x:1"}, {}),
    (PLACE, "up", {"a": "db:05"}, {"h": "db", "p": 5}),
    (PLACE, "up", {"a": "$(DB)"}, {}),
    (PLACE, "down", {"p": 1}, {}),
    (PORTS, "up", {"a": [{"name": "y"}, {"name": "x"}, {"name": "y", "port": 1}, {}]}, {"a": {"x": {}, "y": {}}}),
    (ENVIRONMENT, "up", {"a": [{"name": "A", "valueFrom": {}}]}, {}),
    (LIMITS, "down", {"limits": {"cpu": "1", "disk": "3"}}, {"c": "1"}),
    (APP, "up", {"a": {"app": "1", "application": "2"}}, {"a": {"application": "1"}}),
    (NAME, "up", {"profile": "x", "name": "y"}, {"profile": "x"}),
    (NAME, "up", {"profile": "x"}, {"profile": "x"}),
    (NAME, "up", {"name": "y"}, {"profile": "y"}),
    (NAME, "up", {"profile": 1, "name": True}, {"profile": 1}),
    (NAME, "up", {"profile": None, "name": "y"}, {"profile": None}),
]


@pytest.mark.parametrize(("rule", "way", "fields", "shown"), LOST)
def test_what_cannot_be_said_stays_in_the_stash(
    rule: rules.Rule, way: str, fields: dict[str, Any], shown: dict[str, Any]
) -> None:
    """A value would be lost, or be shown as if all of it could be said."""
    if shown == fields:
        assert convert(rule, fields, up=way == "up")[0] == shown
    else:
        assert convert(rule, fields, up=way == "up") == (shown, True)


BOTH = {"a": {"app": "1", "application": "2"}}

#: rule, what is stored at the spoke, what a client at the hub makes of what it is shown, what is stored then.
EDITED = [
    (
        PORTS,
        {"a": [{"name": "y", "port": 1}, {"name": "x"}, {"port": 9}]},
        {"a": {"x": {}, "y": {"port": 2}, "z": {}, "b": {}}},
        {"a": [{"name": "y", "port": 2}, {"name": "x"}, {"port": 9}, {"name": "b"}, {"name": "z"}]},
    ),
    (
        PORTS,
        {"a": [{"name": "y"}, {"name": "y", "port": 1}, {"name": "x"}]},
        {"a": {"x": {}}},
        {"a": [{"name": "x"}]},
    ),
    (
        APP,
        {"a": {"app": "1", "application": "2"}},
        {"a": {"application": "3"}},
        {"a": {"app": "3", "application": "2"}},
    ),
    (APP, {"a": {"app": "1", "application": "2"}}, {"a": {"x": "3"}}, {"a": {"x": "3"}}),
    (
        rules.fields("limits", {"cpu": "c"}),
        {"limits": {"cpu": "1", "disk": "2"}},
        {"c": "3"},
        {"limits": {"cpu": "3", "disk": "2"}},
    ),
    (rules.fields("limits", {"cpu": "c"}), {"limits": {"cpu": "1", "disk": "2"}}, {}, {"limits": {"disk": "2"}}),
    (NAME, {"profile": "x", "name": "y"}, {"profile": "z"}, {"profile": "z", "name": "y"}),
    (NAME, {"profile": "x", "name": "y"}, {}, {}),
    (NAME, {"name": "y"}, {"profile": "z"}, {"name": "z"}),
    (NAME, {"profile": "x"}, {"profile": "z"}, {"profile": "z"}),
]


@pytest.mark.parametrize(("rule", "stored", "edit", "expected"), EDITED)
def test_an_edit_changes_only_what_it_is_about(
    rule: rules.Rule, stored: dict[str, Any], edit: dict[str, Any], expected: dict[str, Any]
) -> None:
    """An edit of one entry would take away the order of a list, or what the other version does not show."""
    graph = frozen([rules.inside("spec", [rule])], None)
    source = {"apiVersion": f"{GROUP}/v1", "kind": KIND, "metadata": {"name": "a"}, "spec": {"zz": 1, **stored}}
    shown = graph.convert(source, f"{GROUP}/v2")
    back = graph.convert({**shown, "spec": {"zz": 1, **edit}}, f"{GROUP}/v1")
    assert {name: value for name, value in back["spec"].items() if name != "zz"} == expected


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("", "is no text"),
        ("(?P<a>x", "more than characters"),
        ("(?P<a>(x|y)+)", "more than characters"),
        ("(?P<a>x)(?P<a>y)", "twice"),
        ("x.*", "outside of its groups"),
        ("(?:x)?(?P<a>y)", "has no group"),
        ("(?P<a>.*)(?P<b>.*)(?P<c>.*)(?P<d>.*)", "very long"),
        ("(?P<a>a*a*a*a*)b", "very long"),
        ("(?P<a>[z-a])", "no regular expression"),
    ],
)
def test_patterns_that_cannot_be_written_or_take_long_are_refused(pattern: str, problem: str) -> None:
    """A text could stop the server, or could be read but not be made again."""
    rule = rules.template("a", {"a": "a"}, pattern=pattern)
    assert any(problem in each for each in _problems(rule, {"a": TEXT}, {"a": TEXT}))


READY = rules.select("ready", "conditions", where={"type": "Ready"}, field="status", fill={"reason": "Unknown"})
OTHER = {"type": "Other", "status": "False"}


@pytest.mark.parametrize(
    ("rule", "spoke", "hub"),
    [
        (rules.json("a", "b"), {"a": '{"x":[1,2.5,null]}'}, {"b": {"x": [1, 2.5, None]}}),
        (rules.json("a", type="array"), {"a": "[]"}, {"a": []}),
        (rules.json("a"), {"a": None}, {"a": None}),
        (
            rules.spread("a", {"x": ["p"], "y": {"q": "r/s"}}),
            {"a": {"p": 1, "q": 2}},
            {"x": {"p": 1}, "y": {"r/s": 2}},
        ),
        (rules.gather({"x": ["p"], "y": {"q": "r"}}, "a"), {"x": {"p": 1}, "y": {"q": 2}}, {"a": {"p": 1, "r": 2}}),
        (READY, {"ready": "True"}, {"conditions": [{"type": "Ready", "reason": "Unknown", "status": "True"}]}),
        (
            rules.select("a", "b", where={"type": "Ready"}, field="status", rest="others", items="spoke"),
            {"a": [OTHER, {"type": "Ready", "status": "True"}]},
            {"b": "True", "others": [OTHER]},
        ),
        (
            rules.conditions("old", "new", names={"why": "reason"}, status={"yes": "True"}),
            {"old": [{"type": "Ready", "status": "yes", "why": "x"}]},
            {"new": [{"type": "Ready", "status": "True", "reason": "x"}]},
        ),
    ],
)
def test_forms_of_the_same_object(rule: rules.Rule, spoke: dict[str, Any], hub: dict[str, Any]) -> None:
    """A rule would show other values, or use the stash for what comes back anyway."""
    assert convert(rule, spoke, up=True) == (hub, False)
    assert convert(rule, hub, up=False) == (spoke, False)


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        ({"ready": "False"}, [OTHER, {"type": "Ready", "status": "False", "reason": "why"}]),
        ({}, [OTHER]),
    ],
)
def test_an_edit_of_a_selected_item_keeps_the_others(edit: dict[str, Any], expected: list[Any]) -> None:
    """An old client that sets or removes one field would take away all other items of the list."""
    graph = frozen([rules.inside("spec", [READY])], None)
    stored = {"zz": 1, "conditions": [OTHER, {"type": "Ready", "status": "True", "reason": "why"}]}
    shown = graph.convert({"apiVersion": f"{GROUP}/v2", "kind": KIND, "metadata": {}, "spec": stored}, f"{GROUP}/v1")
    assert shown["spec"] == {"zz": 1, "ready": "True"}
    back = graph.convert({**shown, "spec": {"zz": 1, **edit}}, f"{GROUP}/v2")
    assert back["spec"] == {"zz": 1, "conditions": expected}


@pytest.mark.parametrize(
    ("rule", "text", "value"),
    [
        (rules.json('metadata.annotations["a/b"]', "spec.x"), '{"y":1}', {"y": 1}),
        (rules.cast('metadata.labels["a/b"]', "spec.x", spoke_type="string", hub_type="integer"), "3", 3),
        (rules.duration('metadata.annotations["a/b"]', "spec.x", unit="s"), "1m0s", 60),
        (rules.split('metadata.annotations["a/b"]', "spec.x"), "1,2", ["1", "2"]),
        (rules.enum('metadata.labels["a/b"]', {"yes": True, "no": False}, hub="spec.x"), "yes", True),
    ],
)
def test_labels_and_annotations_are_ends_of_rules(rule: rules.Rule, text: str, value: Any) -> None:
    """An annotation that became a field could not be converted, or would stay where it was."""
    graph = frozen([rule], None)
    place = rule.spoke[0].split(".")[1].split("[")[0]
    lower = {
        "apiVersion": f"{GROUP}/v1",
        "kind": KIND,
        "metadata": {"name": "a", place: {"a/b": text, "c": "d"}},
        "spec": {"z": 1},
    }
    upper = graph.convert(lower, f"{GROUP}/v2")
    assert (upper["spec"], upper["metadata"]) == ({"z": 1, "x": value}, {"name": "a", place: {"c": "d"}})
    assert graph.convert(upper, f"{GROUP}/v1") == lower


@pytest.mark.parametrize(
    "text", ["{", "[" * 20_000, '{"a":' * 5000, "NaN", '{"z": 1}', '{"x": "1"}', "null", "9" * 400]
)
def test_json_that_the_field_cannot_hold_stays_in_the_stash(text: str) -> None:
    """The server would prune what the field does not declare, or a text could fail the conversion."""
    crd = crd_of(obj({"a": TEXT}), obj({"a": obj({"x": INTEGER})}))
    graph = frozen([rules.json("spec.a")], crd)
    lower = {"apiVersion": f"{GROUP}/v1", "kind": KIND, "metadata": {"name": "a"}, "spec": {"a": text}}
    upper = graph.convert(lower, f"{GROUP}/v2")
    assert "spec" not in upper
    assert graph.convert(upper, f"{GROUP}/v1") == lower


@pytest.mark.parametrize(
    ("rule", "items", "problem"),
    [
        (rules.select("ready", "conditions", where={}, field="status"), {}, "has no values in where="),
        (
            rules.select("ready", "conditions", where={"type": 1}, field="status"),
            {"type": TEXT, "status": TEXT},
            "whose field type is of another type",
        ),
        (
            rules.select("ready", "conditions", where={"type": "Ready"}, field="status"),
            {"type": TEXT, "status": TEXT, "reason": TEXT},
            "has items that require reason",
        ),
        (
            rules.select("ready", "conditions", where={"kind": "Ready"}, field="status"),
            {"type": TEXT, "status": TEXT},
            "has no field kind",
        ),
    ],
)
def test_selections_that_cannot_be_made_are_refused(rule: rules.Rule, items: dict[str, Any], problem: str) -> None:
    """An item made from the field alone would be refused by the server."""
    conditions = {"type": "array", "items": obj(items, required=[name for name in items if name != "status"])}
    assert any(problem in each for each in _problems(rule, {"ready": TEXT}, {"conditions": conditions}))


@pytest.mark.parametrize("name", CASES)
def test_every_rule_is_data(name: str) -> None:
    """A rule could not be written in a file, or would be another one when it is read from there."""
    registry = Registry()
    registry.kind(GROUP, KIND, hub="v2").spoke("v1")(lambda: [CASES[name].rule()])
    text = dump(registry)
    found = load(text)
    assert dump(found.registry) == text
    assert found.rules[0].spokes["v1"][0].arguments.keys() == CASES[name].rule().arguments.keys()


@pytest.mark.parametrize(
    ("rule", "fields", "place", "shown"),
    [
        (SECONDS, {"a": "90s"}, "/spec/b", "duration(a <-> b)"),
        (PORTS, {"a": [{"name": "x"}]}, "/spec/a/x", "keyed(a <-> a)"),
        (rules.spread("a", {"x": ["p"]}), {"a": {"p": 1}}, "/spec/x/p", "spread(a.p <-> x.p)"),
        (LIMITS, {"c": "1"}, "/spec/limits/cpu", "fields(c, m <-> limits)"),
        (NAME, {"name": "x"}, "/spec/profile", "copy(profile, name <-> profile)"),
    ],
)
def test_an_explanation_names_the_rule(rule: rules.Rule, fields: dict[str, Any], place: str, shown: str) -> None:
    """A reader could not find out which rule made a field of the result."""
    graph = frozen([rules.inside("spec", [rule])], None)
    thing = {"apiVersion": f"{GROUP}/v1", "kind": KIND, "metadata": {"name": "a"}, "spec": fields}
    found = explain(graph, thing, f"{GROUP}/v2")
    steps = tuple(place.split("/")[1:])
    named = [rule for leaf in found.leaves if leaf.place[: len(steps)] == steps for rule in leaf.origin.rules]
    assert any(shown in each for each in named)
