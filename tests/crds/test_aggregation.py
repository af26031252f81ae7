"""Groups that another API server serves: no CRD may be added to them."""

from __future__ import annotations

from typing import Any

import pytest

from restow.crds import cloudprofiles, conversionrules
from restow.crds.aggregation import GroupServedElsewhere, check_groups

CRDS = (*cloudprofiles.documents().values(), conversionrules.document())
GARDENER = {"namespace": "garden", "name": "gardener-apiserver"}


def api_service(name: str, service: dict[str, str] | None = None) -> dict[str, Any]:
    """An APIService as an API server lists it."""
    version, _, group = name.partition(".")
    spec = {"group": group, "version": version} | ({} if service is None else {"service": service})
    return {"metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize("name", ["v1beta1.core.gardener.cloud", "v1.core.gardener.cloud", "v1.restow.dev"])
def test_a_group_of_another_server_is_refused(name: str) -> None:
    """A version that the CRD does not serve hides that server's objects too, since clients prefer one version."""
    with pytest.raises(GroupServedElsewhere) as refused:
        check_groups(CRDS, [api_service("v1.apps"), api_service(name, GARDENER)])
    told = str(refused.value)
    assert f"APIService {name}" in told and "Service garden/gardener-apiserver" in told


def test_other_groups_and_crds_are_no_obstacle() -> None:
    """Each cluster has an APIService for metrics, and one of no Service for each version of a CRD."""
    local = [api_service(f"v1beta{number}.core.gardener.cloud") for number in (1, 2)]
    check_groups(CRDS, [*local, api_service("v1beta1.metrics.k8s.io", {"namespace": "kube-system", "name": "metrics"})])
