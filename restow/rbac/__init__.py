"""The least RBAC that each command needs, as data with a reason for every rule, and as manifests.

Public: `Command`, `Asked` and `grants` (what is needed), `manifests` and `to_yaml` (Roles of that). The command
`restow rbac` prints them; the tests of the Helm chart and of the commands' rights compare with them.
"""

from restow.rbac.asked import Asked, Command
from restow.rbac.documents import ServiceAccount, manifests, plain, to_yaml
from restow.rbac.grants import Grant
from restow.rbac.needs import FAMILY, grants

__all__ = ["FAMILY", "Asked", "Command", "Grant", "ServiceAccount", "grants", "manifests", "plain", "to_yaml"]
