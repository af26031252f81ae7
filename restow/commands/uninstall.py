"""``restow uninstall``: remove what restow left in a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from restow.cli import options
from restow.cli.connection import ClusterConnection
from restow.cli.exits import Exit
from restow.cli.printing import echo, print_data, print_table, say
from restow.cli.session import Session, run

if TYPE_CHECKING:
    from restow.uninstall.leftovers import Leftover, Leftovers


@click.command("uninstall")
@click.option(
    "--stash",
    "stashes",
    multiple=True,
    metavar="ANNOTATION",
    help="Annotation of stashes with a name of their own, next to <group>/conversion-stash; repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Look only; write and remove nothing.")
@options.output
@options.connection
def command(stashes: tuple[str, ...], dry_run: bool, output: str, connection: ClusterConnection) -> None:
    """Remove what restow left in a cluster, except what is needed.

    It finds marks and conditions on CRDs, webhook configurations, Secrets, ConfigMaps, Leases,
    StorageVersionMigrations, the CRD of ConversionRules, and stashes on objects. It keeps what objects or people still
    need, and says why, and what to do. It changes no CRD's conversion: restow unwire does.

    Uninstall the processes of restow first. Nothing is removed while one of them holds a Lease.

    Exit codes: 0 nothing is left; 2 usage or refused; 3 something stays, or could not be looked at; 4 the API server
    stayed out of reach: run again.

    \b
    restow uninstall --dry-run
    restow uninstall
    """

    async def uninstall(session: Session) -> Exit:
        from restow.uninstall.leftovers import find_leftovers, remove

        left = await find_leftovers(session.cluster, stashes)
        if not dry_run and not left.running:
            await remove(left)
        _show(left, output, removed=not dry_run and not left.running)
        stays = left.running or left.not_seen or any(each.reason for each in left.found)
        return Exit.DUE if stays else Exit.DONE

    run(uninstall, connection)


def _show(left: Leftovers, form: str, *, removed: bool) -> None:
    def state(each: Leftover) -> str:
        return "stays" if each.reason else "removed" if removed else "can be removed"

    if form != "table":
        found = [{**each.to_json(), "state": state(each)} for each in left.found]
        print_data({"left": found, "running": left.running, "notLookedAt": left.not_seen}, form)
        return
    if left.found:
        print_table(("kind", "name", "state"), [(each.kind.value, each.name, state(each)) for each in left.found])
    elif not (left.running or left.not_seen):
        echo("Nothing of restow is left.")
    for each in left.found:
        if each.reason:
            say(each.reason, style="red")
    for holder in left.running:
        say(f"{holder}: nothing is removed while a process of restow runs. Uninstall it first", style="red")
    for missing in left.not_seen:
        say(f"not looked at: {missing}", style="magenta")
