"""Years of a webhook's life in seconds: at no moment does what a replica serves fail to verify against a CRD's bundle.

The replicas look, and load what they find, at random moments; connections break before and after any write.
"""

from __future__ import annotations

import contextlib
import copy
import random
from datetime import datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509 import verification

from restow.conversion.certificates import Bundle, NotAnswering, Service
from restow.conversion.certificates.ca import (
    CertificateDetails,
    CertificateError,
    Certificates,
    Lifetimes,
    RotationStep,
)
from restow.conversion.certificates.ca.authority import LeafCertificate
from restow.conversion.certificates.ca.store import installed, trust_of
from restow.conversion.certificates.wiring.clientconfig import Address
from restow.conversion.certificates.wiring.crd import bundle_of
from restow.conversion.model.errors import WiringProblem
from restow.crds import Crd
from restow.kube import KubeError
from restow.kube.retry import Backoff
from tests.conversion.certificates.world import World

HOST = "webhook.system.svc"
ADDRESS = Service("system", "webhook")
CRDS = ("widgets.example.com", "gadgets.example.com")
CONFIGURATION = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "restow"},
    "webhooks": [
        {"name": name, "clientConfig": {"service": {"namespace": "system", "name": "webhook", "port": 443}}}
        for name in ("widgets.example.com", "gadgets.example.com")
    ],
}
PLACES = (*CRDS, "ValidatingWebhookConfiguration restow")
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
LIVES = Lifetimes(settle=2 * HOUR, margin=3 * DAY)


class Replica:
    """A process that keeps certificates and serves by them. It loads what is in its folder when it is told to."""

    def __init__(self, world: World, folder: Path, town: list[Replica]) -> None:
        self.serving: LeafCertificate | None = None
        self.steps: list[RotationStep] = []
        self.details: CertificateDetails | None = None
        self._folder = folder
        self._world = world
        self._town = town
        town.append(self)
        self.certificates = Certificates(
            world,
            "webhook",
            hosts=[HOST],
            folder=folder,
            crds=dict.fromkeys(CRDS, ADDRESS),
            configurations=[CONFIGURATION],
            lifetimes=LIVES,
            probe=self._probe,
            hook_probe=partial(self._probe, None),
            hook=self._told,
            clock=world.clock,
        )

    def load(self) -> None:
        """Serve by what is in the folder."""
        self.serving = installed(self._folder)

    async def look(self) -> None:
        """Do what is due; whatever breaks, breaks."""
        with contextlib.suppress(KubeError):
            await self.certificates.reconcile()

    async def _probe(self, _crd: Crd | None, _address: Address, bundle: Bundle) -> None:
        """Reach any replica, as through a Service; some may just have loaded what is in their folder."""
        for replica in self._town:
            if replica.serving is not None and self._world.chance.random() < 0.5:
                replica.load()
        check_the_law(self._world, self._town)
        served = self._world.chance.choice(self._town).serving
        if served is None or not verifies(served, bundle, self._world.now):
            raise NotAnswering("does not verify")

    def _told(self, details: CertificateDetails) -> None:
        self.details = details
        self.steps += details.taken


@lru_cache(maxsize=64)
def verifies(leaf: LeafCertificate, bundle: Bundle, now: datetime) -> bool:
    """Judged by cryptography's verifier."""
    roots = [x509.load_der_x509_certificate(each) for each in bundle.certificates]
    if not roots:
        return False
    policy = verification.PolicyBuilder().store(verification.Store(roots)).time(now)
    try:
        policy.build_server_verifier(x509.DNSName(HOST)).verify(leaf.x509, [])
    except verification.VerificationError:
        return False
    return True


def check_the_law(world: World, town: list[Replica]) -> None:
    """What is served verifies against every CRD and every configuration that names the webhook."""
    for document in world.crds:
        crd = Crd.from_document(document)
        if crd.webhook is None or not crd.webhook["clientConfig"].get("caBundle"):
            continue
        for number, replica in enumerate(town):
            if replica.serving is not None:  # else it has not begun to serve
                assert verifies(replica.serving, bundle_of(crd), world.now), (
                    f"replica {number}, {crd.name}, {world.now}"
                )
    texts = {hook["clientConfig"]["caBundle"] for each in world.configurations for hook in each["webhooks"]}
    for trusted in map(Bundle.from_base64, texts):
        for replica in town:
            assert replica.serving is None or verifies(replica.serving, trusted, world.now), world.now


