"""One command on several clusters: a row for each, and one exit code.

Each cluster is a process of the same command, with ``-o json``. So a cluster that is away, a credential plugin that
waits for a password, or a process that runs out of memory delays or ends no other, and every cluster is treated exactly
as if it were the only one. Results are JSON on the processes' stdout; their messages are passed on as they come, each
after the name of its cluster.

A command that writes begins with one cluster alone, the canary, and starts no further cluster after the first failure.
Clusters that it has begun are finished: half a migration helps nobody.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from restow.cli.exits import Exit, InputError
from restow.cli.printing import print_data, print_table, say
from restow.cli.shared import WORDS

if TYPE_CHECKING:  # only a run needs it, and it takes longer than to show the help
    from asyncio.subprocess import Process

    from restow.cli.connection import ClusterConnection

_F = TypeVar("_F", bound=Callable[..., Any])

_COMMAND: Final = (sys.executable, "-P", "-c", "from restow.main import main; main()")
_PARALLEL: Final = 4
_LINE: Final = 16 * 1024 * 1024  # bytes; the longest message of a process
_MESSAGES: Final = 20  # the last ones of each cluster, in the JSON
_SEVERITY: Final = (Exit.FAILURES, Exit.REFUSED, Exit.OUT_OF_REACH, Exit.DUE, Exit.DONE)
_OWN: Final[Mapping[str, bool]] = {
    "--contexts": True,
    "--all-contexts": False,
    "--kubeconfig-dir": True,
    "--parallel": True,
    "--keep-going": False,
    "--output": True,
    "-o": True,
}
"""The flags that a cluster's own process does not get, and whether each has a value."""
_OF_ONE: Final[Mapping[str, str]] = {
    "api_servers": "--api-server",
    "conversion_url": "--conversion-url",
    "report_file": "--report",
}
"""Parameters that mean something in one cluster only, with their flags."""


@dataclass(frozen=True, slots=True)
class FleetTable:
    """How a command's results become rows.

    Attributes:
        columns: the names of the command's columns.
        cells: returns the cells from the command's JSON.
        done, due: the words for the exit codes 0 and 3.
        canary: whether the command writes: one cluster is first, and the first failure ends it.
    """

    columns: tuple[str, ...]
    cells: Callable[[Any], tuple[str, ...]]
    done: str = "done"
    due: str = "work is due"
    canary: bool = False

    def word(self, code: int | None) -> str:
        """Return the word for an exit code; None is that of a cluster that was not started."""
        words: dict[int | None, str] = {
            Exit.DONE: self.done,
            Exit.REFUSED: "refused",
            Exit.DUE: self.due,
            Exit.OUT_OF_REACH: "out of reach",
            None: "not started",
        }
        return words.get(code, "failed")


@dataclass(frozen=True, slots=True)
class FleetMember:
    """A cluster: its name in the table, the flags that select it, and the API server that it names, if known."""

    name: str
    flags: tuple[str, ...]
    server: tuple[str, ...] = ()


@dataclass(slots=True)
class _Answer:
    """The end of one process: its exit code (None if it was not started), result, and last messages."""

    member: FleetMember
    code: int | None = None
    result: Any = None
    messages: deque[str] = field(default_factory=lambda: deque(maxlen=_MESSAGES))

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.member.name,
            "exitCode": self.code,
            "result": self.result,
            "messages": list(self.messages),
        }


def across(table: FleetTable) -> Callable[[_F], _F]:
    """Add the flags of a fleet to a command that has ``options.connection`` and ``options.output``."""

    def decorate(function: _F) -> _F:
        @wraps(function)
        def command(**given: Any) -> Any:
            chosen = given.pop("contexts"), given.pop("all_contexts"), given.pop("kubeconfig_dir")
            parallel, keep_going = given.pop("parallel"), given.pop("keep_going", False)
            if not any(chosen):
                return function(**given)
            connection = given["connection"]
            _check(chosen, connection, given)
            members = _members(*chosen, connection)
            words = click.get_current_context().meta[WORDS]
            return _run(_Fleet(table, words, members, parallel, keep_going=keep_going), given["output"])

        flags = [*_FLAGS, *([_KEEP_GOING] if table.canary else [])]
        for each in reversed(flags):
            command = each(command)
        return command  # type: ignore[return-value] # the function, with other parameters

    return decorate


