"""Claims: figures, their bounds, and whether they hold. Pure."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Claim", "at_least", "at_most", "exactly"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A figure, its bound, and whether it holds."""

    claim: str
    figure: float
    wanted: str
    holds: bool


def at_least(claim: str, figure: float, bound: float) -> Claim:
    """Claim that a figure reaches a bound."""
    return Claim(claim=claim, figure=figure, wanted=f"≥ {bound:g}", holds=figure >= bound)


def at_most(claim: str, figure: float, bound: float) -> Claim:
    """Claim that a figure stays within a bound."""
    return Claim(claim=claim, figure=figure, wanted=f"≤ {bound:g}", holds=figure <= bound)


def exactly(claim: str, figure: float, value: float) -> Claim:
    """Claim that a count per object, rounded to two digits, is a value."""
    return Claim(claim=claim, figure=figure, wanted=f"{value:.2f}", holds=round(figure, 2) == value)
