"""What becomes of a field whose rule fails, with ``on_error="keep"``: the object converts, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from restow.conversion import ABSENT, Graph, Registry, RuleFailed, rules
from restow.conversion.compile.collections import MOST_LEVELS
from restow.conversion.definition.losses import rule_losses
from restow.conversion.definition.missing import missing_where_kept
from restow.conversion.explain import LeafEnding, explain
from restow.conversion.model.errors import kept_values
from restow.conversion.operate.trial import tried
from restow.conversion.reviews.admission import (
    AdmissionRequest,
    AdmissionResponse,
    GroupVersionKind,
    GroupVersionResource,
)
from restow.conversion.reviews.admissionsteps import refuse_kept
from restow.conversion.rules import Rule
from restow.crds import Crd

_GROUP = "kept.example.dev"
_STASH = f"{_GROUP}/conversion-stash"


def _graph(declared: Sequence[Rule], crd: Crd | None = None, **how: Any) -> Graph:
    registry = Registry()
    registry.kind(_GROUP, "Kept", hub="v2", **how).spoke("v1")(lambda: list(declared))
    return registry.freeze([crd] if crd is not None else ())


def _at(version: str, **fields: Any) -> dict[str, Any]:
    return {"apiVersion": f"{_GROUP}/{version}", "kind": "Kept", "metadata": {"name": "k"}, **fields}


def _crd(**fields: tuple[dict[str, Any], Sequence[str]]) -> Crd:
    """Return a CRD whose versions have these fields of spec, and require these."""
    versions = [
        {
            "name": name,
            "served": True,
            "storage": name == "v2",
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "properties": spec, "required": list(required)}},
                }
            },
        }
        for name, (spec, required) in fields.items()
    ]
    return Crd.from_document(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"kepts.{_GROUP}"},
            "spec": {
                "group": _GROUP,
                "scope": "Namespaced",
                "names": {"kind": "Kept", "plural": "kepts"},
                "versions": versions,
            },
        }
    )


def _number(value: Any) -> int:
    return int(value)


def _text(value: Any) -> str:
    if value == 13:
        raise ValueError(value)
    return str(value)


def _sized(**how: Any) -> Rule:
    return rules.pair("spec.size", "spec.count", up=_number, down=_text, **how)


def _back(graph: Graph, obj: dict[str, Any], edit: Callable[[dict[str, Any]], Any] | None = None) -> Any:
    source = obj["apiVersion"]
    target = f"{_GROUP}/v2" if source.endswith("v1") else f"{_GROUP}/v1"
    there = graph.convert(obj, target)
    if edit is not None:
        edit(there)
    return there, graph.convert(there, source)


def test_a_value_that_cannot_be_converted_comes_back_as_it_was() -> None:
    """One value that a function cannot read would fail a LIST of its kind, or be gone after a write."""
    graph = _graph([_sized(on_error="keep")])
    obj = _at("v1", spec={"size": "huge", "other": 1})
    there, back = _back(graph, obj)
    assert there["spec"] == {"other": 1}
    assert back == obj
    stored = _at("v2", spec={"count": 13, "other": 1})
    there, back = _back(graph, stored)
    assert there["spec"] == {"other": 1} and back == stored


def test_what_is_not_asked_to_be_kept_fails_as_before() -> None:
    """A rule that fails in silence, without its author having said so, would hide a defect."""
    with pytest.raises(RuleFailed, match="ValueError"):
        _graph([_sized()]).convert(_at("v1", spec={"size": "huge"}), f"{_GROUP}/v2")
    with pytest.raises(RuleFailed):
        _graph([_sized(on_error="fail")], on_error="keep").convert(_at("v1", spec={"size": "huge"}), f"{_GROUP}/v2")


@pytest.mark.parametrize("where", ["rule", "kind", "freeze"])
def test_a_rule_a_kind_or_the_one_who_freezes_may_ask_for_it(where: str) -> None:
    """An operator of a server must be able to ask for it without a change of the rules."""
    registry = Registry()
    kind = registry.kind(_GROUP, "Kept", hub="v2", on_error="keep" if where == "kind" else None)
    kind.spoke("v1")(lambda: [_sized(on_error="keep" if where == "rule" else None)])
    graph = registry.freeze(on_error="keep" if where == "freeze" else "fail")
    assert graph.kind(_GROUP, "Kept").keeps
    assert graph.convert(_at("v1", spec={"size": "huge", "a": 1}), f"{_GROUP}/v2")["spec"] == {"a": 1}


def test_an_edit_wins_over_a_kept_value() -> None:
    """A client that sets the field at the other version must get what it asked for."""
    graph = _graph([_sized(on_error="keep")])
    _, back = _back(graph, _at("v1", spec={"size": "huge", "a": 1}), lambda there: there["spec"].update(count=5))
    assert back["spec"] == {"size": "5", "a": 1} and "annotations" not in back["metadata"]


def test_a_kept_value_survives_the_correction_of_its_function() -> None:
    """The next release of a provider repairs the function: what the former one had kept must still come back."""
    there = _graph([_sized(on_error="keep")]).convert(_at("v1", spec={"size": "huge"}), f"{_GROUP}/v2")
    corrected = _graph([rules.pair("spec.size", "spec.count", up=len, down=lambda count: "x" * count, loses="up")])
    assert corrected.convert(there, f"{_GROUP}/v1")["spec"] == {"size": "huge"}


def test_a_failing_inverse_keeps_the_value_that_is_shown() -> None:
    """What the other version shows cannot be checked then, so that only the stash can bring the value back."""
    graph = _graph([_sized(on_error="keep")])
    obj = _at("v1", spec={"size": "13"})
    there, back = _back(graph, obj)
    assert there["spec"] == {"count": 13} and back == obj
    _, edited = _back(graph, obj, lambda there: there["spec"].update(count=14))
    assert edited["spec"] == {"size": "14"}


def test_a_group_is_kept_as_a_whole() -> None:
    """Half of a group that failed would be shown next to the stash of all of it."""

    def up(leaves: dict[str, Any]) -> str:
        return f"{leaves['spec.host']}:{leaves['spec.port']}"

    def down(text: str) -> dict[str, Any]:
        host, port = text.split(":")
        return {"spec.host": host, "spec.port": int(port)}

    graph = _graph([rules.pair(("spec.host", "spec.port"), "spec.address", up=up, down=down, on_error="keep")])
    for obj in (_at("v1", spec={"host": "h"}), _at("v2", spec={"address": "h:p"}), _at("v2", spec={"address": "h"})):
        there, back = _back(graph, obj)
        assert "spec" not in there and back == obj


def test_a_default_of_the_schema_is_shown_instead() -> None:
    """The API server fills it in anyway; a stash that had recorded nothing there would take it for an edit."""
    text, number = {"type": "string"}, {"type": "integer", "default": 1}
    crd = _crd(v1=({"size": text}, ["size"]), v2=({"count": number}, ["count"]))
    graph = _graph([_sized(on_error="keep")], crd)
    obj = _at("v1", spec={"size": "huge"})
    there, back = _back(graph, obj)
    assert there["spec"] == {"count": 1} and back == obj
    assert _back(graph, obj, lambda there: there["spec"].update(count=2))[1]["spec"] == {"size": "2"}


def test_a_required_field_without_default_is_missing() -> None:
    """An object that fails would take all others of its kind down; the API server asks for it at the next write."""
    crd = _crd(v1=({"size": {"type": "string"}}, ["size"]), v2=({"count": {"type": "integer"}}, ["count"]))
    there, back = _back(_graph([_sized(on_error="keep")], crd), _at("v1", spec={"size": "huge", "a": 1}))
    assert there["spec"] == {"a": 1} and back["spec"] == {"size": "huge", "a": 1}


def test_rules_inside_of_lists_and_maps_keep_their_own_fields() -> None:
    """One bad item must not hide the others, and its place must be named."""
    inner = [rules.pair("size", "count", up=_number, down=_text)]
    graph = _graph([rules.each("items", inner, key="name"), rules.each_value("pools", inner)], on_error="keep")
    items = [{"name": "a", "size": "1"}, {"name": "b", "size": "huge"}]
    obj = _at("v1", items=items, pools={"p": {"size": "huge"}, "q": {"size": "2"}})
    with kept_values() as kept:
        there, back = _back(graph, obj)
    assert there["items"] == [{"name": "a", "count": 1}, {"name": "b"}]
    assert there["pools"] == {"p": {}, "q": {"count": 2}}
    assert back == obj
    assert [each.pointer for each in kept] == ["/items/1/size", "/pools/p/size"]
    assert {each.rule for each in kept} == {"pair(size <-> count)"}
    reordered = {**there, "items": there["items"][::-1]}
    assert graph.convert(reordered, f"{_GROUP}/v1")["items"] == items[::-1]


def test_an_item_that_cannot_be_judged_is_hidden_and_a_merge_that_fails_lets_the_edit_win() -> None:
    """The functions of ``each`` may raise as well."""

    def hide(item: dict[str, Any]) -> bool:
        return bool(item["secret"])

    def merge(_item: Any, _hidden: Any) -> Any:
        raise ValueError

    rule = rules.each("items", [], key="name", hide=hide, merge=merge, on_error="keep")
    graph = _graph([rule])
    stored = _at("v2", items=[{"name": "a", "secret": False}, {"name": "b"}])
    there, back = _back(graph, stored)
    assert there["items"] == [{"name": "a", "secret": False}] and back == stored
    _, back = _back(graph, stored, lambda there: there["items"].append({"name": "b", "secret": False}))
    assert back["items"] == [{"name": "a", "secret": False}, {"name": "b", "secret": False}]


def test_a_merge_that_fails_lets_the_edit_win() -> None:
    """An edit must not fail because the author's judgement of it does."""

    def merge(_edited: Any, _shown: Any, _kept: Any) -> Any:
        raise ValueError

    first = rules.pair(
        "a", "b", up=lambda one: [one], down=lambda many: many[0], loses="down", merge=merge, on_error="keep"
    )
    _, back = _back(_graph([first]), _at("v2", b=["x", "y"]), lambda there: there.update(a="z"))
    assert back["b"] == ["z"]


