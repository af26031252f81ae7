"""Take back what a move did to Helm releases: their manifests, from the Secrets that keep what they were.

Only manifest and hooks are taken back. Whatever Helm has written since, such as the status of the revision, stays.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import KubeError, NotFound
from restow.kube.resources import CONFIG_MAPS, Resource, qualified_name
from restow.kube.retry import jittered, with_retries
from restow.migrator.model.report import Requests
from restow.migrator.references.move import BACKUP_LABEL, MOVED, SECRETS
from restow.migrator.references.ownedwrites import OwnedWrites, WriteOutcome
from restow.migrator.references.readers.helm import RELEASE_TYPE, NoRelease
from restow.migrator.references.releases import StoredRelease
from restow.migrator.requests.lister import list_objects
from restow.migrator.requests.stop import RunStop
from restow.migrator.requests.wire import Meta, object_decoder, whole_object_decoder

__all__ = ["UndoReport", "undo_releases"]

_DRIVERS: Final[Mapping[str, Resource]] = {each.plural: each for each in (SECRETS, CONFIG_MAPS)}


@dataclass(slots=True)
class UndoReport:
    """What became of the releases that a move has changed.

    Attributes:
        undone: names of those that have their manifests back.
        failed: the others, each with a sentence.
    """

    undone: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of ``restow references --undo``."""
        return {"undone": self.undone, "failed": [{"name": name, "reason": why} for name, why in self.failed.items()]}


async def undo_releases(cluster: Cluster, crd: Crd, version: str) -> UndoReport:
    """Give Helm releases the manifests that they had before ``move_references``, and delete what kept them.

    Args:
        cluster: the API server.
        crd: the CRD.
        version: the version that the releases named.

    Raises:
        ListFailed: the Secrets cannot be listed.
        KubeError: the API server cannot be reached.
    """
    report, chance = UndoReport(), random.Random()
    pages = list_objects(
        cluster,
        SECRETS,
        page_size=20,
        requests=Requests(),
        stop=RunStop(),
        jitter=lambda seconds: jittered(seconds, chance),
        selector=",".join(f"{name}={value}" for name, value in BACKUP_LABEL.items()),
        whole=True,
    )
    async for page in pages:
        for meta, kept in page.items:
            annotations = (kept or {}).get("metadata", {}).get("annotations") or {}
            if kept is None or annotations.get(MOVED) != f"{crd.name} {version}":
                continue
            name = qualified_name(meta.namespace, meta.name)
            try:
                why = await _undo(cluster, meta, kept)
            except (KubeError, NoRelease) as error:
                why = str(error)
            if why:
                report.failed[name] = why
            else:
                report.undone.append(name)
    return report


async def _undo(cluster: Cluster, meta: Meta, kept: Mapping[str, Any]) -> str:
    """Undo one; return why that is not possible."""
    client = with_retries(cluster)
    data = {name: base64.b64decode(value) for name, value in kept["data"].items()}
    driver, name = data["resource"].decode(), data["name"].decode()
    resource = _DRIVERS[driver]
    if driver == SECRETS.plural:
        before = StoredRelease({"type": RELEASE_TYPE, "data": {"release": kept["data"]["release"]}})
    else:
        before = StoredRelease({"data": {"release": data["release"].decode()}})
    try:
        reply = await client.get(resource, name, meta.namespace)
    except NotFound:
        reply = None  # uninstalled since
    if reply is not None:
        content: dict[str, Any] = reply.decode(whole_object_decoder)
        now = reply.decode(object_decoder).metadata
        if now.uid != data["uid"].decode():
            return "the release is another one of the same name now; delete this Secret if you do not need it"
        changes = {"/data/release": StoredRelease(content).with_texts(before.texts)}
        outcome = await OwnedWrites(client).change(resource, now, changes, ["f:data", "f:release"])
        if outcome is not WriteOutcome.WRITTEN:
            return f"{outcome.value}; run again"
    options = msgspec.json.encode({"preconditions": {"uid": meta.uid}})
    await client.delete(SECRETS, meta.name, meta.namespace, body=options)
    return ""
