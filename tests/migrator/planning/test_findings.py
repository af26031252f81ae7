"""What a refused dry run means: which object, whether it would fail, and what to do."""

from __future__ import annotations

import pytest

from restow.migrator.planning.findings import MOST_EACH, Check, Finding, Findings, of_failure
from restow.migrator.report import Failure


@pytest.mark.parametrize(
    ("reason", "message", "check", "says"),
    [
        ("Invalid", "spec.size: too large", Check.OBJECTS, "mend the object, or the schema"),
        ("Invalid", 'the object: ValidatingAdmissionPolicy "p" denied request: no', Check.OBJECTS, "Have that policy"),
        ("Forbidden", 'admission webhook "w" denied the request: no', Check.OBJECTS, "Have that policy or webhook"),
        (
            "InternalError",
            'failed calling webhook "w": connection refused',
            Check.OBJECTS,
            "See that this webhook runs",
        ),
        ("BadRequest", 'admission webhook "w" does not support dry run', Check.REHEARSAL, "sideEffects"),
        ("CannotConvert", "it cannot be converted to v1", Check.OBJECTS, "what converts it"),
        ("OwnershipWouldBeLost", "Run with --managed-fields translate", Check.OBJECTS, "Run with"),
        ("RequestEntityTooLarge", "limit is 3145728", Check.OBJECTS, "make it smaller"),
        ("Conflict", "other clients wrote it 8 times", Check.REHEARSAL, "Plan again"),
        ("TimedOut", "no answer", Check.REHEARSAL, "Plan again"),
        ("NotFound", "check that its namespace exists, then run again", Check.OBJECTS, "namespace exists"),
        ("Odd", "something", Check.OBJECTS, "Mend what the message names"),
    ],
)
def test_each_refusal_says_what_to_do(reason: str, message: str, check: Check, says: str) -> None:
    """A sentence without a next step is read as "try again"; one that blames the object for a webhook misleads."""
    found = of_failure(Failure("ns", "w", reason, message))
    assert (found.check, found.fails) == (check, check is Check.OBJECTS)
    assert says in found.message and message in found.message
    assert "ns/w" in found.message
    assert (found.namespace, found.name, found.reason) == ("ns", "w", reason)


def test_an_object_of_no_namespace_is_named_alone() -> None:
    """``/w`` is nobody's name."""
    assert of_failure(Failure("", "w", "Invalid", "no")).message.startswith("w would fail (Invalid): no. ")


def test_very_many_findings_are_counted() -> None:
    """A policy that refuses everything must not fill the memory, nor drown what else was found."""
    findings = Findings()
    for number in range(MOST_EACH + 7):
        findings.add(Finding(check=Check.OBJECTS, message=str(number), fails=True))
    findings.add(Finding(check=Check.FIELDS, message="pruned"))
    assert len(findings.listed) == MOST_EACH + 1 and findings.listed[-1].message == "pruned"
    assert findings.more() == {Check.OBJECTS: 7}
    assert findings.fail


def test_warnings_alone_do_not_fail() -> None:
    """The exit code of a plan hangs on it."""
    findings = Findings()
    assert not findings.fail
    findings.add(Finding(check=Check.FIELDS, message="pruned"))
    assert not findings.fail and findings.more() == {}
