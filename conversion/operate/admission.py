"""Admission of ``ConversionRules``: what cannot be right for any CRD is refused, with the place of each mistake.

Whether rules fit their CRD is no matter of admission: both may come from one chart, in any order. The gates find that.
The webhook's failure policy is Ignore, because the gates look at everything again, and because a finalizer must be
removable while no replica runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from restow.conversion.operate.analysis import listed, mistakes, target_of
from restow.conversion.operate.revisions import CONFIGURATION, CONVERSION_RULES
from restow.conversion.reviews.admission import AdmissionRequest, AdmissionResponse
from restow.conversion.server.timeslices import offload

__all__ = ["STEP", "admit_rules", "configuration"]

#: The name of the step.
STEP: Final = "conversionrules"

_SECONDS: Final = 10


async def admit_rules(request: AdmissionRequest) -> AdmissionResponse:
    """Refuse a document with mistakes; updates that leave the spec as it is, and deletions, pass."""
    if not request.has_object or request.keeps("spec"):
        return AdmissionResponse()
    return await offload(request.size, _judge, request)


def _judge(request: AdmissionRequest) -> AdmissionResponse:
    document = request.object or {}
    found = mistakes(document)
    if found:
        return AdmissionResponse(allowed=False, message=listed(found, "mistake"), code=422)
    old = request.old_object
    if old is not None and target_of(old) != target_of(document):
        message = "/spec/target: another target cannot be given to rules. Create another ConversionRules object for it."
        return AdmissionResponse(allowed=False, message=message, code=422)
    return AdmissionResponse()


def configuration(client_config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ValidatingWebhookConfiguration for a webhook at an address, without CA bundle."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": CONFIGURATION},
        "webhooks": [
            {
                "name": f"{CONVERSION_RULES.plural}.{CONVERSION_RULES.group}",
                "clientConfig": dict(client_config),
                "rules": [
                    {
                        "apiGroups": [CONVERSION_RULES.group],
                        "apiVersions": [CONVERSION_RULES.version],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": [CONVERSION_RULES.plural],
                        "scope": "Cluster",
                    }
                ],
                "matchPolicy": "Equivalent",
                "failurePolicy": "Ignore",
                "sideEffects": "None",
                "timeoutSeconds": _SECONDS,
                "admissionReviewVersions": ["v1"],
            }
        ],
    }
