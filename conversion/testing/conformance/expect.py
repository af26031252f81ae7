"""How a case says what it saw."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from restow.conversion.testing.conformance.case import NotConformant
from restow.conversion.wiring.acceptance import Rejected

__all__ = ["asked", "expect"]


def expect(condition: object, message: str) -> None:
    """Raise NotConformant with the message unless the condition holds."""
    if not condition:
        raise NotConformant(message)


@contextmanager
def asked(what: str) -> Iterator[None]:
    """Turn what the API server would say into a finding: ``what`` was sent."""
    try:
        yield
    except Rejected as error:
        raise NotConformant(f"{what}: {error}") from error
