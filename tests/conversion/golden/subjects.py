"""The conversions whose code, messages and explanations are frozen: the ports, CloudProfile, the examples, every rule.

Their rules cover every constructor of ``restow.conversion.rules``. A variant of a subject has a mistake in its rules:
one rule is missing, has its sides swapped, or stands there twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from docs.examples.provider.conversions import CRDS, registry
from restow.cloudprofile.conversions import registry as cloudprofile_registry
from restow.conversion import ABSENT, Graph, Registry, rules
from restow.conversion.definition.registry import Kind
from restow.conversion.rules.protocol import Rule
from restow.crds import Crd
from tests.cloudprofile.conversions.family import crds as cloudprofile_crds
from tests.conversion.rules.standardkinds import (
    ANYTHING,
    CASES,
    GROUP,
    INTEGER,
    KIND,
    TEXT,
    crd_of,
    listed,
    mapped,
    obj,
)
from tests.peers.peer import Peer
from tests.peers.peers import PEERS

__all__ = ["SUBJECTS", "Subject"]

#: How many rules of a version are left out, swapped and repeated in turn.
_MOST: Final = 6


@dataclass(frozen=True)
class Subject:
    """A registry with the CRDs of its kinds; ``choices`` are values of fields whose schema does not tell them."""

    name: str
    registry: Registry = field(repr=False)
    crds: tuple[Crd, ...] = field(repr=False)
    choices: Mapping[str, Mapping[str, Sequence[Any]]] = field(default_factory=dict, repr=False)

    def graph(self) -> Graph:
        """Return the compiled conversions."""
        return self.registry.freeze(self.crds)

    def variants(self) -> Iterator[tuple[str, Registry]]:
        """Yield registries with a mistake in the rules of one version, each with its name."""
        for kind in self.registry.kinds:
            for version, declare in kind.spokes:
                yield f"{kind.kind} {version} without rules", _with(kind, version, ())
                for name, declared in _mistakes(tuple(declare())):
                    yield f"{kind.kind} {version} {name}", _with(kind, version, declared)


def _with(kind: Kind, version: str, declared: Sequence[Rule]) -> Registry:
    """Return a registry of one kind with other rules for a version."""
    changed = Registry()
    copied = replace(kind, _spokes=[])
    for name, declare in kind.spokes:
        copied.spoke(name)((lambda: declared) if name == version else declare)
    changed._kinds.append(copied)
    return changed


def _mistakes(declared: Sequence[Rule]) -> Iterator[tuple[str, list[Rule]]]:
    count = len(list(_places(declared)))
    for place in range(0, count, -(-count // _MOST) or 1):
        for name, change in _CHANGES.items():
            yield f"{name} {place}", _changed(declared, iter(range(count)), place, change)


_CHANGES: Final[Mapping[str, Callable[[Rule], list[Rule]]]] = {
    "without": lambda _: [],
    "swapped": lambda rule: [
        rule if getattr(rule, "standard", None) else replace(rule, spoke=rule.hub, hub=rule.spoke)
    ],
    "twice": lambda rule: [rule, rule],
}


def _places(declared: Sequence[Rule]) -> Iterator[Rule]:
    for rule in declared:
        yield rule
        yield from _places(getattr(rule, "rules", ()))


def _changed(
    declared: Sequence[Rule], numbers: Iterator[int], place: int, change: Callable[[Rule], list[Rule]]
) -> list[Rule]:
    """Return the rules with that at a place changed; places are counted as ``_places`` yields them."""
    found: list[Rule] = []
    for rule in declared:
        is_place = next(numbers) == place
        if inner := getattr(rule, "rules", ()):
            rule = replace(rule, rules=tuple(_changed(inner, numbers, place, change)))  # type: ignore[call-arg]  # noqa: PLW2901
        found += change(rule) if is_place else [rule]
    return found


def _peer(peer: Peer) -> Subject:
    return Subject(f"{peer.project.name}-{peer.kind}", peer.registry(), (peer.definition(),), peer.choices)


def _standard(name: str) -> Subject:
    case = CASES[name]
    declared = [
        rules.inside("spec", [case.rule(), rules.each("plain", [case.rule()], acknowledge="edits are not tried here")])
    ]
    crd = crd_of(*(obj({**each, "other": TEXT, "plain": listed(obj(each))}) for each in (case.spoke, case.hub)))
    return Subject(name, _declared(declared), (crd,))


def _declared(declared: Sequence[Rule], **more: Any) -> Registry:
    found = Registry()
    found.kind(GROUP, KIND, hub="v2", **more).spoke("v1")(lambda: list(declared))
    return found


def _joined(found: Mapping[str, Any]) -> dict[str, Any]:
    return {"sum": f"{found.get('left', '')}+{found.get('right', '')}"}


def _parted(found: Mapping[str, Any]) -> dict[str, Any]:
    left, _, right = str(found["sum"]).partition("+")
    return {"left": left, "right": right}


#: Of each rule for one field: the rule, and the fields of both versions.
_LEAVES: Final[Sequence[tuple[Rule, Mapping[str, Any], Mapping[str, Any]]]] = (
    (rules.rename("a", "moved"), {"a": TEXT}, {"moved": TEXT}),
    (rules.stash("kept"), {"kept": TEXT}, {}),
    (rules.stash(hub=["weight", "zone"]), {}, {"weight": INTEGER, "zone": TEXT}),
    (rules.drop(hub="gone", acknowledge="no client reads this field"), {}, {"gone": TEXT}),
    (rules.constant("fixed", value="x"), {"fixed": TEXT}, {}),
    (rules.constant(hub="block", value={}), {}, {}),
    (rules.move("within", "block.within"), {"within": TEXT}, {"block": obj({"within": TEXT})}),
    (rules.default("low", "low"), {"low": TEXT}, {"low": TEXT}),
    (rules.default("high", 3, omitted_in="hub", hides=False), {"high": INTEGER}, {"high": INTEGER}),
    (rules.default("part", {}, hub="part"), {}, {}),
    (rules.move("piece", "part.piece"), {"piece": TEXT}, {"part": obj({"piece": TEXT})}),
    (rules.waive(hub="needed", acknowledge="the controller fills it in"), {}, {}),
    (rules.enum("state", {"on": "On"}, down={"Idle": "on"}), {"state": TEXT}, {"state": TEXT}),
    (rules.wrap("one", "ones[]"), {"one": TEXT}, {"ones": listed(TEXT)}),
    (rules.unwrap("many[]", "first"), {"many": listed(TEXT)}, {"first": TEXT}),
    (
        rules.functions(spoke=("left", "right"), hub="sum", up=_joined, down=_parted, loses="both"),
        {"left": TEXT, "right": TEXT},
        {"sum": TEXT},
    ),
    (
        rules.pair("made", "made", up=str.upper, down=str.lower, loses="both", forget=str.isdigit, acknowledge="-"),
        {"made": TEXT},
        {"made": TEXT},
    ),
    (
        rules.pair(
            ("x", "y"),
            "z",
            up=lambda found: found.get("x", ABSENT),
            down=lambda value, _: {"x": value},
            loses="both",
            merge=lambda edited, _shown, _kept, _: edited.get("x", ABSENT),
            reads="moved",
            on_error="keep",
        ),
        {"x": TEXT, "y": INTEGER},
        {"z": TEXT},
    ),
)


def _every_kind() -> Subject:
    """Return a kind with the rules that no other subject has, or has in one form only, in every container."""
    leaves = [rule for rule, _, _ in _LEAVES]
    spoke, hub = ({name: node for leaf in _LEAVES for name, node in leaf[side].items()} for side in (1, 2))
    spoke, hub = {**spoke, "needed": TEXT}, {**hub, "needed": TEXT}
    union = [
        rules.when([rules.rename("size", "s3Size")], field="type", equals="S3"),
        rules.when([rules.rename("size", "diskSize")], field="type", equals=["Disk", None]),
        rules.when([rules.rename("b", "ofB")], has="b", hub="ofB"),
        rules.when([rules.rename("c", "ofC"), rules.stash(hub="both")], has="c", hub="ofC"),
    ]
    ours = {"type": TEXT, "size": INTEGER, "b": TEXT, "c": TEXT}
    theirs = {"type": TEXT, "s3Size": INTEGER, "diskSize": INTEGER, "ofB": TEXT, "ofC": TEXT, "both": TEXT}
    tree = obj({"n": TEXT, "kids": listed(obj({"n": TEXT, "kids": listed(obj({}, **ANYTHING))}))})
    trees = obj({"name": TEXT, "kids": listed(obj({"name": TEXT, "kids": listed(obj({}, **ANYTHING))}))})
    reason = "edits of several items at once are rare"
    declared = [
        rules.inside("one", [*leaves, *union], hub="whole"),
        rules.inside("tree", [rules.rename("n", "name")], recurse=["kids[]"]),
        rules.each(
            "items", [*leaves, rules.rename("id", "key")], hub="entries", key="key", hide=lambda each: "gone" in each
        ),
        rules.each("plain", [*leaves, *union], acknowledge=reason),
        rules.each_value("pools", [*leaves, rules.inside("deep", leaves, hub="low2.deep")]),
    ]
    required = {"required": ["needed"]}
    sides = (
        {
            "one": obj({**spoke, **ours}),
            "tree": tree,
            "items": listed(obj({**spoke, "id": TEXT})),
            "plain": listed(obj({**spoke, **ours})),
            "pools": mapped(obj({**spoke, "deep": obj(spoke)})),
        },
        {
            "whole": obj({**hub, **theirs}, **required),
            "tree": trees,
            "entries": listed(obj({**hub, "key": TEXT}, **required)),
            "plain": listed(obj({**hub, **theirs}, **required)),
            "pools": mapped(obj({**hub, "low2": obj({"deep": obj(hub, **required)})}, **required)),
        },
    )
    return Subject("every-kind", _declared([rules.inside("spec", declared)]), (crd_of(*(obj(each) for each in sides)),))


_CLOUDPROFILE_CHOICES: Final = {
    ".spec.kubernetes.versions[].version": ("1.28.0", "1.29.3", "1.30.1"),
    ".spec.maintenance.timeWindow.begin": ("220000+0100",),
    ".spec.maintenance.timeWindow.end": ("230000+0100",),
}


def _of_cloudprofile() -> Subject:
    choices = dict.fromkeys(("v1beta1", "v1beta2"), _CLOUDPROFILE_CHOICES)
    return Subject("cloudprofile", cloudprofile_registry, tuple(cloudprofile_crds().values()), choices)


#: The subjects that one file has; each is made when it is asked for.
SUBJECTS: Final[Mapping[str, Sequence[Callable[[], Subject]]]] = {
    "provider": (partial(Subject, "provider", registry, tuple(CRDS)),),
    "cloudprofile": (_of_cloudprofile,),
    "every-kind": (_every_kind,),
    "standard": tuple(partial(_standard, name) for name in CASES),
    **{f"{peer.project.name}-{peer.kind}": (partial(_peer, peer),) for peer in PEERS},
}
