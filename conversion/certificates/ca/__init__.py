"""A webhook's own certificate authority (CA), for clusters without cert-manager.

Every replica runs the same code and needs no leader. The CA and the serving certificate are stored in two Secrets. The
CA bundle is wired into CRDs and webhook configurations, and rotated before it ends. ``rotation`` decides the next step,
``manager`` takes it.

Public:

- ``MountedCertificates``: the same wiring for certificates that another tool keeps in files, as cert-manager does;
- ``Certificates``: keeps the CA, the serving certificate and the bundles;
- ``CertificateKeeper``: the common base of both, and ``KeeperOptions``, what both take;
- ``Lifetimes``: validity and renewal times; ``CertificateDetails``: the state after one look, for metrics and
  readiness;
- ``RotationStep``: a change of the stored certificates;
- ``CertificateError``: a stored certificate or key cannot be read, or belongs to something else.

Needs ``cryptography`` (restow[operator]).
"""

from restow.conversion.certificates.ca.authority import CertificateError
from restow.conversion.certificates.ca.keeper import CertificateDetails, CertificateKeeper, KeeperOptions
from restow.conversion.certificates.ca.manager import Certificates
from restow.conversion.certificates.ca.mounted import MountedCertificates
from restow.conversion.certificates.ca.rotation import Lifetimes, RotationStep

__all__ = [
    "CertificateDetails",
    "CertificateError",
    "CertificateKeeper",
    "Certificates",
    "KeeperOptions",
    "Lifetimes",
    "MountedCertificates",
    "RotationStep",
]
