"""``python -m demo``, from a checkout: starts a control plane, runs the scenario on it, and shows the result.

What needs no control plane is shown first, while its binaries are fetched or built.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import click
from rich.table import Table
from rich.text import Text

from demo.background import Background, in_background
from demo.checks import Check
from demo.client import DemoError
from demo.conversions import show_conversions
from demo.fixtures import OLD
from demo.leftover import CRD as LEFT
from demo.leftover import leave_work
from demo.narration import Narration
from demo.scenario import Scenario
from restow.cli import options
from restow.cli.console import console
from restow.cli.exits import Exit
from restow.cli.logs import log_to_stderr
from restow.cli.printing import echo, print_data, say
from restow.cli.session import sentence
from restow.controlplane import ControlPlane, ControlPlaneError
from restow.controlplane.binaries import find_binaries
from restow.crds import CrdError
from restow.kube import KubeError, connect
from restow.kube.errors import first_error
from restow.migrator import ListFailed, MigrationRefused

__all__ = ["DemoResult", "command", "run"]

FOLDER = Path(__file__).parents[1] / ".cache" / "demo"
"""Where a control plane that is kept has its kubeconfig, so that its path is always the same."""

_DEATH_SEEN_WITHIN = 1.0  # seconds; twice what the control plane takes to notice a dead process


@dataclass(frozen=True, slots=True)
class DemoResult:
    """The result of a run.

    Attributes:
        kubernetes: the API server's version.
        objects: the requested number of databases.
        seconds: duration of each step, by title.
    """

    kubernetes: str
    objects: int
    checks: tuple[Check, ...]
    seconds: dict[str, float]
    duration_s: float

    @property
    def passed(self) -> bool:
        """Whether every check holds."""
        return all(check.passed for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of ``python -m demo -o json``."""
        return {
            "result": "Passed" if self.passed else "Failed",
            "kubernetes": self.kubernetes,
            "objects": self.objects,
            "checks": [check.to_json() for check in self.checks],
            "steps": [{"step": title, "durationSeconds": round(took, 3)} for title, took in self.seconds.items()],
            "durationSeconds": round(self.duration_s, 3),
        }


async def run(objects: int, show: Callable[[DemoResult], None], *, keep: Background | None) -> DemoResult:
    """Start a control plane, run the scenario, show the result, and remove everything.

    Args:
        objects: the number of databases.
        show: receives the result while the control plane still runs.
        keep: keep the control plane running until cancelled, after what it needs to be found is there.

    Raises:
        ControlPlaneError: the control plane did not start, or one of its processes died.
        DemoError, KubeError, MigrationRefused: a step of the scenario failed.
    """
    begun = time.monotonic()
    narration = Narration()
    async with AsyncExitStack() as stack:
        with narration.step("Conversions, without a cluster"):
            await _conversions_during_build(narration)
        with narration.step("A control plane of its own"):
            narration.say("Starting etcd and kube-apiserver.")
            plane = await stack.enter_async_context(ControlPlane())
            version = await _version(plane)
            narration.say(f"{version} listens on {plane.server}.")
        checks = await _run_scenario(narration, plane, objects)
        finished = DemoResult(version, objects, tuple(checks), narration.seconds, time.monotonic() - begun)
        show(finished)
        if keep is not None:
            await _keep_running(narration, plane, keep)
    return finished


async def _conversions_during_build(narration: Narration) -> None:
    """Show what needs no control plane, and wait for the binaries; a log has lines about them, a terminal a bar."""
    with narration.sharing() as share:
        live = console(stderr=True).is_terminal
        progress = (lambda sentence, part=None: share(sentence, part)) if live else None
        async with asyncio.TaskGroup() as group:
            group.create_task(find_binaries(("etcd", "kube-apiserver"), progress=progress))
            await show_conversions(narration)


async def _run_scenario(narration: Narration, plane: ControlPlane, objects: int) -> list[Check]:
    try:
        async with connect(plane.kubeconfig) as cluster:
            scenario = Scenario(narration, plane, cluster, objects)
            await scenario.run()
    except Exception:
        await _raise_if_a_process_died(plane)
        raise
    return scenario.checks


async def _version(plane: ControlPlane) -> str:
    """Return the version that the binary prints: ``Kubernetes v1.37.1``."""
    asked = await asyncio.create_subprocess_exec(
        plane.binaries["kube-apiserver"], "--version", stdout=asyncio.subprocess.PIPE
    )
    said, _ = await asked.communicate()
    return said.decode().strip()


