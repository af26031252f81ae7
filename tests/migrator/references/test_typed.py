"""Typed references: found by structure, described by their field, and only where a schema has room for them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.migrator.references.readers.mentions import Spelling, Spellings, can_hold_mentions
from restow.migrator.references.readers.typed import typed_references
from restow.migrator.references.reference import Reference
from tests.migrator.references.found import SPELLINGS, WIDGETS
from tests.migrator.references.spellings import CASES, Case, blocks, moved

PAGE = Path(__file__).parents[3] / "docs" / "references.md"

PAIR = {"apiVersion": "example.com/v1", "kind": "Widget"}


def found(**fields: Any) -> list[tuple[str, str]]:
    """Where a cluster's references are, and what is said of each."""
    obj = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "c", "ownerReferences": [PAIR]}}
    return [(each.where, each.detail) for each in typed_references("clusters.x", obj | fields, SPELLINGS)]


def test_the_object_itself_and_its_owners_are_no_typed_references() -> None:
    """Each widget would be a reference to its own kind."""
    assert found() == []


def test_places_are_json_pointers() -> None:
    """A pointer that kubectl patch does not take costs a search by hand."""
    spec = {"a/b": {"c~d": [{"x": 1}, {"infrastructureRef": PAIR | {"name": "i"}}]}}
    assert found(spec=spec) == [
        ("/spec/a~1b/c~0d/1/infrastructureRef", "a reference of Cluster API to its infrastructure, names i")
    ]
    assert found(status={"refs": [PAIR]}) == [("/status/refs/0", "a typed reference")]


def of_case(case: Case, version: str = "v1") -> list[Reference]:
    """The references in a project's object."""
    obj = {"metadata": {"name": "a"}} | case.content("example.com", version)
    if not SPELLINGS.may_be_in(json.dumps(obj).encode()):
        return []
    return list(typed_references(case.resource, obj, SPELLINGS))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.project)
def test_each_projects_spelling_is_found(case: Case) -> None:
    """A spelling that is missed stops that project's controller or rule without a word, after a ready that said yes."""
    (one,) = of_case(case)
    assert (one.where, blocks(one), moved(one)) == (case.where, case.blocks, case.moved)
    assert of_case(case, "v3") == [], "another version is no reference"
    properties = {**case.schema.get("properties", {}), "apiVersion": STRING, "kind": STRING, "metadata": {}}
    assert can_hold_mentions({"properties": properties}) or not case.kind, "its objects would be listed by metadata"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.project)
def test_the_same_kind_of_another_group_is_none(case: Case) -> None:
    """Many groups have a kind of the same name, and most have a v1."""
    short = "v1/Widget" in case.content("example.com", "v1").__str__().replace("example.com/v1/Widget", "")
    found = typed_references(case.resource, case.content("other.example.org", "v1"), SPELLINGS)
    assert [each.where for each in found] == [case.where] * short, "Kyverno's short form names the kind of any group"


