"""``restow version``: show the versions of restow and of the API server, for bug reports and scripts."""

from __future__ import annotations

import platform
from typing import Any

import click

from restow import __version__
from restow.cli import options
from restow.cli.connection import ClusterConnection
from restow.cli.logs import log_to_stderr
from restow.cli.printing import print_data, print_table, say
from restow.cli.session import sentence

_PATIENCE_S = 5.0  # seconds for the API server; everything else is known immediately

#: The versions of the reviews that API servers send to the webhooks.
_REVIEWS = {
    "ConversionReview": ["apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"],
    "AdmissionReview": ["admission.k8s.io/v1"],
}


@click.command("version")
@click.option("--client", is_flag=True, help="Do not ask the API server for its version.")
@options.output
@options.connection
def command(client: bool, output: str, connection: ClusterConnection) -> None:
    """Show the versions of restow, the API server and all formats.

    The formats are those of the data that restow leaves in a cluster: stashes on objects, proofs on CRDs. Without an
    API server, the command shows everything else and says on stderr why it has no version of the server.

    Exit codes: 0 shown; 2 usage.

    \b
    restow version
    restow version --client -o json
    """
    import asyncio

    log_to_stderr()
    found = versions()
    if not client:
        found["server"] = asyncio.run(_server(connection.within(_PATIENCE_S)))
    if output != "table":
        print_data(found, output)
        return
    rows = [("restow", found["version"]), ("Python", found["python"]), ("platform", found["platform"])]
    if server := found.get("server"):
        rows.append(("API server", server["version"]))
    rows += [(kind, ", ".join(each)) for kind, each in found["apiVersions"].items()]
    rows += [(f"format of the {what}", str(number)) for what, number in found["formats"].items()]
    print_table(("what", "version"), rows)


async def _server(connection: ClusterConnection) -> dict[str, str] | None:
    """Return the version of the API server, or None after a message with the reason."""
    from restow.kube import KubeError

    try:
        async with connection.open() as cluster:
            told = (await cluster.discover("/version")).json()
            return {"version": str(told.get("gitVersion", "unknown")), "host": cluster.host}
    except KubeError as error:
        say(f"no version of the API server: {sentence(error)}", style="bold")
        return None


def versions() -> dict[str, Any]:
    """Return all versions as JSON."""
    from restow.conversion.stash.annotation import FORMAT as STASH
    from restow.crds.cloudprofiles import documents
    from restow.migrator.decide.proof import FORMAT as PROOF
    from restow.migrator.requests.native import NATIVE_MIGRATIONS

    own = {
        document["spec"]["names"]["kind"]: [
            f"{document['spec']['group']}/{each['name']}" for each in document["spec"]["versions"] if each["served"]
        ]
        for document in documents().values()
    }
    return {
        "version": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
        "apiVersions": {
            "CustomResourceDefinition": ["apiextensions.k8s.io/v1"],
            **_REVIEWS,
            "StorageVersionMigration": [each.api_version for each in NATIVE_MIGRATIONS],
            **own,
        },
        "formats": {"stash": STASH, "proof": PROOF},
    }
