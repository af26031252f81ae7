"""All admission steps of the family by name, and the webhook configurations that register them.

Every step is registered at the hub version with matchPolicy Equivalent, so that the API server converts requests of all
versions for it. Only the steps for v1beta1 itself are registered there alone. failurePolicy is Fail: a request that no
step has seen is not admitted. But an update that does not change the spec does not even call the webhook
(matchConditions), and an update at the hub version, which cannot lose what v1beta1 hides, does not call the steps that
restore it. So migrations, finalizers and labels work while the operator is down. The order of the mutating webhooks
matters: an API server calls them as listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from restow.cloudprofile.admission.guard import GuardedStep, Responder
from restow.cloudprofile.admission.steps import (
    CompleteShoot,
    RestoreHidden,
    SyncCapabilities,
    SyncShootReference,
    ValidateCloudProfile,
    ValidateNamespacedCloudProfile,
    ValidateShoot,
    WarnOldClient,
)
from restow.cloudprofile.objects import CLOUD_PROFILE, GROUP, HUB, NAMESPACED_CLOUD_PROFILE, OLD, SHOOT, resource_of
from restow.conversion import Graph
from restow.conversion.certificates.wiring.documents import configuration_document, webhook_document, webhook_rule
from restow.conversion.server import AdmissionStep, RestoreStash
from restow.crds import Crd
from restow.kube.cluster import Cluster

VALIDATE_CLOUD_PROFILE: Final = "cloudprofiles"
VALIDATE_NAMESPACED_CLOUD_PROFILE: Final = "namespacedcloudprofiles"
VALIDATE_SHOOT: Final = "shoots"
RESTORE_STASH: Final = "conversion-stash"
OLD_CLOUD_PROFILE: Final = "cloudprofile-old-clients"
OLD_NAMESPACED_CLOUD_PROFILE: Final = "namespacedcloudprofile-old-clients"
HIDDEN_CLOUD_PROFILE: Final = "cloudprofile-hidden"
HIDDEN_NAMESPACED_CLOUD_PROFILE: Final = "namespacedcloudprofile-hidden"
SYNC_CAPABILITIES: Final = "cloudprofile-capabilities"
SYNC_SHOOT_REFERENCE: Final = "shoot-reference"
COMPLETE_SHOOT: Final = "shoot-defaults"

Endpoint = Callable[[str], Mapping[str, Any]]

_WRITES = ("CREATE", "UPDATE")
_CHANGES_SPEC = {
    "name": "changes-the-spec",
    "expression": (
        "request.operation == 'CREATE' || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec"
    ),
}
_FROM_ANOTHER_VERSION = {
    "name": "comes-from-another-version",
    "expression": f"request.requestKind.version != '{HUB}'",
}
_CHANGES_SPEC_FROM_ANOTHER_VERSION = (_FROM_ANOTHER_VERSION, _CHANGES_SPEC)


@dataclass(frozen=True, slots=True)
class _Webhook:
    """One webhook: its step, its kinds and the requests that it gets, which meet all conditions."""

    path: str
    name: str
    kinds: tuple[str, ...]
    version: str = HUB
    operations: tuple[str, ...] = _WRITES
    conditions: tuple[Mapping[str, str], ...] = (_CHANGES_SPEC,)

    def document(self, endpoint: Endpoint, seconds: int) -> dict[str, Any]:
        """Return the webhook as an entry of a configuration."""
        resources = map(resource_of, self.kinds)
        rules = [
            webhook_rule(GROUP, self.version, each.plural, self.operations, namespaced=each.namespaced)
            for each in resources
        ]
        return webhook_document(
            f"{self.name}.restow.{GROUP}",
            endpoint(f"{self.path}/{self.name}"),
            rules,
            match_policy="Equivalent" if self.version == HUB else "Exact",
            seconds=seconds,
            conditions=self.conditions,
        )


_FAMILY = (CLOUD_PROFILE, NAMESPACED_CLOUD_PROFILE, SHOOT)
_UPDATE = ("UPDATE",)
_VALIDATING = (
    _Webhook("/admit", VALIDATE_CLOUD_PROFILE, (CLOUD_PROFILE,)),
    _Webhook("/admit", VALIDATE_NAMESPACED_CLOUD_PROFILE, (NAMESPACED_CLOUD_PROFILE,)),
    _Webhook("/admit", VALIDATE_SHOOT, (SHOOT,)),
)
_MUTATING = (
    _Webhook("/mutate", OLD_CLOUD_PROFILE, (CLOUD_PROFILE,), OLD, _UPDATE),
    _Webhook("/mutate", OLD_NAMESPACED_CLOUD_PROFILE, (NAMESPACED_CLOUD_PROFILE,), OLD, _UPDATE),
    # A stash may hold more than the spec, and an update that loses it may change nothing else.
    _Webhook("/mutate", RESTORE_STASH, _FAMILY, HUB, _UPDATE, (_FROM_ANOTHER_VERSION,)),
    _Webhook("/mutate", HIDDEN_CLOUD_PROFILE, (CLOUD_PROFILE,), HUB, _UPDATE, _CHANGES_SPEC_FROM_ANOTHER_VERSION),
    _Webhook(
        "/mutate",
        HIDDEN_NAMESPACED_CLOUD_PROFILE,
        (NAMESPACED_CLOUD_PROFILE,),
        HUB,
        _UPDATE,
        _CHANGES_SPEC_FROM_ANOTHER_VERSION,
    ),
    _Webhook("/mutate", SYNC_CAPABILITIES, (CLOUD_PROFILE,)),
    _Webhook("/mutate", SYNC_SHOOT_REFERENCE, (SHOOT,), OLD),
    _Webhook("/mutate", COMPLETE_SHOOT, (SHOOT,)),
)


def webhook_configurations(
    name: str, endpoint: Endpoint, *, timeout_seconds: int = 10
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration.

    Args:
        name: of both objects.
        endpoint: gives the ``clientConfig`` of a path, with the CA bundle, as a Service or a URL.
        timeout_seconds: how long the API server waits, 1 to 30; the webhook server's own limit must be shorter.
    """
    mutating = [hook.document(endpoint, timeout_seconds) for hook in _MUTATING]
    validating = [hook.document(endpoint, timeout_seconds) for hook in _VALIDATING]
    return (
        configuration_document("MutatingWebhookConfiguration", name, mutating),
        configuration_document("ValidatingWebhookConfiguration", name, validating),
    )


