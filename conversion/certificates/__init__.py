"""Wiring: the part of a CRD that says by which webhook, and by which CA, its objects are converted; and the same of
the webhook configurations that say who admits them.

Public:
- ``wire``, ``unwire``: put a webhook into a CRD once it answers, take it out where that is safe;
- ``install``: have a webhook configuration say what it should, once its webhooks answer; ``stash_configuration``: that
  of the step that restores stashes, and ``stash_name`` its name;
- ``Wiring``, ``Url``, ``Service``, ``Bundle``: what to put there;
- ``probe``: one try of a webhook as an API server would call it;
- ``WiringError``, ``WiringRefused``, ``NotAnswering``: why nothing was written.
"""

from restow.conversion.certificates.apply import HookProbe, Probe, Wired, install, probe_hook, read_crd, unwire, wire
from restow.conversion.certificates.decide.clientconfig import (
    NO_BUNDLE,
    Address,
    Bundle,
    BundleError,
    Service,
    Url,
    address_of,
    client_config,
)
from restow.conversion.certificates.decide.configuration import (
    ConfigurationPlan,
    plan_configuration,
    stash_configuration,
    stash_name,
)
from restow.conversion.certificates.decide.crd import CrdWiringPlan, Wiring, bundle_of, injector_of, plan_wiring
from restow.conversion.certificates.probe import probe
from restow.conversion.errors import NotAnswering, WiringError, WiringRefused

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
    "Service",
    "Url",
    "Wired",
    "Wiring",
    "WiringError",
    "WiringRefused",
    "address_of",
    "bundle_of",
    "client_config",
    "injector_of",
    "install",
    "plan_configuration",
    "plan_wiring",
    "probe",
    "probe_hook",
    "read_crd",
    "stash_configuration",
    "stash_name",
    "unwire",
    "wire",
]
