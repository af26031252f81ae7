"""Checks of rules without any schema: paths, ownership of metadata, two writers of one field, keys, reads.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, get_args

from restow.conversion.compile.stage import FROM_ROOT, read_steps
from restow.conversion.definition.findings import Findings
from restow.conversion.definition.keys import check_keys
from restow.conversion.path import Path, PathError, parse, starts_with
from restow.conversion.rules.model import Constant, Default, Lens, Loses, Move, Private, Rule, Scope, Side
from restow.conversion.values import is_json
from restow.crds.paths import items_path, values_path

__all__ = ["check_rules"]

_SIDES: Final[tuple[Side, ...]] = ("spoke", "hub")
_OPEN_METADATA: Final = ("labels", "annotations")
_LABEL_PATH_LENGTH: Final = 3


def check_rules(rules: Sequence[Rule], findings: Findings, *, stash_key: str) -> tuple[Rule, ...]:
    """Report what is wrong with the rules of a spoke; return those that can be looked into further."""
    return _check_scope(rules, findings, stash_key=stash_key, is_root=True, lists=0)


def _check_scope(
    rules: Sequence[Rule], findings: Findings, *, stash_key: str, is_root: bool, lists: int
) -> tuple[Rule, ...]:
    claims: dict[Side, list[tuple[Path, Rule]]] = {"spoke": [], "hub": []}
    usable: list[Rule] = []
    for rule in rules:
        if not isinstance(rule, Rule):
            fix = "Use the constructors of restow.conversion.rules"
            findings.add("spoke", (), f"a {type(rule).__name__} is no rule", fix)
            continue
        parsed = [(side, _parsed(text, side, rule, findings)) for side in _SIDES for text in rule.claims(side)]
        for side, path in parsed:
            if path is not None:
                _check_metadata(path, side, rule, findings, stash_key=stash_key, is_root=is_root)
                _check_overlap(path, side, rule, claims[side], findings)
                claims[side].append((path, rule))
        if not all(path for _, path in parsed) or not _check_rule(rule, findings, lists):
            continue
        usable.append(_check_inner(rule, findings, stash_key, lists) if isinstance(rule, Scope) else rule)
    return tuple(usable)


def _parsed(text: str, side: Side, rule: Rule, findings: Findings) -> Path | None:
    try:
        return parse(text)
    except PathError as error:
        findings.say(side, findings.places[side], f"{rule.label}: {error}", "Name the field from the object's root on")
        return None


def _check_metadata(path: Path, side: Side, rule: Rule, findings: Findings, *, stash_key: str, is_root: bool) -> None:
    if not is_root or path[0] not in ("apiVersion", "kind", "metadata"):
        return
    if len(path) == _LABEL_PATH_LENGTH and path[1] in _OPEN_METADATA and path[2] != stash_key:
        return
    findings.add(
        side,
        path,
        f"{rule.label} claims what belongs to the API server",
        'Of metadata, only single labels and annotations can be converted: metadata.annotations["example.dev/x"]',
    )


def _check_overlap(path: Path, side: Side, rule: Rule, claims: Sequence[tuple[Path, Rule]], findings: Findings) -> None:
    for other, owner in claims:
        if starts_with(path, other) or starts_with(other, path):
            findings.add(
                side,
                path,
                f"both {owner.label} and {rule.label} claim it",
                "Let one rule convert the field, with rules.pair or rules.inside if both sides of it matter",
            )
            return


def _check_rule(rule: Rule, findings: Findings, lists: int) -> bool:
    """Report what is wrong with one rule by itself; say whether it claims what its kind has to claim."""
    match rule:
        case Move(name="rename") if parse(rule.spoke[0])[:-1] != parse(rule.hub[0])[:-1]:
            findings.add("spoke", parse(rule.spoke[0]), f"{rule.label} names another object", "Use rules.move")
        case Lens():
            _check_functions({"up": rule.up, "down": rule.down, "merge": rule.merge}, rule, findings)
            if rule.loses not in get_args(Loses):
                fix = f"Say one of {', '.join(map(repr, get_args(Loses)))}"
                findings.add("spoke", (), f"{rule.label} has loses={rule.loses!r}", fix)
            if not rule.spoke or not rule.hub:
                findings.add("spoke", (), f"{rule.label} claims nothing on one side", "Use rules.stash or rules.drop")
                return False
            if rule.reads and rule.loses not in ("down", "both"):
                problem = f"{rule.label} reads other fields, so its inverse cannot check it going up"
                findings.add("spoke", (), problem, 'Say loses="down"')
            _check_reads(rule.reads, rule, findings, lists)
        case Private() | Constant():
            if len(rule.spoke) + len(rule.hub) != 1:
                problem = f"{rule.label} must name one field of one side"
                findings.add("spoke", (), problem, "Give the spoke's path, or hub=")
                return False
            if isinstance(rule, Private) and rule.acknowledge is not None and not rule.acknowledge.strip():
                findings.add("spoke", (), f"{rule.label} does not say why the loss is none", "Fill in acknowledge=")
            _check_json(rule, findings)
        case Default():
            _check_json(rule, findings)
        case Scope():
            _check_functions({"hide": rule.hide, "merge": rule.merge}, rule, findings)
            _check_reads(rule.reads, rule, findings, lists + (rule.container == "list"))
            check_keys(rule, findings)
    return True


def _check_functions(functions: Mapping[str, Any], rule: Rule, findings: Findings) -> None:
    for name, function in functions.items():
        if not (function is None and name in ("merge", "hide")) and not callable(function):
            problem = f"{rule.label} has a {type(function).__name__} for {name}="
            findings.add("spoke", (), problem, "Give a function")


def _check_json(rule: Rule, findings: Findings) -> None:
    if isinstance(rule, Constant | Default) and not is_json(rule.value):
        side: Side = "hub" if rule.hub else "spoke"
        findings.add(
            side, parse(rule.claims(side)[0]), f"{rule.label} has a value that is no JSON", "Give a JSON value"
        )


def _check_reads(reads: Sequence[str], rule: Rule, findings: Findings, lists: int) -> None:
    for text in reads:
        try:
            steps = read_steps(text) if text.startswith(FROM_ROOT) else (parse(text),)
        except PathError as error:
            findings.say("hub", findings.places["hub"], f"{rule.label}: {error}", "Name the field to be read")
            continue
        if len(steps) > lists + 1:
            problem = f"{rule.label} reads {text}, and stands in {lists} lists only"
            findings.say("hub", findings.places["hub"], problem, "Write as many [] as there are each(…) around it")


def _check_inner(rule: Scope, findings: Findings, stash_key: str, lists: int) -> Scope:
    places = [findings.place("spoke", parse(rule.spoke[0])), findings.place("hub", parse(rule.hub[0]))]
    if rule.container == "list":
        places = [items_path(place) for place in places]
    elif rule.container == "map":
        places = [values_path(place) for place in places]
    lists += rule.container == "list"
    inner = _check_scope(rule.rules, findings.below(*places), stash_key=stash_key, is_root=False, lists=lists)
    return replace(rule, rules=inner)
