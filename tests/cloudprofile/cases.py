"""Gardener's behaviour as data, `{name, source, input, expected}`, and what restow's contract says instead.

Their `now` is one second past noon: Gardener compares times strictly, and the times in the cases were taken at noon.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import pytest

from restow.cloudprofile.findings import Finding, Remark
from restow.cloudprofile.lifecycle import parse_time
from tests.shared_data import shared_data

__all__ = ["Case", "Overruled", "assert_errors", "assert_outcome", "findings", "load", "now_of", "params"]

Case = dict[str, Any]


class Overruled(NamedTuple):
    """Why a case is not followed, and what is expected instead."""

    rule: str
    expected: dict[str, Any]


def load(file: str, *functions: str) -> list[Case]:
    """Return the cases of a file, of some functions only if any are named."""
    listed = json.loads(shared_data("cases", f"{file}.json").read_text())
    return [case for case in listed if not functions or case["input"].get("function") in functions]


def params(listed: Iterable[Case], overruled: Mapping[str, Overruled] | None = None) -> list[Any]:
    """Return the cases as pytest parameters; those in the table with its expectation, and the rule in their id.

    An entry whose case is not there or expects the same is an error: the table shows every difference, and no more.
    """
    table, chosen = dict(overruled or {}), []
    for case in listed:
        other = table.pop(case["name"], None)
        if other is None:
            chosen.append(pytest.param(case, id=case["name"]))
            continue
        assert other.expected != case["expected"], case["name"]
        chosen.append(pytest.param({**case, "expected": other.expected}, id=f"{case['name']} [but: {other.rule}]"))
    assert not table, f"no such cases: {sorted(table)}"
    return chosen


def now_of(case: Case) -> datetime:
    """Return the time of a case."""
    return parse_time(case["input"]["now"])


def findings(remarks: Iterable[Remark]) -> list[Finding]:
    """Return the reasons to refuse among remarks."""
    return [remark for remark in remarks if isinstance(remark, Finding)]


def assert_errors(found: Iterable[Finding], expected: Mapping[str, Any]) -> None:
    """Compare findings with the `errors` of a case: all of them, or at least those where it says `match: contains`."""
    found = list(found)
    wanted = Counter((error["type"], error.get("field")) for error in expected["errors"])
    got = Counter((finding.type.value, finding.field) for finding in found)
    if expected.get("match") == "contains":
        assert wanted <= got, found
    else:
        assert wanted == got, found
    for error in expected["errors"]:
        details = [
            finding.detail for finding in found if (finding.type, finding.field) == (error["type"], error["field"])
        ]
        detail = error.get("detail")
        if isinstance(detail, dict):
            assert any(detail["contains"] in text for text in details), details
        elif detail is not None:
            assert any(detail in text for text in details), details


def assert_outcome(found: Iterable[Finding], expected: Mapping[str, Any]) -> None:
    """Compare findings with a case that says whether a request is allowed, and what the refusal contains."""
    found = list(found)
    assert (not found) is expected["allowed"], found
    said = "; ".join(map(str, found))
    assert [text for text in expected.get("errorContains", ()) if text not in said] == [], said
    if "errors" in expected:
        assert_errors(found, expected)
