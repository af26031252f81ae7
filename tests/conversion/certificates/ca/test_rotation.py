"""What is due, as a table; ``test_manager.py`` lets years go by."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from restow.conversion.certificates import Bundle
from restow.conversion.certificates.ca import Lifetimes
from restow.conversion.certificates.ca.authority import Authority, LeafCertificate, Trust
from restow.conversion.certificates.ca.rotation import ObservedBundle, RotationDecision, RotationStep, decide
from restow.conversion.certificates.wiring.clientconfig import NO_BUNDLE

START = datetime(2026, 1, 1, tzinfo=UTC)
DAY, HOUR, SECOND = timedelta(days=1), timedelta(hours=1), timedelta(seconds=1)
LIVES = Lifetimes()  # a CA of 730 days, renewed 180 before; a leaf of 30, renewed 10 before; 1 minute; 1 hour
HOSTS = frozenset({"a", "b"})

OLD = Authority.create("old", now=START, valid_for=LIVES.authority)
NEW = Authority.create("new", now=START, valid_for=LIVES.authority)
OLDS, NEWS = Bundle.of([OLD.der]), Bundle.of([NEW.der])
LONG_AGO = START - 99 * DAY


def leaf(signed_by: Authority = OLD, at: datetime = START, hosts: frozenset[str] = HOSTS) -> LeafCertificate:
    """A leaf."""
    return signed_by.issue(hosts, now=at, valid_for=LIVES.leaf)


def decided(
    trust: Trust | None,
    found: LeafCertificate | None,
    *bundles: Bundle,
    now: datetime = START,
    changed_at: datetime = LONG_AGO,
    hosts: frozenset[str] = HOSTS,
) -> RotationDecision:
    """Decide, with CRDs of these bundles."""
    seen = [ObservedBundle(bundle, changed_at) for bundle in bundles]
    return decide(trust, found, seen, hosts=hosts, now=now, lifetimes=LIVES)


def test_in_the_beginning() -> None:
    """A server has to have a certificate before its CRDs can trust it."""
    assert decided(None, None).step is RotationStep.ESTABLISH
    assert decided(Trust(OLD), None, NO_BUNDLE).step is RotationStep.ISSUE


@pytest.mark.parametrize(
    ("found", "now", "step"),
    [
        (leaf(), START, None),
        (leaf(), START + 20 * DAY - SECOND, None),
        (leaf(), START + 20 * DAY, RotationStep.ISSUE),
        (leaf(hosts=frozenset({"a"})), START, RotationStep.ISSUE),
        (leaf(hosts=frozenset({"a", "b", "c"})), START, None),
        (leaf(NEW), START, RotationStep.ISSUE),
        (leaf(OLD, START + 540 * DAY), START + 550 * DAY - SECOND, None),
        (leaf(OLD, START + 540 * DAY), START + 550 * DAY, RotationStep.ANNOUNCE),
    ],
)
def test_when_something_is_due(found: LeafCertificate, now: datetime, step: RotationStep | None) -> None:
    """Too late is an outage, too early is churn."""
    assert decided(Trust(OLD), found, OLDS, now=now).step is step


def test_a_leaf_for_more_names_keeps_those_it_has() -> None:
    """Replicas of two releases, each with its own list, would replace each other's leaf for ever."""
    more = decided(Trust(OLD), leaf(), OLDS, hosts=frozenset({"b", "c"}))
    assert more.step is RotationStep.ISSUE and more.hosts == {"a", "b", "c"} and "lacks c" in more.reason
    renewed = decided(Trust(OLD), leaf(), OLDS, now=START + 20 * DAY, hosts=frozenset({"b"}))
    assert renewed.step is RotationStep.ISSUE and renewed.hosts == {"b"}


