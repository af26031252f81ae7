"""The keys of lists: filled in from the schema where an author left them to it, and not to be changed by a rule.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from restow.conversion.definition.findings import Findings
from restow.conversion.path import parse
from restow.conversion.rules.model import Move, Rule, Scope
from restow.crds import Schema
from restow.crds.paths import items_path
from restow.crds.schema import schema_at

__all__ = ["check_keys", "with_keys"]


def check_keys(rule: Scope, findings: Findings) -> None:
    """Report rules that change what tells the items of their list apart."""
    for inner in rule.rules:
        for key in rule.keys or ():
            if isinstance(inner, Rule) and not isinstance(inner, Move) and key in inner.hub:
                place = items_path(findings.place("hub", parse(rule.hub[0])))
                problem = f"{inner.label} changes the key {key} that tells the items apart"
                findings.say("hub", place, problem, "A key can be renamed, nothing else")


def with_keys(rules: Sequence[Rule], hub: Schema | None) -> tuple[Rule, ...]:
    """Return the rules with every ``each`` knowing the hub's list-map keys; without a schema it has none."""
    return tuple(_with_keys(rule, hub) if isinstance(rule, Scope) else rule for rule in rules)


def _with_keys(rule: Scope, hub: Schema | None) -> Scope:
    schema = schema_at(hub, parse(rule.hub[0]))
    keys = rule.keys
    inner = schema
    if rule.container == "list":
        inner = None if schema is None else schema.items
        if keys is None:
            keys = () if schema is None else schema.list_keys
    elif rule.container == "map":
        inner = None if schema is None else schema.values
    return replace(rule, keys=keys, rules=with_keys(rule.rules, inner))
