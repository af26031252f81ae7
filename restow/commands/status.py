"""``restow status``: the versions of CRDs at a glance."""

from __future__ import annotations

from typing import Any

import click

from restow.cli import completion, options
from restow.cli.exits import Exit
from restow.cli.printing import print_data, print_table
from restow.cli.session import Session, run
from restow.crds import Crd
from restow.migrator import list_crds, read_crd, refusal, what_is_proved
from restow.migrator.decide.proof import ANNOTATION


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

    async def status(session: Session) -> Exit:
        if names:
            crds = [(await read_crd(session.cluster, name)).crd for name in names]
        else:
            crds = await list_crds(session.cluster)
        show(crds, output)
        return Exit.DONE

    run(status, kubeconfig=kubeconfig, context=context)


def show(crds: list[Crd], form: str) -> None:
    """Print as a table, or as JSON or YAML."""
    if form != "table":
        print_data({"crds": [_json(crd) for crd in crds]}, form)
        return
    columns = ("name", "storage", "served", "stored", "strategy", "state")
    rows = (
        (crd.name, crd.storage.name, ",".join(crd.served), ",".join(crd.stored_versions), crd.strategy, state(crd))
        for crd in crds
    )
    print_table(columns, rows)


def state(crd: Crd) -> str:
    """Say in a word or two what a CRD needs."""
    if crd.terminating:
        return "terminating"
    if crd.storage_migrating:
        return "native migration running"
    if refusal(crd):
        return "cannot be migrated"
    if crd.stored_versions != (crd.storage.name,):
        return "migration due"
    if len(crd.versions) == 1:
        return "one version"
    return "not proved" if what_is_proved(crd).doubt else "migrated"


def _json(crd: Crd) -> dict[str, Any]:
    return {
        "name": crd.name,
        "storageVersion": crd.storage.name,
        "servedVersions": list(crd.served),
        "storedVersions": list(crd.stored_versions),
        "strategy": crd.strategy,
        "state": state(crd),
        "refusal": refusal(crd),
        "conditions": {
            kind: {True: "True", False: "False", None: "Unknown"}[condition.status]
            for kind, condition in crd.conditions.items()
        },
        "doubt": what_is_proved(crd).doubt,
        "mark": crd.annotations.get(ANNOTATION, ""),
    }
