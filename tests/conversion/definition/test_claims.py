"""What a rule says about the fields that it claims: whether they are shown, and whether the other version has them."""

from __future__ import annotations

from typing import Any

import pytest

from restow.conversion import rules
from restow.conversion.definition.losses import rule_losses
from restow.conversion.definition.missing import hidden_on_both_sides
from restow.conversion.explain import LeafEnding, explain
from restow.conversion.explain.roundtrip import RoundTripLaw, round_trips
from restow.conversion.rules.protocol import Loss
from tests.conversion.definition.test_required import advised, findings
from tests.conversion.randomkinds import GROUP, KIND, crd, freeze, obj

TEXT = {"type": "string"}
PROTOCOL = {"type": "string", "enum": ["TCP", "UDP"]}


def thing(version: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{version}",
        "kind": KIND,
        "metadata": {"name": "a"},
        "spec": spec,
    }


def spec_crd(spoke: dict[str, Any], hub: dict[str, Any], *, required: tuple[list[str], list[str]] = ([], [])) -> Any:
    ends = (obj({"spec": obj(node, required=names)}) for node, names in zip((spoke, hub), required, strict=True))
    return crd(dict(zip(("v1", "v2"), ends, strict=True)))


IDENTITY = rules.enum("spec.check", {"TCP": "TCP", "UDP": "UDP"})
#: The rule, the two schemas of the field, and a value that the enum of v2 does not have.
OUTSIDE = [
    pytest.param(IDENTITY, TEXT, PROTOCOL, "tcp", id="free-text"),
    pytest.param(rules.enum("spec.check", {"a": "TCP", "UDP": "UDP"}), TEXT, PROTOCOL, "b", id="other-names"),
    pytest.param(
        rules.enum("spec.check", {1: 1}), {"type": "integer"}, {"type": "integer", "enum": [1]}, 2, id="number"
    ),
]


@pytest.mark.parametrize(("rule", "ours", "theirs", "value"), OUTSIDE)
def test_no_enum_shows_another_value(rule: rules.Rule, ours: Any, theirs: Any, value: Any) -> None:
    """The rule that check advises would show a value that the API server refuses at the next write."""
    graph = freeze({"v1": [rule]}, spec_crd({"check": ours, "x": TEXT}, {"check": theirs, "x": TEXT}))
    source = thing("v1", check=value, x="x")
    converted = graph.convert(source, f"{GROUP}/v2")
    assert "check" not in converted["spec"]
    assert graph.convert(converted, f"{GROUP}/v1") == source
    assert not round_trips(graph, source).broken
    (loss,) = rule_losses(graph.kind(GROUP, KIND))
    assert (loss.up, loss.down) == (Loss.STASHED, Loss.LOSSLESS)
    edited = {**converted, "spec": {"check": theirs["enum"][0]}}
    assert graph.convert(edited, f"{GROUP}/v1")["spec"]["check"] in (theirs["enum"][0], "a")
    assert any(leaf.ending is LeafEnding.STASHED for leaf in explain(graph, source, f"{GROUP}/v2").source_leaves)


def test_a_table_that_covers_the_enums_shows_every_value() -> None:
    """A rule that stashes what it can name would hide values from clients."""
    table = rules.enum("spec.check", {"tcp": "TCP", "udp": "UDP"})
    graph = freeze(
        {"v1": [table]}, spec_crd({"check": {"type": "string", "enum": ["tcp", "udp"]}}, {"check": PROTOCOL})
    )
    (loss,) = rule_losses(graph.kind(GROUP, KIND))
    assert (loss.up, loss.down) == (Loss.LOSSLESS, Loss.LOSSLESS)


REFERENCE = rules.pair(
    ["spec.ref.apiVersion", "spec.ref.kind"],
    ["spec.ref.group", "spec.ref.kind"],
    up=lambda ref: {
        "spec.ref.group": ref.get("spec.ref.apiVersion", "g/").split("/")[0],
        "spec.ref.kind": ref.get("spec.ref.kind", "K"),
    },
    down=lambda ref: {
        "spec.ref.apiVersion": f"{ref.get('spec.ref.group', 'g')}/v1",
        "spec.ref.kind": ref.get("spec.ref.kind", "K"),
    },
    loses="both",
)
OLD_REFERENCE = {"name": TEXT, "apiVersion": TEXT, "kind": TEXT}
NEW_REFERENCE = {"name": TEXT, "group": TEXT, "kind": TEXT}


def references(ours: list[str], theirs: list[str]) -> Any:
    return spec_crd(
        {"ref": obj(OLD_REFERENCE, required=ours)},
        {"ref": obj(NEW_REFERENCE, required=theirs)},
    )


