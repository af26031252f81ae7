"""Connects webhooks to the cluster: addresses and CA bundles in CRDs and webhook configurations, and the CA itself.

A CRD names the webhook that converts its objects, and the CA bundle that verifies the webhook's certificate. A webhook
configuration does the same for admission. Writing both is called *wiring* here. ``restow.conversion.certificates.ca``
is the webhook's own certificate authority, for clusters without cert-manager.

Public:

- ``wire``, ``unwire``: add a webhook to a CRD once it answers, and remove it if that is safe;
- ``Wiring``, ``Url``, ``Service``, ``Bundle``: the address and the certificates to write;
- ``WiringRefused``, ``NotAnswering``: the reasons why nothing was written.
"""

from restow.conversion.certificates.apply import wire
from restow.conversion.certificates.unwire import unwire
from restow.conversion.certificates.wiring.clientconfig import Bundle, Service, Url
from restow.conversion.certificates.wiring.crd import Wiring
from restow.conversion.model.errors import NotAnswering, WiringRefused

__all__ = [
    "Bundle",
    "NotAnswering",
    "Service",
    "Url",
    "Wiring",
    "WiringRefused",
    "unwire",
    "wire",
]
