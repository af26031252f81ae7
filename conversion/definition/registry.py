"""Declares kinds, hubs and spokes for an author. Freezing checks everything and returns a ``Graph``.

    registry = Registry()
    profile = registry.kind("core.example.dev", "Profile", hub="v1beta1")

    @profile.spoke("v1alpha1")
    def v1alpha1() -> list[rules.Rule]:
        return [rules.rename("spec.ttl", "spec.timeToLive")]

    graph = registry.freeze(crds=[crd])

A registry only collects. Nothing is checked, and nothing fails, before ``freeze``, which reports all diagnostics at
once.

A hub need not be a version of the CRD. Its schema then consists of every field of every spoke, as the spoke's rules
convert it, so that every other spoke can be checked against it. The result of an author's function has no known type
and accepts anything. The nodes of the CRD's schema never change.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, Final

from restow.conversion.compile.adoption import Adopted
from restow.conversion.compile.graph import Graph, KindGraph, Spoke
from restow.conversion.definition.branches import check_branches, with_leftovers
from restow.conversion.definition.coverage import check_coverage
from restow.conversion.definition.diagnostics import DiagnosticCollector, check_rules
from restow.conversion.definition.losses import accept_keyless_lists, check_keyless_lists
from restow.conversion.model.errors import DefinitionError, Diagnostic
from restow.conversion.model.fieldpath import Path, PathError, parse
from restow.conversion.rules.functions import with_on_error
from restow.conversion.rules.protocol import ANY_NODE, Node, OnError, Rule
from restow.conversion.rules.scopes import Keyless
from restow.conversion.rules.unions import flattened
from restow.conversion.stash.annotation import DEFAULT_BUDGET
from restow.crds import Crd, Schema, Version
from restow.crds.paths import ROOT


def derived_hub(spokes: Iterable[tuple[Sequence[Rule], Node]]) -> Node:
    """Return the hub's schema node, from every spoke's rules and schema node."""
    hub: Node = {}
    for rules, node in spokes:
        hub = _merged(hub, _lifted(node, rules))
    return hub


def _lifted(node: Node, rules: Sequence[Rule]) -> Node:
    node = copy.deepcopy(node)
    always = tuple(flattened(rules))
    for rule in always:
        if rule.answers is not None and rule.filled_in == "spoke" and rule.hub:
            _loosen(node, rule.answers[1])
    claimed = dict.fromkeys(text for rule in always for text in rule.claims("spoke"))
    taken = {text: _take(node, parse(text)) for text in claimed}
    for rule in always:
        spoke = rule.claims("spoke")
        sources = [taken[text][0] for text in spoke]
        for index, text in enumerate(rule.claims("hub")):
            place = spoke[index] if index < len(spoke) else ""
            required = taken[place][1] if place else False
            kept = required and rule.always_gives and parse(place)[:-1] == parse(text)[:-1]
            is_always = any(rule is each for each in rules)  # and not only in one branch
            image = rule.image(index, sources, _lifted)
            _put(node, parse(text), image, required=is_always and (kept or rule.filled_in == "hub"))
    for rule in rules:
        if rule.answers is not None and rule.filled_in == "hub":
            _require(node, rule.answers[1])
    return node


def _take(node: Node, path: Path) -> tuple[Node | None, bool]:
    """Remove a field; return its node, and whether it was required."""
    for name in path[:-1]:
        node = (node.get("properties") or {}).get(name) or {}
    taken: Node | None = (node.get("properties") or {}).pop(path[-1], None)
    required = path[-1] in (node.get("required") or [])
    _loosen(node, path[-1:])
    return taken, required


def _require(node: Node, path: Path) -> None:
    """Mark a field as required, if it is declared."""
    for name in path[:-1]:
        node = (node.get("properties") or {}).get(name) or {}
    if path[-1] in (node.get("properties") or {}):
        node["required"] = list(dict.fromkeys([*(node.get("required") or []), path[-1]]))


def _loosen(node: Node, path: Path) -> None:
    """Mark a field as optional."""
    for name in path[:-1]:
        node = (node.get("properties") or {}).get(name) or {}
    if path[-1] in (node.get("required") or []):
        node["required"] = [name for name in node["required"] if name != path[-1]]


def _put(node: Node, path: Path, image: Node, *, required: bool) -> None:
    for name in path[:-1]:
        if _is_opaque(node):
            return
        node = node.setdefault("properties", {}).setdefault(name, {"type": "object"})
    if _is_opaque(node):
        return
    fields = node.setdefault("properties", {})
    fields[path[-1]] = image if fields.get(path[-1], image) == image else dict(ANY_NODE)  # two branches may differ
    if required:
        node["required"] = [*(node.get("required") or []), path[-1]]


def _is_opaque(node: Node) -> bool:
    """Return whether a node describes no field, and keeps every one; the hub's node is then opaque too."""
    return node.get("x-kubernetes-preserve-unknown-fields") is True and not node.get("properties")


