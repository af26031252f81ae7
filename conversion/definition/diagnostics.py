"""Checks rules without a schema, and collects their diagnostics.

Freezing reports all diagnostics of a spoke at once. It checks paths, claims on metadata, fields with two writers,
reads, and the keys of lists. Keys that an author omitted are taken from the schema. No rule may change a key.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, get_args

from restow.conversion.definition.advice import Around, Spot, argument, spot
from restow.conversion.model.errors import Diagnostic
from restow.conversion.model.fieldpath import Path, PathError, parse, shown, starts_with
from restow.conversion.model.values import is_json
from restow.conversion.rules.branches import When, flattened
from restow.conversion.rules.cel import CelFunction
from restow.conversion.rules.model import (
    FROM_ROOT,
    Constant,
    Default,
    Lens,
    Loses,
    Move,
    Private,
    Rule,
    ScopedRules,
    Side,
    Waiver,
    opposite,
    read_steps,
    ungrouped,
)
from restow.crds import Schema
from restow.crds.paths import ROOT, items_path, values_path
from restow.crds.schema import schema_at


@dataclass(slots=True)
class DiagnosticCollector:
    """The diagnostics of one kind's spoke, and the current place in its two versions.

    ``answered`` has the rules that define the meaning of a missing field here, ``around`` the way from the root.
    """

    kind: str
    spoke: str
    hub: str
    places: dict[Side, str] = field(default_factory=lambda: {"spoke": ROOT, "hub": ROOT})
    found: list[Diagnostic] = field(default_factory=list)
    answered: dict[tuple[Side, Path], Rule] = field(default_factory=dict)
    around: tuple[Around, ...] = ()

    def version(self, side: Side) -> str:
        """Return the name of that side's version."""
        return self.spoke if side == "spoke" else self.hub

    def place(self, side: Side, path: Path) -> str:
        """Return the text of a path of that side."""
        return shown(path, self.places[side])

    def add(self, side: Side, path: Path, problem: str, fix: str) -> None:
        """Report a defect of a field."""
        self.say(side, self.place(side, path), problem, fix)

    def say(self, side: Side, place: str, problem: str, fix: str) -> None:
        """Report a defect at a place that is already a text."""
        self.found.append(Diagnostic(self.kind, self.version(side), place, problem, fix))

    def below(self, spoke: str, hub: str, step: Around | None = None) -> DiagnosticCollector:
        """Return a collector that reports to the same list, for places below these two.

        Rules of the object around also answer for fields below an object: a default of a field of what is moved.
        """
        answered: dict[tuple[Side, Path], Rule] = {}
        if step is not None and step.container == "object":
            ends: dict[Side, Path] = {"spoke": step.spoke, "hub": step.hub}
            for (side, path), rule in self.answered.items():
                if starts_with(path, ends[side]) and path != ends[side]:
                    answered[side, path[len(ends[side]) :]] = rule
        around = self.around if step is None else (*self.around, step)
        return replace(self, places={"spoke": spoke, "hub": hub}, answered=answered, around=around)

    def inside(self, rule: ScopedRules) -> DiagnosticCollector:
        """Return a collector that reports to the same list, for what the rules inside of another one apply to."""
        return self.below(rule.place("spoke", self.places["spoke"]), rule.place("hub", self.places["hub"]))

    def spot(
        self,
        spoke: Path,
        hub: Path,
        *,
        next_to_move: bool = False,
        keeps_key: bool = False,
        required: frozenset[Side] = frozenset(),
    ) -> Spot:
        """Return where a rule for a field here has to stand; see ``advice.spot``."""
        return spot(self.around, spoke, hub, next_to_move=next_to_move, keeps_key=keeps_key, required=required)

    def among(self, rules: Sequence[Rule]) -> DiagnosticCollector:
        """Return a collector that reports to the same list, for an object that these rules convert."""
        answered = dict(self.answered)
        for rule in rules:
            if isinstance(rule, Waiver):
                side: Side = "spoke" if rule.spoke else "hub"
                answered[side, parse(getattr(rule, side)[0])] = rule
            elif isinstance(rule, Constant | Default) and rule.is_layered:
                answered[rule.filled_in, parse(getattr(rule, rule.filled_in)[0])] = rule
        return replace(self, answered=answered)

    def is_answered(self, side: Side, path: Path) -> bool:
        """Return whether a rule defines the meaning of a missing required field."""
        return (side, path) in self.answered


