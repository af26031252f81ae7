"""What a run tells of itself: the JSON's shape, the result's precedence, and bounds."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from restow.migrator.model import report as report_module
from restow.migrator.model.report import (
    MOST_FAILURES,
    CrdReport,
    MigrationReport,
    MigrationResult,
    ObjectCounts,
    ObjectFailure,
    Requests,
)

DESIGN: dict[str, Any] = {
    "name": str,
    "storageVersion": str,
    "storedVersionsBefore": list,
    "storedVersionsAfter": list,
    "pruned": bool,
    "prunedReason": str,
    "objects": dict.fromkeys(
        ("listed", "rewritten", "current", "translated", "stripped", "gone", "failed", "remaining"), int
    ),
    "requests": dict.fromkeys(("list", "read", "write", "retried"), int),
    "failures": [dict.fromkeys(("namespace", "name", "reason", "message"), str)],
    "durationSeconds": float,
}
"""Design §9: the keys of one CRD's report, and what stands there."""


def fits(value: Any, shape: Any) -> bool:
    """Whether a value has at least what a shape names."""
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(key in value and fits(value[key], of) for key, of in shape.items())
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(item, shape[0]) for item in value)
    return type(value) is shape


def full() -> CrdReport:
    """A report in which every number is another one."""
    return CrdReport(
        name="widgets.example.com",
        storage_version="v2",
        stored_before=("v1", "v2"),
        stored_after=("v2",),
        pruned=True,
        pruned_reason="every object is stored at the storage version",
        objects=ObjectCounts(*range(1, 10)),
        requests=Requests(11, 12, 13, 14, 15),
        conversions=16,
        failures=[ObjectFailure("ns", "one", "Forbidden", "not allowed")],
        stripped_owners={("bob", "example.com/v0"): 2, ("alice", "example.com/v0"): 1},
        kept_owners={("dora", "example.com/v1"): 3},
        warnings=["mind the gap"],
        duration_s=1.23456,
    )


@pytest.mark.parametrize("crd", [CrdReport(name="widgets.example.com"), full()], ids=["empty", "full"])
def test_the_json_has_the_designs_keys_and_types(crd: CrdReport) -> None:
    """Pipelines read these keys; one that is missing, renamed or of another type breaks them."""
    told = json.loads(json.dumps(MigrationReport((crd,)).to_json()))
    assert isinstance(told["result"], str)
    assert len(told["crds"]) == 1
    assert fits(told["crds"][0], DESIGN)


def test_every_number_stands_under_its_own_name() -> None:
    """Two counts that change places would tell of failures where objects were rewritten."""
    told = full().to_json()
    assert told["objects"] == {
        "listed": 1,
        "rewritten": 2,
        "current": 3,
        "translated": 4,
        "stripped": 5,
        "gone": 6,
        "failed": 7,
        "remaining": 8,
        "repaired": 9,
    }
    assert told["requests"] == {"list": 11, "read": 12, "write": 13, "retried": 14, "review": 15}
    assert told["conversions"] == 16
    assert (told["storedVersionsBefore"], told["storedVersionsAfter"]) == (["v1", "v2"], ["v2"])
    assert told["failures"] == [{"namespace": "ns", "name": "one", "reason": "Forbidden", "message": "not allowed"}]
    assert (told["pruned"], told["durationSeconds"], told["warnings"]) == (True, 1.235, ["mind the gap"])


def test_stripped_and_kept_owners_are_told_by_name() -> None:
    """Whoever lost ownership must be found in the report, in an order that does not change from run to run."""
    assert full().to_json()["keptOwners"] == [{"manager": "dora", "apiVersion": "example.com/v1", "entries": 3}]
    assert full().to_json()["strippedOwners"] == [
        {"manager": "alice", "apiVersion": "example.com/v0", "entries": 1},
        {"manager": "bob", "apiVersion": "example.com/v0", "entries": 2},
    ]


