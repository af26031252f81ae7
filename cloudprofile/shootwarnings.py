"""What a Shoot's owner is warned of: versions in use that are at the end of their life, or have expired. Pure.

Versioning policy: a deprecated version still works, and its owner is to know when it will not. A request that leaves
the spec as it was warns of nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

from restow.cloudprofile.findings import Caution
from restow.cloudprofile.imagefit import find_image_version
from restow.cloudprofile.lifecycle import Classification, stages
from restow.cloudprofile.parts import Object, by_version, is_deleting, kubernetes_versions, spec_of, workers
from restow.cloudprofile.tolerant import classification_of

__all__ = ["shoot_cautions"]


def shoot_cautions(shoot: Object, old: Object | None, offer: Object, now: datetime) -> tuple[Caution, ...]:
    """Return what to warn of in a Shoot.

    Args:
        shoot: as requested, defaulted.
        old: the Shoot before an update, None on create.
        offer: the CloudProfile spec that holds for it.
        now: the time at which versions are looked at.
    """
    if is_deleting(shoot) or (old is not None and spec_of(shoot) == spec_of(old)):
        return ()
    return tuple(_cautions(shoot, offer, now))


def _cautions(shoot: Object, offer: Object, now: datetime) -> Iterator[Caution]:
    listed = by_version(kubernetes_versions(offer))
    places = [("spec", spec_of(shoot))]
    places += [(f"spec.provider.workers[{index}]", worker) for index, worker in enumerate(workers(shoot))]
    for path, place in places:
        version = (place.get("kubernetes") or {}).get("version") or ""
        yield from _about(f"{path}.kubernetes.version", f"Kubernetes version {version}", listed.get(version), now)
    for path, worker in places[1:]:
        image = (worker.get("machine") or {}).get("image") or {}
        name, version = image.get("name") or "", image.get("version") or ""
        found = find_image_version(offer, name, version)
        yield from _about(f"{path}.machine.image.version", f"machine image {name} {version}", found, now)


def _about(path: str, what: str, version: Object | None, now: datetime) -> Iterator[Caution]:
    classification = None if version is None else classification_of(version, now)
    if version is None or classification is None:
        return
    if classification == Classification.DEPRECATED:
        ends = [stage.start for stage in stages(version) if stage.classification == Classification.EXPIRED]
        end = f" and expires {json.dumps(ends[0].isoformat())}" if ends and ends[0] else ""
        yield Caution(path, f"{what} is deprecated{end}")
    elif classification == Classification.EXPIRED:
        yield Caution(path, f"{what} has expired and is updated in the next maintenance")
    elif classification == Classification.PREVIEW:
        yield Caution(path, f"{what} is a preview and not meant for production")
