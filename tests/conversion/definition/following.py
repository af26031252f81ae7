"""Follows the advice of findings literally, as an author of a rule file does, until nothing is found any more."""

from __future__ import annotations

import re
from typing import Any

import yaml

from restow.conversion import DefinitionError, Diagnostic
from restow.conversion.rulefiles import API_VERSION, KIND, parse, registry_of
from restow.crds import Crd, Schema
from restow.crds.paths import ROOT

Rule = dict[str, dict[str, Any]]
MOST_STEPS = 400
LABEL = r"([a-z_]+\([^()]*\))"


class Stuck(AssertionError):
    """An advice changes nothing, or cannot be followed."""


def found_in(rules: list[Rule], crd: Crd, hub: str, spoke: str) -> tuple[Diagnostic, ...]:
    spokes = [{"version": spoke, "rules": rules}]
    target = {"group": crd.group, "kind": crd.kind}
    document = {"apiVersion": API_VERSION, "kind": KIND, "spec": {"target": target, "hub": hub, "spokes": spokes}}
    try:
        registry_of([parse(document)]).freeze([crd])
    except DefinitionError as error:
        return error.diagnostics
    return ()


def followed(rules: list[Rule], crd: Crd, hub: str, spoke: str, *, choice: int = 0) -> list[Rule]:
    """Return the rules after following the advice of one finding after the other."""
    seen: list[tuple[Diagnostic, ...]] = []
    for _ in range(MOST_STEPS):
        found = found_in(rules, crd, hub, spoke)
        if not found:
            return rules
        if found in seen:
            raise Stuck(f"nothing changes: {found[0]}\n{rules}")
        seen.append(found)
        follow(found[0], rules, crd, "hub" if found[0].version == hub else "spoke", choice)
    raise Stuck(f"there is no end: {found[0]}")


def follow(finding: Diagnostic, rules: list[Rule], crd: Crd, side: str, choice: int) -> None:
    version = crd.version(finding.version)
    if keys := re.match(rf"Identify the items with key: (\S+|\[[^]]*\]) in {LABEL}", finding.fix):
        listed = keyless(rules, keys[2], finding, side)
        listed["key"] = yaml.safe_load(keys[1])
        return
    if without := re.match(rf"Name the fields that identify an item with key: in {LABEL}", finding.fix):
        listed = keyless(rules, without[1], finding, side)
        listed["acknowledge"] = "why"
        return
    if finding.fix == "Say with otherwise: what is shown then":
        name = finding.path.rpartition(".")[2]
        casts = [each["cast"] for each in every(rules) if each.get("cast", {}).get("spoke", "").endswith(name)]
        node = None if version is None else described(version.schema, finding.path)
        next(each for each in casts if "otherwise" not in each)["otherwise"] = sample(node)
        return
    clauses = re.split(r"; or ", finding.fix)  # each says for itself where its rules stand
    advices = [(clause, found) for clause in clauses for each in clause.split(", or ") if (found := proposed(each))]
    if not advices:
        raise Stuck(f"no rule is proposed: {finding}")
    clause, advised = advices[min(choice, len(advices) - 1)]
    scope = rules
    replaced = re.findall(rf" instead of {LABEL}", clause)
    if within := re.search(rf", in the rules of {LABEL}", clause):
        around = [
            each for each in scopes(rules, side) if label(each[1]) == within[1] and finding.path.startswith(each[0])
        ]
        inner = [next(iter(each.values()))["rules"] for _, each in around]
        # Two rules of one label may stand in one another: the inner one, unless it is what is to be replaced.
        scope = [each for each in inner if all(any(label(rule) == old for rule in each) for old in replaced)][-1]
    scope[:] = [each for each in scope if label(each) not in replaced]
    schema = None if version is None else version.schema
    nodes = [found.node for each in crd.versions if (found := described(each.schema, finding.path)) is not None]
    enums = [value for node in nodes for value in node.get("enum", ())]
    for rule in advised:
        add(filled(rule, schema, finding.path, side, enums), scope)


