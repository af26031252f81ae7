"""A list without keys whose items hide something: freezing asks for a key, and proposes one."""

from __future__ import annotations

from typing import Any

import pytest

from restow.conversion import DefinitionError, Keyless, rules
from restow.conversion.definition.losses import accepted_lists, rule_losses
from tests.conversion.randomkinds import GROUP, KIND, crd, freeze, obj

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
CHOICE = {"type": "string", "enum": ["a", "b"]}
STASH = rules.stash(hub="extra")


def listed(*required: str, more: dict[str, Any] | None = None, **properties: Any) -> dict[str, Any]:
    return {
        "type": "array",
        "items": obj(properties, **({"required": list(required)} if required else {})),
        **(more or {}),
    }


def found(rule: rules.Rule, spoke: Any, hub: Any) -> list[tuple[str, str, str]]:
    """Return what freezing says of a rule for the field ``a`` of both versions."""
    try:
        freeze({"v1": [rule]}, crd({"v2": obj({"a": hub}), "v1": obj({"a": spoke})}))
    except DefinitionError as error:
        return [(each.path, each.problem, each.fix) for each in error.diagnostics]
    return []


def proposal(spoke: Any, hub: Any, *inner: rules.Rule) -> str:
    told = found(rules.each("a", [STASH, *inner]), spoke, hub)
    (fix,) = (fix for _, problem, fix in told if "without keys" in problem)
    return (
        fix.partition(", or say")[0].removeprefix("Identify the items with ").removesuffix(" if no two have the same")
    )


def test_a_lossy_rule_in_a_list_without_keys_is_told() -> None:
    """The author learns of it before a client's edit destroys a field; else check is silent about a loss."""
    fix = (
        'Identify the items with key="name" in each(a <-> a) if no two have the same, '
        'or say with acknowledge="why" in each why this does no harm'
    )
    problem = "is a list without keys, so edits of its items can lose what the stash keeps of them for stash(extra)"
    hub = listed("name", name=TEXT, extra=TEXT)
    assert found(rules.each("a", [STASH]), listed("name", name=TEXT), hub) == [(".a", problem, fix)]


SAME = listed("name", name=TEXT, extra=TEXT)
LOSSY: list[Any] = [
    pytest.param([STASH], SAME, listed("name", name=TEXT), id="stash"),
    pytest.param([rules.stash("extra")], listed("name", name=TEXT), SAME, id="stash of the spoke"),
    pytest.param([rules.pair("extra", "extra", up=str, down=str, loses="down")], SAME, SAME, id="lossy lens"),
    pytest.param([rules.enum("extra", {"a": "x"}, down={"y": "a"})], SAME, SAME, id="lossy enum"),
    pytest.param([rules.default("extra", "x")], SAME, SAME, id="default"),
    pytest.param([rules.constant(hub="extra", value="x")], SAME, listed("name", name=TEXT), id="constant"),
    pytest.param(
        [rules.inside("box", [rules.stash(hub="x")])],
        listed("name", name=TEXT, box=obj({"x": TEXT})),
        listed("name", name=TEXT, box=obj({})),
        id="in an object",
    ),
    pytest.param(
        [rules.each("parts", [rules.stash(hub="x")], key="id")],
        listed("name", name=TEXT, parts=listed("id", id=TEXT, x=TEXT)),
        listed("name", name=TEXT, parts=listed("id", id=TEXT)),
        id="in a list with keys",
    ),
]


@pytest.mark.parametrize(("inner", "hub", "spoke"), LOSSY)
def test_every_kind_of_loss_counts(inner: list[rules.Rule], hub: Any, spoke: Any) -> None:
    """Whatever leaves something in the stash can lose it, however deep it is; a key or a reason settles it."""
    ((path, problem, _),) = found(rules.each("a", inner), spoke, hub)
    assert (path, problem.startswith("is a list without keys")) == (".a", True)
    assert not found(rules.each("a", inner, key="name"), spoke, hub)
    assert not found(rules.each("a", inner, acknowledge="it has one item"), spoke, hub)


def test_hidden_items_count() -> None:
    """A hidden item has its place behind another one, which an edit may change."""
    ((_, problem, _),) = found(rules.each("a", [], hide=bool), SAME, SAME)
    assert problem.endswith("for hide=")


