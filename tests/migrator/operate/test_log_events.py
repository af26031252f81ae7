"""Events: what they say, and that neither a loop nor a long message floods anybody."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.migrator.operate.hooks import MigrationDetails, MigrationEvent
from restow.migrator.operate.log import EventLimiter, event_of

NOON = datetime(2026, 1, 2, 12, 0, tzinfo=UTC)
SAID = (
    MigrationEvent.STARTED,
    MigrationEvent.FINISHED,
    MigrationEvent.STOPPED,
    MigrationEvent.FAILED,
    MigrationEvent.REFUSED,
)


def details(
    event: MigrationEvent = MigrationEvent.FAILED, at: float = 0.0, message: str = "why", **more: Any
) -> MigrationDetails:
    """Something that happened, some seconds after noon."""
    facts = {"crd": "widgets.example.com", "uid": "uid-1"} | more
    return MigrationDetails(event=event, at=NOON + timedelta(seconds=at), message=message, **facts)


def test_an_event_says_what_an_api_server_asks_for() -> None:
    """A field that is missing or too long is a 422, and nobody hears anything."""
    body = event_of(details(message="ö" * 2000), "example.com/operator", "p" * 300)
    assert body is not None
    note = body.pop("note")
    assert len(note.encode()) <= 1024 and note.startswith("öö") and note.endswith("…")
    assert body == {
        "metadata": {"generateName": "widgets.example.com-", "namespace": "default"},
        "eventTime": "2026-01-02T12:00:00.000000Z",
        "type": "Warning",
        "reason": "MigrationFailed",
        "action": "Migrate",
        "regarding": {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "name": "widgets.example.com",
            "uid": "uid-1",
        },
        "reportingController": "example.com/operator",
        "reportingInstance": "p" * 128,
    }


@pytest.mark.parametrize("event", [each for each in MigrationEvent if each not in SAID])
def test_what_is_nobodys_news_is_no_event(event: MigrationEvent) -> None:
    """Nothing due, or progress every ten seconds, is for logs and metrics."""
    assert event_of(details(event), "c", "i") is None
    assert not EventLimiter().worth_saying(details(event))


def test_a_crd_that_could_not_be_read_has_no_events() -> None:
    """An Event without the uid of its object is shown by no ``kubectl describe``."""
    assert event_of(details(uid=""), "c", "i") is None
    assert not EventLimiter().worth_saying(details(uid=""))


def test_what_is_found_again_as_before_is_said_once_an_hour() -> None:
    """A refusal that lasts is still to be seen when the API server has dropped its first Event."""
    said = EventLimiter()
    ours = [details(MigrationEvent.STARTED, at) if at % 2 else details(MigrationEvent.FAILED, at) for at in range(3603)]
    heard = [each.at.timestamp() - NOON.timestamp() for each in ours if said.worth_saying(each)]
    assert heard == [0, 1, 3600, 3601]


def test_news_is_said_at_once() -> None:
    """Another reason, another CRD, or the same reason after a success."""
    said = EventLimiter()
    assert said.worth_saying(details())
    assert said.worth_saying(details(message="another reason"))
    assert said.worth_saying(details(crd="gadgets.example.com"))
    assert said.worth_saying(details(MigrationEvent.FINISHED))
    assert said.worth_saying(details(message="another reason"))
    assert not said.worth_saying(details(message="another reason"))
    said.worth_saying(details(MigrationEvent.FORGOTTEN))
    assert said.worth_saying(details(message="another reason"))


@given(st.lists(st.tuples(st.sampled_from(SAID), st.text(max_size=2), st.floats(0, 60)), max_size=200))
def test_whatever_goes_on_events_are_bounded(happened: list[tuple[MigrationEvent, str, float]]) -> None:
    """A loop of flips, or counts that differ each time, must not fill etcd with Events."""
    said, at, heard = EventLimiter(), 0.0, 0
    for event, message, after in happened:
        at += after
        heard += said.worth_saying(details(event, at, message))
    assert heard <= 25 + at / 300
