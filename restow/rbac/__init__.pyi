from .asked import Asked, Command
from .grants import Grant, ServiceAccount, manifests, plain, to_yaml
from .needs import FAMILY, grants

__all__ = ["FAMILY", "Asked", "Command", "Grant", "ServiceAccount", "grants", "manifests", "plain", "to_yaml"]
