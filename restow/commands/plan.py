"""``restow plan``: show what a migration would do and cost, and what would fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from restow import migrator
from restow.cli import options
from restow.cli.crdnames import read_crds
from restow.cli.exits import Exit
from restow.cli.fleet import FleetTable, across
from restow.cli.printing import counted, print_data, print_table, say
from restow.cli.session import Session, require_namespace, run

if TYPE_CHECKING:
    from restow.migrator.planning.plan import MigrationPlan
    from restow.migrator.requests.environment import Converters

DEFAULT_SAMPLE = 100
_PERIOD = 5.0  # seconds


class Telling:
    """Reports the progress of a long scan of objects on stderr from time to time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told = clock()

    def __call__(self, found: MigrationPlan) -> None:
        """Report the progress, unless the last report is too recent."""
        now = self._clock()
        if now - self._told < _PERIOD:
            return
        self._told = now
        tried = f", {found.tried:,} writes tried" if found.tried else ""
        say(f"{found.crd.name}: {found.objects:,} objects looked at{tried}")


def _cells(found: Any) -> tuple[str, ...]:
    """Return the cells of a cluster in the table of several."""
    crds = found["crds"]
    due = ",".join(crd["name"] for crd in crds if crd["due"] and not crd["refused"])
    objects, writes = sum(crd["objects"] for crd in crds), sum(crd["requests"]["write"] for crd in crds)
    return str(len(crds)), due or "-", str(objects), str(writes)


_FLEET = FleetTable(("crds", "due", "objects", "writes"), _cells, done="nothing due")


@click.command("plan")
@options.crds(all_without=True)
@options.migration
@click.option(
    "--sample",
    callback=options.sample_size,
    default=str(DEFAULT_SAMPLE),
    show_default=True,
    metavar="N|all",
    help="Number of objects whose writes are tried with dryRun=All: a number, all, or 0 for none.",
)
@click.option(
    "--concurrency",
    type=click.IntRange(1, 256),
    default=32,
    show_default=True,
    help="Concurrent writes that the estimate assumes.",
)
@click.option(
    "--rate", type=click.FloatRange(0, min_open=True), metavar="R", help="Writes per second that the estimate assumes."
)
@click.option(
    "--references",
    is_flag=True,
    help="Also look through all resources for what names a version that may go. See restow references.",
)
@click.option(
    "--storage", metavar="VERSION", help="Show what it means to make this older version of a CRD the storage version."
)
@options.output
@options.connection
@across(_FLEET)
def command(**flags: Any) -> None:
    """Show what a migration would do, without a change.

    Of all CRDs where none is named. Lists the objects of each CRD and makes the same decisions as `restow migrate`.
    Tries the writes of a sample with dryRun=All: validation, admission and conversion run, and the server stores
    nothing. Names the obstacles, and estimates the time from the sample. With --references, counts what stands against
    unserving and removing each version but that of storage; that does not hold up a migration, and does not change the
    exit code.

    With --storage, converts each object of one CRD to an older version and back, and names what it cannot say, by
    field. Exit codes are then 0 no objects, 1 values would be lost, 3 a migration would follow.

    Exit codes: 0 nothing is due; 1 a migration would fail; 2 usage or refused; 3 work is due; 4 the API server
    or a converter stayed out of reach.

    \b
    restow plan
    restow plan widgets.example.com --sample all -o json
    restow plan widgets.example.com --references
    """
    names = options.crd_names(flags.pop("names"), flags.pop("everything"), flags.pop("files"), all_without=True)
    connection, form = flags.pop("connection"), flags.pop("output")
    converters = options.converters(flags)
    sample, references, storage = flags.pop("sample"), flags.pop("references"), flags.pop("storage")
    chosen = options.migration_options(flags, concurrency=flags.pop("concurrency"), rate=flags.pop("rate"))

    if storage is not None:
        run(partial(_plan_back, names, storage, converters, form), connection)

    async def plan_all(session: Session) -> Exit:
        await require_namespace(session, chosen.namespace)
        crds = await read_crds(session.cluster, names)
        telling = Telling()
        plans = [
            await migrator.plan(session.cluster, crd, chosen, converters, sample=sample, observe=telling)
            for crd in crds
        ]
        if references:
            from restow.migrator.references.scan import find_old_references

            found = await find_old_references(session.cluster, [each.crd for each in plans])
            for each in plans:
                each.references = found[each.crd.name]
        show(plans, form, everything=names is None)
        return _exit(plans, one_by_one=names is not None)

    run(plan_all, connection)


