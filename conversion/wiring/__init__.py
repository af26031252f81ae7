"""Wiring: the part of a CRD that says by which webhook, and by which CA, its objects are converted; and the same of
the webhook configurations that say who admits them.

Public:
- ``wire``, ``unwire``: put a webhook into a CRD once it answers, take it out where that is safe;
- ``install``: have a webhook configuration say what it should, once its webhooks answer; ``stash_configuration``: that
  of the step that restores stashes, and ``stash_name`` its name;
- ``Wiring``, ``Url``, ``Service``, ``Bundle``: what to put there;
- ``probe``: one try of a webhook as an API server would call it;
- ``WiringError``, ``Refused``, ``NotAnswering``: why nothing was written.
"""

from restow.conversion.wiring.address import Address, Service, Url, address_of, client_config
from restow.conversion.wiring.bundle import NO_BUNDLE, Bundle, BundleError
from restow.conversion.wiring.configuration import ConfigurationPlan, plan_configuration
from restow.conversion.wiring.errors import NotAnswering, Refused, WiringError
from restow.conversion.wiring.installing import HookProbe, install, probe_hook
from restow.conversion.wiring.plan import Plan, Wiring, bundle_of, injector_of, plan_wiring
from restow.conversion.wiring.probe import probe
from restow.conversion.wiring.stashing import stash_configuration, stash_name
from restow.conversion.wiring.wire import Probe, Wired, read_crd, unwire, wire

__all__ = [
    "NO_BUNDLE",
    "Address",
    "Bundle",
    "BundleError",
    "ConfigurationPlan",
    "HookProbe",
    "NotAnswering",
    "Plan",
    "Probe",
    "Refused",
    "Service",
    "Url",
    "Wired",
    "Wiring",
    "WiringError",
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
