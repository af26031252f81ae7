"""What scalars mean: as kubectl reads them, so that a conversion sees what a webhook would have seen."""

from __future__ import annotations

from typing import Any

import pytest

from restow.conversion.model.values import same
from restow.crds.scalars import NotRepresentable, resolve

# From go-yaml v2's resolve.go, and Go's encoding of numbers as JSON.
PLAIN: dict[str, Any] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "nULL": "nULL",
    "y": True,
    "on": True,
    "Yes": True,
    "N": False,
    "off": False,
    "True": True,
    "tRUE": "tRUE",
    "yeah": "yeah",
    "0": 0,
    "-0": 0,
    "007": 7,
    "0777": 511,
    "0o17": 15,
    "089": 89,
    "0x1F": 31,
    "-0x1f": -31,
    "0b101": 5,
    "+12": 12,
    "1_000": 1000,
    "9223372036854775807": 2**63 - 1,
    "18446744073709551615": 2**64 - 1,
    "18446744073709551616": 18446744073709551616.0,
    "1.5": 1.5,
    "1.0": 1,
    "1.": 1,
    ".5": 0.5,
    "-.5": -0.5,
    "1e3": 1000,
    "1E-2": 0.01,
    "1e999": "1e999",
    "1e": "1e",
    "._5": "._5",
    ".": ".",
    "-": "-",
    "+": "+",
    "1:30": "1:30",
    "2026-01-01": "2026-01-01",
    "2026-01-01T00:00:00Z": "2026-01-01T00:00:00Z",
    "20260101": 20260101,
    "1.2.3": "1.2.3",
    "v1": "v1",
    "=": "=",
    "0x": "0x",
    "0b2": "0b2",
    "_1": "_1",
}


@pytest.mark.parametrize(("text", "value"), PLAIN.items(), ids=lambda part: repr(part)[:20])
def test_plain_scalars(text: str, value: Any) -> None:
    """A number taken for a text (or the reverse) makes another object of it."""
    assert same(resolve(text, plain=True), value)
    assert resolve(text, plain=False) == text


@pytest.mark.parametrize(
    ("text", "tag", "value"),
    [
        ("1", "str", "1"),
        ("a", "str", "a"),
        ("", "null", None),
        ("1", "int", 1),
        ("1.5", "float", 1.5),
        ("on", "bool", True),
    ],
)
def test_tags(text: str, tag: str, value: Any) -> None:
    """Whoever writes a tag means it."""
    assert same(resolve(text, plain=True, tag=f"tag:yaml.org,2002:{tag}"), value)
    assert resolve(text, plain=True, tag="!") == text


@pytest.mark.parametrize("text", [".inf", "-.Inf", "+.INF", ".nan", ".NaN"])
def test_numbers_that_json_does_not_have(text: str) -> None:
    """No API server takes them."""
    with pytest.raises(NotRepresentable):
        resolve(text, plain=True)
