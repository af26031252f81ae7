"""Quantities like ``500m``, ``16Gi`` or ``1e3``: only what validation has to know of them. Pure.

The grammar is that of apimachinery's resource.Quantity; JSON numbers are quantities too.
"""

from __future__ import annotations

import re

__all__ = ["quantity_fault"]

_QUANTITY = re.compile(
    r"(?P<sign>[+-]?)(?P<number>\d+\.?\d*|\.\d+)(?:[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?", flags=re.ASCII
)


def quantity_fault(value: object) -> str:
    """Return what is wrong with a quantity that has to be 0 or more, or an empty string."""
    match = None if isinstance(value, bool) else _QUANTITY.fullmatch(str(value))
    if match is None:
        return "must be a quantity like 2, 500m or 16Gi"
    if match["sign"] == "-" and match["number"].strip("0."):
        return "must be greater than or equal to 0"
    return ""
