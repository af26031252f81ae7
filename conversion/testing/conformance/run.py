"""Runs all cases against a webhook in sequence, and reports the results as data, as a table and as JSON.

Only the case that waits (keep-alive) runs concurrently with the others.
"""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from restow.conversion.certificates.probe import WebhookClient
from restow.conversion.certificates.wiring.clientconfig import Bundle, Url
from restow.conversion.model.errors import NotAnswering
from restow.conversion.reviews.responsechecks import ResponseRejected
from restow.conversion.testing.conformance import envelope, laws, objects, refusals
from restow.conversion.testing.conformance.case import Case, NotConformant, Severity, Skipped, WebhookUnderTest
from restow.conversion.testing.conformance.envelope import answers
from restow.conversion.testing.conformance.refusals import keep_alive
from restow.conversion.testing.conformance.samples import Samples

#: All cases, in the order of the report.
CASES: tuple[Case, ...] = tuple(
    case for module in (envelope, objects, laws, refusals) for case in vars(module).values() if isinstance(case, Case)
)

_WIDTH = 112


class CaseOutcome(StrEnum):
    """The outcome of a case."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case and its outcome; ``message`` says why it did not pass."""

    case: Case
    outcome: CaseOutcome
    message: str = ""


@dataclass(frozen=True, slots=True)
class ConformanceReport:
    """All results, in the order of the cases."""

    url: str
    kind: str
    findings: tuple[CaseResult, ...]

    @property
    def conformant(self) -> bool:
        """Whether all cases passed that the webhook must pass."""
        return not self.failed(Severity.MUST)

    def failed(self, severity: Severity | None = None) -> tuple[str, ...]:
        """Return the names of the failed cases, of one severity or all."""
        return tuple(
            finding.case.name
            for finding in self.findings
            if finding.outcome is CaseOutcome.FAILED and severity in (None, finding.case.severity)
        )

    def count(self, outcome: CaseOutcome) -> int:
        """The number of cases with this outcome."""
        return sum(finding.outcome is outcome for finding in self.findings)

    @property
    def summary(self) -> str:
        """A summary of the report on one line."""
        must, should = len(self.failed(Severity.MUST)), len(self.failed(Severity.SHOULD))
        verdict = "conformant" if self.conformant else "not conformant"
        counts = f"{self.count(CaseOutcome.PASSED)} passed, {self.count(CaseOutcome.SKIPPED)} skipped"
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
        """Return the report as text: a line per case, and for each that did not pass the reason and the consequence."""
        return "\n".join((*self._lines(), "", self.summary))

    def _lines(self) -> Iterator[str]:
        longest = max((len(finding.case.name) for finding in self.findings), default=0)
        for finding in self.findings:
            yield f"{finding.outcome:8}{finding.case.severity:8}{finding.case.name:{longest}}  {_brief(finding)}"
            if finding.outcome is CaseOutcome.FAILED:
                for label, text in (("seen", finding.message), ("else", finding.case.why)):
                    yield from textwrap.wrap(
                        f"{label}: {text}", _WIDTH, initial_indent=" " * 16, subsequent_indent=" " * 22
                    )


def _brief(finding: CaseResult) -> str:
    return f"({finding.message})" if finding.outcome is CaseOutcome.SKIPPED else finding.case.what


#: For how many seconds a connection is left idle: longer than the defaults of servers that close early.
IDLE_S: Final = 6.0


async def run(
    url: str,
    ca: bytes,
    samples: Samples,
    *,
    cases: Sequence[Case] = CASES,
    idle_s: float = IDLE_S,
    connect_to: tuple[str, int] | None = None,
) -> ConformanceReport:
    """Run cases against a webhook.

    Args:
        url: the webhook's URL, as an API server would call it.
        ca: the CA bundle (PEM) that verifies its certificate; empty for the system's roots.
        samples: the kind, and objects of it.
        cases: the cases to run; if the webhook does not answer at all, only the first is reported.
        idle_s: seconds that the keep-alive case waits; an API server would need more than 90.
        connect_to: (host, port) to connect to instead of the URL's.

    Raises:
        ValueError: a CRD could not have the URL: it is not https, or has a query, fragment or user.
        BundleError: ``ca`` is not PEM, or has no certificate.
    """
    address = Url(url)
    async with WebhookClient(address, Bundle.from_pem(ca), connect_to=connect_to) as caller:
        webhook = WebhookUnderTest(caller, samples, idle_s=idle_s)
        gate = await _run(answers, webhook)
        if gate.outcome is CaseOutcome.FAILED:
            rest = [_not_run(case) for case in cases if case is not answers]
            return ConformanceReport(url, samples.crd.kind, (gate, *rest))
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(_run(keep_alive, webhook)) if keep_alive in cases else None
            found = {case: await _run(case, webhook) for case in cases if case not in (answers, keep_alive)}
    found[answers] = gate
    if waiting is not None:
        found[keep_alive] = waiting.result()
    return ConformanceReport(url, samples.crd.kind, tuple(found[case] for case in cases))


async def check(case: Case, url: str, ca: bytes, samples: Samples, *, idle_s: float = IDLE_S) -> None:
    """Run one case, as a test of its own.

    ::

        @pytest.mark.parametrize("case", CASES, ids=str)
        async def test_conformance(case):
            await check(case, URL, CA, SAMPLES)

    Raises:
        NotConformant: the webhook does not do what the case requires; the message says what it did.
        Skipped: the case does not apply to this kind.
    """
    report = await run(url, ca, samples, cases=[case], idle_s=idle_s)
    for finding in report.findings:
        if finding.outcome is CaseOutcome.FAILED:
            raise NotConformant(f"{finding.case}: {finding.message}")
        if finding.outcome is CaseOutcome.SKIPPED:
            raise Skipped(finding.message)


async def _run(case: Case, webhook: WebhookUnderTest) -> CaseResult:
    try:
        await case.check(webhook)
    except Skipped as reason:
        return CaseResult(case, CaseOutcome.SKIPPED, str(reason))
    except (NotConformant, NotAnswering, ResponseRejected) as error:
        return CaseResult(case, CaseOutcome.FAILED, str(error))
    except (AttributeError, KeyError, IndexError, TypeError) as error:  # the answer has an unexpected form
        return CaseResult(case, CaseOutcome.FAILED, f"the answer has fields of other types than a review ({error!r})")
    return CaseResult(case, CaseOutcome.PASSED)


def _not_run(case: Case) -> CaseResult:
    return CaseResult(case, CaseOutcome.SKIPPED, "the webhook does not answer")