def check_keys(rule: ScopedRules, findings: DiagnosticCollector) -> None:
    """Report rules that change the keys of the items of their list."""
    always = [inner for inner in rule.rules if isinstance(inner, Move | Waiver)]
    for inner in flattened(rule.rules):
        for key in rule.keys or ():
            if isinstance(inner, Rule) and inner not in always and key in inner.hub:
                place = items_path(findings.place("hub", parse(rule.hub[0])))
                problem = f"{inner.label} changes the key {key} that identifies the items"
                findings.say("hub", place, problem, "A key can be renamed, nothing else")


def with_keys(rules: Sequence[Rule], hub: Schema | None) -> tuple[Rule, ...]:
    """Return the rules in which every ``each`` has the hub's list-map keys; without a schema it has none."""
    return tuple(_known(rule, hub) for rule in rules)


def _known(rule: Rule, hub: Schema | None) -> Rule:
    if isinstance(rule, When):
        return replace(rule, rules=with_keys(rule.rules, hub))
    return _with_keys(rule, hub) if isinstance(rule, ScopedRules) else rule


def _with_keys(rule: ScopedRules, hub: Schema | None) -> ScopedRules:
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


_SIDES: Final[tuple[Side, ...]] = ("spoke", "hub")
_OPEN_METADATA: Final = ("labels", "annotations")
_LABEL_PATH_LENGTH: Final = 3


@dataclass(frozen=True, slots=True)
class _Claim:
    """A field that a rule claims, and the branches around the rule: for each union the number of the branch."""

    path: Path
    rule: Rule | None
    label: str
    branches: Mapping[Any, int]

    def excludes(self, other: _Claim) -> bool:
        """Return whether no object has to obey both rules."""
        return any(other.branches.get(union, number) != number for union, number in self.branches.items())


@dataclass(frozen=True, slots=True)
class _Place:
    """The surroundings of rules: the number of lists, whether rules apply again, and the branches."""

    stash_key: str
    is_root: bool = True
    lists: int = 0
    is_again: bool = False
    branches: Mapping[Any, int] = field(default_factory=dict)


_Claims = Mapping[Side, list[_Claim]]


def check_rules(rules: Sequence[Rule], findings: DiagnosticCollector, *, stash_key: str) -> tuple[Rule, ...]:
    """Report the defects of a spoke's rules; return the rules that further checks can use."""
    return _check_scope(rules, findings, _Place(stash_key), {"spoke": [], "hub": []})


def _check_scope(
    rules: Sequence[Rule], findings: DiagnosticCollector, place: _Place, claims: _Claims
) -> tuple[Rule, ...]:
    answers: dict[tuple[Side, Path], Rule] = {}
    usable: list[Rule] = []
    rules = tuple(ungrouped(rules))
    for number, declared in enumerate(rules):
        if not isinstance(declared, Rule):
            fix = "Use the constructors of restow.conversion.rules"
            findings.add("spoke", (), f"a {type(declared).__name__} is no rule", fix)
            continue
        if isinstance(declared, When):
            if _check_when(declared, findings):
                union = None if declared.values is None else declared.place["spoke"]
                within = replace(place, branches={**place.branches, (len(place.branches), union): number})
                usable.append(replace(declared, rules=_check_scope(declared.rules, findings, within, claims)))
            continue
        rule = _layered(declared, rules)
        parsed = [(side, _parsed(text, side, rule, findings)) for side in _SIDES for text in getattr(rule, side)]
        for side, path in parsed:
            if path is not None:
                _check_metadata(path, side, rule, findings, stash_key=place.stash_key, is_root=place.is_root)
                if rule.claims(side):
                    _check_overlap(_Claim(path, rule, rule.label, place.branches), side, claims[side], findings)
                elif (other := answers.setdefault((side, path), rule)) is not rule:
                    problem = f"both {other.label} and {rule.label} say what it means that the field is missing"
                    findings.add(side, path, problem, "Remove one of them")
        if not all(path for _, path in parsed) or not _check_rule(rule, findings, place):
            continue
        usable.append(_check_inner(rule, findings, place) if isinstance(rule, ScopedRules) else rule)
    return tuple(usable)


