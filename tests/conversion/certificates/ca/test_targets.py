"""What is wired, reported and counted when a Secret is spoilt, a defect shows, or another client undoes the wiring."""

from __future__ import annotations

import asyncio
import base64
import math
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from restow.conversion.certificates import Bundle, NotAnswering, Service, Url
from restow.conversion.certificates.ca import (
    CertificateDetails,
    CertificateError,
    Certificates,
    Lifetimes,
    RotationStep,
)
from restow.conversion.certificates.ca.metrics import CertificateMetrics
from restow.conversion.certificates.ca.store import SECRETS, trust_of
from restow.conversion.certificates.ca.targets import WriteConflict
from restow.conversion.certificates.wiring.clientconfig import Address
from restow.conversion.certificates.wiring.crd import bundle_of
from restow.conversion.certificates.wiring.documents import refusal_name, stash_name
from restow.conversion.model.errors import WiringProblem
from restow.crds import Crd
from restow.kube import Reply, Resource
from restow.kube.errors import Forbidden, StatusDetails
from restow.kube.retry import Backoff
from tests.conversion.certificates.ca.test_manager import CRDS, PLACES, Replica, check_the_law, settled
from tests.conversion.certificates.world import World

GARBAGE = base64.b64encode(b"garbage").decode()


def on_unknown_curve(folder: Path) -> dict[str, str]:
    """The data of a Secret with a pair on a curve that ``cryptography`` does not know, but OpenSSL does."""
    openssl = shutil.which("openssl")
    assert openssl is not None, "openssl makes keys on curves that are no good"
    key, certificate = folder / "curve.key", folder / "curve.crt"
    subprocess.run([openssl, "ecparam", "-name", "secp112r2", "-genkey", "-noout", "-out", key], check=True)
    command = [openssl, "req", "-x509", "-key", key, "-subj", "/CN=x", "-days", "9", "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    encoded = {"tls.crt": certificate, "tls.key": key}
    return {name: base64.b64encode(file.read_bytes()).decode() for name, file in encoded.items()}


def unwire(world: World) -> None:
    """Take the bundle out of every CRD."""
    for name in CRDS:
        del world.crd(name)["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"]


def bundle(world: World, name: str = CRDS[0]) -> Bundle:
    """What a CRD trusts."""
    return bundle_of(Crd.from_document(world.crd(name)))


@pytest.mark.parametrize("spoilt", ["ca.key", "ca.crt", "everything"])
async def test_a_ca_that_cannot_be_read_does_not_stop_the_wiring(tmp_path: Path, spoilt: str) -> None:
    """The public half is all that API servers need; before, every version but the stored one stayed down."""
    world, town = World(*CRDS), []
    await settled(world, Replica(world, tmp_path / "old", town))
    before = bundle(world)
    secret = world.secret("webhook-ca")["data"]
    good = dict(secret)
    for key in secret if spoilt == "everything" else [spoilt]:
        secret[key] = GARBAGE
    late = Replica(world, tmp_path / "late", town)
    await late.certificates.prepare()  # it finds a certificate, so it can serve
    late.load()
    for replica in town:
        unwire(world)
        with pytest.raises(CertificateError, match="cannot be read"):
            await replica.certificates.reconcile()
        assert bundle(world) == bundle(world, CRDS[1]) == before
        assert replica.details is not None and replica.details.wired == PLACES and replica.details.unwired == ()
        assert "webhook-ca cannot be read" in replica.details.failure
        check_the_law(world, town)
    secret |= good
    await settled(world, *town)
    assert late.details is not None and (late.details.failure, late.details.problems) == ("", ())


async def test_a_right_that_is_lost_does_not_stop_the_wiring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost right to one CRD is reported and counted; the other CRD is still wired with the last bundle."""
    world, town = World(*CRDS), []
    replica = Replica(world, tmp_path, town)
    await settled(world, replica)
    before, get = bundle(world), World.get

    async def refused(world: World, resource: Resource, name: str, *more: object, **options: object) -> Reply:
        if resource == SECRETS or name == CRDS[1]:
            raise Forbidden(status=403, reason="", message="", details=StatusDetails(), verb="get", target=name)
        return await get(world, resource, name)

    monkeypatch.setattr(World, "get", refused)
    unwire(world)
    with pytest.raises(Forbidden):
        await replica.certificates.reconcile()
    assert bundle(world) == before and not bundle(world, CRDS[1])
    assert replica.details is not None and replica.details.unwired == (CRDS[1],)
    assert len(replica.details.problems) == 1


async def test_a_new_replica_without_any_certificate_cannot_begin(tmp_path: Path) -> None:
    """Without a certificate to serve, the start fails with what to do about the CA; waiting would hide the cause."""
    world = World(*CRDS)
    await settled(world, Replica(world, tmp_path / "old", []))
    world.secret("webhook-ca")["data"]["ca.key"] = GARBAGE
    world.empty("webhook")
    with pytest.raises(CertificateError, match="restore it, or delete it to begin with a new CA"):
        await Replica(world, tmp_path / "new", []).certificates.prepare()


async def test_a_leaf_on_an_unknown_curve_is_replaced(tmp_path: Path) -> None:
    """An error that the library raises of its own ended the process; the last good certificate is served on."""
    world, town = World(*CRDS), []
    replica = Replica(world, tmp_path, town)
    await settled(world, replica)
    served = replica.serving
    world.secret("webhook")["data"] |= on_unknown_curve(tmp_path)
    await replica.look()
    assert replica.steps[-1] is RotationStep.ISSUE
    assert replica.serving == served
    replica.load()
    check_the_law(world, town)


async def test_a_defect_is_told_and_does_not_end_the_keeping(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever a library raises, the next look may go well; what is served stays wired meanwhile."""
    world, town = World(*CRDS), []
    replica = Replica(world, tmp_path, town)
    await settled(world, replica)
    looks = 0

    def broken(*_arguments: object, **_options: object) -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            raise asyncio.CancelledError
        unwire(world)
        raise KeyError("s3cr3t")

    monkeypatch.setattr("restow.conversion.certificates.ca.manager.decide", broken)
    monkeypatch.setattr("restow.conversion.certificates.ca.keeper.BACKOFF", Backoff(first=0.01, most=0.01))
    with pytest.raises(asyncio.CancelledError):
        await replica.certificates.run_forever()
    assert looks == 3 and len(bundle(world)) == 1
    assert caplog.text.count("the certificate webhook cannot be kept: KeyError (") == 1
    assert "s3cr3t" not in caplog.text


def kept(world: World, folder: Path, name: str, address: Address, answering: set[str]) -> Certificates:
    """Certificates of an installation of its own; only webhooks at hosts in ``answering`` answer."""

    async def probe(_crd: Crd, asked: Address, _bundle: Bundle) -> None:
        if asked.host not in answering:
            raise NotAnswering("does not answer")

    lives = Lifetimes(settle=timedelta(0), margin=timedelta(minutes=5))
    crds = dict.fromkeys(CRDS, address)
    return Certificates(
        world, name, hosts=[address.host], folder=folder, crds=crds, lifetimes=lives, probe=probe, clock=world.clock
    )


async def test_two_restows_with_two_addresses_do_not_fight(tmp_path: Path) -> None:
    """Two installations write under one field manager; without a rule each would move the CRD back for ever."""
    world, answering = World(*CRDS), {"first.a.svc", "second.b.svc"}
    first = kept(world, tmp_path / "1", "first", Service("a", "first"), answering)
    second = kept(world, tmp_path / "2", "second", Service("b", "second"), answering)
    told: list[CertificateDetails] = []
    second.hook = told.append
    for _ in range(5):
        await first.reconcile()
        await second.reconcile()
        world.now += timedelta(seconds=10)
    assert world.crd_writes == len(CRDS)
    assert "wired to Service a/first:443 by another restow, whose webhook answers" in told[-1].problems[0].said
    assert told[-1].unwired == CRDS
    answering.remove("first.a.svc")
    await second.reconcile()
    assert world.crd(CRDS[0])["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["name"] == "second"


async def test_two_restows_with_two_authorities_end_up_with_both(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One takes out what it found and retires, the other puts it back: neither would ever stop."""
    world, address = World(*CRDS), Url("https://balancer.example.com")
    other = kept(world, tmp_path / "1", "other", address, {address.host})
    await other.reconcile()
    ours = kept(world, tmp_path / "2", "ours", address, {address.host})
    told: list[CertificateDetails] = []
    ours.hook = told.append
    for _ in range(60):
        await ours.reconcile()
        await other.reconcile()
        world.now += timedelta(seconds=20)
    trusts = [trust_of(world.secret(f"{name}-ca")) for name in ("ours", "other")]
    both = Bundle.of(trust.signing.der for trust in trusts if trust is not None)
    assert bundle(world).matches(both)
    writes = world.crd_writes
    for _ in range(60):
        await ours.reconcile()
        await other.reconcile()
        world.now += timedelta(minutes=1)
    assert world.crd_writes == writes
    assert told[-1].in_conflict == CRDS and told[-1].unwired == ()
    assert f"{CRDS[0]}: another writer" in caplog.text and "keeps undoing its wiring" in caplog.text


def test_writes_are_rationed_but_not_once_a_second() -> None:
    """Two writers that answer each other at once would keep an API server busy for ever."""
    now, contest = datetime(2026, 1, 1, tzinfo=UTC), WriteConflict()
    for _ in range(60):
        assert contest.may_write(now)
        contest.wrote(now, removed=False)
        now += timedelta(seconds=1)
    assert contest.is_in_conflict(now)
    now += timedelta(minutes=2)
    assert not contest.is_in_conflict(now)
    for _ in range(10):
        assert contest.may_write(now)
        contest.wrote(now, removed=False)
    assert not contest.may_write(now)
    assert contest.may_write(now + timedelta(seconds=5))


def test_metrics_are_there_from_the_start() -> None:
    """An alert on a metric that comes with the first failure misses that failure."""
    registry, began = CollectorRegistry(), datetime.fromisoformat("2026-01-01T00:00:00Z")
    metrics = CertificateMetrics(registry, now=lambda: began)

    def value(name: str, **labels: str) -> float:
        found = registry.get_sample_value(f"restow_webhook_{name}", labels)
        assert found is not None, name
        return found

    assert math.isnan(value("authority_expiry_timestamp_seconds"))
    names = ("wiring_problems", "wiring_contested", "wiring_writes_total", "keeping_failures_total")
    assert [value(name) for name in names] == [0.0] * 4
    assert value("keeping_last_success_timestamp_seconds") == began.timestamp()
    assert [value("certificate_steps_total", step=step.name.lower()) for step in RotationStep] == [0.0] * len(
        RotationStep
    )
    failed = CertificateDetails(
        (), None, None, ("a",), (WiringProblem("b", "b: no"),), ("b", "c"), ("a",), writes=3, failure="no right"
    )
    metrics(failed)
    metrics(failed)
    assert [value(name) for name in names] == [2.0, 1.0, 3.0, 2.0]
    metrics(CertificateDetails((RotationStep.ISSUE,), began, began, ("a", "b"), (), writes=4))
    assert [value(name) for name in names] == [0.0, 0.0, 4.0, 2.0]
    assert value("authority_expiry_timestamp_seconds") == began.timestamp()
    assert b"restow_webhook_wiring_problems 0.0" in metrics.text()


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (Service("a", "b"), "conversion-stash.b.a.svc"),
        (Service("b", "a", port=8443), "conversion-stash.a.b.svc"),
        (Url("https://Hook.example.com/x"), "conversion-stash.hook.example.com.443"),
        (Url("https://[::1]:8443"), "conversion-stash.1.8443"),
    ],
)
def test_a_stash_configuration_is_named_after_its_webhook(address: Address, name: str) -> None:
    """Two installations of one cluster shared a name, and each took the configuration from the other."""
    assert stash_name(address) == name
    assert refusal_name(address) == name.replace("conversion-stash", "refuse-unconvertible")
