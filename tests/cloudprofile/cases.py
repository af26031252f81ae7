"""Tables of cases: what Gardener does with profiles and Shoots, and where restow decides otherwise.

``tables/`` holds a YAML file a topic, in it lists of cases by what is tried: ``{case, given, expect}``, with
``differs`` and the rule where restow's answer is not Gardener's. Their words:

- a version is a text: ``1.2.3``, ``1.2.3 deprecated until +30d`` (classification and expiration), ``1.2.3: preview,
  supported -1d`` (the stages of a lifecycle); a mapping with further fields has the text as its ``version``;
- ``+1d``, ``-1h``, ``+10m``, ``-1000s`` count from noon, 2025-01-15;
- an error is ``Type field | detail``, the detail part of a longer sentence;
- ``now``, where it is not said, is one second past noon: Gardener compares times strictly.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from restow.cloudprofile.findings import Remark, ValidationFinding
from restow.cloudprofile.versions.lifecycle import parse_time

__all__ = ["Case", "assert_errors", "assert_outcome", "findings", "load", "now_of", "params"]

Case = dict[str, Any]
"""A case as a test reads it: ``{name, input, expected}``, and ``differs`` where restow's answer is not Gardener's."""

_TABLES = Path(__file__).parent / "tables"
_NOON = datetime(2025, 1, 15, 12, tzinfo=UTC)
_NOW = "2025-01-15T12:00:01Z"
_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}


def load(file: str, *groups: str) -> list[Case]:
    """Return the cases of a table, of some groups only if any are named; ``input.group`` is the group."""
    table = _table(file)
    return [
        {
            "name": entry["case"],
            "input": {"group": group, "now": _NOW, **_expanded(entry["given"])},
            "expected": _expected(entry["expect"]),
            **({"differs": entry["differs"]} if "differs" in entry else {}),
        }
        for group in groups or table
        for entry in table[group]
    ]


def params(listed: Iterable[Case]) -> list[Any]:
    """Return the cases as pytest parameters; an id says the rule by which a case differs from Gardener."""
    return [
        pytest.param(case, id=f"{case['name']} [but: {case['differs']}]" if "differs" in case else case["name"])
        for case in listed
    ]


@functools.cache
def _table(file: str) -> dict[str, list[dict[str, Any]]]:
    table: dict[str, list[dict[str, Any]]] = yaml.load((_TABLES / f"{file}.yaml").read_text(), yaml.CSafeLoader)
    return table


def _expanded(value: Any) -> Any:
    """Write out the versions in a part of a case; the result shares nothing with the table."""
    if isinstance(value, list):
        return [_expanded(item) for item in value]
    if not isinstance(value, dict):
        return value
    result = {
        name: [_version(item) if isinstance(item, str) else _expanded(item) for item in part]
        if name == "versions" and isinstance(part, list)
        else _expanded(part)
        for name, part in value.items()
    }
    text = result.get("version")
    return {**result, **_version(text)} if isinstance(text, str) and " " in text else result


def _version(text: str) -> dict[str, Any]:
    """Read ``1.2.3 deprecated until +30d`` and ``1.2.3: preview, supported -1d``, and both in one."""
    fields, colon, stages = text.partition(": ")
    words, _, expires = fields.partition(" until ")
    version, _, classification = words.partition(" ")
    result: dict[str, Any] = {"version": version}
    if classification:
        result["classification"] = classification
    if expires:
        result["expirationDate"] = _time(expires)
    if colon:
        result["lifecycle"] = [_stage(stage) for stage in stages.split(", ")]
    return result


def _stage(text: str) -> dict[str, str]:
    classification, _, start = text.partition(" ")
    return {"classification": classification, **({"startTime": _time(start)} if start else {})}


def _time(text: str) -> str:
    found = re.fullmatch(r"([+-]\d+)([dhms])", text)
    if found is None:
        return text
    return f"{_NOON + timedelta(**{_UNITS[found[2]]: int(found[1])}):%Y-%m-%dT%H:%M:%SZ}"


def _expected(expect: Mapping[str, Any]) -> dict[str, Any]:
    expected: dict[str, Any] = _expanded(dict(expect))
    if "errors" in expected:
        expected["errors"] = [_error(text) for text in expected["errors"]]
    return expected


def _error(text: str) -> dict[str, str]:
    where, _, detail = text.partition(" | ")
    kind, _, field = where.partition(" ")
    return {"type": kind, **({"field": field} if field else {}), **({"detail": detail} if detail else {})}


def now_of(case: Case) -> datetime:
    """Return the time of a case."""
    return parse_time(case["input"]["now"])


def findings(remarks: Iterable[Remark]) -> list[ValidationFinding]:
    """Return the reasons to refuse among remarks."""
    return [remark for remark in remarks if isinstance(remark, ValidationFinding)]


def assert_errors(found: Iterable[ValidationFinding], expected: Mapping[str, Any]) -> None:
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
        if detail := error.get("detail"):
            assert any(detail in text for text in details), details


def assert_outcome(found: Iterable[ValidationFinding], expected: Mapping[str, Any]) -> None:
    """Compare findings with a case that says whether a request is allowed, and what the refusal contains."""
    found = list(found)
    assert (not found) is expected["allowed"], found
    said = "; ".join(map(str, found))
    assert [text for text in expected.get("errorContains", ()) if text not in said] == [], said
    if "errors" in expected:
        assert_errors(found, expected)
