"""The examples of the documents, by section: none may be refused, and all have the documented effect."""

from __future__ import annotations

from typing import Any

import pytest

from restow.cloudprofile.findings import ValidationVerdict
from restow.cloudprofile.objects import ProfileReference, profile_of
from restow.cloudprofile.profiles.admission import judge, judge_namespaced, needed_verbs
from restow.cloudprofile.profiles.rendering import overridden, render
from restow.cloudprofile.versions.lifecycle import classification_at, next_transition, parse_time, status_of
from tests.cloudprofile.manifests import manifest
from tests.upstream.files import gardener

GEP_32_DAY = parse_time("2024-12-03T00:00:00Z")
GEP_25_DAY = parse_time("2024-02-08T00:00:00Z")

GEP_32_LEGACY = manifest("""
apiVersion: core.gardener.cloud/v1beta1
kind: CloudProfile
metadata:
  name: local
spec:
  kubernetes:
    versions:
    - version: 1.26.0
      classification: supported
      expirationDate: "2024-06-01T00:00:00Z"
    - version: 1.27.0
      classification: deprecated
    - version: 1.28.0
      classification: supported
""")

GEP_32_LIFECYCLE = manifest("""
apiVersion: core.gardener.cloud/v1beta2
kind: CloudProfile
metadata:
  name: local
spec:
  kubernetes:
    versions:
    - version: 1.30.6
      lifecycle:
      - classification: preview # starts in preview because no start time is defined
      - classification: supported
        startTime: "2024-12-01T00:00:00Z"
      - classification: deprecated
        startTime: "2025-03-01T00:00:00Z"
      - classification: expired
        startTime: "2025-04-01T00:00:00Z"
""")

GEP_32_STAGES = manifest("""
apiVersion: core.gardener.cloud/v1beta2
kind: CloudProfile
metadata:
  name: local
spec:
  kubernetes:
    versions:
    - version: 1.27.0
    - version: 1.28.0
      lifecycle:
      - classification: preview
      - classification: supported
        startTime: "2024-12-01T00:00:00Z"
    - version: 1.18.0
      lifecycle:
      - classification: supported
      - classification: deprecated
        startTime: "2022-01-01T00:00:00Z"
      - classification: expired
        startTime: "2022-06-01T00:00:00Z"
    - version: 2.0.0
      lifecycle:
      - classification: preview
        startTime: "2036-02-07T06:28:16Z"
status:
  kubernetes:
    versions:
    - version: 1.27.0
      classification: supported
    - version: 1.28.0
      classification: supported
    - version: 1.18.0
      classification: expired
    - version: 2.0.0
      classification: unavailable
""")

GEP_32_NAMESPACED = manifest("""
apiVersion: core.gardener.cloud/v1beta2
kind: NamespacedCloudProfile
metadata:
  name: local
  namespace: shoot
spec:
  kubernetes:
    versions:
    - version: 1.28.0
      lifecycle:
      - classification: supported
        startTime: "2025-12-01T00:00:00Z" # postpones the start time
    - version: 1.18.0
      lifecycle:
      - classification: supported
        startTime: "2022-01-01T00:00:00Z" # adds a startTime to supported
      - classification: deprecated
        startTime: "2024-06-01T00:00:00Z" # postpones deprecated even after expired
status:
  cloudProfileSpec:
    kubernetes:
      versions:
      - version: 1.27.0 # from base
      - version: 1.28.0
        lifecycle:
        - classification: preview # from base
        - classification: supported
          startTime: "2025-12-01T00:00:00Z" # override
      - version: 1.18.0
        lifecycle:
        - classification: supported
          startTime: "2022-01-01T00:00:00Z" # override
        - classification: deprecated
          startTime: "2024-06-01T00:00:00Z" # override
        - classification: expired
          startTime: "2024-06-01T00:00:00Z" # implicit override
      - version: 2.0.0
        lifecycle:
        - classification: preview
          startTime: "2036-02-07T06:28:16Z"
""")

GEP_25_PARENT = manifest("""
apiVersion: core.gardener.cloud/v1beta1
kind: CloudProfile
metadata:
  name: aws-central-cloud-profile
spec:
  type: aws
  kubernetes:
    versions:
    - version: 1.27.1
    - version: 1.26.3
    - version: 1.25.8
    - version: 1.24.6
    - version: 1.28.6
      expirationDate: 2023-02-02T01:02:03Z
  machineImages:
  - name: suse-chost
    versions:
    - version: "15.4" # the document leaves out the quotes
    - version: "14.4"
    - version: "13.6"
  machineTypes:
  - name: m5.large
    cpu: "4"
    gpu: "0"
    memory: 8Gi
  volumeTypes:
  - name: gp3
    class: standard
    usable: true
""")

