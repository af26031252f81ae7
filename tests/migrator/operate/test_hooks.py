"""The one value that is told: it does not change after it was told, and its sentences say what matters."""

from __future__ import annotations

import logging

import pytest

from restow.migrator.model.options import Phase
from restow.migrator.model.report import CrdReport, ObjectCounts, ObjectFailure
from restow.migrator.operate.hooks import MigrationDetails, MigrationEvent, facts, finding, outcome, progress
from restow.migrator.operate.log import log_details
from tests.migrator import builders as b
from tests.migrator.operate.test_metrics import NOON


def test_what_was_told_does_not_change() -> None:
    """The run goes on counting; a hook may keep what it was told, and must not change the run's own numbers."""
    report = CrdReport(name="w", objects=ObjectCounts(listed=3), expected=9)
    told = facts(b.crd(), report)
    report.objects.listed = 4
    assert told["objects"]["listed"] == 3 and set(told["objects"]) == set(ObjectCounts.__slots__)
    with pytest.raises(TypeError):
        told["objects"]["listed"] = 5


def test_what_remains_is_not_done_or_failed() -> None:
    """A gauge that comes to zero while objects fail would end the alert."""
    counts = ObjectCounts(listed=9, rewritten=4, current=2, gone=1, failed=2)
    told = facts(b.crd(), CrdReport(name="w", objects=counts, expected=12, stored_after=("v1",), storage_version="v3"))
    assert told["remaining"] == 5 and (told["stored_versions"], told["storage_version"]) == (("v1",), "v3")
    assert facts(b.crd(stored=("v1", "v2")))["stored_versions"] == ("v1", "v2")


def test_a_finished_run_is_told_in_numbers() -> None:
    """Zeroes that nobody asks for are left out."""
    counts = ObjectCounts(listed=9, rewritten=8, translated=7, remaining=2, gone=1)
    report = CrdReport(name="w", objects=counts, stored_after=("v2",), pruned=True)
    assert finding(report) == (
        "9 objects: 8 rewritten, 7 translated, 1 gone, 2 keep entries of other served versions, "
        "status.storedVersions was pruned to v2"
    )
    assert finding(CrdReport(name="w", stored_after=("v1", "v2"))).endswith("status.storedVersions is v1, v2")
    unmarked = CrdReport(name="w", stored_after=("v2",), unmarked="no mark: a policy guards it")
    assert finding(unmarked).endswith("status.storedVersions is v2; no mark: a policy guards it")


@pytest.mark.parametrize(
    ("report", "told"),
    [
        (
            CrdReport(
                name="w",
                objects=ObjectCounts(listed=9, failed=2),
                failures=[
                    ObjectFailure("ns", "b", "Forbidden", "denied:\n frozen"),
                    ObjectFailure("ns", "a", "Invalid", "spec.x"),
                ],
            ),
            "2 of 9 objects failed, the first: ns/a (Invalid): spec.x; ns/b (Forbidden): denied: frozen",
        ),
        (
            CrdReport(name="w", objects=ObjectCounts(listed=1, failed=1), failures=[ObjectFailure("", "a", "R", "")]),
            "1 of 1 objects failed, the first: a (R)",
        ),
        (CrdReport(name="w", unfinished="it ended early"), "it ended early"),
        (CrdReport(name="w", pruned_reason="it is being deleted"), "it is being deleted"),
    ],
    ids=["objects", "cluster-scoped", "unfinished", "not pruned"],
)
def test_a_run_that_did_not_finish_says_why(report: CrdReport, told: str) -> None:
    """Where to look first, and what the API server said: on-call would have to run the command again to learn it."""
    assert outcome(report) == told


def test_failures_are_bounded_in_number_and_length() -> None:
    """An Event that is too long is refused, and one that differs with the order of the writes is written each time."""
    failures = [ObjectFailure("ns", f"o{number:02}", "Invalid", "x" * 5000) for number in range(40)]
    report = CrdReport(name="w", objects=ObjectCounts(listed=50, failed=40), failures=failures[::-1])
    told = facts(b.crd(), report)["failed"]
    assert [each.name for each in told] == ["o00", "o01", "o02"]
    assert all(len(each.message) == 301 for each in told)
    assert len(outcome(report).encode()) <= 1024
    assert "failed" in progress(report)


@pytest.mark.parametrize(
    ("event", "after", "said"),
    [
        (MigrationEvent.STOPPED, 0.0, "so it is"),
        (MigrationEvent.FINISHED, 0.0, "so it is; looking again at once"),
        (MigrationEvent.FAILED, 0.4, "so it is; again in 0.4 s"),
        (MigrationEvent.FAILED, 12.3, "so it is; again in 12 s"),
        (MigrationEvent.IDLE, None, "so it is"),
    ],
)
def test_when_it_is_looked_at_again(
    event: MigrationEvent, after: float | None, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A run that was stopped does not go on in 0 seconds: this process is the one that ends."""
    with caplog.at_level(logging.DEBUG, "restow.migrator.operate.log"):
        log_details(
            MigrationDetails(event=event, at=NOON, crd="w.example.com", message="so it is", requeue_after=after)
        )
    (record,) = caplog.records
    assert record.getMessage() == f"w.example.com: {event}: {said}"


@pytest.mark.parametrize(
    ("event", "level"),
    [
        (MigrationEvent.FINISHED, "INFO"),
        (MigrationEvent.REFUSED, "WARNING"),
        (MigrationEvent.FAILED, "WARNING"),
        (MigrationEvent.IDLE, "DEBUG"),
    ],
)
def test_a_log_line_has_its_numbers_as_fields(
    event: MigrationEvent, level: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A JSON formatter finds them without parsing a sentence; what needs nobody is for debugging."""
    with caplog.at_level(logging.DEBUG, "restow.migrator.operate.log"):
        log_details(
            MigrationDetails(
                event=event,
                at=NOON,
                crd="w.example.com",
                due=(Phase.PRUNE,),
                message="so it is",
                requeue_after=5.0,
            )
        )
    (record,) = caplog.records
    assert record.levelname == level
    assert record.getMessage() == f"w.example.com: {event}: so it is; again in 5 s"
    fields = record.migration  # type: ignore[attr-defined]
    assert (fields["crd"], fields["happening"], fields["due"]) == ("w.example.com", event.value, ["prune"])
