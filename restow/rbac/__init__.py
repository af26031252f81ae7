"""The minimal RBAC that each command needs, as data with a reason for every rule, and as manifests.

Public: ``Command``, ``Asked`` and ``grants`` (the rights), ``manifests`` and ``to_yaml`` (the Roles). The command
``restow rbac`` prints them; the tests of the Helm chart and of the commands' rights compare with them.

The rights are computed, because a static Role cannot express them. A rule names the group and the resource of the
objects and the name of the CRD, and RBAC has no variables. A Role for any CRD would grant ``patch`` on every resource
of the cluster. The rights also depend on the flags. For a single CRD the nine commands need 311 different sets of Roles
(``migrate`` 120, ``operator`` 118). A static Role for all flags of ``migrate`` would grant 18 rights where 9 suffice.
The table of rights, ``needs``, is data that tests check: they run each command with exactly these rights, and compare
the rights with the API server's audit log.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
