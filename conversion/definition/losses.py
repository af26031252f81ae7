"""Reports what the rules of a kind may lose, and requires keys of lists whose items can lose something.

The stash keeps the fields that one version does not have, so that the way back restores them. Only dropped or forgotten
values are lost, and only waived fields are missing, each for a reason that the author gives (``rule_losses``).

Items of a list without keys are the exception. The stash finds an item without a key by its visible fields, and an
edited one by its place. If several edits come together, neither is enough, and the item's hidden fields are lost. So
every rule inside of ``each`` that leaves something in the stash, at any depth, needs ``key=``, or ``acknowledge=`` with
the reason why such edits do no harm. A kind's ``keyless`` gives one reason for many lists.

The schemas suggest a key: fields by which one version, or a CEL rule of the list, distinguishes items; else a required
field of a usual name, any other required one, or an optional one of a usual name. Both versions must declare it, and no
rule may change its value.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from restow.conversion.compile.graph import KindGraph
from restow.conversion.definition.diagnostics import DiagnosticCollector
from restow.conversion.model.fieldpath import Path, parse, shown
from restow.conversion.rules.protocol import Loss, Rule
from restow.conversion.rules.scopes import Keyless, lists_of, with_keyless
from restow.conversion.rules.unions import flattened
from restow.crds import Schema
from restow.crds.paths import ROOT
from restow.crds.schema import schema_at


@dataclass(frozen=True, slots=True)
class RuleLoss:
    """One rule between a version and the hub: ``up`` is to the hub, ``down`` from it.

    ``reason`` is why something is dropped or missing, or why a list needs no keys. ``paths`` are the fields in the
    version and in the hub, as ``restow.crds`` writes them. ``branch`` is the condition of a rule that holds for one
    branch of a union. ``keeps``: values that the rule cannot convert go to the stash as they are.
    """

    kind: str
    version: str
    hub: str
    rule: str
    paths: tuple[tuple[str, ...], tuple[str, ...]]
    up: Loss
    down: Loss
    reason: str = ""
    branch: str = ""
    keeps: bool = False

    @property
    def title(self) -> str:
        """The rule with the whole paths of its fields, and its branch."""
        sides = (", ".join(paths) for paths in self.paths if paths)
        title = f"{self.rule.partition('(')[0]}({' <-> '.join(sides)})"
        return f"{title} {self.branch}" if self.branch else title


def rule_losses(kind: KindGraph) -> list[RuleLoss]:
    """Return the losses of all rules of a kind, each followed by those of the rules inside it."""
    title = f"{kind.kind}.{kind.group}"
    return [
        found
        for version, spoke in kind.spokes.items()
        for found in _of_rules(spoke.rules, title, version, kind.hub, (ROOT, ROOT))
    ]


def _of_rules(
    rules: Sequence[Rule], kind: str, version: str, hub: str, around: tuple[str, str], branch: str = ""
) -> Iterator[RuleLoss]:
    for rule in rules:
        if rule.is_branch:
            yield from _of_rules(rule.contained, kind, version, hub, around, f"{branch} {rule.label}".strip())
            continue
        paths = _places(rule.spoke, around[0]), _places(rule.hub, around[1])
        up, down = rule.loss("up"), rule.loss("down")
        yield RuleLoss(kind, version, hub, rule.label, paths, up, down, rule.reason, branch, rule.keeps)
        if rule.container is not None:
            inside = rule.inner_place("spoke", around[0]), rule.inner_place("hub", around[1])
            yield from _of_rules(rule.contained, kind, version, hub, inside, branch)


def _places(texts: Sequence[str], around: str) -> tuple[str, ...]:
    return tuple(shown(parse(text), around) for text in texts)


_USUAL: Final = ("name", "id", "key", "type")
_SCALARS: Final = ("string", "integer")
_MOST_NAMED: Final = 3

#: A CEL expression that requires a unique field: ``self.all(x, self.exists_one(y, x.name == y.name))``.
_UNIQUE: Final = re.compile(r"exists_one\(\s*(\w+)\s*,\s*(?:(\w+)\.(\w+)\s*==\s*(\w+)\.(\w+))\s*\)")


@dataclass(frozen=True, slots=True)
class AcceptedList:
    """A list of the hub that ``keyless`` accepts for the rules of a version, and the pattern that covers it."""

    kind: str
    version: str
    hub: str
    path: str
    pattern: str
    reason: str


def accept_keyless_lists(
    rules: Sequence[Rule], keyless: Sequence[Keyless]
) -> tuple[tuple[Rule, ...], frozenset[tuple[Keyless, str]]]:
    """Add the reasons of ``keyless`` to the rules of the lists that it covers; also return the patterns in use.

    Only a list that needs keys is covered: one that has neither keys nor a reason of its own. If several patterns match
    a list, the first one gives the reason, and all of them count as used.
    """
    reasons: dict[str, str] = {}
    covering: set[tuple[Keyless, str]] = set()
    for path, rule in lists_of(rules):
        if rule.keys or rule.acknowledge is not None or not any(_lossy(rule)):
            continue
        for each in keyless:
            if pattern := each.covering(path):
                reasons.setdefault(path, each.acknowledge)
                covering.add((each, pattern))
    return with_keyless(rules, reasons), frozenset(covering)


def accepted_lists(kind: KindGraph) -> list[AcceptedList]:
    """Return the lists that a kind's ``keyless`` covers."""
    title, found = f"{kind.kind}.{kind.group}", []
    for version, spoke in kind.spokes.items():
        for path, rule in lists_of(spoke.rules):
            covering = (each for each in kind.keyless if each.covering(path))
            first = next(covering, None)
            if first is not None and rule.acknowledge == first.acknowledge and not rule.keys and any(_lossy(rule)):
                pattern = first.covering(path)
                found.append(AcceptedList(title, version, kind.hub, path, pattern, first.acknowledge))
    return found


