"""Durations and quantities as texts, with Go's and Kubernetes' own results as the oracle (``gotexts/main.go``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.conversion.rules.standard.numbertexts import (
    QuantityFormat,
    canonical_seconds,
    canonical_suffixes,
    parse_duration,
    parse_quantity,
    print_duration,
    print_quantity,
)

TABLE: dict[str, list[list[Any]]] = json.loads(
    (Path(__file__).parent / "gotexts" / "texts.json").read_text(encoding="utf-8")
)
FORMATS: dict[str, QuantityFormat] = {"DecimalSI": "decimal", "BinarySI": "binary", "DecimalExponent": "exponent"}
#: Kubernetes prints no suffix beyond E, and so another number: these are not printed here.
UNPRINTABLE = 10**30


def test_durations_are_those_of_go() -> None:
    """A text would be another duration than in Go, be refused where Go takes it, or be printed in another way."""
    for text, value, *printed in TABLE["durations"]:
        found = parse_duration(text)
        assert found == (None if value is None else int(value)), text
        if found is not None:
            assert print_duration(found) == printed[0], text


def test_quantities_are_those_of_kubernetes() -> None:
    """A text would be another quantity than in Kubernetes, be refused where it is taken, or be printed otherwise."""
    for text, value, *printed in TABLE["quantities"]:
        found = parse_quantity(text)
        assert found == (None if value is None else int(value)), text
        if found is not None and abs(found) < UNPRINTABLE:
            assert print_quantity(found, FORMATS.get(printed[1], "decimal")) == printed[0], text


def test_the_tables_have_what_matters() -> None:
    """The oracle would say nothing, because it accepts or refuses nearly everything."""
    for rows in TABLE.values():
        accepted = sum(row[1] is not None for row in rows)
        assert len(rows) / 5 < accepted < len(rows) * 4 / 5 or len(rows) - accepted > 100


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_duration_is_printed_and_read_back(nanoseconds: int) -> None:
    """A number would come back as another one."""
    text = print_duration(nanoseconds)
    assert text is not None
    assert parse_duration(text) == nanoseconds


@given(st.integers(-(10**40), 10**40), st.sampled_from(["decimal", "binary", "exponent"]))
def test_every_printed_quantity_is_read_back(billionths: int, form: QuantityFormat) -> None:
    """A number would come back as another one."""
    text = print_quantity(billionths, form)
    assert text is None or parse_quantity(text) == billionths


@given(st.integers(-(2**63), 2**63 - 1))
def test_the_quick_way_agrees(amount: int) -> None:
    """The shortcut for canonical texts would give another value, or take a text that is not canonical."""
    text = print_duration(amount * 10**9 % 2**62)
    assert text is not None
    assert canonical_seconds(text) in (None, amount * 10**9 % 2**62 / 10**9)


@given(st.integers(0, 2**63), st.sampled_from(["decimal", "binary", "exponent"]))
def test_quick_suffixes_are_those_of_canonical_texts(amount: int, form: QuantityFormat) -> None:
    """A spelling that does not come back would be taken for one that does."""
    for suffix, (size, step, limit) in canonical_suffixes(form).items():
        number = amount % limit
        if number % step:
            assert parse_quantity(f"{number}{suffix}") == number * size
            assert print_quantity(number * size, form) == f"{number}{suffix}"


@given(st.from_regex(r"\A[0-9]{1,3}(h[0-9]{1,2}m|m)?[0-9]{0,2}s\Z"))
def test_a_quick_duration_is_canonical(text: str) -> None:
    """A spelling that does not come back would be taken for one that does."""
    seconds = canonical_seconds(text)
    assert seconds is None or print_duration(seconds * 10**9) == text


@pytest.mark.parametrize("text", ["9" * 5000 + "s", "1e999999999", "1" * 5000, "1." + "0" * 5000 + "s", "\u0661s"])
def test_texts_of_no_reasonable_length_are_refused(text: str) -> None:
    """A client could make a conversion slow or fail with a text."""
    assert parse_duration(text) is None
    assert parse_quantity(text) is None
