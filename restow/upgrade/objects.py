"""The verdict on stored objects: each CRD's upgrade is rehearsed with them, and their clients are named."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence

from restow.cli.exits import InputError
from restow.cli.registries import ConversionSource
from restow.controlplane import BinariesUnavailableError, ControlPlane, ProcessError
from restow.conversion import DefinitionError, Graph
from restow.crds import Crd
from restow.crds.composites import is_composite
from restow.kube import connect
from restow.kube.cluster import Cluster
from restow.kube.errors import KubeError
from restow.kube.resources import Object
from restow.upgrade.clients import client_findings
from restow.upgrade.rehearsal import Upgrade, rehearse
from restow.upgrade.schemas import Judged, UpgradeVerdict, joined


async def judge_objects(
    judged: Judged,
    sides: tuple[Mapping[str, Crd], Mapping[str, Crd]],
    source: ConversionSource | None,
    objects: Mapping[str, Sequence[Object]],
) -> UpgradeVerdict:
    """Add to the verdict on schemas what happens to stored objects.

    Raises:
        InputError: no control plane can be started on this machine.
    """
    old, new = sides
    upgrades = [
        Upgrade(old[name], new[name], _graph(source, old[name], new[name]), objects[name])
        for name in judged
        if name in old and name in new and objects.get(name) and not is_composite(new[name])
    ]
    if not upgrades:
        return UpgradeVerdict(judged, due=False)
    logging.getLogger("restow.conversion.server").setLevel(logging.ERROR)  # its failures are findings
    try:
        async with ControlPlane() as plane, connect(plane.kubeconfig) as cluster:
            return await judge_upgrades(plane, cluster, judged, upgrades)
    except (BinariesUnavailableError, ProcessError, KubeError) as error:
        raise InputError(f"objects cannot be tried: {error}") from error


async def judge_upgrades(
    plane: ControlPlane, cluster: Cluster, judged: Judged, upgrades: Iterable[Upgrade]
) -> UpgradeVerdict:
    """Add what happens to stored objects, on a control plane that has none of these CRDs."""
    found, due = dict(judged), False
    for each in upgrades:
        rehearsed = await rehearse(plane, cluster, each)
        clients = client_findings(each.old, each.new, judged[each.new.name], each.objects)
        found[each.new.name] = (*judged[each.new.name], *clients, *rehearsed.findings)
        due = due or rehearsed.due
    return UpgradeVerdict(found, due)


def _graph(source: ConversionSource | None, old: Crd, new: Crd) -> Graph | None:
    """Return the conversions of a CRD; none if there are none, or if they are wrong, which the schema verdict says."""
    if source is None or (new.group, new.kind) not in source.graph().kinds:
        return None
    try:
        return source.graph([joined(old, new)])
    except InputError as error:
        if isinstance(error.__cause__, DefinitionError):
            return None
        raise
