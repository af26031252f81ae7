"""A webhook's own certificate authority, for clusters without cert-manager.

Public:
- ``Certificates``: keeps CA, serving certificate and CRD bundles, in every replica alike; ``service_hosts``;
- ``Lifetimes``: how long things live; ``CertificateDetails``: where they stand, for metrics and readiness;
- ``CertificateError``: what is stored cannot be used.

Needs ``cryptography`` (restow[operator]).
"""

from restow.conversion.certificates.ca.authority import CertificateError
from restow.conversion.certificates.ca.manager import CertificateDetails, Certificates, service_hosts
from restow.conversion.certificates.ca.rotation import Lifetimes, RotationStep

__all__ = ["CertificateDetails", "CertificateError", "Certificates", "Lifetimes", "RotationStep", "service_hosts"]
