"""The CRD that Crossplane makes from a CompositeResourceDefinition (XRD), as far as the XRD says it.

Crossplane adds fields of its own to each version, ``spec.crossplane`` for instance. They are the same before and after
a change of the XRD, so two XRDs are compared without them.

Source: Crossplane v2.0.2, ``internal/xcrd/crd.go``. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from restow.crds.crd import Crd, CrdError

XRD_GROUP: Final = "apiextensions.crossplane.io"
XRD_KIND: Final = "CompositeResourceDefinition"


def crd_of_composite(document: Mapping[str, Any]) -> Crd:
    """Return the CRD of the composite kind; the referenceable version is stored.

    Raises:
        CrdError: the XRD is malformed.
    """
    spec = document.get("spec")
    if not isinstance(spec, Mapping) or not isinstance(spec.get("versions"), list):
        name = (document.get("metadata") or {}).get("name")
        raise CrdError(f"{XRD_KIND} {name} has no spec.versions")
    is_v1 = str(document.get("apiVersion")).endswith("/v1")
    scope = spec.get("scope") or ("Cluster" if is_v1 else "Namespaced")
    made = {
        "group": spec.get("group"),
        "names": spec.get("names"),
        "scope": "Cluster" if scope == "LegacyCluster" else scope,
        "versions": [_version(version) for version in spec["versions"]],
        "conversion": spec.get("conversion") or {},
    }
    metadata, status = document.get("metadata"), document.get("status") or {}
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata}
    stored = {"storedVersions": status.get("storedVersions") or []}
    return Crd.from_document({**crd, "spec": made, "status": stored, "composite": document})


def is_composite(crd: Crd) -> bool:
    """Return whether a CRD was read from an XRD."""
    return "composite" in crd.document


def _version(version: Mapping[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in version.items() if name != "referenceable"}
    return {**rest, "storage": version.get("referenceable") is True, "subresources": {"status": {}}}
