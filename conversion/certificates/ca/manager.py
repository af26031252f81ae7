"""Keeps a webhook's certificates: stores, issues, wires and rotates them, in every replica alike.

Each replica runs one ``Certificates``. They need no leader: the replica that finds a step due takes it by
compare-and-swap on the Secret, and the others find it done. ``restow.conversion.certificates.ca.rotation`` decides the
steps; this module carries them out:

    Secrets -> leaf -> files -> (the server loads them) -> probe -> CRDs, webhook configurations

Between two looks the CRDs and configurations are watched, because objects of a CRD whose wiring was undone can be read
at the stored version only. The first replica that notices it writes.

No failure is final: it is reported, and the step is tried again. A Secret that cannot be read does not stop the wiring
with the certificates that can.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from restow.conversion.certificates.apply import HookProbe, Probe, probe_hook
from restow.conversion.certificates.ca.authority import (
    Authority,
    CertificateError,
    LeafCertificate,
    Trust,
    is_signed_by,
)
from restow.conversion.certificates.ca.rotation import Lifetimes, ObservedBundle, RotationDecision, RotationStep, decide
from restow.conversion.certificates.ca.store import SecretStore, install, installed
from restow.conversion.certificates.ca.targets import ConfigurationTarget, CrdTarget, WiringTarget
from restow.conversion.certificates.probe import probe
from restow.conversion.certificates.wiring.clientconfig import NO_BUNDLE, Address, Bundle, Service
from restow.conversion.model.errors import WiringError
from restow.crds import CrdError
from restow.kube import Cluster, KubeError
from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.errors import Conflict, Unreachable, describe_failure
from restow.kube.retry import Backoff
from restow.kube.watch import watch
from restow.kube.watchevents import Added, Deleted, Item, Listed, Modified, WatchEvent

__all__ = ["CertificateDetails", "Certificates", "service_hosts"]


_log = logging.getLogger(__name__)

_MOST_STEPS: Final = 16
_POLL: Final = 30.0  # seconds; how long a change of a Secret, or of what cannot be watched, may go unseen
_WATCH_AGAIN: Final = 300.0  # seconds after which a watch that was refused is tried again
_SPREAD: Final = 0.2  # seconds over which the replicas answer a change: most find it done
_BACKOFF: Final = Backoff(first=1.0, most=30.0)


def service_hosts(service: Service) -> frozenset[str]:
    """Return the DNS names under which a Service is called: by API servers, by pods of its namespace and of others."""
    short = f"{service.name}.{service.namespace}"
    return frozenset({service.name, short, f"{short}.svc", f"{short}.svc.cluster.local"})


@dataclass(frozen=True, slots=True)
class CertificateDetails:
    """The state after one look, for metrics and readiness.

    Attributes:
        taken: steps that this replica took.
        leaf_ends, authority_ends: until when the served certificate and the CA that signs are valid; None where that
            could not be found out.
        wired: CRDs, and webhook configurations (``<kind> <name>``), whose bundle is as it should be.
        problems: what stands in the way, each a sentence.
        unwired: CRDs and webhook configurations of which that is not known.
        in_conflict: those whose wiring another writer undoes repeatedly.
        writes: how often this replica wrote one of them since it began.
        failure: why the certificates could not be kept, a sentence; empty if they could.
    """

    taken: tuple[RotationStep, ...]
    leaf_ends: datetime | None
    authority_ends: datetime | None
    wired: tuple[str, ...]
    problems: tuple[str, ...]
    unwired: tuple[str, ...] = ()
    in_conflict: tuple[str, ...] = ()
    writes: int = 0
    failure: str = ""


@dataclass(frozen=True, slots=True)
class _State:
    """What was found once no step was due any more."""

    leaf: LeafCertificate
    trust: Trust
    decision: RotationDecision
    places: tuple[WiringTarget, ...]
    problems: tuple[str, ...]
    taken: tuple[RotationStep, ...]


def _ignore(_details: CertificateDetails) -> None:
    pass


class Certificates:
    """The certificates of one webhook.

    Args:
        cluster: where Secrets and CRDs are.
        name, namespace: of the Secret with the leaf; the one with the CA is called ``<name>-ca``. The namespace is the
            cluster's default one unless given.
        hosts: DNS names and IP addresses of the webhook; see ``service_hosts``.
        folder: where the leaf is put for the server, as ``tls.crt`` and ``tls.key``.
        crds: the CRDs to wire, by name, each with where its webhook is; None for where the CRD says already.
        configurations: the webhook configurations of admission to keep installed, as documents: each webhook with its
            address and without ``caBundle``.
        former_names: of configurations, by name: what an earlier release called them. It is removed.
        lifetimes: durations.
        poll: seconds between two looks at the most.
        probe, hook_probe: try the webhook before a CRD, or a webhook configuration, is written.
        hook: told after each look, failed ones too; must not block or raise.
        clock: its ``now`` and ``sleep``.
        chance: random numbers from [0, 1), for back-off.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        namespace: str | None = None,
        *,
        hosts: Iterable[str],
        folder: Path,
        crds: Mapping[str, Address | None],
        configurations: Iterable[Mapping[str, Any]] = (),
        former_names: Mapping[str, str] | None = None,
        lifetimes: Lifetimes | None = None,
        poll: float = _POLL,
        probe: Probe = probe,
        hook_probe: HookProbe = probe_hook,
        hook: Callable[[CertificateDetails], None] = _ignore,
        clock: Clock = SYSTEM_CLOCK,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._cluster = cluster
        self._store = SecretStore(cluster, namespace or cluster.default_namespace, name)
        self._name = name
        self._hosts = frozenset(hosts)
        self._folder = folder
        self._places: tuple[WiringTarget, ...] = (
            *(CrdTarget(cluster, crd, address, probe=probe, now=clock.now) for crd, address in crds.items()),
            *(
                ConfigurationTarget(
                    cluster,
                    each,
                    former=(former_names or {}).get(each["metadata"]["name"], ""),
                    probe=hook_probe,
                    now=clock.now,
                )
                for each in configurations
            ),
        )
        self._lifetimes = lifetimes or Lifetimes()
        self._poll = poll
        self._hook = hook
        self._clock = clock
        self._chance = chance
        self._told: tuple[str, ...] = ()
        self._told_of: Exception | None = None
        self._wanted = NO_BUNDLE  # what the last look that went well had wired
        self._woken = asyncio.Event()
        if not self._hosts:
            msg = f"the certificate {name} needs at least one host; see service_hosts()"
            raise ValueError(msg)

    async def prepare(self) -> None:
        """Return once there is a certificate in the folder: what a server has to wait for before it can listen.

        An existing valid certificate is enough: a server that restarts while the CA cannot be read must continue to
        serve.

        Raises:
            CertificateError: a Secret belongs to another owner, or the CA in it is malformed.
            KubeError: the API server refuses a request, or cannot be reached; nothing is retried.
        """
        try:
            await self._agree_on_secrets()
        except (KubeError, CertificateError) as error:
            leaf = installed(self._folder)
            if leaf is None or leaf.not_after <= self._clock.now() or not leaf.hosts >= self._hosts:
                raise
            self._tell_problems((self._not_kept(error),))

    async def run_forever(self) -> None:
        """Look, act and wait, until cancelled. Failures are reported, and tried again."""
        failures = 0
        async with asyncio.TaskGroup() as group:
            for place in self._places:
                group.create_task(self._watch(place), name=f"watch {place.name}")
            while True:
                try:
                    delay = await self.reconcile()
                    failures = 0
                except Exception as error:  # noqa: BLE001 - whatever it is, the next look may go well
                    failures += 1
                    delay = _BACKOFF.delay(failures, self._chance())
                    if error is not self._told_of:
                        self._tell_problems((self._not_kept(error),))
                await self._pause(min(delay, self._poll))

    async def reconcile(self) -> float:
        """Do everything that is due now; return the seconds until something will be, unless the cluster changes.

        Raises:
            CertificateError: a Secret belongs to another owner, or the CA in it is malformed.
            KubeError: the API server refuses a request, or cannot be reached.
            OSError: a file cannot be read or written. All of them come once everything is wired by what can be read.
        """
        try:
            state = await self._agree_on_secrets()
        except Exception as error:
            await self._wire_by_what_is_known(error)
            self._told_of = error
            raise
        self._wanted = state.decision.wanted
        wired, problems, changed = await self._wire(state.places, state.decision.wanted, state.decision.dropped)
        problems = (*state.problems, *problems)
        self._tell_problems(problems)
        self._tell(state.taken, state.leaf.not_after, state.trust.signing.not_after, wired, problems)
        if changed:
            return 0.0
        return _BACKOFF.first if problems else state.decision.after.total_seconds()

    async def rotate_authority(self) -> None:
        """Begin the rotation of the CA now, as before its end; ``reconcile`` carries it on.

        Does nothing if one is under way.

        Raises:
            CertificateError: a Secret belongs to another owner, or the CA in it is malformed.
            KubeError: the API server refuses a request, or cannot be reached.
        """
        while True:
            trust = await self._store.read_trust()
            if trust is None or trust.successor is not None:
                return
            try:
                await self._store.write_trust(trust.with_successor(self._new_authority()))
            except Conflict:
                continue
            return

    async def _agree_on_secrets(self) -> _State:
        """Take every step that is due in the Secrets, and put the leaf into the folder."""
        taken: list[RotationStep] = []
        for _ in range(_MOST_STEPS):
            stored = await self._store.read_leaf()
            leaf = stored or installed(self._folder)
            if leaf is not None and install(self._folder, leaf):
                _log.info("%s: the certificate that ends %s is installed", self._name, leaf.not_after)
            trust = await self._store.read_trust()
            places, seen, problems = await self._look()
            decision = decide(
                trust,
                leaf,
                seen,
                hosts=self._hosts,
                now=self._clock.now(),
                lifetimes=self._lifetimes,
                stored=stored is not None,
            )
            if decision.step is None:
                assert leaf is not None
                assert trust is not None
                return _State(leaf, trust, decision, places, problems, tuple(taken))
            try:
                await self._take(decision, trust, seen)
            except Conflict:
                continue  # another replica was first: look again
            _log.info("%s: %s (%s)", self._name, decision.step, decision.reason)
            taken.append(decision.step)
        msg = f"the certificate {self._name} is changed repeatedly by another writer; see who writes its Secrets"
        raise CertificateError(msg)

    async def _take(self, decision: RotationDecision, trust: Trust | None, seen: Sequence[ObservedBundle]) -> None:
        if trust is None:
            found = Bundle.of(der for observed in seen for der in observed.bundle.certificates)
            await self._store.write_trust(Trust(self._new_authority(), None, found))
            return
        match decision.step:
            case RotationStep.ISSUE:
                now, valid_for = self._clock.now(), self._lifetimes.leaf
                leaf = trust.signing.issue(decision.hosts, now=now, valid_for=valid_for)
                await self._store.write_leaf(leaf, trust.signing)
            case RotationStep.ANNOUNCE:
                await self._store.write_trust(trust.with_successor(self._new_authority()))
            case RotationStep.PROMOTE:
                await self._store.write_trust(trust.promoted())
            case RotationStep.FORGET:
                await self._store.write_trust(trust.forgetting(decision.dropped))

    def _new_authority(self) -> Authority:
        return Authority.create(self._name, now=self._clock.now(), valid_for=self._lifetimes.authority)

    async def _look(self) -> tuple[tuple[WiringTarget, ...], tuple[ObservedBundle, ...], tuple[str, ...]]:
        """Read all places; return those that can be used, the bundles in them, and what is wrong with the others."""
        usable: list[WiringTarget] = []
        seen: list[ObservedBundle] = []
        problems: list[str] = []
        for place in self._places:
            try:
                seen += await place.look()
            except (WiringError, CrdError) as error:
                problems.append(str(error))
            else:
                usable.append(place)
        return tuple(usable), tuple(seen), tuple(problems)

    async def _wire(
        self, places: Iterable[WiringTarget], wanted: Bundle, dropped: Bundle
    ) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
        """Wire the places; return those that are as they should be, the problems, and whether anything was written."""
        wired: list[str] = []
        problems: list[str] = []
        changed = False
        for place in places:
            try:
                changed |= await place.wire(wanted, dropped)
            except (WiringError, CrdError, KubeError) as error:
                problems.append(str(error))
            else:
                wired.append(place.name)
        return tuple(wired), tuple(problems), changed

    async def _wire_by_what_is_known(self, error: Exception) -> None:
        """Have API servers go on verifying what is served, though its keeping failed; take no certificate out."""
        usable: list[WiringTarget] = []
        problems: list[str] = []
        bundle, leaf = self._known(), installed(self._folder)
        if not isinstance(error, Unreachable):  # else nothing can be asked at all
            for place in self._places if bundle else ():
                try:
                    await place.look()
                except (WiringError, CrdError, KubeError) as hindrance:
                    problems.append(str(hindrance))
                else:
                    usable.append(place)
        wired, more, _ = await self._wire(usable, bundle, NO_BUNDLE)
        problems += more
        failure, ends = self._not_kept(error), None if leaf is None else leaf.not_after
        self._tell_problems((failure, *problems))
        self._tell((), ends, None, wired, tuple(problems), failure)

    def _known(self) -> Bundle:
        """The CA certificates that were wired last, or else what can be read of the Secrets; none that are no use."""
        leaf = installed(self._folder)
        for bundle in (self._wanted, self._store.readable()):
            if leaf is not None and any(is_signed_by(leaf, root) for root in bundle.certificates):
                return bundle
        return NO_BUNDLE

    async def _watch(self, place: WiringTarget) -> None:
        """Have a change of a place looked at, if it has to be wired."""
        while True:
            try:
                stream = watch(self._cluster, place.selection, clock=self._clock, chance=self._chance)
                async with stream as events:
                    async for event in events:
                        if any(place.notice(None if item is None else item.json()) for item in _items_of(event)):
                            self._woken.set()
            except Exception as error:  # noqa: BLE001 - looking goes on without
                _log.warning(
                    "%s: %s cannot be watched, so that it takes up to %g s until a change of it is noticed: %s",
                    self._name,
                    place.name,
                    self._poll,
                    describe_failure(error),
                )
            await self._clock.sleep(_WATCH_AGAIN)

    async def _pause(self, seconds: float) -> None:
        """Wait, but no longer than until a place has to be wired."""
        ends = self._clock.monotonic() + seconds
        while (left := ends - self._clock.monotonic()) > 0 and await self._woken_within(left):
            await self._clock.sleep(_SPREAD * self._chance())
            self._woken.clear()
            if any(place.is_undone for place in self._places):
                return

    async def _woken_within(self, seconds: float) -> bool:
        async def passes() -> None:
            await self._clock.sleep(seconds)

        async with asyncio.TaskGroup() as group:
            woken, passed = group.create_task(self._woken.wait()), group.create_task(passes())
            await asyncio.wait((woken, passed), return_when=asyncio.FIRST_COMPLETED)
            woken.cancel()
            passed.cancel()
        return self._woken.is_set()

    def _tell(
        self,
        taken: tuple[RotationStep, ...],
        leaf_ends: datetime | None,
        authority_ends: datetime | None,
        wired: tuple[str, ...],
        problems: tuple[str, ...],
        failure: str = "",
    ) -> None:
        places = self._places
        self._hook(
            CertificateDetails(
                taken,
                leaf_ends,
                authority_ends,
                wired,
                problems,
                unwired=tuple(place.name for place in places if place.name not in wired),
                in_conflict=tuple(place.name for place in places if place.is_in_conflict),
                writes=sum(place.writes for place in places),
                failure=failure,
            )
        )

    def _not_kept(self, error: Exception) -> str:
        told = str(error) if isinstance(error, CertificateError | OSError) else describe_failure(error)
        return f"the certificate {self._name} cannot be kept: {told}"

    def _tell_problems(self, problems: tuple[str, ...]) -> None:
        """Log new problems only: the same sentence every few seconds does not help."""
        for problem in problems:
            if problem not in self._told:
                _log.warning("%s: %s", self._name, problem)
        self._told = problems


def _items_of(event: WatchEvent) -> tuple[Item | None, ...]:
    """Return the object that a watch of one object reports; None if it is gone."""
    match event:
        case Listed(items=items):
            return items or (None,)
        case Added(item=item) | Modified(item=item):
            return (item,)
        case Deleted():
            return (None,)
    return ()
