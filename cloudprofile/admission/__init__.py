"""Admission for the CloudProfile family: the rules that no schema can express, and the defaults of Shoots.

Public: ``admission_steps`` returns the steps for ``restow.conversion.server.WebhookServer``, and
``webhook_configurations`` the documents by which an API server calls them.
"""

from restow.cloudprofile.admission.webhooks import admission_steps, webhook_configurations

__all__ = ["admission_steps", "webhook_configurations"]