def test_what_is_nested_too_deeply_for_a_rule_stays_as_it_is() -> None:
    """No schema describes what is that deep, so that it passes unchanged instead of failing its kind."""
    rule = rules.inside("route", [rules.rename("old", "new")], recurse=["route"])
    route: dict[str, Any] = {"old": 1}
    for _ in range(MOST_LEVELS + 5):
        route = {"old": 1, "route": route}
    obj = _at("v1", route=route)
    with pytest.raises(RuleFailed):
        _graph([rule]).convert(obj, f"{_GROUP}/v2")
    with kept_values() as kept:
        there, back = _back(_graph([rule], on_error="keep"), obj)
    assert back == obj and there["route"]["new"] == 1
    assert len(kept) == 2


def test_a_result_that_is_no_json_is_a_failure_of_the_rule() -> None:
    """A set or a NaN of an author's function would fail the whole review when it is written."""
    for made in ({1, 2}, float("nan"), object()):
        rule = rules.pair("a", "b", up=lambda _value, made=made: made, down=lambda _value: "x", on_error="keep")
        there, back = _back(_graph([rule]), _at("v1", a="x"))
        assert "b" not in there and back["a"] == "x"


def test_a_rule_may_return_nothing() -> None:
    """ABSENT is an answer, and no failure."""
    rule = rules.pair("a", "b", up=lambda _value: ABSENT, down=lambda _value: ABSENT, loses="both", on_error="keep")
    with kept_values() as kept:
        there, back = _back(_graph([rule]), _at("v1", a="x"))
    assert not kept and "b" not in there and back["a"] == "x"


