"""The metrics that an alert is built on: each number after each thing that can happen."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from restow.kube import ElectionEvent
from restow.migrator.model.options import Phase
from restow.migrator.operate.hooks import MigrationDetails, MigrationEvent
from restow.migrator.operate.metrics import MigrationMetrics
from tests.migrator.references.found import helm, named_by, owned

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
CRD = "widgets.example.com"
OBJECTS = {"listed": 12, "rewritten": 9, "current": 3, "translated": 7, "failed": 2, "remaining": 4}


class Scrape:
    """A registry with the metrics in it, and what it says."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._metrics = MigrationMetrics(self.registry)
        self.elected = self._metrics.elected

    def tell(self, event: MigrationEvent, crd: str = CRD, uid: str = "uid-1", **more: Any) -> None:
        self._metrics(MigrationDetails(event=event, at=NOON, crd=crd, uid=uid, **more))

    def __call__(self, name: str, crd: str = CRD, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"restow_migrator_{name}", {"crd": crd} | labels)


@pytest.fixture
def scrape() -> Scrape:
    return Scrape()


def test_a_run_from_start_to_finish(scrape: Scrape) -> None:
    """An alert on ``due`` for an hour, or on the time since the last success, is what tells a person."""
    scrape.tell(MigrationEvent.STARTED, due=tuple(Phase), stored_versions=("v1", "v2"))
    assert (scrape("due"), scrape("stored_versions")) == (1, 2)
    scrape.tell(MigrationEvent.PROGRESS, due=tuple(Phase), remaining=5, objects=OBJECTS)
    assert scrape("objects_remaining") == 5
    assert scrape("objects_total", outcome="rewritten") == 9, "an hour's run must not look as if it stood still"
    scrape.tell(
        MigrationEvent.FINISHED,
        due=tuple(Phase),
        stored_versions=("v2",),
        objects=OBJECTS,
        requests={"list": 1, "write": 9},
        pruned=True,
        duration_s=7.0,
    )
    assert (scrape("due"), scrape("stored_versions"), scrape("objects_remaining")) == (0, 1, 0)
    assert scrape("runs_total", result="finished") == 1
    assert [scrape("objects_total", outcome=each) for each in ("rewritten", "current", "translated")] == [9, 3, 7]
    assert scrape("requests_total", kind="write") == 9
    assert scrape("prunes_total") == 1
    assert scrape("last_success_timestamp_seconds") == NOON.timestamp()
    assert scrape("run_duration_seconds_sum") == 7
    assert scrape("run_duration_seconds_bucket", le="5.0") == 0
    assert scrape("run_duration_seconds_bucket", le="15.0") == 1


def test_what_was_counted_during_a_run_is_not_counted_again_at_its_end(scrape: Scrape) -> None:
    """A rate over counters that jump at the end shows writes that nobody sent; each run counts from its own start."""
    for done in (3, 7, 7):
        scrape.tell(MigrationEvent.PROGRESS, objects={"rewritten": done}, requests={"write": 2 * done})
    assert (scrape("objects_total", outcome="rewritten"), scrape("requests_total", kind="write")) == (7, 14)
    scrape.tell(MigrationEvent.FAILED, objects={"rewritten": 8, "failed": 1}, requests={"write": 17})
    assert (scrape("objects_total", outcome="rewritten"), scrape("requests_total", kind="write")) == (8, 17)
    scrape.tell(MigrationEvent.STARTED)
    scrape.tell(MigrationEvent.PROGRESS, objects={"rewritten": 1}, requests={"write": 1})
    scrape.tell(MigrationEvent.FINISHED, objects={"rewritten": 1}, requests={"write": 1})
    assert (scrape("objects_total", outcome="rewritten"), scrape("requests_total", kind="write")) == (9, 18)
    assert scrape("objects_total", outcome="failed") == 1


def test_another_pass_takes_nothing_off_a_counter(scrape: Scrape) -> None:
    """A counter that falls is a restart to Prometheus, and raises in the client."""
    scrape.tell(MigrationEvent.PROGRESS, objects={"rewritten": 5, "current": 4})
    scrape.tell(MigrationEvent.PROGRESS, objects={"rewritten": 5, "current": 0})
    scrape.tell(MigrationEvent.FINISHED, objects={"rewritten": 6, "current": 5})
    assert [scrape("objects_total", outcome=each) for each in ("rewritten", "current")] == [6, 5]