def _merged(left: Node, right: Node) -> Node:
    """Return a node with the fields of both that requires what both require; each fills in what the other lacks."""
    if not left or left == ANY_NODE:
        return right
    if not right or right == ANY_NODE:
        return left
    merged = {**right, **left}
    merged.pop("enum", None)
    if "enum" in left and "enum" in right:
        merged["enum"] = [*left["enum"], *(value for value in right["enum"] if value not in left["enum"])]
    ours, theirs = left.get("properties") or {}, right.get("properties") or {}
    if ours or theirs:
        merged["properties"] = {
            field: _merged(ours.get(field, {}), theirs.get(field, {})) for field in {**ours, **theirs}
        }
    for name in ("items", "additionalProperties"):
        if isinstance(left.get(name), dict) and isinstance(right.get(name), dict):
            merged[name] = _merged(left[name], right[name])
    merged["required"] = [name for name in left.get("required") or () if name in (right.get("required") or ())]
    return merged


#: Source: apimachinery ``validation.IsQualifiedName``.
_ANNOTATION: Final = re.compile(
    r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
)

Rules = Callable[[], Sequence[Rule]]


@dataclass(slots=True)
class Kind:
    """One kind under declaration. ``Registry.kind`` returns it."""

    group: str
    kind: str
    hub: str
    hub_schema: Mapping[str, Any] | None
    stash: str
    stash_budget: int
    on_error: OnError | None = None
    adopt: tuple[Adopted, ...] = ()
    leaves: tuple[str, ...] = ()
    keyless: tuple[Keyless, ...] = ()
    _spokes: list[tuple[str, Rules]] = field(default_factory=list)

    def spoke(self, version: str) -> Callable[[Rules], Rules]:
        """Declare a version by the rules between it and the hub: decorates a function that returns them."""

        def declare(rules: Rules) -> Rules:
            self._spokes.append((version, rules))
            return rules

        return declare

    @property
    def spokes(self) -> tuple[tuple[str, Rules], ...]:
        """The spokes declared so far."""
        return tuple(self._spokes)


