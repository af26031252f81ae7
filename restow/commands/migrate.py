"""``restow migrate``: the upgrade-time job."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from restow import migrator
from restow.cli import options
from restow.cli.crdnames import full_names
from restow.cli.exits import Exit, InputError
from restow.cli.fleet import FleetTable, across
from restow.cli.printing import print_data, print_table, say
from restow.cli.session import Session, require_namespace, run

EXITS = {
    "Succeeded": Exit.DONE,
    "DryRun": Exit.DONE,
    "Failed": Exit.FAILURES,
    "Refused": Exit.REFUSED,
    "Unreachable": Exit.OUT_OF_REACH,
}
"""The exit code of each ``MigrationResult``, by its value."""
_COLUMNS = ("name", "storage", "stored", "objects", "rewritten", "translated", "remaining", "failed", "pruned", "time")
_TRIVIAL = {"rewritten": "0", "translated": "0", "remaining": "0", "failed": "0"}
_FAILURES_SHOWN = 20


def _cells(report: Any) -> tuple[str, ...]:
    """Return the cells of a cluster in the table of several."""
    crds = report["crds"]
    counts = (sum(crd["objects"][name] for crd in crds) for name in ("listed", "rewritten", "remaining", "failed"))
    return str(len(crds)), *map(str, counts), str(sum(crd["pruned"] for crd in crds))


_FLEET = FleetTable(
    ("crds", "objects", "rewritten", "remaining", "failed", "pruned"), _cells, done="migrated", canary=True
)


@click.command("migrate")
@options.crds()
@options.migration
@click.option("--dry-run", is_flag=True, help="Send every write with dryRun=All; the server stores nothing.")
@click.option(
    "--concurrency",
    type=click.IntRange(1, 256),
    default=32,
    show_default=True,
    help="Maximum number of concurrent writes.",
)
@click.option(
    "--rate", type=click.FloatRange(0, min_open=True), metavar="R", help="Maximum number of writes per second."
)
@click.option(
    "--page-size",
    type=click.IntRange(1, 10_000),
    metavar="N",
    help="Objects per LIST request; default: 500, or 100 with a conversion webhook.",
)
@options.settle
@options.patience
@options.running
@options.api_servers
@click.option("--no-prune", is_flag=True, help="The same as --skip-phase prune.")
@click.option(
    "--report",
    "report_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the JSON report to this file.",
)
@options.output
@options.connection
@across(_FLEET)
def command(**flags: Any) -> None:
    """Migrate all objects of CRDs to their storage version.

    Writes every object once at the storage version, translates its managedFields, checks each response, and prunes
    status.storedVersions when that is proved to be safe. You can run it again at any time: it skips what is done, and
    continues a run that was killed (with --resume, without reading the objects already written again).

    SIGTERM finishes the writes in flight and reports what remains.

    Exit codes: 0 done; 1 objects failed or remain, or no mark could be left; 2 usage or refused; 3 with --all: all
    other CRDs are done, and work is due on CRDs that cannot be migrated in their present state; 4 the API server or
    a converter stayed out of reach: run again.

    \b
    restow migrate widgets.example.com
    restow migrate -f config/crd --dry-run
    restow migrate widgets.example.com --only prune
    restow migrate widgets.example.com --managed-fields strip --scope unserved -o json
    """
    names = options.crd_names(flags.pop("names"), flags.pop("everything"), flags.pop("files"))
    connection, form, file = flags.pop("connection"), flags.pop("output"), flags.pop("report_file")
    if file is not None and not os.access(file.parent, os.W_OK):
        raise InputError(f"--report {file} cannot be written: {file.parent} is no folder to write to")
    converters = options.converters(flags)
    if flags.pop("no_prune"):
        flags["skip"] = (*flags["skip"], "prune")
    chosen = options.migration_options(
        flags,
        dry_run=flags.pop("dry_run"),
        concurrency=flags.pop("concurrency"),
        rate=flags.pop("rate"),
        page_size=flags.pop("page_size"),
        settle_s=flags.pop("settle"),
        patience_s=flags.pop("patience"),
        engine=migrator.Engine(flags.pop("engine")),
        resume=flags.pop("resume"),
        api_servers=flags.pop("api_servers"),
        shard=options.shard(flags, os.environ),
    )

    from restow.cli.progress import Progress

    async def migrate_all(session: Session) -> Exit:
        await require_namespace(session, chosen.namespace)
        if names is None:
            wanted, doubtful = await _all_with_work(session, chosen)
        else:
            wanted, doubtful = await full_names(session.cluster, names), frozenset[str]()
        async with Progress(len(wanted)) as progress:
            report = await migrator.migrate(
                session.cluster, wanted, chosen, observer=progress, stop=session.stop, converters=converters
            )
        left_out = frozenset(crd.name for crd in report.crds if crd.refused and crd.name in doubtful)
        show(report, form, left_out)
        if file is not None:
            _write(report, file)
        return _exit(report, left_out)

    run(migrate_all, connection, drains=True)


async def _all_with_work(session: Session, options: migrator.Options) -> tuple[tuple[str, ...], frozenset[str]]:
    """Return the cluster's CRDs to migrate, and those of them that will probably be refused; report the others."""
    found = await migrator.crds_to_migrate(session.cluster, options, stop=session.stop)
    for why in found.left_out:
        say(f"left out: {why}", style="magenta")
    return found.names, found.doubtful


