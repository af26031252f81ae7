"""``restow operator``: what it refuses, what it prints, and its parts that need no cluster."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from restow.cli.addresses import at, read_address
from restow.commands.operator import command
from restow.conversion.certificates import Bundle, Url
from restow.conversion.certificates.wiring.clientconfig import client_config
from restow.kube import ControllerEvent, ControllerEventType, ElectionEvent, Key, Selection
from restow.kube.clockcheck import ClockCheck
from restow.kube.errors import Forbidden, TooManyRequests, Unreachable
from restow.kube.resources import CRDS
from restow.operator import family
from restow.operator.metrics import OperatorMetrics
from restow.webhook.supervise import StartStopped, keep_running, run_alongside, start_patiently
from tests.conversion.server.clocks import HeldClock
from tests.memory.cluster import MemoryCluster
from tests.restow.commandline import restow

_FLAG = re.compile(r"--[a-z-]+")
OWN = "--own-ca=system/webhook"


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ((), "give --own-ca NAMESPACE/SERVICE, or --cert and --key"),
        ((OWN, "--cert=a", "--key=b"), "give --own-ca NAMESPACE/SERVICE, or --cert and --key"),
        (("--cert=a",), "give --own-ca NAMESPACE/SERVICE, or --cert and --key"),
        (("--own-ca=webhook",), "--own-ca takes NAMESPACE/SERVICE[:PORT] or https://HOST[:PORT], not 'webhook'"),
        (("--own-ca=system/webhook:0",), "--own-ca 'system/webhook:0': a webhook's Service needs a namespace"),
        (("--print-webhooks=http://a",), "--print-webhooks takes NAMESPACE/SERVICE[:PORT] or https://HOST[:PORT]"),
        ((OWN, "--apply-management"), "--apply-management applies a policy: give --management FILE too"),
        ((OWN, "--refuse-unconvertible"), "--refuse-unconvertible goes with --conversions"),
        ((OWN, "--references-every=60"), "--references-every looks for references to versions"),
        ((OWN, "--migrate=shoots"), "--migrate takes <plural>.<group>, family, all or labelled, not 'shoots'"),
        (("--migrate", "--install-crds"), "--install-crds is for the operator of CloudProfiles: give --own-ca"),
    ],
)
def test_flags_that_do_not_go_together(flags: tuple[str, ...], told: str) -> None:
    """Found before anything is read or written."""
    ran = restow("operator", *flags)
    assert ran.code == 2
    assert told in " ".join(ran.err.split())


def test_a_policy_that_cannot_be_used(tmp_path: Path) -> None:
    """A misspelt setting would not be heeded."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("controllers: {cloudProfile: {kubernetesVersionManagement: {enable: true}}}")
    ran = restow("operator", OWN, f"--management={policy}")
    assert ran.refusal.startswith(f"--management {policy}: controllers.cloudProfile cannot be used: ")
    assert "enable" in ran.refusal


def test_no_cluster_is_told_in_a_sentence(tmp_path: Path) -> None:
    """Whoever starts it in a pod without a service account reads this in its log."""
    ran = restow("operator", OWN, f"--kubeconfig={tmp_path / 'none'}")
    assert str(tmp_path / "none") in ran.refusal


def test_a_missing_library_is_named() -> None:
    """The server's own libraries are an extra."""
    script = "import sys; sys.modules['prometheus_client'] = None; from restow.main import main; main()"
    ran = restow("operator", "--own-ca", "a/b", command=(sys.executable, "-c", script))
    assert ran.refusal == "restow operator needs prometheus_client: pip install 'restow[operator]'"


def test_the_webhook_configurations_are_printed(tmp_path: Path) -> None:
    """For those whose certificates others keep."""
    ran = restow("operator", "--print-webhooks=system/webhook:8443")
    assert (ran.code, ran.err) == (0, "")
    documents = list(yaml.safe_load_all(ran.out))
    assert [each["kind"] for each in documents] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]
    assert documents[1]["webhooks"][0]["clientConfig"] == {
        "service": {"namespace": "system", "name": "webhook", "port": 8443, "path": "/admit/cloudprofiles"}
    }
    ca = tmp_path / "ca.crt"
    ca.write_bytes(Bundle.of([b"ca"]).pem)
    ran = restow("operator", "--print-webhooks=https://a.example.com/", f"--ca-file={ca}")
    assert [each["kind"] for each in yaml.safe_load_all(ran.out)] == [each["kind"] for each in documents]
    config = next(iter(yaml.safe_load_all(ran.out)))["webhooks"][2]["clientConfig"]
    assert config == {
        "url": "https://a.example.com/mutate/conversion-stash",
        "caBundle": Bundle.of([b"ca"]).base64,
    }
    ca.write_text("nonsense")
    assert "has no PEM block" in restow("operator", "--print-webhooks=system/webhook", f"--ca-file={ca}").refusal


