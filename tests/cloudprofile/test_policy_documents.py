"""The policy documents on Shoots and on managing versions, with their own examples."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from restow.cloudprofile.maintenance.plan import maintain
from restow.cloudprofile.management import KubernetesVersionManagement, VersionManagement, manage
from restow.cloudprofile.shoots.admission import shoot_findings
from restow.cloudprofile.shoots.defaulting import default_kubernetes_version
from restow.cloudprofile.shoots.profile import ShootProfiles, transition_findings
from restow.cloudprofile.versions.lifecycle import classification_at
from restow.cloudprofile.versions.updates import auto_target, forced_chain, forced_target, image_target
from tests.cloudprofile.manifests import shoot_profiles

NOW = datetime(2024, 12, 3, tzinfo=UTC)
PAST = "2024-12-02T00:00:00Z"

GEP_5 = {
    "1.17.0": "preview",
    "1.16.1": "supported",
    "1.16.0": "deprecated",
    "1.15.4": "supported",
    "1.15.3": "deprecated",
    "1.14.9": "supported",
    "1.14.8": "deprecated",
    "1.13.12": "supported",
    "1.13.11": "deprecated",
    "1.12.10": "deprecated",
    "1.12.9": "deprecated",
}
"""GEP-5, "Kubernetes Version Classifications": an operator who supports v1.16, v1.15, v1.14 and v1.13."""

GEP_5_VERSIONS = [{"version": version, "classification": name} for version, name in GEP_5.items()]


def expired(*names: str) -> list[dict[str, Any]]:
    """Return GEP-5's versions, the named ones expired."""
    return [item | ({"expirationDate": PAST} if item["version"] in names else {}) for item in GEP_5_VERSIONS]


def test_gep_5_the_latest_supported_version_is_the_default() -> None:
    """GEP-5, supported: the latest supported version would not be the default ("e.g. v1.16.1")."""
    assert default_kubernetes_version(GEP_5_VERSIONS, "", "spec.kubernetes.version", NOW) == "1.16.1"


def test_gep_5_a_preview_becomes_the_default_once_it_is_supported() -> None:
    """GEP-5, preview: a preview would not become the default once "he promotes that minor version to supported"."""
    promoted = [{"version": "1.17.1", "classification": "supported"}, *GEP_5_VERSIONS]
    assert default_kubernetes_version(promoted, "", "spec.kubernetes.version", NOW) == "1.17.1"


@pytest.mark.parametrize(
    ("current", "target"), [("1.16.0", "1.16.1"), ("1.15.3", "1.15.4"), ("1.16.1", None), ("1.12.10", None)]
)
def test_policy_existing_versions_update_to_the_supported_one(current: str, target: str | None) -> None:
    """Policy, supported: "existing versions should update to this version" would not hold, or lead to a preview."""
    assert auto_target(GEP_5_VERSIONS, current, NOW) == target


def test_gep_5_expired_versions_of_an_unmaintained_minor() -> None:
    """GEP-5, expired: the update would not lead to the "latest patch version of the next minor Kubernetes version"."""
    versions = expired("1.12.10", "1.12.9")
    assert forced_target(versions, "1.12.10", NOW) == "1.13.12"
    assert forced_chain(versions, "1.12.9", NOW).steps == ("1.13.12",)


def test_gep_5_several_minor_versions_one_after_another() -> None:
    """GEP-5, expired: the "multiple consecutive minor Kubernetes version updates" would not be one per maintenance."""
    versions = expired("1.12.10", "1.13.11", "1.13.12", "1.14.8", "1.14.9")
    assert forced_chain(versions, "1.12.10", NOW).steps == ("1.13.12", "1.14.9", "1.15.4")


def test_gep_5_comes_out_of_version_management() -> None:
    """Policy, Automatic Version Management: for five maintained minors the result would differ from GEP-5's example."""
    bare = [{"version": version} for version in GEP_5]
    bare[0]["classification"] = "preview"
    config = VersionManagement(
        kubernetes_version_management=KubernetesVersionManagement(enabled=True, maintained_kubernetes_versions=5)
    )
    spec = manage({"kubernetes": {"versions": bare}}, config, NOW).spec
    assert {item["version"]: classification_at(item, NOW).value for item in spec["kubernetes"]["versions"]} == GEP_5


def test_policy_machine_images() -> None:
    """Policy, preview: a freshly released "coreos-2023.5" would be a target before it is promoted."""
    listed = {
        "name": "coreos",
        "versions": [
            {"version": "2023.4", "expirationDate": PAST},
            {"version": "2023.4.1"},
            {"version": "2023.5", "classification": "preview"},
        ],
    }
    assert image_target(listed, "2023.4", NOW, forced=True) == "2023.4.1"
    assert image_target(listed, "2023.4.1", NOW, forced=False) is None