def test_the_page_has_the_table_of_the_code() -> None:
    """Readers plan a removal by the page: each row is a case here, and each spelling of the code has a row."""
    row = r"^\| `(.+?)` \| (.+?) \| yes \| (.+?) \| (.+?) \|"
    rows = re.findall(row, PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [(case.spelling, case.project, case.moved, case.blocks) for case in CASES]
    assert {case.spelling for case in CASES} == {each.value for each in Spelling}


def test_a_rule_or_text_that_names_the_next_version_goes_on() -> None:
    """A user who adds the new version next to the old one must get a yes."""
    text = {"kinds": ["example.com/v1/Widget", "example.com/v2/Widget"]}
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v1", "v2"], "resources": ["widgets"]}
    quoted = {"expression": "object.apiVersion in ['example.com/v1', 'example.com/v2'] && object.kind == 'Widget'"}
    for spec in (text, {"rules": [rule]}, quoted):
        (one,) = typed_references("a.b", {"spec": spec}, SPELLINGS)
        assert blocks(one) == "nothing", spec
        assert "another served version" in one.effect.removed


@pytest.mark.parametrize(
    "expression",
    [
        "request.kind.version == 'v1'",  # no rule names the group
        "object.spec.note == 'example.com' && object.spec.release == 'v1'",
        "object.apiVersion == 'example.com/v1' && object.kind == 'Gadget'",
        "example.com/v1 Widget",
    ],
)
def test_an_expression_about_something_else_is_none(expression: str) -> None:
    """Each cluster has many texts with v1 in quotes."""
    assert not list(typed_references("a.b", {"spec": {"validations": [{"expression": expression}]}}, SPELLINGS))


def test_a_message_is_none() -> None:
    """The API server itself writes such messages into conditions, most of all once the version is gone."""
    message = 'no matches for kind "Widget" in version "example.com/v1"'
    assert not list(typed_references("a.b", {"status": {"conditions": [{"message": message}]}}, SPELLINGS))
    assert not list(typed_references("a.b", {"status": {"last": message}}, SPELLINGS))


def test_what_names_an_object_is_a_reference_to_it() -> None:
    """A reference with a name is followed at its version, in a status too, and is moved as a typed one."""
    named = {"group": "example.com", "version": "v1", "kind": "Widget", "name": "w"}
    (one,) = typed_references("a.b", {"status": {"owner": named}}, SPELLINGS)
    assert (one.field, one.template, moved(one), blocks(one)) == ("/status/owner/version", "{}", "yes", "unserving")


def test_many_versions_are_told_apart() -> None:
    """A search for all CRDs walks each object once; a mix-up would blame the wrong CRD."""
    gadgets = type(WIDGETS)("example.com", "v2", "Gadget", "gadgets", ("v3",))
    spec = {"kinds": ["example.com/v1/Widget", "example.com/v2/Gadget", "example.com/v2/Widget"]}
    both = Spellings([WIDGETS, gadgets])
    assert [(each.of.kind, each.where[-1]) for each in typed_references("a.b", {"spec": spec}, both)] == [
        ("Widget", "0"),
        ("Gadget", "1"),
    ]


@pytest.mark.parametrize(
    "value",
    [
        {"apiVersion": "example.com/v2", "kind": "Widget"},
        {"apiVersion": "example.com/v1", "kind": "Gadget"},
        {"apiVersion": ["example.com/v1"], "kind": "Widget"},
        {"note": "example.com/v1 Widget"},
        "apiVersion: example.com/v1\nkind: Widget",
    ],
)
def test_texts_and_others_are_none(value: Any) -> None:
    """A text that only has the words would be moved into nonsense."""
    assert found(spec={"x": value}) == []


@pytest.mark.parametrize("field", ["involvedObject", "regarding", "related"])
def test_records_of_events_are_left_out(field: str) -> None:
    """Nothing looks a record up, and they would be most of what is found."""
    assert found(**{field: PAIR}) == []


def test_an_embedded_object_is_not_moved_as_a_reference() -> None:
    """Its fields are those of its version: another apiVersion alone would make another object of it."""
    obj = {"metadata": {"name": "c"}, "spec": {"base": PAIR | {"spec": {"size": 1}}, "ref": PAIR | {"name": "w"}}}
    template, reference = typed_references("compositions.x", obj, SPELLINGS)
    assert (template.effect.movable, reference.effect.movable) == (False, True)
    assert "template" in template.detail


def test_a_horizontal_pod_autoscaler_needs_no_version() -> None:
    """Its controller looks for group and kind; to block a release for it would be wrong. Others take the version."""
    obj = {"metadata": {"name": "a"}, "spec": {"scaleTargetRef": PAIR | {"name": "w"}}}
    (builtin,) = typed_references("horizontalpodautoscalers.autoscaling", obj, SPELLINGS)
    (keda,) = typed_references("scaledobjects.keda.sh", obj, SPELLINGS)
    assert (builtin.effect.against_unserving, keda.effect.against_unserving) == (False, True)


def test_deep_objects_are_walked() -> None:
    """The walk uses no recursion: an API server stores objects that are deeper than Python's."""
    deep: Any = {"ref": PAIR}
    for _ in range(5000):
        deep = {"a": deep}
    assert len(found(spec=deep)) == 1


STRING = {"type": "string"}
WORDS = st.sampled_from(
    [
        *("example.com", "v1", "v2", "Widget", "widgets", "*"),
        *("example.com/v1", "example.com/v1/Widget", "v1/Widget", "example.com/v1/*", "/apis/example.com/v1/widgets"),
        "object.apiVersion == 'example.com/v1' && object.kind == 'Widget'",
    ]
)
FIELDS = st.sampled_from(
    ["apiVersion", "apiVersions", "group", "version", "kind", "apiGroups", "resources", "name", "x"]
)
TREES = st.recursive(
    WORDS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4), max_leaves=12
)