class Registry:
    """Kinds under declaration. A registry can be frozen again after more kinds are declared."""

    def __init__(self, *, phrase: Callable[[str], str] = str) -> None:
        """Start without kinds; ``phrase`` writes the rules in proposals as the author does, who may not use Python."""
        self._kinds: list[Kind] = []
        self._phrase = phrase

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds declared so far."""
        return tuple(self._kinds)

    def kind(
        self,
        group: str,
        kind: str,
        *,
        hub: str,
        hub_schema: Mapping[str, Any] | None = None,
        stash: str | None = None,
        stash_budget: int = DEFAULT_BUDGET,
        on_error: OnError | None = None,
        adopt: Adopted | Sequence[Adopted] = (),
        leaves: Sequence[str] = (),
        keyless: Keyless | Sequence[Keyless] = (),
    ) -> Kind:
        """Declare a kind and its hub version.

        The hub need not be a version of the CRD (an internal hub); then its schema is ``hub_schema`` (an
        openAPIV3Schema), or is derived from the spokes' schemas. ``stash`` is the annotation that keeps the data that a
        version lacks (``<group>/conversion-stash``), ``stash_budget`` its largest size in bytes. ``on_error`` is that
        of ``rules.pair``, for all rules of the kind that do not set it themselves. ``adopt`` names annotations in which
        another tool stashed whole objects of a version. ``leaves`` names versions of the CRD that are not served, and
        that no object has to be converted to or from any more. ``keyless`` names lists of the hub without keys, with
        the reason why edits of their items do no harm, as ``acknowledge`` of ``rules.each`` does for one list.
        """
        adopts = (adopt,) if isinstance(adopt, Adopted) else tuple(adopt)
        key = stash or f"{group}/conversion-stash"
        accepts = (keyless,) if isinstance(keyless, Keyless) else tuple(keyless)
        declared = Kind(group, kind, hub, hub_schema, key, stash_budget, on_error, adopts, tuple(leaves), accepts)
        self._kinds.append(declared)
        return declared

    def freeze(self, crds: Iterable[Crd] = (), *, on_error: OnError = "fail") -> Graph:
        """Check everything, compile, and return the graph.

        With CRDs, each kind needs its own, and every field of every version is accounted for; without CRDs, only the
        rules themselves are checked. ``on_error`` is the default for kinds and rules that leave it open.

        Raises:
            DefinitionError: a rule is defective, a CRD is missing, or a field is unaccounted for. The error has every
                diagnostic.
        """
        return self.check(crds, on_error=on_error).compile()

    def check(self, crds: Iterable[Crd] = (), *, on_error: OnError = "fail") -> Graph:
        """Check everything as ``freeze`` does, and return the graph, whose routes are compiled when they are needed."""
        by_kind = {(crd.group, crd.kind): crd for crd in crds}
        diagnostics: list[Diagnostic] = []
        kinds: list[KindGraph] = []
        for name, count in Counter((kind.group, kind.kind) for kind in self._kinds).items():
            if count > 1:
                title = f"{name[1]}.{name[0]}"
                diagnostics.append(_diagnostic(title, "", "is registered twice", "Declare each kind once"))
        for kind in self._kinds:
            crd = by_kind.get((kind.group, kind.kind))
            frozen, found = _freeze(kind, crd, kind.on_error or on_error, wants_crd=bool(by_kind))
            diagnostics += found
            if frozen is not None:
                kinds.append(frozen)
        if diagnostics:
            raise DefinitionError([replace(each, fix=self._phrase(each.fix)) for each in diagnostics])
        return Graph({(kind.group, kind.kind): kind for kind in kinds})


def _diagnostic(kind: str, version: str, problem: str, fix: str) -> Diagnostic:
    return Diagnostic(kind, version, ROOT, problem, fix)


def _freeze(
    kind: Kind, crd: Crd | None, on_error: OnError, *, wants_crd: bool
) -> tuple[KindGraph | None, list[Diagnostic]]:
    title = f"{kind.kind}.{kind.group}"
    found = [*_check_versions(kind, crd, title), *_check_stash(kind, title), *_check_adopted(kind, title)]
    if crd is None and wants_crd:
        found.append(_diagnostic(title, "", "has no CRD among those given", "Pass its CRD to freeze, or none at all"))
    findings = {version: DiagnosticCollector(title, version, kind.hub) for version, _ in kind.spokes}
    rules = {
        version: with_on_error(
            check_rules(_declared(declare(), findings[version]), findings[version], stash_key=kind.stash), on_error
        )
        for version, declare in kind.spokes
    }
    hub_schema = _hub_schema(kind, crd, rules)
    spokes: dict[str, Spoke] = {}
    covering: set[tuple[Keyless, str]] = set()
    for version, declared in rules.items():
        schema = _schema(crd, version)
        known = check_branches(declared, schema, hub_schema, findings[version])
        known, covers = accept_keyless_lists(known, kind.keyless)
        covering |= covers
        spokes[version] = Spoke(version, known, schema)
    if not any(each.found for each in findings.values()):  # otherwise a list may be missing for another reason
        found += _check_keyless(kind, covering, title)
    if hub_schema is not None:
        for spoke in spokes.values():
            if spoke.schema is not None:
                check_coverage(spoke.rules, spoke.schema, hub_schema, findings[spoke.version])
                check_keyless_lists(spoke.rules, spoke.schema, hub_schema, findings[spoke.version])
    found += dict.fromkeys(diagnostic for each in findings.values() for diagnostic in each.found)
    if found:
        return None, found
    return KindGraph.of(
        kind.group,
        kind.kind,
        hub=kind.hub,
        hub_schema=hub_schema,
        is_internal=crd is not None and crd.version(kind.hub) is None,
        spokes={
            version: replace(spoke, rules=with_leftovers(spoke.rules, spoke.schema, hub_schema))
            for version, spoke in spokes.items()
        },
        stash_key=kind.stash,
        stash_budget=kind.stash_budget,
        adopts=kind.adopt,
        leaves=kind.leaves,
        keyless=kind.keyless,
    ), []


def _declared(rules: Any, findings: DiagnosticCollector) -> tuple[Any, ...]:
    if isinstance(rules, list | tuple):
        return tuple(rules)
    problem = f"its function returns a {type(rules).__name__} instead of rules"
    findings.add("spoke", (), problem, "Return a list of rules; an empty one if nothing differs")
    return ()


def _check_stash(kind: Kind, title: str) -> list[Diagnostic]:
    found = []
    if not _ANNOTATION.fullmatch(kind.stash):
        fix = "Name an annotation such as example.dev/conversion-stash"
        found.append(_diagnostic(title, "", f"has the stash {kind.stash!r}, which no annotation can be named", fix))
    if kind.stash_budget < 0:
        found.append(_diagnostic(title, "", "has a negative stash_budget", "Give a number of bytes"))
    return found


def _check_keyless(kind: Kind, covering: AbstractSet[tuple[Keyless, str]], title: str) -> Iterator[Diagnostic]:
    """Yield the defects of the lists that need no keys."""
    for each in kind.keyless:
        if not each.acknowledge.strip():
            problem = f"keyless={each.lists[0] if each.lists else ''} does not say why its lists need no keys"
            yield _diagnostic(title, kind.hub, problem, "Fill in acknowledge=")
        for text in each.lists:
            if (each, text) not in covering:
                problem = f"keyless={text} covers no list that needs a key"
                fix = "Remove it, or write the path of a list of the hub as check does, as spec.pools[].taints"
                yield _diagnostic(title, kind.hub, problem, fix)
        if not each.lists:
            yield _diagnostic(title, kind.hub, "keyless= names no list", "Name the paths of lists, or remove it")


def _check_adopted(kind: Kind, title: str) -> Iterator[Diagnostic]:
    """Yield the defects of the annotations to adopt."""
    known = {kind.hub, *(version for version, _ in kind.spokes)}
    for name, count in Counter(each.annotation for each in kind.adopt).items():
        if not _ANNOTATION.fullmatch(name) or name == kind.stash:
            fix = "Name the annotation in which the other tool keeps its objects"
            yield _diagnostic(title, "", f"adopts {name!r}, which is no annotation of another tool", fix)
        if count > 1:
            yield _diagnostic(title, "", f"adopts {name} twice", "Name the annotation once")
    for each in kind.adopt:
        if each.version not in known:
            problem = f"adopts {each.annotation} as an object of {each.version}, which is none of its versions"
            yield _diagnostic(title, "", problem, f"Name one of {', '.join(sorted(known))}")
        for text in each.fields:
            try:
                parse(text)
            except PathError as error:
                fix = "Name the fields from the object's root on"
                yield _diagnostic(title, each.version, f"adopts {each.annotation}: {error}", fix)


def _check_versions(kind: Kind, crd: Crd | None, title: str) -> list[Diagnostic]:
    found = []
    for version, count in Counter(version for version, _ in kind.spokes).items():
        if version == kind.hub:
            found.append(_diagnostic(title, version, "is the hub and a spoke", "The hub needs no rules"))
        if count > 1:
            found.append(_diagnostic(title, version, "is declared twice", "Declare each spoke once"))
        if crd is not None and crd.version(version) is None:
            found.append(
                _diagnostic(title, version, "is no version of the CRD", "Correct the name, or remove the spoke")
            )
    declared = {version for version, _ in kind.spokes} | {kind.hub}
    for name in kind.leaves:
        left = None if crd is None else crd.version(name)
        if name in declared:
            found.append(_diagnostic(title, name, "is left alone, and declared", "Remove it from leaves, or its rules"))
        elif left is not None and (left.served or left.storage):
            what = "served" if left.served else "the storage version"
            fix = "Declare its rules, or unserve it first"
            found.append(_diagnostic(title, name, f"is left alone, and is {what}: clients need it converted", fix))
        elif crd is not None and left is None:
            found.append(
                _diagnostic(title, name, "is left alone, and is no version of the CRD", "Remove it from leaves")
            )
    declared |= {*kind.leaves}
    missing = [version for version in crd.versions if version.name not in declared] if crd is not None else []
    found += [
        _diagnostic(title, version.name, "is neither the hub nor a spoke", _remedy(version)) for version in missing
    ]
    return found


def _remedy(version: Version) -> str:
    declare = "Declare its rules with spoke(…)"
    return declare if version.served or version.storage else f'{declare}, or leave it alone: leaves=["{version.name}"]'


def _schema(crd: Crd | None, version: str) -> Schema | None:
    found = None if crd is None else crd.version(version)
    return None if found is None else found.schema


def _hub_schema(kind: Kind, crd: Crd | None, rules: Mapping[str, Sequence[Rule]]) -> Schema | None:
    if kind.hub_schema is not None:
        return Schema.root(kind.hub_schema)
    if crd is None:
        return None
    known = crd.version(kind.hub)
    if known is not None:
        return known.schema
    spokes = [(declared, _schema(crd, version)) for version, declared in rules.items()]
    return Schema.root(derived_hub((declared, dict(schema.node)) for declared, schema in spokes if schema is not None))