def test_no_leaf_of_a_ca_that_a_crd_does_not_trust() -> None:
    """A leaf of a CA that a CRD does not trust fails to verify from the moment it is served."""
    trust = Trust(NEW, None, OLDS)
    assert decided(trust, leaf(OLD), OLDS | NEWS, OLDS).step is None
    assert decided(trust, leaf(OLD), OLDS | NEWS, OLDS | NEWS).step is RotationStep.ISSUE
    assert decided(trust, None, OLDS).step is RotationStep.ISSUE, "with nothing to serve there is nothing to lose"
    assert decided(trust, leaf(OLD), OLDS, now=START + 30 * DAY).step is RotationStep.ISSUE, "nor with what has ended"


@pytest.mark.parametrize(
    ("bundles", "ago", "step"),
    [
        ((OLDS | NEWS, OLDS | NEWS), timedelta(minutes=1), None),
        ((OLDS | NEWS, OLDS | NEWS), timedelta(minutes=1, seconds=1), RotationStep.PROMOTE),
        ((OLDS | NEWS, OLDS), 9 * DAY, None),
        ((), 9 * DAY, RotationStep.PROMOTE),
    ],
    ids=["not long enough", "long enough", "not everywhere", "no CRD"],
)
def test_promotion(bundles: tuple[Bundle, ...], ago: timedelta, step: RotationStep | None) -> None:
    """An API server that has not seen the CRD's change yet would refuse the new leaf."""
    now = START + 5 * DAY
    assert decided(Trust(OLD, NEW), leaf(), *bundles, now=now, changed_at=now - ago).step is step


def test_the_old_ca_goes_when_its_last_leaf_is_long_gone() -> None:
    """A replica that has not loaded the new leaf yet still serves the old one."""
    trust, new_leaf = Trust(NEW, None, OLDS), leaf(NEW)
    early = decided(trust, new_leaf, OLDS | NEWS, now=START + HOUR - SECOND)
    assert early.step is None and early.dropped == NO_BUNDLE and early.wanted.matches(OLDS | NEWS)
    assert early.after == SECOND
    due = decided(trust, new_leaf, OLDS | NEWS, now=START + HOUR)
    assert due.step is None and due.dropped == OLDS and due.wanted == NEWS
    gone = decided(trust, new_leaf, NEWS, now=START + HOUR)
    assert gone.step is RotationStep.FORGET and gone.dropped == OLDS
    unsigned = decided(trust, leaf(OLD), OLDS, now=START + HOUR)
    assert unsigned.dropped == NO_BUNDLE


def test_a_ca_that_has_ended_is_replaced_without_waiting() -> None:
    """Nothing verifies any more: waiting for CRDs that cannot be wired would make the outage last."""
    now = START + 731 * DAY
    assert decided(Trust(OLD), leaf(), OLDS, now=now).step is RotationStep.ANNOUNCE
    late = Authority.create("late", now=now, valid_for=LIVES.authority)
    assert decided(Trust(OLD, late), leaf(), OLDS, now=now).step is RotationStep.PROMOTE


def test_a_leaf_that_ends_with_its_ca_is_not_issued_again_and_again() -> None:
    """If the rotation is held up, a new leaf at each look would be no better than the last."""
    last = leaf(OLD, START + 715 * DAY)
    assert last.not_after == OLD.not_after
    assert decided(Trust(OLD, NEW), last, OLDS, now=START + 725 * DAY).step is None


@pytest.mark.parametrize(
    "lives",
    [
        {"leaf_renewal": 31 * DAY},
        {"leaf_renewal": timedelta(0)},
        {"authority_renewal": 731 * DAY},
        {"authority_renewal": 30 * DAY},
        {"margin": 150 * DAY},
        {"settle": -SECOND},
    ],
)
def test_lifetimes_by_which_something_would_end_too_early(lives: dict[str, timedelta]) -> None:
    """Lifetimes that contradict each other would end a certificate too early, years later."""
    with pytest.raises(ValueError, match="cannot be"):
        Lifetimes(**lives)
