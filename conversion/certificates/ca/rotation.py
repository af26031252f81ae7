"""The rotation of the CA: the step that is due, one at a time, and the time of the next look.

The law: at no moment does the certificate that a replica serves fail to verify against the bundle of a CRD, or of a
webhook configuration of admission (this page says CRDs for both). This determines the order of a CA's rotation. Each
step is taken only once the previous one can be *seen* in the CRDs:

1. the successor joins the bundle; the wiring brings it into every CRD;
2. when every CRD has had it for `settle`, it is promoted: it signs leaves from now on, and a new leaf at once;
3. when the leaf has been signed by it for `margin`, the wiring removes the old CA from every CRD;
4. when no CRD has the old CA any more, it is forgotten.

A missing leaf is issued at once; otherwise a leaf is issued only by a CA that every CRD has had for `settle`, whether
that CA was promoted or newly made because the Secret was lost.

Pure: the clock is passed in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from restow.conversion.certificates.ca.authority import LeafCertificate, Trust, is_signed_by
from restow.conversion.certificates.wiring.clientconfig import NO_BUNDLE, Bundle


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Durations of a self-managed authority; the defaults suit a cluster.

    Attributes:
        authority: validity of a CA. Long: each rotation makes the API server rebuild the CRDs' watch caches, twice.
        authority_renewal: how long before its end a CA gets a successor.
        leaf: validity of a serving certificate. Its rotation costs a handshake.
        leaf_renewal: how long before its end a leaf is replaced.
        settle: how long every CRD must have had the successor in its bundle before it signs leaves: every API server
            has to see the CRD's change first. Clock differences shorten this time.
        margin: how long an old CA stays in the bundles after the last leaf that it signed was replaced: every replica
            has to load the new one first (a mounted Secret follows within about two minutes).

    Raises:
        ValueError: with these durations a certificate would end before its replacement is in place.
    """

    authority: timedelta = timedelta(days=2 * 365)
    authority_renewal: timedelta = timedelta(days=180)
    leaf: timedelta = timedelta(days=30)
    leaf_renewal: timedelta = timedelta(days=10)
    settle: timedelta = timedelta(minutes=1)
    margin: timedelta = timedelta(hours=1)

    def __post_init__(self) -> None:
        zero = timedelta(0)
        if not zero < self.leaf_renewal < self.leaf:
            msg = f"a leaf that lives {self.leaf} cannot be renewed {self.leaf_renewal} before its end"
            raise ValueError(msg)
        if not self.leaf + self.settle + self.margin < self.authority_renewal < self.authority:
            msg = (
                f"a CA that lives {self.authority} cannot be renewed {self.authority_renewal} before its end: that "
                f"must be shorter than its life, and longer than a leaf ({self.leaf}), settle and margin together"
            )
            raise ValueError(msg)
        if self.settle < zero or self.margin < zero:
            msg = "settle and margin cannot be negative"
            raise ValueError(msg)


_CUT_OFF: Final = timedelta(seconds=1)  # managedFields times are whole seconds, cut off


class RotationStep(StrEnum):
    """A change of the stored certificates."""

    ESTABLISH = "establish the CA"
    ISSUE = "issue a leaf"
    ANNOUNCE = "announce the next CA"
    PROMOTE = "promote the next CA"
    FORGET = "forget the previous CA"


@dataclass(frozen=True, slots=True)
class ObservedBundle:
    """A bundle as it was read in a CRD or a webhook configuration, and the time of its last change.

    Only objects that name this webhook count, and only if restow writes their bundle.
    """

    bundle: Bundle
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class RotationDecision:
    """The step that is due, if any; if none, the time for which nothing will be due by the clock alone.

    Attributes:
        step, reason: the step and its reason.
        wanted: certificates that the CRDs should have in their bundles.
        dropped: certificates that they should not have any more.
        hosts: names and addresses of the leaf to issue.
        after: time until something is due by the clock; a change of a CRD may make something due earlier.
    """

    step: RotationStep | None
    reason: str
    wanted: Bundle = NO_BUNDLE
    dropped: Bundle = NO_BUNDLE
    hosts: frozenset[str] = frozenset()
    after: timedelta = timedelta(0)


