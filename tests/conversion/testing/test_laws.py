"""Every law, over random kinds: schemas and rules are generated together, then objects of them."""

from __future__ import annotations

from itertools import permutations
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from restow.conversion import Graph, rules
from restow.conversion.definition.missing import missing_where_made
from restow.conversion.testing import Laws, objects, partial_objects
from restow.conversion.testing.allowances import has_forget
from restow.conversion.testing.functions import failing
from restow.crds import Crd, Schema
from tests.conversion.randomkinds import GROUP, KIND, crd, families, freeze, obj, scopes

RELAXED = settings(suppress_health_check=list(HealthCheck))


@st.composite
def samples(draw: st.DrawFn, *, unknown: bool = False) -> tuple[Laws, Any, str]:
    """Draw a kind's laws, an object of one version, and another version."""
    graph, schemas = draw(families())
    source, target = draw(st.sampled_from([*permutations(schemas, 2)]))
    return (
        Laws(graph.kind(GROUP, KIND)),
        draw(objects(schemas[source], f"{GROUP}/{source}", KIND, unknown=unknown)),
        target,
    )


@RELAXED
@given(samples())
def test_round_trip(sample: tuple[Laws, Any, str]) -> None:
    """There and back is the identity, whatever the rules; else data is lost on every write at an old version."""
    laws, obj, target = sample
    laws.round_trip(obj, target)


@RELAXED
@given(samples(unknown=True))
def test_unknown_fields_survive(sample: tuple[Laws, Any, str]) -> None:
    """Fields that no schema declares come back; else preserve-unknown-fields kinds lose data."""
    laws, obj, target = sample
    laws.round_trip(obj, target)


@RELAXED
@given(samples(), st.data())
def test_path_independence(sample: tuple[Laws, Any, str], data: st.DataObject) -> None:
    """A detour over a third version costs nothing; else the storage version decides what an old client sees."""
    laws, obj, target = sample
    others = [version for version in laws.kind.versions if version not in (target, obj["apiVersion"].split("/")[1])]
    laws.path_independence(obj, data.draw(st.sampled_from(others)), target)


@RELAXED
@given(samples())
def test_determinism_and_purity(sample: tuple[Laws, Any, str]) -> None:
    """The same object gives the same bytes and stays as it was; else watch caches and no-op detection break."""
    laws, obj, target = sample
    laws.determinism(obj, target)
    laws.unchanged_input(obj, target)


@RELAXED
@given(samples())
def test_validity(sample: tuple[Laws, Any, str]) -> None:
    """An object that is valid in one version is valid in the other; else the server prunes or stores invalid fields."""
    laws, obj, target = sample
    assume(not missing_where_made(laws.kind))  # there ``restow check`` asks the author what such an object has
    laws.validity(obj, target)


@RELAXED
@given(families(), st.data())
def test_partial_objects(family: tuple[Graph, dict[str, Schema]], data: st.DataObject) -> None:
    """A manager's part of an object gains no field by conversion; else server-side apply makes up owners."""
    graph, schemas = family
    source, target = data.draw(st.sampled_from([*permutations(schemas, 2)]))
    whole, part = data.draw(partial_objects(schemas[source], f"{GROUP}/{source}", KIND))
    laws = Laws(graph.kind(GROUP, KIND))
    laws.partial(whole, part, target)
    laws.round_trip(part, target)


@RELAXED
@given(families(), st.data())
def test_edits_win(family: tuple[Graph, dict[str, Schema]], data: st.DataObject) -> None:
    """What a client wrote is what it reads back; else a stale stash undoes its edit."""
    graph, schemas = family
    source, target = data.draw(st.sampled_from([*permutations(schemas, 2)]))
    before = data.draw(objects(schemas[source], f"{GROUP}/{source}", KIND))
    edited = data.draw(objects(schemas[target], f"{GROUP}/{target}", KIND))
    Laws(graph.kind(GROUP, KIND)).edits_win(before, edited)


@RELAXED
@given(families(on_error="keep"), st.integers(0, 3), st.data())
def test_functions_that_raise(family: tuple[Graph, dict[str, Schema]], seed: int, data: st.DataObject) -> None:
    """With on_error="keep" every object converts, and what failed comes back; else one object hides all of its kind."""
    graph, schemas = family
    source, target = data.draw(st.sampled_from([*permutations(schemas, 2)]))
    stored = data.draw(objects(schemas[source], f"{GROUP}/{source}", KIND))
    edited = data.draw(objects(schemas[target], f"{GROUP}/{target}", KIND))
    kind = graph.kind(GROUP, KIND)
    laws = Laws(failing(kind, seed))
    laws.round_trip(stored, target)
    laws.determinism(stored, target)
    laws.unchanged_input(stored, target)
    laws.edits_win(stored, edited)
    everywhere = Laws(failing(kind, seed, everywhere=True))
    everywhere.convert(everywhere.convert(stored, target), source)


@st.composite
def keyless_kinds(draw: st.DrawFn) -> tuple[Laws, Crd]:
    """Draw a kind that is one list without keys, whose items have random fields and rules."""
    inner = draw(scopes(1).filter(lambda scope: scope.rules))
    spoke, hub = inner.schemas()
    document = crd(
        {"v2": obj({"items": {"type": "array", "items": hub}}), "v1": obj({"items": {"type": "array", "items": spoke}})}
    )
    rule = rules.each("items", inner.rules, acknowledge="random items have no keys")
    return Laws(freeze({"v1": [rule]}, document).kind(GROUP, KIND)), document


@RELAXED
@given(keyless_kinds(), st.sampled_from([("v1", "v2"), ("v2", "v1")]), st.integers(0, 99), st.data())
def test_edits_of_items(kind: tuple[Laws, Crd], way: tuple[str, str], choice: int, data: st.DataObject) -> None:
    """An edit of one item of a list without keys keeps what all items hide; else a patch of a label loses a field."""
    laws, document = kind
    source, target = way
    schema = document.version(source)
    assert schema is not None
    laws.edits_of_items(data.draw(objects(schema.schema, f"{GROUP}/{source}", KIND)), target, choice)


TEXT = {"type": "string"}
BRANCHED = obj({"spec": obj({"kind": TEXT, "a": TEXT, "list": {"type": "array", "items": TEXT}})})


def branched_laws(rule: rules.Rule) -> Laws:
    """Return the laws of a kind whose rule converts the objects of one branch only."""
    document = crd({"v2": BRANCHED, "v1": BRANCHED})
    branch = rules.when([rule], field="spec.kind", equals="x")
    return Laws(freeze({"v1": [branch]}, document).kind(GROUP, KIND))


def branched_object(version: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/{version}", "kind": KIND, "metadata": {"name": "n"}, "spec": {"kind": "x", **spec}}


def test_what_a_rule_in_a_branch_forgets_breaks_no_law() -> None:
    """The laws would report a loss that the author declared, only since the rule stands in a branch."""
    laws = branched_laws(
        rules.pair(
            "spec.a", "spec.a", up=str.lower, down=str, loses="up", forget=str.isupper, acknowledge="old spelling"
        )
    )
    assert has_forget(laws.kind.spokes["v1"].rules)
    laws.round_trip(branched_object("v1", a="OLD"), "v2")
    laws.round_trip(branched_object("v1", kind="y", a="OLD"), "v2")


def test_what_a_rule_in_a_branch_fills_in_breaks_no_law() -> None:
    """The laws would report an invented [] that the author declared, only since the rule stands in a branch."""
    laws = branched_laws(rules.default("spec.list", []))
    laws.partial(branched_object("v1", list=["a"]), branched_object("v1"), "v2")