_FLAGS: Final = (
    click.option(
        "--contexts",
        metavar="A,B",
        help="Several clusters, instead of one: these contexts of the kubeconfig, in this order.",
    ),
    click.option("--all-contexts", is_flag=True, help="Several clusters: all contexts of the kubeconfig."),
    click.option(
        "--kubeconfig-dir",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        metavar="FOLDER",
        help="Several clusters: the current context of each file in this folder, in the order of their names.",
    ),
    click.option(
        "--parallel",
        type=click.IntRange(1, 100),
        default=_PARALLEL,
        show_default=True,
        metavar="N",
        help="With several clusters: the most at the same time.",
    ),
)
_KEEP_GOING: Final = click.option(
    "--keep-going",
    is_flag=True,
    help="With several clusters: go on after one that failed. Without it, the first failure ends the run.",
)


def _check(chosen: tuple[Any, ...], connection: ClusterConnection, given: Mapping[str, Any]) -> None:
    """Refuse flags that have no meaning for several clusters.

    Raises:
        click.UsageError: there is such a flag.
    """
    if sum(map(bool, chosen)) > 1:
        raise click.UsageError("--contexts, --all-contexts and --kubeconfig-dir each select the clusters: give one")
    one = [flag for name, flag in _OF_ONE.items() if given.get(name)]
    one += [f"--{name}" for name in ("context", "cluster") if getattr(connection, name)]
    one += ["--kubeconfig"] if chosen[2] and connection.kubeconfig else []
    one += ["-f -"] if Path("-") in given.get("files", ()) else []
    if one:
        raise click.UsageError(f"{one[0]} is for one cluster: leave it out, or run the command for one cluster")


def _members(
    contexts: str | None, everything: bool, folder: Path | None, connection: ClusterConnection
) -> list[FleetMember]:
    """Return the clusters in the order in which they are started, each once.

    Raises:
        InputError: a context does not exist, or there is none.
    """
    from restow.kube.credentials import kubeconfig_files
    from restow.kube.errors import ConfigError
    from restow.kube.kubeconfig import context_names

    if folder is not None:
        files = sorted(each for each in folder.iterdir() if each.is_file() and not each.name.startswith("."))
        found = [_member(each.name, [each], None, ("--kubeconfig", str(each))) for each in files]
        where = f"a file in {folder}"
    else:
        try:
            several = kubeconfig_files(connection.kubeconfig, wanted=True)
            known = context_names(several)
        except ConfigError as error:
            raise InputError(str(error)) from error
        names = known if everything else tuple(filter(None, (each.strip() for each in (contexts or "").split(","))))
        where = f"a context of kubeconfig {' '.join(map(str, several))}"
        if missing := [each for each in names if each not in known]:
            raise InputError(f"{missing[0]!r} is not {where}: it has {', '.join(known) or 'none'}")
        found = [_member(each, several, each, ("--context", each)) for each in names]
    if not found:
        raise InputError(f"there is no cluster to work with: none is named by {where}")
    return list(_each_once(found))


def _member(name: str, files: Sequence[Path], context: str | None, flags: tuple[str, ...]) -> FleetMember:
    """Return a cluster; a malformed entry is reported by its own process, and stops no other."""
    from restow.kube.errors import ConfigError
    from restow.kube.kubeconfig import choose_context

    try:
        entry = choose_context(files, context).cluster
    except ConfigError:
        return FleetMember(name, flags)
    keys = ("server", "tls-server-name", "proxy-url")
    return FleetMember(name, flags, tuple(str(entry.get(key) or "").rstrip("/") for key in keys))


def _each_once(members: Sequence[FleetMember]) -> Iterator[FleetMember]:
    """Leave out what names the API server of an earlier one: two runs at once would only disturb each other."""
    seen: dict[tuple[str, ...], str] = {}
    for each in members:
        if each.server and (before := seen.setdefault(each.server, each.name)) is not each.name:
            say(f"left out: {each.name} names the same API server as {before}, {each.server[0]}", style="magenta")
        else:
            yield each


def _run(fleet: _Fleet, form: str) -> None:
    """Run the fleet, show its results, and exit the process with its exit code."""
    import asyncio

    answers = asyncio.run(fleet.run())
    code = exit_code([each.code for each in answers])
    if form != "table":
        print_data({"exitCode": int(code), "clusters": [each.to_json() for each in answers]}, form)
    else:
        print_table(("cluster", "result", *fleet.table.columns), [fleet.row(each) for each in answers])
    if left := [each.member.name for each in answers if each.code is None]:
        say(f"not started: {', '.join(left)}. Run again: what is done is skipped", style="red")
    raise SystemExit(int(code))


