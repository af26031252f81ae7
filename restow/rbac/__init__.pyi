from .asked import Asked, Command
from .needs import FAMILY, grants
from .roles import Grant, ServiceAccount, manifests, plain, to_yaml

__all__ = ["FAMILY", "Asked", "Command", "Grant", "ServiceAccount", "grants", "manifests", "plain", "to_yaml"]
