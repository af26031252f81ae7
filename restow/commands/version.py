"""``restow version``: the version, for bug reports and scripts."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any

import click

from restow.cli import options
from restow.cli.printing import print_data, print_table
from restow.conversion.stash.annotation import FORMAT as STASH
from restow.crds.cloudprofiles import documents
from restow.migrator.decide.proof import FORMAT as PROOF
from restow.migrator.requests.native import NATIVE_MIGRATIONS

#: What the servers are asked in.
_REVIEWS = {
    "ConversionReview": ["apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"],
    "AdmissionReview": ["admission.k8s.io/v1"],
}


@click.command("version")
@options.output
def command(output: str) -> None:
    """Show the version, and the supported API versions and formats.

    The formats are those of the data that restow leaves in a cluster: stashes on objects, proofs on CRDs.

    Exit codes: 0 shown; 2 usage.

    \b
    restow version
    restow version -o json
    """
    found = versions()
    if output != "table":
        print_data(found, output)
        return
    rows = [("restow", found["version"]), ("Python", found["python"]), ("platform", found["platform"])]
    rows += [(kind, ", ".join(each)) for kind, each in found["apiVersions"].items()]
    rows += [(f"format of the {what}", str(number)) for what, number in found["formats"].items()]
    print_table(("what", "version"), rows)


def versions() -> dict[str, Any]:
    """Return all of it, as JSON."""
    own = {
        document["spec"]["names"]["kind"]: [
            f"{document['spec']['group']}/{each['name']}" for each in document["spec"]["versions"] if each["served"]
        ]
        for document in documents().values()
    }
    return {
        "version": version("restow"),
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