def test_lists_in_lists_are_told_each() -> None:
    """Both lists need a key: the outer one to find the item, the inner one to find the part."""
    rule = rules.each("a", [rules.each("parts", [rules.stash(hub="x")])])
    hub = listed("name", name=TEXT, parts=listed("id", id=TEXT, x=TEXT))
    spoke = listed("name", name=TEXT, parts=listed("id", id=TEXT))
    assert [(path, 'key="name"' in fix, 'key="id"' in fix) for path, _, fix in found(rule, spoke, hub)] == [
        (".a", True, False),
        (".a[].parts", False, True),
    ]


@pytest.mark.parametrize(
    "inner",
    [
        [rules.rename("extra", "more")],
        [rules.drop("extra", acknowledge="unused")],
        [rules.pair("extra", "more", up=str, down=str)],
    ],
)
def test_what_leaves_nothing_in_the_stash_needs_no_key(inner: list[rules.Rule]) -> None:
    """A list that cannot lose anything must not be reported, or authors ignore the report."""
    hub = listed(more=TEXT) if "drop" not in inner[0].name else listed()
    assert not [
        each
        for each in found(rules.each("a", inner), listed(extra=TEXT), {**hub, "type": "array"})
        if "keys" in each[1]
    ]


def test_a_list_map_has_its_keys() -> None:
    """The schema's keys serve as they always did."""
    more = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    hub, spoke = listed("name", name=TEXT, extra=TEXT, more=more), listed("name", name=TEXT, more=more)
    assert not found(rules.each("a", [STASH]), spoke, hub)


def test_a_reason_must_be_one() -> None:
    """An empty acknowledgement acknowledges nothing."""
    spoke = listed("name", name=TEXT)
    assert [problem for _, problem, _ in found(rules.each("a", [STASH], acknowledge=" "), spoke, SAME)] == [
        "each(a <-> a) does not say why the loss is none"
    ]


def test_the_reason_is_in_the_report() -> None:
    """The report has to show which list is exempt, and why."""
    document = crd({"v2": obj({"a": SAME}), "v1": obj({"a": listed("name", name=TEXT)})})
    graph = freeze({"v1": [rules.each("a", [STASH], acknowledge="one item at most")]}, document)
    assert [loss.reason for loss in rule_losses(graph.kind(GROUP, KIND))] == ["one item at most", ""]


UNIQUE = {"x-kubernetes-validations": [{"rule": "self.all(x, self.exists_one(y, x.port == y.port))"}]}
OTHER = {"x-kubernetes-validations": [{"rule": "self.all(x, self.exists_one(y, x.port == y.name))"}]}
MAP = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "host"]}


def test_the_key_that_is_proposed() -> None:
    """The proposal can be pasted, and freezes; else it is no help."""
    ports = {"port": NUMBER, "name": TEXT}
    hub, spoke = listed("port", **ports, extra=TEXT), listed("port", **ports)
    assert proposal(spoke, hub) == 'key="port" in each(a <-> a)'
    assert proposal(spoke, listed("port", "name", **ports, extra=TEXT)) == 'key="name" in each(a <-> a)'
    lax = listed(**ports, extra=TEXT)
    assert proposal(listed(**ports), lax) == 'key="name" in each(a <-> a), which an item may lack,'
    unique = listed("port", "name", more=UNIQUE, **ports, extra=TEXT)
    assert proposal(spoke, unique) == 'key="port" in each(a <-> a)'
    assert proposal(spoke, {**unique, **OTHER}) == 'key="name" in each(a <-> a)'
    hosts = {"host": TEXT, "port": NUMBER}
    rule = rules.each("a", [STASH])
    told = found(rule, listed("port", "host", more=MAP, **hosts), listed("port", "host", **hosts, extra=TEXT))
    assert any('key=("port", "host") in each' in fix for _, _, fix in told)


def test_the_key_of_a_list_whose_key_is_renamed() -> None:
    """A key is named as the hub names it."""
    spoke, hub = listed("title", title=TEXT), listed("name", name=TEXT, extra=TEXT)
    assert proposal(spoke, hub, rules.rename("title", "name")) == 'key="name" in each(a <-> a)'


