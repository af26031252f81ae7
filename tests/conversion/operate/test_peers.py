"""Which replica is ready when some cannot compile the rules of some kinds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from restow.conversion.operate.peers import Peers
from restow.conversion.operate.revisions import Report, RevisionRecord

REPLICAS = ("a", "b", "c")
KINDS = ("jobs", "tasks", "runs")


def records(served: dict[str, frozenset[str]]) -> list[RevisionRecord]:
    """The record of each kind, with the reports of the replicas that live."""
    return [
        RevisionRecord(
            kind,
            active="new",
            wired=True,
            reports={
                name: Report(("new",), "new") if kind in kinds else Report(problem="no such rule")
                for name, kinds in served.items()
            },
        )
        for kind in KINDS
    ]


def unready(served: dict[str, frozenset[str]], name: str) -> str:
    """What a replica says."""
    peers = Peers(name)
    for record in records(served):
        peers.note(record, "new" if record.crd in served[name] else "")
    return peers.unready(frozenset(served))


@given(st.dictionaries(st.sampled_from(REPLICAS), st.frozensets(st.sampled_from(KINDS)), min_size=1))
def test_some_replica_is_always_ready(served: dict[str, frozenset[str]]) -> None:
    """Replicas that lack different kinds would wait for each other, and no kind would have a webhook."""
    ready = {name for name in served if not unready(served, name)}
    complete = {name for name, kinds in served.items() if kinds == frozenset(KINDS)}
    assert ready == (complete or set(served))


def test_what_does_not_concern_api_servers_does_not_count() -> None:
    """A new kind that is not wired yet, or only a candidate, would take replicas out of the Service."""
    peers = Peers("a")
    reports = {"b": Report(("new",), "new")}
    for record in (
        RevisionRecord("jobs", active="new", reports=reports),
        RevisionRecord("tasks", candidate="new", wired=True, reports=reports),
    ):
        peers.note(record, "")
    assert not peers.lacked and not peers.unready(frozenset("ab"))


def test_a_dead_replica_is_not_relied_on() -> None:
    """Its reports stay in the ConfigMap after it was killed."""
    peers = Peers("a")
    peers.note(RevisionRecord("jobs", active="new", wired=True, reports={"b": Report(("new",), "new")}), "")
    assert "the replica b converts every kind" in peers.unready(frozenset("ab"))
    assert peers.unready(frozenset("a")) == ""
    assert peers.is_served_elsewhere("jobs", frozenset("ab")) and not peers.is_served_elsewhere("jobs", frozenset("a"))
