"""A small kind for each standard rule: its fields stand in the spec, in lists with and without keys, in a map and in an
object, two levels deep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from restow.conversion import Graph, Registry, rules
from restow.crds import Crd

GROUP, KIND = "standard.example.dev", "Thing"
Node = dict[str, Any]
Strategy = st.SearchStrategy[Any]

TEXT: Node = {"type": "string"}
INTEGER: Node = {"type": "integer"}
NUMBER: Node = {"type": "number"}
BOOLEAN: Node = {"type": "boolean"}
ANYTHING: Node = {"x-kubernetes-preserve-unknown-fields": True}
INT_OR_STRING: Node = {"x-kubernetes-int-or-string": True}


@dataclass(frozen=True)
class Case:
    """A rule, the fields of both versions, and strategies for those whose schema says too little, by field."""

    rule: Callable[[], rules.Rule]
    spoke: Node
    hub: Node
    spoke_values: Mapping[str, Strategy] = field(default_factory=dict)
    hub_values: Mapping[str, Strategy] = field(default_factory=dict)


def obj(properties: Node, **more: Any) -> Node:
    return {"type": "object", "properties": properties, **more}


def listed(items: Node) -> Node:
    return {"type": "array", "items": items}


def mapped(values: Node) -> Node:
    return {"type": "object", "additionalProperties": values}


def spec_of(fields: Node) -> Node:
    """Return the schema of a spec that has the fields in all places."""
    keyed = {
        "type": "array",
        "items": obj({"id": TEXT, **fields}, required=["id"]),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["id"],
    }
    pools = mapped(obj({**fields, "inner": obj(fields)}))
    return obj({**fields, "other": TEXT, "keyed": keyed, "plain": listed(obj(fields)), "pools": pools})


def crd_of(spoke: Node, hub: Node) -> Crd:
    """Return a CRD of two versions with these specs; v2 is the hub."""
    versions = [
        {"name": name, "served": True, "storage": name == "v2", "schema": {"openAPIV3Schema": obj({"spec": spec})}}
        for name, spec in (("v1", spoke), ("v2", hub))
    ]
    names = {"kind": KIND, "plural": "things"}
    return Crd.from_document(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"things.{GROUP}"},
            "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": versions},
        }
    )


def everywhere(rule: Callable[[], rules.Rule]) -> list[rules.Rule]:
    """Return the rules that apply a rule in all places of ``spec_of``."""
    inner = [
        rule(),
        rules.each("keyed", [rule()]),
        rules.each("plain", [rule()], acknowledge="edits of several items at once are not tried here"),
        rules.each_value("pools", [rule(), rules.inside("inner", [rule()])]),
    ]
    return [rules.inside("spec", inner)]


def frozen(declared: Sequence[rules.Rule], crd: Crd | None) -> Graph:
    """Return the graph of a kind with these rules between v1 and v2."""
    registry = Registry()
    registry.kind(GROUP, KIND, hub="v2").spoke("v1")(lambda: list(declared))
    return registry.freeze([] if crd is None else [crd])


def overrides(values: Mapping[str, Strategy]) -> dict[str, Strategy]:
    """Return strategies by path, for all places of ``spec_of``."""
    places = (".spec", ".spec.keyed[]", ".spec.plain[]", ".spec.pools{}", ".spec.pools{}.inner")
    return {f"{place}.{name}": strategy for place in places for name, strategy in values.items()}


def texts(*samples: str) -> Strategy:
    """Return a strategy for texts: those given, and any."""
    return st.sampled_from(samples) | st.text(max_size=6)


DURATIONS = texts("1m30s", "90s", "0s", "1h0m0s", "1500ms", "1.5h", "-5s", "1d", "", "300s", "1m0s")
#: Some fit ``{x: integer, y: [text]}`` with x required, some do not.
PARTS = st.sampled_from(
    [
        {"x": 1, "z": {"n": 1}},
        {"x": "text", "y": ["a"], "b": {"c": 1, "d": 2}},
        {"y": ["a", 1], "b": {"d": 2}, "m": {"p": 1, "q": "text"}},
        {"l": [{"x": 1}, {"x": 2, "z": 3}], "x": 1},
        {"l": [{"x": 1}, 5], "x": 1},
        {"m": {"q": "text"}, "b": {"z": 1}},
        {"x": None, "m": None},
        {},
        "text",
        [1],
        True,
        None,
    ]
)
LOOSE = st.sampled_from(
    [
        {"x": 1},
        {"x": 1, "y": ["a"]},
        {"x": 1, "z": 2},
        {"x": "1"},
        {"y": ["a"]},
        {"x": 1, "y": [1]},
        {},
        [],
        3,
        "a",
        2.5,
    ]
)
QUANTITIES = texts("1Gi", "500m", "0.5", "1024Mi", "1e3", "100M", "0", "-2Ki", "1x")
NUMERALS = texts("80", "080", "-1", "0", "+5", "1.5", "1e3", "true", "True", "false", "no", "80%")

LISTS = st.lists(texts("a", "b,c", "", "x::y", ":"), max_size=3)
JOINED = texts("a,b", ",", "a", "a::b", ":::", "1,2", "01,x", "-3")
ADDRESS = "(?P<host>[^:]+)(?::(?P<port>[0-9]+))?"
ADDRESSES = texts("db:5432", "db", "db:05", "db:", ":1", "a:b:1")
IMAGE = "(?P<repo>.*):(?P<tag>[^:]*)"
BY_NAME: Node = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
NAMES = st.sampled_from(["a", "b", "c"])
NAMED = st.lists(st.fixed_dictionaries({}, optional={"name": NAMES, "port": st.integers(0, 3)}), max_size=4)
ENVIRONMENTS = st.lists(
    st.fixed_dictionaries({"name": NAMES}, optional={"value": st.sampled_from(["", "x"])}), max_size=4
)
LIMITS = st.dictionaries(st.sampled_from(["cpu", "memory", "disk"]), st.sampled_from(["1", "2"]), max_size=3)
SELECTORS = st.dictionaries(st.sampled_from(["app", "application", "b", "c", "x"]), st.just("v"), max_size=5)

CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["Ready", "Other"])},
        optional={"status": st.sampled_from(["True", "False"]), "reason": st.just("why")},
    ),
    max_size=3,
)
BY_TYPE: Node = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
#: Few values, so that copies are often equal.
FEW = st.sampled_from(["", "x", "y"])
CONDITION: Node = {"type": TEXT, "status": {"type": "string", "enum": ["yes", "no"]}}
CONDITION_NOW: Node = {"type": TEXT, "status": {"type": "string", "enum": ["True", "False"]}, "reason": TEXT}

CASES: dict[str, Case] = {
    "duration": Case(lambda: rules.duration("a", "b", unit="s"), {"a": TEXT}, {"b": INTEGER}, {"a": DURATIONS}),
    "duration without its spelling": Case(
        lambda: rules.duration("a", "b", unit="s", acknowledge="the same time"),
        {"a": TEXT},
        {"b": INTEGER},
        {"a": DURATIONS},
    ),
    "quantity without its spelling": Case(
        lambda: rules.quantity("a", "b", unit="Mi", acknowledge="the same size"),
        {"a": INT_OR_STRING},
        {"b": INTEGER},
        {"a": QUANTITIES},
    ),
    "duration with a fraction": Case(
        lambda: rules.duration("a", unit="m", text="hub", number="number"),
        {"a": NUMBER},
        {"a": TEXT},
        {},
        {"a": DURATIONS},
    ),
    "duration in nanoseconds": Case(
        lambda: rules.duration("a", unit="ns"), {"a": TEXT}, {"a": INTEGER}, {"a": DURATIONS}
    ),
    "quantity": Case(
        lambda: rules.quantity("a", "b", unit="Mi"), {"a": INT_OR_STRING}, {"b": INTEGER}, {"a": QUANTITIES}
    ),
    "quantity in thousandths": Case(
        lambda: rules.quantity("a", unit="m", text="hub"), {"a": INTEGER}, {"a": TEXT}, {}, {"a": QUANTITIES}
    ),
    "quantity as a number": Case(
        lambda: rules.quantity("a", number="number", format="exponent"),
        {"a": TEXT},
        {"a": NUMBER},
        {"a": QUANTITIES},
    ),
    "scale": Case(lambda: rules.scale("a", "b", factor=1024), {"a": INTEGER}, {"b": INTEGER}),
    "scale by a fraction": Case(
        lambda: rules.scale("a", factor="1/3", spoke_type="number", rounding="down"), {"a": NUMBER}, {"a": INTEGER}
    ),
    "cast to an integer": Case(
        lambda: rules.cast("a", spoke_type="string", hub_type="integer"), {"a": TEXT}, {"a": INTEGER}, {"a": NUMERALS}
    ),
    "cast to a number": Case(
        lambda: rules.cast("a", spoke_type="string", hub_type="number"), {"a": TEXT}, {"a": NUMBER}, {"a": NUMERALS}
    ),
    "cast to a boolean": Case(
        lambda: rules.cast("a", "b", spoke_type="string", hub_type="boolean"),
        {"a": TEXT},
        {"b": BOOLEAN},
        {"a": NUMERALS},
    ),
    "cast from int-or-string": Case(
        lambda: rules.cast("a", spoke_type="int-or-string", hub_type="string"),
        {"a": INT_OR_STRING},
        {"a": TEXT},
        {},
        {"a": NUMERALS},
    ),
    "cast to a text": Case(
        lambda: rules.cast("a", spoke_type="boolean", hub_type="string"),
        {"a": BOOLEAN},
        {"a": TEXT},
        {},
        {"a": NUMERALS},
    ),
    "cast of a boolean to a number": Case(
        lambda: rules.cast("a", spoke_type="boolean", hub_type="integer"), {"a": BOOLEAN}, {"a": INTEGER}
    ),
    "enum of booleans": Case(
        lambda: rules.enum("a", [[True, "Public"], [False, "Private"]], down={"Mesh": False}),
        {"a": BOOLEAN},
        {"a": {"type": "string", "enum": ["Public", "Private", "Mesh"]}},
    ),
    "enum of integers": Case(
        lambda: rules.enum("a", [[0, "off"], [1, "on"], [2, "on"]]),
        {"a": {"type": "integer", "enum": [0, 1, 2]}},
        {"a": {"type": "string", "enum": ["off", "on"]}},
    ),
    "join": Case(lambda: rules.join("a", "b"), {"a": listed(TEXT)}, {"b": TEXT}, {"a": LISTS}, {"b": JOINED}),
    "split with a long separator": Case(
        lambda: rules.split("a", separator="::"), {"a": TEXT}, {"a": listed(TEXT)}, {"a": JOINED}, {"a": LISTS}
    ),
    "join of numbers": Case(
        lambda: rules.join("a", item_type="integer"), {"a": listed(INTEGER)}, {"a": TEXT}, {}, {"a": JOINED}
    ),
    "template": Case(
        lambda: rules.template("a", {"host": "host", "port": "port"}, pattern=ADDRESS, types={"port": "integer"}),
        {"a": TEXT},
        {"host": TEXT, "port": INTEGER},
        {"a": ADDRESSES},
    ),
    "template of texts": Case(
        lambda: rules.template({"repo": "repo", "tag": "tag"}, "image", pattern=IMAGE),
        {"repo": TEXT, "tag": TEXT},
        {"image": TEXT},
        {},
        {"image": texts("nginx:1", "a:b:c", ":", "x:")},
    ),
    "keyed": Case(
        lambda: rules.keyed("a", key="name"),
        {"a": listed(obj({"name": TEXT, "port": INTEGER}))},
        {"a": mapped(obj({"port": INTEGER}))},
        {"a": NAMED},
    ),
    "keyed by a map's key": Case(
        lambda: rules.keyed("a", "b", key="name", items="hub"),
        {"a": mapped(obj({"port": INTEGER}))},
        {"b": {**listed(obj({"name": TEXT, "port": INTEGER}, required=["name"])), **BY_NAME}},
    ),
    "keyed values": Case(
        lambda: rules.keyed("a", key="name", value="value"),
        {"a": listed(obj({"name": TEXT, "value": TEXT}))},
        {"a": mapped(TEXT)},
        {"a": ENVIRONMENTS},
    ),
    "fields": Case(
        lambda: rules.fields({"cpu": "cpu", "memory": "mem"}, "limits"),
        {"cpu": TEXT, "mem": TEXT},
        {"limits": mapped(TEXT)},
        {},
        {"limits": LIMITS},
    ),
    "fields of a map with a rest": Case(
        lambda: rules.fields("limits", {"cpu": "cpu", "memory": "mem"}, rest="more"),
        {"limits": mapped(TEXT)},
        {"cpu": TEXT, "mem": TEXT, "more": mapped(TEXT)},
        {"limits": LIMITS},
        {"more": LIMITS},
    ),
    "keys": Case(
        lambda: rules.keys("a", {"app": "application", "b": "c"}),
        {"a": mapped(TEXT)},
        {"a": mapped(TEXT)},
        {"a": SELECTORS},
        {"a": SELECTORS},
    ),
    "spread": Case(
        lambda: rules.spread("a", {"x": ["p"], "y": {"q": "r"}}),
        {"a": obj({"p": TEXT, "q": INTEGER})},
        {"x": obj({"p": TEXT}), "y": obj({"r": INTEGER})},
    ),
    "gather": Case(
        lambda: rules.gather({"x": ["p"], "y": {"q": "r"}}, "a"),
        {"x": obj({"p": TEXT, "s": TEXT}), "y": obj({"q": INTEGER})},
        {"x": obj({"s": TEXT}), "a": obj({"p": TEXT, "r": INTEGER})},
    ),
    "json": Case(
        lambda: rules.json("a"),
        {"a": TEXT},
        {"a": obj({"x": INTEGER, "y": listed(TEXT)})},
        {"a": texts('{"x":1}', "{}", '{"x": 1}', '{"z":1}', '{"x":"1"}', "[]", "null", '{"y":["a"]}', "{")},
    ),
    "json of anything": Case(
        lambda: rules.json("a", text="hub", type="any"),
        {"a": {"x-kubernetes-preserve-unknown-fields": True}},
        {"a": TEXT},
        {},
        {"a": texts('{"x":1}', "1", "1.0", '"a"', "true", "null")},
    ),
    "described by the hub": Case(
        lambda: rules.described("a"),
        {"a": ANYTHING},
        {"a": obj({"x": INTEGER, "y": listed(TEXT)}, required=["x"])},
        {"a": LOOSE},
    ),
    "described by the spoke": Case(
        lambda: rules.described("a", "b", by="spoke"),
        {"a": listed(obj({"x": INTEGER}))},
        {"b": {"type": "array", "items": ANYTHING, **ANYTHING}},
        {},
        {"b": st.lists(LOOSE, max_size=2)},
    ),
    "described by parts": Case(
        lambda: rules.described("a", partial=True),
        {"a": ANYTHING},
        {"a": obj({"x": INTEGER, "y": listed(TEXT), "b": obj({"c": INTEGER}, required=["c"]), "m": mapped(INTEGER)})},
        {"a": PARTS},
    ),
    "described by the spoke's parts": Case(
        lambda: rules.described("a", "b", by="spoke", partial=True),
        {"a": obj({"l": listed(obj({"x": INTEGER})), "x": INTEGER}, required=["x"])},
        {"b": ANYTHING},
        {},
        {"b": PARTS},
    ),
    "described scalar": Case(lambda: rules.described("a"), {"a": ANYTHING}, {"a": INTEGER}, {"a": LOOSE}),
    "described map": Case(
        lambda: rules.described("a"), {"a": {"type": "object", **ANYTHING}}, {"a": mapped(TEXT)}, {"a": SELECTORS}
    ),
    "select": Case(
        lambda: rules.select("a", "b", where={"type": "Ready"}, field="status"),
        {"a": TEXT},
        {"b": listed(obj({"type": TEXT, "status": TEXT, "reason": TEXT}))},
        {},
        {"b": CONDITIONS},
    ),
    "select with a rest": Case(
        lambda: rules.select("b", "a", where={"type": "Ready"}, field="status", items="spoke", rest="others"),
        {"b": listed(obj({"type": TEXT, "status": TEXT, "reason": TEXT}))},
        {"a": TEXT, "others": listed(obj({"type": TEXT, "status": TEXT, "reason": TEXT}))},
        {"b": CONDITIONS},
        {"others": CONDITIONS},
    ),
    "copy of a deprecated name": Case(
        lambda: rules.copy(["a", "b"], "a"), {"a": TEXT, "b": TEXT}, {"a": TEXT}, {"a": FEW, "b": FEW}
    ),
    "copy that shows the new name": Case(
        lambda: rules.copy(["a", "b"], "b", show="new"), {"a": TEXT, "b": TEXT}, {"b": TEXT}, {"a": FEW, "b": FEW}
    ),
    "copy that shows the old name": Case(
        lambda: rules.copy("x", ["a", "b"], show="old"), {"x": TEXT}, {"a": TEXT, "b": TEXT}, {}, {"a": FEW, "b": FEW}
    ),
    "copy of objects": Case(
        lambda: rules.copy("x", ["a", "b.c", "d"]),
        {"x": obj({"p": INTEGER, "q": listed(TEXT)}), "b": obj({"e": TEXT})},
        {
            "a": obj({"p": INTEGER, "q": listed(TEXT)}),
            "b": obj({"c": obj({"p": INTEGER, "q": listed(TEXT)}), "e": TEXT}),
            "d": obj({"p": INTEGER, "q": listed(TEXT)}),
        },
        {},
        dict.fromkeys(("a", "b.c", "d"), st.sampled_from([{}, {"p": 1}, {"p": 1, "q": ["x"]}])),
    ),
    "conditions": Case(
        lambda: rules.conditions(
            "a",
            "b",
            names={"why": "reason"},
            spoke_only=["severity"],
            hub_only=["observedGeneration"],
            status={"yes": "True", "no": "False"},
        ),
        {"a": {**listed(obj({**CONDITION, "why": TEXT, "severity": TEXT}, required=["type"])), **BY_TYPE}},
        {"b": {**listed(obj({**CONDITION_NOW, "observedGeneration": INTEGER}, required=["type"])), **BY_TYPE}},
    ),
}
