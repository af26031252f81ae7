"""A kind that keeps an API group: that a group comes or goes costs the API server seconds."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from restow.kube.client import HttpCluster
from restow.kube.errors import Conflict, NotFound
from restow.kube.resources import CRDS
from tests.apiserver.kind import until


@contextlib.asynccontextmanager
async def kept_group(cluster: HttpCluster, group: str, versions: Sequence[str]) -> AsyncIterator[None]:
    """Have a kind in the group, at these versions, so that the group does not come and go with each test's kind.

    The kind is deleted at the end, since other tests on the same API server ask for all CRDs.
    """
    names = {"plural": "anchors", "singular": "anchor", "kind": "Anchor", "listKind": "AnchorList"}
    made = [
        {
            "name": version,
            "served": True,
            "storage": version == versions[-1],
            "schema": {"openAPIV3Schema": {"type": "object"}},
        }
        for version in versions
    ]
    document: dict[str, Any] = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"anchors.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": made},
    }
    with contextlib.suppress(Conflict):
        await cluster.create(CRDS, json.dumps(document).encode())
    try:
        yield
    finally:
        name = document["metadata"]["name"]

        async def gone() -> bool:
            try:
                await cluster.delete(CRDS, name)
            except NotFound:
                return True
            return False

        await until(gone, f"{name} stayed")