def test_check_and_explain_tell_of_it() -> None:
    """The author has to see which required fields would be missing, and which values of an object were kept."""
    crd = _crd(v1=({"size": {"type": "string"}}, ["size"]), v2=({"count": {"type": "integer"}}, ["count"]))
    graph = _graph([_sized(on_error="keep")], crd)
    kind = graph.kind(_GROUP, "Kept")
    assert [f"{note.version} {note.path}" for note in missing_where_kept(kind)] == ["v1 .spec.size", "v2 .spec.count"]
    assert [loss.keeps for loss in rule_losses(kind)] == [True]
    found = explain(graph, _at("v1", spec={"size": "huge", "a": 1}), f"{_GROUP}/v2")
    (ending,) = found.source_leaves
    assert (ending.ending, ending.where) == (LeafEnding.KEPT, "v1 .spec.size")
    assert len(found.kept) == 1 and "ValueError" in found.kept[0] and "test_on_error.py:" in found.kept[0]


def _asked(graph: Graph, obj: dict[str, Any], old: dict[str, Any] | None, version: str) -> AdmissionResponse:
    """Ask the admission step about a write at a version; the objects are those of the hub, as it is registered."""
    here, asked = (GroupVersionKind(_GROUP, each, "Kept") for each in ("v2", version))
    resource = GroupVersionResource(_GROUP, "v2", "kepts")
    operation = "CREATE" if old is None else "UPDATE"
    request = AdmissionRequest("u", here, resource, operation, request_kind=asked, object=obj, old_object=old)  # type: ignore[arg-type]  # set by a descriptor
    return refuse_kept(graph, request)