async def settled(world: World, *town: Replica, rounds: int = 12, tick: timedelta = HOUR) -> None:
    """Let everybody look and load until nothing is due."""
    for _ in range(rounds):
        for replica in town:
            await replica.look()
            replica.load()
            check_the_law(world, list(town))
        world.now += tick


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("wired", [True, False], ids=["wired", "not wired yet"])
async def test_the_law_holds_for_years(replicas: int, wired: bool) -> None:
    """One moment in which it does not is an outage of every version but the stored one."""
    chance = random.Random(2 * replicas + wired)
    world = World(*CRDS, wired=wired)
    town: list[Replica] = []
    with TemporaryDirectory() as folder:
        for number in range(replicas):
            Replica(world, Path(folder) / str(number), town)
        await settled(world, *town, rounds=3)
        world.fault = lambda _after: chance.random() < 0.2
        authorities = set()
        while world.now < datetime(2029, 6, 1, tzinfo=world.now.tzinfo):
            world.now += chance.choice([6 * HOUR, DAY, 2 * DAY])
            for replica in chance.sample(town, chance.randint(1, replicas)):
                await replica.look()
                check_the_law(world, town)
            for replica in town:
                replica.load()
                check_the_law(world, town)
            trust = trust_of(world.secret("webhook-ca"))
            assert trust is not None
            authorities.add(trust.signing.der)
        world.fault = lambda _after: False
        await settled(world, *town, rounds=100)
        assert len(authorities) == 3, "two rotations of the CA in three and a half years"
        for name in CRDS:
            assert len(bundle_of(Crd.from_document(world.crd(name)))) == 1, "nothing is left of old ones"
        assert world.crd_writes <= len(CRDS) * (1 + 2 * 2), "each rotation costs each CRD two writes, no more"


async def test_replicas_agree_on_one_authority(tmp_path: Path) -> None:
    """Each with a CA of its own they would fight over the bundle, as some operators do."""
    world, town = World(*CRDS), []
    for number in range(3):
        Replica(world, tmp_path / str(number), town)
    for replica in town:
        await replica.certificates.prepare()
        replica.load()
    assert len({replica.serving.certificate for replica in town if replica.serving is not None}) == 1
    await settled(world, *town)
    assert world.crd_writes == len(CRDS)
    assert [step for replica in town for step in replica.steps] == []  # taken in prepare(), by the first one
    assert all(replica.details is not None and replica.details.wired == PLACES for replica in town)


async def test_a_rotation_on_demand_takes_the_same_way(tmp_path: Path) -> None:
    """A key that leaked cannot wait for two years; and a shortcut would be an outage."""
    world, town = World(*CRDS), []
    replica = Replica(world, tmp_path, town)
    await settled(world, replica)
    before, writes = bundle_of(Crd.from_document(world.crd(CRDS[0]))), world.crd_writes
    await replica.certificates.rotate_authority()
    await replica.certificates.rotate_authority()
    sizes = []
    for _ in range(120):
        await settled(world, replica, rounds=1)
        sizes.append(len(bundle_of(Crd.from_document(world.crd(CRDS[0])))))
    after = bundle_of(Crd.from_document(world.crd(CRDS[0])))
    assert sizes[0] == 2 and sizes[-1] == 1 and sorted(sizes, reverse=True) == sizes
    assert not after & before and world.crd_writes == writes + 2 * len(CRDS)
    assert replica.steps[-3:] == [RotationStep.PROMOTE, RotationStep.ISSUE, RotationStep.FORGET]


@pytest.mark.parametrize("lost", [("webhook",), ("webhook-ca",), ("webhook", "webhook-ca")], ids=" and ".join)
async def test_lost_secrets_cost_nothing(lost: tuple[str, ...], tmp_path: Path) -> None:
    """After a Secret is deleted, API servers trust the served certificate until it is replaced."""
    world, town = World(*CRDS), []
    replica = Replica(world, tmp_path, town)
    await settled(world, replica)
    before = bundle_of(Crd.from_document(world.crd(CRDS[0])))
    for name in lost:
        world.remove(name)
    await settled(world, replica, rounds=200)
    after = bundle_of(Crd.from_document(world.crd(CRDS[0])))
    assert len(after) == 1 and ("webhook-ca" in lost) == (not after & before)


async def test_from_another_authority_without_a_gap(tmp_path: Path) -> None:
    """The bundle of cert-manager, say, stays until its certificates are served no more."""
    world, town = World(*CRDS, wired=True), []
    elsewhere = World()
    other = Replica(elsewhere, tmp_path / "other", town)
    await other.certificates.prepare()
    other.load()
    stranger = trust_of(elsewhere.secret("webhook-ca"))
    assert stranger is not None
    for name in CRDS:
        config = world.crd(name)["spec"]["conversion"]["webhook"]["clientConfig"]
        config["caBundle"] = stranger.bundle.base64
    replica = Replica(world, tmp_path / "ours", town)
    for _ in range(20):  # whatever the probe reaches: the new one does not serve yet
        await replica.look()
        check_the_law(world, town)
    trust = trust_of(world.secret("webhook-ca"))
    assert trust is not None and trust.previous == stranger.bundle
    assert bundle_of(Crd.from_document(world.crd(CRDS[0]))).matches(trust.bundle)
    replica.load()
    check_the_law(world, town)
    town.remove(other)
    await settled(world, replica, rounds=100)
    assert bundle_of(Crd.from_document(world.crd(CRDS[0]))) == Bundle.of([trust.signing.der])


