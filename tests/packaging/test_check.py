"""`make check` runs the tests of what a change touches."""

from __future__ import annotations

import pytest

from tests.check import chosen


@pytest.mark.parametrize(
    ("changed", "test"),
    [
        ("migrator/decide/proof.py", "tests/migrator/decide/test_proof.py"),
        ("migrator/decide/decision.py", "tests/migrator/decide/test_decision.py"),
        ("conversion/rules/standard/numbertexts.py", "tests/conversion/rules/test_standard.py"),
        ("crds/fieldpath.py", "tests/crds/test_fieldpath.py"),
        ("tests/peers/edits.py", ""),
        ("tests/kube/test_errors.py", "tests/kube/test_errors.py"),
    ],
)
def test_the_tests_of_a_module_are_chosen(changed: str, test: str) -> None:
    """A change would pass the check although the tests next to it fail."""
    assert chosen([changed])[:1] == ([test] if test else [])


def test_tests_that_import_a_module_are_chosen() -> None:
    """A change would break another room, and the check not say so."""
    assert "tests/migrator/planning/test_plan_cost.py" in chosen(["migrator/planning/plan.py"])