@pytest.mark.parametrize(
    ("spoke", "hub", "inner"),
    [
        (listed(), listed(extra=TEXT), []),
        (listed(on={"type": "boolean"}, kind=CHOICE), listed(on={"type": "boolean"}, kind=CHOICE, extra=TEXT), []),
        (listed(name=TEXT), listed(name=TEXT, extra=TEXT), [rules.enum("name", {"a": "b"})]),
        (listed(id=TEXT), listed(name=TEXT, extra=TEXT), [rules.pair("id", "name", up=str, down=str)]),
    ],
    ids=["nothing", "no identity", "changed by a rule", "made by a rule"],
)
def test_no_key_is_proposed_that_cannot_be_one(spoke: Any, hub: Any, inner: list[rules.Rule]) -> None:
    """A key that a rule changes is refused when it is given, so it must not be proposed."""
    ((_, _, fix),) = found(rules.each("a", [STASH, *inner]), spoke, hub)
    assert fix.startswith("Name the fields that identify an item with key= in each(a <-> a), or")


NESTED = obj({"spec": obj({"pools": listed(name=TEXT, extra=TEXT, taints=listed(name=TEXT, extra=TEXT)), "a": SAME})})
INNER = [rules.each("taints", [STASH]), STASH]


def lists(*accepted: Keyless) -> list[str]:
    """The lists that freezing accepts, or what it says of the others."""
    declared = [rules.each("spec.pools", INNER), rules.each("spec.a", [STASH])]
    spoke = obj({"spec": obj({"pools": listed(name=TEXT, taints=listed(name=TEXT)), "a": listed("name", name=TEXT)})})
    try:
        graph = freeze({"v1": declared}, crd({"v2": NESTED, "v1": spoke}), keyless=accepted)
    except DefinitionError as error:
        return sorted(f"{each.path} {each.problem}" for each in error.diagnostics)
    (kind,) = graph.kinds.values()
    return [f"{each.path} {each.pattern} {each.reason}" for each in accepted_lists(kind)]


@pytest.mark.parametrize(
    ("pattern", "covered"),
    [
        (".spec.pools", (".spec.pools",)),
        ("spec.pools[].taints", (".spec.pools[].taints",)),
        ("spec.*", (".spec.a", ".spec.pools")),
        ("spec.p*", (".spec.pools",)),
        ("**.taints", (".spec.pools[].taints",)),
        ("spec.**", (".spec.a", ".spec.pools", ".spec.pools[].taints")),
    ],
)
def test_a_pattern_covers_what_it_names(pattern: str, covered: tuple[str, ...]) -> None:
    """One that covers more hides a loss that its author has not looked at; one that covers less asks again."""
    names = {".spec.a", ".spec.pools", ".spec.pools[].taints"}
    told = lists(Keyless(pattern, acknowledge="why"))
    if len(covered) == len(names):
        assert sorted(told) == [f"{path} {pattern} why" for path in covered]
    else:
        assert {each.partition(" ")[0] for each in told} == names - {*covered}


def test_one_reason_stands_for_many_lists() -> None:
    """An author of a pod template would write one reason thirty times; the first pattern that covers a list counts."""
    first, others = Keyless(["spec.pools[].*"], acknowledge="they are replaced"), Keyless("spec.**", acknowledge="b")
    assert lists(first, others) == [
        ".spec.pools spec.** b",
        ".spec.pools[].taints spec.pools[].* they are replaced",
        ".spec.a spec.** b",
    ]


def test_a_pattern_that_covers_nothing_is_refused() -> None:
    """A list that was renamed would lose its reason, and the stale one would wait for another list."""
    (told,) = lists(Keyless(["spec.**", "spec.gone"], acknowledge="why"))
    assert told == ". keyless=spec.gone covers no list that needs a key"
    (told,) = lists(Keyless("spec.**", acknowledge=" "))
    assert "does not say why" in told
    with_key = [rules.each("a", [STASH], key="name")]
    with pytest.raises(DefinitionError, match="keyless=a covers no list that needs a key"):
        freeze(
            {"v1": with_key}, crd({"v2": obj({"a": SAME}), "v1": obj({"a": listed("name", name=TEXT)})}), keyless=[A]
        )


A = Keyless("a", acknowledge="why")


def test_the_report_has_the_reason_at_each_rule() -> None:
    """The report names the reason at each rule, so that its reader need not match patterns."""
    spoke = listed("name", name=TEXT)
    graph = freeze(
        {"v1": [rules.each("a", [STASH])]}, crd({"v2": obj({"a": SAME}), "v1": obj({"a": spoke})}), keyless=[A]
    )
    assert [each.reason for each in rule_losses(graph.kind(GROUP, KIND))] == ["why", ""]