def _layered(rule: Rule, rules: Sequence[Any]) -> Rule:
    """Return a rule that implies a field, marked as layered if other rules convert the field or its content."""
    if not isinstance(rule, Constant | Default) or (isinstance(rule, Constant) and rule.value != {}):
        return rule
    others = [other for other in flattened(rules) if isinstance(other, Rule) and other is not rule]
    return replace(rule, is_layered=True) if any(_is_around(rule, other) for other in others) else rule


def _is_around(rule: Constant | Default, other: Rule) -> bool:
    """Return whether a rule that implies a field may surround another one: it fills in what the other leaves empty.

    The other rule converts the field's content, or the field itself on the side that always has it.
    """
    for side in _SIDES:
        path = _path(getattr(rule, side))
        claims = [claim for text in other.claims(side) if (claim := _path((text,))) is not None]
        if path is None:
            continue
        if any(starts_with(claim, path) and claim != path for claim in claims):
            return True
        is_other = not isinstance(other, Constant | Default | Private) and side == rule.filled_in
        if is_other and any(starts_with(path, claim) for claim in claims):
            return True
    return False


def _path(texts: Sequence[str]) -> Path | None:
    try:
        return parse(texts[0]) if len(texts) == 1 else None
    except PathError:
        return None


def _check_when(rule: When, findings: DiagnosticCollector) -> bool:
    """Report the defects of a branch's condition; return whether it can be decided."""
    problem, fix, values = (
        "",
        'Give field= and equals=, or has=: when([…], field="spec.type", equals="S3")',
        (rule.values or {}).get("spoke"),
    )
    if rule.has_both:
        problem = "has field= and has=, so that two conditions decide one branch"
    elif not rule.place["spoke"]:
        problem = "has neither field= nor has=, so that nothing decides the branch"
    elif values == ():
        problem = "has no value in equals="
    elif not all(isinstance(each, str | int | float | None) for each in values or ()):
        problem, fix = "has a value in equals= that is no scalar", "Give texts, numbers, booleans or null"
    if problem:
        findings.add("spoke", (), f"{rule.label} {problem}", fix)
        return False
    parsed = [_parsed(rule.place[side], side, rule, findings) for side in _SIDES]
    return all(path is not None for path in parsed)


def _parsed(text: str, side: Side, rule: Rule, findings: DiagnosticCollector) -> Path | None:
    try:
        return parse(text)
    except PathError as error:
        findings.say(side, findings.places[side], f"{rule.label}: {error}", "Name the field from the object's root on")
        return None


def _check_metadata(
    path: Path, side: Side, rule: Rule, findings: DiagnosticCollector, *, stash_key: str, is_root: bool
) -> None:
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


def _check_overlap(claim: _Claim, side: Side, claims: list[_Claim], findings: DiagnosticCollector) -> None:
    """Report a field that another rule also claims, unless no object has to obey both; add it to the claims."""
    for other in claims:
        overlap = starts_with(claim.path, other.path) or starts_with(other.path, claim.path)
        if overlap and not claim.excludes(other):
            outer, inner = sorted((other, claim), key=lambda each: len(each.path))
            problem = f"both {other.label} and {claim.label} claim it"
            findings.add(side, claim.path, problem, _one_rule(side, outer, inner))
            break
    claims.append(claim)


_ONE_RULE: Final = "Let one rule convert the field, with rules.pair or rules.inside if both sides of it matter"


