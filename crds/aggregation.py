"""API groups that another API server serves, behind an APIService.

A CRD whose group an APIService hands to a Service adds versions to that group. Clients then prefer the CRD's version,
which shows none of the other server's objects, and the deletion of a namespace deletes none of them. Webhook
configurations for the group hold for the other server's objects too. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from restow.kube.resources import Object, Resource, qualified_name

API_SERVICES: Final = Resource("apiregistration.k8s.io", "v1", "apiservices", namespaced=False)


class GroupServedElsewhere(Exception):
    """Another API server serves the group of a CRD."""


def check_groups(crds: Iterable[Object], services: Iterable[Object]) -> None:
    """Refuse CRDs, or webhook configurations for them, if another API server serves the group, at whatever version.

    Args:
        crds: the documents of the CRDs.
        services: all APIServices; those of CRDs, and of the API server itself, have no Service.

    Raises:
        GroupServedElsewhere: an APIService of a group has a Service; the message names both.
    """
    groups = {crd["spec"]["group"]: crd["metadata"]["name"] for crd in crds}
    for each in services:
        group, service = each["spec"].get("group"), each["spec"].get("service")
        if service and group in groups:
            at = qualified_name(service.get("namespace"), service.get("name"))
            raise GroupServedElsewhere(
                f"nothing is installed for the CRD {groups[group]}: the APIService {each['metadata']['name']} hands "
                f"the group {group} to the Service {at}, another API server. The CRD would hide that server's objects, "
                "and deleted namespaces would leave them behind; admission would judge them. Use a cluster without "
                "that server; if it is gone for good, delete the APIService"
            )
