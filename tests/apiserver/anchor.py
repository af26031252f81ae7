"""A kind that keeps an API group: that a group comes or goes costs the API server seconds."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence

from restow.kube.client import HttpCluster
from restow.kube.errors import Conflict
from restow.kube.resources import CRDS


async def keep_group(cluster: HttpCluster, group: str, versions: Sequence[str]) -> None:
    """Have a kind in the group, at these versions, so that the group does not come and go with each test's kind."""
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
    document = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"anchors.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": made},
    }
    with contextlib.suppress(Conflict):
        await cluster.create(CRDS, json.dumps(document).encode())
