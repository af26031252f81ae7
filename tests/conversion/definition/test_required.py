"""Required fields that the other version may lack: what is refused, what the advice says, and what a waiver allows."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from restow.conversion import DefinitionError, Graph, Registry, rules
from restow.conversion.definition.losses import rule_losses
from restow.conversion.definition.missing import missing_where_made
from restow.conversion.explain import explain
from restow.conversion.explain.roundtrip import round_trips
from restow.conversion.model.errors import Diagnostic
from restow.conversion.rules.onesided import Default
from restow.conversion.rules.protocol import Loss
from restow.conversion.testing import LawBroken, Laws
from restow.crds import Crd
from tests.conversion.randomkinds import GROUP, KIND, crd, freeze, keyed, obj
from tests.upstream.files import cluster_api, kueue, metallb

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
LIST = {"type": "array", "items": TEXT}


def findings(declared: list[rules.Rule], document: Crd, hub: str = "v2") -> list[Diagnostic]:
    try:
        freeze({each.name: declared for each in document.versions if each.name != hub}, document, hub=hub)
    except DefinitionError as error:
        return list(error.diagnostics)
    return []


def advised(diagnostic: Diagnostic, number: int, value: Any = None) -> rules.Rule:
    """Return the rule that a diagnostic advises first or second, with a value where the author has to choose one."""
    texts = re.findall(r"rules\.\w+\((?:[^()\"]|\"[^\"]*\")*\)", diagnostic.fix)
    rule = eval(texts[number].replace("…", repr(value)), {"rules": rules})
    assert isinstance(rule, rules.Rule)
    for name in reversed(re.findall(r"\.([\w.]+)\[\]", diagnostic.path)):
        rule = rules.each(name, [rule])
    return rule


def both(spoke: dict[str, Any], hub: dict[str, Any]) -> Crd:
    return crd({"v2": hub, "v1": spoke})


SPEC = {"spec": obj({"a": TEXT, "mode": {"type": "string", "enum": ["x", "y"]}})}
#: the two versions, the rules that there are, the place that is found, and a value for the advice if one is asked for.
UNANSWERED = [
    pytest.param(obj({"spec": obj(SPEC)}), obj({"spec": obj(SPEC)}, required=["spec"]), [], "v2 .spec", None, id="hub"),
    pytest.param(
        obj({"spec": obj(SPEC)}, required=["spec"]), obj({"spec": obj(SPEC)}), [], "v1 .spec", None, id="spoke"
    ),
    pytest.param(
        obj({"spec": obj({"a": TEXT})}),
        obj({"spec": obj({"b": TEXT})}, required=["spec"]),
        [rules.rename("spec.a", "spec.b")],
        "v2 .spec",
        None,
        id="a-rule-inside",
    ),
    pytest.param(
        obj({"spec": obj({"a": TEXT})}),
        obj({"spec": obj({"b": TEXT})}, required=["spec"]),
        [rules.inside("spec", [rules.rename("a", "b")])],
        "v2 .spec",
        None,
        id="rules-inside",
    ),
    pytest.param(
        obj({"spec": obj({"hosts": LIST}, required=["hosts"])}),
        obj({"spec": obj({"hosts": LIST})}),
        [],
        "v1 .spec.hosts",
        None,
        id="list",
    ),
    pytest.param(
        obj({"old": NUMBER}),
        obj({"new": NUMBER}, required=["new"]),
        [rules.rename("old", "new")],
        "v2 .new",
        5,
        id="renamed",
    ),
    pytest.param(
        obj({"mode": {"type": "string", "enum": ["a"]}}),
        obj({"mode": {"type": "string", "enum": ["A"]}}, required=["mode"]),
        [rules.enum("mode", {"a": "A"})],
        "v2 .mode",
        "A",
        id="enum",
    ),
    pytest.param(
        obj({"n": TEXT}, required=["n"]),
        obj({"n": NUMBER}),
        [rules.pair("n", "n", up=int, down=str)],
        "v1 .n",
        "0",
        id="pair",
    ),
    pytest.param(
        obj({"items": keyed(obj({"a": TEXT, "id": TEXT}))}),
        obj({"items": keyed(obj({"a": TEXT, "id": TEXT}, required=["a"]))}),
        [],
        "v2 .items[].a",
        "",
        id="in-items",
    ),
    pytest.param(
        obj({"image": TEXT}),
        obj({"box": obj({"image": TEXT})}, required=["box"]),
        [rules.move("image", "box.image")],
        "v2 .box",
        None,
        id="made",
    ),
]


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize(("spoke", "hub", "declared", "place", "value"), UNANSWERED)
def test_the_advice_works_when_it_is_followed(
    spoke: dict[str, Any], hub: dict[str, Any], declared: list[rules.Rule], place: str, value: Any, number: int
) -> None:
    """An author would follow it, and be refused with another text, or with the same one."""
    document = both(spoke, hub)
    (found,) = findings(declared, document)
    assert f"{found.version} {found.path}" == place
    assert not findings([*declared, advised(found, number, value)], document)


def test_an_object_that_cannot_be_empty_is_waived_or_filled_in_whole() -> None:
    """A default would be advised that its own check refuses."""
    inner = obj({"a": TEXT}, required=["a"])
    document = both(obj({"spec": inner}), obj({"spec": inner}, required=["spec"]))
    (found,) = findings([], document)
    assert not findings([advised(found, 0)], document)
    (refused,) = findings([rules.default("spec", {})], document)
    assert ".spec.a is required" in refused.problem
    assert not findings([rules.default("spec", {"a": "x"})], document)
    loose = both(obj({"spec": obj({"a": TEXT})}), obj({"spec": inner}, required=["spec"]))
    assert not findings([rules.default("spec", {}), rules.default("spec.a", "x")], loose)


NET = obj({"a": TEXT, "mode": TEXT})
STRICT_NET = obj({"a": TEXT, "mode": TEXT}, required=["mode"])
MOVED = [
    pytest.param([rules.rename("spec.net", "spec.network")], {"network": STRICT_NET}, "spec.network", id="rename"),
    pytest.param([rules.move("spec.net", "spec.box.in")], {"box": obj({"in": STRICT_NET})}, "spec.box.in", id="move"),
    pytest.param(
        [rules.inside("spec.net", [], hub="spec.network")], {"network": STRICT_NET}, "spec.network", id="inside"
    ),
]


@pytest.mark.parametrize(("declared", "hub", "place"), MOVED)
@pytest.mark.parametrize("omitted_in", ["spoke", "hub"])
def test_a_default_of_a_field_of_a_moved_object_answers_for_it(
    declared: list[rules.Rule], hub: dict[str, Any], place: str, omitted_in: Any
) -> None:
    """Rules that convert every object correctly would be refused, and a waiver would be refused as well."""
    strict = obj({"spec": obj({"net": NET})}), obj({"spec": obj(hub)})
    if omitted_in == "hub":
        loosened = yaml.safe_load(yaml.safe_dump(hub).replace("required:", "ignored:"))
        strict = obj({"spec": obj({"net": STRICT_NET})}), obj({"spec": obj(loosened)})
    document = both(*strict)
    (found,) = findings(declared, document)
    answer = rules.default("spec.net.mode", "x", hub=f"{place}.mode", omitted_in=omitted_in)
    assert not findings([*declared, answer], document)
    for rule in (advised(found, 0, "x"), advised(found, 1)):
        is_inside = declared[0].name == "inside"
        together = [rules.inside("spec.net", [rule], hub=place)] if is_inside else [*declared, rule]
        assert not findings(together, document)
    laws = Laws(freeze({"v1": [*declared, answer]}, document).kind(GROUP, KIND))
    bare = {"apiVersion": f"{GROUP}/v1", "kind": KIND, "metadata": {"name": "a"}}
    for net in ({"a": "1"}, {"a": "1", "mode": "x"}, {"mode": "y"}):
        if omitted_in == "spoke" or "mode" in net:
            laws.round_trip({**bare, "spec": {"net": net}}, "v2")
            laws.validity({**bare, "spec": {"net": net}}, "v2")


def test_a_default_that_misses_the_place_of_a_move_is_told_where_it_is() -> None:
    """Two rules would be reported as contrary, where one of them only lacks hub=."""
    document = both(obj({"spec": obj({"net": NET})}), obj({"spec": obj({"network": STRICT_NET})}))
    moved = rules.rename("spec.net", "spec.network")
    found = findings([moved, rules.default("spec.net.mode", "x")], document)[0]
    assert 'rules.default("spec.net.mode", …, hub="spec.network.mode")' in found.fix
    assert not findings([moved, advised(found, 0, "x")], document)


REQUIRING = obj({"x": TEXT, "n": NUMBER}, required=["x", "n"])


@pytest.mark.parametrize("side", ["spoke", "hub"])
def test_a_required_object_of_one_version_is_made_with_all_that_it_needs(side: str) -> None:
    """Only a waiver would be offered, and the API server would refuse the object."""
    schemas = [obj({"spec": obj({"a": TEXT, "o": REQUIRING}, required=["o"])}), obj({"spec": obj({"a": TEXT})})]
    document = both(*(schemas if side == "spoke" else reversed(schemas)))
    (found,) = findings([], document)
    text = f'rules.constant({"hub=" if side == "hub" else ""}"spec.o", value={{"x": …, "n": …}})'
    assert text in found.fix
    rule = eval(text.replace('"x": …', '"x": "1"').replace('"n": …', '"n": 1'), {"rules": rules})
    assert not findings([rule], document)
    stashed = findings([rules.stash(**{side: "spec.o"})], document)
    assert [f"{text} instead of stash(spec.o)" in each.fix for each in stashed] == [True]


@pytest.mark.parametrize(
    ("rule", "hub_requires", "advice"),
    [
        (rules.default("asn", 0), False, 'omitted_in="hub"'),
        (rules.default("asn", 0), True, "Remove the rule"),
        (rules.default("asn", 0, omitted_in="hub"), True, "Remove the rule"),
    ],
)
def test_a_default_takes_nothing_away_that_is_required(rule: rules.Rule, hub_requires: bool, advice: str) -> None:
    """An object that says the default would become invalid at the version that requires it."""
    requires = ["asn"]
    document = both(
        obj({"asn": NUMBER, "my": NUMBER}, required=requires),
        obj({"asn": NUMBER, "my": NUMBER}, required=requires if hub_requires else []),
    )
    (found,) = findings([rule], document)
    assert advice in found.fix
    assert "leaves it out where it is 0" in found.problem
    assert bool(findings([rules.default("asn", 0, omitted_in="hub")], document)) is hub_requires


WAIVED = rules.waive(hub="spec", acknowledge="none was ever made without")
WITHOUT_SPEC = both(obj({"spec": obj({"a": TEXT})}), obj({"spec": obj({"a": TEXT})}, required=["spec"]))


IN_A_BOX = obj({"box": obj({"kind": TEXT, "size": NUMBER}, required=["kind"])})
BESIDE_IT = obj({"box": obj({"kind": TEXT}, required=["kind"]), "size": NUMBER})


@pytest.mark.parametrize(
    ("declared", "noted"),
    [
        ([rules.move("box.size", "size")], ["v1 .box.kind"]),
        ([rules.default("box.size", 1, hub="size")], ["v1 .box.kind"]),
        ([rules.move("box.size", "size"), rules.waive("box.kind", acknowledge="there are none")], []),
        (
            [rules.move("box.size", "size"), rules.default("box.kind", "x", omitted_in="hub", hides=False)],
            [],
        ),
    ],
    ids=["move", "default", "waived", "filled"],
)
def test_what_an_object_lacks_that_a_moved_field_makes_is_noted(declared: list[rules.Rule], noted: list[str]) -> None:
    """Both versions require the field in an object that one may lack: a client could not write what it has read."""
    graph = freeze({"v1": declared}, both(IN_A_BOX, BESIDE_IT))
    found = missing_where_made(graph.kind(GROUP, KIND))
    assert [f"{note.version} {note.path}" for note in found] == noted
    for note, number in itertools.product(found, (0, 1)):
        followed = freeze({"v1": [*declared, advised(note, number, "x")]}, both(IN_A_BOX, BESIDE_IT))
        assert not missing_where_made(followed.kind(GROUP, KIND))
    thing = {"apiVersion": f"{GROUP}/v2", "kind": KIND, "metadata": {"name": "a"}, "size": 3}
    is_filled = any(isinstance(rule, Default) and rule.value == "x" for rule in declared)
    assert graph.convert(thing, f"{GROUP}/v1")["box"] == {"size": 3} | ({"kind": "x"} if is_filled else {})


@pytest.mark.parametrize(
    ("declared", "spoke", "hub"),
    [
        ([rules.move("box.size", "size")], {**IN_A_BOX, "required": ["box"]}, {**BESIDE_IT, "required": ["box"]}),
        (
            [rules.rename("box.size", "box.width")],
            IN_A_BOX,
            obj({"box": obj({"kind": TEXT, "width": NUMBER}, required=["kind"])}),
        ),
        (
            [rules.move("box.size", "size"), rules.move("box.kind", "type")],
            IN_A_BOX,
            obj({"size": NUMBER, "type": TEXT}, required=["type"]),
        ),
    ],
    ids=["always there", "moved inside", "made of two"],
)
def test_an_object_that_has_what_it_requires_is_not_noted(declared: list[rules.Rule], spoke: Any, hub: Any) -> None:
    """A note that is no concern teaches its reader to skip the others."""
    kind = freeze({"v1": declared}, both(spoke, hub)).kind(GROUP, KIND)
    assert not missing_where_made(kind)


def test_a_waiver_is_told_with_its_reason() -> None:
    """Neither the report nor the explanation of an object would say that it may be invalid, and why."""
    graph = freeze({"v1": [WAIVED]}, WITHOUT_SPEC)
    (row,) = rule_losses(graph.kind(GROUP, KIND))
    assert (row.up, row.down, row.reason) == (Loss.WAIVED, Loss.LOSSLESS, "none was ever made without")
    assert row.title == "waive(.spec)"
    bare = {"apiVersion": f"{GROUP}/v1", "kind": KIND, "metadata": {"name": "a"}}
    (waived,) = explain(graph, bare, f"{GROUP}/v2").waived
    assert (waived.problem, waived.reason) == (".spec is required", "none was ever made without")
    assert not explain(graph, {**bare, "spec": {}}, f"{GROUP}/v2").waived
    assert not round_trips(graph, bare).broken


def test_the_law_of_validity_respects_a_waiver_and_nothing_else() -> None:
    """A declared exception would fail the suite, or hide another field that is missing."""
    bare = {"apiVersion": f"{GROUP}/v1", "kind": KIND, "metadata": {"name": "a"}}
    Laws(freeze({"v1": [WAIVED]}, WITHOUT_SPEC).kind(GROUP, KIND)).validity(bare, "v2")
    items = {"type": "array", "items": obj({"a": TEXT, "b": TEXT}, required=["a", "b"])}
    loose = {"type": "array", "items": obj({"a": TEXT, "b": TEXT}, required=["b"])}
    document = both(obj({"items": loose}), obj({"items": items}))
    graph = freeze(
        {
            "v1": [
                rules.each(
                    "items",
                    [
                        rules.waive(hub="a", acknowledge="old"),
                        rules.pair(("b",), ("b",), up=lambda leaves: leaves if leaves["b"] else {}, down=dict),
                    ],
                )
            ]
        },
        document,
    )
    laws = Laws(graph.kind(GROUP, KIND))
    laws.validity({**bare, "items": [{"b": "1"}]}, "v2")
    with pytest.raises(LawBroken, match=r"\.items\[\]\.b is required"):
        laws.validity({**bare, "items": [{"a": "1", "b": ""}]}, "v2")


@pytest.mark.parametrize("name", ["id", "b"])
def test_what_identifies_an_item_may_be_missing_if_a_waiver_says_so(name: str) -> None:
    """A list whose items got a key could only be converted as a whole, by functions."""
    loose = {"type": "array", "items": obj({name: TEXT, "x": TEXT})}
    renamed = [] if name == "id" else [rules.rename(name, "id")]
    turned = rules.pair("x", "x", up=lambda text: text[::-1], down=lambda text: text[::-1])
    declared = [*renamed, rules.waive(hub="id", acknowledge="old"), turned]
    document = both(obj({"items": loose}), obj({"items": keyed(obj({"id": TEXT, "x": TEXT}))}))
    laws = Laws(freeze({"v1": [rules.each("items", declared, key="id")]}, document).kind(GROUP, KIND))
    bare = {"apiVersion": f"{GROUP}/v1", "kind": KIND, "metadata": {"name": "a"}}
    for items in ([{}], [{"x": "ab"}, {"x": "cd"}], [{name: "1", "x": "ab"}, {"x": "cd"}]):
        laws.round_trip({**bare, "items": items}, "v2")
        laws.validity({**bare, "items": items}, "v2")


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (rules.waive(hub="spec", acknowledge=" "), "does not say why"),
        (rules.waive(acknowledge="x"), "must name one field"),
        (rules.waive("spec", acknowledge="x"), "nothing to waive"),
        (rules.waive(hub="sepc", acknowledge="x"), "does not declare"),
        (rules.default("spec", {}, omitted_in="nowhere"), "omitted_in"),  # type: ignore[arg-type]
    ],
)
def test_a_waiver_that_waives_nothing_is_refused(rule: rules.Rule, words: str) -> None:
    """A waiver without effect would stay for ever, and cover the next mistake."""
    texts = [f"{each.problem} {each.fix}" for each in findings([rule], WITHOUT_SPEC)]
    assert any(words in text for text in texts), texts


REQUIRED = obj({"a": TEXT}, required=["a"])
BOTH_REQUIRE = [
    pytest.param(REQUIRED, REQUIRED, [], "a", id="stays"),
    pytest.param(obj({"o": REQUIRED}), obj({"o": REQUIRED}), [], "o.a", id="inside-of-what-is-alike"),
    pytest.param(
        obj({"o": REQUIRED}), obj({"p": REQUIRED}), [rules.rename("o", "p")], "p.a", id="inside-of-what-moves"
    ),
    pytest.param(REQUIRED, obj({"b": TEXT}, required=["b"]), [rules.rename("a", "b")], "b", id="moves"),
    pytest.param(
        obj({"o": REQUIRED}),
        obj({"o": obj({"b": TEXT}, required=["b"])}),
        [rules.inside("o", [rules.rename("a", "b")])],
        "o.b",
        id="moves-in-rules-inside",
    ),
    pytest.param(obj({"a": {**TEXT, "default": "x"}}), REQUIRED, [], "a", id="has-a-default-in-the-other"),
]


@pytest.mark.parametrize(("spoke", "hub", "declared", "path"), BOTH_REQUIRE)
def test_a_waiver_of_a_field_that_both_versions_always_have_is_refused(
    spoke: dict[str, Any], hub: dict[str, Any], declared: list[rules.Rule], path: str
) -> None:
    """The waiver would cover the day on which one version no longer requires the field."""
    document, waiver = both(spoke, hub), rules.waive(hub=path, acknowledge="x")
    assert not findings(declared, document)
    (found,) = findings([*declared, waiver], document)
    assert (found.version, found.path) == ("v2", f".{path}")
    assert found.problem == "is never missing in v1, so there is nothing to waive"
    assert found.fix == f"Remove waive({path})"


MAYBE_MISSING = [
    pytest.param([rules.pair("a", "a", up=str, down=str, on_error="keep")], REQUIRED, id="kept-where-it-fails"),
    pytest.param(
        [
            rules.when([rules.rename("b", "a")], field="type", equals="B"),
            rules.when([rules.rename("a", "b")], field="type", equals="A"),
        ],
        obj({"a": TEXT, "b": TEXT, "type": {"type": "string", "enum": ["A", "B"]}}, required=["a", "b", "type"]),
        id="in-a-branch",
    ),
]


@pytest.mark.parametrize(("declared", "schema"), MAYBE_MISSING)
def test_a_waiver_of_what_a_rule_may_leave_out_is_accepted(declared: list[rules.Rule], schema: dict[str, Any]) -> None:
    """A known exception could not be declared, since the two schemas alone say that there is none."""
    document, waiver = both(schema, schema), rules.waive(hub="a", acknowledge="x")
    assert not any("nothing to waive" in each.problem for each in findings([*declared, waiver], document))


def test_two_rules_do_not_say_what_one_absence_means() -> None:
    """The order of the rules would decide."""
    declared = [rules.default("spec", {}), rules.waive(hub="spec", acknowledge="x"), rules.rename("spec.a", "spec.a")]
    assert any("both" in each.problem for each in findings(declared, WITHOUT_SPEC))


# Real kinds, each with the fields that were refused

ONE_AT_A_TIME = "no list of selectors has several that are edited together"
SELECTORS = [
    rules.each(
        "spec.nodeSelectors",
        [rules.each("matchExpressions", [rules.default("values", [], omitted_in="hub")], acknowledge=ONE_AT_A_TIME)],
        acknowledge=ONE_AT_A_TIME,
    )
]


def real(path: Path, *names: str) -> Crd:
    """Return the CRD with two versions and these fields of its spec, all else left out."""
    document = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    versions = [each for each in document["spec"]["versions"] if each["name"] in ("v1beta1", "v1beta2")]
    for each in versions:
        root = each["schema"]["openAPIV3Schema"]
        spec = root["properties"]["spec"]
        root["properties"] = {"spec": spec}
        if names:
            spec["properties"] = {name: node for name, node in spec["properties"].items() if name in names}
            spec["required"] = [name for name in spec.get("required", ()) if name in names]
    return Crd.from_document({**document, "spec": {**document["spec"], "versions": versions}})


def ported(document: Crd, declared: Callable[[], list[rules.Rule]]) -> Graph:
    registry = Registry()
    registry.kind(document.group, document.kind, hub="v1beta2").spoke("v1beta1")(declared)
    return registry.freeze([document])


def of(document: Crd, version: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"{document.group}/{version}", "kind": document.kind, "metadata": {"name": "a"}, **fields}


def test_metallb_spells_out_what_the_hub_may_omit() -> None:
    """BGPPeer v1beta1 requires peerASN and peerAddress, and its own Go conversion writes their zero values."""
    document = real(metallb() / "metallb.io_bgppeers.yaml")

    def v1beta1() -> list[rules.Rule]:
        hub_only = (
            "connectTime disableMP dualStackAddressFamily dynamicASN enableGracefulRestart interface passwordSecret vrf"
        )
        return [
            rules.default("spec.peerASN", 0, omitted_in="hub"),
            rules.default("spec.peerAddress", "", omitted_in="hub"),
            *(rules.stash(hub=f"spec.{name}") for name in hub_only.split()),
            *SELECTORS,
        ]

    graph = ported(document, v1beta1)
    stored = of(document, "v1beta2", spec={"myASN": 64500, "dynamicASN": "internal", "interface": "eth0"})
    shown = graph.convert(stored, "metallb.io/v1beta1")
    assert shown["spec"] == {"myASN": 64500, "peerASN": 0, "peerAddress": ""}
    assert graph.convert(shown, "metallb.io/v1beta2") == stored
    laws = Laws(graph.kind(document.group, document.kind))
    laws.validity(stored, "v1beta1")
    laws.validity(of(document, "v1beta1", spec={"myASN": 1, "peerASN": 2, "peerAddress": "::1"}), "v1beta2")


def test_kueue_spells_out_an_empty_list() -> None:
    """Workload v1beta1 requires podSets; nothing but a rule over the whole of them could have said so."""
    document = real(kueue() / "kueue.x-k8s.io_workloads.yaml", "active", "podSets")
    graph = ported(document, lambda: [rules.default("spec.podSets", [], omitted_in="hub")])
    bare = of(document, "v1beta2", spec={"active": True})
    shown = graph.convert(bare, f"{document.group}/v1beta1")
    assert shown["spec"] == {"active": True, "podSets": []}
    assert graph.convert(shown, f"{document.group}/v1beta2") == bare
    Laws(graph.kind(document.group, document.kind)).validity(bare, "v1beta1")


def test_cluster_api_requires_what_the_spoke_may_omit() -> None:
    """Machine v1beta2 requires a spec, with fields that no conversion can invent: the Go one leaves it out."""
    document = real(cluster_api() / "cluster.x-k8s.io_machines.yaml", "clusterName", "version", "providerID")
    (found,) = findings([], document, hub="v1beta2")
    graph = ported(document, lambda: [advised(found, 0)])
    laws = Laws(graph.kind(document.group, document.kind))
    for fields in ({}, {"spec": {"clusterName": "c", "version": "v1.34.0"}}):
        old = of(document, "v1beta1", **fields)
        laws.validity(old, "v1beta2")
        laws.round_trip(old, "v1beta2")