DONE = CrdReport(name="done")
REFUSED = CrdReport(name="refused", refused="it is being deleted")
UNFINISHED = CrdReport(name="unfinished", unfinished="asked to stop")
FAILED = CrdReport(name="failed", objects=ObjectCounts(failed=1))


@pytest.mark.parametrize(
    ("crds", "dry_run", "result"),
    [
        ((), False, MigrationResult.SUCCEEDED),
        ((DONE,), False, MigrationResult.SUCCEEDED),
        ((DONE,), True, MigrationResult.DRY_RUN),
        ((DONE, REFUSED), False, MigrationResult.REFUSED),
        ((DONE, REFUSED), True, MigrationResult.REFUSED),
        ((DONE, UNFINISHED), False, MigrationResult.FAILED),
        ((DONE, FAILED), False, MigrationResult.FAILED),
        ((DONE, FAILED), True, MigrationResult.FAILED),
        ((REFUSED, FAILED), False, MigrationResult.FAILED),
        ((REFUSED, UNFINISHED), True, MigrationResult.FAILED),
    ],
)
def test_the_worst_that_happened_is_the_result(
    crds: tuple[CrdReport, ...], dry_run: bool, result: MigrationResult
) -> None:
    """The exit code hangs on it: a success must not hide a failure of another CRD, whatever the order."""
    for order in itertools.permutations(crds):
        assert MigrationReport(order, dry_run=dry_run).result is result
        assert MigrationReport(order, dry_run=dry_run).to_json()["result"] == result.value


@pytest.mark.parametrize(
    ("crd", "complete"),
    [(DONE, True), (REFUSED, False), (UNFINISHED, False), (FAILED, False)],
    ids=lambda v: str(v)[:24],
)
def test_complete_means_every_object(crd: CrdReport, complete: bool) -> None:
    """Only a complete pass may lead to a prune."""
    assert crd.complete is complete


def test_failures_are_counted_without_end_and_listed_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A million failing objects must not take a million rows of memory, and must all be counted."""
    assert MOST_FAILURES == 10_000
    monkeypatch.setattr(report_module, "MOST_FAILURES", 3)
    crd = CrdReport(name="widgets.example.com")
    for number in range(5):
        crd.fail(ObjectFailure("ns", f"object {number}", "Forbidden", "not allowed"))
    assert crd.objects.failed == 5
    assert [each.name for each in crd.failures] == ["object 0", "object 1", "object 2"]


def test_a_long_message_is_cut() -> None:
    """An admission webhook that says a megabyte about each of ten thousand objects would end the Job by its memory."""
    crd = CrdReport(name="widgets.example.com")
    crd.fail(ObjectFailure("ns", "w", "Forbidden", "denied: " + "x" * 2**20))
    assert crd.failures[0].message.startswith("denied: x") and len(crd.failures[0].message) < 2100


def test_another_pass_keeps_what_was_done_and_counts_the_rest_again() -> None:
    """Two passes over the same objects must not double the objects, nor hide what the first one rewrote."""
    crd = full()
    crd.unfinished = "asked to stop"
    crd.begin_pass()
    assert crd.objects == ObjectCounts(rewritten=2, translated=4, stripped=5, repaired=9)
    assert (crd.failures, crd.unfinished, crd.passes) == ([], "", 1)
    assert crd.stripped_owners == full().stripped_owners
    assert crd.requests == Requests(11, 12, 13, 14, 15)
    assert crd.conversions == 16


def test_done_counts_the_objects_of_this_pass() -> None:
    """What an earlier pass rewrote must not make an interrupted second pass look finished."""
    crd = CrdReport(name="widgets.example.com", objects=ObjectCounts(listed=5, rewritten=3, current=1, gone=1))
    assert crd.done == 5
    crd.begin_pass()
    assert crd.done == 0
    crd.objects.rewritten += 1
    crd.objects.failed += 1
    assert crd.done == 2
