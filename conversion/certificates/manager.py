"""Keeps a webhook's certificates: stores, issues, wires and rotates them, in every replica alike.

Each replica runs one `Certificates`. They need no leader: whoever finds a step due takes it by compare-and-swap on the
Secret, and the others find it done. What to do is decided by `restow.conversion.certificates.schedule`; this module
carries it out:

    Secrets -> leaf -> files -> (the server loads them) -> probe -> CRDs, webhook configurations

Nothing here fails for good: what the world does not allow yet is reported, and tried again.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from restow.conversion.certificates.authority import Authority, CertificateError, Leaf
from restow.conversion.certificates.files import install, installed
from restow.conversion.certificates.lifetimes import Lifetimes
from restow.conversion.certificates.places import ConfigurationPlace, CrdPlace, Place
from restow.conversion.certificates.schedule import Decision, Sighting, Step, decide
from restow.conversion.certificates.store import SecretStore
from restow.conversion.certificates.trust import Trust
from restow.conversion.wiring.address import Address, Service
from restow.conversion.wiring.bundle import Bundle
from restow.conversion.wiring.errors import WiringError
from restow.conversion.wiring.installing import HookProbe, probe_hook
from restow.conversion.wiring.probe import probe
from restow.conversion.wiring.wire import Probe
from restow.crds import CrdError
from restow.kube import Cluster, KubeError
from restow.kube.backoff import Backoff
from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.errors import Conflict

__all__ = ["CertificateDetails", "Certificates", "service_hosts"]

_log = logging.getLogger(__name__)

_MOST_STEPS: Final = 16
_POLL: Final = 30.0  # seconds; how long a change of a Secret or a CRD may go unseen
_BACKOFF: Final = Backoff(first=1.0, most=30.0)


def service_hosts(service: Service) -> frozenset[str]:
    """Return the DNS names under which a Service is called: by API servers, by pods of its namespace and of others."""
    short = f"{service.name}.{service.namespace}"
    return frozenset({service.name, short, f"{short}.svc", f"{short}.svc.cluster.local"})


@dataclass(frozen=True, slots=True)
class CertificateDetails:
    """Where things stand after one look, for metrics and readiness.

    Attributes:
        taken: steps that this replica took.
        leaf_ends, authority_ends: until when the served certificate and the CA that signs are valid.
        wired: CRDs, and webhook configurations (`<kind> <name>`), whose bundle is as it should be.
        problems: what stands in the way, each a sentence.
    """

    taken: tuple[Step, ...]
    leaf_ends: datetime
    authority_ends: datetime
    wired: tuple[str, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _State:
    """What was found once no step was due any more."""

    leaf: Leaf
    trust: Trust
    decision: Decision
    places: tuple[Place, ...]
    problems: tuple[str, ...]
    taken: tuple[Step, ...]


def _ignore(_details: CertificateDetails) -> None:
    pass


class Certificates:
    """The certificates of one webhook.

    Args:
        cluster: where Secrets and CRDs are.
        name, namespace: of the Secret with the leaf; the one with the CA is called `<name>-ca`. The namespace is the
            cluster's default one unless given.
        hosts: DNS names and IP addresses of the webhook; see `service_hosts`.
        folder: where the leaf is put for the server, as `tls.crt` and `tls.key`.
        crds: the CRDs to wire, by name, each with where its webhook is; None for where the CRD says already.
        configurations: the webhook configurations of admission to keep installed, as documents: each webhook with its
            address and without `caBundle`.
        lifetimes: durations.
        poll: seconds between two looks at the most.
        probe, hook_probe: try the webhook before a CRD, or a webhook configuration, is written.
        hook: told after each look; must not block or raise.
        clock: its `now` and `sleep`.
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
        self._places: tuple[Place, ...] = (
            *(CrdPlace(cluster, crd, address, probe=probe, now=clock.now) for crd, address in crds.items()),
            *(ConfigurationPlace(cluster, each, probe=hook_probe, now=clock.now) for each in configurations),
        )
        self._lifetimes = lifetimes or Lifetimes()
        self._poll = poll
        self._hook = hook
        self._clock = clock
        self._chance = chance
        self._told: tuple[str, ...] = ()
        if not self._hosts:
            msg = f"the certificate {name} needs at least one host; see service_hosts()"
            raise ValueError(msg)

    async def prepare(self) -> None:
        """Return once there is a certificate in the folder: what a server has to wait for before it can listen.

        Raises CertificateError, KubeError; nothing is retried.
        """
        await self._settle_secrets()

    async def run_forever(self) -> None:
        """Look, act, wait; until cancelled."""
        failures = 0
        while True:
            try:
                delay = await self.reconcile()
                failures = 0
            except (KubeError, CertificateError, OSError) as error:
                failures += 1
                delay = _BACKOFF.delay(failures, self._chance())
                self._tell_problems((f"the certificate {self._name} cannot be kept: {error}",))
            await self._clock.sleep(min(delay, self._poll))

    async def reconcile(self) -> float:
        """Do everything that is due now; return the seconds until something will be, unless the cluster changes.

        Raises CertificateError, KubeError, OSError.
        """
        state = await self._settle_secrets()
        wired, problems, changed = await self._wire(state)
        self._tell_problems(problems)
        self._hook(
            CertificateDetails(state.taken, state.leaf.not_after, state.trust.signing.not_after, wired, problems)
        )
        if changed:
            return 0.0
        return _BACKOFF.first if problems else state.decision.after.total_seconds()

    async def rotate_authority(self) -> None:
        """Begin the rotation of the CA now, as before its end; `reconcile` carries it on.

        Does nothing if one is under way. Raises CertificateError, KubeError.
        """
        while True:
            _, trust = await self._store.read()
            if trust is None or trust.successor is not None:
                return
            try:
                await self._store.write_trust(trust.with_successor(self._new_authority()))
            except Conflict:
                continue
            return

    async def _settle_secrets(self) -> _State:
        """Take every step that is due in the Secrets, and put the leaf into the folder."""
        taken: list[Step] = []
        for _ in range(_MOST_STEPS):
            stored, trust = await self._store.read()
            leaf = stored or installed(self._folder)
            if leaf is not None and install(self._folder, leaf):
                _log.info("%s: the certificate that ends %s is installed", self._name, leaf.not_after)
            places, seen, problems = await self._look()
            decision = decide(trust, leaf, seen, hosts=self._hosts, now=self._clock.now(), lifetimes=self._lifetimes)
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
        msg = f"the certificate {self._name} is changed again and again by somebody else; see who writes its Secrets"
        raise CertificateError(msg)

    async def _take(self, decision: Decision, trust: Trust | None, seen: Sequence[Sighting]) -> None:
        if trust is None:
            found = Bundle.of(der for sighting in seen for der in sighting.bundle.certificates)
            await self._store.write_trust(Trust(self._new_authority(), None, found))
            return
        match decision.step:
            case Step.ISSUE:
                now, valid_for = self._clock.now(), self._lifetimes.leaf
                leaf = trust.signing.issue(decision.hosts, now=now, valid_for=valid_for)
                await self._store.write_leaf(leaf, trust.signing)
            case Step.ANNOUNCE:
                await self._store.write_trust(trust.with_successor(self._new_authority()))
            case Step.PROMOTE:
                await self._store.write_trust(trust.promoted())
            case Step.FORGET:
                await self._store.write_trust(trust.forgetting(decision.dropped))

    def _new_authority(self) -> Authority:
        return Authority.create(self._name, now=self._clock.now(), valid_for=self._lifetimes.authority)

    async def _look(self) -> tuple[tuple[Place, ...], tuple[Sighting, ...], tuple[str, ...]]:
        """Read all places; return those that can be used, the bundles in them, and what is wrong with the others."""
        usable: list[Place] = []
        seen: list[Sighting] = []
        problems: list[str] = []
        for place in self._places:
            try:
                seen += await place.look()
            except (WiringError, CrdError) as error:
                problems.append(str(error))
            else:
                usable.append(place)
        return tuple(usable), tuple(seen), tuple(problems)

    async def _wire(self, state: _State) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
        """Wire the places; return those that are as they should be, the problems, and whether anything was written."""
        wired: list[str] = []
        problems = [*state.problems]
        changed = False
        for place in state.places:
            try:
                changed |= await place.wire(state.decision.wanted, state.decision.dropped)
            except (WiringError, CrdError) as error:
                problems.append(str(error))
            else:
                wired.append(place.name)
        return tuple(wired), tuple(problems), changed

    def _tell_problems(self, problems: tuple[str, ...]) -> None:
        """Log what is new; the same sentence every few seconds helps nobody."""
        for problem in problems:
            if problem not in self._told:
                _log.warning("%s: %s", self._name, problem)
        self._told = problems
