"""A case: one thing that an API server needs of a conversion webhook, and how to find out. Data, but for the check."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum

from restow.conversion.testing.conformance.webhook import Webhook

__all__ = ["Case", "NotConformant", "Severity", "Skipped"]


class Severity(StrEnum):
    """What it means if a case fails."""

    MUST = "must"
    """Requests of clients fail, or data is lost."""

    SHOULD = "should"
    """An API server does not do this today, or it costs only clarity."""


class NotConformant(AssertionError):
    """The webhook does not do what a case asks for; the message says what it did instead, without values."""


class Skipped(Exception):
    """The case does not apply to this kind; the message says why."""


@dataclass(frozen=True, slots=True)
class Case:
    """One case.

    Attributes:
        name: short, unique, with hyphens.
        severity: MUST or SHOULD.
        what: what the webhook does, if all is well.
        why: what happens otherwise.
        source: where that is written: code of the API server, an issue, a KEP.
        check: asks the webhook; raises NotConformant, or Skipped.
    """

    name: str
    severity: Severity
    what: str
    why: str
    source: str
    check: Callable[[Webhook], Awaitable[None]] = field(repr=False, compare=False)

    def __str__(self) -> str:
        return self.name
