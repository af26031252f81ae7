"""``restow serve`` and the example provider, asked everything that an API server asks."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from restow.conversion.testing.conformance import CaseOutcome, Samples, Severity, run
from restow.crds import Crd
from tests.apiserver.provider import CACHES, GATEWAYS, manifest
from tests.apiserver.serving import certified, serving

#: What conversions.py says is lost: ``rules.drop("spec.debug", acknowledge=…)``.
ACKNOWLEDGED = {GATEWAYS: {"v1alpha1": (".spec.debug",)}, CACHES: {}}


@pytest.mark.parametrize("name", [GATEWAYS, CACHES])
async def test_the_restow_server_is_conformant(name: str, tmp_path: Path) -> None:
    """A webhook that its own conformance suite refuses is none to be had."""
    bundle = certified(tmp_path)
    samples = Samples(Crd.from_document(manifest(name)), acknowledged=ACKNOWLEDGED[name])
    async with serving(tmp_path) as instance:
        url = f"https://127.0.0.1:{instance.port}/convert/{name}"
        report = await run(url, bundle.pem, samples, idle_s=2.0)
    assert report.conformant, report.table()
    assert not report.failed(Severity.SHOULD), report.table()
    assert report.count(CaseOutcome.SKIPPED) <= 2, yaml.safe_dump(report.to_json())