def test_the_crds_name_the_operator_from_the_first_moment() -> None:
    """An API server would refuse a URL together with a Service that was left."""
    address = read_address("https://127.0.0.1:9443")
    for document in family.manifests(lambda path: at(address, path)):
        config = document["spec"]["conversion"]["webhook"]["clientConfig"]
        assert config == {"url": f"https://127.0.0.1:9443/convert/{document['metadata']['name']}"}
    packaged = family.manifests(None)
    assert all("service" in each["spec"]["conversion"]["webhook"]["clientConfig"] for each in packaged)
    assert client_config(Url("https://a.example.com/x")) == {"url": "https://a.example.com/x"}


def test_every_flag_is_documented() -> None:
    """And none that there is not."""
    text = (Path(__file__).parents[2] / "docs" / "operator.md").read_text(encoding="utf-8")
    documented = {flag for line in text.splitlines() if line.startswith("| `-") for flag in _FLAG.findall(line)}
    flags = {flag for each in command.params for flag in each.opts if flag.startswith("--")}
    assert documented == flags


# Work that a leader does.


class Enough(BaseException):
    """Ends what runs for ever."""


def failing(*errors: Exception | None) -> Iterator[Exception | None]:
    """What the work raises, one time after the other; None lets it end by itself."""
    yield from errors
    raise Enough


async def kept(clock: HeldClock, errors: Iterator[Exception | None], lasts: float = 0.0) -> list[str]:
    """Keep work running that ends so; return what was told."""
    told: list[str] = []

    async def work() -> None:
        clock.seconds += lasts
        if (error := next(errors)) is not None:
            raise error

    with pytest.raises(Enough):
        await keep_running("controllers", work, ended=told.append, clock=clock.clock(), chance=lambda: 1.0)
    return told


async def test_work_that_ends_begins_again_ever_later(caplog: pytest.LogCaptureFixture) -> None:
    """Without the CRDs it would otherwise list and fail without a pause, or end the serving."""
    clock = HeldClock()
    errors = failing(Unreachable("no answer"), KeyError("secret"), None, *[Unreachable("no answer")] * 5)
    assert await kept(clock, errors) == ["controllers"] * 8
    assert clock.slept == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    first, second, third, *_ = caplog.records
    assert (first.levelno, first.message) == (logging.WARNING, "controllers ended by an error: no answer; again in 2 s")
    assert second.levelno == logging.ERROR and "KeyError (" in second.message and "secret" not in second.message
    assert third.message == "controllers ended by itself; again in 8 s"


async def test_a_server_that_asks_for_time_gets_it() -> None:
    """A replica that begins again sooner than the API server asks keeps it busy, and one that obeys a day is dead."""
    clock = HeldClock()
    wishes = [TooManyRequests(status=429, verb="get", target="it", retry_after=wish) for wish in (1.0, 30.0, 86400.0)]
    await kept(clock, failing(*wishes))
    assert clock.slept == [2.0, 30.0, 60.0]


async def test_what_went_well_for_long_begins_again_soon() -> None:
    """A failure once a day is none in a row."""
    clock = HeldClock()
    await kept(clock, failing(*[Unreachable("no answer")] * 3), lasts=300.0)
    assert clock.slept == [2.0, 2.0, 2.0]


DENIED = Forbidden(status=403, verb="list", target="configmaps")


