"""Findings as an API server says them."""

from __future__ import annotations

from restow.cloudprofile.findings import (
    FindingType,
    ValidationVerdict,
    ValidationWarning,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    refusal,
    required,
    verdict,
)


def test_findings_read_like_those_of_kubernetes() -> None:
    """An operator would not recognise the errors that he knows."""
    assert str(required("spec.type", "must provide a provider type")) == (
        "spec.type: Required value: must provide a provider type"
    )
    assert str(invalid("a", "is odd")) == "a: Invalid value: is odd"
    assert str(forbidden("a", "must stay")) == "a: Forbidden: must stay"
    assert str(duplicate("a[1]", "x")) == 'a[1]: Duplicate value: "x"'
    assert str(not_supported("a", ["x", "y"])) == 'a: Unsupported value: supported values: "x", "y"'
    assert [kind.cause for kind in FindingType] == [
        "FieldValueRequired",
        "FieldValueInvalid",
        "FieldValueNotSupported",
        "FieldValueDuplicate",
        "FieldValueForbidden",
    ]


def test_a_refusal_names_the_object_and_every_field() -> None:
    """A message would not say which of many manifests is meant, or only the first fault."""
    assert refusal("CloudProfile", "aws", [invalid("a", "is odd")]) == (
        'CloudProfile "aws" is invalid: a: Invalid value: is odd'
    )
    assert refusal("CloudProfile", "aws", [invalid("a", "is odd"), forbidden("b", "must stay")]) == (
        'CloudProfile "aws" is invalid: [a: Invalid value: is odd, b: Forbidden: must stay]'
    )


def test_a_verdict_parts_what_refuses_from_what_warns() -> None:
    """A warning would refuse a request, or a fault only warn."""
    wrong, warning = invalid("a", "is odd"), ValidationWarning("b", "will end")
    assert verdict([warning, wrong]) == ValidationVerdict((wrong,), (warning,))
    assert not verdict([wrong]).allowed
    assert verdict([warning]).allowed
    assert str(warning) == "b: will end"
