"""``restow ready``: report whether a version can be unserved or removed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from restow import migrator
from restow.cli import completion, options
from restow.cli.connection import ClusterConnection
from restow.cli.crdnames import read_crds
from restow.cli.exits import Exit
from restow.cli.fleet import FleetTable, across
from restow.cli.logs import is_verbose
from restow.cli.printing import counted, print_data, print_sentence, say
from restow.cli.session import Session, run

if TYPE_CHECKING:
    from restow.crds import Crd
    from restow.migrator.planning.back import WayBack
    from restow.migrator.planning.ready import Readiness
    from restow.migrator.requests.environment import Converters


def _cells(answer: Any) -> tuple[str, ...]:
    """Return the cells of a cluster in the table of several."""
    may = ("yes" if answer[each] else "no" for each in ("mayBeUnserved", "mayBeRemoved"))
    return *may, str(answer["objects"]), str(sum(each["objects"] for each in answer["owners"]))


_FLEET = FleetTable(("unserve", "remove", "objects", "owners"), _cells, done="ready", due="not yet")


@click.command("ready")
@click.argument("name", metavar="CRD", shell_complete=completion.crds)
@click.option("--drop", "version", metavar="VERSION", help="The version to unserve or remove.")
@click.option("--storage", metavar="VERSION", help="An older version to make the storage version again.")
@click.option(
    "--no-references",
    "alone",
    is_flag=True,
    help="Do not look through other resources for what names the version: the answer is then about the CRD alone.",
)
@options.api_servers
@options.output
@options.connection
@across(_FLEET)
def command(
    name: str,
    version: str | None,
    storage: str | None,
    alone: bool,
    api_servers: tuple[str, ...],
    output: str,
    connection: ClusterConnection,
) -> None:
    """Report whether a version can be unserved or removed now.

    The answer is yes only with a proof: a complete run of restow stored every object at the storage version, and
    nothing has changed that since. The command always lists all objects and checks each API server, and prints every
    reason. -v 1 adds what no check can see.

    It also looks through all other resources for what names the version and fails without it, as `restow references`
    does; a note names the resources that it could not read.

    With --storage, report whether an older version can become the storage version again: each object is converted to it
    and back, and what it cannot say is named by field.

    Exit codes: 0 it can be done; 2 usage or refused; 3 not yet; 4 the API server stayed out of reach: run
    again.

    \b
    restow ready widgets.example.com --drop v1alpha1
    restow ready widgets.example.com --storage v1alpha1
    """
    if (version is None) is (storage is None):
        msg = "say which version: --drop VERSION to remove it, or --storage VERSION to store at it again"
        raise click.UsageError(msg)

    async def ask(session: Session) -> Exit:
        (crd,) = await read_crds(session.cluster, [name])
        if version is None:
            back = await way_back(session, crd, str(storage))
            show_way_back(back, output)
            return Exit.DONE if back.ready else Exit.DUE
        answer = await migrator.ready(session.cluster, crd, version, api_servers=api_servers, references=not alone)
        show(answer, output)
        return Exit.DONE if answer.ready else Exit.DUE

    run(ask, connection)


def show(answer: Readiness, form: str) -> None:
    """Print the answer as a sentence with the reasons below it, or as JSON or YAML.

    -v also prints the notes that hold for every served version. What could not be looked at is always printed.
    """
    if form != "table":
        print_data(answer.to_json(), form)
        return
    print_sentence(verdict(answer))
    for reason in dict.fromkeys((*answer.against_unserving, *answer.against_removal)):
        say(reason, style="red")
    for note in answer.notes:
        if is_verbose() or note not in answer.standing:
            say(note, style="magenta")


async def way_back(session: Session, crd: Crd, version: str, converters: Converters | None = None) -> WayBack:
    """Return what it means to store at an older version again; a webhook that does not answer is a refusal."""
    from restow.migrator.model.converter import ConverterDown
    from restow.migrator.planning.back import way_back as look_back
    from restow.migrator.requests.environment import own_webhook

    try:
        return await look_back(session.cluster, crd, version, converters or own_webhook)
    except ConverterDown as down:
        raise migrator.MigrationRefused(str(down)) from down


def show_way_back(found: WayBack, form: str) -> None:
    """Print whether a version can become the storage version again, with the reasons below it."""
    if form != "table":
        print_data(found.to_json(), form)
        return
    can = "can become the storage version" if found.ready else "cannot become the storage version yet"
    print_sentence(
        f"{found.version} of {found.crd} {can}: {counted(found.objects, 'object')} converted to it and back."
    )
    for reason in found.reasons():
        say(reason, style="red")
    for note in found.notes():
        say(note, style="magenta")


def verdict(answer: Readiness) -> str:
    """Return the answer as one sentence."""
    if not answer.against_removal:
        can = "can be unserved now, then removed" if answer.served else "can be removed now"
    elif not answer.served:
        can = "cannot be removed yet"
    else:
        can = (
            "cannot be unserved or removed yet" if answer.against_unserving else "can be unserved now, not removed yet"
        )
    entries = sum(answer.owners.values())
    has = f"; {entries} managedFields {'entry is' if entries == 1 else 'entries are'} at it" if entries else ""
    return f"{answer.version} of {answer.crd} {can}: {counted(answer.objects, 'object')} looked at{has}."
