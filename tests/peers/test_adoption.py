"""Objects that Cluster API's own webhook stored, with what it stashed in them, converted by restow."""

from __future__ import annotations

import copy
from random import Random
from typing import Any, Final

import pytest

from restow.conversion import Adopted, Registry
from restow.conversion.compile.graph import Graph
from restow.conversion.rules.onesided import Private
from tests.peers.peer import Peer
from tests.peers.peers import PEERS

pytestmark = pytest.mark.timeout(1800)  # make peers builds the program

DATA: Final = "cluster.x-k8s.io/conversion-data"
ADOPTING: Final = [peer for peer in PEERS if DATA in peer.stashes]
SEEDS: Final = 40


def graph(peer: Peer, *adopted: Adopted) -> Graph:
    """Return the compiled conversions of a kind that adopt what was stashed."""
    registry = Registry()
    crd = peer.definition()
    kind = registry.kind(crd.group, crd.kind, hub=peer.hub, adopt=adopted)
    kind.spoke(peer.spoke)(lambda: [*peer.declared(), *peer.functions()])
    return registry.freeze([crd])


def bare(obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object without annotations."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "annotations"}
    return {**obj, "metadata": metadata}


@pytest.mark.parametrize("peer", ADOPTING, ids=[peer.kind for peer in ADOPTING])
def test_what_the_project_stashed_is_not_lost(peer: Peer) -> None:
    """A provider that replaces its Go webhook has these annotations in every object; the hub's fields are in them."""
    comparison = peer.comparison()
    adopting, plain = graph(peer, Adopted(DATA, peer.hub)), graph(peer)
    richer = 0
    with peer.oracle() as oracle:
        for seed in range(SEEDS):
            hub = comparison.generator(peer.hub).object(Random(seed))
            stored = oracle.convert(hub, comparison.api(peer.spoke)).object
            if stored is None or DATA not in stored["metadata"].get("annotations", {}):
                continue
            found = adopting.convert(copy.deepcopy(stored), comparison.api(peer.hub))
            assert DATA not in found["metadata"].get("annotations", {})
            lost = plain.convert(copy.deepcopy(stored), comparison.api(peer.hub))
            richer += bare(found) != bare(lost)
            for rule in peer.declared():
                if isinstance(rule, Private) and rule.hub and rule.acknowledge is None:
                    path = rule.hub[0].split(".")
                    assert at(found, path) == at(hub, path), (seed, rule)
    assert richer


def at(value: Any, path: list[str]) -> Any:
    """What stands at a path."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