async def _plan_back(
    names: Sequence[str] | None, version: str, converters: Converters, form: str, session: Session
) -> Exit:
    from restow.commands.ready import show_way_back, way_back

    if names is None or len(names) != 1:
        msg = "--storage is about one CRD: name it"
        raise click.UsageError(msg)
    (crd,) = await read_crds(session.cluster, names)
    found = await way_back(session, crd, version, converters)
    show_way_back(found, form)
    if found.loses:
        return Exit.FAILURES
    return Exit.DUE if found.objects else Exit.DONE


def _exit(plans: list[MigrationPlan], *, one_by_one: bool) -> Exit:
    """Return the exit code. With all CRDs of a cluster, some may be in a state that allows no migration."""
    code = Exit.DUE if any(each.due for each in plans) else Exit.DONE
    if any(each.findings.fail for each in plans):
        code = Exit.FAILURES
    for each in plans:
        if why := each.refused or each.unfinished:
            fatal = one_by_one or bool(each.unfinished)
            say(f"restow: {why}", style="red" if fatal else "magenta")
            code = (Exit.OUT_OF_REACH if each.unreachable else Exit.REFUSED) if fatal else code
    return code


def show(plans: list[MigrationPlan], form: str, *, everything: bool = False) -> None:
    """Print plans as a table with the reasons below it, or as JSON or YAML."""
    if form != "table":
        print_data({"crds": [each.to_json() for each in plans]}, form)
        return
    columns = ("name", "storage", "stored", "strategy", "objects", "due", "writes", "remaining")
    trivial = {"strategy": "None", "remaining": "0", "due": "-"}
    print_table(columns, map(_row, plans), spare=("stored", "strategy", "remaining"), trivial=trivial)
    judged = [each for each in plans if not each.refused and not each.unfinished]
    for each in plans:
        if each in judged:
            for sentence in (*reasons(each), *costs(each)):
                say(f"{each.crd.name}: {sentence}")
        _tell_findings(each)
        _tell_references(each)
    if any(each.findings.fail for each in plans):
        say("A migration would fail: fix what is listed above, then plan again.", style="bold")
    elif any(each.due for each in judged):
        same = "--all" if everything else "with the same arguments"
        say(f"Work is due: run restow migrate {same}.", style="bold")
    elif not any(each.refused or each.unfinished for each in plans):
        say("No work is due.", style="bold")


def _tell_findings(found: MigrationPlan) -> None:
    """Print findings; errors come last, because readers look for them at the end of the output."""
    for finding in sorted(found.findings.listed, key=lambda each: each.fails):
        say(f"{found.crd.name}: {finding.message}", style="red" if finding.fails else "magenta")
    for check, count in found.findings.more().items():
        say(f"{found.crd.name}: … and {count} findings more about {check.value}", style="magenta")


def _tell_references(found: MigrationPlan) -> None:
    if not found.references:
        return
    from restow.migrator.references.reference import not_looked_at, standing

    for references in found.references:
        stands = bool(references.against_removal or references.against_unserving)
        say(f"{found.crd.name}: {standing(references)}", style="magenta" if stands else "")
        if missed := not_looked_at(found.crd, references.of.version, references):
            say(f"{found.crd.name}: {missed}", style="magenta")


def _row(found: MigrationPlan) -> tuple[str, ...]:
    crd = found.crd
    return (
        crd.name,
        crd.storage.name,
        ",".join(crd.stored_versions),
        crd.strategy,
        str(found.objects),
        "refused" if found.refused else "unknown" if found.unfinished else ",".join(found.due) or "-",
        str(found.writes),
        str(found.remaining),
    )