def check_keyless_lists(
    rules: Sequence[Rule], spoke: Schema | None, hub: Schema | None, findings: DiagnosticCollector
) -> None:
    """Report the lists without keys whose items have rules that leave something in the stash.

    The schemas are those of the objects that the rules apply to, None if unknown.
    """
    for rule in flattened(rules):
        if rule.container is None:
            continue
        if rule.is_keyless:
            path = parse(rule.hub[0])
            _check_list(rule, schema_at(spoke, parse(rule.spoke[0])), schema_at(hub, path), path, findings)
        below = rule.inner_schema("spoke", spoke), rule.inner_schema("hub", hub)
        check_keyless_lists(rule.contained, *below, findings.inside(rule))


def _check_list(
    rule: Rule, spoke: Schema | None, hub: Schema | None, path: Path, findings: DiagnosticCollector
) -> None:
    is_map = hub is not None and hub.list_type == "map"  # another check requires its keys
    if rule.reason or is_map:
        return
    lossy = list(dict.fromkeys(_lossy(rule)))
    if not lossy:
        return
    named = ", ".join(lossy[:_MOST_NAMED]) + (", …" if len(lossy) > _MOST_NAMED else "")
    findings.add(
        "hub",
        path,
        f"is a list without keys, so edits of its items can lose what the stash keeps of them for {named}",
        _remedy(rule, proposed_keys(rule, spoke, hub), hub),
    )


def _lossy(rule: Rule) -> Iterator[str]:
    """Yield the labels of the rules that leave something in the stash: the list's ``hide``, and rules inside."""
    if "hide" in rule.functions:
        yield "hide="
    for inner in flattened(rule.contained):
        if inner.container is not None:
            yield from _lossy(inner)
        elif Loss.STASHED in (inner.loss("up"), inner.loss("down")):
            yield inner.label


def _remedy(rule: Rule, keys: Sequence[str], hub: Schema | None) -> str:
    otherwise = f'or say with acknowledge="why" in {rule.name} why this does no harm'
    if not keys:
        return f"Name the fields that identify an item with key= in {rule.label}, {otherwise}"
    names = ", ".join(f'"{key}"' for key in keys)
    wanted = f"key={names}" if len(keys) == 1 else f"key=({names})"
    required = hub is not None and hub.items is not None and set(keys) <= set(hub.items.required)
    note = "" if required else ", which an item may lack,"
    return f"Identify the items with {wanted} in {rule.label}{note} if no two have the same, {otherwise}"


def proposed_keys(rule: Rule, spoke: Schema | None, hub: Schema | None) -> tuple[str, ...]:
    """Return the hub's fields that may identify an item, given the schemas of the list; empty if there are none."""
    ours, theirs = spoke and spoke.items, hub and hub.items
    if theirs is None or ours is None:
        return ()
    always = tuple(flattened(rule.contained))
    renamed = {parse(inner.hub[0]): parse(inner.spoke[0]) for inner in rule.contained if inner.name == "rename"}
    claimed = {parse(text)[0] for inner in always for text in (*inner.hub, *inner.spoke)}
    names: dict[str, str] = {}
    for name in theirs.properties:
        other = renamed.get((name,), (name,))
        is_same = name not in claimed or ((name,) in renamed and len(other) == 1)
        if is_same and _is_scalar(theirs.field(name)) and _is_scalar(ours.field(other[0])):
            names[name] = other[0]
    return _chosen(names, spoke, hub)


def _chosen(names: dict[str, str], spoke: Schema | None, hub: Schema | None) -> tuple[str, ...]:
    """Choose among fields of the hub's items, given their names in the spoke's items."""
    assert spoke is not None
    assert hub is not None
    assert hub.items is not None
    known = {other: name for name, other in names.items()}
    if spoke.list_keys and set(spoke.list_keys) <= known.keys():
        return tuple(known[key] for key in spoke.list_keys)
    unique = [*_unique_by_rule(hub), *(known.get(name, "") for name in _unique_by_rule(spoke))]
    required = [name for name in names if name in hub.items.required]
    usual = [name for name in _USUAL if name in names]
    candidates = (*unique, *(name for name in usual if name in required), *required, *usual)
    return tuple(name for name in candidates if name in names)[:1]


def _unique_by_rule(schema: Schema) -> Iterator[str]:
    for validation in schema.node.get("x-kubernetes-validations") or ():
        for item, left, field, right, other in _UNIQUE.findall(str(validation.get("rule", ""))):
            if field == other and left != right and item in (left, right):
                yield field


def _is_scalar(schema: Schema | None) -> bool:
    return schema is not None and schema.node.get("type") in _SCALARS and "enum" not in schema.node
