"""Checks rules without a schema, and collects their diagnostics.

Freezing reports all diagnostics of a spoke at once. It checks paths, claims on metadata, fields with two writers,
reads, and the keys of lists. Keys that an author omitted are taken from the schema. No rule may change a key.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from restow.conversion.definition.advice import Around, Spot, spot
from restow.conversion.model.errors import Diagnostic
from restow.conversion.model.fieldpath import Path, PathError, parse, shown, starts_with
from restow.conversion.rules.protocol import Defect, Rule, Surroundings, ungrouped
from restow.conversion.rules.sides import SIDES, Side
from restow.crds.paths import ROOT


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

    def report(self, rule: Rule, defects: Iterable[Defect]) -> bool:
        """Report the defects of a rule by itself; return whether other checks can use the rule."""
        is_usable = True
        for each in defects:
            place = rule.inner_place(each.side, self.places[each.side]) if each.is_inside else None
            self.say(each.side, place or self.place(each.side, each.path), each.problem, each.fix)
            is_usable = is_usable and not each.is_fatal
        return is_usable

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

    def inside(self, rule: Rule) -> DiagnosticCollector:
        """Return a collector that reports to the same list, for what the rules inside of another one apply to."""
        return self.below(rule.inner_place("spoke", self.places["spoke"]), rule.inner_place("hub", self.places["hub"]))

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
            if rule.answers is not None:
                answered[rule.answers] = rule
        return replace(self, answered=answered)

    def is_answered(self, side: Side, path: Path) -> bool:
        """Return whether a rule defines the meaning of a missing required field."""
        return (side, path) in self.answered


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


def _no_claims() -> dict[Side, list[_Claim]]:
    return {"spoke": [], "hub": []}


@dataclass(frozen=True, slots=True)
class _Scope:
    """The rules of one object under check: where they stand, and what they claim so far."""

    findings: DiagnosticCollector
    stash_key: str
    around: Surroundings
    claims: Mapping[Side, list[_Claim]] = field(default_factory=_no_claims)

    def check(self, rules: Sequence[Any]) -> tuple[Rule, ...]:
        """Report the defects of the rules; return those that further checks can use."""
        answers: dict[tuple[Side, Path], Rule] = {}
        usable: list[Rule] = []
        rules = ungrouped(rules)
        for number, declared in enumerate(rules):
            rule = declared.layered(rules)
            is_parsed = self._check_paths(rule, answers)
            if is_parsed and self.findings.report(rule, rule.check(self.around)):
                usable.append(self._inside(rule, rule.inside(self.around, number)))
        return tuple(usable)

    def _check_paths(self, rule: Rule, answers: dict[tuple[Side, Path], Rule]) -> bool:
        """Report the defects of the paths of a rule; return whether all are paths."""
        parsed = [(side, self._parsed(text, side, rule)) for side in SIDES for text in rule.named(side)]
        for side, path in parsed:
            if path is None or rule.is_branch:
                continue
            self._check_metadata(path, side, rule)
            if rule.claims(side):
                self._check_overlap(_Claim(path, rule, rule.label, self.around.branches), side)
            elif (other := answers.setdefault((side, path), rule)) is not rule:
                problem = f"both {other.label} and {rule.label} say what it means that the field is missing"
                self.findings.add(side, path, problem, "Remove one of them")
        return all(path for _, path in parsed)

    def _parsed(self, text: str, side: Side, rule: Rule) -> Path | None:
        try:
            return parse(text)
        except PathError as error:
            self.findings.add(side, (), f"{rule.label}: {error}", "Name the field from the object's root on")
            return None

    def _check_metadata(self, path: Path, side: Side, rule: Rule) -> None:
        if self.findings.places[side] != ROOT or path[0] not in ("apiVersion", "kind", "metadata"):
            return
        if len(path) == _LABEL_PATH_LENGTH and path[1] in _OPEN_METADATA and path[2] != self.stash_key:
            return
        self.findings.add(
            side,
            path,
            f"{rule.label} claims what belongs to the API server",
            'Of metadata, only single labels and annotations can be converted: metadata.annotations["example.dev/x"]',
        )

    def _check_overlap(self, claim: _Claim, side: Side) -> None:
        """Report a field that another rule also claims, unless no object has to obey both; add it to the claims."""
        for other in self.claims[side]:
            overlap = starts_with(claim.path, other.path) or starts_with(other.path, claim.path)
            if overlap and not claim.excludes(other):
                outer, inner = sorted((other, claim), key=lambda each: len(each.path))
                problem = f"both {other.label} and {claim.label} claim it"
                self.findings.add(side, claim.path, problem, _one_rule(outer, inner))
                break
        self.claims[side].append(claim)

    def _inside(self, rule: Rule, around: Surroundings) -> Rule:
        """Check the rules inside of a rule; return the rule with those that further checks can use."""
        if rule.is_branch:
            return rule.with_contained(replace(self, around=around).check(rule.contained))
        spoke, hub = (rule.inner_place(side, self.findings.places[side]) for side in SIDES)
        scope = _Scope(self.findings.below(spoke, hub), self.stash_key, around)
        is_sound = True
        for again in rule.recursions:
            for side in SIDES:
                path = scope._parsed(again.claims(side)[0], side, rule)
                is_sound = is_sound and path is not None
                if path is not None:
                    scope._check_overlap(_Claim(path, None, f"the recursion of {rule.label}", {}), side)
        rule = rule.with_contained(scope.check(rule.contained))
        return rule if is_sound else rule.without_recursion()


def check_rules(rules: Sequence[Any], findings: DiagnosticCollector, *, stash_key: str) -> tuple[Rule, ...]:
    """Report the defects of a spoke's rules; return the rules that further checks can use."""
    return _Scope(findings, stash_key, Surroundings(findings.spoke)).check(rules)


_ONE_RULE: Final = "Let one rule convert the field, with rules.pair or rules.inside if both sides of it matter"


def _one_rule(outer: _Claim, inner: _Claim) -> str:
    """Return how two rules that claim a field become compatible."""
    if outer.rule is None or inner.rule is None:  # a place of recursion
        return _ONE_RULE
    return outer.rule.advice_inside(inner.rule, inner.path[len(outer.path) :]) or _ONE_RULE
