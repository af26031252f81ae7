"""Makes webhook configurations: the requests for which API servers call a webhook, and the settings of the call.

Conversions come with two admission steps:

- The step that restores stashes has one webhook per CRD, at the hub version (the storage version if no client ever
  sees the hub) with matchPolicy Equivalent, so that requests of all versions reach it, converted. A request at that
  version has lost no stash and does not call the webhook: migrations work while the webhook is down.
- The step that refuses writes works the same way, for CRDs of which a rule keeps values; it sees requests of all
  versions.

The documents have no CA bundles; ``plan_configuration`` adds them.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from restow.conversion.certificates.wiring.clientconfig import Address, Service, client_config
from restow.conversion.compile.graph import Graph
from restow.conversion.model.values import Json
from restow.crds import Crd


def configuration_document(kind: str, name: str, webhooks: Iterable[Json]) -> Json:
    """Return a MutatingWebhookConfiguration or a ValidatingWebhookConfiguration."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": [*webhooks],
    }


def webhook_document(
    name: str,
    config: Mapping[str, Any],
    rules: Sequence[Json],
    *,
    match_policy: Literal["Equivalent", "Exact"] = "Equivalent",
    failure_policy: Literal["Fail", "Ignore"] = "Fail",
    seconds: int = 10,
    conditions: Sequence[Mapping[str, str]] = (),
    side_effects: Literal["None", "NoneOnDryRun"] = "None",
) -> Json:
    """Return one webhook of a configuration; ``config`` is its ``clientConfig``."""
    document = {
        "name": name,
        "clientConfig": dict(config),
        "rules": [*rules],
        "matchPolicy": match_policy,
        "failurePolicy": failure_policy,
        "sideEffects": side_effects,
        "timeoutSeconds": seconds,
        "admissionReviewVersions": ["v1"],
    }
    return document | {"matchConditions": [*map(dict, conditions)]} if conditions else document


def webhook_rule(group: str, version: str, plural: str, operations: Sequence[str], *, namespaced: bool) -> Json:
    """Return the rule of a webhook that is called for some operations on one resource."""
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": [*operations],
        "resources": [plural],
        "scope": "Namespaced" if namespaced else "Cluster",
    }


def stash_name(address: Address) -> str:
    """Return the name of the configuration of a webhook's step, which no other webhook of the cluster has.

    It is ``conversion-stash.SERVICE.NAMESPACE.svc``, or ``conversion-stash.HOST.PORT``; a dash replaces characters that
    names must not have.
    """
    return _name("conversion-stash", address)


def refusal_name(address: Address) -> str:
    """Return the name of the configuration of the step that refuses writes; like ``stash_name``."""
    return _name("refuse-unconvertible", address)


def _name(step: str, address: Address) -> str:
    if isinstance(address, Service):
        return f"{step}.{address.host}"
    host = re.sub(r"[^a-z0-9.-]", "-", address.host).strip("-")
    return f"{step}.{host}.{address.port}"


def stash_configuration(name: str, address: Address, graph: Graph, crds: Iterable[Crd]) -> Json:
    """Return the MutatingWebhookConfiguration, without CA bundles.

    Args:
        name: the name of the object.
        address: the address of the step.
        graph: the conversions; CRDs that it does not know are left out.
        crds: the source of plurals and scopes.
    """
    known = [crd for crd in crds if (crd.group, crd.kind) in graph.kinds]
    return configuration_document(
        "MutatingWebhookConfiguration", name, (stash_webhook(address, crd, _hub(graph, crd)) for crd in known)
    )


def refusal_configuration(name: str, address: Address, graph: Graph, crds: Iterable[Crd]) -> Json:
    """Return the ValidatingWebhookConfiguration that refuses writes of values that no other version could show.

    It has a webhook for each CRD with a rule that keeps values it cannot convert (``on_error="keep"``); for other CRDs,
    the conversion itself fails.

    Args:
        name: the name of the object.
        address: the address of the step.
        graph: the conversions.
        crds: the source of plurals and scopes.
    """
    known = [crd for crd in crds if (crd.group, crd.kind) in graph.kinds and graph.kind(crd.group, crd.kind).keeps]
    return configuration_document(
        "ValidatingWebhookConfiguration", name, (refusal_webhook(address, crd, _hub(graph, crd)) for crd in known)
    )


def _hub(graph: Graph, crd: Crd) -> str:
    return graph.kind(crd.group, crd.kind).hub


def stash_webhook(address: Address, crd: Crd, hub: str) -> Json:
    """Return the webhook of one CRD; API servers ignore it unless the version that it names is served."""
    version = _seen_at(crd, hub)
    condition = {
        "name": "comes-from-another-version",
        "expression": f"request.requestKind.version != '{version}'",
    }
    return _webhook("conversion-stash", address, crd, version, ["UPDATE"], condition)


def refusal_webhook(address: Address, crd: Crd, hub: str) -> Json:
    """Return the webhook of one CRD for the step that refuses; as ``stash_webhook``."""
    # An object in deletion must be able to lose its finalizers, also while the webhook is down.
    condition = {"name": "is-not-being-deleted", "expression": "!has(object.metadata.deletionTimestamp)"}
    return _webhook("refuse-unconvertible", address, crd, _seen_at(crd, hub), ["CREATE", "UPDATE"], condition)


def _seen_at(crd: Crd, hub: str) -> str:
    """Return the version at which a step sees objects: that of the hub, or of storage if the hub is internal."""
    return hub if any(each.name == hub for each in crd.versions) else crd.storage.name


def _webhook(
    step: str, address: Address, crd: Crd, version: str, operations: Sequence[str], condition: Mapping[str, str]
) -> Json:
    rule = webhook_rule(crd.group, version, crd.plural, operations, namespaced=crd.namespaced)
    return webhook_document(f"{step}.{crd.name}", client_config(address), [rule], conditions=(condition,))
