"""The webhook configurations of the family's admission steps, as documents to be installed. Pure.

Every step is registered at the hub version with matchPolicy Equivalent, so that requests of all versions reach it,
converted; the two that are about v1beta1 itself, there alone. failurePolicy is Fail: what nobody has looked at is not
admitted. But an update that leaves the spec as it is does not even call the webhook (matchConditions), nor does any at
the hub version ask for a stash that it cannot have lost: migrations, finalizers and labels work while it is down.

The order of the mutating webhooks matters: an API server calls them as listed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from restow.cloudprofile.references import CLOUD_PROFILE, NAMESPACED_CLOUD_PROFILE
from restow.cloudprofile.resources import GROUP, HUB, OLD, SHOOT, resource_of

__all__ = [
    "COMPLETE_SHOOT",
    "OLD_CLOUD_PROFILE",
    "OLD_NAMESPACED_CLOUD_PROFILE",
    "RESTORE_STASH",
    "SYNC_SHOOT_REFERENCE",
    "VALIDATE_CLOUD_PROFILE",
    "VALIDATE_NAMESPACED_CLOUD_PROFILE",
    "VALIDATE_SHOOT",
    "webhook_configurations",
]

VALIDATE_CLOUD_PROFILE: Final = "cloudprofiles"
VALIDATE_NAMESPACED_CLOUD_PROFILE: Final = "namespacedcloudprofiles"
VALIDATE_SHOOT: Final = "shoots"
RESTORE_STASH: Final = "conversion-stash"
OLD_CLOUD_PROFILE: Final = "cloudprofile-old-clients"
OLD_NAMESPACED_CLOUD_PROFILE: Final = "namespacedcloudprofile-old-clients"
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


@dataclass(frozen=True, slots=True)
class _Hook:
    """One webhook: which step, for which kinds, on what."""

    path: str
    name: str
    kinds: tuple[str, ...]
    version: str = HUB
    operations: tuple[str, ...] = _WRITES
    condition: Mapping[str, str] = field(default_factory=lambda: _CHANGES_SPEC)

    def document(self, endpoint: Endpoint, seconds: int) -> dict[str, Any]:
        """Return it as it stands in a configuration."""
        rules = [
            {
                "apiGroups": [GROUP],
                "apiVersions": [self.version],
                "operations": list(self.operations),
                "resources": [resource_of(kind).plural],
                "scope": "Namespaced" if resource_of(kind).namespaced else "Cluster",
            }
            for kind in self.kinds
        ]
        return {
            "name": f"{self.name}.restow.{GROUP}",
            "clientConfig": dict(endpoint(f"{self.path}/{self.name}")),
            "rules": rules,
            "matchPolicy": "Equivalent" if self.version == HUB else "Exact",
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "timeoutSeconds": seconds,
            "admissionReviewVersions": ["v1"],
            "matchConditions": [dict(self.condition)],
        }


_FAMILY = (CLOUD_PROFILE, NAMESPACED_CLOUD_PROFILE, SHOOT)
_UPDATE = ("UPDATE",)
_VALIDATING = (
    _Hook("/admit", VALIDATE_CLOUD_PROFILE, (CLOUD_PROFILE,)),
    _Hook("/admit", VALIDATE_NAMESPACED_CLOUD_PROFILE, (NAMESPACED_CLOUD_PROFILE,)),
    _Hook("/admit", VALIDATE_SHOOT, (SHOOT,)),
)
_MUTATING = (
    _Hook("/mutate", OLD_CLOUD_PROFILE, (CLOUD_PROFILE,), OLD, _UPDATE),
    _Hook("/mutate", OLD_NAMESPACED_CLOUD_PROFILE, (NAMESPACED_CLOUD_PROFILE,), OLD, _UPDATE),
    # A lost stash may hold more than the spec, and shows in nothing else.
    _Hook("/mutate", RESTORE_STASH, _FAMILY, HUB, _UPDATE, _FROM_ANOTHER_VERSION),
    _Hook("/mutate", SYNC_SHOOT_REFERENCE, (SHOOT,), OLD),
    _Hook("/mutate", COMPLETE_SHOOT, (SHOOT,)),
)


def webhook_configurations(
    name: str, endpoint: Endpoint, *, timeout_seconds: int = 10
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration.

    Args:
        name: of both objects.
        endpoint: gives the ``clientConfig`` of a path, with the CA bundle, as a Service or a URL.
        timeout_seconds: what the API server waits, 1 to 30; the server's own limit has to be shorter.
    """
    mutating = [hook.document(endpoint, timeout_seconds) for hook in _MUTATING]
    validating = [hook.document(endpoint, timeout_seconds) for hook in _VALIDATING]
    return (
        _configuration("MutatingWebhookConfiguration", name, mutating),
        _configuration("ValidatingWebhookConfiguration", name, validating),
    )


def _configuration(kind: str, name: str, webhooks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": webhooks,
    }
