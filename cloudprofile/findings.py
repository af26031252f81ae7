"""Findings of validation in the form of Kubernetes field errors: a type, a field and a sentence. Pure.

The types are those of apimachinery's field errors. A finding refuses a request; a warning goes back as an admission
warning and refuses nothing. Details name versions, images and other objects, never the content of secrets. For an
unauthenticated client, ``anonymous`` removes the names of other users' objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

__all__ = [
    "FindingType",
    "ProfileUser",
    "Remark",
    "ValidationFinding",
    "ValidationVerdict",
    "ValidationWarning",
    "anonymous",
    "duplicate",
    "forbidden",
    "invalid",
    "not_supported",
    "refusal",
    "required",
    "verdict",
]


class FindingType(StrEnum):
    """The kinds of field errors."""

    REQUIRED = "Required"
    INVALID = "Invalid"
    NOT_SUPPORTED = "NotSupported"
    DUPLICATE = "Duplicate"
    FORBIDDEN = "Forbidden"

    @property
    def cause(self) -> str:
        """The ``reason`` of a cause in a v1.Status, ``FieldValueRequired`` for instance."""
        return f"FieldValue{self.value}"


_PLACE = "\0"

_LEADS = {
    FindingType.REQUIRED: "Required value",
    FindingType.INVALID: "Invalid value",
    FindingType.NOT_SUPPORTED: "Unsupported value",
    FindingType.DUPLICATE: "Duplicate value",
    FindingType.FORBIDDEN: "Forbidden",
}


@dataclass(frozen=True, slots=True)
class ProfileUser:
    """Another object that blocks a request because it uses what the request removes.

    Attributes:
        kind: its kind as written in a sentence, ``shoot`` for instance.
        name: its qualified name.
        text: its kind and name as written in a finding's detail.
        aside: a further part of the detail that is about this object only.
    """

    kind: str
    name: str
    text: str
    aside: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class ValidationFinding:
    """One reason to refuse an object.

    Attributes:
        type: the kind of error.
        field: the path in the object, ``spec.kubernetes.versions[0].lifecycle`` for instance.
        detail: the rule that is broken, as a sentence without a full stop.
        user: the other object that the rule protects, if any.
    """

    type: FindingType
    field: str
    detail: str
    user: ProfileUser | None = None

    def __str__(self) -> str:
        """Return the sentence, as ``field: Invalid value: detail``."""
        return f"{self.field}: {_LEADS[self.type]}: {self.detail}"


@dataclass(frozen=True, slots=True)
class ValidationWarning:
    """One admission warning about an allowed request.

    Attributes:
        field: the path in the object.
        detail: the consequence, as a sentence without a full stop.
    """

    field: str
    detail: str

    def __str__(self) -> str:
        """Return the admission warning's text."""
        return f"{self.field}: {self.detail}"


Remark: TypeAlias = ValidationFinding | ValidationWarning
"""What a rule says about an object: rules yield both in one stream."""


@dataclass(frozen=True, slots=True)
class ValidationVerdict:
    """The result of all rules for a request.

    Attributes:
        findings: the reasons to refuse it; empty if it is allowed.
        warnings: the warnings, whether it is refused or not.
    """

    findings: tuple[ValidationFinding, ...] = ()
    warnings: tuple[ValidationWarning, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether no rule refuses the request."""
        return not self.findings


def verdict(remarks: Iterable[Remark]) -> ValidationVerdict:
    """Collect the remarks of all rules."""
    said = list(remarks)
    return ValidationVerdict(
        tuple(remark for remark in said if isinstance(remark, ValidationFinding)),
        tuple(remark for remark in said if isinstance(remark, ValidationWarning)),
    )


def required(field: str, detail: str) -> ValidationFinding:
    """Return the finding that a value is missing."""
    return ValidationFinding(FindingType.REQUIRED, field, detail)


def invalid(field: str, detail: str) -> ValidationFinding:
    """Return the finding that a value breaks a rule."""
    return ValidationFinding(FindingType.INVALID, field, detail)


def not_supported(field: str, supported: Iterable[str]) -> ValidationFinding:
    """Return the finding that a value is none of the supported ones."""
    values = ", ".join(json.dumps(value) for value in supported)
    return ValidationFinding(FindingType.NOT_SUPPORTED, field, f"supported values: {values}")


def duplicate(field: str, value: str) -> ValidationFinding:
    """Return the finding that ``value`` is there twice."""
    return ValidationFinding(FindingType.DUPLICATE, field, json.dumps(value))


def forbidden(field: str, detail: str, user: ProfileUser | None = None) -> ValidationFinding:
    """Return the finding that something must not be set or changed, because of another object if one is given."""
    return ValidationFinding(FindingType.FORBIDDEN, field, detail, user)


def anonymous(findings: Iterable[ValidationFinding]) -> tuple[ValidationFinding, ...]:
    """Return findings that count the objects of other users instead of naming them."""
    names: dict[tuple[ValidationFinding, str], set[str]] = {}
    for finding in findings:
        user, kind = finding.user, ""
        if user is not None:
            detail = finding.detail.replace(user.aside, "").replace(user.text, _PLACE)
            finding, kind = replace(finding, detail=detail, user=None), user.kind  # noqa: PLW2901
        names.setdefault((finding, kind), set()).add("" if user is None else user.name)
    return tuple(
        replace(finding, detail=finding.detail.replace(_PLACE, f"{len(users)} {kind}{'s' * (len(users) > 1)}"))
        for (finding, kind), users in names.items()
    )


def refusal(kind: str, name: str, findings: Iterable[ValidationFinding]) -> str:
    """Return the sentence that refuses an object: which object, and each field with its rule."""
    reasons = [str(finding) for finding in findings]
    listed = reasons[0] if len(reasons) == 1 else f"[{', '.join(reasons)}]"
    return f"{kind} {json.dumps(name)} is invalid: {listed}"