@pytest.mark.parametrize(
    ("errors", "slept", "ends"),
    [
        ([Unreachable("no answer"), DENIED, Unreachable("no answer")], [0.5, 1.0, 2.0], None),
        ([DENIED], [], Forbidden),
        ([Unreachable("no answer")] * 20, [0.5, 1.0, 2.0, *[4.0] * 7], Unreachable),
    ],
    ids=["it comes back", "it refuses", "it stays away"],
)
async def test_a_start_waits_for_an_api_server(
    errors: list[Exception], slept: list[float], ends: type[Exception] | None
) -> None:
    """A restart of the API server would end the operator, or a missing right would be told after half a minute."""
    clock, left = HeldClock(), iter([*errors, None])

    async def step() -> None:
        if (error := next(left)) is not None:
            raise error

    starting = start_patiently(step, asyncio.Event(), clock=clock.clock(), chance=lambda: 1.0)
    if ends is None:
        await starting
    else:
        with pytest.raises(ends):
            await starting
    assert clock.slept == slept


@pytest.mark.parametrize("error", [Unreachable("no answer"), None])
async def test_a_start_that_is_asked_to_stop_does_not_wait(error: Exception | None) -> None:
    """SIGTERM would take half a minute while the API server is away, and for ever if it never answers."""
    stop, ended = asyncio.Event(), asyncio.Event()

    async def step() -> None:
        stop.set()
        if error is not None:
            raise error
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    with pytest.raises(StartStopped):
        await start_patiently(step, stop)
    assert ended.is_set() or error is not None


async def test_it_ends_when_cancelled() -> None:
    """SIGTERM has to release the lease."""

    async def work() -> None:
        await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(keep_running("controllers", work, ended=lambda _: None))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_serving_goes_on_whatever_ends(caplog: pytest.LogCaptureFixture) -> None:
    """In one TaskGroup with the serving a panic of a library, which is no Exception, ended the webhook."""

    class Panic(BaseException):
        pass

    ended = asyncio.Event()

    async def panics() -> None:
        ended.set()
        raise Panic

    async def goes_on() -> None:
        await asyncio.get_running_loop().create_future()

    async with run_alongside(panics(), goes_on()) as (_, other):
        await ended.wait()
        await asyncio.sleep(0)
        assert not other.done()
    assert other.cancelled()
    assert "panics ended for good: Panic" in caplog.text


# Numbers.


def test_metrics_say_what_hooks_told() -> None:
    """Alerts are written against these names."""
    clocks = ClockCheck(MemoryCluster())
    metrics = OperatorMetrics(clocks)
    key, source = Key(None, "a"), Selection(CRDS)
    metrics.controller(ControllerEvent("cloudprofile", ControllerEventType.RECONCILED, 3, 2, key, 0.02))
    metrics.controller(ControllerEvent("cloudprofile", ControllerEventType.FAILED, 4, 1, key, 0.02))
    metrics.controller(ControllerEvent("cloudprofile", ControllerEventType.INTERRUPTED, 5, 0, source=source))
    metrics.controller(ControllerEvent("migrator", ControllerEventType.RECONCILED, 7, 1, key, 0.02))
    metrics.election(ElectionEvent("a/restow-operator", "me", leading=True, transitions=2))
    metrics.ended("controllers")
    lines = metrics.text().decode().splitlines()
    for line in (
        'restow_controller_reconciles_total{controller="cloudprofile",result="succeeded"} 1.0',
        'restow_controller_reconciles_total{controller="cloudprofile",result="failed"} 1.0',
        'restow_controller_reconcile_seconds_count{controller="cloudprofile"} 2.0',
        'restow_controller_queued{controller="cloudprofile"} 5.0',
        'restow_controller_running{controller="cloudprofile"} 0.0',
        f'restow_controller_watch_interruptions_total{{controller="cloudprofile",resource="{CRDS.full_name}"}} 1.0',
        'restow_clock_difference_seconds{answer="closest"} 0.0',
        'restow_clock_difference_seconds{answer="farthest"} 0.0',
        "restow_clock_wrong 0.0",
        'restow_leader{lease="a/restow-operator"} 1.0',
        'restow_leader_transitions{lease="a/restow-operator"} 2.0',
        'restow_operator_work_ended_total{work="controllers"} 1.0',
    ):
        assert line in lines, (line, lines)
    metrics.election(ElectionEvent("a/restow-operator", "me", leading=False, transitions=2))
    lines = metrics.text().decode().splitlines()
    assert 'restow_controller_queued{controller="cloudprofile"} 0.0' in lines, "for one who does not lead, none waits"
    assert 'restow_controller_queued{controller="migrator"} 7.0' in lines, "that is another lease"