def reasons(found: MigrationPlan) -> list[str]:
    """Return sentences: why each phase is due, and what happens to the entries of which managers."""
    from restow.migrator.decide.proof import what_is_proved

    crd, said = found.crd, []
    unpruned, doubt = crd.stored_versions != (crd.storage.name,), what_is_proved(crd).doubt
    if unpruned and doubt:
        old = ", ".join(name for name in migrator.may_be_stored(crd) if name != crd.storage.name)
        said.append(f"objects may be stored at {old}; all are to be written at {crd.storage.name}")
    elif doubt:
        said.append(f"{doubt}; all are to be written at {crd.storage.name}")
    elif unpruned:
        said.append(f"every object is proved to be stored at {crd.storage.name}; status.storedVersions is to be pruned")
    for (version, policy), count in sorted(found.entries.items()):
        said.append(f"{count} managedFields {_entries(count)} at {version}: {_POLICIES[policy]}")
    for (manager, version), count in sorted((found.stripped - found.predicted.stripped).items()):
        said.append(f"{count} {_entries(count)} of {manager} at {version} cannot be carried over and would be stripped")
    if found.translations:
        how = "in this process" if found.in_process else "by the conversion webhook"
        entries = f"{found.translations} {_entries(found.translations)}"
        sentence = f"translating {entries} takes at most {counted(found.conversions, 'conversion')} {how}"
        if not found.tried:
            sentence += "; plan --sample all finds out whether all can be carried over"
        elif found.tried < found.cost.objects:
            sentence += f"; {found.tried} objects were tried, plan --sample all finds out about the others"
        said.append(sentence)
    if found.new_defaults:
        paths = ", ".join(found.new_defaults)
        said.append(f"two writes an object, so that the new default of {paths} is not owned by restow")
    if found.blocked:
        said.append(f"{counted(found.blocked, 'object')} cannot be written without losing an owner")
    if found.completed and found.remaining:
        said.append("a complete run left its mark; clients of served versions wrote those entries since")
    return said


def costs(found: MigrationPlan) -> list[str]:
    """Return sentences about the cost of the migration, and the source of the estimate."""
    cost = found.cost
    if not found.due:
        return []
    requests = f"{counted(cost.lists, 'list')}, {counted(cost.writes, 'write')} of {counted(cost.objects, 'object')}"
    if cost.reads:
        requests += f", {counted(cost.reads, 'read')}"
    if cost.rehearsals:
        requests += f", {counted(cost.rehearsals, 'write')} tried first as dry runs"
    if cost.server_conversions:
        asked = counted(cost.server_conversions, "conversion")
        requests += f"; the API server asks the conversion webhook for at most {asked}"
    said = [f"it will cost {requests}"]
    measured, seconds = cost.measured, cost.seconds
    if found.tried:
        of = counted(cost.objects, "object")
        tried = f"{'all ' if cost.objects > 1 else ''}{of} were tried as dry runs"
        if found.tried < cost.objects:
            tried = f"{found.tried} of {of} were tried as dry runs (--sample all tries every one)"
        said.append(f"the writes of {tried}; nothing was stored")
    if seconds is not None and measured.writes_per_s is not None:
        said.append(
            f"that takes about {_duration(seconds)}: an estimate from {counted(measured.writes, 'dry-run write')} at "
            f"{measured.writes_per_s:.0f} a second with up to {measured.concurrency} in flight; real writes reach etcd "
            "as well, and take somewhat longer"
        )
    return said


def _entries(count: int) -> str:
    return "entry" if count == 1 else "entries"


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "a second"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


_POLICIES = {
    "current": "stay",
    "rename": "to be translated",
    "reconcile": "to be translated, item by item where lists are keyed now",
    "reconcile-unknown": "to be translated (the version is no longer in the CRD)",
    "translate": "to be translated by converting what they own",
    "drop": "to be stripped",
    "keep": "to be kept",
}
