"""What can go wrong, as one small tree; every error is a finished sentence and never shows a value of an object.

ConversionError
├── DefinitionError      the declarations themselves: raised by ``Registry.freeze``, with every diagnostic at once
├── ReviewError          the body is no ConversionReview that could be answered (HTTP 400)
└── ObjectError          one object cannot be converted; the others can
    ├── UnknownKind      no kind of that name was registered
    ├── UnknownVersion   the kind has no such version
    └── RuleFailed       an author's function raised, or returned what it had not declared
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "ConversionError",
    "DefinitionError",
    "Diagnostic",
    "NotAnswering",
    "ObjectError",
    "ReviewError",
    "RuleFailed",
    "UnknownKind",
    "UnknownVersion",
    "WiringError",
    "WiringRefused",
]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One defect of a declaration: in which version, at which path, what is wrong, and what to write instead.

    ``path`` is written as ``restow.crds`` writes places (``.spec.versions[].name``); ``.`` where no field is meant.
    """

    kind: str
    version: str
    path: str
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.kind} {self.version} {self.path}: {self.problem}. {self.fix}."


class ConversionError(Exception):
    """Root of everything that this room raises on purpose."""


class DefinitionError(ConversionError):
    """The registry cannot be frozen. ``diagnostics`` has every defect that was found."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        count = len(self.diagnostics)
        head = "1 defect" if count == 1 else f"{count} defects"
        super().__init__("\n".join((f"the conversions have {head}:", *(f"- {each}" for each in self.diagnostics))))


class ReviewError(ConversionError):
    """The bytes are no ConversionReview; there is no uid to answer to."""


class ObjectError(ConversionError):
    """One object cannot be converted.

    ``version`` is the apiVersion it was to be read at, ``pointer`` the JSON pointer (RFC 6901) of the place, empty
    for the whole object. ``reason`` is the sentence without the place.
    """

    def __init__(self, reason: str, *, version: str = "", pointer: str = "") -> None:
        self.reason = reason
        self.version = version
        self.pointer = pointer
        super().__init__(reason)

    def __str__(self) -> str:
        return f"{self.pointer}: {self.reason}" if self.pointer else self.reason


class UnknownKind(ObjectError):
    """No kind of this name was registered."""


class UnknownVersion(ObjectError):
    """The kind has no such version."""


class RuleFailed(ObjectError):
    """An author's function raised, or returned what it had not declared. ``rule`` says which one."""

    def __init__(self, reason: str, *, rule: str, version: str = "", pointer: str = "") -> None:
        self.rule = rule
        super().__init__(reason, version=version, pointer=pointer)

    def under(self, pointer: str) -> RuleFailed:
        """Return the same error with its place below ``pointer``; what is wrong stays as it was said."""
        error = RuleFailed(self.reason, rule=self.rule, version=self.version, pointer=pointer + self.pointer)
        error.__cause__ = self.__cause__
        return error


class WiringError(Exception):
    """Base of what this package raises on purpose."""


class WiringRefused(WiringError):
    """The CRD must not, or cannot, be written so."""


class NotAnswering(WiringError):
    """The webhook gave no answer, or none that an API server would accept."""
