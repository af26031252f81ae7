"""Admission for the CloudProfile family: what no schema can say, and what a Shoot leaves open.

Public: ``admission_steps``, the steps for ``restow.conversion.server.WebhookServer``, and ``webhook_configurations``,
the documents that have an API server ask them.
"""

from restow.cloudprofile.admission.webhooks import AdmissionSteps, admission_steps, webhook_configurations

__all__ = ["AdmissionSteps", "admission_steps", "webhook_configurations"]
