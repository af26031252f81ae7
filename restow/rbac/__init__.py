"""The least RBAC that each command needs, as data with a reason for every rule, and as manifests.

Public: ``Command``, ``Asked`` and ``grants`` (what is needed), ``manifests`` and ``to_yaml`` (Roles of that). The
command ``restow rbac`` prints them; the tests of the Helm chart and of the commands' rights compare with them.

The rights are computed, since a static Role cannot give them. A rule names the group and the resource of the objects
and the name of the CRD, which RBAC cannot fill in; a Role for any CRD would grant ``patch`` on every resource of the
cluster. The flags matter as well: for a single CRD the nine commands need 311 different sets of Roles (``migrate`` 120,
``operator`` 118), and a static Role for all flags of ``migrate`` would grant 18 rights where 9 do. The table of rights,
``needs``, is data that tests check: they run each command with exactly these rights, and compare them with the API
server's audit log.
"""

from restow.rbac.asked import Asked, Command
from restow.rbac.documents import ServiceAccount, manifests, plain, to_yaml
from restow.rbac.grants import Grant
from restow.rbac.needs import FAMILY, grants

__all__ = ["FAMILY", "Asked", "Command", "Grant", "ServiceAccount", "grants", "manifests", "plain", "to_yaml"]
