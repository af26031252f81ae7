"""The gates of a ``ConversionRules`` object as conditions of its status, and what of it is news.

The order is that of ``GATES``. A gate whose predecessor is not passed is Unknown. Ready is the summary: it has the
reason and the message of the first gate that is not passed.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

__all__ = [
    "ANALYZED",
    "CONFLICT",
    "GATES",
    "READY",
    "REHEARSED",
    "SERVING",
    "WIRED",
    "Gate",
    "conditions",
    "counted",
    "news",
    "status",
]

ANALYZED: Final = "Analyzed"
REHEARSED: Final = "Rehearsed"
SERVING: Final = "Serving"
WIRED: Final = "Wired"
READY: Final = "Ready"
CONFLICT: Final = "Conflict"
GATES: Final = (ANALYZED, REHEARSED, SERVING, WIRED)

#: Reasons of a gate that is on its way: no Event is written of them.
_ON_THE_WAY: Final = frozenset({"Waiting", "InProgress", "Compiling", "RollingOut", "Wiring", "Releasing"})

#: Longer messages are cut: the schema of conditions in other APIs allows 32768 characters.
_LONGEST: Final = 8_000


@dataclass(frozen=True, slots=True)
class Gate:
    """The state of one gate: ``state`` is True where it is passed, False where it is not, None while that is open."""

    type: str
    state: bool | None
    reason: str
    message: str

    @property
    def status(self) -> str:
        """The state as a condition has it."""
        return {True: "True", False: "False", None: "Unknown"}[self.state]


def counted(number: int, what: str) -> str:
    """Return ``1 object`` or ``2 objects``."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def conditions(
    gates: Sequence[Gate], before: Iterable[Mapping[str, Any]], generation: int, now: datetime
) -> list[dict[str, Any]]:
    """Return the conditions for the gates that were reached, in order; the remaining ones are Unknown.

    Args:
        gates: what was found; may end with the first gate that is not passed, and have CONFLICT.
        before: the conditions that the object has now: a condition keeps the time of its last transition.
        generation: of the object that was looked at.
        now: for transitions.
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
    """Return the status that a ``ConversionRules`` object should have.

    ``crd`` is the name of the target's CRD, empty if there is none; ``served`` says what the replicas serve.
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
    """Return the conditions whose status or reason changed, and that say more than that a gate is on its way."""
    known = {each.get("type"): (each.get("status"), each.get("reason")) for each in before}
    return [
        each
        for each in after
        if known.get(each["type"]) != (each["status"], each["reason"])
        and each["type"] != READY
        and each["reason"] not in _ON_THE_WAY
    ]
