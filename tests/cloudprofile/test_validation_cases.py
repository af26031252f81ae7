"""Gardener's cases of static validation."""

from __future__ import annotations

import pytest

from restow.cloudprofile.rendering import render
from restow.cloudprofile.validation import (
    validate,
    validate_namespaced,
    validate_namespaced_update,
    validate_rendered,
    validate_update,
)
from tests.cloudprofile.cases import Case, Overruled, assert_errors, findings, load, now_of, params

_NO_GATES = "there are no feature gates"
_LATEST = "the documents' own examples let the latest version expire: allowed, with a warning"

OVERRULED = {
    "#ValidateCloudProfile / architecture capabilities / not using Capabilities / should fail to validate provided "
    "capabilities with disabled feature gate": Overruled(_NO_GATES, {"errors": []}),
    "derived / lifecycle with the feature gate off: only the gate error is reported": Overruled(
        _NO_GATES,
        {
            "errors": [
                {"type": "NotSupported", "field": "spec.kubernetes.versions[1].classification"},
                {"type": "Forbidden", "field": "spec.kubernetes.versions[1]"},
                {"type": "Invalid", "field": "spec.kubernetes.versions[1].lifecycle[1].classification"},
                {"type": "Invalid", "field": "spec.kubernetes.versions[1].lifecycle[1]"},
            ]
        },
    ),
    "derived / image: gate off": Overruled(_NO_GATES, {"errors": []}),
    "#ValidateCloudProfile / tests for unknown cloud profiles / kubernetes version constraints / should forbid using "
    "versionClassificationLifecycles for kubernetes": Overruled(_NO_GATES, {"errors": []}),
    "derived / latest version must not have an expirationDate, even if it is only in preview": Overruled(
        _LATEST, {"errors": []}
    ),
    "#ValidateCloudProfile / tests for unknown cloud profiles / kubernetes version constraints / should forbid "
    "expiration date on latest kubernetes version": Overruled(_LATEST, {"errors": []}),
    "#ValidateCloudProfile / tests for unknown cloud profiles / kubernetes version constraints / using "
    "versionClassificationLifecycle / should forbid expired lifecycle stage on latest kubernetes version": Overruled(
        _LATEST, {"errors": []}
    ),
}


@pytest.mark.parametrize("case", params(load("cloudprofile_validation"), OVERRULED))
def test_a_cloudprofile_is_valid_or_refused_for_its_faults(case: Case) -> None:
    """A broken CloudProfile would be stored, a good one refused, or the wrong field blamed."""
    given, now = case["input"], now_of(case)
    if given["function"] == "ValidateCloudProfile":
        remarks = validate(given["object"] or {}, now)
    else:
        remarks = validate_update(given["new"], given["old"], now)
    assert_errors(findings(remarks), case["expected"])


@pytest.mark.parametrize("case", params(load("ncp_validation")))
def test_a_namespacedcloudprofile_is_valid_or_refused_for_its_faults(case: Case) -> None:
    """A broken NamespacedCloudProfile would be stored, a good one refused, or the wrong field blamed."""
    given, now = case["input"], now_of(case)
    if given["function"] == "ValidateNamespacedCloudProfile":
        remarks = validate_namespaced(given["object"] or {})
    elif given["function"] == "ValidateNamespacedCloudProfileUpdate":
        remarks = validate_namespaced_update(given["new"], given["old"])
    else:
        rendered = render(given["parent"]["spec"], given["object"]["spec"])
        remarks = validate_rendered(rendered, now)
    assert_errors(findings(remarks), case["expected"])
