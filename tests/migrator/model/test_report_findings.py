"""What a refused dry run means: which object, whether it would fail, and what to do."""

from __future__ import annotations

import pytest

from restow.migrator.model.report import MOST_EACH, ObjectFailure, PlanCheck, PlanFinding, PlanFindings, of_failure


@pytest.mark.parametrize(
    ("reason", "message", "check", "says"),
    [
        ("Invalid", "spec.size: too large", PlanCheck.OBJECTS, "fix the object, or the schema"),
        (
            "Invalid",
            'the object: ValidatingAdmissionPolicy "p" denied request: no',
            PlanCheck.OBJECTS,
            "Have that policy",
        ),
        ("Forbidden", 'admission webhook "w" denied the request: no', PlanCheck.OBJECTS, "Have that policy or webhook"),
        (
            "InternalError",
            'failed calling webhook "w": connection refused',
            PlanCheck.OBJECTS,
            "See that this webhook runs",
        ),
        ("BadRequest", 'admission webhook "w" does not support dry run', PlanCheck.REHEARSAL, "sideEffects"),
        ("CannotConvert", "it cannot be converted to v1", PlanCheck.OBJECTS, "or its conversion"),
        ("OwnershipWouldBeLost", "Run with --managed-fields translate", PlanCheck.OBJECTS, "Run with"),
        ("RequestEntityTooLarge", "limit is 3145728", PlanCheck.OBJECTS, "make it smaller"),
        ("Conflict", "other clients wrote it 8 times", PlanCheck.REHEARSAL, "Plan again"),
        ("TimedOut", "no answer", PlanCheck.REHEARSAL, "Plan again"),
        ("NotFound", "check that its namespace exists, then run again", PlanCheck.OBJECTS, "namespace exists"),
        ("Odd", "something", PlanCheck.OBJECTS, "Fix what the message names"),
    ],
)
def test_each_refusal_says_what_to_do(reason: str, message: str, check: PlanCheck, says: str) -> None:
    """A sentence without a next step is read as "try again"; one that blames the object for a webhook misleads."""
    found = of_failure(ObjectFailure("ns", "w", reason, message))
    assert (found.check, found.fails) == (check, check is PlanCheck.OBJECTS)
    assert says in found.message and message in found.message
    assert "ns/w" in found.message
    assert (found.namespace, found.name, found.reason) == ("ns", "w", reason)


def test_an_object_of_no_namespace_is_named_alone() -> None:
    """``/w`` is nobody's name."""
    assert of_failure(ObjectFailure("", "w", "Invalid", "no")).message.startswith("w would fail (Invalid): no. ")


def test_very_many_findings_are_counted() -> None:
    """A policy that refuses everything must not fill the memory, nor drown what else was found."""
    findings = PlanFindings()
    for number in range(MOST_EACH + 7):
        findings.add(PlanFinding(check=PlanCheck.OBJECTS, message=str(number), fails=True))
    findings.add(PlanFinding(check=PlanCheck.FIELDS, message="pruned"))
    assert len(findings.listed) == MOST_EACH + 1 and findings.listed[-1].message == "pruned"
    assert findings.more() == {PlanCheck.OBJECTS: 7}
    assert findings.fail


def test_warnings_alone_do_not_fail() -> None:
    """The exit code of a plan hangs on it."""
    findings = PlanFindings()
    assert not findings.fail
    findings.add(PlanFinding(check=PlanCheck.FIELDS, message="pruned"))
    assert not findings.fail and findings.more() == {}