def _one_rule(side: Side, outer: _Claim, inner: _Claim) -> str:
    """Return how two rules that claim a field become compatible."""
    around, rule = outer.rule, inner.rule
    if isinstance(around, ScopedRules) and isinstance(rule, ScopedRules) and around.label == rule.label:
        return f"Write the rules of both into one rules.{around.name}"
    if len(inner.path) == len(outer.path) or rule is None:
        return _ONE_RULE
    if isinstance(around, Move) and isinstance(rule, Default):
        other = opposite(side)
        moved = parse(getattr(around, other)[0]) + inner.path[len(outer.path) :]
        paths = {side: argument(inner.path), other: argument(moved)}
        return f"Write rules.default({paths['spoke']}, …, hub={paths['hub']}), since {around.label} moves the field"
    if isinstance(around, Move):
        ends = argument(parse(around.spoke[0])), argument(parse(around.hub[0]))
        moved_as = f"rules.inside({ends[0]}, […], hub={ends[1]})"
        return f"Write {moved_as} instead of {around.label}, and in it {rule.label} with paths from there on"
    if isinstance(around, ScopedRules):
        return f"Write {rule.label} in the rules of {around.label}, with paths from there on"
    return _ONE_RULE


def _check_rule(rule: Rule, findings: DiagnosticCollector, place: _Place) -> bool:
    """Report the defects of one rule by itself; return whether it claims the fields that its kind has to claim."""
    match rule:
        case Move(name="rename") if parse(rule.spoke[0])[:-1] != parse(rule.hub[0])[:-1]:
            ends = ", ".join(argument(parse(each[0])) for each in (rule.spoke, rule.hub))
            findings.add("spoke", parse(rule.spoke[0]), f"{rule.label} names another object", f"Use rules.move({ends})")
        case Lens():
            functions = {"up": rule.up, "down": rule.down, "merge": rule.merge, "forget": rule.forget}
            _check_functions(functions, rule, findings)
            if rule.loses not in get_args(Loses):
                fix = f"Say one of {', '.join(map(repr, get_args(Loses)))}"
                findings.add("spoke", (), f"{rule.label} has loses={rule.loses!r}", fix)
            for problem, fix in rule.defects:
                findings.add("spoke", (), f"{rule.label} {problem}", fix)
            if rule.defects:
                return False
            if not rule.spoke or not rule.hub:
                findings.add("spoke", (), f"{rule.label} claims nothing on one side", "Use rules.stash or rules.drop")
                return False
            if rule.reads_hub and rule.loses not in ("down", "both"):
                problem = f"{rule.label} reads other fields, so its inverse cannot check it going up"
                findings.add("spoke", (), problem, 'Say loses="down"')
            _check_reads(rule.reads, rule, findings, place)
            _check_forget(rule, findings)
        case Private() | Constant() | Waiver():
            if len(rule.spoke) + len(rule.hub) != 1:
                problem = f"{rule.label} must name one field of one side"
                findings.add("spoke", (), problem, "Give the spoke's path, or hub=")
                return False
            _check_reason(rule, findings)
            if isinstance(rule, Waiver) and not rule.acknowledge.strip():
                problem = f"{rule.label} does not say why the field may be missing"
                findings.add("spoke", (), problem, "Fill in acknowledge=")
            _check_json(rule, findings)
        case Default():
            _check_json(rule, findings)
            if rule.omitted_in not in get_args(Side):
                fix = 'Say omitted_in="spoke" or omitted_in="hub"'
                findings.add("spoke", (), f"{rule.label} has omitted_in={rule.omitted_in!r}", fix)
                return False
        case ScopedRules():
            _check_functions({"hide": rule.hide, "merge": rule.merge}, rule, findings)
            _check_reads(rule.reads, rule, findings, _within(rule, place))
            check_keys(rule, findings)
            _check_reason(rule, findings)
    return True