GEP_25_NAMESPACED = manifest("""
apiVersion: core.gardener.cloud/v1beta1
kind: NamespacedCloudProfile
metadata:
  name: aws-profile-xyz
  namespace: project-xyz
spec:
  parent:
    kind: CloudProfile
    name: aws-central-cloud-profile
  kubernetes:
    versions:
    - version: 1.28.6
      expirationDate: 2024-06-06T01:02:03Z
  machineImages:
  - name: suse-chost
    versions:
    - version: "16.4"
      expirationDate: 2023-08-08T23:59:59Z # the document's 2023-08-8T is a slip of the pen
  machineTypes:
  - name: m5.xlarge
    cpu: "8"
    gpu: "0"
    memory: 16Gi
  volumeTypes:
  - name: ab6
    class: premium
    usable: true
""")


def _created(profile: Any, now: Any, parent: Any = None) -> ValidationVerdict:
    if profile["kind"] == "CloudProfile":
        return judge(profile, None, children=(), shoots=(), now=now)
    return judge_namespaced(profile, None, parent=parent, shoots=(), now=now)


@pytest.mark.parametrize(
    ("profile", "day", "parent"),
    [
        pytest.param(GEP_32_LEGACY, GEP_32_DAY, None, id="GEP-32 Motivation"),
        pytest.param(GEP_32_LIFECYCLE, GEP_32_DAY, None, id="GEP-32 Proposal"),
        pytest.param(GEP_32_STAGES, GEP_32_DAY, None, id="GEP-32 CloudProfile controller"),
        pytest.param(GEP_32_NAMESPACED, GEP_32_DAY, None, id="GEP-32 NamespacedCloudProfile"),
        pytest.param(GEP_25_PARENT, GEP_25_DAY, None, id="GEP-25 Rendering"),
        pytest.param(GEP_25_NAMESPACED, GEP_25_DAY, GEP_25_PARENT, id="GEP-25 Manifest"),
    ],
)
def test_no_example_is_refused(profile: Any, day: Any, parent: Any) -> None:
    """A user who tries an example of the documents would be refused."""
    assert _created(profile, day, parent).findings == ()


def test_gep_32_with_its_parent_named() -> None:
    """GEP-32 "NamespacedCloudProfile": the example, which omits its parent, would be refused with its parent."""
    spec = {**GEP_32_NAMESPACED["spec"], "parent": {"kind": "CloudProfile", "name": "local"}}
    verdict = _created({**GEP_32_NAMESPACED, "spec": spec}, GEP_32_DAY, GEP_32_STAGES)
    assert verdict.allowed
    assert ["1.19 the profile offers nothing" in warning.detail for warning in verdict.warnings] == [True]


def test_gep_32_motivation() -> None:
    """GEP-32 "Motivation": a classification would win over a past expirationDate."""
    assert status_of(GEP_32_LEGACY["spec"], GEP_32_DAY)["kubernetes"]["versions"] == [
        {"version": "1.26.0", "classification": "expired"},
        {"version": "1.27.0", "classification": "deprecated"},
        {"version": "1.28.0", "classification": "supported"},
    ]


@pytest.mark.parametrize(
    ("at", "classification", "next_at"),
    [
        ("2024-11-30T23:59:59Z", "preview", "2024-12-01T00:00:00Z"),
        ("2024-12-01T00:00:00Z", "supported", "2025-03-01T00:00:00Z"),
        ("2024-12-03T00:00:00Z", "supported", "2025-03-01T00:00:00Z"),
        ("2025-03-01T00:00:00Z", "deprecated", "2025-04-01T00:00:00Z"),
        ("2025-04-01T00:00:00Z", "expired", None),
    ],
)
def test_gep_32_proposal(at: str, classification: str, next_at: str | None) -> None:
    """GEP-32 "Proposal": a version would be in another stage than its lifecycle defines, or stay in one too long."""
    (version,) = GEP_32_LIFECYCLE["spec"]["kubernetes"]["versions"]
    assert classification_at(version, parse_time(at)) == classification
    assert next_transition(version, parse_time(at)) == (parse_time(next_at) if next_at else None)


def test_gep_32_controller() -> None:
    """GEP-32, the example of the CloudProfile controller: the status would differ from the document's."""
    assert status_of(GEP_32_STAGES["spec"], GEP_32_DAY) == GEP_32_STAGES["status"]


def test_gep_32_namespacedcloudprofile() -> None:
    """GEP-32, the example of overrides: the rendered profile would differ from the document's."""
    rendered = render(GEP_32_STAGES["spec"], GEP_32_NAMESPACED["spec"])
    assert rendered == GEP_32_NAMESPACED["status"]["cloudProfileSpec"]


