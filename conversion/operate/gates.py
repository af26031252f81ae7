"""The gates of a ``ConversionRules`` object: its mistakes, its conditions, and which changes are reported as Events.

The order is that of ``GATES``. A gate is Unknown until its predecessor is passed. Ready is the summary: it has the
reason and the message of the first gate that is not passed. ``mistakes`` returns what the gate Analyzed checks;
admission checks for those mistakes that no CRD can make right.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from restow.conversion.model.errors import DefinitionError
from restow.conversion.model.fieldpath import pointer
from restow.conversion.operate.revisions import for_kind
from restow.conversion.rulefiles.parse import ConversionRules, RulesInvalid, parse, registry_of
from restow.crds import Crd
from restow.crds.paths import ROOT
from restow.kube.suggestions import few

ANALYZED: Final = "Analyzed"
REHEARSED: Final = "Rehearsed"
SERVING: Final = "Serving"
WIRED: Final = "Wired"
READY: Final = "Ready"
CONFLICT: Final = "Conflict"
GATES: Final = (ANALYZED, REHEARSED, SERVING, WIRED)

#: The reason of a gate for which the operator, or whoever wrote the rules, lacks a right.
FORBIDDEN: Final = "Forbidden"
#: What to do about a CRD that the operator may not read.
NOT_OPEN: Final = (
    "The operator's administrator has not opened this CRD to rules: the chart opens those in conversions.targets, and "
    "`restow rbac <name> --for 'operator --conversions'` prints the rights"
)

#: The reason of Wired while the CRD calls another project's webhook.
FOREIGN_WEBHOOK: Final = "ForeignWebhook"

#: Reasons of a gate in progress: no Event is written for them.
_ON_THE_WAY: Final = frozenset(
    {"Waiting", "InProgress", "Compiling", "RollingOut", "Wiring", "Releasing", "HandingOver"}
)

#: The longest message in characters: the schema of conditions in other APIs allows 32768.
_LONGEST: Final = 8_000


@dataclass(frozen=True, slots=True)
class Gate:
    """The state of one gate: ``state`` is True if it is passed, False if it failed, None while it is undecided."""

    type: str
    state: bool | None
    reason: str
    message: str

    @property
    def status(self) -> str:
        """The state as the status of a condition."""
        return {True: "True", False: "False", None: "Unknown"}[self.state]


def with_advice(said: str) -> str:
    """Return a message about a right that the operator lacks, and what to do."""
    return (
        f"{said}. The operator lacks this right: `restow rbac --for 'operator --conversions'` prints all that it "
        "needs, with the flags that it runs with, and the chart grants them"
    )


def counted(number: int, what: str) -> str:
    """Return ``1 object`` or ``2 objects``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def conditions(
    gates: Sequence[Gate], before: Iterable[Mapping[str, Any]], generation: int, now: datetime
) -> list[dict[str, Any]]:
    """Return the conditions for the gates that were reached, in order; the remaining ones are Unknown.

    Args:
        gates: the results; the last one may be the first gate that is not passed, and CONFLICT may be included.
        before: the current conditions of the object: a condition keeps the time of its last transition.
        generation: the generation of the examined object.
        now: the time for transitions.
    """
    found = {gate.type: gate for gate in gates}
    stopped = next((gate for gate in gates if gate.type in GATES and gate.state is not True), None)
    told = []
    for name in GATES:
        waits = f"{stopped.type} is not passed" if stopped is not None else "it is not looked at yet"
        told.append(found.get(name) or Gate(name, None, "Waiting", waits))
    if stopped is None:
        told.append(Gate(READY, True, "Ready", "every gate is passed"))
    else:
        told.append(Gate(READY, False, stopped.reason, f"{stopped.type}: {stopped.message}"))
    if CONFLICT in found:
        told.append(found[CONFLICT])
    known = {each.get("type"): each for each in before}
    return [_condition(gate, known.get(gate.type), generation, now) for gate in told]


def _condition(gate: Gate, before: Mapping[str, Any] | None, generation: int, now: datetime) -> dict[str, Any]:
    changed = before is None or before.get("status") != gate.status
    at = now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if changed or before is None else None
    return {
        "type": gate.type,
        "status": gate.status,
        "reason": gate.reason,
        "message": gate.message if len(gate.message) <= _LONGEST else f"{gate.message[: _LONGEST - 1]}…",
        "observedGeneration": generation,
        "lastTransitionTime": at or (before or {}).get("lastTransitionTime"),
    }


def status(
    document: Mapping[str, Any], gates: Sequence[Gate], *, crd: str, served: Mapping[str, Any] | None, now: datetime
) -> dict[str, Any]:
    """Return the new status of a ``ConversionRules`` object.

    ``crd`` is the name of the target's CRD, empty if there is none; ``served`` describes the revision that the replicas
    serve.
    """
    generation = document["metadata"].get("generation") or 0
    before = (document.get("status") or {}).get("conditions") or ()
    found: dict[str, Any] = {"observedGeneration": generation}
    if crd:
        found["crd"] = crd
    if served:
        found["served"] = dict(served)
    return {**found, "conditions": conditions(gates, before, generation, now)}


def news(before: Iterable[Mapping[str, Any]], after: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the conditions whose status or reason changed, except those of a gate in progress."""
    known = {each.get("type"): (each.get("status"), each.get("reason")) for each in before}
    return [
        each
        for each in after
        if known.get(each["type"]) != (each["status"], each["reason"])
        and each["type"] != READY
        and each["reason"] not in _ON_THE_WAY
    ]


#: The most problems that a message lists.
_SHOWN: Final = 10


def mistakes(document: Mapping[str, Any], crd: Crd | None = None, claim: Crd | None = None) -> list[str]:
    """Return every mistake with its place in the document; without the CRD those that no CRD can make right.

    ``claim`` is the CRD of the claims that Crossplane offers for the kind: the rules apply to both.
    """
    try:
        rules = parse(document)
    except RulesInvalid as error:
        return [str(problem) for problem in error.problems]
    found = _defects(rules, crd)
    if claim is not None and not found:
        of_claim = _defects(parse(for_kind(document, claim.kind)), claim)
        found = [f"{each} (in the claim {claim.kind})" for each in of_claim]
    return found


def _defects(rules: ConversionRules, crd: Crd | None) -> list[str]:
    try:
        registry_of([rules]).check([] if crd is None else [crd])
    except DefinitionError as error:
        return [_told(rules, diagnostic) for diagnostic in error.diagnostics]
    return []


def _told(rules: ConversionRules, diagnostic: Any) -> str:
    place = pointer(rules.place_of(diagnostic))
    field = f" {diagnostic.path}" if diagnostic.path != ROOT else ""
    return f"{place}: {diagnostic.version}{field}: {diagnostic.problem}. {diagnostic.fix}."


def listed(problems: Sequence[str], what: str) -> str:
    """Return a message with the first problems and their total number; ``what`` is the noun for one of them."""
    return f"{counted(len(problems), what)}: {few(problems, _SHOWN, '; ')}"


def target_of(document: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the group and the kind of a document's target; None if it names none."""
    spec = document.get("spec")
    target = spec.get("target") if isinstance(spec, dict) else None
    if not isinstance(target, dict):
        return None
    group, kind = target.get("group"), target.get("kind")
    return (group, kind) if isinstance(group, str) and isinstance(kind, str) else None
