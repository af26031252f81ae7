"""``restow status``: the versions of CRDs at a glance."""

from __future__ import annotations

import click

from restow.cli import completion, options
from restow.cli.exits import Exit
from restow.cli.printing import print_data, print_table
from restow.cli.session import Session, run
from restow.migrator import CrdStatus, status


@click.command("status")
@click.argument("names", metavar="[CRD]...", nargs=-1, shell_complete=completion.crds)
@options.output
@options.connection
def command(names: tuple[str, ...], output: str, kubeconfig: str | None, context: str | None) -> None:
    """Show the versions of CRDs and whether a migration is due.

    Of all CRDs where none is named. Reads the CRDs only, not their objects: `restow plan` looks at those.

    Exit codes: 0 shown; 2 usage or refused; 4 the API server stayed out of reach.

    \b
    restow status
    restow status widgets.example.com -o yaml
    """

    async def show_status(session: Session) -> Exit:
        show(await status(session.cluster, names), output)
        return Exit.DONE

    run(show_status, kubeconfig=kubeconfig, context=context)


def show(found: list[CrdStatus], form: str) -> None:
    """Print as a table, or as JSON or YAML."""
    if form != "table":
        print_data({"crds": [each.to_json() for each in found]}, form)
        return
    columns = ("name", "storage", "served", "stored", "strategy", "state")
    print_table(columns, (_row(each) for each in found))


def _row(found: CrdStatus) -> tuple[str, ...]:
    crd = found.crd
    served, stored = ",".join(crd.served), ",".join(crd.stored_versions)
    return crd.name, crd.storage.name, served, stored, crd.strategy, found.state.value
