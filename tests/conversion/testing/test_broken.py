"""The helpers catch what they are for: one deliberately broken rule for every law."""

from __future__ import annotations

import datetime as dt
import itertools
import re
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import find as find_smallest

from restow.conversion import rules
from restow.conversion.testing import LawBroken, Laws, objects, partial_objects, roundtrip_suite
from tests.conversion.randomkinds import GROUP, KIND, crd, freeze, obj

NUMBER, TEXT = {"type": "integer"}, {"type": "string"}
SPEC = obj({"spec": obj({"a": NUMBER, "b": TEXT})})


def suite_of(rule: rules.Rule, hub: dict[str, Any] = SPEC, spoke: dict[str, Any] = SPEC, **options: Any) -> type:
    document = crd({"v2": hub, "v1": spoke})
    return roundtrip_suite(freeze({"v1": [rule]}, document), document, **options)


def same_type(up: Any, down: Any, **more: Any) -> rules.Rule:
    return rules.pair("spec.a", "spec.a", up=up, down=down, **more)


def unchanged(value: Any) -> Any:
    return value


def mutating(tree: dict[str, Any]) -> dict[str, Any]:
    box = tree["spec"]["box"]
    box.setdefault("seen", 1)
    return {"spec": {"box": dict(box)}}


COUNTER = itertools.count()
BOX = obj({"spec": obj({"box": obj({"x": NUMBER, "seen": NUMBER}), "c": NUMBER})})

