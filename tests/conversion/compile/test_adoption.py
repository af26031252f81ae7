"""Stashes of other tools: a whole object of the hub in an annotation, as conversions in Go keep it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from restow.conversion import Adopted, DefinitionError, Graph, Registry, rules
from restow.conversion.explain import explain
from restow.conversion.operate.trial import tried
from restow.conversion.rulefiles import RuleFileError, dump, load

_GROUP, _DATA = "adopted.example.dev", "other.example.dev/conversion-data"
_STASH = f"{_GROUP}/conversion-stash"


def _graph(**how: Any) -> Graph:
    registry = Registry()
    kind = registry.kind(_GROUP, "Adopted", hub="v2", adopt=Adopted(_DATA, "v2", **how))
    kind.spoke("v1")(
        lambda: [
            rules.rename("spec.ttl", "spec.timeToLive"),
            rules.wrap("spec.image", "spec.images[]"),
            rules.stash(hub="spec.weight"),
            rules.each("spec.items", [rules.stash(hub="size")], key="name"),
            rules.stash("spec.old"),
        ]
    )
    kind.spoke("v3")(lambda: [rules.stash("spec.new")])
    return registry.freeze()


WHOLE = {
    "spec": {
        "timeToLive": 60,
        "images": ["a", "b"],
        "weight": 5,
        "items": [{"name": "x", "size": 1}, {"name": "y", "size": 2}],
    },
    "status": {},
}


def _stored(whole: Any = WHOLE, **spec: Any) -> dict[str, Any]:
    """Return an object of v1 as another tool stored it."""
    items = [{"name": "x"}, {"name": "y"}]
    text = whole if isinstance(whole, str) else json.dumps(whole)
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "Adopted",
        "metadata": {"name": "a", "annotations": {_DATA: text}},
        "spec": {"ttl": 60, "image": "a", "items": items, "old": True, **spec},
    }


def test_what_the_other_tool_kept_comes_back() -> None:
    """A project that changes to restow has such annotations in every stored object; without, all of that is lost."""
    hub = _graph().convert(_stored(), f"{_GROUP}/v2")
    assert hub["spec"] == WHOLE["spec"]
    assert hub["metadata"]["annotations"].keys() == {_STASH}  # for what v1 alone has
    back = _graph().convert(hub, f"{_GROUP}/v1")
    assert back["spec"] == _stored()["spec"] and back["metadata"]["annotations"].keys() == {_STASH}
    assert _graph().convert(back, f"{_GROUP}/v2") == hub


def test_an_edit_that_was_made_since_wins() -> None:
    """The annotation says what the object was when it was written, and clients of v1 have changed it since."""
    edited = _stored(image="z", ttl=90, items=[{"name": "y"}, {"name": "new"}])
    hub = _graph().convert(edited, f"{_GROUP}/v2")
    assert hub["spec"] == {
        "timeToLive": 90,
        "images": ["z", "b"],
        "weight": 5,
        "items": [{"name": "y", "size": 2}, {"name": "new"}],
    }


def test_only_the_fields_that_are_asked_for() -> None:
    """A project may know that the other tool kept some fields wrongly."""
    hub = _graph(fields=("spec.weight", "spec.items")).convert(_stored(), f"{_GROUP}/v2")
    assert hub["spec"]["weight"] == 5 and hub["spec"]["items"] == WHOLE["spec"]["items"]  # type: ignore[index]
    assert hub["spec"]["images"] == ["a"]


def test_the_annotation_may_stay() -> None:
    """While the other tool still runs, it must find what it wrote."""
    hub = _graph(stays=True).convert(_stored(), f"{_GROUP}/v2")
    assert hub["spec"]["weight"] == 5 and hub["metadata"]["annotations"][_DATA] == json.dumps(WHOLE)


def test_a_stash_of_our_own_counts_for_more() -> None:
    """It was written later: restow removes or replaces what it adopts."""
    graph = _graph()
    newer = {**WHOLE, "spec": {**WHOLE["spec"], "weight": 9}}  # type: ignore[dict-item]
    ours = graph.convert({**_stored(), **newer, "apiVersion": f"{_GROUP}/v2"}, f"{_GROUP}/v1")
    ours["metadata"]["annotations"][_DATA] = json.dumps(WHOLE)
    assert graph.convert(ours, f"{_GROUP}/v2")["spec"]["weight"] == 9


def test_the_way_to_a_third_version_carries_it() -> None:
    """The hub's fields must not be lost because the object is read at another version first."""
    graph = _graph()
    third = graph.convert(_stored(), f"{_GROUP}/v3")
    assert third["spec"] == WHOLE["spec"]
    assert graph.convert(third, f"{_GROUP}/v1")["spec"] == _stored()["spec"]


