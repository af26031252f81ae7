"""Runs the cases against a webhook, one after the other; only the one that waits is run beside them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from restow.conversion.testing.conformance.case import Case, NotConformant, Skipped
from restow.conversion.testing.conformance.cases import CASES
from restow.conversion.testing.conformance.envelope import GATE
from restow.conversion.testing.conformance.report import Finding, Outcome, Report
from restow.conversion.testing.conformance.samples import Samples
from restow.conversion.testing.conformance.transport import KEEP_ALIVE
from restow.conversion.testing.conformance.webhook import Webhook
from restow.conversion.wiring.acceptance import Rejected
from restow.conversion.wiring.address import Url
from restow.conversion.wiring.bundle import Bundle
from restow.conversion.wiring.caller import Caller
from restow.conversion.wiring.errors import NotAnswering

__all__ = ["IDLE_S", "check", "run"]

#: Seconds for which a connection is left idle: longer than the defaults of servers that close early.
IDLE_S: Final = 6.0


async def run(
    url: str,
    ca: bytes,
    samples: Samples,
    *,
    cases: Sequence[Case] = CASES,
    idle_s: float = IDLE_S,
    connect_to: tuple[str, int] | None = None,
) -> Report:
    """Run cases against a webhook.

    Args:
        url: the webhook's, as an API server would call it.
        ca: the CA bundle (PEM) by which its certificate verifies; empty for the system's roots.
        samples: the kind, and objects of it.
        cases: which ones; where the webhook does not answer at all, only the first is told.
        idle_s: seconds that the keep-alive case waits; more than 90 is what an API server would need.
        connect_to: (host, port) to connect to instead of the URL's.

    Raises:
        ValueError: it is given a URL that no CRD could have.
        BundleError: it is given a malformed bundle.
    """
    address = Url(url)
    async with Caller(address, Bundle.from_pem(ca), connect_to=connect_to) as caller:
        webhook = Webhook(caller, samples, idle_s=idle_s)
        gate = await _run(GATE, webhook)
        if gate.outcome is Outcome.FAILED:
            rest = [_not_run(case) for case in cases if case is not GATE]
            return Report(url, samples.crd.kind, (gate, *rest))
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(_run(KEEP_ALIVE, webhook)) if KEEP_ALIVE in cases else None
            found = {case: await _run(case, webhook) for case in cases if case not in (GATE, KEEP_ALIVE)}
    found[GATE] = gate
    if waiting is not None:
        found[KEEP_ALIVE] = waiting.result()
    return Report(url, samples.crd.kind, tuple(found[case] for case in cases))


async def check(case: Case, url: str, ca: bytes, samples: Samples, *, idle_s: float = IDLE_S) -> None:
    """Run one case, as a test of its own.

    ::

        @pytest.mark.parametrize("case", CASES, ids=str)
        async def test_conformance(case):
            await check(case, URL, CA, SAMPLES)

    Raises:
        NotConformant: the webhook does not conform.
        Skipped: the case does not apply.
    """
    report = await run(url, ca, samples, cases=[case], idle_s=idle_s)
    for finding in report.findings:
        if finding.outcome is Outcome.FAILED:
            raise NotConformant(f"{finding.case}: {finding.message}")
        if finding.outcome is Outcome.SKIPPED:
            raise Skipped(finding.message)


async def _run(case: Case, webhook: Webhook) -> Finding:
    try:
        await case.check(webhook)
    except Skipped as reason:
        return Finding(case, Outcome.SKIPPED, str(reason))
    except (NotConformant, NotAnswering, Rejected) as error:
        return Finding(case, Outcome.FAILED, str(error))
    except (AttributeError, KeyError, IndexError, TypeError) as error:  # of an answer that is nothing like one
        return Finding(case, Outcome.FAILED, f"the answer has fields of other types than a review ({error!r})")
    return Finding(case, Outcome.PASSED)


def _not_run(case: Case) -> Finding:
    return Finding(case, Outcome.SKIPPED, "the webhook does not answer")