def _exit(report: migrator.MigrationReport, left_out: frozenset[str]) -> Exit:
    """Return the exit code; it is 3, not 2, if only the CRDs in ``left_out`` are refused."""
    from restow.migrator.model.report import MigrationResult

    if report.result is MigrationResult.REFUSED and all(crd.name in left_out for crd in report.crds if crd.refused):
        return Exit.DUE
    return EXITS[report.result]


def show(report: migrator.MigrationReport, form: str, left_out: frozenset[str] = frozenset()) -> None:
    """Print a report as a table, JSON or YAML, with explanations on stderr.

    Args:
        report: the report of the run.
        form: ``table``, ``json`` or ``yaml``.
        left_out: the CRDs of ``--all`` that cannot be migrated in their present state.
    """
    from restow.migrator.model.report import MigrationResult

    if form == "table":
        print_table(_COLUMNS, map(_row, report.crds), spare=("stored", "storage", "rewritten"), trivial=_TRIVIAL)
    else:
        print_data(report.to_json(), form)
    for crd in report.crds:
        _explain(crd, left_out=crd.name in left_out, dry_run=report.result is MigrationResult.DRY_RUN)
    if left_out:
        say(f"Work is due on what was left out: {', '.join(sorted(left_out))}", style="red")
    if report.result is not MigrationResult.REFUSED:  # already reported, with the reason
        say(
            report.result.value,
            style="red" if report.result in (MigrationResult.FAILED, MigrationResult.UNREACHABLE) else "bold",
        )


def _write(report: migrator.MigrationReport, file: Path) -> None:
    import msgspec

    try:
        file.write_bytes(msgspec.json.format(msgspec.json.encode(report.to_json()), indent=2) + b"\n")
    except OSError as error:
        raise click.FileError(str(file), error.strerror) from error


def _row(crd: migrator.CrdReport) -> tuple[str, ...]:
    counts = crd.objects
    return (
        crd.name,
        crd.storage_version or "-",
        ",".join(crd.stored_after) or "-",
        str(counts.listed),
        str(counts.rewritten),
        str(counts.translated),
        str(counts.remaining),
        str(counts.failed),
        "yes" if crd.pruned else "no",
        f"{crd.duration_s:.1f}s",
    )


def _explain(crd: migrator.CrdReport, *, left_out: bool, dry_run: bool) -> None:
    for warning in crd.warnings:
        say(f"{crd.name}: {warning}", style="magenta")
    for note in crd.not_seen:
        say(f"{crd.name}: {note}")
    for (manager, version), count in sorted(crd.stripped_owners.items()):
        say(f"{crd.name}: stripped {count} managedFields entries of {manager} at {version}", style="magenta")
    for (manager, version), count in sorted(crd.kept_owners.items()):
        say(
            f"{crd.name}: kept {count} managedFields entries of {manager} at {version}: {crd.storage_version} cannot "
            f"say all that they own, and clients of {version} need them while it is served",
            style="magenta",
        )
    for failure in crd.failures[:_FAILURES_SHOWN]:
        where = failure.where
        say(f"{crd.name}: {where}: {failure.reason}: {failure.message}", style="red")
    if len(crd.failures) > _FAILURES_SHOWN:
        say(f"{crd.name}: … and {crd.objects.failed - _FAILURES_SHOWN} more; -o json lists them", style="red")
    if crd.refused:
        say(f"{'left out' if left_out else 'restow'}: {crd.refused}", style="red")
    elif crd.unfinished or crd.unmarked:
        say(f"{crd.name}: {crd.unfinished or crd.unmarked}", style="red")
    elif not crd.pruned and not dry_run and crd.stored_after != (crd.storage_version,):
        say(f"{crd.name}: status.storedVersions not pruned: {crd.pruned_reason}", style="magenta")
    elif not crd.passes:
        say(f"{crd.name}: {crd.pruned_reason}")
