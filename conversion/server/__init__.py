"""The conversion and admission webhook: serves a frozen graph over HTTPS. docs/serving.md explains how to run it.

Public:

- ``WebhookServer``, ``ServerPhase``, ``Limits``, ``conversions_by_crd``: the server, its limits, and its conversions;
- ``AdmissionStep``, ``RestoreStash``, ``RefuseKept``: admission on the same server, mounted at ``/admit/<name>`` and
  ``/mutate/<name>``;
- ``KeptEvents``: Events on objects with values that rules could not convert, and kept;
- ``ServingCertificate``, ``BadCertificate``: TLS from files that may be replaced while the server runs; ``Clients``:
  which requests need a client certificate;
- ``bind``, ``run_alone``: serve in this process.
"""

from restow.conversion.server.admission import AdmissionStep, RefuseKept, RestoreStash
from restow.conversion.server.conversion import conversions_by_crd
from restow.conversion.server.failures import KeptEvents
from restow.conversion.server.limits import Limits
from restow.conversion.server.run import bind, run_alone
from restow.conversion.server.tls import BadCertificate, Clients, ServingCertificate
from restow.conversion.server.webhook import ServerPhase, WebhookServer

__all__ = [
    "AdmissionStep",
    "BadCertificate",
    "Clients",
    "KeptEvents",
    "Limits",
    "RefuseKept",
    "RestoreStash",
    "ServerPhase",
    "ServingCertificate",
    "WebhookServer",
    "bind",
    "conversions_by_crd",
    "run_alone",
]
