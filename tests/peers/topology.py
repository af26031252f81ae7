"""Kueue's topology assignments: what rules cannot say, in functions.

v1beta1 has the domains one by one. v1beta2 has slices of them, compressed: what all domains of a slice have in common
is said once, and a prefix and a suffix are cut off. Neither a rule nor a CEL expression says that, since it takes an
index into lists that belong together.
"""

from __future__ import annotations

from typing import Any, Final

from restow.conversion import rules

__all__ = ["topology"]


def topology() -> list[rules.Rule]:
    """Return the rule for the assignments of pod sets."""
    phases = {name: name for name in ("Pending", "Ready")}
    paths = "topologyAssignment.domains", "topologyAssignment.slices"
    compressed = rules.pair(*paths, up=_slices, down=_domains, loses="both")
    return [
        rules.each("status.admission.podSetAssignments", [rules.enum("delayedTopologyRequest", phases), compressed])
    ]


def _slices(domains: Any) -> Any:
    """Return the domains as one slice, compressed as Kueue does: what all have in common is said once."""
    if not isinstance(domains, list) or not domains:
        return domains
    rows = [domain.get("values") for domain in domains if isinstance(domain, dict)]
    counts = [domain.get("count") for domain in domains if isinstance(domain, dict)]
    if len(rows) != len(domains) or len({len(row) if isinstance(row, list) else -1 for row in rows}) != 1:
        return []
    pods = {"universal": counts[0]} if len(set(counts)) == 1 else {"individual": counts}
    levels = [_level(list(column)) for column in zip(*rows, strict=True)]
    return [{"domainCount": len(rows), "podCounts": pods, "valuesPerLevel": levels}]


def _level(values: list[str]) -> dict[str, Any]:
    if len(set(values)) == 1:
        return {"universal": values[0]}
    prefix, suffix = _common(values), _common([value[::-1] for value in values])[::-1]
    prefix = prefix[: max(0, min(map(len, values)) - len(suffix))]
    roots = [value[len(prefix) : len(value) - len(suffix)] for value in values]
    ends = {name: text for name, text in (("prefix", prefix), ("suffix", suffix)) if text}
    return {"individual": {**ends, "roots": roots}}


def _common(values: list[str]) -> str:
    first, last = min(values), max(values)
    length = next((index for index, letter in enumerate(first) if letter != last[index]), len(first))
    return first[:length]


def _domains(slices: Any) -> Any:
    """Return the domains of all slices, none if a slice is not what Kueue's rules for slices demand."""
    try:
        return [domain for each in slices for domain in _domains_of(each)]
    except (IndexError, KeyError, TypeError):
        return []


def _domains_of(each: dict[str, Any]) -> list[Any]:
    return [
        {
            "count": _count(each["podCounts"], index),
            "values": [_value(level, index) for level in each["valuesPerLevel"]],
        }
        for index in range(min(each["domainCount"], _MOST))
    ]


_MOST: Final = 100_000


def _value(level: dict[str, Any], index: int) -> Any:
    if "universal" in level:
        return level["universal"]
    individual = level["individual"]
    return individual.get("prefix", "") + individual["roots"][index] + individual.get("suffix", "")


def _count(counts: dict[str, Any], index: int) -> Any:
    return counts["universal"] if "universal" in counts else counts["individual"][index]
