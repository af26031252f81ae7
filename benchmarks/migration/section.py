"""The type of a section of the benchmark."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from benchmarks.migration.course import Course, Herd, Plan
from benchmarks.tables import Result

__all__ = ["Section"]


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the benchmark: the objects that it needs, and the measurement on them."""

    herds: Callable[[Plan], Sequence[Herd]]
    measure: Callable[[Course], Awaitable[Result]]
