"""``restow status``: show the versions of CRDs and the state of their ConversionRules."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from restow import migrator
from restow.cli import completion, options
from restow.cli.connection import ClusterConnection
from restow.cli.crdnames import full_names
from restow.cli.exits import Exit
from restow.cli.fleet import FleetTable, across
from restow.cli.printing import echo, print_data, print_table
from restow.cli.session import Session, run

if TYPE_CHECKING:
    from restow.conversion.operate.overview import RulesOverview
    from restow.migrator.planning.status import CrdStatus


def _cells(found: Any) -> tuple[str, ...]:
    """Return the cells of a cluster in the table of several: how many of its CRDs are in each state."""
    from collections import Counter

    states = Counter(crd["state"] for crd in found["crds"])
    return str(len(found["crds"])), ", ".join(f"{count} {state}" for state, count in states.most_common()) or "-"


_FLEET = FleetTable(("crds", "states"), _cells, done="shown")


@click.command("status")
@click.argument("names", metavar="[CRD]...", nargs=-1, shell_complete=completion.crds)
@click.option("--all", "everything", is_flag=True, help="All CRDs of the cluster; the default where none is named.")
@options.output
@options.connection
@across(_FLEET)
def command(names: tuple[str, ...], everything: bool, output: str, connection: ClusterConnection) -> None:
    """Show the versions of CRDs and whether a migration is due.

    Of all CRDs where none is named. Reads the CRDs only, not their objects: `restow plan` looks at those. Below are
    their ConversionRules: each gate, the generation that is served, and what the first closed gate says.

    Exit codes: 0 shown; 2 usage or refused; 4 the API server stayed out of reach.

    \b
    restow status
    restow status widgets.example.com -o yaml
    """
    if everything and names:
        msg = "name CRDs or give --all, not both"
        raise click.UsageError(msg)

    async def show_status(session: Session) -> Exit:
        chosen = await full_names(session.cluster, names)
        show(await migrator.status(session.cluster, chosen), output, await _rules(session, chosen))
        return Exit.DONE

    run(show_status, connection)


async def _rules(session: Session, names: Sequence[str]) -> Sequence[RulesOverview]:
    """Return the ConversionRules. The toolkit that reads them is imported only if the cluster has some."""
    from restow.crds.conversionrules import CONVERSION_RULES
    from restow.kube.errors import Forbidden, NotFound
    from restow.kube.pager import list_names

    with suppress(Forbidden, NotFound):
        if await list_names(session.cluster, CONVERSION_RULES):
            from restow.conversion.operate.overview import rules_overview

            return await rules_overview(session.cluster, names)
    return ()


def show(found: list[CrdStatus], form: str, rules: Sequence[RulesOverview] = ()) -> None:
    """Print the status as tables, or as JSON or YAML."""
    if form != "table":
        printed = {"crds": [each.to_json() for each in found], "conversionRules": [each.to_json() for each in rules]}
        print_data(printed, form)
        return
    columns = ("name", "storage", "served", "stored", "strategy", "state")
    print_table(columns, (_row(each) for each in found), spare=("strategy", "served"), trivial={"strategy": "None"})
    if rules:
        from restow.conversion.operate.gates import GATES

        echo()
        gates = tuple(name.lower() for name in GATES)
        print_table(("conversionrules", "crd", "served", *gates, "state"), map(_rules_row, rules))
    for each in rules:
        if each.failure:
            echo(f"{each.name}: {each.failure}")


def _rules_row(found: RulesOverview) -> tuple[str, ...]:
    served = "-" if found.served is None else f"{found.served} of {found.generation}"
    gates = (status if status != "False" else reason for _, status, reason in found.gates)
    return found.name, found.crd or "-", served, *gates, found.state


def _row(found: CrdStatus) -> tuple[str, ...]:
    crd = found.crd
    served, stored = ",".join(crd.served), ",".join(crd.stored_versions)
    return crd.name, crd.storage.name, served, stored, crd.strategy, found.state.value
