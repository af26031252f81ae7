"""The conversion and admission webhook: HTTPS over a frozen graph. docs/serving.md tells how to run it.

Public:

- ``Webhook``, ``Phase``, ``Limits``, ``conversions_by_crd``: what is served, and what is allowed;
- ``AdmissionStep``, ``RestoreStash``: admission on the same server, mounted at ``/admit/<name>`` and
  ``/mutate/<name>``;
- ``ServingCertificate``, ``BadCertificate``: TLS from files, replaced while serving; ``Clients``: who has to show one
  too;
- ``bind``, ``run_alone``: serve in this process.
"""

from restow.conversion.server.admitting import AdmissionStep, RestoreStash
from restow.conversion.server.clients import Clients
from restow.conversion.server.limits import Limits
from restow.conversion.server.routing import conversions_by_crd
from restow.conversion.server.running import run_alone
from restow.conversion.server.serving import bind
from restow.conversion.server.tls import BadCertificate, ServingCertificate
from restow.conversion.server.webhook import Phase, Webhook

__all__ = [
    "AdmissionStep",
    "BadCertificate",
    "Clients",
    "Limits",
    "Phase",
    "RestoreStash",
    "ServingCertificate",
    "Webhook",
    "bind",
    "conversions_by_crd",
    "run_alone",
]
