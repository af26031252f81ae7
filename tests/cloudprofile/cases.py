"""Tables of cases: Gardener's behaviour with profiles and Shoots, and the differences of restow.

``tables/`` holds a YAML file for each topic, with lists of cases by group: ``{case, given, expect}``, with ``differs``
and the rule if restow's answer is not Gardener's. The notation:

- a version is a text: ``1.2.3``, ``1.2.3 deprecated until +30d`` (classification and expiration), ``1.2.3: preview,
  supported -1d`` (the stages of a lifecycle); a mapping with further fields has the text as its ``version``;
- ``+1d``, ``-1h``, ``+10m``, ``-1000s`` count from noon, 2025-01-15;
- an error is ``Type field | detail``, the whole detail, or its beginning if ``...`` ends it;
- ``statusReason`` is Kubernetes' word for the HTTP status; ``warnings`` are fields that a warning is about;
- ``now`` defaults to one second past noon, because Gardener compares times strictly.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml

from restow.cloudprofile.findings import ValidationFinding
from restow.cloudprofile.versions.lifecycle import parse_time
from tests.cloudprofile.served import Answer

__all__ = ["Case", "assert_answer", "assert_errors", "load", "now_of", "params"]

Case = dict[str, Any]
"""A case as a test reads it: ``{name, input, expected}``, with ``differs`` if restow's answer is not Gardener's."""

_TABLES = Path(__file__).parent / "tables"
_NOON = datetime(2025, 1, 15, 12, tzinfo=UTC)
_NOW = "2025-01-15T12:00:01Z"
_REST = "..."
_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}


def load(file: str, *groups: str) -> list[Case]:
    """Return the cases of a table, or only those of the named groups; ``input.group`` is the group."""
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
    """Return the cases as pytest parameters; an id gives the rule by which a case differs from Gardener."""
    return [
        pytest.param(case, id=f"{case['name']} [but: {case['differs']}]" if "differs" in case else case["name"])
        for case in listed
    ]


@functools.cache
def _table(file: str) -> dict[str, list[dict[str, Any]]]:
    table: dict[str, list[dict[str, Any]]] = yaml.load((_TABLES / f"{file}.yaml").read_text(), yaml.CSafeLoader)
    return table


def _expanded(value: Any) -> Any:
    """Return a part of a case with its versions expanded; the result shares no objects with the table."""
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
    """Parse ``1.2.3 deprecated until +30d`` and ``1.2.3: preview, supported -1d``, and a combination of both."""
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


def assert_errors(found: Iterable[ValidationFinding], expected: Mapping[str, Any]) -> None:
    """Compare findings with the `errors` of a case: all of them, or at least those of a case with `match: contains`."""
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
            assert any(_says(text, detail) for text in details), details


def _says(text: str, detail: str) -> bool:
    part = detail.removesuffix(_REST)
    return text == detail if part == detail else text.startswith(part)


_REASONS = {"Forbidden": HTTPStatus.FORBIDDEN, "Invalid": HTTPStatus.UNPROCESSABLE_ENTITY}


def assert_answer(answer: Answer, expected: Mapping[str, Any]) -> None:
    """Compare the answer to a request with all expectations of a case."""
    if "errors" in expected:
        assert_errors(answer.findings, expected)
    allowed = expected["allowed"] if "allowed" in expected else not expected["errors"]
    assert answer.allowed is allowed, answer.refusal
    assert [text for text in expected.get("errorContains", ()) if text not in answer.refusal] == [], answer.refusal
    assert [text for text in expected.get("errorNotContains", ()) if text in answer.refusal] == [], answer.refusal
    if reason := expected.get("statusReason"):
        assert answer.code == _REASONS[reason], answer.refusal
    for field in expected.get("warnings", ()):
        assert any(warning.startswith(f"{field}: ") for warning in answer.warnings), (field, answer.warnings)