async def _raise_if_a_process_died(plane: ControlPlane) -> None:
    """Raise ProcessError, with its log, if a process of the control plane has died, which causes other errors."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_DEATH_SEEN_WITHIN):
            await plane.watch()


async def _keep_running(narration: Narration, plane: ControlPlane, keep: Background) -> None:
    """Leave something to migrate, print how to look around, and keep the control plane running."""
    async with connect(plane.kubeconfig) as cluster:
        await leave_work(cluster)
    narration.heading("The control plane goes on running. Look around, and migrate what is left for you:")
    kubeconfig = keep.file("kubeconfig", plane.kubeconfig.read_text(encoding="utf-8"))
    narration.command(f"export KUBECONFIG={kubeconfig} PATH={Path(sys.executable).parent}:$PATH")
    narration.command(f"restow plan {LEFT}")
    narration.command(f"restow migrate {LEFT}")
    narration.command(f"restow ready {LEFT} --drop {OLD}")
    narration.say("This ends it:")
    narration.command(f"kill {os.getpid()}")
    keep.release()
    await plane.watch()


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
@click.option("--keep", is_flag=True, help="Leave the control plane running in the background at the end.")
@options.output
@options.logs
def command(objects: int, keep: bool, output: str) -> None:
    """Walk through an API version's life on a local control plane.

    Starts an etcd and a kube-apiserver of its own (no cluster of yours is touched), fills them with objects of several
    managers, brings a new API version, shows what goes wrong without restow, migrates while clients keep writing, and
    removes the old version. What is stored is read from etcd and checked on the way.

    Ctrl-C ends it at any time and leaves nothing behind. With --keep the command returns at the end, and the control
    plane runs until the printed `kill`; its kubeconfig is .cache/demo/kubeconfig in the checkout.

    Exit codes: 0 every check passed; 1 a check failed, or it was ended; 2 usage, or there is no control plane.

    \b
    python -m demo
    python -m demo --objects 200 --keep
    """
    log_to_stderr()
    if keep:
        with in_background(FOLDER) as background:
            _run(objects, output, keep=background)
    _run(objects, output, keep=None)


def _run(objects: int, output: str, *, keep: Background | None) -> NoReturn:
    try:
        code = asyncio.run(_demo(objects, output, keep=keep))
    except _KNOWN as error:
        for line in f"restow: {sentence(error)}".splitlines():
            echo(line, err=True)
        code = Exit.REFUSED
    except BrokenPipeError:
        # The reader has closed the pipe; keep the interpreter from printing an error when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = Exit.FAILURES
    raise SystemExit(int(code))


async def _demo(objects: int, form: str, *, keep: Background | None) -> Exit:
    """Run until the end or the first signal; a second signal only makes the control plane stop faster."""
    running = asyncio.current_task()
    assert running is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    results: list[DemoResult] = []
    stdout = sys.stdout

    def show(finished: DemoResult) -> None:
        results.append(finished)
        with redirect_stdout(stdout):
            _show(finished, form)

    try:
        with redirect_stdout(stdout if form == "table" else sys.stderr):
            await run(objects, show, keep=keep)
    except asyncio.CancelledError:
        if not results:
            say("Interrupted; the control plane has been taken down.", style="magenta")
    except ExceptionGroup as errors:
        raise first_error(errors) from errors
    return Exit.DONE if results and results[0].passed else Exit.FAILURES


def _show(finished: DemoResult, form: str) -> None:
    """Print the checks as a table, or the whole result as JSON or YAML."""
    if form != "table":
        print_data(finished.to_json(), form)
        return
    console().print("\nWhat was checked", style="bold")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("WHEN", "CHECK"):
        table.add_column(column)
    table.add_column("LOOKED AT", justify="right")
    table.add_column("RESULT", overflow="fold")
    when = ""
    for check in finished.checks:
        cell = Text("ok", style="bold") if check.passed else Text(check.verdict, style="bold red")
        what = Text(check.what)
        if check.note:
            what.append(f"\n{check.note}", style="dim")
        table.add_row("" if check.when == when else check.when, what, str(check.count), cell)
        when = check.when
    console().print(table, soft_wrap=False)
    failed = sum(not check.passed for check in finished.checks)
    said = (
        f"{failed} of {len(finished.checks)} checks FAILED" if failed else f"All {len(finished.checks)} checks passed"
    )
    console().print(
        f"\n{said}, on {finished.kubernetes}, in {finished.duration_s:.0f} s.",
        style="bold red" if failed else "bold",
    )


if __name__ == "__main__":
    command(prog_name="python -m demo")
