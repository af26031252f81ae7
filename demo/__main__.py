"""``python -m demo``, from a checkout: the whole journey, narrated, on a control plane of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import redirect_stdout

import click
from rich.table import Table
from rich.text import Text

from demo.answers import DemoError
from demo.play import Played, play
from restow.cli import options
from restow.cli.exits import Exit
from restow.cli.logs import log_to_stderr
from restow.cli.printing import console, echo, print_data, say
from restow.cli.session import sentence
from restow.controlplane import ControlPlaneError
from restow.crds import CrdError
from restow.kube import KubeError
from restow.migrator import ListFailed, MigrationRefused

__all__ = ["command"]

_KNOWN = (ControlPlaneError, DemoError, KubeError, MigrationRefused, CrdError, ListFailed)


@click.command("demo")
@click.option(
    "--objects",
    type=click.IntRange(60, 50_000),
    default=2000,
    show_default=True,
    metavar="N",
    help="Databases to begin with.",
)
@click.option("--keep", is_flag=True, help="Leave the control plane running at the end, until Ctrl-C.")
@options.output
@options.logs
def command(objects: int, keep: bool, output: str) -> None:
    """Walk through an API version's life on a local control plane.

    Starts an etcd and a kube-apiserver of its own (no cluster of yours is touched), fills them with objects of several
    managers, brings a new API version, shows what goes wrong without restow, migrates while clients keep writing, and
    removes the old version. What is stored is read from etcd and checked on the way.

    Ctrl-C ends it at any time and leaves nothing behind.

    Exit codes: 0 every check passed; 1 a check failed, or it was ended; 2 usage, or there is no control plane.

    \b
    python -m demo
    python -m demo --objects 200 --keep
    """
    log_to_stderr()
    try:
        code = asyncio.run(_demo(objects, output, keep=keep))
    except _KNOWN as error:
        echo(f"restow: {sentence(error)}", err=True)
        code = Exit.REFUSED
    except BrokenPipeError:
        # Whoever read the story has seen enough; keep the interpreter from complaining when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = Exit.FAILURES
    raise SystemExit(int(code))


async def _demo(objects: int, form: str, *, keep: bool) -> Exit:
    """Play to the end, or to the first signal; a second one only makes the control plane end faster."""
    playing = asyncio.current_task()
    assert playing is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, playing.cancel)
    results: list[Played] = []
    stdout = sys.stdout

    def show(played: Played) -> None:
        results.append(played)
        with redirect_stdout(stdout):
            _show(played, form)

    try:
        with redirect_stdout(stdout if form == "table" else sys.stderr):
            await play(objects, show, keep=keep)
    except asyncio.CancelledError:
        if not results:
            say("Interrupted; the control plane has been taken down.", style="yellow")
    except ExceptionGroup as errors:
        raise _first(errors) from errors
    return Exit.DONE if results and results[0].passed else Exit.FAILURES


def _first(errors: ExceptionGroup[Exception]) -> Exception:
    """Return the error that made a group of tasks fail; the others failed for the same reason."""
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first


def _show(played: Played, form: str) -> None:
    """Print the checks as a table; or all of the result as JSON or YAML."""
    if form != "table":
        print_data(played.to_json(), form)
        return
    console().print("\nWhat was checked", style="bold cyan")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("WHEN", "CHECK"):
        table.add_column(column)
    table.add_column("LOOKED AT", justify="right")
    table.add_column("RESULT", overflow="fold")
    when = ""
    for check in played.checks:
        result = Text("ok", style="green") if check.passed else Text(check.verdict, style="bold red")
        what = Text(check.what)
        if check.note:
            what.append(f"\n{check.note}", style="dim")
        table.add_row("" if check.when == when else check.when, what, str(check.count), result)
        when = check.when
    console().print(table, soft_wrap=False)
    failed = sum(not check.passed for check in played.checks)
    said = f"{failed} of {len(played.checks)} checks FAILED" if failed else f"All {len(played.checks)} checks passed"
    console().print(
        f"\n{said}, on {played.kubernetes}, in {played.duration_s:.0f} s.", style="bold red" if failed else "bold green"
    )


if __name__ == "__main__":
    command(prog_name="python -m demo")
