"""``restow timeline``: plan the steps of versions across releases, and report missing or unsafe ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from restow import migrator
from restow.cli import options
from restow.cli.connection import ClusterConnection
from restow.cli.exits import Exit, InputError
from restow.cli.files import documents_of
from restow.cli.printing import print_data, print_table, say
from restow.cli.session import Session, run

if TYPE_CHECKING:
    from restow.crds import Crd
    from restow.migrator.timeline import TimelineFinding, TimelinePolicy, VersionSchedule

_STYLES = {"unsafe": "bold red", "due": "magenta", "missing": "red"}


@click.command("timeline")
@click.argument("manifests", metavar="[RELEASE=FILE|FOLDER]...", nargs=-1)
@click.option(
    "-f",
    "--filename",
    "policy_file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    metavar="POLICY",
    help="Policy file: releases, promises, versions. See docs/howto/remove-a-version.md.",
)
@click.option(
    "--all", "everything", is_flag=True, help="Check the CRDs of the cluster that have a version in the policy."
)
@click.option("--at", "release", metavar="RELEASE", help="With --all: the release that runs in the cluster.")
@click.option("--since", metavar="RELEASE", help="Show the timeline from this release on.")
@options.output
@options.connection
def command(
    manifests: tuple[str, ...],
    policy_file: Path,
    everything: bool,
    release: str | None,
    since: str | None,
    output: str,
    connection: ClusterConnection,
) -> None:
    """Plan the removal of API versions across releases of a project.

    Shows the timeline that the policy implies. Checks the plan itself, the CRD manifests of releases
    (v1.13=config/crd), or the CRDs of a live cluster against it.

    Exit codes: 0 the plan holds; 1 there are findings; 2 usage or refused; 4 the API
    server stayed out of reach.

    \b
    restow timeline -f policy.yaml
    restow timeline -f policy.yaml v1.12=releases/v1.12 v1.13=config/crd
    restow timeline -f policy.yaml --all --at v1.13
    """
    from restow.migrator.requests.crdaccess import list_crds
    from restow.migrator.timeline import PolicyError, schedule

    if everything != (release is not None):
        msg = "--all and --at RELEASE belong together"
        raise click.UsageError(msg)
    try:
        planned = schedule(read_policy(policy_file))
        first = 0 if since is None else planned.policy.index(since)
        at = None if release is None else planned.policy.index(release)
        known = [(planned.policy.index(name), crd) for name, crd in _manifests(manifests)]
    except PolicyError as error:
        raise InputError(f"{policy_file}: {error}") from error
    if at is None:
        raise SystemExit(int(_finish(planned, known, first, output)))

    async def live(session: Session) -> Exit:
        names = {version.name for version in planned.policy.versions}
        found = [crd for crd in await list_crds(session.cluster) if names & {version.name for version in crd.versions}]
        return _finish(planned, [*known, *((at, crd) for crd in found)], first, output)

    run(live, connection)


def read_policy(file: Path) -> TimelinePolicy:
    """Read a policy; ``-`` is stdin.

    Raises:
        InputError: the file cannot be read as YAML, or does not contain exactly one document.
        PolicyError: the document is not a valid policy.
    """
    from restow.migrator.timeline import parse_policy

    documents = documents_of(file)
    if len(documents) != 1:
        raise InputError(f"{file} must hold one document, the policy, and holds {len(documents)}")
    return parse_policy(documents[0].data)


def _manifests(arguments: Sequence[str]) -> list[tuple[str, Crd]]:
    from restow.cli.registries import load_crds

    found = []
    for argument in arguments:
        release, equals, path = argument.partition("=")
        if not equals or not Path(path).exists():
            msg = f"{argument!r} is no RELEASE=FILE or RELEASE=FOLDER, or the path does not exist"
            raise click.UsageError(msg)
        found += [(release, crd) for crd in load_crds([Path(path)])]
    return found


def _finish(planned: VersionSchedule, known: list[tuple[int, Crd]], first: int, form: str) -> Exit:
    from restow.migrator.timeline import check, observe

    findings = check(planned, observe(known, migrator.may_be_stored))
    show(planned, findings, first, form)
    return Exit.FAILURES if findings else Exit.DONE


def show(planned: VersionSchedule, findings: Sequence[TimelineFinding], first: int, form: str) -> None:
    """Print the timeline as a table with the findings below it, or as JSON or YAML."""
    from restow.migrator.timeline import columns, notes

    shown = columns(planned, first)
    releases = list(enumerate(planned.policy.releases))[first:]
    if form != "table":
        print_data(_data(planned, findings, first), form)
        return
    dated = any(release.date for _, release in releases)
    print_table(
        ("release", *(["date"] if dated else []), *(column.title for column in shown), "notes"),
        [
            (
                release.name,
                *([release.date] if dated else []),
                *(column.cells[index - first] for column in shown),
                notes(planned, index),
            )
            for index, release in releases
        ],
    )
    for finding in findings:
        where = " ".join(part for part in (finding.crd, finding.release) if part)
        say(f"{finding.level}: {where}: {finding.problem}. {finding.fix}.", style=_STYLES[finding.level])


def _data(planned: VersionSchedule, findings: Sequence[TimelineFinding], first: int) -> Any:
    from restow.migrator.timeline import notes

    return {
        "releases": [
            {
                "name": release.name,
                "date": release.date,
                "versions": {
                    name: {"served": place.served, "storage": place.storage}
                    for name in (version.name for version in planned.policy.versions)
                    if (place := planned.place(name, index)).there
                },
                "notes": notes(planned, index),
            }
            for index, release in enumerate(planned.policy.releases)
            if index >= first
        ],
        "steps": [
            {"version": step.version, "step": step.what, "release": planned.name(step.release)}
            for steps in planned.steps.values()
            for step in steps.values()
        ],
        "findings": [
            {
                "level": finding.level,
                "crd": finding.crd,
                "release": finding.release,
                "version": finding.version,
                "problem": finding.problem,
                "fix": finding.fix,
            }
            for finding in findings
        ],
    }
