"""``restow ready``: report whether a version can be unserved or removed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from restow import migrator
from restow.cli import completion, options
from restow.cli.connection import ClusterConnection
from restow.cli.exits import Exit
from restow.cli.printing import print_data, print_table, say
from restow.cli.session import Session, run

if TYPE_CHECKING:
    from restow.migrator.planning.ready import Readiness


@click.command("ready")
@click.argument("name", metavar="CRD", shell_complete=completion.crds)
@click.option("--drop", "version", required=True, metavar="VERSION", help="The version to unserve or remove.")
@click.option(
    "--no-references",
    "alone",
    is_flag=True,
    help="Do not look through other resources for what names the version: the answer is then about the CRD alone.",
)
@options.api_servers
@options.output
@options.connection
def command(
    name: str,
    version: str,
    alone: bool,
    api_servers: tuple[str, ...],
    output: str,
    connection: ClusterConnection,
) -> None:
    """Report whether a version can be unserved or removed now.

    The answer is yes only with a proof: a complete run of restow stored every object at the storage version, and
    nothing has changed that since. The command always lists all objects and checks each API server, and prints every
    reason.

    It also looks through all other resources for what names the version and fails without it, as `restow references`
    does; a note names the resources that it could not read.

    Exit codes: 0 it can be removed; 2 usage or refused; 3 not yet; 4 the API server stayed out of reach: run
    again.

    \b
    restow ready widgets.example.com --drop v1alpha1
    """

    async def ask(session: Session) -> Exit:
        crd = await migrator.read_crd(session.cluster, name)
        answer = await migrator.ready(session.cluster, crd, version, api_servers=api_servers, references=not alone)
        show(answer, output)
        return Exit.DONE if answer.ready else Exit.DUE

    run(ask, connection)


def show(answer: Readiness, form: str) -> None:
    """Print the answer as a table with the reasons below it, or as JSON or YAML."""
    if form != "table":
        print_data(answer.to_json(), form)
        return
    columns = ("name", "version", "may be unserved", "may be removed", "objects", "entries of it")
    row = (
        answer.crd,
        answer.version,
        "no" if answer.against_unserving else "yes",
        "no" if answer.against_removal else "yes",
        str(answer.objects),
        str(sum(answer.owners.values())),
    )
    print_table(columns, [row])
    for reason in dict.fromkeys((*answer.against_unserving, *answer.against_removal)):
        say(reason, style="red")
    for note in answer.notes:
        say(note, style="magenta")
