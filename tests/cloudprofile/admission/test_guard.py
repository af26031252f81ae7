"""The guard of the admission steps while an API server fills a watch cache."""

from __future__ import annotations

import pytest

from restow.cloudprofile.admission.guard import ALLOWED, GuardedStep
from restow.conversion.reviews.admission import (
    AdmissionRequest,
    AdmissionResponse,
    GroupVersionKind,
    GroupVersionResource,
)
from restow.kube.errors import TooManyRequests

GROUP = "core.gardener.cloud"


@pytest.mark.parametrize(
    ("message", "times", "allowed", "asked"),
    [
        ("storage is (re)initializing", 2, True, 3),
        ("storage is (re)initializing", 9, False, 3),
        ("please wait", 1, False, 1),
    ],
)
async def test_a_cache_that_is_refilled_is_waited_for(message: str, times: int, allowed: bool, asked: int) -> None:
    """While the server fills its caches after a new CA bundle, clients' writes would be refused."""
    calls = 0

    async def step(_request: AdmissionRequest, /) -> AdmissionResponse:
        nonlocal calls
        calls += 1
        if calls <= times:
            raise TooManyRequests(status=429, verb="list", target=f"shoots.{GROUP}", message=message)
        return ALLOWED

    request = AdmissionRequest(
        uid="u",
        kind=GroupVersionKind(GROUP, "v1beta2", "CloudProfile"),
        resource=GroupVersionResource(GROUP, "v1beta2", "cloudprofiles"),
        operation="CREATE",
        object={"metadata": {"name": "a"}},
    )
    verdict = await GuardedStep(step, "CloudProfile", "v1beta2", pauses=(0.0, 0.0))(request)
    assert (verdict.allowed, calls) == (allowed, asked)
    assert allowed or "try again" in verdict.message