@pytest.mark.parametrize("event", [MigrationEvent.FAILED, MigrationEvent.STOPPED])
def test_a_run_that_does_not_finish_stays_due(scrape: Scrape, event: MigrationEvent) -> None:
    """It is no success, and what it did is counted all the same."""
    scrape.tell(event, due=(Phase.STORAGE,), stored_versions=("v1", "v2"), objects=OBJECTS, remaining=6)
    assert (scrape("due"), scrape("objects_remaining")) == (1, 6)
    assert scrape("runs_total", result=event.value) == 1
    assert scrape("objects_total", outcome="failed") == 2
    assert scrape("prunes_total") == 0
    assert scrape("last_success_timestamp_seconds") is None


def test_a_refusal_is_counted_and_stays_due(scrape: Scrape) -> None:
    """It took no time and touched nothing, so it is no run in the histogram."""
    scrape.tell(MigrationEvent.REFUSED, due=(Phase.STORAGE,))
    assert (scrape("due"), scrape("runs_total", result="refused")) == (1, 1)
    assert scrape("run_duration_seconds_count") is None and scrape("stored_versions") is None


def test_an_outage_does_not_hide_what_is_due(scrape: Scrape) -> None:
    """A CRD that could not be read is not known to be done; an alert on ``due`` must go on."""
    scrape.tell(MigrationEvent.STARTED, due=(Phase.STORAGE,))
    scrape.tell(MigrationEvent.FAILED, uid="")
    assert (scrape("due"), scrape("runs_total", result="failed")) == (1, 1)
    assert scrape("run_duration_seconds_count") is None


def test_what_is_idle_is_not_due(scrape: Scrape) -> None:
    """Someone else may have done it."""
    scrape.tell(MigrationEvent.REFUSED, due=(Phase.STORAGE,))
    scrape.tell(MigrationEvent.IDLE, stored_versions=("v2",))
    assert (scrape("due"), scrape("objects_remaining"), scrape("stored_versions")) == (0, 0, 1)


def test_a_forgotten_crd_leaves_no_series(scrape: Scrape) -> None:
    """An alert on a CRD that is gone would fire for ever; others are not touched."""
    for crd in (CRD, "gadgets.example.com"):
        scrape.tell(MigrationEvent.FINISHED, crd, stored_versions=("v2",), objects=OBJECTS, requests={"write": 1})
        scrape.tell(MigrationEvent.FAILED, crd, due=(Phase.STORAGE,))
    scrape.tell(MigrationEvent.FORGOTTEN)
    scrape.tell(MigrationEvent.FORGOTTEN, "never.example.com")
    told = generate_latest(scrape.registry).decode()
    assert CRD not in told and "never" not in told
    assert scrape("runs_total", "gadgets.example.com", result="finished") == 1


def test_who_leads_is_seen(scrape: Scrape) -> None:
    """A lease without any leader, or with two, is what one looks for when nothing happens."""
    for leading in (True, False):
        scrape.elected(ElectionEvent("default/m", "one", leading, 3))
        assert scrape.registry.get_sample_value("restow_migrator_leading", {"lease": "default/m"}) == leading


def test_references_are_counted_by_version_and_step(scrape: Scrape) -> None:
    """An alert before a removal looks at these; a version that left the CRD must not keep its last number."""
    found = named_by(owned("configmaps", "a", "b"), owned("nodes", "", "n"), *helm("superseded"), unseen="secrets")
    scrape.tell(MigrationEvent.REFERENCES, references=(found,))
    assert [scrape("references", version="v1", step=step) for step in ("unserving", "removal")] == [2, 2]
    assert scrape("references_not_looked_at") == 1
    assert scrape("references_timestamp_seconds") == NOON.timestamp()
    scrape.tell(MigrationEvent.REFERENCES)
    assert scrape("references", version="v1", step="removal") is None
    assert scrape("references_not_looked_at") == 0
    scrape.tell(MigrationEvent.FORGOTTEN)
    assert scrape("references_timestamp_seconds") is None