@pytest.mark.parametrize(
    ("base", "after"),
    [
        pytest.param(
            [("preview", "2025-02-01"), ("supported", "2025-03-01"), ("deprecated", "2025-06-01")],
            [("preview", "2025-02-01"), ("supported", "2025-02-15"), ("deprecated", "2025-02-15")],
            id="deprecated between preview and supported",
        ),
        pytest.param(
            [("preview", "2025-03-01"), ("deprecated", "2025-06-01")],
            [("preview", "2025-02-15"), ("deprecated", "2025-02-15")],
            id="preview later than deprecated",
        ),
        pytest.param(
            [("deprecated", "2025-01-01"), ("expired", "2025-02-01")],
            [("deprecated", "2025-02-15"), ("expired", "2025-02-15")],
            id="expired before deprecated",
        ),
    ],
)
def test_gep_32_conflicts(base: list[tuple[str, str]], after: list[tuple[str, str]]) -> None:
    """GEP-32, the conflicts that a parent may cause: the stages next to an overridden one would not move."""
    version = {"version": "1.30.0", "lifecycle": _lifecycle(base)}
    override = {"version": "1.30.0", "lifecycle": _lifecycle([("deprecated", "2025-02-15")])}
    assert overridden(version, override) == {"version": "1.30.0", "lifecycle": _lifecycle(after)}


def _lifecycle(stages: list[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"classification": name, "startTime": f"{day}T00:00:00Z"} for name, day in stages]


def test_gep_25_rendering() -> None:
    """GEP-25 "Rendering": entries would be lost, or not come after the parent's."""
    rendered = render(GEP_25_PARENT["spec"], GEP_25_NAMESPACED["spec"])
    assert rendered["type"] == "aws"
    assert [(item["version"], item.get("expirationDate")) for item in rendered["kubernetes"]["versions"]] == [
        ("1.27.1", None),
        ("1.26.3", None),
        ("1.25.8", None),
        ("1.24.6", None),
        ("1.28.6", "2024-06-06T01:02:03Z"),
    ]
    (image,) = rendered["machineImages"]
    assert [(item["version"], item.get("expirationDate")) for item in image["versions"]] == [
        ("15.4", None),
        ("14.4", None),
        ("13.6", None),
        ("16.4", "2023-08-08T23:59:59Z"),
    ]
    assert [item["name"] for item in rendered["machineTypes"]] == ["m5.large", "m5.xlarge"]
    assert rendered["volumeTypes"] == [*GEP_25_PARENT["spec"]["volumeTypes"], *GEP_25_NAMESPACED["spec"]["volumeTypes"]]


def test_gep_25_custom_verbs() -> None:
    """GEP-25 "Custom RBAC verb": the document's ClusterRole would not be enough for the document's profile."""
    assert needed_verbs(GEP_25_NAMESPACED) == ("modify-spec-kubernetes", "modify-spec-machineImages")


def test_gep_25_shoot_reference() -> None:
    """GEP-25 "Adjusting Shoots cloudProfileName field": the Shoot would count as a user of another profile."""
    shoot = manifest("""
    apiVersion: core.gardener.cloud/v1beta1
    kind: Shoot
    metadata:
      name: my-shoot
      namespace: project-xyz
    spec:
      cloudProfile:
        kind: NamespacedCloudProfile
        name: aws-profile-xyz
    """)
    assert profile_of(shoot) == ProfileReference("NamespacedCloudProfile", "aws-profile-xyz", "project-xyz")


def test_gardeners_example_cloudprofile() -> None:
    """Gardener's own example would be refused."""
    profile = manifest((gardener() / "30-cloudprofile.yaml").read_text())
    assert _created(profile, parse_time("2025-10-01T00:00:00Z")).findings == ()


def test_gardeners_example_namespacedcloudprofile() -> None:
    """Gardener's own example would be refused although its parent has the overridden versions."""
    profile = manifest((gardener() / "35-namespacedcloudprofile.yaml").read_text())
    parent = manifest("""
    metadata: {name: local}
    spec:
      kubernetes: {versions: [{version: 1.35.1}, {version: 1.34.6}]}
      machineImages: [{name: local, versions: [{version: 1.0.0}]}]
    """)
    now = parse_time("2025-10-01T00:00:00Z")
    assert _created(profile, now, parent).findings == ()
    rendered = render(parent["spec"], profile["spec"])
    assert [image["name"] for image in rendered["machineImages"]] == ["local", "ubuntu-custom"]
    assert "providerConfig" not in rendered
