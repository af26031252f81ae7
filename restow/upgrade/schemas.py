"""What schemas and conversion rules say about an upgrade, for each CRD of two sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from restow.cli.exits import InputError
from restow.cli.registries import ConversionSource
from restow.conversion import DefinitionError, Diagnostic
from restow.conversion.definition.bounds import narrowed_bounds
from restow.crds import Crd
from restow.crds.crddiff import CrdFinding, crd_findings
from restow.crds.schemachanges import ChangeVerdict

Judged: TypeAlias = dict[str, tuple[CrdFinding, ...]]
"""The findings by the name of the CRD."""


@dataclass(frozen=True, slots=True)
class UpgradeVerdict:
    """The findings, and whether a migration has work after the change."""

    findings: Judged
    due: bool = False


def judge_schemas(
    old: Mapping[str, Crd], new: Mapping[str, Crd], source: ConversionSource | None, *, part: bool = False
) -> Judged:
    """Return the findings by CRD; with ``part``, a CRD that one side lacks is not judged as gone."""
    known_kinds = source.graph().kinds if source is not None and old.keys() & new.keys() else {}
    judged: Judged = {}
    for name in sorted({**old, **new}):
        before, after = old.get(name), new.get(name)
        if before is None:
            judged[name] = (CrdFinding(name, "", "crd-added", ChangeVerdict.OK, "-", "CRD is new"),)
        elif after is None:
            if not part:
                judged[name] = (CrdFinding(name, "", "crd-removed", ChangeVerdict.BREAKING, "-", "CRD is gone"),)
        elif source is None or (after.group, after.kind) not in known_kinds:
            judged[name] = crd_findings(before, after)
        else:
            known = set(_by_rules(source, before))
            through = (finding for finding in _by_rules(source, joined(before, after)) if finding not in known)
            judged[name] = (*crd_findings(before, after, judged=True), *through)
    return judged


def joined(before: Crd, after: Crd) -> Crd:
    """Return the new CRD with the versions that it removes, as the rules convert them still."""
    return replace(
        after, versions=(*after.versions, *(each for each in before.versions if not after.version(each.name)))
    )


def _by_rules(source: ConversionSource, crd: Crd) -> Iterator[CrdFinding]:
    """Yield what ``restow check`` finds wrong with the rules for a CRD, or bounds that they pass."""
    try:
        graph = source.graph([crd])
    except InputError as error:
        if not isinstance(error.__cause__, DefinitionError):
            raise
        for each in error.__cause__.diagnostics:
            yield _diagnosed(source, crd, "conversion-rules", ChangeVerdict.BREAKING, each)
    else:
        for each in narrowed_bounds(graph.kind(crd.group, crd.kind)):
            yield _diagnosed(source, crd, "conversion-bounds", ChangeVerdict.NOTICE, each)


def _diagnosed(
    source: ConversionSource, crd: Crd, check: str, severity: ChangeVerdict, found: Diagnostic
) -> CrdFinding:
    fix = source.phrased(found.fix)
    return CrdFinding(crd.name, found.version or "", check, severity, found.path, found.problem, fix)