def shoot(version: str, profile: str = "local", kind: str = "CloudProfile") -> dict[str, Any]:
    """Return a Shoot without workers."""
    spec = {"cloudProfile": {"kind": kind, "name": profile}, "kubernetes": {"version": version}}
    return {"metadata": {"name": "my-shoot", "namespace": "project-xyz"}, "spec": spec}


GEP_32 = {
    "kubernetes": {
        "versions": [
            {"version": "1.27.0"},
            {
                "version": "1.28.0",
                "lifecycle": [
                    {"classification": "preview"},
                    {"classification": "supported", "startTime": "2024-12-01T00:00:00Z"},
                ],
            },
            {
                "version": "1.18.0",
                "lifecycle": [
                    {"classification": "supported"},
                    {"classification": "deprecated", "startTime": "2022-01-01T00:00:00Z"},
                    {"classification": "expired", "startTime": "2022-06-01T00:00:00Z"},
                ],
            },
            {"version": "2.0.0", "lifecycle": [{"classification": "preview", "startTime": "2036-02-07T06:28:16Z"}]},
        ]
    }
}
"""GEP-32, the CloudProfile ``local`` on 2024-12-03."""


@pytest.mark.parametrize(
    ("version", "refused"), [("1.27.0", False), ("1.28.0", False), ("1.18.0", True), ("2.0.0", True)]
)
def test_gep_32_which_versions_new_shoots_may_have(version: str, refused: bool) -> None:
    """GEP-32: a new Shoot could use an expired version, or one that is unavailable."""
    profiles = shoot_profiles([{"metadata": {"name": "local"}, "spec": GEP_32}])
    found = shoot_findings(shoot(version), None, profiles, NOW)
    assert [finding.field for finding in found] == (["spec.kubernetes.version"] if refused else [])


def test_gep_32_maintenance_follows_the_lifecycle() -> None:
    """GEP-32's stages would not cause the updates that classification and expiration date cause."""
    left = {"version": "1.27.1", "lifecycle": [{"classification": "expired", "startTime": PAST}]}
    offer = {"kubernetes": {"versions": [left, *GEP_32["kubernetes"]["versions"]]}}
    assert maintain(shoot("1.27.1"), offer, NOW).spec["kubernetes"] == {"version": "1.28.0"}
    before = datetime(2024, 11, 30, tzinfo=UTC)  # 1.28.0 is a preview then, and 1.27.1 has not expired
    assert maintain(shoot("1.27.1"), offer, before).spec["kubernetes"] == {"version": "1.27.1"}


def profiles_of_gep_25() -> ShootProfiles:
    """Return GEP-25's "Rendering": the parent, and the NamespacedCloudProfile that extends 1.28.6 for one project."""

    def spec(expiration: str) -> dict[str, Any]:
        versions = [{"version": "1.27.1"}, {"version": "1.28.6", "expirationDate": expiration}]
        return {"type": "aws", "kubernetes": {"versions": versions}}

    parent = {"metadata": {"name": "aws-central-cloud-profile"}, "spec": spec("2023-02-02T01:02:03Z")}
    child = {
        "metadata": {"name": "aws-profile-xyz", "namespace": "project-xyz"},
        "spec": {"parent": {"kind": "CloudProfile", "name": "aws-central-cloud-profile"}},
        "status": {"cloudProfileSpec": spec("2024-06-06T01:02:03Z")},
    }
    return shoot_profiles([parent], [child])


def test_gep_25_an_extended_version_may_be_used_in_its_project() -> None:
    """GEP-25, Motivation: an extended Kubernetes version could be used in no project, or in all of them."""
    profiles, now = profiles_of_gep_25(), datetime(2024, 1, 1, tzinfo=UTC)
    extended = shoot("1.28.6", "aws-profile-xyz", "NamespacedCloudProfile")
    central = shoot("1.28.6", "aws-central-cloud-profile")
    assert shoot_findings(extended, None, profiles, now) == ()
    assert [finding.field for finding in shoot_findings(central, None, profiles, now)] == ["spec.kubernetes.version"]
    elsewhere = {**extended, "metadata": {"name": "s", "namespace": "project-abc"}}
    assert [finding.field for finding in shoot_findings(elsewhere, None, profiles, now)] == ["spec.cloudProfile"]


def test_gep_25_the_move_is_reversible() -> None:
    """GEP-25, Approach: a Shoot could not move to a NamespacedCloudProfile of the same parent, or not back."""
    profiles = profiles_of_gep_25()
    central = shoot("1.28.6", "aws-central-cloud-profile")
    own = shoot("1.28.6", "aws-profile-xyz", "NamespacedCloudProfile")
    assert transition_findings(central, own, profiles) == ()
    assert transition_findings(own, central, profiles) == ()