async def test_a_crd_that_cannot_be_wired_holds_a_rotation_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A new leaf would not verify against that CRD; and the problem is logged once, so that an operator can act."""
    world, town = World(*CRDS), []
    replica = Replica(world, tmp_path, town)
    await settled(world, replica)
    fields = {"f:spec": {"f:conversion": {"f:webhook": {"f:clientConfig": {"f:caBundle": {}}}}}}
    claim = {"manager": "argocd", "operation": "Apply", "time": "2026-01-01T00:00:00Z", "fieldsV1": fields}
    world.crd(CRDS[1])["metadata"]["managedFields"].append(claim)
    await replica.certificates.rotate_authority()
    await settled(world, replica, rounds=100)
    trust = trust_of(world.secret("webhook-ca"))
    assert trust is not None and trust.successor is not None
    assert replica.details is not None and replica.details.wired == (CRDS[0], PLACES[-1])
    [problem] = replica.details.problems
    assert "applied by argocd" in problem.said and caplog.text.count("applied by argocd") == 1
    world.crd(CRDS[1])["metadata"]["managedFields"].remove(claim)
    await settled(world, replica, rounds=100)
    trust = trust_of(world.secret("webhook-ca"))
    assert trust is not None and trust.successor is None


async def test_another_projects_webhook_is_left_alone_and_holds_nothing_up(tmp_path: Path) -> None:
    """One CRD that another project took would be taken from it, or no CA could be rotated for the others any more."""
    world, town = World(*CRDS, wired=True), []
    theirs = world.crd(CRDS[0])["spec"]["conversion"]
    theirs["webhook"]["clientConfig"]["service"] = {"namespace": "system", "name": "theirs", "port": 443}
    before = copy.deepcopy(theirs)
    replica = Replica(world, tmp_path, town)
    await settled(world, replica)
    await replica.certificates.rotate_authority()
    await settled(world, replica, rounds=100)
    trust = trust_of(world.secret("webhook-ca"))
    assert trust is not None and trust.successor is None
    assert replica.details is not None and replica.details.wired == (CRDS[1], PLACES[-1])
    [problem] = replica.details.problems
    assert f"{CRDS[0]} names the webhook at Service system/theirs:443" in problem.said
    assert world.crd(CRDS[0])["spec"]["conversion"] == before


async def test_what_cert_manager_keeps_does_not_count(tmp_path: Path) -> None:
    """cert-manager's bundle never holds our CA; if it counted, every rotation would wait for it."""
    world, town = World(*CRDS, wired=True), []
    world.crd(CRDS[0])["metadata"]["annotations"] = {"cert-manager.io/inject-ca-from": "system/webhook"}
    replica = Replica(world, tmp_path, town)
    await settled(world, replica)
    assert "caBundle" not in world.crd(CRDS[0])["spec"]["conversion"]["webhook"]["clientConfig"]
    assert "caBundle" in world.crd(CRDS[1])["spec"]["conversion"]["webhook"]["clientConfig"]


async def test_a_missing_crd_is_told_and_wired_when_it_comes(tmp_path: Path) -> None:
    """The order of an installation must not matter."""
    world, town = World(CRDS[0]), []
    replica = Replica(world, tmp_path, town)
    await settled(world, replica)
    assert replica.details is not None
    missing = f"there is no CRD {CRDS[1]} on https://world: install it before its webhook"
    assert replica.details.problems == (WiringProblem(CRDS[1], missing),)
    world.add(CRDS[1])
    await settled(world, replica)
    assert replica.details.problems == () and replica.details.wired == PLACES


async def test_a_secret_that_is_changed_again_and_again_is_told(tmp_path: Path) -> None:
    """Two writers that undo each other would look like a busy loop without a cause."""
    world = World(*CRDS)
    world.outpaced = True
    with pytest.raises(CertificateError, match="repeatedly by another writer"):
        await Replica(world, tmp_path, []).certificates.prepare()


async def test_run_forever_goes_on_after_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart of the API server must not end what keeps the certificates."""
    for module in ("keeper", "manager"):
        quick = Backoff(first=0.01, most=0.01)
        monkeypatch.setattr(f"restow.conversion.certificates.ca.{module}.BACKOFF", quick)
    world, town = World(*CRDS), []
    replica = Replica(world, tmp_path, town)
    asked = 0

    class Enough(BaseException):
        pass

    async def get(*arguments: Any, **options: Any) -> Any:
        nonlocal asked
        asked += 1
        if asked < 5:
            raise KubeError("down")
        if world.crd_writes == len(CRDS):
            raise Enough
        replica.load()
        return await World.get(world, *arguments, **options)

    world.get = get  # type: ignore[method-assign]
    with pytest.raises(BaseExceptionGroup) as ended:
        await replica.certificates.run_forever()
    assert ended.value.subgroup(Enough)
