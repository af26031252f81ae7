"""All cases, in the order of a report."""

from __future__ import annotations

from restow.conversion.testing.conformance import envelope, laws, objects, partial, refusals, transport
from restow.conversion.testing.conformance.case import Case

__all__ = ["CASES"]

CASES: tuple[Case, ...] = (
    *envelope.CASES,
    *objects.CASES,
    *partial.CASES,
    *laws.CASES,
    *refusals.CASES,
    *transport.CASES,
)
