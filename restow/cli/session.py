"""Run a subcommand's coroutine: connect to an API server, drain on SIGTERM, print an error as one sentence."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from restow import crds, kube, migrator
from restow.cli.connection import ClusterConnection
from restow.cli.exits import Exit
from restow.cli.logs import log_to_stderr
from restow.cli.printing import say

if TYPE_CHECKING:  # only a run needs them, and they take longer than to show the help
    import asyncio
    import signal

    from restow.kube.retry import RetryingCluster

PATIENCE = "RESTOW_PATIENCE"
"""The environment variable for the seconds to wait for an API server that does not answer."""


@dataclass(frozen=True, slots=True)
class Session:
    """The environment of a subcommand: the cluster, whose client retries transient errors, and the request to stop."""

    cluster: RetryingCluster
    stop: asyncio.Event


def run(command: Callable[[Session], Awaitable[Exit]], connection: ClusterConnection, *, drains: bool = False) -> None:
    """Run a subcommand, and exit the process with its exit code.

    For a command that ``drains``, SIGTERM and SIGINT set ``Session.stop``, and the command ends by itself. A second
    signal ends it immediately. Any other command ends immediately on the first signal.
    """
    import asyncio

    log_to_stderr()
    try:
        code = asyncio.run(_run(command, connection, drains=drains))
    except (kube.KubeError, migrator.MigrationRefused, crds.CrdError, migrator.ListFailed) as error:
        say(f"restow: {sentence(error)}")
        code = _code(error)
    except KeyboardInterrupt:
        code = Exit.FAILURES
    except BrokenPipeError:
        # The reader has closed the pipe; keep the interpreter from printing an error when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = Exit.FAILURES
    raise SystemExit(int(code))


async def _run(command: Callable[[Session], Awaitable[Exit]], connection: ClusterConnection, *, drains: bool) -> Exit:
    import asyncio
    import signal

    from restow.cli import signals
    from restow.kube.retry import RetryingCluster

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT) if drains else ():
        signals.on(loop, number, partial(_ask_to_stop, loop, stop, number))
    async with connection.open() as cluster:
        return await command(Session(RetryingCluster(cluster, patience_s=_patience(connection)), stop))


def _patience(connection: ClusterConnection) -> float:
    """Return how long a read waits for an API server: as the environment says, else at most --request-timeout."""
    from restow.kube.retry import READ_PATIENCE_S

    said = os.environ.get(PATIENCE, "")
    try:
        return float(said) if said else min(READ_PATIENCE_S, connection.request_timeout or READ_PATIENCE_S)
    except ValueError as error:
        msg = f"{PATIENCE} is a number of seconds"
        raise click.UsageError(msg) from error


def _code(error: Exception) -> Exit:
    """Distinguish transient errors, after which a Job retries, from errors that the user has to fix."""
    passes = (
        error.out_of_reach
        if isinstance(error, kube.KubeError)
        else isinstance(error, migrator.ListFailed) and error.unreachable
    )
    return Exit.OUT_OF_REACH if passes else Exit.REFUSED


async def require_namespace(session: Session, namespace: str | None) -> None:
    """Refuse a namespace that does not exist; a namespace that the user may not read counts as existing.

    Raises:
        MigrationRefused: the namespace does not exist.
    """
    from restow.migrator.requests.preflight import missing_namespace

    if namespace and (why := await missing_namespace(session.cluster, namespace)):
        raise migrator.MigrationRefused(why)


def _ask_to_stop(loop: asyncio.AbstractEventLoop, stop: asyncio.Event, number: signal.Signals) -> None:
    from restow.cli import signals

    stop.set()
    signals.off(loop, number)


def sentence(error: Exception) -> str:
    """Return an error as one sentence for users, with the next step."""
    from restow.kube.errors import ApiError, CredentialsExpired, NotFound, Unauthorized, Unreachable
    from restow.kube.resources import NAMESPACES

    if isinstance(error, Unauthorized):
        return (
            f"{error.verb} {error.target}: the API server does not accept the credentials; they are wrong or have "
            "expired. Renew them and run again"
        )
    if isinstance(error, NotFound) and error.details.kind == NAMESPACES.plural:
        return f"the API server would not {error.verb} {error.target}: {error.message}. Create the namespace first"
    if isinstance(error, ApiError):
        return f"the API server would not {error.verb} {error.target}: {error.message or error.status}"
    if isinstance(error, CredentialsExpired):
        return f"{error}. Log in, or have the plugin work again, then run again"
    if isinstance(error, Unreachable):
        return f"{error}. Check that it runs, and that this is the cluster you mean (--kubeconfig, --context)"
    return str(error)
