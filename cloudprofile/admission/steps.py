"""All admission steps of the family by their names, as the webhook server mounts them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from restow.cloudprofile.admission import configurations as names
from restow.cloudprofile.admission.guard import Guarded
from restow.cloudprofile.admission.oldclients import WarnOldClient
from restow.cloudprofile.admission.profiles import ValidateCloudProfile, ValidateNamespacedCloudProfile
from restow.cloudprofile.admission.shoots import CompleteShoot, SyncShootReference, ValidateShoot
from restow.cloudprofile.admission.telling import Telling
from restow.cloudprofile.references import CLOUD_PROFILE, NAMESPACED_CLOUD_PROFILE
from restow.cloudprofile.resources import HUB, OLD, SHOOT
from restow.conversion import Graph
from restow.conversion.server import AdmissionStep, RestoreStash
from restow.crds import Crd
from restow.kube.cluster import Cluster

__all__ = ["Steps", "admission_steps"]


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps by name: ``validating`` ones at ``/admit/<name>``, ``mutating`` ones at ``/mutate/<name>``."""

    validating: Mapping[str, AdmissionStep]
    mutating: Mapping[str, AdmissionStep]


def admission_steps(
    cluster: Cluster, graph: Graph, crds: Iterable[Crd], now: Callable[[], datetime], *, tells_names: bool = False
) -> Steps:
    """Return the steps that ``webhook_configurations`` registers.

    Args:
        cluster: where to read profiles, Shoots and rights; needs get on cloudprofiles and namespacedcloudprofiles, list
            on namespacedcloudprofiles and shoots, and create on subjectaccessreviews.
        graph: the conversions of the family.
        crds: the CRDs of the family: by their schemas wrong types are refused before any rule reads them.
        now: the time.
        tells_names: whether refusals name Shoots and profiles of others; only for a server that asks its clients for
            certificates, else anybody could ask for these names.
    """
    crds = tuple(crds)
    schemas = {(crd.kind, version.name): version.schema for crd in crds for version in crd.versions}

    def guarded(step: AdmissionStep, kind: str, version: str = HUB) -> Guarded:
        return Guarded(step, kind, version, schemas.get((kind, version)))

    warning, telling = WarnOldClient(graph), Telling(names=tells_names)
    validating: dict[str, AdmissionStep] = {
        names.VALIDATE_CLOUD_PROFILE: guarded(ValidateCloudProfile(cluster, now, telling), CLOUD_PROFILE),
        names.VALIDATE_NAMESPACED_CLOUD_PROFILE: guarded(
            ValidateNamespacedCloudProfile(cluster, now, telling), NAMESPACED_CLOUD_PROFILE
        ),
        names.VALIDATE_SHOOT: guarded(ValidateShoot(cluster, now), SHOOT),
    }
    mutating: dict[str, AdmissionStep] = {
        names.OLD_CLOUD_PROFILE: guarded(warning, CLOUD_PROFILE, OLD),
        names.OLD_NAMESPACED_CLOUD_PROFILE: guarded(warning, NAMESPACED_CLOUD_PROFILE, OLD),
        names.RESTORE_STASH: RestoreStash(graph, crds),
        names.SYNC_SHOOT_REFERENCE: guarded(SyncShootReference(), SHOOT, OLD),
        names.COMPLETE_SHOOT: guarded(CompleteShoot(cluster, now), SHOOT),
    }
    return Steps(validating, mutating)
