"""Print the names of a cluster's CRDs for shell completion: ``python -m restow.cli.names``."""

from __future__ import annotations

import asyncio

import click

from restow.cli import connection as clusters
from restow.cli.connection import ClusterConnection
from restow.cli.printing import print_text
from restow.kube.pager import list_names
from restow.kube.resources import CRDS


@click.command()
@clusters.flags
def _print_crd_names(connection: ClusterConnection) -> None:
    async def names() -> list[str]:
        async with connection.open() as cluster:
            return await list_names(cluster, CRDS)

    print_text("\n".join(asyncio.run(names())) + "\n")


if __name__ == "__main__":
    _print_crd_names()
