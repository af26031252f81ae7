"""Gardener's cases of static validation."""

from __future__ import annotations

import pytest

from restow.cloudprofile.profiles.rendering import render
from restow.cloudprofile.validation import (
    validate,
    validate_namespaced,
    validate_namespaced_update,
    validate_rendered,
    validate_update,
)
from tests.cloudprofile.cases import Case, assert_errors, findings, load, now_of, params


@pytest.mark.parametrize("case", params(load("cloudprofile_validation")))
def test_a_cloudprofile_is_valid_or_refused_for_its_faults(case: Case) -> None:
    """A broken CloudProfile would be stored, a good one refused, or the wrong field blamed."""
    given, now = case["input"], now_of(case)
    if given["group"] == "create":
        remarks = validate(given["object"] or {}, now)
    else:
        remarks = validate_update(given["new"], given["old"], now)
    assert_errors(findings(remarks), case["expected"])


@pytest.mark.parametrize("case", params(load("namespaced_validation")))
def test_a_namespacedcloudprofile_is_valid_or_refused_for_its_faults(case: Case) -> None:
    """A broken NamespacedCloudProfile would be stored, a good one refused, or the wrong field blamed."""
    given, now = case["input"], now_of(case)
    if given["group"] == "create":
        remarks = validate_namespaced(given["object"] or {})
    elif given["group"] == "update":
        remarks = validate_namespaced_update(given["new"], given["old"])
    else:
        rendered = render(given["parent"]["spec"], given["object"]["spec"])
        remarks = validate_rendered(rendered, now)
    assert_errors(findings(remarks), case["expected"])
