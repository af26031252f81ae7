"""The CRDs that a user names, as kubectl takes names: in full, or by plural, singular, kind or short name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from restow.crds import Crd
    from restow.kube import Cluster


async def read_crds(cluster: Cluster, names: Sequence[str] | None) -> list[Crd]:
    """Read the CRDs of the given names, or all CRDs of the cluster for None.

    Raises:
        MigrationRefused: a CRD does not exist, its name is ambiguous, or the user may not read it.
        KubeError: the API server cannot be reached.
    """
    from restow.migrator import read_crd
    from restow.migrator.requests.crdaccess import list_crds

    if names is None:
        return await list_crds(cluster)
    return [await read_crd(cluster, name) for name in await full_names(cluster, names)]


async def full_names(cluster: Cluster, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the CRDs, each once. Only a name without a group costs a request.

    Raises:
        MigrationRefused: a name without a group belongs to no CRD or to several, or the user may not list CRDs.
        KubeError: the API server cannot be reached.
    """
    if all("." in name for name in names):
        return tuple(dict.fromkeys(names))
    from restow.migrator.requests.crdaccess import list_crds

    crds = await list_crds(cluster)
    return tuple(dict.fromkeys(name if "." in name else _full_name(name, crds, cluster.host) for name in names))


def _full_name(name: str, crds: Sequence[Crd], host: str) -> str:
    from restow.kube.suggestions import did_you_mean
    from restow.migrator import MigrationRefused

    wanted = name.lower()
    found = [crd.name for crd in crds if wanted in (crd.plural, crd.singular, crd.kind.lower())]
    found = found or [crd.name for crd in crds if wanted in crd.short_names]
    if not found:
        advice = did_you_mean(name, [crd.name for crd in crds]) or "kubectl get crds shows the names"
        raise MigrationRefused(f"there is no CRD {name!r} on {host}: {advice}")
    if len(found) > 1:
        raise MigrationRefused(f"{name!r} is a name of {' and of '.join(found)}: give the full name")
    return found[0]
