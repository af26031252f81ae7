"""What a reconciler remembers: its own proofs, failures in a row, and how long a CRD is left alone."""

from __future__ import annotations

import pytest

from restow.kube.retry import Backoff
from restow.migrator.operate.reconciler import Memory
from tests.migrator import builders as b

CRD = b.crd()
NEXT = b.crd(generation=2)
ALWAYS = 1.0


@pytest.fixture
def memory() -> Memory:
    return Memory(Backoff(first=10.0, most=35.0))


def test_ones_own_proof_is_remembered(memory: Memory) -> None:
    """A process without the right to annotate must not begin again at each event."""
    assert memory.proof(CRD.name) == ""
    memory.finished(CRD.name, "own")
    assert memory.proof(CRD.name) == "own"


def test_a_failed_crd_is_left_alone_for_its_backoff(memory: Memory) -> None:
    """Each failure in a row doubles the wait, up to the most."""
    now = 100.0
    for failures, delay in ((1, 10.0), (2, 20.0), (3, 35.0), (4, 35.0)):
        assert memory.failed(CRD, now, ALWAYS) == delay
        assert memory.failures(CRD.name) == failures
        assert memory.wait(CRD, now + delay - 1) == 1.0
        assert memory.wait(CRD, now + delay) == 0.0
        now += delay


def test_a_change_of_the_spec_ends_the_wait(memory: Memory) -> None:
    """It may be what was missing; the failures are forgotten only by success."""
    memory.failed(CRD, 0.0, ALWAYS)
    assert memory.wait(NEXT, 0.0) == 0.0 and memory.wait(b.crd(uid="uid-2"), 0.0) == 0.0
    assert memory.wait(CRD, 0.0) == 10.0


def test_a_refusal_costs_nothing_so_it_holds_nothing_up(memory: Memory) -> None:
    """Whatever event comes, the CRD may be looked at; only without events there is a back-off."""
    assert memory.refused(CRD.name, ALWAYS) == 10.0
    assert memory.wait(CRD, 0.0) == 0.0
    assert memory.refused(CRD.name, ALWAYS, at_least=50.0) == 50.0


def test_success_forgets_failures_and_keeps_the_proof(memory: Memory) -> None:
    """The next failure begins with the shortest wait."""
    memory.failed(CRD, 0.0, ALWAYS)
    memory.finished(CRD.name, "own")
    assert memory.failures(CRD.name) == 0 and memory.wait(CRD, 0.0) == 0.0
    memory.failed(CRD, 0.0, ALWAYS)
    memory.calm(CRD.name)
    assert memory.failures(CRD.name) == 0 and memory.wait(CRD, 0.0) == 0.0
    assert memory.proof(CRD.name) == "own"


def test_forgetting_tells_whether_there_was_anything(memory: Memory) -> None:
    """What was never looked at is not told of as gone."""
    assert not memory.forget(CRD.name)
    memory.calm(CRD.name)
    assert memory.forget(CRD.name) and not memory.forget(CRD.name)
