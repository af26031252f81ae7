"""The common part of the commands that serve a webhook: flags, sockets, and the end of the process."""

from __future__ import annotations

import gc
import logging
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from restow.cli import signals
from restow.cli.exits import Exit, InputError
from restow.cli.options import together

if TYPE_CHECKING:
    import asyncio
    import socket

    from restow.conversion.server import Clients, Limits, WebhookServer

_F = TypeVar("_F", bound=Callable[..., Any])
_MIB = 1024 * 1024
_log = logging.getLogger(__name__)

_OPTIONS = (
    click.option("--bind", "host", default="", metavar="HOST", help="Address to listen on; default: all."),
    click.option(
        "--port", type=click.IntRange(0, 65535), default=9443, show_default=True, help="HTTPS, for API servers."
    ),
    click.option(
        "--metrics-port",
        type=click.IntRange(0, 65535),
        default=8080,
        show_default=True,
        help="HTTP, for /livez, /readyz and /metrics.",
    ),
    click.option(
        "--client-ca",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Answer admission requests only to clients with a certificate that these certificates (PEM) signed; "
        "followed when it changes.",
    ),
    click.option(
        "--client-name",
        "client_names",
        multiple=True,
        metavar="CN",
        help="With --client-ca: common name that may ask; repeatable. Default: every name that the CA signed.",
    ),
    click.option(
        "--require-client-cert",
        type=click.Choice(["admission", "all"]),
        default="admission",
        show_default=True,
        help="With --client-ca: what needs a certificate. API servers show none for conversion, so all is for those "
        "behind a proxy that does.",
    ),
    click.option(
        "--max-body-mib",
        type=click.IntRange(1),
        default=32,
        show_default=True,
        metavar="MIB",
        help="Largest ConversionReview.",
    ),
    click.option(
        "--max-in-flight-mib",
        type=click.IntRange(1),
        default=256,
        show_default=True,
        metavar="MIB",
        help="Largest sum of requests at work in a process; its memory is about four times that.",
    ),
    click.option(
        "--drain-seconds",
        type=click.FloatRange(0),
        default=10.0,
        show_default=True,
        metavar="S",
        help="How long SIGTERM leaves for endpoints to be withdrawn, still serving.",
    ),
    click.option(
        "--finish-seconds",
        type=click.FloatRange(0),
        default=15.0,
        show_default=True,
        metavar="S",
        help="How long requests in flight may take after that.",
    ),
)


def flags(function: _F) -> _F:
    """Add --bind, --port, --metrics-port, and the flags that ``clients`` and ``limits`` read."""
    return together(*_OPTIONS)(function)


def clients(given: dict[str, Any]) -> Clients:
    """Return the clients that may call the webhook, from the flags.

    Raises:
        click.UsageError: --require-client-cert or --client-name is given without --client-ca.
    """
    from restow.conversion.server import Clients

    every, names = given["require_client_cert"] == "all", frozenset(given["client_names"])
    if given["client_ca"] is None:
        if every or names:
            msg = "--require-client-cert and --client-name need --client-ca: by it certificates are verified"
            raise click.UsageError(msg)
        return Clients()
    return Clients(admission=True, conversion=every, names=names)


def limits(given: dict[str, Any]) -> Limits:
    """Return the limits from the flags."""
    from restow.conversion.server import Limits

    return Limits(
        body=given["max_body_mib"] * _MIB,
        in_flight=max(given["max_in_flight_mib"], given["max_body_mib"] * 4 // 3) * _MIB,  # a share for small ones
        drain_seconds=given["drain_seconds"],
        finish_seconds=given["finish_seconds"],
    )


def bound(given: dict[str, Any]) -> tuple[socket.socket, socket.socket]:
    """Return listening sockets for API servers and for probes; call it before anything in the cluster is written.

    Raises:
        InputError: the process cannot listen on a port; the message names its flag.
    """
    return _bound(given["host"], given["port"], "--port"), bound_probes(given)


def bound_probes(given: dict[str, Any]) -> socket.socket:
    """Return a listening socket for probes.

    Raises:
        InputError: the process cannot listen on the port.
    """
    return _bound(given["host"], given["metrics_port"], "--metrics-port")


def _bound(host: str, port: int, flag: str) -> socket.socket:
    from restow.conversion.server import bind

    try:
        return bind(host, port)
    except OSError as error:
        raise InputError(f"cannot listen on {host or '*'}:{port} ({flag}): {error.strerror}") from error


def tell(webhook: WebhookServer, listener: socket.socket, probes: socket.socket) -> None:
    """Log the address of the webhook and of the probes in one line."""
    port, probes_port = listener.getsockname()[1], probes.getsockname()[1]
    paths = ", ".join(webhook.paths)
    _log.info("serving %s at port %d, probes and metrics at port %d", paths, port, probes_port)


def run_until_stopped(
    served: Callable[[asyncio.Event], Coroutine[Any, Any, None]], hangup: Callable[[], None] | None = None
) -> None:
    """Run until SIGTERM or SIGINT, then drain; a second one ends the process immediately. SIGHUP calls ``hangup``."""
    import asyncio

    _raise_file_limit()

    async def run() -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()

        def ask_to_stop(number: signal.Signals) -> None:
            stop.set()
            signals.off(loop, number)

        for number in (signal.SIGTERM, signal.SIGINT):
            signals.on(loop, number, partial(ask_to_stop, number))
        if hangup is not None:
            signals.on_hangup(loop, hangup)
        # The graph and all modules stay: the collector need not traverse them during a large review.
        gc.collect()
        gc.freeze()
        await served(stop)

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        raise SystemExit(int(Exit.FAILURES)) from None


def _raise_file_limit() -> None:
    """Raise the limit of open files to the hard limit, as Go programs do, because each connection is a file."""
    with suppress(ImportError, OSError, ValueError):
        import resource  # Windows has neither the limit nor the module

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
