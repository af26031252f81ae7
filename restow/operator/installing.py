"""Applies the CRDs, for a platform team that leaves them to the operator."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from restow.crds import Crd
from restow.kube import Cluster, PatchType
from restow.kube.resources import CRDS

__all__ = ["install_crds"]

_log = logging.getLogger(__name__)

_MANAGER: Final = "restow-operator"
_LOOK_EVERY: Final = 0.2  # seconds
_PATIENCE: Final = 30.0  # seconds


async def install_crds(cluster: Cluster, manifests: Iterable[Mapping[str, Any]]) -> None:
    """Apply CRDs (server-side, not forced) and wait until they are served.

    Raises:
        Conflict: somebody else applies one with other values; the message names the fields.
        KubeError: the API server cannot be asked, or refuses.
        TimeoutError: they are not served in time.
    """
    names = []
    for manifest in manifests:
        name = manifest["metadata"]["name"]
        body, params = msgspec.json.encode(manifest), {"fieldManager": _MANAGER}
        await cluster.patch(CRDS, name, body, patch_type=PatchType.APPLY, params=params)
        names.append(name)
    try:
        async with asyncio.timeout(_PATIENCE):
            for name in names:
                await _established(cluster, name)
    except TimeoutError as error:
        told = (
            f"the CRDs {', '.join(names)} were applied, but not all are served after {_PATIENCE:g} s: see their status"
        )
        raise TimeoutError(told) from error
    _log.info("applied the CRDs %s", ", ".join(names))


async def _established(cluster: Cluster, name: str) -> None:
    """Wait until a CRD is served."""
    while True:
        condition = Crd.from_document((await cluster.get(CRDS, name)).json()).conditions.get("Established")
        if condition is not None and condition.status is True:
            return
        await asyncio.sleep(_LOOK_EVERY)
