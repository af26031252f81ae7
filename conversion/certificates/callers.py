"""Finds who calls a server: CRDs, CompositeResourceDefinitions, and webhook configurations.

A server is called at the Service or URL that it is given by, and at a URL with a DNS name of that Service. Nothing
relates any other URL to a Service, but its CA bundle shows whose certificate the API server expects there.

Rights: list on the customresourcedefinitions and on webhook configurations, get on the Secret with the server's CA;
optionally list on compositeresourcedefinitions.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any, Final

from restow.conversion.certificates.apply import resource_of
from restow.conversion.certificates.wiring.clientconfig import (
    NO_BUNDLE,
    Address,
    Bundle,
    BundleError,
    Service,
    address_in,
    bundle_in,
    names_server,
)
from restow.conversion.certificates.wiring.configuration import is_alone_ours
from restow.conversion.certificates.wiring.crd import COMPOSITES, Definition
from restow.kube import Cluster, Resource
from restow.kube.errors import Forbidden, NotFound
from restow.kube.pager import list_pages
from restow.kube.resources import CRDS, qualified_name

CONFIGURATIONS: Final = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
SECRETS: Final = Resource("", "v1", "secrets", namespaced=True)
_PAGE: Final = 100


async def crds_of(cluster: Cluster, server: Address) -> tuple[str, ...]:
    """Return the names of the CRDs that call a server, whatever the path.

    Raises:
        KubeError: the API server refuses a request, or cannot be reached.
    """
    found = [(each.name, address_in(each.webhook)) async for each in _definitions(cluster, CRDS)]
    return tuple(name for name, address in found if address is not None and names_server(address, server))


async def obstacles(
    cluster: Cluster, server: Address, namespace: str, secret: str, *, unwired: Collection[str] = ()
) -> tuple[str, ...]:
    """Return what keeps the objects of a server in use, as sentences: who still calls it, or trusts its CA.

    Webhook configurations that restow alone wrote for this server do not count, because they go with it.

    Args:
        cluster: the API server.
        server: the server's address; the path does not matter.
        namespace, secret: the namespace and the name of the Secret with its certificate; empty if there is none.
        unwired: CRDs that do not count, because they are about to be unwired.

    Raises:
        KubeError: the API server refuses a request, or cannot be reached.
    """
    authorities = await _authorities(cluster, namespace, f"{secret}-ca") if secret else NO_BUNDLE
    here: list[str] = []
    elsewhere: dict[str, list[str]] = {}
    async for name, webhook in _webhooks(cluster, server, unwired):
        address = address_in(webhook)
        if address is not None and names_server(address, server):
            here.append(name)
        elif address is not None and bundle_in(webhook)[0] & authorities:
            elsewhere.setdefault(_flag(address), []).append(name)
    found = [f"the {server} is still called by {_listed(here)}: unwire or delete these first"] if here else []
    for flag, names in elsewhere.items():
        found.append(
            f"{_listed(names)}, at {flag}, rely on the CA in the Secret {qualified_name(namespace, secret)}-ca, which "
            f"would be removed: run restow unwire --server {flag} instead, or add --keep-server"
        )
    return tuple(found)


async def _webhooks(
    cluster: Cluster, server: Address, unwired: Collection[str]
) -> AsyncIterator[tuple[str, Mapping[str, Any] | None]]:
    """Yield each webhook that stays, with the name of its object."""
    async for crd in _definitions(cluster, CRDS):
        if crd.name not in unwired:
            yield f"the CRD {crd.name}", crd.webhook
    try:
        async for each in _definitions(cluster, COMPOSITES):
            if not {each.name, each.claims} & {*unwired}:
                yield f"the CompositeResourceDefinition {each.name}", each.webhook
    except (NotFound, Forbidden):
        pass  # without Crossplane there are none; the CRDs that it makes of them name the same webhook
    for kind in CONFIGURATIONS:
        for live in (await cluster.list_page(resource_of(kind))).json()["items"]:
            if not is_alone_ours(live, server):
                for hook in live.get("webhooks") or ():
                    yield f"the {kind} {live['metadata']['name']}", hook


async def _definitions(cluster: Cluster, resource: Resource) -> AsyncIterator[Definition]:
    """Yield the definitions that are converted by a webhook."""
    async for page in list_pages(cluster, resource, limit=_PAGE):
        for each in map(Definition.of, page):
            if each.webhook is not None:
                yield each


async def _authorities(cluster: Cluster, namespace: str, name: str) -> Bundle:
    """Return all CA certificates of a Secret; none if it cannot be read, because then it is not removed either."""
    try:
        data = (await cluster.get(SECRETS, name, namespace)).json().get("data") or {}
    except (NotFound, Forbidden):
        return NO_BUNDLE
    found = NO_BUNDLE
    for key, text in data.items():
        if key.endswith(".crt"):
            try:
                found |= Bundle.from_pem(base64.b64decode(text))
            except (BundleError, binascii.Error):
                continue
    return found


def _flag(address: Address) -> str:
    """Return the value of ``--server`` for an address."""
    if isinstance(address, Service):
        return qualified_name(address.namespace, address.name)
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"https://{host}:{address.port}"


def _listed(names: list[str]) -> str:
    return ", ".join(dict.fromkeys(names))