def decide(
    trust: Trust | None,
    leaf: LeafCertificate | None,
    seen: Iterable[ObservedBundle],
    *,
    hosts: Iterable[str],
    now: datetime,
    lifetimes: Lifetimes,
    stored: bool = True,
) -> RotationDecision:
    """Decide on the next step.

    Args:
        trust, leaf: as stored; None if there is none.
        seen: the CRDs.
        hosts: names and addresses that the leaf must have. A leaf with more is kept until it ends, and a new one
            keeps them: replicas of two releases, with two lists, would replace each other's for ever.
        now: the time, with a time zone.
        lifetimes: durations.
        stored: whether the leaf is in its Secret; a leaf that is only served is replaced there, for the other replicas.
    """
    if trust is None:
        return RotationDecision(RotationStep.ESTABLISH, "there is no CA yet")
    seen, needed = tuple(seen), frozenset(hosts)
    dropped = _retired(trust, leaf, now, lifetimes)
    wanted = trust.bundle - dropped

    def due(step: RotationStep, reason: str) -> RotationDecision:
        kept = leaf.hosts if leaf is not None and not leaf.hosts >= needed else frozenset()
        return RotationDecision(step, reason, wanted, dropped, needed | kept)

    if trust.signing.not_after <= now:  # it can sign nothing, and nothing verifies any more: no reason to wait
        return due(RotationStep.ANNOUNCE if trust.successor is None else RotationStep.PROMOTE, "the CA has ended")
    reason = _why_issue(trust, leaf, needed, now, lifetimes) or ("" if stored else "the Secret has none to be read")
    if reason and (leaf is None or leaf.not_after <= now or _settled(trust.signing.der, seen, now, lifetimes.settle)):
        return due(RotationStep.ISSUE, reason)
    if trust.successor is None:
        if trust.signing.not_after - now <= lifetimes.authority_renewal:
            return due(RotationStep.ANNOUNCE, f"the CA ends {_day(trust.signing.not_after)}")
    elif _settled(trust.successor.der, seen, now, lifetimes.settle):
        return due(RotationStep.PROMOTE, f"every CRD has trusted it for {lifetimes.settle}")
    if dropped and not any(dropped & observed.bundle for observed in seen):
        return due(RotationStep.FORGET, "nothing was signed by it any more, and no CRD has it")
    after = _next_moment(trust, leaf, now, lifetimes)
    return RotationDecision(
        None, "", wanted, dropped, needed, min(after, lifetimes.settle + _CUT_OFF) if reason else after
    )


def _why_issue(
    trust: Trust, leaf: LeafCertificate | None, hosts: frozenset[str], now: datetime, lifetimes: Lifetimes
) -> str:
    if leaf is None:
        return "there is no leaf yet"
    if leaf.not_after - now <= lifetimes.leaf_renewal and leaf.not_after < trust.signing.not_after:
        return f"the leaf ends {_day(leaf.not_after)}"
    if not leaf.hosts >= hosts:
        return f"the leaf lacks {' and '.join(sorted(hosts - leaf.hosts))}"
    if not is_signed_by(leaf, trust.signing.der):
        return "the leaf is signed by another CA"
    return ""


def _settled(certificate: bytes, seen: tuple[ObservedBundle, ...], now: datetime, settle: timedelta) -> bool:
    """Whether every CRD has had a certificate for the settle time."""
    return all(
        certificate in observed.bundle.certificates and now - observed.changed_at >= settle + _CUT_OFF
        for observed in seen
    )


def _retired(trust: Trust, leaf: LeafCertificate | None, now: datetime, lifetimes: Lifetimes) -> Bundle:
    """Return the certificates that no served certificate needs any more."""
    if leaf is None or not is_signed_by(leaf, trust.signing.der) or now - leaf.made_at < lifetimes.margin:
        return NO_BUNDLE
    return trust.previous


def _next_moment(trust: Trust, leaf: LeafCertificate | None, now: datetime, lifetimes: Lifetimes) -> timedelta:
    moments = [trust.signing.not_after - lifetimes.authority_renewal] if trust.successor is None else []
    if trust.successor is not None:
        moments.append(now + lifetimes.settle)
    if leaf is not None:
        moments.append(leaf.not_after - lifetimes.leaf_renewal)
        moments += [leaf.made_at + lifetimes.margin] if trust.previous else []
    later = [moment - now for moment in moments if moment > now]
    return min(later, default=lifetimes.settle)


def _day(moment: datetime) -> str:
    return f"on {moment:%Y-%m-%d %H:%M} UTC"