@given(st.dictionaries(st.sampled_from(["spec", "status"]), TREES))
def test_no_object_with_a_reference_is_left_undecoded(fields: dict[str, Any]) -> None:
    """The scan decodes an object only if its text may have a reference; a wrong no hides it."""
    if list(typed_references("a.b", fields, SPELLINGS)):
        assert SPELLINGS.may_be_in(json.dumps(fields).encode())


@given(st.dictionaries(st.sampled_from(["spec", "status"]), TREES))
def test_what_is_moved_is_no_reference_any_more(fields: dict[str, Any]) -> None:
    """A move that writes another place than the one that names the version would never end."""
    found = [each for each in typed_references("a.b", fields, SPELLINGS) if each.effect.movable]
    for each in found:
        *outer, last = [part.replace("~1", "/").replace("~0", "~") for part in each.field.split("/")[1:]]
        holder: Any = fields
        for step in outer:
            holder = holder[int(step) if isinstance(holder, list) else step]
        holder[int(last) if isinstance(holder, list) else last] = each.template.replace("{}", "v2")
    assert not [each for each in typed_references("a.b", fields, SPELLINGS) if each.effect.movable]


@pytest.mark.parametrize(
    ("spec", "holds"),
    [
        ({"properties": {"size": {"type": "integer"}}}, False),
        ({"properties": {"kind": STRING}}, False),
        ({"properties": {"ref": {"properties": {"kind": STRING, "apiVersion": STRING}}}}, True),
        ({"properties": {"l": {"items": {"properties": {"kind": STRING, "apiVersion": STRING}}}}}, True),
        ({"additionalProperties": {"properties": {"kind": STRING, "apiVersion": STRING}}}, True),
        ({"properties": {"settings": {"additionalProperties": STRING}}}, True),
        ({"properties": {"nodeSelector": {"additionalProperties": STRING}}}, False),
        ({"properties": {"limits": {"additionalProperties": {"x-kubernetes-int-or-string": True}}}}, False),
        ({"properties": {"version": STRING, "kind": STRING}}, False),
        ({"properties": {"version": STRING, "resources": {"properties": {"limits": {}}}, "group": STRING}}, False),
        ({"additionalProperties": True}, True),
        ({"x-kubernetes-preserve-unknown-fields": True}, True),
        ({"properties": {"t": {"x-kubernetes-embedded-resource": True}}}, True),
    ],
)
def test_a_schema_tells_whether_objects_are_listed_whole(spec: dict[str, Any], holds: bool) -> None:
    """A wrong no hides references; a wrong yes reads the objects of most CRDs for nothing."""
    schema = {"properties": {"apiVersion": STRING, "kind": STRING, "metadata": {}, "spec": spec}}
    assert can_hold_mentions(schema) is holds
    assert can_hold_mentions(None)
