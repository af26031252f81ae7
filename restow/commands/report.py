"""``restow report``: write one HTML page about a run, a cluster, or both.

Of a cluster it reads the metadata of objects, page by page, and keeps only counts.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from restow import __version__, migrator
from restow.cli import completion, options
from restow.cli.connection import ClusterConnection
from restow.cli.crdnames import read_crds
from restow.cli.exits import Exit, InputError
from restow.cli.printing import print_text, say
from restow.cli.session import Session, run
from restow.commands.timeline import read_policy
from restow.kube.resources import Resource

if TYPE_CHECKING:
    from restow.crds import Crd
    from restow.kube.cluster import Cluster
    from restow.migrator.references.reference import FoundReferences
    from restow.migrator.timeline import VersionSchedule
    from restow.report import PolicyPlan, ReportDocument, RunReport
    from restow.report.model import CrdView, ProfileView

_STDOUT = Path("-")
_MOST_PROFILES = 100
"""The largest number of profiles to draw; the others are only counted."""

_PARTLY_SEEN = "not everything could be seen; the page says what, and why"


@click.command("report")
@click.argument("names", metavar="[CRD]...", nargs=-1, shell_complete=completion.crds)
@click.option("--all", "everything", is_flag=True, help="All CRDs of the cluster.")
@click.option(
    "-f",
    "--filename",
    "run_file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    metavar="REPORT",
    help="Show a run: the output of restow migrate --report or -o json; - for stdin.",
)
@click.option(
    "--policy",
    "policy_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="POLICY",
    help="Show when this policy removes each version. See docs/howto/remove-a-version.md.",
)
@click.option(
    "--at", "release", metavar="RELEASE", help="With --policy: the release that runs in the cluster; checks its CRDs."
)
@click.option(
    "--references",
    is_flag=True,
    help="Also look through all resources for what names a version that may go. See restow references.",
)
@click.option("--profiles", "with_profiles", is_flag=True, help="Show the lifecycles of the cluster's CloudProfiles.")
@click.option(
    "-o",
    "--output",
    "file",
    required=True,
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="File of the page; - for stdout.",
)
@options.connection
def command(
    names: tuple[str, ...],
    everything: bool,
    run_file: Path | None,
    policy_file: Path | None,
    release: str | None,
    references: bool,
    with_profiles: bool,
    file: Path,
    connection: ClusterConnection,
) -> None:
    """Write an HTML page of stored versions, owners, and readiness.

    The page shows the named CRDs, a run (-f), the timeline of a policy (--policy), CloudProfiles (--profiles), or
    several of these. It is one file that needs no network and no JavaScript. Without CRDs and --profiles the command
    needs no cluster. It lists the metadata of objects, keeps only counts, and writes nothing to the cluster.

    Exit codes: 0 written; 1 the objects of a CRD could not be listed; 2 usage or refused; 4 the API
    server stayed out of reach.

    \b
    restow report --all -o report.html
    restow report widgets.example.com --references -o report.html
    restow report -f run.json --policy policy.yaml -o report.html
    """
    from restow.conversion.operate.overview import rules_overview
    from restow.migrator.planning.status import CrdStatus
    from restow.migrator.references.scan import find_old_references
    from restow.report import ReportDocument

    if everything and names:
        msg = "name CRDs or give --all, not both"
        raise click.UsageError(msg)
    asks = everything or bool(names) or with_profiles
    if not asks and run_file is None and policy_file is None:
        msg = "say what to show: CRDs (<plural>.<group>), --all, -f REPORT, --policy POLICY or --profiles"
        raise click.UsageError(msg)
    if release is not None and (policy_file is None or not (everything or names)):
        msg = "--at needs --policy, and CRDs or --all to check"
        raise click.UsageError(msg)
    if references and not (everything or names):
        msg = "--references needs CRDs or --all: name whose versions to look for"
        raise click.UsageError(msg)
    if file != _STDOUT and not os.access(file.parent, os.W_OK):
        raise InputError(f"-o {file} cannot be written: {file.parent} is no folder to write to")
    ran = None if run_file is None else _read_run(run_file)
    planned, at = (None, None) if policy_file is None else _read_plan(policy_file, release)

    if not asks:
        _write(
            file,
            ReportDocument(made=datetime.now(UTC), release=__version__, run=ran, plan=_plan(planned, at, ())),
        )
        raise SystemExit(int(Exit.DONE))

    async def report(session: Session) -> Exit:
        cluster, made = session.cluster, datetime.now(UTC)
        crds = await read_crds(cluster, None if everything else names)
        found = await find_old_references(cluster, crds) if references else {}
        drawn, more = await _profiles(cluster, made) if with_profiles else ((), 0)
        document = ReportDocument(
            made=made,
            release=__version__,
            cluster=cluster.host,
            crds=tuple(
                [await _look_at(cluster, crd, CrdStatus.of(crd).state.value, found.get(crd.name)) for crd in crds]
            ),
            run=ran,
            plan=_plan(planned, at, crds),
            rules=tuple(await rules_overview(cluster, [crd.name for crd in crds])) if everything or names else (),
            profiles=drawn,
            more_profiles=more,
        )
        _write(file, document)
        if any(crd.unseen for crd in document.crds):
            say(f"restow: {_PARTLY_SEEN}", style="magenta")
            return Exit.FAILURES
        return Exit.DONE

    run(report, connection)


def _read_run(file: Path) -> RunReport:
    from restow.report import RunError, parse_run

    try:
        with click.open_file(str(file), "rb") as source:
            return parse_run(source.read())
    except (OSError, RunError) as error:
        raise InputError(f"{file} cannot be shown: {error}") from error


def _read_plan(file: Path, release: str | None) -> tuple[VersionSchedule, int | None]:
    from restow.migrator.timeline import PolicyError, schedule

    try:
        planned = schedule(read_policy(file))
        return planned, None if release is None else planned.policy.index(release)
    except PolicyError as error:
        raise InputError(f"{file}: {error}") from error


def _plan(planned: VersionSchedule | None, at: int | None, crds: Sequence[Crd]) -> PolicyPlan | None:
    """Return the plan. If the release is known, check the plan against the cluster's CRDs that have its versions."""
    from restow.migrator.timeline import check, observe
    from restow.report import PolicyPlan

    if planned is None:
        return None
    if at is None:
        return PolicyPlan(planned, check(planned))
    known = {each.name for each in planned.policy.versions}
    having = ((at, crd) for crd in crds if known & {each.name for each in crd.versions})
    observed = observe(having, migrator.may_be_stored)
    return PolicyPlan(planned, check(planned, observed) if observed else (), at)