def exit_code(codes: Sequence[int | None]) -> Exit:
    """Return the exit code of a fleet: the most severe of its clusters.

    A failure counts most, then a refusal, then a cluster out of reach, then due work. A process that was killed, and a
    cluster that was not started, count as failures where nothing worse explains them.
    """
    known = {code for code in codes if code is not None and code in list(Exit)}
    found = next((each for each in _SEVERITY if each in known), Exit.FAILURES)
    started = [code for code in codes if code is not None]
    killed = any(code not in list(Exit) for code in started)
    stopped = len(started) < len(codes) and found in (Exit.DONE, Exit.DUE)
    return Exit.FAILURES if killed or stopped else found


class _Fleet:
    """Runs the processes of a fleet.

    Args:
        table: how results become rows; it also says whether there is a canary.
        words: the command line, from the command's name on.
        members: the clusters.
        parallel: the most processes at the same time.
        keep_going: whether a failure of one cluster starts the others all the same.
    """

    def __init__(
        self,
        table: FleetTable,
        words: Sequence[str],
        members: Sequence[FleetMember],
        parallel: int,
        *,
        keep_going: bool,
    ) -> None:
        self.table = table
        self._words = words
        self._answers = [_Answer(each) for each in members]
        self._waiting = deque(self._answers)
        self._parallel = parallel
        self._stops = table.canary and not keep_going
        self._running: set[Process] = set()

    async def run(self) -> list[_Answer]:
        """Run all clusters; a signal is passed on to those that run, and starts no other."""
        import asyncio
        import signal

        from restow.cli import signals

        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            signals.on(loop, number, self._stop)
        if self.table.canary:
            await self._ask(self._waiting.popleft())
        async with asyncio.TaskGroup() as group:
            for _ in range(self._parallel):
                group.create_task(self._work())
        return self._answers

    def row(self, answer: _Answer) -> tuple[str, ...]:
        """Return the row of a cluster."""
        cells = self.table.cells(answer.result) if answer.result is not None else ("-",) * len(self.table.columns)
        return answer.member.name, self.table.word(answer.code), *cells

    def _stop(self) -> None:
        self._waiting.clear()
        for process in self._running:
            process.terminate()  # a second one ends a process immediately

    async def _work(self) -> None:
        while self._waiting:
            await self._ask(self._waiting.popleft())

    async def _ask(self, answer: _Answer) -> None:
        """Run the command for one cluster; passes its messages on."""
        import asyncio
        import os
        from subprocess import DEVNULL, PIPE

        name, *rest = own_words(self._words)
        process = await asyncio.create_subprocess_exec(
            *(*_COMMAND, name, *answer.member.flags, "--output=json", *rest),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            limit=_LINE,
            env={**os.environ, "NO_COLOR": "1"},
            start_new_session=True,  # Ctrl-C reaches it through ``_stop`` alone
        )
        self._running.add(process)
        try:
            assert process.stdout is not None
            out, _ = await asyncio.gather(process.stdout.read(), self._pass_on(process, answer))
            answer.code = await process.wait()
        finally:
            self._running.discard(process)
            if process.returncode is None:
                process.kill()
        answer.result = _decoded(out)
        if self._stops and answer.code not in (Exit.DONE, Exit.DUE):
            self._waiting.clear()
        say(f"{answer.member.name}: {self.table.word(answer.code)}", style="bold")

    async def _pass_on(self, process: Process, answer: _Answer) -> None:
        assert process.stderr is not None
        async for line in process.stderr:
            text = line.decode(errors="replace").rstrip()
            answer.messages.append(text)
            say(f"{answer.member.name}: {text}")


def _decoded(out: bytes) -> Any:
    """Return a result; None if a process was refused, or killed before it had written one."""
    import json

    try:
        return json.loads(out)
    except ValueError:
        return None


def own_words(words: Sequence[str]) -> list[str]:
    """Return a command line without the flags of the fleet and of the output, which the fleet sets itself."""
    found: list[str] = []
    rest = iter(words)
    for word in rest:
        flag, equals, _ = word.partition("=")
        if word == "--":
            return [*found, word, *rest]
        if flag in _OWN:
            if _OWN[flag] and not equals:
                next(rest, None)
        elif not (word.startswith("-o") and not word.startswith("--")):
            found.append(word)
    return found