def keyless(rules: list[Rule], name: str, finding: Diagnostic, side: str) -> dict[str, Any]:
    """Return the arguments of the rule of a list that a finding asks to identify the items of."""
    (found,) = (
        next(iter(each.values()))
        for place, each in scopes(rules, side)
        if label(each) == name and place.removesuffix("[]") == finding.path.removesuffix("[]")
    )
    return found


def proposed(text: str) -> list[Rule]:
    """Return the rules that a text proposes together."""
    found = []
    for start in re.finditer(r"- [a-z_]+: \{", text):
        depth = 0
        for end in range(start.end() - 1, len(text)):
            depth += (text[end] == "{") - (text[end] == "}")
            if not depth:
                break
        found += yaml.safe_load(text[start.start() : end + 1])
    return found


def add(rule: Rule, scope: list[Rule]) -> None:
    """Add a rule; the rules of the same scope stand in one."""
    for each in scope:
        if label(each) == label(rule) and "rules" in (arguments := next(iter(rule.values()))):
            for inner in arguments["rules"]:
                add(inner, next(iter(each.values()))["rules"])
            return
    scope.append(rule)


def every(rules: list[Rule]) -> list[Rule]:
    return [each for rule in rules for each in (rule, *every(next(iter(rule.values())).get("rules", [])))]


def scopes(rules: list[Rule], side: str, around: str = ROOT) -> list[tuple[str, Rule]]:
    """Return the rules that have rules inside, each with the place that these are for; the outer ones first."""
    found = []
    for rule in rules:
        ((name, arguments),) = rule.items()
        if "rules" in arguments:
            step = {"each": "[]", "each_value": "{}"}.get(name, "")
            place = f"{around.rstrip('.')}.{arguments.get(side) or arguments['spoke']}{step}"
            found += [(place, rule), *scopes(arguments["rules"], side, place)]
    return found


def label(rule: Rule) -> str:
    ((name, arguments),) = rule.items()
    spoke, hub = (each and each.removesuffix("[]") for each in (arguments.get("spoke"), arguments.get("hub")))
    if name in ("stash", "drop", "constant", "waive"):
        return f"{name}({spoke or hub})"
    return f"{name}({spoke} <-> {hub or spoke})"


def described(schema: Schema | None, path: str) -> Schema | None:
    """Return the schema of a place as findings write it."""
    for step in re.findall(r'\.?([\w$-]+)|\["([^"]*)"\]|(\[\]|\{\})', path.removeprefix(ROOT)):
        if schema is None:
            return None
        schema = {"[]": schema.items, "{}": schema.values}.get(step[2], schema.field(step[0] or step[1]))
    return schema


def filled(rule: Rule, schema: Schema | None, place: str, side: str, enums: list[Any]) -> Rule:
    """Return a rule of a finding's place with a value of the schema wherever the author has to choose one."""
    ((name, arguments),) = rule.items()
    chosen = dict(arguments)
    if "rules" in chosen:
        chosen["rules"] = [filled(each, schema, place, side, enums) for each in chosen["rules"]]
    if name in ("default", "constant") and "…" in repr(chosen["value"]):
        steps = (chosen.get(side) or chosen["spoke"]).split(".")  # it may be for a field inside of the finding's
        heads = (size for size in range(len(steps), -1, -1) if f".{place}".endswith(f".{'.'.join(steps[:size])}"))
        chosen["value"] = sample(described(schema, ".".join((place, *steps[next(heads) :]))))
    for direction in ("up", "down"):
        if direction in chosen:
            table = chosen[direction]
            known = [value for value in enums if value not in table]
            chosen[direction] = "self" if table == "…" else dict.fromkeys(table, known[0])
    return {name: chosen}


def sample(schema: Schema | None) -> Any:
    """Return a value that a schema admits, with no more than it requires."""
    assert schema is not None
    if schema.node.get("enum"):
        return schema.node["enum"][0]
    match schema.node.get("type"):
        case "object":
            return {name: sample(schema.field(name)) for name in schema.required}
        case "array":
            return [sample(schema.items)] * schema.node.get("minItems", 0)
        case "integer" | "number":
            return schema.node.get("minimum", 1)
        case "boolean":
            return True
        case _:
            return "x" * max(1, schema.node.get("minLength", 1))
