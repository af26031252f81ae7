"""The errors of conversion and wiring. Every message is a complete sentence and never shows a value of an object.

ConversionError
├── DefinitionError      defective declarations: raised by ``Registry.freeze``, with every diagnostic at once
├── ReviewError          the body is no ConversionReview that could be answered (HTTP 400)
└── ObjectError          one object cannot be converted; the others can
    ├── UnknownKind      no kind of that name was registered
    ├── UnknownVersion   the kind has no such version
    ├── ValueBeyondLimits  an expression cannot take a value, whatever its rule says: the value is kept as it is
    └── RuleFailed       an author's function raised, or returned a field that it had not declared

With ``on_error="keep"`` a RuleFailed is not raised: the value is kept as it is. ``kept_values`` collects these errors
for a caller that reports them. They are not part of the result, so a conversion remains a function of its object.
"""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from traceback import walk_tb
from typing import Final

#: The folder of restow's own conversion code; its frames are not an author's.
_OWN: Final = __file__.removesuffix("model/errors.py")
_LIBRARY: Final = f"{sysconfig.get_path('stdlib')}/"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A defect of a declaration: its version and path, the problem, and the remedy.

    ``path`` is written as ``restow.crds`` writes places (``.spec.versions[].name``); ``.`` if no field is meant.
    """

    kind: str
    version: str
    path: str
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{self.kind} {self.version} {self.path}: {self.problem}. {self.fix}."


def raised_at(error: BaseException | None) -> str:
    """Return ``file:line`` of the innermost frame of an author's code: neither Python's library nor restow.

    Empty if there is none.
    """
    frames = [] if error is None else [*walk_tb(error.__traceback__)]
    for frame, line in reversed(frames):
        file = frame.f_code.co_filename
        if not file.startswith(("<", _OWN)) and (not file.startswith(_LIBRARY) or "site-packages" in file):
            return f"{file}:{line}"
    return ""


class ConversionError(Exception):
    """Base class of the errors of conversion."""


class DefinitionError(ConversionError):
    """The registry cannot be frozen. ``diagnostics`` lists every defect."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        count = len(self.diagnostics)
        head = "1 defect" if count == 1 else f"{count} defects"
        super().__init__("\n".join((f"the conversions have {head}:", *(f"- {each}" for each in self.diagnostics))))


class ReviewError(ConversionError):
    """The bytes are not a ConversionReview, so there is no uid to answer."""


class ObjectError(ConversionError):
    """One object cannot be converted.

    ``version`` is the apiVersion at which the object was read, ``pointer`` the JSON pointer (RFC 6901) of the place,
    empty for the whole object. ``reason`` is the sentence without the place.
    """

    def __init__(self, reason: str, *, version: str = "", pointer: str = "") -> None:
        self.reason = reason
        self.version = version
        self.pointer = pointer
        super().__init__(reason)

    def __str__(self) -> str:
        return f"{self.pointer}: {self.reason}" if self.pointer else self.reason

    @property
    def with_line(self) -> str:
        """The message for authors: with the rule, and the line of their function that raised."""
        return str(self)


class UnknownKind(ObjectError):
    """No kind of this name was registered."""


class UnknownVersion(ObjectError):
    """The kind has no such version."""


class ValueBeyondLimits(ObjectError):
    """An expression cannot take a value: CEL does not have it, or it would cost too much."""


class RuleFailed(ObjectError):
    """An author's function raised, or returned a field that it did not declare. ``rule`` names the rule.

    ``unasked``: the value was kept although the rule does not ask for it, because it is beyond the limits.
    """

    def __init__(self, reason: str, *, rule: str, version: str = "", pointer: str = "", unasked: bool = False) -> None:
        self.rule = rule
        self.unasked = unasked
        super().__init__(reason, version=version, pointer=pointer)

    @property
    def with_line(self) -> str:
        """The message for authors. It never includes the function's own message, which may hold values of an object."""
        rule = "" if self.rule in self.reason else f" ({self.rule})"
        line = raised_at(self.__cause__)
        return f"{self}{rule}{f' at {line}' if line else ''}"

    def under(self, pointer: str) -> RuleFailed:
        """Return the same error with its place below ``pointer``; the reason does not change."""
        error = RuleFailed(self.reason, rule=self.rule, version=self.version, pointer=pointer + self.pointer)
        error.__cause__ = self.__cause__
        return error


class WiringError(Exception):
    """Base class of the errors of ``restow.conversion.certificates``."""


class WiringRefused(WiringError):
    """The CRD or webhook configuration must not be written: the message says why."""


class NotAnswering(WiringError):
    """The webhook did not answer, or an API server would reject its answer."""


@dataclass(frozen=True, slots=True)
class WiringProblem:
    """Why this process could not wire an object at its last look.

    Attributes:
        name: the name of the object itself.
        said: what happened to which object, a sentence.
        lacks_right: whether the API server's authorizer refused a request, so that the process lacks a right.
    """

    name: str
    said: str
    lacks_right: bool = False


_COLLECTED: Final[ContextVar[list[RuleFailed] | None]] = ContextVar("kept values", default=None)


def note_kept(failed: RuleFailed) -> None:
    """Report a value that was kept because its rule failed; does nothing unless ``kept_values`` collects."""
    collected = _COLLECTED.get()
    if collected is not None:
        collected.append(failed)


@contextmanager
def kept_values() -> Iterator[list[RuleFailed]]:
    """Collect the values that conversions inside of the block keep: the rule, the place and the reason of each."""
    found: list[RuleFailed] = []
    token = _COLLECTED.set(found)
    try:
        yield found
    finally:
        _COLLECTED.reset(token)
