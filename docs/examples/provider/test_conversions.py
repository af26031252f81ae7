"""The whole test of the conversions: every law, over objects made from the CRDs; and recorded reviews."""

from __future__ import annotations

from pathlib import Path

import pytest

from restow.conversion.testing import check_golden, golden_reviews, roundtrip_suite

from .conversions import CRDS, graph

CACHES, GATEWAYS = CRDS

TestGateway = roundtrip_suite(graph, GATEWAYS)
TestCache = roundtrip_suite(graph, CACHES)


@pytest.mark.parametrize("review", golden_reviews(Path(__file__).parent / "reviews"), ids=lambda path: path.stem)
def test_recorded_reviews(review: Path) -> None:
    """A recorded request still gets the recorded answer."""
    check_golden(graph, review)
