"""What a run found, as data, as a table for people, and as JSON for programs.

Pure.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from restow.conversion.testing.conformance.case import Case, Severity

__all__ = ["Finding", "Outcome", "Report"]

_WIDTH = 112


class Outcome(StrEnum):
    """How a case ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One case and how it ended; ``message`` says why where it did not pass."""

    case: Case
    outcome: Outcome
    message: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """All findings, in the order of the cases."""

    url: str
    kind: str
    findings: tuple[Finding, ...]

    @property
    def conformant(self) -> bool:
        """Whether no case failed that the webhook must pass."""
        return not self.failed(Severity.MUST)

    def failed(self, severity: Severity | None = None) -> tuple[str, ...]:
        """Return the names of the cases that failed, of one severity or all."""
        return tuple(
            finding.case.name
            for finding in self.findings
            if finding.outcome is Outcome.FAILED and severity in (None, finding.case.severity)
        )

    def count(self, outcome: Outcome) -> int:
        """How many cases ended so."""
        return sum(finding.outcome is outcome for finding in self.findings)

    @property
    def summary(self) -> str:
        """One line."""
        must, should = len(self.failed(Severity.MUST)), len(self.failed(Severity.SHOULD))
        verdict = "conformant" if self.conformant else "not conformant"
        counts = f"{self.count(Outcome.PASSED)} passed, {self.count(Outcome.SKIPPED)} skipped"
        return f"{self.kind} at {self.url}: {verdict} ({must} must and {should} should failed, {counts})"

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "url": self.url,
            "kind": self.kind,
            "conformant": self.conformant,
            "cases": [
                {
                    "name": finding.case.name,
                    "severity": finding.case.severity.value,
                    "outcome": finding.outcome.value,
                    "message": finding.message,
                    "what": finding.case.what,
                    "why": finding.case.why,
                    "source": finding.case.source,
                }
                for finding in self.findings
            ],
        }

    def table(self) -> str:
        """Return the report as text: a line for each case, and below those that did not pass, why and what it means."""
        return "\n".join((*self._lines(), "", self.summary))

    def _lines(self) -> Iterator[str]:
        longest = max((len(finding.case.name) for finding in self.findings), default=0)
        for finding in self.findings:
            yield f"{finding.outcome:8}{finding.case.severity:8}{finding.case.name:{longest}}  {_brief(finding)}"
            if finding.outcome is Outcome.FAILED:
                for label, text in (("seen", finding.message), ("else", finding.case.why)):
                    yield from textwrap.wrap(
                        f"{label}: {text}", _WIDTH, initial_indent=" " * 16, subsequent_indent=" " * 22
                    )


def _brief(finding: Finding) -> str:
    return f"({finding.message})" if finding.outcome is Outcome.SKIPPED else finding.case.what
