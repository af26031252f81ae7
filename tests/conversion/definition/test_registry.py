"""Freezing reports every defect at once, with its place and a fix; and lets nothing incomplete through."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from restow.conversion import DefinitionError, Registry, UnknownKind, UnknownVersion, convert_review, rules
from restow.crds import Crd
from tests.conversion.randomkinds import GROUP, KIND, crd, freeze, keyed, obj

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}


def spec(**properties: Any) -> dict[str, Any]:
    return obj({"spec": obj(properties)})


def defects(declared: list[Any], hub: dict[str, Any], spoke: dict[str, Any], **options: Any) -> list[str]:
    with pytest.raises(DefinitionError) as caught:
        freeze({"v1": declared}, crd({"v2": hub, "v1": spoke}), **options)
    return [f"{each.version} {each.path}: {each.problem}. {each.fix}" for each in caught.value.diagnostics]


#: rules, hub schema, spoke schema, (version and path, words of the problem or fix).
DEFECTS: list[Any] = [
    pytest.param(
        [],
        spec(a=TEXT),
        spec(a=TEXT, b=TEXT),
        "v1 .spec.b",
        ["no counterpart in v2", 'stash("spec.b")'],
        id="forgotten-spoke-field",
    ),
    pytest.param(
        [],
        spec(a=TEXT, b=TEXT),
        spec(a=TEXT),
        "v2 .spec.b",
        ["no counterpart in v1", 'stash(hub="spec.b")'],
        id="forgotten-hub-field",
    ),
    pytest.param(
        [], spec(a=TEXT), spec(a=NUMBER), "v1 .spec.a", ["is integer", "is string", "rules.cast"], id="other-type"
    ),
    pytest.param(
        [],
        spec(a={"type": "string", "enum": ["x", "y"]}),
        spec(a={"type": "string", "enum": ["x"]}),
        "v2 .spec.a",
        ["'y'", "down="],
        id="other-enum",
    ),
    pytest.param(
        [],
        spec(a={"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}),
        spec(a={"type": "array", "items": TEXT}),
        "v1 .spec.a",
        ["atomic", "set"],
        id="other-list-type",
    ),
    pytest.param(
        [],
        spec(a={"type": "array", "items": obj({"x": TEXT})}),
        spec(a={"type": "array", "items": obj({})}),
        "v2 .spec.a[].x",
        ["no counterpart", "rules.each"],
        id="inside-a-list",
    ),
    pytest.param(
        [],
        spec(a={"type": "object", "additionalProperties": obj({"x": TEXT})}),
        spec(a={"type": "object", "additionalProperties": obj({})}),
        "v2 .spec.a{}.x",
        ["no counterpart"],
        id="inside-a-map",
    ),
    pytest.param(
        [],
        spec(a={"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        spec(a={"type": "object"}),
        "v2 .spec.a",
        ["keeps any field", "rules.described("],
        id="preserves-in-one-version",
    ),
    pytest.param(
        [],
        spec(a=TEXT) | {"required": ["spec"]},
        spec(a=TEXT),
        "v2 .spec",
        ["required", "rules.default"],
        id="required-in-one-version",
    ),
    pytest.param(
        [rules.rename("spec.tll", "spec.b")],
        spec(b=TEXT),
        spec(ttl=TEXT),
        "v1 .spec.tll",
        ["does not declare", ".spec.ttl is near"],
        id="typo",
    ),
    pytest.param(
        [rules.rename("spec.a", "spec.b")],
        spec(b=TEXT),
        spec(a=TEXT, b=TEXT),
        "v1 .spec.b",
        ["in the way", "rename"],
        id="in-the-way",
    ),
    pytest.param(
        [rules.rename("spec.a", "spec.b"), rules.stash("spec.a")],
        spec(b=TEXT),
        spec(a=TEXT),
        "v1 .spec.a",
        ["both", "claim"],
        id="two-writers",
    ),
    pytest.param(
        [rules.stash("spec"), rules.rename("spec.a", "spec.a")],
        spec(a=TEXT),
        spec(a=TEXT),
        "v1 .spec.a",
        ["both"],
        id="two-writers-nested",
    ),
    pytest.param(
        [rules.rename("spec.a", "other.a")],
        obj({"other": obj({"a": TEXT})}),
        spec(a=TEXT),
        "v1 .spec.a",
        ["rules.move"],
        id="rename-that-moves",
    ),
    pytest.param(
        [rules.rename("metadata.name", "spec.a")],
        spec(a=TEXT),
        spec(),
        "v1 .metadata.name",
        ["API server"],
        id="metadata",
    ),
    pytest.param(
        [rules.enum("spec.a", {"x": "X"})],
        spec(a={"type": "string", "enum": ["X", "Y"]}),
        spec(a={"type": "string", "enum": ["x"]}),
        "v2 .spec.a",
        ["no entry for 'Y'", "down="],
        id="enum-incomplete",
    ),
    pytest.param(
        [rules.enum("spec.a", {"x": "Z"})],
        spec(a={"type": "string", "enum": ["X"]}),
        spec(a={"type": "string", "enum": ["x"]}),
        "v1 .spec.a",
        ["gives 'Z'"],
        id="enum-wrong-value",
    ),
    pytest.param(
        [rules.wrap("spec.a", "spec.b[]")],
        spec(b=TEXT),
        spec(a=TEXT),
        "v2 .spec.b",
        ["needs a list"],
        id="wrap-no-list",
    ),
    pytest.param(
        [rules.wrap("spec.a", "spec.b[]")],
        spec(b={"type": "array", "items": NUMBER}),
        spec(a=TEXT),
        "v1 .spec.a",
        ["is string", "is integer"],
        id="wrap-other-type",
    ),
    pytest.param(
        [rules.each("spec.a", [], key="name")],
        spec(a=keyed(obj({"id": TEXT}))),
        spec(a=keyed(obj({"id": TEXT}))),
        "v2 .spec.a",
        ["by name", "by id"],
        id="other-keys",
    ),
    pytest.param(
        [rules.each("spec.a", [rules.enum("id", {"x": "X"})])],
        spec(a=keyed(obj({"id": TEXT}))),
        spec(a=keyed(obj({"id": TEXT}))),
        "v2 .spec.a[]",
        ["changes the key id"],
        id="key-changed",
    ),
    pytest.param(
        [rules.each("spec.a", [rules.rename("x", "y")])],
        spec(a=keyed(obj({"id": TEXT, "y": TEXT}))),
        spec(a=keyed(obj({"id": TEXT, "x": TEXT, "z": TEXT}))),
        "v1 .spec.a[].z",
        ["no counterpart"],
        id="each-forgotten",
    ),
    pytest.param(
        [rules.stash(hub="spec.a")],
        spec(a=TEXT) | {"properties": {"spec": obj({"a": TEXT}, required=["a"])}},
        spec(),
        "v2 .spec.a",
        ["rules.constant"],
        id="stash-required",
    ),
    pytest.param(
        [rules.move("spec.a", "spec.box.a")],
        obj({"spec": obj({"box": obj({"a": TEXT})}, required=["box"])}),
        spec(a=TEXT),
        "v2 .spec.box",
        ["required", "nothing to put into it"],
        id="required-object-that-may-stay-empty",
    ),
    pytest.param(
        [rules.constant(hub="spec.a", value=1)],
        spec(a=TEXT),
        spec(),
        "v2 .spec.a",
        ["another type"],
        id="constant-other-type",
    ),
    pytest.param(
        [rules.pair("spec.a", "spec.a", up=str, down=str, reads=("spec.b",))],
        spec(a=TEXT),
        spec(a=TEXT),
        "v1 .",
        ['loses="down"'],
        id="reads-without-loses",
    ),
    pytest.param(
        [rules.drop("spec.a", acknowledge=" ")], spec(), spec(a=TEXT), "v1 .", ["acknowledge"], id="drop-without-reason"
    ),
    pytest.param([rules.stash("spec..a")], spec(), spec(a=TEXT), "v1 .", ["is no path"], id="no-path"),
    pytest.param([rules.stash()], spec(), spec(), "v1 .", ["one field"], id="nothing-claimed"),
    pytest.param(["spec.a"], spec(), spec(), "v1 .", ["str is no rule"], id="no-rule"),
    pytest.param(
        [rules.pair("spec.a", "spec.a", up=str, down=["s"])],  # type: ignore[arg-type]
        spec(a=TEXT),
        spec(a=TEXT),
        "v1 .",
        ["a list for down="],
        id="no-function",
    ),
    pytest.param(
        [rules.pair("spec.a", "spec.a", up=str, down=str, loses="all")],  # type: ignore[arg-type]
        spec(a=TEXT),
        spec(a=TEXT),
        "v1 .",
        ["loses='all'", "'nothing', 'up', 'down', 'both'"],
        id="no-direction",
    ),
    pytest.param(
        [rules.constant(hub="spec.a", value={1})], spec(a={}), spec(), "v2 .spec.a", ["no JSON"], id="constant-no-json"
    ),
    pytest.param(
        [rules.default("spec.a", float("nan"))],
        spec(a={"type": "number"}),
        spec(a={"type": "number"}),
        "v2 .spec.a",
        ["no JSON"],
        id="default-no-json",
    ),
    pytest.param(
        [rules.each("spec.a", [rules.pair("x", "x", up=str, down=str, loses="down", reads="$.s[].a[].b")], key="id")],
        spec(a=keyed(obj({"id": TEXT, "x": TEXT}))),
        spec(a=keyed(obj({"id": TEXT, "x": TEXT}))),
        "v2 .spec.a[]",
        ["in 1 lists only", "Write as many []"],
        id="reads-too-deep",
    ),
]


@pytest.mark.parametrize(("declared", "hub", "spoke", "place", "words"), DEFECTS)
def test_defect(declared: list[Any], hub: dict[str, Any], spoke: dict[str, Any], place: str, words: list[str]) -> None:
    """Each kind of defect is found before the first object, with its place and what to write instead."""
    found = defects(declared, hub, spoke)
    assert any(each.startswith(f"{place}: ") and all(word in each for word in words) for each in found), found


def test_all_defects_at_once() -> None:
    """One run shows everything that is wrong; else an author fixes one line a time."""
    declared = [rules.rename("spec.ax", "spec.b"), rules.stash("spec..a"), rules.wrap("spec.c", "spec.d[]")]
    found = defects(declared, spec(b=TEXT, d=TEXT, e=TEXT), spec(a=TEXT, c=TEXT, f=TEXT))
    assert [each.split(": ")[0] for each in found] == [
        "v1 .",
        "v1 .spec.ax",
        "v2 .spec.d",
        "v1 .spec.a",
        "v1 .spec.f",
        "v2 .spec.e",
    ]


def test_a_required_object_that_is_always_filled() -> None:
    """A required field that moves into a required object satisfies the check; otherwise no rule could."""
    boxed = obj({"spec": obj({"box": obj({"a": TEXT}, required=["a"])}, required=["box"])})
    flat = obj({"spec": obj({"a": TEXT}, required=["a"])})
    freeze({"v1": [rules.move("spec.a", "spec.box.a")]}, crd({"v2": boxed, "v1": flat}))


def test_a_field_added_later_is_found() -> None:
    """A field that is added to one schema makes a complete conversion fail the check."""
    declared = [rules.rename("spec.a", "spec.b")]
    freeze({"v1": declared}, crd({"v2": spec(b=TEXT), "v1": spec(a=TEXT)}))
    (found,) = defects(declared, spec(b=TEXT, new=TEXT), spec(a=TEXT))
    assert found.startswith("v2 .spec.new: ")


def test_versions() -> None:
    """Every version of the CRD has its place, and only those."""
    document = crd({"v2": spec(), "v1": spec(), "v0": spec()})
    registry = Registry()
    kind = registry.kind(document.group, document.kind, hub="v2")
    for version in ("v1", "v1", "v2", "v9"):
        kind.spoke(version)(list)
    registry.kind(document.group, document.kind, hub="v2")
    registry.kind(document.group, "Other", hub="v2")
    with pytest.raises(DefinitionError) as caught:
        registry.freeze([document])
    text = str(caught.value)
    for part in (
        "v1 .: is declared twice",
        "v2 .: is the hub and a spoke",
        "v9 .: is no version",
        "v0 .: is neither",
        "registered twice",
        "Other.random.example.dev  .: has no CRD",
    ):
        assert part in text


def test_the_stash_has_a_name_that_annotations_can_have() -> None:
    """The server refuses objects with such an annotation: every write at an old version would fail."""
    document = crd({"v2": spec(), "v1": spec()})
    with pytest.raises(DefinitionError, match="no annotation can be named"):
        freeze({"v1": []}, document, stash="my stash")
    with pytest.raises(DefinitionError, match="negative stash_budget"):
        freeze({"v1": []}, document, stash_budget=-1)


def test_a_function_that_returns_no_rules() -> None:
    """A forgotten return is a defect like others; else it hides all of them."""
    registry = Registry()
    kind = registry.kind("random.example.dev", "Thing", hub="v2")
    kind.spoke("v1")(lambda: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(DefinitionError, match="returns a NoneType instead of rules"):
        registry.freeze()


def test_an_internal_hub_requires_what_all_spokes_do() -> None:
    """A field that every version requires is required in between; else no such kind could have an internal hub."""

    def with_spec(*required: str, **fields: Any) -> dict[str, Any]:
        return obj({"spec": obj(fields, required=[*required])}, required=["spec"])

    sizes = {"type": "string", "enum": ["s", "m"]}, {"type": "string", "enum": ["S", "M", "L"]}
    document = crd({"v2": with_spec("size", size=sizes[1]), "v1": with_spec("kind", kind=sizes[0])})
    size = rules.enum("spec.kind", {"s": "S", "m": "M"}, hub="spec.size", down={"L": "m"})
    hub = freeze({"v2": [], "v1": [size]}, document, hub="hub").kind(document.group, document.kind).hub_schema
    assert hub is not None
    assert hub.required == {"spec"}
    assert hub.node["properties"]["spec"]["required"] == ["size"]
    with pytest.raises(DefinitionError, match=r"v2 \.spec\.size: is required, but hub may leave it out"):
        freeze(
            {"v2": [], "v1": [size]},
            crd({"v2": with_spec("size", size=sizes[1]), "v1": with_spec(kind=sizes[0])}),
            hub="hub",
        )


def test_an_internal_hub_knows_every_value_that_a_version_does() -> None:
    """A value of one version without a counterpart in another would be stored where no schema admits it."""
    sizes = [{"type": "string", "enum": ["s", "m"]}, {"type": "string", "enum": ["S", "M", "L"]}]
    document = crd({"v2": spec(size=sizes[1]), "v1": spec(size=sizes[0])})
    size = rules.enum("spec.size", {"s": "S", "m": "M"})
    with pytest.raises(DefinitionError, match=r"1 defect:\n.*hub \.spec\.size: .* has no entry for 'L'"):
        freeze({"v1": [size], "v2": []}, document, hub="hub")


def test_an_internal_hub_covers_what_spokes_bring() -> None:
    """With a hub of no schema, a field of one spoke needs an answer in every other."""
    document = crd({"v2": spec(a=TEXT, b=TEXT), "v1": spec(a=TEXT)})
    with pytest.raises(DefinitionError, match=r"hub \.spec\.b: has no counterpart in v1"):
        freeze({"v2": [], "v1": []}, document, hub="hub")
    graph = freeze({"v2": [], "v1": [rules.stash(hub="spec.b")]}, document, hub="hub")
    assert graph.kind(document.group, document.kind).visible_versions == ("v2", "v1")


def test_unknown_kinds_and_versions() -> None:
    """An unknown kind or version is refused with its name."""
    document = crd({"v2": spec(), "v1": spec()})
    graph = freeze({"v1": []}, document)
    with pytest.raises(UnknownKind, match="no conversion is registered for Other"):
        graph.convert({"apiVersion": f"{document.group}/v1", "kind": "Other"}, f"{document.group}/v2")
    with pytest.raises(UnknownVersion, match="no version v7, only v1, v2"):
        graph.convert({"apiVersion": f"{document.group}/v1", "kind": document.kind}, f"{document.group}/v7")
    with pytest.raises(UnknownVersion, match="cannot become"):
        graph.convert({"apiVersion": f"{document.group}/v1", "kind": document.kind}, "other.dev/v2")


def test_the_same_version_is_the_same_object() -> None:
    """Converting to the version that an object has gives it back as it is."""
    document = crd({"v2": spec(), "v1": spec()})
    thing = {"apiVersion": f"{document.group}/v1", "kind": document.kind}
    assert freeze({"v1": []}, document).convert(thing, f"{document.group}/v1") is thing


def _with_old(*, served: bool) -> Crd:
    """A CRD with a third version, v0."""
    document = crd({"v2": obj({"a": {"type": "string"}}), "v1": obj({"a": {"type": "string"}}), "v0": obj({})})
    return replace(
        document, versions=tuple(replace(each, served=each.name != "v0" or served) for each in document.versions)
    )


def test_an_unserved_version_is_left_alone_if_the_author_says_so() -> None:
    """Projects keep versions that no client can ask for, and whose conversions are gone, in their CRDs for years."""
    with pytest.raises(DefinitionError, match=r'v0 \.: is neither the hub nor a spoke.* leaves=\["v0"\]'):
        freeze({"v1": []}, _with_old(served=False))
    graph = freeze({"v1": []}, _with_old(served=False), leaves=["v0"])
    kind = graph.kind(GROUP, KIND)
    assert kind.leaves == ("v0",) and kind.visible_versions == ("v1", "v2")
    old = {"apiVersion": f"{GROUP}/v0", "kind": KIND, "metadata": {"name": "a"}}
    request = {"uid": "1", "desiredAPIVersion": f"{GROUP}/v2", "objects": [old]}
    review = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    answer = json.loads(convert_review(graph, json.dumps(review).encode()))["response"]["result"]
    assert answer["status"] == "Failure" and "v0 is left alone by its rules: it is not served" in answer["message"]


def test_a_version_that_clients_need_cannot_be_left_alone() -> None:
    """An author who is wrong about it would learn it from clients."""
    with pytest.raises(DefinitionError, match="is left alone, and is served"):
        freeze({"v1": []}, _with_old(served=True), leaves=["v0"])
    with pytest.raises(DefinitionError, match="is left alone, and declared"):
        freeze({"v1": []}, _with_old(served=False), leaves=["v0", "v1"])
    with pytest.raises(DefinitionError, match="is left alone, and is no version of the CRD"):
        freeze({"v1": []}, _with_old(served=False), leaves=["v0", "v9"])
