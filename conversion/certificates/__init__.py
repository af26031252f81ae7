"""Connects webhooks to the cluster: addresses and CA bundles in CRDs and webhook configurations, and the CA itself.

A CRD names the webhook that converts its objects, and the CA bundle that verifies the webhook's certificate. A webhook
configuration does the same for admission. Writing both is called *wiring* here. ``restow.conversion.certificates.ca``
is the webhook's own certificate authority, for clusters without cert-manager.

Public:

- ``wire``, ``unwire``: add a webhook to a CRD once it answers, and remove it if that is safe; ``remove_server`` removes
  restow's objects for a server that no CRD calls any more; ``crds_of`` returns the CRDs that do, and ``obstacles`` who
  else does, or relies on its CA; ``names_server`` tells whether an address leads to a server;
- ``install``: install or update a webhook configuration once its webhooks answer; ``stash_configuration`` is the
  configuration of the step that restores stashes, and ``stash_name`` its name; ``refusal_configuration`` and
  ``refusal_name`` are those of the step that refuses writes of values that rules would keep;
- ``Wiring``, ``Url``, ``Service``, ``Bundle``: the address and the certificates to write;
- ``probe``: calls a webhook once as an API server would;
- ``WiringError``, ``WiringRefused``, ``NotAnswering``: the reasons why nothing was written.
"""

from restow.conversion.certificates.apply import HookProbe, Probe, Wired, install, probe_hook, read_crd, wire
from restow.conversion.certificates.callers import crds_of, obstacles
from restow.conversion.certificates.probe import probe
from restow.conversion.certificates.unwire import Removal, Unwired, remove_server, unwire
from restow.conversion.certificates.wiring.clientconfig import (
    NO_BUNDLE,
    Address,
    Bundle,
    BundleError,
    Service,
    Url,
    address_of,
    client_config,
    names_server,
)
from restow.conversion.certificates.wiring.configuration import (
    ConfigurationPlan,
    plan_configuration,
)
from restow.conversion.certificates.wiring.crd import CrdWiringPlan, Wiring, bundle_of, injector_of, plan_wiring
from restow.conversion.certificates.wiring.documents import (
    refusal_configuration,
    refusal_name,
    stash_configuration,
    stash_name,
)
from restow.conversion.model.errors import NotAnswering, WiringError, WiringRefused

__all__ = [
    "NO_BUNDLE",
    "Address",
    "Bundle",
    "BundleError",
    "ConfigurationPlan",
    "CrdWiringPlan",
    "HookProbe",
    "NotAnswering",
    "Probe",
    "Removal",
    "Service",
    "Unwired",
    "Url",
    "Wired",
    "Wiring",
    "WiringError",
    "WiringRefused",
    "address_of",
    "bundle_of",
    "client_config",
    "crds_of",
    "injector_of",
    "install",
    "names_server",
    "obstacles",
    "plan_configuration",
    "plan_wiring",
    "probe",
    "probe_hook",
    "read_crd",
    "refusal_configuration",
    "refusal_name",
    "remove_server",
    "stash_configuration",
    "stash_name",
    "unwire",
    "wire",
]