def _check_reason(rule: Rule, findings: DiagnosticCollector) -> None:
    reason = rule.acknowledge if isinstance(rule, Private | ScopedRules) else None
    if reason is not None and not (isinstance(reason, str) and reason.strip()):
        findings.add("spoke", (), f"{rule.label} does not say why the loss is none", "Fill in acknowledge=")


def _check_forget(rule: Lens, findings: DiagnosticCollector) -> None:
    if rule.forget is None:
        if rule.acknowledge is not None:
            problem = f"{rule.label} acknowledges a loss, but has no forget="
            findings.add("spoke", (), problem, "Remove acknowledge=, or give the function as forget=")
    elif rule.acknowledge is None or not rule.acknowledge.strip():
        problem = f"{rule.label} forgets values of {findings.spoke}, and does not say why that is no loss"
        findings.add("spoke", (), problem, 'Add acknowledge="why"')
    elif rule.loses == "down":
        problem = f'{rule.label} forgets nothing: with loses="down" nothing is kept going up'
        findings.add("spoke", (), problem, 'Say loses="both", or remove forget= and acknowledge=')


def _check_functions(functions: Mapping[str, Any], rule: Rule, findings: DiagnosticCollector) -> None:
    for name, function in functions.items():
        if isinstance(function, CelFunction) and (problem := function.problem()):
            findings.add("spoke", (), f"the CEL expression {name}= of {rule.label} {problem}", "Correct the expression")
        if not (function is None and name in ("merge", "hide", "forget")) and not callable(function):
            problem = f"{rule.label} has a {type(function).__name__} for {name}="
            findings.add("spoke", (), problem, "Give a function")


def _check_json(rule: Rule, findings: DiagnosticCollector) -> None:
    if isinstance(rule, Constant | Default) and not is_json(rule.value):
        side: Side = "hub" if rule.hub else "spoke"
        path = parse(getattr(rule, side)[0])
        findings.add(side, path, f"{rule.label} has a value that is no JSON", "Give a JSON value")


def _check_reads(reads: Sequence[str], rule: Rule, findings: DiagnosticCollector, place: _Place) -> None:
    for text in reads:
        try:
            steps = read_steps(text) if text.startswith(FROM_ROOT) else (parse(text),)
        except PathError as error:
            findings.say("hub", findings.places["hub"], f"{rule.label}: {error}", "Name the field to be read")
            continue
        if len(steps) > 1 and place.is_again:
            problem = f"{rule.label} reads {text} by keys of items, and stands in rules that apply again (recurse=)"
            findings.say("hub", findings.places["hub"], problem, "Read a field of the scope, or one from the root")
        elif len(steps) > place.lists + 1:
            problem = f"{rule.label} reads {text}, and stands in {place.lists} lists only"
            findings.say("hub", findings.places["hub"], problem, "Write as many [] as there are each(…) around it")


def _within(rule: ScopedRules, place: _Place) -> _Place:
    """Return the place of the rules inside of a rule."""
    lists, is_again = place.lists + (rule.container == "list"), place.is_again or bool(rule.recurse)
    return _Place(place.stash_key, is_root=False, lists=lists, is_again=is_again)


def _check_inner(rule: ScopedRules, findings: DiagnosticCollector, place: _Place) -> ScopedRules:
    places = [findings.place("spoke", parse(rule.spoke[0])), findings.place("hub", parse(rule.hub[0]))]
    if rule.container == "list":
        places = [items_path(place) for place in places]
    elif rule.container == "map":
        places = [values_path(place) for place in places]
    below = findings.below(places[0], places[1])
    claims: _Claims = {"spoke": [], "hub": []}
    is_sound = True
    for again in rule.recursions:
        for side in _SIDES:
            path = _parsed(again.claims(side)[0], side, rule, below)
            is_sound = is_sound and path is not None
            if path is not None:
                _check_overlap(_Claim(path, None, f"the recursion of {rule.label}", {}), side, claims[side], below)
    inner = _check_scope(rule.rules, below, _within(rule, place), claims)
    return replace(rule, rules=inner, recurse=rule.recurse if is_sound else ())
