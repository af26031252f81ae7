"""Keeps a webhook's certificates: stores, issues, wires and rotates them, in every replica alike.

Each replica runs one ``Certificates``. They need no leader: the replica that finds a step due takes it by
compare-and-swap on the Secret, and the others find it done. ``restow.conversion.certificates.ca.rotation`` decides the
steps; this module carries them out:

    Secrets -> leaf -> files -> (the server loads them) -> probe -> CRDs, webhook configurations

Between two looks the CRDs and configurations are watched, because objects of a CRD whose wiring was undone can be read
at the stored version only. The first replica that notices it repairs the wiring.

No failure is final: it is reported, and the step is retried. A Secret that cannot be read does not stop the wiring with
the readable certificates.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Unpack

from restow.conversion.certificates.ca.authority import (
    Authority,
    CertificateError,
    LeafCertificate,
    Trust,
    is_signed_by,
)
from restow.conversion.certificates.ca.keeper import BACKOFF, CertificateKeeper, KeeperOptions, problem_of
from restow.conversion.certificates.ca.rotation import Lifetimes, ObservedBundle, RotationDecision, RotationStep, decide
from restow.conversion.certificates.ca.store import SecretStore, install, installed
from restow.conversion.certificates.ca.targets import CrdTarget, WiringTarget
from restow.conversion.certificates.wiring.clientconfig import NO_BUNDLE, Bundle
from restow.conversion.model.errors import WiringError, WiringProblem, WiringRefused
from restow.crds import CrdError
from restow.kube import Cluster, KubeError
from restow.kube.errors import Conflict, Unreachable

_log = logging.getLogger(__name__)

_MOST_STEPS: Final = 32  # each takes two looks
_POLL: Final = 30.0  # seconds; within this time a change is noticed even without a watch


@dataclass(frozen=True, slots=True)
class _State:
    """The state in which no step was due any more."""

    leaf: LeafCertificate
    trust: Trust
    decision: RotationDecision
    places: tuple[WiringTarget, ...]
    problems: tuple[WiringProblem, ...]
    taken: tuple[RotationStep, ...]


class Certificates(CertificateKeeper):
    """The certificates of one webhook.

    Args:
        cluster: the API server with the Secrets, CRDs and webhook configurations.
        name, namespace: those of the Secret with the leaf; the Secret with the CA is called ``<name>-ca``. The default
            is the cluster's default namespace.
        hosts: DNS names and IP addresses of the webhook: ``Address.hosts``.
        folder: the folder for the leaf that the server reads, as ``tls.crt`` and ``tls.key``.
        lifetimes: durations.
        options: see ``KeeperOptions``.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        namespace: str | None = None,
        *,
        hosts: Iterable[str],
        folder: Path,
        lifetimes: Lifetimes | None = None,
        **options: Unpack[KeeperOptions],
    ) -> None:
        options.setdefault("poll", _POLL)
        super().__init__(cluster, name, **options)
        self._store = SecretStore(cluster, namespace or cluster.default_namespace, name)
        self._hosts = frozenset(hosts)
        self._folder = folder
        self._lifetimes = lifetimes or Lifetimes()
        self._told_of: Exception | None = None
        self._wanted = NO_BUNDLE  # the bundle that the last successful look wired
        if not self._hosts:
            msg = f"the certificate {name} needs at least one host: see hosts of its address"
            raise ValueError(msg)

    async def prepare(self) -> None:
        """Return once the folder holds a certificate; a server has to wait for this before it can listen.

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
            self._log_problems((self._not_kept(error),))

    async def reconcile(self) -> float:
        """Do everything that is due now; return the seconds until more is due, unless the cluster changes.

        An error is raised only after everything is wired with the certificates that can be read.

        Raises:
            CertificateError: a Secret belongs to another owner, or the CA in it is malformed.
            KubeError: the API server refuses a request, or cannot be reached.
            OSError: a file cannot be read or written.
        """
        if await self._is_dismissed():
            leaf = installed(self._folder)
            every = tuple(each.name for each in self._places.targets)
            self._call_hook(every, (), leaf_ends=None if leaf is None else leaf.not_after)
            return self._poll
        try:
            state = await self._agree_on_secrets()
        except Exception as error:
            await self._wire_by_what_is_known(error)
            self._told_of = error
            raise
        self._wanted = state.decision.wanted
        wired, problems, changed = await self._places.wire(state.places, state.decision.wanted, state.decision.dropped)
        problems = (*state.problems, *problems)
        self._log_problems(each.said for each in problems)
        self._call_hook(
            wired,
            problems,
            leaf_ends=state.leaf.not_after,
            authority_ends=state.trust.signing.not_after,
            taken=state.taken,
        )
        if changed:
            return 0.0
        return BACKOFF.first if problems else state.decision.after.total_seconds()

    async def rotate_authority(self) -> None:
        """Start the rotation of the CA now, as before its end; ``reconcile`` continues it.

        Does nothing if a rotation is in progress.

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

    async def _is_dismissed(self) -> bool:
        """Return whether ``unwire`` removed this server from all its CRDs; its Secrets and configurations then go too.

        If they were made again, they would outlive the server that is about to be uninstalled.
        """
        crds = [place for place in self._places.targets if isinstance(place, CrdTarget)]
        if not any(place.is_unwired for place in crds):
            return False
        for place in crds:
            try:
                await place.look()
            except WiringRefused:
                continue  # a missing CRD calls no webhook
            if not place.is_unwired:
                return False
        return True

    async def _agree_on_secrets(self) -> _State:
        """Take every step that is due in the Secrets, and put the leaf into the folder."""
        taken: list[RotationStep] = []
        fully = False
        for _ in range(_MOST_STEPS):
            stored = await self._store.read_leaf()
            leaf = stored or installed(self._folder)
            if leaf is not None and install(self._folder, leaf):
                _log.info("%s: the certificate that ends %s is installed", self._name, leaf.not_after)
            trust = await self._store.read_trust()
            look = await self._places.look(fully=fully)
            decision = decide(
                trust,
                leaf,
                look.seen,
                hosts=self._hosts,
                now=self._clock.now(),
                lifetimes=self._lifetimes,
                stored=stored is not None,
            )
            if decision.step is None:
                assert leaf is not None
                assert trust is not None
                return _State(leaf, trust, decision, tuple(look.usable), tuple(look.problems), tuple(taken))
            if not fully:
                fully = True  # no step relies only on what a watch has shown
                continue
            fully = False
            try:
                await self._take(decision, trust, look.seen)
            except Conflict:
                continue  # another replica was first: read again
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

    async def _wire_by_what_is_known(self, error: Exception) -> None:
        """Keep the served certificate verifiable although its keeping failed; remove no certificate."""
        usable: list[WiringTarget] = []
        problems: list[WiringProblem] = []
        bundle, leaf = self._known(), installed(self._folder)
        if not isinstance(error, Unreachable):  # otherwise no request can succeed
            for place in self._places.targets if bundle else ():
                try:
                    await place.look()
                except (WiringError, CrdError, KubeError) as hindrance:
                    problems.append(problem_of(place, hindrance))
                else:
                    usable.append(place)
        wired, more, _ = await self._places.wire(usable, bundle, NO_BUNDLE)
        problems += more
        failure, ends = self._not_kept(error), None if leaf is None else leaf.not_after
        self._log_problems((failure, *(each.said for each in problems)))
        self._call_hook(wired, tuple(problems), leaf_ends=ends, failure=failure)

    def _known(self) -> Bundle:
        """Return the CA certificates of the last wiring, or else the readable ones of the Secrets; empty if useless."""
        leaf = installed(self._folder)
        for bundle in (self._wanted, self._store.readable()):
            if leaf is not None and any(is_signed_by(leaf, root) for root in bundle.certificates):
                return bundle
        return NO_BUNDLE

    def _failed(self, error: Exception) -> None:
        if error is not self._told_of:
            self._log_problems((self._not_kept(error),))
