"""At most one supported version of a minor, at both versions, now and later."""

from __future__ import annotations

import copy
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.cloudprofile.findings import FindingType
from restow.cloudprofile.validation.versions import supported_once
from restow.cloudprofile.versions.lifecycle import Classification, classification_at, parse_time
from tests.cloudprofile.served import GROUP, HUB, OLD, Answer, ApiServer
from tests.cloudprofile.strategies import lifecycles, moments

NOW = parse_time("2025-03-01T00:00:00Z")
FUTURE, LATER = "2030-01-01T00:00:00Z", "2031-01-01T00:00:00Z"
SUPPORTED = {"classification": "supported"}


def profile(at: str, *versions: dict[str, Any], images: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    """Return a complete CloudProfile at a version of the API."""
    return {
        "apiVersion": f"{GROUP}/{at}",
        "kind": "CloudProfile",
        "metadata": {"name": "a"},
        "spec": {
            "type": "local",
            "regions": [{"name": "here"}],
            "machineTypes": [{"name": "t", "cpu": "1", "gpu": "0", "memory": "1Gi"}],
            "machineImages": [{"name": "ubuntu", "versions": list(images or ({"version": "1.0.0"},))}],
            "kubernetes": {"versions": list(versions or ({"version": "1.31.0"},))},
        },
    }


def stages(number: str, *listed: tuple[str, str | None]) -> dict[str, Any]:
    return {
        "version": number,
        "lifecycle": [{"classification": name} | ({"startTime": start} if start else {}) for name, start in listed],
    }


def refused(answer: Answer) -> list[str]:
    assert {each.type for each in answer.findings} <= {FindingType.FORBIDDEN}, answer.refusal
    return [each.field for each in answer.findings]


BOTH = ["spec.kubernetes.versions[0]", "spec.kubernetes.versions[1]"]
V1BETA1: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "both say so": ([{"version": "1.31.1"} | SUPPORTED, {"version": "1.31.2"} | SUPPORTED], BOTH),
    "both say so, one until a date": (
        [{"version": "1.31.1", "expirationDate": FUTURE} | SUPPORTED, {"version": "1.31.2"} | SUPPORTED],
        BOTH,
    ),
    "one has expired": (
        [
            {"version": "1.31.1", "expirationDate": "2025-01-01T00:00:00Z"} | SUPPORTED,
            {"version": "1.31.2"} | SUPPORTED,
        ],
        [],
    ),
    "one says nothing": ([{"version": "1.31.1"} | SUPPORTED, {"version": "1.31.2"}], []),
    "both say nothing": ([{"version": "1.31.1"}, {"version": "1.31.2"}], []),
    "both have dates alone": (
        [{"version": "1.31.1", "expirationDate": FUTURE}, {"version": "1.31.2", "expirationDate": LATER}],
        [],
    ),
    "one has a date alone": ([{"version": "1.31.1", "expirationDate": FUTURE}, {"version": "1.31.2"} | SUPPORTED], []),
    "another minor": ([{"version": "1.31.1"} | SUPPORTED, {"version": "1.32.2"} | SUPPORTED], []),
}
V1BETA2: dict[str, tuple[list[dict[str, Any]], list[str]]] = {
    "now": ([stages("1.31.1", ("supported", None)), stages("1.31.2", ("supported", None))], BOTH),
    "one says nothing": ([stages("1.31.1", ("supported", None)), {"version": "1.31.2"}], []),
    "from a planned start on": (
        [stages("1.31.1", ("supported", None)), stages("1.31.2", ("preview", None), ("supported", FUTURE))],
        BOTH,
    ),
    "handed over": (
        [
            stages("1.31.1", ("supported", None), ("deprecated", FUTURE)),
            stages("1.31.2", ("preview", None), ("supported", FUTURE)),
        ],
        [],
    ),
    "handed over late": (
        [
            stages("1.31.1", ("supported", None), ("deprecated", LATER)),
            stages("1.31.2", ("preview", None), ("supported", FUTURE)),
        ],
        BOTH,
    ),
    "both over": (
        [
            stages("1.31.1", ("supported", None), ("deprecated", "2025-02-01T00:00:00Z")),
            stages("1.31.2", ("supported", "2025-01-01T00:00:00Z"), ("deprecated", "2025-02-02T00:00:00Z")),
        ],
        [],
    ),
}


@pytest.mark.parametrize(("versions", "fields"), V1BETA1.values(), ids=V1BETA1.keys())
def test_v1beta1(versions: list[dict[str, Any]], fields: list[str]) -> None:
    """A rule that reads ``classification`` would never apply, because the hub has lifecycles."""
    assert refused(ApiServer(NOW).create(profile(OLD, *versions))) == fields


@pytest.mark.parametrize(("versions", "fields"), V1BETA2.values(), ids=V1BETA2.keys())
def test_v1beta2(versions: list[dict[str, Any]], fields: list[str]) -> None:
    """Two supported versions could be planned, and no request would prevent the overlap when it begins."""
    assert refused(ApiServer(NOW).create(profile(HUB, *versions))) == fields


