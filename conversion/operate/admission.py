"""Admission of ``ConversionRules``: refuses rules that no CRD could fit, with the place of each mistake.

Admission does not check whether rules fit their CRD, because both may come from one chart, in any order; the gates
check this. The webhook's failure policy is Ignore, because the gates check everything again, and because a finalizer
must be removable while no replica runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from restow.conversion.certificates.wiring.documents import configuration_document, webhook_document, webhook_rule
from restow.conversion.operate.gates import listed, mistakes, target_of
from restow.conversion.operate.revisions import CONFIGURATION
from restow.conversion.reviews.admission import AdmissionRequest, AdmissionResponse
from restow.conversion.server.timeslices import offload
from restow.crds.conversionrules import CONVERSION_RULES

__all__ = ["STEP", "admit_rules", "configuration"]

#: The name of the step.
STEP: Final = "conversionrules"

_OPERATIONS: Final = ("CREATE", "UPDATE")


async def admit_rules(request: AdmissionRequest) -> AdmissionResponse:
    """Refuse a document with mistakes; updates that do not change the spec, and deletions, pass."""
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
    rule = webhook_rule(
        CONVERSION_RULES.group, CONVERSION_RULES.version, CONVERSION_RULES.plural, _OPERATIONS, namespaced=False
    )
    name = f"{CONVERSION_RULES.plural}.{CONVERSION_RULES.group}"
    webhook = webhook_document(name, client_config, [rule], failure_policy="Ignore")
    return configuration_document("ValidatingWebhookConfiguration", CONFIGURATION, [webhook])
