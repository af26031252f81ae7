"""The conversions of other projects, as rules here: what their own compiled code gives, restow gives."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import partial

import pytest

from benchmarks.records import load, recorded_tables
from benchmarks.tables import Result
from restow.conversion import rules
from restow.conversion.model.values import Json
from tests.peers.__main__ import sizes
from tests.peers.comparison import Comparison, Findings, smallest
from tests.peers.oracle import Oracle
from tests.peers.peer import Peer
from tests.peers.peers import PEERS

SEEDS = 5_000 if os.environ.get("RESTOW_HYPOTHESIS_PROFILE") == "nightly" else 100
"""Each seed gives an object of either version."""

pytestmark = pytest.mark.timeout(1800)  # make peers builds the program


def report(comparison: Comparison, oracle: Oracle, found: Findings) -> str:
    """What a person needs to see of findings: the first of each sort, with the smallest object that shows it."""
    lines = [f"{law} ({name})\n  {json.dumps(obj)}" for law, (name, obj) in found.broken.items()]
    for label, (name, each, obj) in found.unexplained.items():
        if each.phase == "conversion":
            obj = smallest(obj, partial(shows, comparison, oracle, label))  # noqa: PLW2901
        values = f"  Go:     {json.dumps(each.go, default=str)}\n  restow: {json.dumps(each.restow, default=str)}"
        lines.append(f"{label} ({name})\n{values}\n  of {json.dumps(obj)}")
    return "\n".join(lines)


def shows(comparison: Comparison, oracle: Oracle, label: str, obj: Json) -> bool:
    """Whether the conversion of an object differs in that place, without a row that explains it."""
    for version in comparison.versions:
        if comparison.api(version) != obj["apiVersion"]:
            answer, shown = (
                oracle.convert(obj, comparison.api(version)),
                comparison.graph.convert(obj, comparison.api(version)),
            )
            found = comparison.differences("conversion", answer, shown, version)
            return any(each.label == label and comparison.table.entry(each) is None for each in found)
    return False


@pytest.mark.parametrize("peer", PEERS, ids=[peer.kind for peer in PEERS])
def test_converts_as_the_project_does(peer: Peer) -> None:
    """A rule that says something else than the project's own code would corrupt the objects of its users."""
    comparison = peer.comparison()
    with peer.oracle() as oracle:
        found = comparison.run(oracle, range(SEEDS))
        assert not found.unexplained and not found.broken, report(comparison, oracle, found)
    assert found.objects == 2 * SEEDS and found.equal > 0


def test_a_wrong_rule_is_found() -> None:
    """A comparison that overlooks a wrong rule proves nothing of the right ones."""
    peer = next(peer for peer in PEERS if peer.kind == "ClusterQueue")
    path = "spec.flavorFungibility.whenCanBorrow"
    wrong = rules.enum(path, {}, up={"Borrow": "TryNextFlavor"})
    right = [rule for rule in peer.declared() if path not in rule.spoke]
    comparison = replace(peer, rules=lambda: [*right, wrong]).comparison()
    with peer.oracle() as oracle:
        found = comparison.run(oracle, range(20))
        label = f"ClusterQueue conversion to v1beta2, .{path}: the values differ"
        assert label in found.unexplained
        assert label in report(comparison, oracle, found)


def test_a_row_of_the_table_explains_only_its_place() -> None:
    """A row that explains too much hides what it was not written for."""
    peer = next(peer for peer in PEERS if peer.kind == "Task")
    comparison = peer.comparison()
    with peer.oracle() as oracle:
        everything = comparison.run(oracle, range(20))
        comparison.table.entries = [entry for entry in comparison.table.entries if "restartPolicy" not in entry.at[0]]
        found = comparison.run(oracle, range(20))
    assert everything.explained and not everything.unexplained
    assert {each.at for _, each, _ in found.unexplained.values()} == {".spec.sidecars[].restartPolicy"}


def test_the_lines_are_counted_as_they_are() -> None:
    """The comparison would quote lines of rules that have changed since."""
    recorded = load()["peers"]
    assert recorded.table("Lines") == recorded_tables(Result("", [sizes(PEERS)]))[0]
    assert [row[0] for row in recorded.table("Conversions").rows] == [peer.kind for peer in PEERS]