@pytest.mark.parametrize(
    ("at", "version"),
    [(OLD, lambda number: {"version": number} | SUPPORTED), (HUB, lambda number: stages(number, ("supported", None)))],
    ids=[OLD, HUB],
)
def test_images(at: str, version: Any) -> None:
    """A machine image could have two supported versions of a minor, unlike in Gardener."""
    found = refused(ApiServer(NOW).create(profile(at, images=(version("1.0.1"), version("1.0.2")))))
    assert found == ["spec.machineImages[0].versions[0]", "spec.machineImages[0].versions[1]"]
    assert refused(ApiServer(NOW).create(profile(at, images=(version("1.0.1"), version("1.1.2"))))) == []


def test_the_sentence_says_when() -> None:
    """A conflict that begins next year would look like a present one."""
    answer = ApiServer(NOW).create(profile(HUB, *V1BETA2["from a planned start on"][0]))
    assert '"1.31.2" has one from 2030-01-01T00:00:00Z on' in answer.refusal
    assert "has one from" not in ApiServer(NOW).create(profile(HUB, *V1BETA2["now"][0])).refusal


def test_a_profile_from_before_the_rule_can_be_changed() -> None:
    """Two versions that were stored as supported would refuse every other change of their profile."""
    old = profile(HUB, *V1BETA2["now"][0])
    new = copy.deepcopy(old)
    new["spec"]["regions"].append({"name": "there"})
    answer = ApiServer(NOW).update(new, old)
    assert answer.allowed, answer.refusal
    assert any("are both supported" in warning for warning in answer.warnings)
    new["spec"]["kubernetes"]["versions"].append(stages("1.31.3", ("supported", None)))
    assert refused(ApiServer(NOW).update(new, old)) == [
        "spec.kubernetes.versions[0]",
        "spec.kubernetes.versions[1]",
        "spec.kubernetes.versions[2]",
        "spec.kubernetes.versions[2]",
    ]


def test_a_project_makes_no_second_supported_version() -> None:
    """The parent's supported version would no longer be the default of the project's Shoots."""
    parent = profile(OLD, images=({"version": "1.0.1"} | SUPPORTED, {"version": "1.1.0", "expirationDate": FUTURE}))
    child = {
        "apiVersion": f"{GROUP}/{OLD}",
        "kind": "NamespacedCloudProfile",
        "metadata": {"name": "b", "namespace": "ns"},
        "spec": {"parent": {"kind": "CloudProfile", "name": "a"}, "machineImages": []},
    }
    own: dict[str, Any] = {"version": "1.0.2", "cri": [{"name": "containerd"}], "architectures": ["amd64"]}
    server = ApiServer(NOW, {"cloudprofiles": [parent]})
    child["spec"]["machineImages"] = [{"name": "ubuntu", "versions": [own | SUPPORTED]}]  # type: ignore[index]
    assert refused(server.create(child)) == [
        "status.cloudProfileSpec.machineImages[0].versions[0]",
        "status.cloudProfileSpec.machineImages[0].versions[2]",
    ]
    child["spec"]["machineImages"] = [  # type: ignore[index]
        {"name": "ubuntu", "versions": [own | {"expirationDate": LATER}, {"version": "1.1.0", "expirationDate": LATER}]}
    ]
    assert refused(server.create(child)) == []


@given(
    st.lists(
        st.tuples(st.sampled_from(["1.30.1", "1.30.2", "1.30.3"]), lifecycles()),
        max_size=3,
        unique_by=lambda each: each[0],
    ),
    moments,
)
def test_what_is_refused_is_what_two_clocks_would_see(listed: list[tuple[str, Any]], now: datetime) -> None:
    """The rule would start or stop at a wrong moment, or miss a pair of versions."""
    versions = [{"version": number, "lifecycle": stages} for number, stages in listed]
    spec = {"kubernetes": {"versions": versions}}
    found = {remark.field for remark in supported_once(spec, "spec", now, before={})}
    instants = [now + timedelta(hours=12 * step) for step in range(20)]
    wanted = {
        f"spec.kubernetes.versions[{index}]"
        for at in instants
        for index, version in enumerate(versions)
        if classification_at(version, at) is Classification.SUPPORTED
        and sum(classification_at(each, at) is Classification.SUPPORTED for each in versions) > 1
    }
    assert found == wanted


def test_builds_of_one_version_are_one_version() -> None:
    """A second build of a supported image version would be refused, though it is no other version."""
    images = tuple(stages(number, ("supported", None)) for number in ("1.0.0", "1.0.0+build1"))
    assert ApiServer(NOW).create(profile(HUB, images=images)).allowed
    others = tuple(stages(number, ("supported", None)) for number in ("1.0.0", "1.0.1+build1"))
    assert len(refused(ApiServer(NOW).create(profile(HUB, images=others)))) == 2
