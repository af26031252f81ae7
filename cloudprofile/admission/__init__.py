"""Admission for the CloudProfile family: what no schema can say, and what a Shoot leaves open.

Public: ``admission_steps``, the steps for ``restow.conversion.server.Webhook``, and ``webhook_configurations``, the
documents that have an API server ask them.
"""

from restow.cloudprofile.admission.configurations import webhook_configurations
from restow.cloudprofile.admission.steps import Steps, admission_steps

__all__ = ["Steps", "admission_steps", "webhook_configurations"]
