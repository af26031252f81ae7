"""``restow serve``: the conversion and admission webhook."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from restow import options
from restow.conversion import Graph
from restow.crds import Crd
from restow.exits import Exit
from restow.kube.clock import SYSTEM_CLOCK
from restow.options import InputError
from restow.printing import say
from restow.registries import load_crds, load_graph

try:
    from restow.conversion.server import (
        BadCertificate,
        Inheritance,
        Limits,
        Phase,
        RestoreStash,
        ServingCertificate,
        Webhook,
        Workers,
        WorkersKeepDying,
        bind,
        conversions_by_crd,
        run_alone,
        run_parent,
        run_worker,
    )
    from restow.ownca import OwnAuthority, read_address
except ModuleNotFoundError as error:
    raise InputError(f"serving needs {error.name}: pip install 'restow[operator]'") from error

_MIB = 1024 * 1024
_STEP = "conversion-stash"


@dataclass(frozen=True, slots=True)
class _Served:
    """What the flags asked for."""

    graph: Graph
    crds: Sequence[Crd]
    certificate: Path
    key: Path
    limits: Limits

    def webhook(self) -> tuple[Webhook, ServingCertificate]:
        """Make what a process serves."""
        webhook = Webhook(
            conversions_by_crd(self.graph, self.crds),
            mutating={_STEP: RestoreStash(self.graph, self.crds)},
            limits=self.limits,
        )
        webhook.phase = Phase.SERVING
        return webhook, ServingCertificate(self.certificate, self.key, counts=webhook.counts, clock=webhook.clock)


@click.command("serve")
@click.option("--registry", required=True, metavar="MODULE:ATTR", help="The Registry, or Graph, with the conversions.")
@click.option(
    "--crd",
    "crd_files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Manifest of the CRDs: every field of every version is then accounted for; repeatable.",
)
@click.option(
    "--cert",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Serving certificate with its chain, PEM; replaced while serving when the file changes.",
)
@click.option(
    "--key", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Its private key, PEM, unencrypted."
)
@click.option(
    "--own-ca",
    metavar="NAMESPACE/SERVICE",
    help="Keep a CA and the certificate in Secrets beside this Service (or https://HOST), put the certificate into the "
    "folder of --cert and --key, and wire the CRDs of --crd to it.",
)
@options.connection
@click.option("--bind", "host", default="", metavar="HOST", help="Address to listen on; default: all.")
@click.option("--port", type=click.IntRange(0, 65535), default=9443, show_default=True, help="HTTPS, for API servers.")
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="HTTP, for /livez, /readyz and /metrics.",
)
@click.option("--workers", type=click.IntRange(1, 64), default=1, show_default=True, help="Processes that serve.")
@click.option(
    "--max-body-mib",
    type=click.IntRange(1),
    default=128,
    show_default=True,
    metavar="MIB",
    help="Largest ConversionReview.",
)
@click.option(
    "--max-in-flight-mib",
    type=click.IntRange(1),
    default=256,
    show_default=True,
    metavar="MIB",
    help="Largest sum of requests at work in a process; its memory is about four times that.",
)
@click.option(
    "--drain-seconds",
    type=click.FloatRange(0),
    default=10.0,
    show_default=True,
    metavar="S",
    help="How long SIGTERM leaves for endpoints to be withdrawn, still serving.",
)
@click.option(
    "--finish-seconds",
    type=click.FloatRange(0),
    default=15.0,
    show_default=True,
    metavar="S",
    help="How long requests in flight may take after that.",
)
def command(**flags: Any) -> None:
    """Serve conversions and admission over HTTPS.

    Each CRD has its own path, /convert/<plural>.<group>, for its spec.conversion.webhook; /mutate/conversion-stash is
    the admission step that gives objects the stash back that a client dropped.

    SIGTERM makes it unready, and drains it; a second one ends it at once. SIGHUP looks for a new certificate.
    """
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    logging.getLogger("restow").setLevel(logging.INFO)
    crds = load_crds(flags["crd_files"])
    limits = Limits(
        body=flags["max_body_mib"] * _MIB,
        in_flight=max(flags["max_in_flight_mib"], flags["max_body_mib"]) * _MIB,
        drain_seconds=flags["drain_seconds"],
        finish_seconds=flags["finish_seconds"],
    )
    served = _Served(load_graph(flags["registry"], crds), crds, flags["cert"], flags["key"], limits)
    inheritance = Inheritance.claimed(os.environ)
    authority = _own_authority(served, flags)
    try:
        if authority is not None and inheritance is None:
            authority.prepare()
        webhook, certificate = served.webhook()
        if inheritance is not None:
            _run(lambda stop: run_worker(webhook, certificate, inheritance, stop), {signal.SIGHUP: certificate.reload})
            return
        listener, probes = _bound(flags["host"], flags["port"]), _bound(flags["host"], flags["metrics_port"])
        _tell(webhook, listener, probes)
        if flags["workers"] == 1:
            _run(
                lambda stop: _keeping(authority, run_alone(webhook, certificate, listener, probes, stop)),
                {signal.SIGHUP: certificate.reload},
            )
            return
        command = (sys.executable, *sys.orig_argv[1:])
        workers = Workers(command, listener, flags["workers"], limits=limits, clock=SYSTEM_CLOCK)
        _run(
            lambda stop: _keeping(authority, run_parent(workers, probes, stop, limits=limits)),
            {signal.SIGHUP: lambda: workers.signal(signal.SIGHUP)},
        )
    except BadCertificate as error:
        raise InputError(str(error)) from error
    except WorkersKeepDying as error:
        say(f"restow: {error}", style="red")
        raise SystemExit(int(Exit.FAILURES)) from None


def _own_authority(served: _Served, flags: dict[str, Any]) -> OwnAuthority | None:
    """Return what --own-ca asks for. Raises click.UsageError."""
    if flags["own_ca"] is None:
        return None
    folder = served.certificate.parent
    if not served.crds or (served.certificate, served.key) != (folder / "tls.crt", folder / "tls.key"):
        msg = "--own-ca needs --crd, and --cert FOLDER/tls.crt --key FOLDER/tls.key of one folder"
        raise click.UsageError(msg)
    address = read_address(flags["own_ca"])
    namespace = getattr(address, "namespace", None)
    return OwnAuthority(address, folder, served.crds, namespace, flags["kubeconfig"], flags["context"])


async def _keeping(authority: OwnAuthority | None, serving: Coroutine[Any, Any, None]) -> None:
    if authority is None:
        await serving
    else:
        await authority.keep(serving)


def _bound(host: str, port: int) -> socket.socket:
    try:
        return bind(host, port)
    except OSError as error:
        raise InputError(f"cannot listen on {host or '*'}:{port}: {error.strerror}") from error


def _tell(webhook: Webhook, listener: socket.socket, probes: socket.socket) -> None:
    """Say in one line what is served where."""
    port, probes_port = listener.getsockname()[1], probes.getsockname()[1]
    say(f"serving {', '.join(webhook.paths)} at port {port}, probes and metrics at port {probes_port}")


def _run(
    served: Callable[[asyncio.Event], Coroutine[Any, Any, None]], handlers: dict[signal.Signals, Callable[[], None]]
) -> None:
    """Run until SIGTERM or SIGINT have it drain; a second one ends the process at once."""

    async def run() -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()

        def ask_to_stop(number: signal.Signals) -> None:
            stop.set()
            loop.remove_signal_handler(number)

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, ask_to_stop, number)
        for number, handler in handlers.items():
            loop.add_signal_handler(number, handler)
        # The graph and all modules stay: the collector need not walk through them during a large review.
        gc.collect()
        gc.freeze()
        await served(stop)

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        raise SystemExit(int(Exit.FAILURES)) from None