@pytest.mark.parametrize(
    "text", ["", "no json", "[]", '"text"', '{"spec": 1', "{" * 200, '{"a":' * 500 + "1" + "}" * 500]
)
def test_what_is_no_object_stays(text: str) -> None:
    """Any client can write the annotation; it must not fail a conversion."""
    hub = _graph().convert(_stored(text), f"{_GROUP}/v2")
    assert hub["metadata"]["annotations"][_DATA] == text and "weight" not in hub["spec"]


def test_explain_tells_where_it_came_from() -> None:
    """The origin of an adopted field is the stash, as for fields that restow itself kept."""
    found = explain(_graph(), _stored(), f"{_GROUP}/v2")
    origin = next(leaf.origin for leaf in found.leaves if leaf.pointer == "/spec/weight")
    assert origin.how == "stash"


def test_mistakes_are_reported() -> None:
    """A misspelled version would adopt nothing, in silence."""
    registry = Registry()
    wrong = [Adopted(f"{_GROUP}/conversion-stash", "v2"), Adopted(_DATA, "v9", fields=("a[]",))]
    registry.kind(_GROUP, "Adopted", hub="v2", adopt=wrong).spoke("v1")(list)
    with pytest.raises(DefinitionError) as error:
        registry.freeze()
    text = str(error.value)
    assert (
        "is no annotation of another tool" in text and "none of its versions" in text and "'a[]' goes through" in text
    )


def test_as_data() -> None:
    """A rule file must be able to say it."""
    text = f"""\
apiVersion: restow.dev/v1alpha1
kind: ConversionRules
metadata: {{name: adopted.{_GROUP}}}
spec:
  target: {{group: {_GROUP}, kind: Adopted}}
  hub: v2
  adopt: [{{annotation: {_DATA}, version: v2, fields: [spec.weight]}}]
  spokes:
  - version: v1
    rules:
    - stash: {{hub: spec.weight}}
"""
    assert dump(load(text).registry) == text
    graph = load(text).freeze()
    assert graph.convert(_stored(), f"{_GROUP}/v2")["spec"]["weight"] == 5
    with pytest.raises(RuleFileError, match="has no version"):
        load(text.replace(", version: v2", ""))


@pytest.mark.parametrize("how", [{}, {"stays": True}, {"fields": ("spec.weight", "spec.items")}])
@pytest.mark.parametrize("edited", [{}, {"image": "z", "ttl": 90, "items": [{"name": "y"}, {"name": "new"}]}])
def test_a_takeover_is_no_change(how: Any, edited: Any) -> None:
    """The gate Rehearsed tries objects as the other tool stored them, also edited ones; it must let them pass."""
    graph, stored = _graph(**how), _stored(**edited)
    assert tried(graph, stored) == ""
    assert tried(graph, graph.kind(_GROUP, "Adopted").adopted(stored)) == ""


def test_a_takeover_that_loses_what_was_adopted_is_found() -> None:
    """The annotation of the other tool may have more than the stash's budget; the rest would be gone in silence."""
    found = {budget: tried(_small(budget), _stored({"spec": {"weight": "x" * 90}})) for budget in (150, 4096)}
    assert found[150] == "conversion, v1: the data to adopt exceeds the stash's budget of 150 bytes: raise it"
    assert found[4096] == ""


def test_an_annotation_stays_where_the_stash_has_no_room() -> None:
    """The other annotations fill what an API server allows: nothing would tell that the data was there."""
    stored = _stored({"spec": {"weight": "x" * 90}})
    stored["metadata"]["annotations"]["note"] = "x" * (256 * 1024 - 50)
    assert _small(4096).convert(stored, f"{_GROUP}/v2")["metadata"] == stored["metadata"]


def _small(budget: int) -> Graph:
    registry = Registry()
    kind = registry.kind(_GROUP, "Adopted", hub="v2", adopt=Adopted(_DATA, "v2"), stash_budget=budget)
    kind.spoke("v1")(lambda: [rules.stash(hub="spec.weight")])
    return registry.freeze()


@pytest.mark.parametrize("stays", [True, False])
def test_an_annotation_counts_once(stays: bool) -> None:
    """A client of the hub removes a field; the old value in an annotation that stays must not bring it back."""
    graph = _graph(stays=stays)
    hub = graph.convert(_stored(), f"{_GROUP}/v2")
    hub["metadata"].setdefault("annotations", {})[_DATA] = json.dumps(WHOLE)
    emptied = {**hub, "spec": {"timeToLive": 60, "images": ["a"], "items": [{"name": "x"}]}}
    for way in (["v1"], ["v3"], ["v1", "v3"]):
        there = emptied
        for version in (*way, "v2"):
            there = graph.convert(there, f"{_GROUP}/{version}")
        assert there["spec"] == emptied["spec"]
        assert (_DATA in there["metadata"].get("annotations", {})) is stays
    assert tried(graph, emptied) == ""
