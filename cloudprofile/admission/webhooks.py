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
    ValidateCloudProfile,
    ValidateNamespacedCloudProfile,
    ValidateShoot,
    WarnOldClient,
    sync_capabilities,
    sync_shoot_reference,
)
from restow.cloudprofile.objects import CLOUD_PROFILE, GROUP, HUB, NAMESPACED_CLOUD_PROFILE, OLD, RESOURCES, SHOOT
from restow.conversion import Graph
from restow.conversion.certificates.wiring.documents import configuration_document, webhook_document, webhook_rule
from restow.conversion.server import AdmissionStep, RestoreStash
from restow.crds import Crd
from restow.kube.cluster import Cluster

Endpoint = Callable[[str], Mapping[str, Any]]

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


@dataclass(frozen=True, slots=True)
class _Needs:
    """What the steps are made of."""

    cluster: Cluster
    graph: Graph
    crds: tuple[Crd, ...]
    now: Callable[[], datetime]
    responder: Responder


@dataclass(frozen=True, slots=True)
class _Webhook:
    """One webhook: its kinds, its step and the requests that it gets, which meet all conditions."""

    kinds: tuple[str, ...]
    make: Callable[[_Needs], AdmissionStep]
    version: str = HUB
    operations: tuple[str, ...] = ("CREATE", "UPDATE")
    conditions: tuple[Mapping[str, str], ...] = (_CHANGES_SPEC,)

    def document(self, path: str, name: str, endpoint: Endpoint, seconds: int) -> dict[str, Any]:
        """Return the webhook as an entry of a configuration."""
        rules = [
            webhook_rule(GROUP, self.version, each.plural, self.operations, namespaced=each.namespaced)
            for each in (RESOURCES[kind] for kind in self.kinds)
        ]
        return webhook_document(
            f"{name}.restow.{GROUP}",
            endpoint(f"{path}/{name}"),
            rules,
            match_policy="Equivalent" if self.version == HUB else "Exact",
            seconds=seconds,
            conditions=self.conditions,
        )

    def step(self, needs: _Needs) -> AdmissionStep:
        """Return the step, behind a guard if it is for one kind."""
        step = self.make(needs)
        if len(self.kinds) > 1:
            return step
        schemas = {(crd.kind, version.name): version.schema for crd in needs.crds for version in crd.versions}
        return GuardedStep(step, self.kinds[0], self.version, schemas.get((self.kinds[0], self.version)))


_UPDATE = ("UPDATE",)
_VALIDATING: Final = {
    "cloudprofiles": _Webhook(
        (CLOUD_PROFILE,),
        lambda needs: ValidateCloudProfile(needs.cluster, needs.graph, needs.now, needs.responder),
    ),
    "namespacedcloudprofiles": _Webhook(
        (NAMESPACED_CLOUD_PROFILE,),
        lambda needs: ValidateNamespacedCloudProfile(needs.cluster, needs.graph, needs.now, needs.responder),
    ),
    "shoots": _Webhook((SHOOT,), lambda needs: ValidateShoot(needs.cluster, needs.now)),
}


def _warning(kind: str) -> _Webhook:
    return _Webhook((kind,), lambda needs: WarnOldClient(needs.graph), OLD, _UPDATE)


def _restoring(kind: str) -> _Webhook:
    conditions = (_FROM_ANOTHER_VERSION, _CHANGES_SPEC)
    return _Webhook((kind,), lambda needs: RestoreHidden(needs.graph, needs.now), HUB, _UPDATE, conditions)


_MUTATING: Final = {
    "cloudprofile-old-clients": _warning(CLOUD_PROFILE),
    "namespacedcloudprofile-old-clients": _warning(NAMESPACED_CLOUD_PROFILE),
    # A stash may hold more than the spec, and an update that loses it may change nothing else.
    "conversion-stash": _Webhook(
        (CLOUD_PROFILE, NAMESPACED_CLOUD_PROFILE, SHOOT),
        lambda needs: RestoreStash(needs.graph, needs.crds),
        HUB,
        _UPDATE,
        (_FROM_ANOTHER_VERSION,),
    ),
    "cloudprofile-hidden": _restoring(CLOUD_PROFILE),
    "namespacedcloudprofile-hidden": _restoring(NAMESPACED_CLOUD_PROFILE),
    "cloudprofile-capabilities": _Webhook((CLOUD_PROFILE,), lambda _: sync_capabilities),
    "shoot-reference": _Webhook((SHOOT,), lambda _: sync_shoot_reference, OLD),
    "shoot-defaults": _Webhook((SHOOT,), lambda needs: CompleteShoot(needs.cluster, needs.now)),
}


def webhook_configurations(
    name: str, endpoint: Endpoint, *, timeout_seconds: int = 10
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration.

    Args:
        name: of both objects.
        endpoint: gives the ``clientConfig`` of a path, with the CA bundle, as a Service or a URL.
        timeout_seconds: how long the API server waits, 1 to 30; the webhook server's own limit must be shorter.
    """
    mutating = [hook.document("/mutate", key, endpoint, timeout_seconds) for key, hook in _MUTATING.items()]
    validating = [hook.document("/admit", key, endpoint, timeout_seconds) for key, hook in _VALIDATING.items()]
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
    needs = _Needs(cluster, graph, tuple(crds), now, Responder(names=tells_names))
    return AdmissionSteps(
        {name: hook.step(needs) for name, hook in _VALIDATING.items()},
        {name: hook.step(needs) for name, hook in _MUTATING.items()},
    )
