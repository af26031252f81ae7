"""What is frozen of a subject: the generated functions, the messages, the explanations, and what the laws allow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from random import Random
from typing import Any, Final

from restow.conversion import DefinitionError, Diagnostic, Graph, Registry
from restow.conversion.compile.graph import KindGraph
from restow.conversion.definition.bounds import narrowed_bounds
from restow.conversion.definition.losses import accepted_lists, rule_losses
from restow.conversion.definition.missing import missing_where_kept, missing_where_made
from restow.conversion.definition.opaque import opaque_fields
from restow.conversion.definition.suggestions import suggestions
from restow.conversion.explain import explain
from restow.conversion.model.errors import ObjectError
from restow.conversion.model.fieldpath import pointer
from restow.conversion.model.values import Json
from restow.conversion.rules.protocol import Rule
from restow.conversion.rules.sides import Side
from restow.conversion.testing import allowances, itemedits
from restow.conversion.testing.findings import fields
from restow.conversion.testing.touched import touched
from restow.crds import Crd
from tests.conversion.golden.subjects import Subject
from tests.peers.objects import Generator

__all__ = ["texts"]

#: How many objects of each version are converted and explained.
_OBJECTS: Final = 4


def texts(subject: Subject) -> dict[str, str]:
    """Return the texts of a subject by name."""
    return {f"{subject.name}: {title}": text for title, text in _texts(subject).items()}


def _texts(subject: Subject) -> dict[str, str]:
    graph = subject.graph()
    found: dict[str, str] = {}
    for kind in graph.kinds.values():
        found |= {f"code of {kind.kind} {name}": text for name, text in _functions(kind)}
        found[f"check of {kind.kind}"] = _lines(_notes(kind))
        for version in kind.visible_versions:
            for obj in _objects(subject, kind, version):
                found[f"explanation of {kind.kind} {version} {obj['metadata']['name']}"] = _lines(
                    _explained(graph, kind, obj)
                )
                found[f"laws of {kind.kind} {version} {obj['metadata']['name']}"] = _lines(_allowed(kind, obj))
    for name, registry in subject.variants():
        found[f"findings of {name}"] = _lines(_findings(registry, subject.crds, drafts=name.endswith("without rules")))
    return found


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _functions(kind: KindGraph) -> Iterator[tuple[str, str]]:
    for version in kind.spokes:
        for source, target in ((version, kind.hub), (kind.hub, version)):
            for text in kind.routes[source, target].source.split("\ndef ")[1:]:
                yield f"{source} to {target}, {text.partition('(')[0]}", f"def {text.rstrip()}\n"


def _notes(kind: KindGraph) -> Iterator[str]:
    yield from map(str, rule_losses(kind))
    yield from map(str, accepted_lists(kind))
    yield from map(str, opaque_fields(kind))
    for note in (*narrowed_bounds(kind), *missing_where_kept(kind), *missing_where_made(kind)):
        yield _message(note)
    for version in kind.visible_versions:
        yield f"{version} touches {touched(kind, version)}"


def _message(found: Diagnostic) -> str:
    return f"{found.version} {found.path} {found.problem}. {found.fix}"


def _findings(registry: Registry, crds: tuple[Crd, ...], *, drafts: bool) -> Iterator[str]:
    (kind,) = registry.kinds
    crds = tuple(crd for crd in crds if crd.kind == kind.kind)
    for given in ((), crds):
        try:
            registry.freeze(given)
        except DefinitionError as error:
            yield from map(_message, error.diagnostics)
    if drafts:
        graph = registry.freeze()
        yield from map(str, suggestions(graph.kind(kind.group, kind.kind), crds[0]))


def _objects(subject: Subject, kind: KindGraph, version: str) -> Iterator[Json]:
    schema = kind.schema(version)
    assert schema is not None
    generator = Generator(schema, f"{kind.group}/{version}", kind.kind, subject.choices.get(version, {}))
    for seed in range(_OBJECTS):
        obj = generator.object(Random(f"{kind.kind} {version} {seed}"))
        obj["metadata"]["name"] = f"object-{seed}"
        yield obj


def _explained(graph: Graph, kind: KindGraph, obj: Json) -> Iterator[str]:
    yield json.dumps(obj, ensure_ascii=False, sort_keys=True)
    for version in kind.visible_versions:
        if obj["apiVersion"] == f"{kind.group}/{version}":
            continue
        try:
            there = graph.convert(obj, f"{kind.group}/{version}")
            for source, target in ((obj, f"{kind.group}/{version}"), (there, obj["apiVersion"])):
                yield from _one(graph, source, target)
        except ObjectError as error:
            yield f"{version}: {error.with_line}"


def _one(graph: Graph, obj: Json, target: str) -> Iterator[str]:
    found = explain(graph, obj, target)
    yield f"{' -> '.join(found.route)}: {json.dumps(found.result, ensure_ascii=False, sort_keys=True)}"
    for leaf in found.leaves:
        how = leaf.origin
        more = ", ".join(map(pointer, how.deciders))
        yield f"{leaf.pointer}: {how.how} {', '.join(map(pointer, how.sources))} {'; '.join(how.rules)} {more}".rstrip()
    for ending in found.source_leaves:
        yield f"{ending.pointer} ends {ending.ending} {ending.rule} {ending.where} {ending.reason}".rstrip()
    for each in (*found.doubtful, *found.pruned, *found.defaulted, *found.waived, *found.kept, *found.links.legs):
        yield str(each)


def _allowed(kind: KindGraph, obj: Json) -> Iterator[str]:
    """Yield what the laws allow of an object, by the rules of each version and side."""
    hub = kind.routes[_version(obj), kind.hub].function(obj) if _version(obj) != kind.hub else obj
    for version, spoke in kind.spokes.items():
        there = kind.routes[kind.hub, version].function(hub)
        sides: tuple[tuple[Side, Json], ...] = (("hub", hub), ("spoke", there))
        for side, each in sides:
            yield f"{version} {side}: {_said(spoke.rules, each, side, kind, version)}"
        yield str(allowances.remembered(there, {"apiVersion": there["apiVersion"]}, spoke.rules))
        entries = json.loads(hub["metadata"].get("annotations", {}).get(kind.stash_key, "{}"))
        kept = entries.get("kept", entries).get(version, {}) if isinstance(entries, dict) else {}
        if isinstance(kept, dict):
            yield str(list(allowances.undeclared_losses(kept, spoke.rules, "up")))


def _said(rules: tuple[Rule, ...], obj: Json, side: Side, kind: KindGraph, version: str) -> Any:
    schema = kind.schema(kind.hub if side == "hub" else version)
    ties = sorted(steps for steps in fields(obj, schema) if allowances.is_joint(steps, rules, side))
    return (
        json.dumps(allowances.forgiven(obj, rules, side), ensure_ascii=False, sort_keys=True),
        [allowances.has_hub_drops(rules), allowances.has_judgement(rules), allowances.has_joint(rules)],
        [allowances.has_forget(rules), itemedits.has_keyless_lists(rules)],
        ties,
        allowances.emptied_lists(obj, rules, side),
        sorted(allowances.made_empties(obj, rules, side).items()),
        sorted(allowances.filled_empties(obj, rules, side).items()),
    )


def _version(obj: Json) -> str:
    return str(obj["apiVersion"]).rpartition("/")[2]
