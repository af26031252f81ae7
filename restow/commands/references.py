"""``restow references``: find everything that names a version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from restow import migrator
from restow.cli import completion, options
from restow.cli.crdnames import read_crds
from restow.cli.exits import Exit
from restow.cli.files import Unreadable, read_text, sources_of
from restow.cli.printing import is_wide, note_wide, print_data, print_table, say
from restow.cli.session import Session, run
from restow.kube.resources import qualified_name
from restow.kube.suggestions import did_you_mean

if TYPE_CHECKING:
    from restow.crds import Crd
    from restow.migrator.references.move import MoveReport, UndoReport
    from restow.migrator.references.reference import FoundReferences, Reference, ReferenceKind, SoughtVersion


KINDS = (
    "owner-references",
    "typed",
    "helm",
    "flux",
    "argo-cd",
    "olm",
    "crossplane",
    "admission",
    "api-services",
    "last-applied",
    "managed-fields",
    "clients",
)
"""The values of ``CLUSTER_KINDS``, whose import takes longer than the help may."""


def _kinds(_context: click.Context, _option: click.Parameter, value: str | None) -> frozenset[ReferenceKind]:
    """Read ``--kinds``.

    Raises:
        click.BadParameter: no such kind of references exists in a cluster.
    """
    from restow.migrator.references.reference import ReferenceKind
    from restow.migrator.references.scan import CLUSTER_KINDS

    if value is None:
        return CLUSTER_KINDS
    known = {each.value: each for each in ReferenceKind if each in CLUSTER_KINDS}
    names = [name.strip() for name in value.split(",")]
    for name in names:
        if name not in known:
            msg = f"{name!r} is none of {', '.join(known)}"
            raise click.BadParameter(msg)
    return frozenset(known[name] for name in names)


@click.command("references")
@options.crds()
@click.option(
    "--version",
    "versions",
    multiple=True,
    metavar="VERSION",
    help="The version to look for; repeatable. Default: all but the storage version.",
)
@click.option(
    "--kinds",
    callback=_kinds,
    metavar="KIND,...",
    help="Look for these kinds of references only: " + ", ".join(KINDS),
)
@click.option(
    "--audit-log",
    "audit_logs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also look through this audit log (JSON lines, gzipped or not) for clients of the version; repeatable.",
    shell_complete=completion.files,
)
@click.option(
    "--files",
    "folders",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="PATH",
    help="Look through this file or folder of manifests, not through the cluster; repeatable. With -f, needs no "
    "cluster.",
    shell_complete=completion.files,
)
@click.option(
    "--move",
    "target",
    metavar="TARGET",
    help="Write owner references, typed references and the objects of Helm releases at this version; owners of fields "
    "stay.",
)
@click.option("--all-revisions", is_flag=True, help="With --move: Helm revisions that only a rollback reads, too.")
@click.option("--undo", is_flag=True, help="Give Helm releases the manifests that they had before --move.")
@click.option("--dry-run", is_flag=True, help="With --move: send every write with dryRun=All.")
@click.option("-A", "--all-namespaces", is_flag=True, help="Objects of all namespaces (always the case).")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    callback=note_wide,
    help="Format of the result; wide adds what happens without the version.",
)
@options.converter
@options.connection
def command(**flags: Any) -> None:
    """Find everything that names a version of a CRD.

    Looks through all resources of the cluster: ownerReferences, typed references in custom resources, Helm releases,
    inventories of Flux, Argo CD, OLM and Crossplane, admission rules, APIServices, the CRD's own objects, and the
    request counters of the API server. Says what happens to each when the version is unserved or removed. Changes
    nothing without --move. Contents of Secrets are never shown.

    Exit codes: 0 none found, or all moved; 1 something could not be looked at, or a write failed; 2 usage or refused;
    3 references found, or left; 4 the API server stayed out of reach: run again.

    \b
    restow references widgets.example.com --version v1alpha1
    restow references widgets.example.com --version v1alpha1 --audit-log audit.log -o json
    restow references widgets.example.com --version v1alpha1 --move v1beta1 --dry-run
    restow references widgets.example.com --version v1alpha1 --move v1beta1 --kinds helm --all-revisions
    restow references -f config/crd/widgets.yaml --version v1alpha1 --files charts/ --files deploy/
    """
    from restow.migrator.references.move import MOVABLE_KINDS, move_references, undo_releases

    names, everything, files = flags["names"], flags["everything"], flags["files"]
    versions, output, target = flags["versions"], flags["output"], flags["target"]
    _refuse_contradictions(flags)
    converters = options.converters(flags)
    chosen = options.crd_names(names, everything, files)
    if flags["folders"] and files and not names:
        from restow.cli.registries import load_crds  # a command whose CRDs are named reads no YAML

        raise SystemExit(int(show(_in_files(flags["folders"], _sought(load_crds(files), versions)), output)))

    async def find(session: Session) -> Exit:
        crds = await read_crds(session.cluster, chosen)
        if flags["undo"]:
            return show_undone(
                [await undo_releases(session.cluster, crd, each) for crd in crds for each in versions], output
            )
        if target is not None:
            how = {"converters": converters, "all_revisions": flags["all_revisions"], "dry_run": flags["dry_run"]}
            kinds = flags["kinds"] & MOVABLE_KINDS
            moves = [
                await move_references(session.cluster, crd, version, target, kinds=kinds, **how)
                for crd in crds
                for version in versions
            ]
            return show_moves(moves, output)
        wanted = _sought(crds, versions, every=chosen is None)
        if flags["folders"]:
            found = _in_files(flags["folders"], wanted)
        else:
            by_version = await migrator.find_references(
                session.cluster, wanted, kinds=flags["kinds"], audit_logs=flags["audit_logs"]
            )
            found = list(by_version.values())
        return show(found, output)

    run(find, flags["connection"])


def _refuse_contradictions(flags: dict[str, Any]) -> None:
    """Refuse flags that contradict each other.

    Raises:
        click.UsageError: --move has nothing to move, or a flag that needs --move is given without it.
    """
    from restow.migrator.references.move import MOVABLE_KINDS
    from restow.migrator.references.scan import CLUSTER_KINDS

    if flags["target"] is None:
        for flag in ("dry_run", "all_revisions"):
            if flags[flag]:
                msg = f"--{flag.replace('_', '-')} is for --move"
                raise click.UsageError(msg)
    if flags["target"] is None and not flags["undo"]:
        return
    if flags["target"] is not None and flags["undo"]:
        msg = "--move and --undo exclude each other"
        raise click.UsageError(msg)
    movable = ", ".join(sorted(each.value for each in MOVABLE_KINDS))
    if not flags["versions"] or flags["everything"]:
        msg = "--move and --undo need the names of CRDs, and --version: what references named before the move"
        raise click.UsageError(msg)
    if flags["folders"] or flags["audit_logs"]:
        msg = "--move and --undo are about the cluster: leave --files and --audit-log out. restow convert is for files"
        raise click.UsageError(msg)
    if flags["kinds"] != CLUSTER_KINDS and not flags["kinds"] <= MOVABLE_KINDS:
        msg = f"--move can write these kinds only: {movable}"
        raise click.UsageError(msg)


def _sought(crds: Iterable[Crd], versions: Sequence[str], *, every: bool = False) -> list[SoughtVersion]:
    """Return the versions to look for: the named ones, or without names the old versions of each CRD.

    With ``every`` (all CRDs of a cluster), named versions that a CRD does not have are skipped.
    """
    from restow.migrator.references.reference import old_versions

    found: list[SoughtVersion] = []
    for crd in crds:
        if not versions:
            found += old_versions(crd)
            continue
        known = {*(each.name for each in crd.versions), *crd.stored_versions}
        for version in (each for each in versions if each in known or not every):
            if version not in known:
                names = ", ".join(each.name for each in crd.versions)
                advice = did_you_mean(version, known)
                said = f"{crd.name} has no version {version} (any more): its versions are {names}"
                say(f"{said}; {advice}" if advice else said, style="magenta")
            found.append(migrator.sought(crd, version))
    return found


def _in_files(paths: Sequence[Path], versions: Sequence[SoughtVersion]) -> list[FoundReferences]:
    from restow.migrator.references.readers.files import file_references
    from restow.migrator.references.reference import NotLookedAt, ReferenceTally

    owners = {(of.api_version, of.kind): of for of in versions}
    tally, unseen = ReferenceTally(versions), []
    for source in sources_of(paths, recursive=True):
        try:
            text = read_text(source)
        except Unreadable as error:
            unseen.append(NotLookedAt(str(source), str(error)))
            continue
        for reference in file_references(str(source), text, owners):
            tally.add(reference)
    return list(tally.found(unseen).values())


def show(found: Sequence[FoundReferences], form: str) -> Exit:
    """Print the references that were found; return the exit code."""
    missed = list(dict.fromkeys(each for one in found for each in one.not_looked_at))
    code = Exit.FAILURES if missed else Exit.DUE if any(one.count for one in found) else Exit.DONE
    if form in ("json", "yaml"):
        print_data({"versions": [one.to_json() for one in found]}, form)
        return code
    references = [each for one in found for each in one.references]
    if references:
        _print_rows(references, wide=is_wide())
    for sentence in _sentences([] if is_wide() else references):
        say(sentence)
    for one in found:
        to = next(iter(one.of.others), "")
        if to and any(each.effect.movable for each in one.references):
            say(f"To write what can be moved at {to}: {one.of.moving(to)}", style="bold")
        if not one.count:
            say(f"Nothing that was looked at names {one.of.crd} {one.of.version}.", style="bold")
        elif (more := one.count - sum(each.count for each in one.references)) > 0:
            say(f"… and {more} more references to {one.of.crd} {one.of.version}", style="magenta")
    for note in dict.fromkeys(note for one in found for note in one.notes):
        say(note, style="magenta")
    for each in missed:
        say(f"not looked at: {each.resource} ({each.reason})", style="red")
    return code


def _print_rows(references: Sequence[Reference], *, wide: bool) -> None:
    columns = ["version", "kind", "resource", "name", "count", "where", "detail"]
    more = ["when unserved", "when removed", "move", "what to do"] if wide else []
    print_table([*columns, *more], ([*_row(each, wide=wide)] for each in references), spare=("count", "detail"))


def _row(each: Reference, *, wide: bool) -> Iterator[str]:
    yield from (each.of.version, each.kind.value, each.resource, each.key or "-", str(each.count), each.where or "-")
    yield f"{each.detail} (a guess)" if each.guess else each.detail
    if wide:
        yield from (each.effect.unserved, each.effect.removed, "yes" if each.effect.movable else "no")
        yield each.effect.advice


def _sentences(references: Iterable[Reference]) -> Iterator[str]:
    """Yield, once for each sort of references, what happens without the version and what to do."""
    told = dict.fromkeys((each.kind, each.effect) for each in references)
    for kind, effect in told:
        same = effect.unserved == effect.removed
        happens = f"unserved or removed: {effect.removed}" if same else f"unserved: {effect.unserved}"
        removed = "" if same else f" Removed: {effect.removed}"
        yield f"{kind.value}, {happens}{removed} What to do: {effect.advice}."


def show_moves(reports: Sequence[MoveReport], form: str) -> Exit:
    """Print the results of moving references; return the exit code."""
    failed = any(each.failed or each.not_looked_at for each in reports)
    code = Exit.FAILURES if failed else Exit.DUE if any(each.skipped for each in reports) else Exit.DONE
    if form in ("json", "yaml"):
        print_data({"moves": [each.to_json() for each in reports]}, form)
        return code
    columns = ("name", "version", "target", "moved", "skipped", "failed", "writes", "result")
    print_table(columns, ([*_move_row(each)] for each in reports), spare=("writes", "skipped"))
    for report in reports:
        for each in report.not_moved:
            what = f"{each.resource} {qualified_name(each.namespace, each.name)} {each.where}"
            say(
                f"{'failed' if each.failed else 'left'}: {what}: {each.reason}",
                style="red" if each.failed else "magenta",
            )
        for missed in report.not_looked_at:
            say(f"not looked at: {missed.resource} ({missed.reason})", style="red")
    return code


def _move_row(report: MoveReport) -> Iterator[str]:
    yield from (report.of.crd, report.of.version, report.target)
    yield from (str(sum(each.values())) for each in (report.moved, report.skipped, report.failed))
    yield from (str(report.writes), report.result)


def show_undone(reports: Sequence[UndoReport], form: str) -> Exit:
    """Print the releases whose manifests were restored; return the exit code."""
    from restow.migrator.references.move import UndoReport

    failed = {name: why for each in reports for name, why in each.failed.items()}
    undone = [name for each in reports for name in each.undone]
    if form in ("json", "yaml"):
        print_data(UndoReport(undone, failed).to_json(), form)
    else:
        print_table(
            ("backup", "result"), [*((name, "undone") for name in undone), *((name, "failed") for name in failed)]
        )
        for name, why in failed.items():
            say(f"{name}: {why}", style="red")
    return Exit.FAILURES if failed else Exit.DONE