async def _look_at(
    cluster: Cluster, crd: Crd, word: str, references: Collection[FoundReferences] | None = None
) -> CrdView:
    """Count the objects of a CRD and the owners of their fields. The view says why objects cannot be listed.

    Args:
        cluster: the API server.
        crd: the CRD as read from the cluster.
        word: the state of the CRD in a word or two.
        references: references to its versions from elsewhere in the cluster; None without a search.

    Raises:
        KubeError: the API server cannot be reached.
    """
    from restow.migrator.requests.passes import scan
    from restow.report.views import OwnerCounts, view

    if why := _unlistable(crd):
        return view(crd, word, None, why, references)
    tally = OwnerCounts(crd.storage.api_version)
    try:
        async for meta in scan(cluster, crd):
            tally.add(meta.managed_fields)
    except migrator.ListFailed as failure:
        return view(crd, word, None, str(failure), references)
    return view(crd, word, tally, references=references)


def _unlistable(crd: Crd) -> str:
    """Return why a CRD's objects cannot be listed, else an empty text. A page needs less of a CRD than a migration."""
    if not crd.established:
        return f"{crd.name} is not established, so the API server does not serve it"
    if not crd.storage.served:
        return (
            f"the storage version {crd.storage.name} of {crd.name} is not served, so its objects cannot be listed at "
            "it. Set served: true for it, or make a served version the storage version"
        )
    return ""


async def _profiles(cluster: Cluster, now: datetime) -> tuple[tuple[ProfileView, ...], int]:
    """Return the lifecycles of the cluster's CloudProfiles, and the number of profiles beyond the limit.

    The lifecycles of a NamespacedCloudProfile are those of its rendered profile.

    Raises:
        KubeError: the API server cannot be reached, or refuses a request.
    """
    from restow.cloudprofile.objects import CLOUD_PROFILES, NAMESPACED_CLOUD_PROFILES
    from restow.report.views import profile_view

    found: list[ProfileView] = []
    more = 0
    for resource, kind in ((CLOUD_PROFILES, "CloudProfile"), (NAMESPACED_CLOUD_PROFILES, "NamespacedCloudProfile")):
        async for item in _items(cluster, resource):
            if len(found) < _MOST_PROFILES:
                found.append(profile_view(kind, item, now))
            else:
                more += 1
    return tuple(found), more


async def _items(cluster: Cluster, resource: Resource) -> AsyncIterator[dict[str, Any]]:
    from restow.kube.errors import NotFound
    from restow.kube.pager import list_pages

    try:
        async for page in list_pages(cluster, resource, limit=20):  # a profile can be a megabyte
            for item in page:
                yield item
    except NotFound:
        return  # the CRD is not installed


def _write(file: Path, document: ReportDocument) -> None:
    from restow.report import render

    page = render(document)
    if file == _STDOUT:
        print_text(page)
        return
    try:
        # A name may contain a lone surrogate, which UTF-8 cannot encode.
        file.write_text(page, encoding="utf-8", errors="replace")
    except OSError as error:
        raise click.FileError(str(file), error.strerror) from error
    say(f"{file} written", style="bold")
