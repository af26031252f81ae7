"""``restow roundtrip``: check that existing objects satisfy the laws of conversion."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from restow import migrator
from restow.cli import completion, options
from restow.cli.crdnames import read_crds
from restow.cli.exits import Exit, InputError
from restow.cli.files import found_in, sources_of
from restow.cli.printing import echo, print_data, print_table, say
from restow.cli.session import Session, require_namespace, run
from restow.kube.resources import qualified_name
from restow.offline import options as offline

if TYPE_CHECKING:
    from rich.progress import TaskID

    from restow.cli.registries import ConversionSource
    from restow.conversion import Graph
    from restow.conversion.explain.roundtrip import BrokenLaw
    from restow.crds import Crd
    from restow.offline.differences import FieldChange

_PAGE = 100
_LISTED = 1000
_LINE_PERIOD = 5.0  # seconds between two lines of progress without a terminal


@click.command("roundtrip")
@click.argument("names", metavar="[CRD]...", nargs=-1, shell_complete=completion.crds)
@offline.manifests
@offline.conversions
@click.option("-n", "--namespace", metavar="NAME", help="Objects of one namespace only.")
@click.option("-l", "--selector", metavar="LABELS", help="Objects with these labels only.")
@click.option("--page-size", type=click.IntRange(1), default=_PAGE, show_default=True, help="Objects per LIST request.")
@click.option("--show-values", is_flag=True, help="Also show the values that changed, not only their paths.")
@click.option(
    "--report",
    "report_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the JSON report to this file.",
)
@options.output
@options.connection
def command(**flags: Any) -> None:
    """Convert objects to other versions and back; report differences.

    Converts each object between all pairs of versions of its kind. A round trip must be the identity, except for fields
    that rules drop with an acknowledgement. Every path between two versions must give the same result, and results must
    fit the schema. With CRDs, the command lists their objects from the cluster at the storage version, page by page. It
    writes nothing.

    Exit codes: 0 every object satisfies the laws; 1 an object breaks one; 2 usage or refused; 4 the API
    server stayed out of reach.

    \b
    restow roundtrip -f samples/ --registry example.conversions:registry --crd config/crd
    restow roundtrip widgets.example.com --registry example.conversions:registry
    """
    from restow.cli.registries import load_crds

    names, files = flags["names"], flags["files"]
    if bool(names) == bool(files):
        msg = "name CRDs of the cluster (<plural>.<group>), or give -f FILE"
        raise click.UsageError(msg)
    source, crds = offline.source(flags), load_crds(flags["crd_files"])
    if files:
        tally = _Tally(source.graph(crds))
        with _Counting() as counting:
            _look_at_files(tally, counting, files, recursive=flags["recursive"])
        raise SystemExit(int(_tell(tally, flags)))

    async def roundtrip(session: Session) -> Exit:
        await require_namespace(session, flags["namespace"])
        chosen = await read_crds(session.cluster, names)
        tally = _Tally(await _graph(session, source, crds))
        with _Counting() as counting:
            for crd in chosen:
                await _look_at_crd(tally, counting, session, crd, flags)
        code = _tell(tally, flags)
        if session.stop.is_set():
            say("interrupted: not all objects were looked at", style="red")
            return Exit.FAILURES
        return code

    run(roundtrip, flags["connection"], drains=True)


async def _graph(session: Session, source: ConversionSource, crds: Sequence[Crd]) -> Graph:
    """Freeze against the given CRDs, else against the cluster's CRDs if it has all that the registry converts."""
    from restow.migrator.requests.crdaccess import list_crds

    if crds:
        return source.graph(crds)
    alone = source.graph(())
    known = [crd for crd in await list_crds(session.cluster) if (crd.group, crd.kind) in alone.kinds]
    return source.graph(known) if len(known) == len(alone.kinds) else alone


def _look_at_files(tally: _Tally, counting: _Counting, files: Iterable[Path], *, recursive: bool) -> None:
    counting.begin("files")
    for found in found_in(sources_of(files, recursive=recursive)):
        api_version = found.value.get("apiVersion")
        group = api_version.rpartition("/")[0] if isinstance(api_version, str) else ""
        if (group, found.value.get("kind")) in tally.graph.kinds:
            tally.look(found.value, found.where)
            counting.at(tally.objects, None)
    if not tally.kinds:
        raise InputError(f"there is no object of a kind that the registry converts in {', '.join(map(str, files))}")


async def _look_at_crd(tally: _Tally, counting: _Counting, session: Session, crd: Crd, flags: dict[str, Any]) -> None:
    import random

    from restow.kube.retry import jittered
    from restow.migrator.model.report import Requests
    from restow.migrator.requests.environment import RunStop
    from restow.migrator.requests.lister import list_objects

    if (crd.group, crd.kind) not in tally.graph.kinds:
        raise migrator.MigrationRefused(f"the registry does not convert {crd.kind}.{crd.group}")
    if not crd.storage.served:
        raise migrator.MigrationRefused(
            f"{crd.name} does not serve its storage version {crd.storage.name}, so it cannot be listed"
        )
    if flags["namespace"] and not crd.namespaced:
        raise migrator.MigrationRefused(f"{crd.name} is not namespaced: leave --namespace out")
    counting.begin(crd.name)
    tally.kind(f"{crd.kind}.{crd.group}")
    resource = crd.resource_at(crd.storage.name)
    chance = random.Random()
    pages = list_objects(
        session.cluster,
        resource,
        page_size=flags["page_size"],
        requests=Requests(),
        stop=RunStop(session.stop),
        jitter=lambda seconds: jittered(seconds, chance),
        namespace=flags["namespace"],
        selector=flags["selector"],
        whole=True,
    )
    done = 0
    async for page in pages:
        for _, obj in page.items:
            assert obj is not None
            tally.look({"apiVersion": resource.api_version, "kind": crd.kind, **obj}, crd.name)
        done += len(page.items)
        counting.at(done, done + page.remaining if page.remaining else None)


