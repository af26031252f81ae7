"""The webhook configuration of the admission step that gives objects the stash back that a client dropped.

One webhook per CRD, at the hub version (the storage version where no client ever sees the hub) with matchPolicy
Equivalent, so that requests of all versions reach it, converted. A request at that version has lost no stash, so it
does not even call the webhook: what migrates or labels objects there works while it is down.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from restow.conversion.graph import Graph
from restow.conversion.values import Json
from restow.conversion.wiring.address import Address, Service, client_config
from restow.crds import Crd

__all__ = ["stash_configuration", "stash_name"]


def stash_name(address: Address) -> str:
    """Return the name of the configuration of a webhook's step: no other webhook of the cluster has it.

    ``conversion-stash.SERVICE.NAMESPACE.svc``, or ``conversion-stash.HOST.PORT``; what no name may have becomes a dash.
    """
    if isinstance(address, Service):
        return f"conversion-stash.{address.host}"
    host = re.sub(r"[^a-z0-9.-]", "-", address.host).strip("-")
    return f"conversion-stash.{host}.{address.port}"


def stash_configuration(name: str, address: Address, graph: Graph, crds: Iterable[Crd]) -> Json:
    """Return the MutatingWebhookConfiguration, without CA bundles.

    Args:
        name: of the object.
        address: where the step is served.
        graph: the conversions; CRDs that it does not know are left out.
        crds: for their plurals and scopes.
    """
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [_webhook(address, graph, crd) for crd in crds if (crd.group, crd.kind) in graph.kinds],
    }


def _webhook(address: Address, graph: Graph, crd: Crd) -> dict[str, Any]:
    known = graph.kind(crd.group, crd.kind)
    version = crd.storage.name if known.is_internal else known.hub
    rule = {"apiGroups": [crd.group], "apiVersions": [version], "operations": ["UPDATE"], "resources": [crd.plural]}
    condition = f"request.requestKind.version != '{version}'"
    return {
        "name": f"conversion-stash.{crd.name}",
        "clientConfig": client_config(address),
        "rules": [rule | {"scope": "Namespaced" if crd.namespaced else "Cluster"}],
        "matchPolicy": "Equivalent",
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 10,
        "admissionReviewVersions": ["v1"],
        "matchConditions": [{"name": "comes-from-another-version", "expression": condition}],
    }
