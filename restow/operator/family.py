"""What the operator serves, and the objects that direct API servers to it: CRDs and webhook configurations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, Final

from restow.cloudprofile.admission import admission_steps, webhook_configurations
from restow.cloudprofile.conversions import graph
from restow.conversion import Graph
from restow.conversion.certificates import Bundle
from restow.conversion.certificates.wiring.clientconfig import Address, client_config
from restow.conversion.server import Clients, Limits, WebhookServer, conversions_by_crd
from restow.crds import Crd
from restow.crds.cloudprofiles import documents
from restow.kube import Cluster

#: The name of both webhook configurations.
CONFIGURATION: Final = "restow-cloudprofile"

Where = Callable[[str], Address]
"""Returns the address of a path."""


@cache
def crds() -> tuple[Crd, ...]:
    """Return the packaged CRDs of the family."""
    return tuple(map(Crd.from_document, documents().values()))


@cache
def conversions() -> Graph:
    """Return the conversions of the family."""
    return graph(crds())


def webhook(cluster: Cluster, now: Callable[[], datetime], limits: Limits, clients: Clients) -> WebhookServer:
    """Return conversion and admission on one server; admission reads references between objects from ``cluster``.

    Only authenticated clients receive the names of users' objects.
    """
    steps = admission_steps(cluster, conversions(), crds(), now, tells_names=clients.admission)
    return WebhookServer(
        conversions_by_crd(conversions(), crds()),
        validating=steps.validating,
        mutating=steps.mutating,
        clients=clients,
        limits=limits,
    )


def configurations(where: Where, bundle: Bundle | None = None) -> tuple[Mapping[str, Any], ...]:
    """Return both webhook configurations for a webhook at an address, with its CA bundle if there is one."""
    ca = {} if bundle is None else {"caBundle": bundle.base64}
    return webhook_configurations(CONFIGURATION, lambda path: client_config(where(path)) | ca)


def manifests(where: Where | None) -> tuple[Mapping[str, Any], ...]:
    """Return the CRDs to apply, with conversion at an address; without an address, as in the packaged manifests."""
    found = documents()
    for name, document in found.items():
        if where is not None:
            document["spec"]["conversion"]["webhook"]["clientConfig"] = client_config(where(f"/convert/{name}"))
    return tuple(found.values())
