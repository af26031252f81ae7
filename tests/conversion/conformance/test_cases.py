"""The runner against a webhook without restow: it passes what is good, and names what is broken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from restow.conversion.testing.conformance import CASES, Case, CaseOutcome, ConformanceReport, Samples, run
from tests.conversion.conformance.breakages import BREAKAGES, GOOD, Webhook
from tests.conversion.conformance.server import served
from tests.conversion.conformance.widgets import crd

SAMPLES = Samples(crd(), count=6)
IDLE_S = 0.3


async def report(webhook: Webhook, folder: Path, cases: Sequence[Case] = CASES) -> ConformanceReport:
    """Serve a webhook and run cases."""
    async with served(webhook, folder, **webhook.options) as running:
        return await run(running.url, running.ca, SAMPLES, cases=cases, idle_s=IDLE_S)


async def test_a_good_webhook_passes_every_case(tmp_path: Path) -> None:
    """A case that a good webhook fails asks for something that API servers do not."""
    found = await report(GOOD, tmp_path)
    assert found.conformant and not found.failed(), found.table()
    assert found.count(CaseOutcome.PASSED) == len(CASES)


@pytest.mark.parametrize("name", [case.name for case in CASES])
async def test_a_broken_webhook_is_named(name: str, tmp_path: Path) -> None:
    """A case that never fails finds nothing; one that fails for another's defect leads astray."""
    broken = BREAKAGES[name]
    cases = [case for case in CASES if case.name != "big-review" or name in ("big-object", "big-review")]
    found = await report(broken.webhook, tmp_path, cases)
    assert set(found.failed()) == {name, *broken.also}, found.table()


async def test_a_connection_that_is_closed_while_idle_is_found(tmp_path: Path) -> None:
    """Nothing announces it: the API server's next request just ends with EOF."""
    hasty = replace(GOOD, options={"keepalive_timeout": 0.05})
    found = await report(hasty, tmp_path, [case for case in CASES if case.name == "keep-alive"])
    assert found.failed() == ("keep-alive",)


def test_every_case_has_a_name_of_its_own() -> None:
    """Two cases of one name could not be told apart, nor broken apart."""
    assert len({case.name for case in CASES}) == len(CASES) == len(BREAKAGES)