@dataclass(slots=True)
class _Kind:
    objects: int = 0
    conversions: int = 0
    broken: int = 0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class _Finding:
    kind: str
    namespace: str
    name: str
    where: str
    broken: BrokenLaw
    changes: tuple[FieldChange, ...]


@dataclass(slots=True)
class _Tally:
    """The results: counts of everything, and details of only the first findings, so that memory does not grow."""

    graph: Graph
    kinds: dict[str, _Kind] = field(default_factory=dict)
    findings: list[_Finding] = field(default_factory=list)
    unlisted: int = 0

    @property
    def objects(self) -> int:
        """The number of all objects so far."""
        return sum(kind.objects for kind in self.kinds.values())

    def kind(self, name: str) -> _Kind:
        """Return the counts of a kind."""
        return self.kinds.setdefault(name, _Kind())

    def look(self, obj: dict[str, Any], where: str) -> None:
        """Convert one object through its versions and count the result."""
        from restow.conversion import ObjectError
        from restow.conversion.explain.roundtrip import round_trips

        group = obj["apiVersion"].rpartition("/")[0]
        counts = self.kind(f"{obj['kind']}.{group}")
        since = time.perf_counter()
        try:
            found = round_trips(self.graph, obj)
        except ObjectError as error:
            raise InputError(f"{where}: {error}") from error
        counts.seconds += time.perf_counter() - since
        counts.objects += 1
        counts.conversions += found.conversions
        counts.broken += bool(found.broken)
        metadata = obj.get("metadata") or {}
        for broken in found.broken:
            if len(self.findings) < _LISTED:
                names = (metadata.get("namespace") or "", metadata.get("name") or "")
                self.findings.append(_Finding(obj["kind"], *names, where, broken, tuple(_changes(broken))))
            else:
                self.unlisted += 1


def _changes(broken: BrokenLaw) -> Iterable[FieldChange]:
    from restow.conversion.explain.roundtrip import is_forgiven
    from restow.offline.differences import changes

    if broken.before is None or broken.after is None:
        return []
    found = changes(broken.before, broken.after)
    return [each for each in found if not is_forgiven(each.steps, broken.forgiven, each.before)]


def _tell(tally: _Tally, flags: dict[str, Any]) -> Exit:
    import msgspec

    report = _json(tally, values=flags["show_values"])
    if flags["output"] == "table":
        _show(tally, values=flags["show_values"])
    else:
        print_data(report, flags["output"])
    if flags["report_file"] is not None:
        try:
            flags["report_file"].write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")
        except OSError as error:
            raise click.FileError(str(flags["report_file"]), error.strerror) from error
    return Exit.FAILURES if tally.findings else Exit.DONE


def _show(tally: _Tally, *, values: bool) -> None:
    rows = (
        (name, str(kind.objects), str(kind.conversions), str(kind.broken), f"{kind.seconds:.2f}s")
        for name, kind in tally.kinds.items()
    )
    print_table(("kind", "objects", "conversions", "broken", "time"), rows)
    for finding in tally.findings:
        names = qualified_name(finding.namespace, finding.name)
        way = " -> ".join(finding.broken.way)
        said = f": {finding.broken.message}" if finding.broken.message else ""
        echo(f"{finding.where}: {finding.kind} {names}: {finding.broken.law.value}, {way}{said}")
        for change in finding.changes:
            echo(f"  {change.line(values=values)}")
    if tally.unlisted:
        echo(f"… and {tally.unlisted} more")


def _json(tally: _Tally, *, values: bool) -> dict[str, Any]:
    return {
        "result": "Broken" if tally.findings else "Kept",
        "kinds": [
            {
                "kind": name,
                "objects": kind.objects,
                "conversions": kind.conversions,
                "broken": kind.broken,
                "durationSeconds": round(kind.seconds, 3),
            }
            for name, kind in tally.kinds.items()
        ],
        "findings": [
            {
                "kind": finding.kind,
                "namespace": finding.namespace,
                "name": finding.name,
                "where": finding.where,
                "law": finding.broken.law.value,
                "way": list(finding.broken.way),
                "message": finding.broken.message,
                "changes": [change.to_json(values=values) for change in finding.changes],
            }
            for finding in tally.findings
        ],
        "unlisted": tally.unlisted,
    }


class _Counting:
    """Shows a count of objects on stderr, for one kind after the other."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        from restow.cli.console import console

        self._console = console(stderr=True)
        self._terminal = self._console.is_terminal
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self._console,
            auto_refresh=False,
        )
        self._bar: TaskID | None = None
        self._name = ""
        self._last = time.monotonic()

    def __enter__(self) -> Self:
        if self._terminal:
            self._bars.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._terminal:
            self._bars.stop()

    def begin(self, name: str) -> None:
        """Start with another kind."""
        self._name = name
        if self._terminal:
            self._bar = self._bars.add_task(name, total=None)

    def at(self, done: int, total: int | None) -> None:
        """Show the progress; ``total`` is None if it is unknown."""
        if self._terminal and self._bar is not None:
            self._bars.update(self._bar, completed=done, total=total)
            self._bars.refresh()
        elif time.monotonic() - self._last >= _LINE_PERIOD:
            self._last = time.monotonic()
            of = f" of {total}" if total else ""
            self._console.print(f"{self._name}: {done}{of} objects", markup=False)