def test_a_required_field_is_found_where_a_pair_of_several_makes_it() -> None:
    """A pair is not called where all of its fields are missing, so the other version lacks what it requires."""
    document = references(["name"], ["name", "group", "kind"])
    found = findings([REFERENCE], document)
    assert [each.path for each in found] == [".spec.ref.group", ".spec.ref.kind"]
    filled = [advised(each, 0, value) for each, value in zip(found, ("g", "K"), strict=True)]
    graph = freeze({"v1": [REFERENCE, *filled]}, document)
    source = thing("v1", ref={"name": "default"})
    converted = graph.convert(source, f"{GROUP}/v2")
    assert converted["spec"]["ref"] == {"name": "default", "group": "g", "kind": "K"}
    assert not round_trips(graph, source).broken
    for ref in ({"apiVersion": "g/v1", "kind": "K"}, {"apiVersion": "h/v2"}, {"kind": "K"}):
        assert not round_trips(graph, thing("v1", ref={"name": "a", **ref})).broken
    for ref in ({"group": "g", "kind": "K"}, {"group": "h", "kind": "L"}, {"group": "g", "kind": "L"}):
        assert not round_trips(graph, thing("v2", ref={"name": "a", **ref})).broken
    waived = [advised(each, 1) for each in found]
    assert not findings([REFERENCE, *waived], document)


def test_no_required_field_is_found_that_a_pair_of_several_always_makes() -> None:
    """A finding that no object can show makes authors write defaults that are never used."""
    assert not findings([REFERENCE], references(["name", "kind"], ["name", "group", "kind"]))


def test_no_required_field_is_found_in_an_object_that_a_pair_alone_makes() -> None:
    """Where the pair is not called, the object is missing with all its fields, which is valid."""
    boxed = rules.pair(
        ["spec.a", "spec.b"],
        ["spec.box.a", "spec.box.b"],
        up=lambda each: {f"spec.box.{name[5:]}": value for name, value in each.items()},
        down=lambda each: {f"spec.{name[9:]}": value for name, value in each.items()},
    )
    document = spec_crd({"a": TEXT, "b": TEXT}, {"box": obj({"a": TEXT, "b": TEXT}, required=["a"])})
    assert not findings([boxed], document)


CONFIG = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
#: A rule that shows what fits, the schemas of its field, and a value of v1 that does not fit.
PARTIAL = [
    pytest.param(rules.json("spec.f"), TEXT, CONFIG, "no: json", {}, id="json"),
    pytest.param(rules.described("spec.f"), CONFIG, obj({"a": TEXT}), {"b": 1}, {}, id="described"),
    pytest.param(rules.enum("spec.f", {"TCP": "TCP", "UDP": "UDP"}), TEXT, PROTOCOL, "tcp", "UDP", id="enum"),
]


@pytest.mark.parametrize(("rule", "ours", "theirs", "value", "default"), PARTIAL)
def test_a_required_field_is_found_that_shows_what_fits(
    rule: rules.Rule, ours: Any, theirs: Any, value: Any, default: Any
) -> None:
    """A value that does not fit is not shown, so the field is missing in a version that requires it."""
    document = spec_crd({"f": ours, "x": TEXT}, {"f": theirs, "x": TEXT}, required=(["f"], ["f"]))
    (found,) = findings([rule], document)
    assert (found.version, found.path) == ("v2", ".spec.f")
    graph = freeze({"v1": [rule, advised(found, 0, default)]}, document)
    source = thing("v1", f=value, x="x")
    converted = graph.convert(source, f"{GROUP}/v2")
    assert converted["spec"] == {"f": default, "x": "x"}
    assert graph.convert(converted, f"{GROUP}/v1") == source
    assert not round_trips(graph, source).broken
    assert not findings([rule, advised(found, 1)], document)


def test_a_default_or_a_waiver_answers_for_every_standard_rule() -> None:
    """A finding that obeys none of the rules it can be answered with sends authors in a circle."""
    schedule = rules.template(
        "spec.schedule", {"minute": "spec.minute", "hour": "spec.hour"}, pattern="(?P<minute>[0-9]+) (?P<hour>[0-9]+)"
    )
    document = spec_crd({"schedule": TEXT}, {"minute": TEXT, "hour": TEXT}, required=(["schedule"], []))
    (found,) = findings([schedule], document)
    assert (found.version, found.path) == ("v1", ".spec.schedule")
    assert not findings([schedule, rules.waive("spec.schedule", acknowledge="why")], document)


def test_a_field_that_both_sides_keep_for_themselves_is_noted() -> None:
    """A report that every field is accounted for would hide that no client sees the other version's value."""
    both = [rules.stash("spec.f"), rules.stash(hub="spec.f"), rules.stash("spec.a"), rules.stash(hub="spec.b")]
    document = spec_crd({"f": TEXT, "a": TEXT}, {"f": {"type": "integer"}, "b": TEXT})
    graph = freeze({"v1": both}, document)
    (note,) = hidden_on_both_sides(graph.kind(GROUP, KIND))
    assert (note.version, note.path) == ("v1", ".spec.f")


def test_the_law_of_schemas_fills_in_defaults_first() -> None:
    """A manifest that leaves out a required field with a default would pass without being tested."""
    mode = {"type": "string", "default": "a"}
    check = rules.pair("spec.check", "spec.check", up=str.lower, down=str.lower, loses="both")
    document = spec_crd({"mode": mode, "check": TEXT}, {"mode": mode, "check": PROTOCOL}, required=(["mode"], ["mode"]))
    graph = freeze({"v1": [check]}, document)
    (broken,) = round_trips(graph, thing("v1", check="tcp")).broken
    assert broken.law is RoundTripLaw.SCHEMA
