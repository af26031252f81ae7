"""``restow prune``: prune storedVersions after a proof that this is safe."""

from __future__ import annotations

import click

from restow.cli import completion, options
from restow.cli.connection import ClusterConnection
from restow.cli.exits import Exit
from restow.cli.progress import Progress
from restow.cli.session import Session, run
from restow.commands.migrate import EXITS, show
from restow.migrator import prune


@click.command("prune")
@click.argument("names", metavar="CRD...", nargs=-1, required=True, shell_complete=completion.crds)
@options.settle
@options.patience
@options.api_servers
@options.output
@options.connection
def command(
    names: tuple[str, ...],
    settle: float,
    patience: float,
    api_servers: tuple[str, ...],
    output: str,
    connection: ClusterConnection,
) -> None:
    """Prune status.storedVersions after a proof that this is safe.

    The API server accepts any storedVersions, and a wrong value loses data silently. Therefore restow first writes
    every object, unless a complete run has already proved that all of them are stored at the storage version. A write
    of such an object changes nothing. managedFields stay as they are.

    Exit codes: 0 done; 1 objects failed or remain, or no mark could be left; 2 usage or refused; 4 the API server
    stayed out of reach: run again.

    \b
    restow prune widgets.example.com
    """
    chosen = options.checked(settle_s=settle, patience_s=patience, api_servers=api_servers)

    async def prune_all(session: Session) -> Exit:
        async with Progress() as progress:
            report = await prune(session.cluster, names, chosen, observer=progress, stop=session.stop)
        show(report, output)
        return EXITS[report.result]

    run(prune_all, connection, drains=True)
