"""Findings in the form of an API server's errors."""

from __future__ import annotations

from restow.cloudprofile.findings import (
    ProfileUser,
    ValidationVerdict,
    ValidationWarning,
    duplicate,
    forbidden,
    invalid,
    is_denied,
    not_supported,
    refusal,
    required,
    verdict,
)


def test_findings_read_like_those_of_kubernetes() -> None:
    """An operator would not recognise the errors that they know from Kubernetes."""
    assert str(required("spec.type", "must provide a provider type")) == (
        "spec.type: Required value: must provide a provider type"
    )
    assert str(invalid("a", "is odd")) == "a: Invalid value: is odd"
    assert str(forbidden("a", "must stay")) == "a: Forbidden: must stay"
    assert str(duplicate("a[1]", "x")) == 'a[1]: Duplicate value: "x"'
    assert str(invalid("a", "is odd", "v")) == 'a: Invalid value: "v": is odd'
    assert str(not_supported("a", "z", ["x", "y"])) == 'a: Unsupported value: "z": supported values: "x", "y"'


def test_a_refusal_names_the_object_and_every_field() -> None:
    """A message would not name the one object that is wrong, or only its first mistake."""
    assert refusal("CloudProfile", "aws", [invalid("a", "is odd")]) == (
        'CloudProfile "aws" is invalid: a: Invalid value: is odd'
    )
    assert refusal("CloudProfile", "aws", [invalid("a", "is odd"), forbidden("b", "must stay")]) == (
        'CloudProfile "aws" is invalid: [a: Invalid value: is odd, b: Forbidden: must stay]'
    )


def test_a_refusal_says_whose_rule_it_is() -> None:
    """A client could not distinguish an object that is wrong by itself from one that another object forbids."""
    in_use = [forbidden("a", "is in use", ProfileUser("shoot", "ns/s", "shoot 'ns/s'"))]
    assert is_denied(in_use)
    assert refusal("CloudProfile", "aws", in_use) == 'CloudProfile "aws" is forbidden: a: Forbidden: is in use'
    assert not is_denied([*in_use, invalid("b", "is odd")])


def test_a_long_value_is_cut() -> None:
    """An error would quote a whole certificate."""
    assert len(invalid("a", "is odd", "x" * 10_000).value) < 250


def test_a_verdict_parts_what_refuses_from_what_warns() -> None:
    """A warning would refuse a request, or a fault would only cause a warning."""
    wrong, warning = invalid("a", "is odd"), ValidationWarning("b", "will end")
    assert verdict([warning, wrong]) == ValidationVerdict((wrong,), (warning,))
    assert not verdict([wrong]).allowed
    assert verdict([warning]).allowed
    assert str(warning) == "b: will end"
