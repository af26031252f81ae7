"""Analyzes a ``ConversionRules`` object: what can be known of it without its CRD, and what with it.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from restow.conversion.model.errors import DefinitionError
from restow.conversion.model.fieldpath import pointer
from restow.conversion.operate.gates import counted
from restow.conversion.rulefiles.parse import ConversionRules, RulesInvalid, parse, registry_of
from restow.crds import Crd
from restow.crds.paths import ROOT

__all__ = ["listed", "mistakes", "target_of"]

#: Problems that a message lists.
_SHOWN: Final = 10


def mistakes(document: Mapping[str, Any], crd: Crd | None = None) -> list[str]:
    """Return every mistake with its place in the document; without the CRD those that no CRD can make right."""
    try:
        rules = parse(document)
    except RulesInvalid as error:
        return [str(problem) for problem in error.problems]
    try:
        registry_of([rules]).freeze([] if crd is None else [crd])
    except DefinitionError as error:
        return [_told(rules, diagnostic) for diagnostic in error.diagnostics]
    return []


def _told(rules: ConversionRules, diagnostic: Any) -> str:
    place = pointer(rules.place_of(diagnostic))
    field = f" {diagnostic.path}" if diagnostic.path != ROOT else ""
    return f"{place}: {diagnostic.version}{field}: {diagnostic.problem}. {diagnostic.fix}."


def listed(problems: Sequence[str], what: str) -> str:
    """Return a message with the first problems and the number of all; ``what`` is what one of them is called."""
    more = f"; and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
    return f"{counted(len(problems), what)}: " + "; ".join(problems[:_SHOWN]) + more


def target_of(document: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the group and the kind that a document is about; None if it does not say."""
    spec = document.get("spec")
    target = spec.get("target") if isinstance(spec, dict) else None
    if not isinstance(target, dict):
        return None
    group, kind = target.get("group"), target.get("kind")
    return (group, kind) if isinstance(group, str) and isinstance(kind, str) else None
