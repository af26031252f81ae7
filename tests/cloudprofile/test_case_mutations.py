"""A check that every expected value of the case tables counts: each is falsified once, and its test has to fail."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cloudprofile.cases import Case
from tests.cloudprofile.maintenance import test_plan, test_updates_kubernetes, test_updates_machineimages
from tests.cloudprofile.management import test_rules
from tests.cloudprofile.profiles import test_admission_cases as test_profile_admission_cases
from tests.cloudprofile.profiles import test_reconciliation_cases, test_rendering_cases
from tests.cloudprofile.shoots import test_admission_cases as test_shoot_admission_cases
from tests.cloudprofile.validation import test_namespaced_cases, test_profiles_cases
from tests.cloudprofile.versions import test_lifecycle_cases

MODULES = (
    test_lifecycle_cases,
    test_namespaced_cases,
    test_plan,
    test_profile_admission_cases,
    test_profiles_cases,
    test_reconciliation_cases,
    test_rendering_cases,
    test_rules,
    test_shoot_admission_cases,
    test_updates_kubernetes,
    test_updates_machineimages,
)

Check = Callable[[Case], Any]
Path = tuple[str | int, ...]


def checks() -> Iterator[tuple[Check, list[Case]]]:
    """Yield the tests that read cases, each with its cases."""
    for module in MODULES:
        for name, function in inspect.getmembers(module, inspect.isfunction):
            for mark in getattr(function, "pytestmark", ()):
                if name.startswith("test_") and mark.name == "parametrize" and mark.args[0] == "case":
                    yield function, [each.values[0] for each in mark.args[1]]


#: Fields that say how to compare other values, and are not expectations themselves.
HOW = {"match", "unordered"}


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the places of the values in an expectation that can be falsified, including empty lists and objects."""
    parts: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        parts = [(name, child) for name, child in value.items() if path or name not in HOW]
    elif isinstance(value, list):
        parts = list(enumerate(value))
    if not parts:
        yield path
    for step, child in parts:
        yield from leaves(child, (*path, step))


def falsified(value: Any, path: Path) -> Any:
    """Return a wrong value for the value at a path."""
    if "errorNotContains" in path:
        return ""  # which every text contains
    if path[-1] == "type":
        return "Duplicate" if value != "Duplicate" else "Required"
    if path[-1] == "statusReason":
        return "Forbidden" if value != "Forbidden" else "Invalid"
    if path[-1] == "errors":
        return [{"type": "Invalid", "field": "spec"}]
    if path[-1] == "warnings":
        return ["spec.nothing"]
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str() if "T" in value and value.endswith("Z"):
            return f"1{value[1:]}"  # a thousand years earlier
        case str() if path[-1] == "classification":
            return "deprecated" if value != "deprecated" else "preview"
        case str():
            return f"{value.removesuffix('...')}7"
        case list():
            return [{"version": "9.9.9"}] if path[-1] == "versions" else ["falsified"]
        case dict():
            return {"falsified": True}
        case _:
            return "falsified"


def mutants(case: Case) -> Iterator[tuple[Path, Case]]:
    """Yield the place of each expected value and the case with that value falsified."""
    for path in leaves(case["expected"]):
        made = copy.deepcopy(case)
        place = made["expected"]
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = falsified(place[path[-1]], path)
        yield path, made


FOUND = {
    f"{check.__module__.rpartition('.')[0].rpartition('.')[2]}-{check.__name__}": (check, cases)
    for check, cases in checks()
}


def test_all_tables_are_read() -> None:
    """A table would not be read by any test."""
    assert len(FOUND) >= 30
    assert sum(len(cases) for _, cases in FOUND.values()) >= 500


@pytest.mark.parametrize("name", FOUND)
def test_no_expected_value_can_be_wrong(name: str) -> None:
    """A test that does not read an expectation would pass whatever restow does."""
    check, cases = FOUND[name]
    survivors = [
        f"{case['name']}: {'.'.join(map(str, path))}"
        for case in cases
        for path, mutant in mutants(case)
        if not _fails(check, mutant)
    ]
    assert survivors == []


def _fails(check: Check, case: Case) -> bool:
    try:
        check(case)
    except (AssertionError, pytest.fail.Exception):
        return True
    except Exception:  # noqa: BLE001 - a value that the test cannot even parse was read
        return True
    return False
