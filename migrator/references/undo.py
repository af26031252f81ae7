"""Undo the moves of Helm releases: restore their manifests from the Secrets with the previous ones.

The module restores only manifest and hooks. Later writes of Helm, such as the status of the revision, stay.
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

_DRIVERS: Final[Mapping[str, Resource]] = {each.plural: each for each in (SECRETS, CONFIG_MAPS)}


@dataclass(slots=True)
class UndoReport:
    """The results for the releases that a move changed.

    Attributes:
        undone: the names of the releases with restored manifests.
        failed: the other releases, each with a sentence.
    """

    undone: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of ``restow references --undo``."""
        return {"undone": self.undone, "failed": [{"name": name, "reason": why} for name, why in self.failed.items()]}


async def undo_releases(cluster: Cluster, crd: Crd, version: str) -> UndoReport:
    """Restore the manifests of Helm releases from before ``move_references``, and delete the backups.

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
    """Undo the move of one release; return why this is not possible, or an empty text."""
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
        reply = None  # the release was uninstalled
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
