"""The configuration file of crdify, for projects that have one: which of its checks count, and how much.

``enforcement: Error`` leaves the verdict to restow, ``Warn`` makes it a notice at most, and ``None`` leaves the finding
out. A check that only restow has counts as unhandled, because crdify calls its changes so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from restow.cli.exits import InputError
from restow.cli.files import documents_of
from restow.crds.crddiff import CrdFinding
from restow.crds.schemachanges import ChangeVerdict
from restow.kube.suggestions import did_you_mean


class Enforcement(StrEnum):
    """How much a check counts."""

    ERROR = "Error"
    WARN = "Warn"
    NONE = "None"


_BOUNDS: Final = (
    "maximum",
    "minimum",
    "maxItems",
    "minItems",
    "maxLength",
    "minLength",
    "maxProperties",
    "minProperties",
)

_CHECKS: Final[Mapping[str, frozenset[str]]] = {
    "existingFieldRemoval": frozenset({"field-removed"}),
    "scope": frozenset({"scope"}),
    "storedVersionRemoval": frozenset({"stored-version-removed"}),
    "enum": frozenset({"enum", "enum-widened"}),
    "default": frozenset({"default", "default-removed", "default-added"}),
    "required": frozenset({"required", "required-with-default", "required-dropped"}),
    "type": frozenset({"type", "type-widened"}),
    "description": frozenset(),
    **dict.fromkeys(_BOUNDS, frozenset({"bound", "bound-widened"})),
}
_UNHANDLED: Final = frozenset(
    {
        *("fields-closed", "nullable-removed", "nullable-added", "pattern", "format", "list-type", "map-type"),
        *("embedded", "cel", "junctor"),
    }
)
_BETWEEN: Final = frozenset({"conversion-unjudged"})


@dataclass(frozen=True, slots=True)
class CrdifyConfig:
    """A configuration.

    Attributes:
        validations: the enforcement by the name of crdify's validation.
        unhandled: the enforcement of changes that no validation of crdify knows.
        ignores_conversion: whether versions between which a webhook converts are not compared.
        refuses_additions: whether a new value of an enum is breaking.
    """

    validations: Mapping[str, Enforcement] = field(default_factory=dict)
    unhandled: Enforcement = Enforcement.ERROR
    ignores_conversion: bool = False
    refuses_additions: bool = False

    def judged(self, found: Iterable[CrdFinding]) -> Iterator[CrdFinding]:
        """Yield the findings that count, as much as they count."""
        for each in found:
            enforcement = self._enforcement(each)
            if enforcement is Enforcement.NONE or (self.ignores_conversion and each.check in _BETWEEN):
                continue
            severity = each.severity
            if each.check == "enum-widened" and self.refuses_additions:
                severity = ChangeVerdict.BREAKING
            if enforcement is Enforcement.WARN and severity is ChangeVerdict.BREAKING:
                severity = ChangeVerdict.NOTICE
            yield replace(each, severity=severity)

    def _enforcement(self, found: CrdFinding) -> Enforcement:
        if found.check in _UNHANDLED:
            return self.unhandled
        for name, checks in _CHECKS.items():
            if found.check in checks and (name not in _BOUNDS or found.what.split(" ", 1)[0] == name):
                return self.validations.get(name, Enforcement.ERROR)
        return Enforcement.ERROR


def read_config(path: Path) -> CrdifyConfig:
    """Read a configuration file.

    Raises:
        InputError: the file cannot be read, or crdify would refuse it.
    """
    documents = documents_of(path)
    data = documents[0].data if documents else {}
    if not isinstance(data, Mapping):
        raise InputError(f"{path} is no configuration of crdify: it must be an object")
    validations: dict[str, Enforcement] = {}
    refuses_additions = False
    for each in data.get("validations") or ():
        name = str(each.get("name") or "") if isinstance(each, Mapping) else ""
        if name not in _CHECKS:
            advice = did_you_mean(name, [*_CHECKS]) or f"it has {', '.join(_CHECKS)}"
            raise InputError(f"{path}: crdify has no validation {name!r}: {advice}")
        validations[name] = _enforcement(path, each.get("enforcement"))
        policy = (each.get("configuration") or {}).get("additionPolicy")
        refuses_additions = refuses_additions or (name == "enum" and policy == "Disallow")
    unhandled = _enforcement(path, data.get("unhandledEnforcement") or "Error")
    conversion = _one_of(path, "conversion", data.get("conversion") or "None", ("None", "Ignore"))
    return CrdifyConfig(validations, unhandled, conversion == "Ignore", refuses_additions)


def _enforcement(path: Path, value: Any) -> Enforcement:
    return Enforcement(_one_of(path, "enforcement", value, [each.value for each in Enforcement]))


def _one_of(path: Path, key: str, value: Any, values: Iterable[str]) -> str:
    if value not in values:
        raise InputError(f"{path}: {key} must be {' or '.join(values)}")
    return str(value)
