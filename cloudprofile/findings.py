"""Findings of validation in the form of Kubernetes field errors: a type, a field and a sentence. Pure.

The types are those of apimachinery's field errors. A finding refuses a request; a warning goes back as an admission
warning and refuses nothing. Details name versions, images and other objects, never the content of secrets. For an
unauthenticated client, ``anonymous`` removes the names of other users' objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeAlias


class FindingType(StrEnum):
    """The kinds of field errors."""

    REQUIRED = "Required"
    INVALID = "Invalid"
    NOT_SUPPORTED = "NotSupported"
    DUPLICATE = "Duplicate"
    FORBIDDEN = "Forbidden"


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
    """Another object that blocks a request because it uses a part that the request removes.

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
        detail: the broken rule, as a sentence without a full stop.
        user: the other object that the rule protects, if any.
        value: the bad value as JSON; empty if it is missing or would not help its author.
        denied: whether the object is valid by itself, and another object (a profile, its users) forbids it. Gardener's
            admission plugins answer 403 then; an object that breaks a rule by itself gets 422.
    """

    type: FindingType
    field: str
    detail: str
    user: ProfileUser | None = None
    value: str = ""
    denied: bool = False

    def __str__(self) -> str:
        """Return the sentence, as ``field: Invalid value: "value": detail``."""
        return ": ".join(filter(None, (self.field, _LEADS[self.type], self.value, self.detail)))


@dataclass(frozen=True, slots=True)
class ValidationWarning:
    """One admission warning about an allowed request; ``detail`` is the consequence, without a full stop."""

    field: str
    detail: str

    def __str__(self) -> str:
        """Return the admission warning's text."""
        return f"{self.field}: {self.detail}"


Remark: TypeAlias = ValidationFinding | ValidationWarning
"""A remark of a rule about an object; rules yield findings and warnings in one stream."""


@dataclass(frozen=True, slots=True)
class ValidationVerdict:
    """The result of all rules for a request.

    Attributes:
        findings: the reasons to refuse it; empty if it is allowed.
        warnings: the warnings, whether the request is refused or not.
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


def invalid(field: str, detail: str, value: Any = None) -> ValidationFinding:
    """Return the finding that a value breaks a rule; it shows the value, unless that is None or an empty text."""
    return ValidationFinding(FindingType.INVALID, field, detail, value=_shown(value))


def not_supported(field: str, value: Any, supported: Iterable[str]) -> ValidationFinding:
    """Return the finding that a value is none of the supported ones."""
    values = ", ".join(json.dumps(each) for each in supported)
    return ValidationFinding(FindingType.NOT_SUPPORTED, field, f"supported values: {values}", value=json.dumps(value))


def duplicate(field: str, value: str) -> ValidationFinding:
    """Return the finding that ``value`` occurs twice."""
    return ValidationFinding(FindingType.DUPLICATE, field, json.dumps(value))


def forbidden(field: str, detail: str, user: ProfileUser | None = None) -> ValidationFinding:
    """Return the finding that a field must not be set or changed, because of another object if one is given."""
    return ValidationFinding(FindingType.FORBIDDEN, field, detail, user, denied=user is not None)


def denied(findings: Iterable[ValidationFinding]) -> tuple[ValidationFinding, ...]:
    """Return findings about a valid object that another object forbids."""
    return tuple(replace(finding, denied=True) for finding in findings)


def is_denied(findings: Iterable[ValidationFinding]) -> bool:
    """Return whether the object is valid by itself, which makes a refusal 403 Forbidden instead of 422 Invalid."""
    return all(finding.denied for finding in findings)


_LONGEST_VALUE = 200


def _shown(value: Any) -> str:
    if value is None or value == "":
        return ""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


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


def refusal(kind: str, name: str, findings: Sequence[ValidationFinding]) -> str:
    """Return the sentence that refuses an object; it names the object, and each field with its rule."""
    reasons = [str(finding) for finding in findings]
    listed = reasons[0] if len(reasons) == 1 else f"[{', '.join(reasons)}]"
    return f"{kind} {json.dumps(name)} is {'forbidden' if is_denied(findings) else 'invalid'}: {listed}"
