"""The laws for objects that there are: what is broken is found, what is declared is not."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from restow.conversion import Graph, ObjectError, Registry, rules
from restow.conversion.explain.roundtrip import BrokenLaw, RoundTripLaw, is_forgiven, round_trips
from restow.conversion.testing import objects
from tests.conversion.example import CRDS, graph
from tests.conversion.randomkinds import GROUP, KIND, crd, freeze, kinds, obj

RELAXED = settings(suppress_health_check=list(HealthCheck), deadline=None)
TEXT = {"type": "string"}


def kind_of(*declared: rules.Rule) -> Graph:
    registry = Registry()
    registry.kind(GROUP, KIND, hub="v2").spoke("v1")(lambda: declared)
    return registry.freeze()


def thing(version: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": KIND, "metadata": {"name": "a"}, **fields}


def laws(found: list[BrokenLaw]) -> list[tuple[RoundTripLaw, tuple[str, ...]]]:
    return [(broken.law, broken.way) for broken in found]


@RELAXED
@given(st.data())
def test_lossless_kinds_break_nothing(data: st.DataObject) -> None:
    """A false alarm sends people looking for what is not there; knowingly dropped fields are none."""
    found, document = data.draw(kinds())
    version = data.draw(st.sampled_from(document.versions))
    assert round_trips(found, data.draw(objects(version.schema, version.api_version, KIND))).broken == []


@RELAXED
@given(st.data())
def test_three_versions_break_nothing(data: st.DataObject) -> None:
    """Over a visible hub and over an internal one."""
    document = data.draw(st.sampled_from(CRDS))
    version = data.draw(st.sampled_from(document.versions))
    found = round_trips(graph, data.draw(objects(version.schema, version.api_version, document.kind)))
    assert found.broken == []
    assert found.conversions == 12


def test_a_loss_that_no_rule_declares() -> None:
    """A wrong inverse, in a direction that claims to lose nothing and so is not checked."""
    cuts = kind_of(rules.pair("a", "a", up=lambda v: v, down=lambda v: v[:1], loses="up"))
    found = round_trips(cuts, thing("v2", a="long"))
    assert laws(found.broken) == [(RoundTripLaw.ROUND_TRIP, ("v2", "v1", "v2"))]
    assert (found.broken[0].before or {})["a"] == "long"
    assert round_trips(cuts, thing("v2", a="s")).broken == []


def test_a_drop_is_forgiven_and_nothing_else() -> None:
    """What is declared with a reason is no loss, but must not cover others."""
    both = kind_of(
        rules.drop("box.a", acknowledge="unused"),
        rules.pair("b", "b", up=lambda v: v + 1, down=lambda v: v, loses="down"),
    )
    found = round_trips(both, thing("v1", box={"a": 1}, b=1))
    assert laws(found.broken) == [(RoundTripLaw.ROUND_TRIP, ("v1", "v2", "v1"))]
    assert found.broken[0].forgiven == {("box", "a")}
    assert is_forgiven(("box",), found.broken[0].forgiven, {"a": 1})
    assert not is_forgiven(("box",), found.broken[0].forgiven, {"a": 1, "c": 2})
    assert not is_forgiven(("b",), found.broken[0].forgiven, 1)
    alone = kind_of(rules.drop("box.a", acknowledge="unused"))
    assert round_trips(alone, thing("v1", box={"a": 1})).broken == []


def test_a_conversion_that_fails() -> None:
    """One object that cannot be converted takes its version down: the most important finding."""

    def fails(_value: Any) -> Any:
        raise ObjectError("is not understood")

    found = round_trips(kind_of(rules.pair("a", "b", up=fails, down=lambda v: v)), thing("v1", a=1))
    assert laws(found.broken) == [(RoundTripLaw.CONVERSION, ("v1", "v2"))]
    assert re.fullmatch(
        r"/a: is not understood \(pair\(a <-> b\)\) at \S+test_roundtrip.py:\d+", found.broken[0].message
    )


def test_detours_that_end_elsewhere() -> None:
    """Spokes whose rules disagree."""
    registry = Registry()
    kind = registry.kind(GROUP, KIND, hub="v3")
    kind.spoke("v1")(list)
    kind.spoke("v2")(lambda: [rules.pair("a", "a", up=str, down=int, loses="both")])
    found = round_trips(registry.freeze(), thing("v3", a="007"))
    assert found.broken == []
    kind.spoke("v4")(lambda: [rules.pair("a", "a", up=lambda v: v, down=lambda v: v.lower(), loses="up")])
    found = round_trips(registry.freeze(), thing("v3", a="A"))
    assert (RoundTripLaw.PATH, ("v3", "v4", "v1")) in laws(found.broken)


def test_an_edit_that_makes_a_stash_void_breaks_nothing() -> None:
    """A client of the old version has edited what was shown: the void entry goes, and nothing that anyone sees."""
    first = kind_of(rules.wrap("a", "b[]"))
    shown = first.convert(thing("v2", b=["x", "y"]), f"{GROUP}/v1")
    assert round_trips(first, shown).broken == []
    assert round_trips(first, {**shown, "a": "z"}).broken == []
    both = kind_of(rules.stash(hub="c"), rules.drop("d", acknowledge="unused"), rules.wrap("a", "b[]"))
    shown = both.convert(thing("v2", b=["x", "y"], c=1), f"{GROUP}/v1")
    assert round_trips(both, {**shown, "a": "z", "d": 1}).broken == []


def test_what_the_target_would_prune_or_refuse() -> None:
    """Offline the way back still has it; the API server would not."""
    with_more = crd({"v2": obj({"a": TEXT}), "v1": obj({"a": TEXT, "b": TEXT})})
    quiet = kind_of()
    assert round_trips(quiet, thing("v1", a="x", b="y")).broken == []
    judged = Registry()
    judged.kind(GROUP, KIND, hub="v2").spoke("v1")(lambda: [rules.drop("b", acknowledge="unused")])
    assert round_trips(judged.freeze([with_more]), thing("v1", a="x", b="y")).broken == []
    wrong = freeze(
        {"v1": [rules.pair("a", "a", up=lambda _v: 5, down=lambda _v: "x", loses="both")]},
        crd({"v2": obj({"a": TEXT}), "v1": obj({"a": TEXT})}),
    )
    found = round_trips(wrong, thing("v1", a="x"))
    assert [(broken.law, broken.message) for broken in found.broken] == [(RoundTripLaw.SCHEMA, ".a is no string")]
    assert round_trips(wrong, thing("v1", a="x", undeclared=1)).broken == []  # it did not fit in the first place


def test_objects_that_nobody_knows() -> None:
    """Neither kept nor broken."""
    for odd in ({}, {"apiVersion": f"{GROUP}/v1"}, thing("v9"), {**thing("v1"), "kind": "Other"}):
        with pytest.raises(ObjectError):
            round_trips(kind_of(), odd)