#: the broken rule (and schemas), the test of the suite that must fail, the law it names.
BROKEN: list[Any] = [
    pytest.param(same_type(lambda v: v // 2, lambda v: v * 2), "round_trip_from_v1", "round_trip", id="wrong inverse"),
    pytest.param(
        same_type(lambda v: v // 2, lambda v: v * 2, loses="down"),
        "round_trip_from_v1",
        "round_trip",
        id="unchecked loss",
    ),
    pytest.param(same_type(unchanged, lambda v: v + next(COUNTER)), "determinism_from_v2", "determinism", id="counter"),
    pytest.param(
        same_type(lambda v: v + 0 * int(time.time()), unchanged),
        "determinism_from_v1",
        "determinism",
        id="clock",
    ),
    pytest.param(
        same_type(unchanged, lambda v: v + 0 * dt.datetime.now(dt.UTC).year),
        "determinism_from_v2",
        "determinism",
        id="datetime",
    ),
    pytest.param(same_type(str, lambda v: int(v) if v else 0), "validity_from_v1", "validity", id="wrong type"),
    pytest.param(
        rules.pair(("spec.a", "spec.b"), ("spec.a", "spec.b"), up=lambda f: {"spec.b": "", **f}, down=unchanged),
        "partial_objects_from_v1",
        "round_trip",
        id="invented default",
    ),
    pytest.param(
        same_type(lambda _: None, unchanged, loses="both"),
        "partial_objects_from_v1",
        "partial",
        id="invented null",
    ),
]


@pytest.mark.parametrize(("rule", "test", "law"), BROKEN)
def test_the_suite_catches(rule: rules.Rule, test: str, law: str) -> None:
    """A provider's broken rule fails the test of the law that it breaks; else the suite proves nothing."""
    with pytest.raises(LawBroken) as caught:
        getattr(suite_of(rule)(), f"test_{test}")()
    assert caught.value.law == law


def test_the_suite_catches_a_mutated_input() -> None:
    """A function that changes what it was given breaks the caller's object."""
    rule = rules.functions(spoke=["spec.box"], hub=["spec.box"], up=mutating, down=unchanged, loses="both")
    with pytest.raises(LawBroken) as caught:
        suite_of(rule, BOX, BOX)().test_unchanged_input_from_v1()
    assert caught.value.law == "unchanged_input"


def test_the_suite_catches_a_forgotten_field() -> None:
    """A function that does not carry a part of its object loses it, declared or not by the schema."""
    rule = rules.pair(
        "spec.box",
        "spec.box",
        up=lambda box: {"x": box["x"]} if "x" in box else {},
        down=unchanged,
        loses="down",
    )
    with pytest.raises(LawBroken) as caught:
        suite_of(rule, BOX, BOX)().test_round_trip_from_v1()
    assert caught.value.law == "round_trip"


def test_the_suite_catches_a_detour_that_costs() -> None:
    """A rule that loses in silence shows as a path that matters."""
    plain = obj({"spec": obj({"a": NUMBER})})
    document = crd({"v2": plain, "v1": plain, "v0": plain})
    narrow = rules.pair("spec.a", "spec.a", up=unchanged, down=lambda v: v % 10, loses="up")
    suite = roundtrip_suite(freeze({"v1": [narrow], "v0": []}, document), document)
    with pytest.raises(LawBroken) as caught:
        suite().test_path_independence_from_v0()
    assert caught.value.law == "path_independence"


def test_the_suite_catches_an_ignored_edit() -> None:
    """An inverse that always gives the same value undoes what a client writes."""
    rule = same_type(lambda _: 0, unchanged, loses="down")
    with pytest.raises(LawBroken) as caught:
        suite_of(rule)().test_round_trip_from_v1()
    assert caught.value.law == "round_trip"
    wide = obj({"spec": obj({"a": NUMBER, "b": TEXT, "c": TEXT})})
    document = crd({"v2": wide, "v1": SPEC})
    suite = roundtrip_suite(freeze({"v1": [rule, rules.stash(hub="spec.c")]}, document), document)
    with pytest.raises(LawBroken) as caught:
        suite().test_edits_at_v1_win_over_v2()
    assert caught.value.law == "edits_win"


def test_the_suite_catches_an_item_that_an_edit_takes_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """An item that is found by its look alone loses what it hides when a client edits it."""
    items = {"type": "array", "items": obj({"a": TEXT, "b": TEXT})}
    bare = {"type": "array", "items": obj({"a": TEXT})}
    rule = rules.each("items", [rules.stash(hub="b")], acknowledge="tried here")
    suite = suite_of(rule, obj({"items": items}), obj({"items": bare}))
    suite().test_edits_of_items_at_v1_keep_what_v2_hides()
    monkeypatch.setattr("restow.conversion.stash.items._order", lambda _ids: {})
    with pytest.raises(LawBroken) as caught:
        suite().test_edits_of_items_at_v1_keep_what_v2_hides()
    assert caught.value.law == "edits_of_items"


def test_an_edit_of_an_item_leaves_the_discriminator_alone() -> None:
    """An item whose edit chooses another branch loses what that branch does not show: the rules are right."""
    fields = {"type": {"type": "string", "enum": ["a", "b"]}}
    items = [{"type": "array", "items": obj(fields | dict.fromkeys(names, TEXT))} for names in (("aSize",), ("size",))]
    branches = [
        rules.when([rules.rename("size", "aSize")], field="type", equals="a"),
        rules.when([rules.stash("size"), rules.stash(hub="aSize")], field="type", equals="b"),
    ]
    hub, spoke = (obj({"items": each}) for each in items)
    graph = freeze({"v1": [rules.each("items", branches, acknowledge="tried here")]}, crd({"v2": hub, "v1": spoke}))
    thing = {
        "apiVersion": f"{GROUP}/v1",
        "kind": KIND,
        "metadata": {"name": "a"},
        "items": [{"type": "a", "size": "s"}],
    }
    for choice in range(9):
        Laws(graph.kind(GROUP, KIND)).edits_of_items(thing, "v2", choice)


def test_most_parts_of_an_object_have_some_of_its_fields() -> None:
    """Parts that are mostly all of an object, or nothing of it, catch no rule that invents or loses a field."""
    schema = crd({"v1": SPEC}).version("v1").schema
    seen: Counter[tuple[str, ...]] = Counter()

    @settings(max_examples=300, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
    @given(partial_objects(schema, f"{GROUP}/v1", KIND))
    def draw(pair: Any) -> None:
        seen[tuple(sorted(pair[1].get("spec", ())))] += 1

    draw()
    assert min(seen[fields] for fields in ((), ("a",), ("b",), ("a", "b"))) >= 20, seen


def test_a_sound_rule_passes_everything() -> None:
    """A suite that rejects correct rules would be removed."""
    suite = suite_of(same_type(lambda v: -v, lambda v: -v))
    tests = [name for name in vars(suite) if name.startswith("test_")]
    assert len(tests) == 14
    for name in tests:
        getattr(suite(), name)()


def find(strategy: Any, condition: Any) -> bool:
    """Say whether an object is generated that meets the condition; the first one will do."""
    any_such = settings(max_examples=2000, phases=[Phase.generate], database=None)
    return find_smallest(strategy, condition, settings=any_such) is not None


def test_generated_objects_reach_the_corners() -> None:
    """Whole objects have required fields and unique keys; else the laws are never tried where they break."""
    schema = crd({"v1": SPEC}).storage.schema
    whole = objects(schema, f"{GROUP}/v1", KIND)
    assert find(whole, lambda thing: thing.get("spec", {}).get("a") == 2**63 - 1)
    assert find(whole, lambda thing: "spec" not in thing)
    assert find(whole, lambda thing: not thing.get("spec", {}).get("b", "x").isascii())
    assert find(
        objects(schema, f"{GROUP}/v1", KIND, unknown=True),
        lambda thing: "zzUndeclared" in thing.get("spec", {}),
    )
    assert find(
        partial_objects(schema, f"{GROUP}/v1", KIND),
        lambda pair: "a" in pair[0].get("spec", {}) and "metadata" not in pair[1],
    )


def finding(rule: rules.Rule, test: str, hub: dict[str, Any] = SPEC, spoke: dict[str, Any] = SPEC) -> str:
    with pytest.raises(LawBroken) as caught:
        getattr(suite_of(rule, hub, spoke)(), f"test_{test}")()
    assert not getattr(caught.value, "__notes__", None)
    return str(caught.value)


def test_a_finding_is_short_and_says_what_to_write() -> None:
    """Who reads two whole objects instead looks for the difference by hand."""
    text = finding(same_type(lambda v: v // 2, lambda v: v * 2), "round_trip_from_v1")
    assert len(text.splitlines()) <= 10
    assert text.startswith("round_trip: pair(spec.a <-> spec.a) loses something from v1 to v2 without declaring it\n")
    assert '"spec":{"a":1}' in text
    assert "field:   /spec/a: v1 1 -> v2 0 -> v1 0" in text
    assert 'loses="up"' in text


def test_a_function_that_raises_is_a_finding_with_its_line() -> None:
    """A traceback through generated code does not show which object it was."""
    text = finding(same_type(lambda v: v or 1 // v, lambda v: v), "round_trip_from_v1")
    assert text.startswith("total: the conversion from v1 to v2 fails: ")
    assert "raised ZeroDivisionError" in text
    assert '"spec":{"a":0}' in text


def test_the_first_broken_rule_stops_the_flood() -> None:
    """One wrong rule breaks most laws; twelve reports of it hide the one line to change."""
    suite = suite_of(same_type(lambda v: v // 2, lambda v: v * 2))
    with pytest.raises(LawBroken):
        suite().test_round_trip_from_v1()
    with pytest.raises(pytest.skip.Exception, match="test_round_trip_from_v1 has found a broken rule"):
        suite().test_partial_objects_from_v1()
    with pytest.raises(LawBroken):
        suite().test_round_trip_from_v1()


def test_an_empty_map_may_become_an_empty_list() -> None:
    """Both say that there is nothing; a rule that is faithful to that invents nothing."""
    entry = obj({"name": TEXT, "value": TEXT}, required=["name", "value"])
    listed = obj(
        {
            "spec": obj(
                {
                    "env": {
                        "type": "array",
                        "items": entry,
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                    }
                }
            )
        }
    )
    rule = rules.pair(
        "spec.env",
        "spec.env",
        up=lambda env: [{"name": name, "value": value} for name, value in env.items()],
        down=lambda env: {each["name"]: each["value"] for each in env},
    )
    mapped = obj({"spec": obj({"env": {"type": "object", "additionalProperties": TEXT}})})
    suite = suite_of(rule, listed, mapped)
    suite().test_partial_objects_from_v1()
    suite().test_round_trip_from_v1()


def test_what_a_function_makes_keeps_to_bounds() -> None:
    """The server refuses the next write of an object whose value is out of the bounds of the other version."""
    low = obj({"spec": obj({"a": {"type": "integer", "minimum": 1}, "b": TEXT})})
    text = finding(same_type(lambda v: v, lambda v: v), "validity_from_v1", hub=low)
    assert "does not fit its schema: /spec/a violates minimum" in text


def test_generated_objects_are_what_a_server_accepts() -> None:
    """A law that breaks for an object that no server stores wastes its author's day."""
    schema = crd(
        {
            "v1": obj(
                {
                    "spec": obj(
                        {
                            "month": {"type": "string", "pattern": r"^((?i)january|february|1[0-2]?)$"},
                            "at": {"type": "string", "format": "date-time"},
                            "for": {"type": "string", "format": "duration"},
                            "ip": {"type": "string", "format": "ipv4"},
                            "share": {"type": "number", "minimum": 0, "maximum": 1, "exclusiveMinimum": True},
                            "half": {"type": "integer", "minimum": 0.5, "maximum": 3.5},
                            "size": {"x-kubernetes-int-or-string": True, "pattern": r"^[0-9]+(Ki|Mi)?$"},
                            "one": obj({"x": NUMBER, "y": NUMBER}, oneOf=[{"required": ["x"]}, {"required": ["y"]}]),
                        },
                        required=["one", "month"],
                    )
                }
            )
        }
    ).storage.schema
    seen: list[Any] = []

    @settings(max_examples=60, database=None)
    @given(objects(schema, f"{GROUP}/v1", KIND))
    def look(thing: Any) -> None:
        spec = thing.get("spec")
        if spec is None:
            return
        seen.append(spec)
        assert re.fullmatch(r"(?i:january)|(?i:february)|1[0-2]?", spec["month"])
        assert len(spec["one"]) == 1
        assert spec.get("half", 1) in (1, 2, 3)
        assert 0 < spec.get("share", 1) <= 1
        assert re.fullmatch(r"[0-9]+(Ki|Mi)?", str(spec.get("size", "1")).lstrip("-"))
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT.*", spec.get("at", "2024-01-01T"))

    look()
    assert len(seen) > 10


def test_a_pattern_that_python_cannot_match_is_no_crash() -> None:
    """One pattern in 24,000 lines must not take the whole suite down."""
    schema = crd({"v1": obj({"spec": obj({"a": {"type": "string", "pattern": r"^\p{Greek}+$"}})})}).storage.schema
    with pytest.warns(UserWarning, match="Give a strategy in overrides="):
        objects(schema, f"{GROUP}/v1", KIND).validate()