@dataclass(frozen=True, slots=True)
class AdmissionSteps:
    """The steps by name: ``validating`` ones at ``/admit/<name>``, ``mutating`` ones at ``/mutate/<name>``."""

    validating: Mapping[str, AdmissionStep]
    mutating: Mapping[str, AdmissionStep]


def admission_steps(
    cluster: Cluster, graph: Graph, crds: Iterable[Crd], now: Callable[[], datetime], *, tells_names: bool = False
) -> AdmissionSteps:
    """Return the steps that ``webhook_configurations`` registers.

    Args:
        cluster: the API server, for profiles, Shoots and rights; needs get on cloudprofiles and
            namespacedcloudprofiles, list on namespacedcloudprofiles and shoots, and create on subjectaccessreviews.
        graph: the conversions of the family.
        crds: the CRDs of the family; values of a wrong type are refused by their schemas before any rule reads them.
        now: the time.
        tells_names: whether refusals name Shoots and profiles of others; only for a server that asks its clients for
            certificates, because otherwise any client could read these names.
    """
    crds = tuple(crds)
    schemas = {(crd.kind, version.name): version.schema for crd in crds for version in crd.versions}

    def guarded(step: AdmissionStep, kind: str, version: str = HUB) -> GuardedStep:
        return GuardedStep(step, kind, version, schemas.get((kind, version)))

    warning, hidden, responder = WarnOldClient(graph), RestoreHidden(graph, now), Responder(names=tells_names)
    validating: dict[str, AdmissionStep] = {
        VALIDATE_CLOUD_PROFILE: guarded(ValidateCloudProfile(cluster, graph, now, responder), CLOUD_PROFILE),
        VALIDATE_NAMESPACED_CLOUD_PROFILE: guarded(
            ValidateNamespacedCloudProfile(cluster, graph, now, responder), NAMESPACED_CLOUD_PROFILE
        ),
        VALIDATE_SHOOT: guarded(ValidateShoot(cluster, now), SHOOT),
    }
    mutating: dict[str, AdmissionStep] = {
        OLD_CLOUD_PROFILE: guarded(warning, CLOUD_PROFILE, OLD),
        OLD_NAMESPACED_CLOUD_PROFILE: guarded(warning, NAMESPACED_CLOUD_PROFILE, OLD),
        RESTORE_STASH: RestoreStash(graph, crds),
        HIDDEN_CLOUD_PROFILE: guarded(hidden, CLOUD_PROFILE),
        HIDDEN_NAMESPACED_CLOUD_PROFILE: guarded(hidden, NAMESPACED_CLOUD_PROFILE),
        SYNC_CAPABILITIES: guarded(SyncCapabilities(), CLOUD_PROFILE),
        SYNC_SHOOT_REFERENCE: guarded(SyncShootReference(), SHOOT, OLD),
        COMPLETE_SHOOT: guarded(CompleteShoot(cluster, now), SHOOT),
    }
    return AdmissionSteps(validating, mutating)