def test_a_write_may_be_refused() -> None:
    """A client that writes what no other version can show should learn it at once, and may edit everything else."""
    graph = _graph([_sized()], on_error="keep")
    sent = graph.convert(_at("v1", spec={"size": "huge"}), f"{_GROUP}/v2")
    answer = _asked(graph, sent, None, "v1")
    assert not answer.allowed and answer.code == 422 and "/spec/size" in answer.message and "huge" not in answer.message
    assert not _asked(graph, _at("v2", spec={"count": 13}), None, "v2").allowed
    assert _asked(graph, _at("v2", spec={"count": 12}), None, "v1").allowed
    stored = _at("v2", spec={"count": 13})
    assert _asked(graph, _at("v2", spec={"count": 13, "a": 1}), stored, "v2").allowed
    assert not _asked(graph, sent, stored, "v1").allowed
    assert _asked(_graph([_sized(on_error="fail")]), stored, None, "v2").allowed


@pytest.mark.parametrize("value", [2**70, {"a": [2**70]}, {"a": "\0"}, "a" * 300])
def test_a_value_that_an_expression_cannot_take_is_kept_whatever_the_rule_says(value: Any) -> None:
    """One such value of a client would fail every list of its kind, although no rule is wrong."""
    doubling = "cel.bind(a0, self, " + "".join(f"cel.bind(a{n + 1}, a{n}+a{n}, " for n in range(18)) + "self" + ")" * 19
    up = doubling if isinstance(value, str) else "self"
    graph = _graph([rules.pair("spec.size", "spec.count", up=up, down="self", on_error="fail")])
    obj = _at("v1", spec={"size": value, "other": 1})
    with kept_values() as kept:
        there, back = _back(graph, obj)
    assert there["spec"] == {"other": 1}
    assert back == obj
    assert kept and all(failed.unasked for failed in kept)
    assert "CEL expression" in tried(graph, obj), "a rehearsal passes although values are not shown"
    assert not graph.kind(_GROUP, "Kept").keeps


def test_an_item_that_an_expression_cannot_judge_is_hidden() -> None:
    """One item of a client would fail every list of its kind; shown as it is, it could be shown wrongly."""
    graph = _graph([rules.each("spec.items", rules=[], key="name", hide="self.n > 3")])
    items = [{"name": "a", "n": 1}, {"name": "b", "n": 2**70}]
    there, back = _back(graph, _at("v2", spec={"items": items}))
    assert there["spec"] == {"items": items[:1]}
    assert back["spec"] == {"items": items}
