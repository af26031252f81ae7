"""Defaults and refusals for Shoots that Gardener's own cases do not cover."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.cloudprofile.shoots.admission import complete_shoot, shoot_findings
from restow.cloudprofile.shoots.defaulting import default_kubernetes_version
from restow.cloudprofile.shoots.profile import ShootProfiles
from restow.cloudprofile.shoots.versions import kubernetes_findings, skew_findings
from restow.cloudprofile.versions.lifecycle import Classification, classification_at
from tests.cloudprofile.manifests import shoot_profiles

NOW = datetime(2025, 1, 15, 12, tzinfo=UTC)
PAST, FUTURE = "2025-01-14T12:00:00Z", "2025-01-16T12:00:00Z"
SCHEDULED = [{"classification": "supported", "startTime": FUTURE}]


def image_version(text: str, **fields: Any) -> dict[str, Any]:
    """Return an image version for amd64 and containerd."""
    return {"version": text, "architectures": ["amd64"], "cri": [{"name": "containerd"}], **fields}


def offer(*images: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a profile's spec."""
    kubernetes = [
        {"version": "1.31.2"},
        {"version": "1.30.4"},
        {"version": "1.30.3", "classification": "deprecated", "expirationDate": PAST},
        {"version": "1.32.0", "classification": "preview"},
        {"version": "1.33.0", "lifecycle": SCHEDULED},
    ]
    listed = [{"name": "img", "versions": list(images or (image_version("1.0.0"), image_version("1.1.0")))}]
    return {
        "kubernetes": {"versions": kubernetes},
        "machineImages": listed,
        "machineTypes": [{"name": "m1", "architecture": "amd64"}],
    } | more


def profiles(spec: dict[str, Any]) -> ShootProfiles:
    """Return the one profile ``p``."""
    return shoot_profiles([{"metadata": {"name": "p"}, "spec": spec}])


def worker(name: str = "w", image: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """Return a worker pool."""
    machine = {"type": "m1", "architecture": "amd64"} | ({"image": image} if image else {})
    return {"name": name, "machine": machine, "minimum": 1, "maximum": 2, **fields}


def shoot(version: str = "1.31.2", *workers: dict[str, Any]) -> dict[str, Any]:
    """Return a Shoot of the profile ``p``."""
    spec = {"cloudProfile": {"kind": "CloudProfile", "name": "p"}, "kubernetes": {"version": version}}
    return {"metadata": {"name": "s", "namespace": "ns"}, "spec": spec | {"provider": {"workers": list(workers)}}}


def on(version: str, name: str = "img") -> dict[str, Any]:
    """Return a machine image in the form of a Shoot."""
    return {"name": name, "version": version}


def refusals(new: dict[str, Any], old: dict[str, Any] | None, spec: dict[str, Any]) -> list[tuple[str, str]]:
    """Return type and field of each finding."""
    return [(finding.type.value, finding.field) for finding in shoot_findings(new, old, profiles(spec), NOW)]


def test_a_good_shoot_is_admitted() -> None:
    """A good Shoot would be refused, which all tests of refusals would overlook."""
    assert refusals(shoot("1.31.2", worker(image=on("1.0.0"))), None, offer()) == []


@pytest.mark.parametrize(
    ("version", "old", "refused"),
    [
        pytest.param("1.30.3", None, True, id="new on an expired version"),
        pytest.param("1.33.0", None, True, id="new on an unavailable version"),
        pytest.param("1.32.0", None, False, id="new on a preview"),
        pytest.param("1.30.9", None, True, id="new on an unlisted version"),
        pytest.param("1.30.3", "1.29.8", False, id="update to an expired version"),
        pytest.param("1.33.0", "1.32.0", True, id="update to an unavailable version"),
        pytest.param("1.30.3", "1.30.3", False, id="kept although expired"),
    ],
)
def test_kubernetes_versions(version: str, old: str | None, refused: bool) -> None:
    """New Shoots could use an inactive version, or forced updates could not lead over an expired one."""
    before = shoot(old) if old else None
    if before is not None:
        before["spec"]["purpose"] = "other"
    found = refusals(shoot(version), before, offer())
    assert found == ([("NotSupported", "spec.kubernetes.version")] if refused else [])


@pytest.mark.parametrize(
    ("version", "old", "fields", "refused"),
    [
        pytest.param("1.1.0", None, {"expirationDate": PAST}, "is expired", id="new on an expired version"),
        pytest.param("1.1.0", "1.0.0", {"expirationDate": PAST}, "", id="update to a higher expired version"),
        pytest.param("1.1.0", "1.2.0", {"expirationDate": PAST}, "is expired", id="update to a lower expired version"),
        pytest.param(
            "1.1.0", None, {"lifecycle": SCHEDULED}, "is not available yet", id="new on an unavailable version"
        ),
        pytest.param(
            "1.1.0", "1.0.0", {"lifecycle": SCHEDULED}, "is not available yet", id="update to an unavailable one"
        ),
        pytest.param("1.1.0", None, {"classification": "preview"}, "", id="new on a preview"),
        pytest.param("1.1.0", "1.1.0", {"expirationDate": PAST}, "", id="kept although expired"),
    ],
)
def test_image_versions(version: str, old: str | None, fields: dict[str, Any], refused: str) -> None:
    """A pool could use a version that does not fit it, or its owner would not learn why and which versions do."""
    spec = offer(image_version("1.0.0"), image_version("1.1.0", **fields))
    before = shoot("1.31.2", worker(image=on(old), minimum=3)) if old else None
    found = shoot_findings(shoot("1.31.2", worker(image=on(version))), before, profiles(spec), NOW)
    if not refused:
        assert found == ()
        return
    assert [(finding.type.value, finding.field) for finding in found] == [
        ("Invalid", "spec.provider.workers[0].machine.image")
    ]
    assert f"'img:1.1.0' {refused}, supported machine image versions are: [img:1.0.0]" in found[0].detail


def test_a_new_pool_may_have_the_version_of_its_control_plane() -> None:
    """A Shoot on an expired version could not grow until it is updated."""
    old = shoot("1.30.3", worker(image=on("1.0.0")))
    pool = worker("new", image=on("1.0.0"), kubernetes={"version": "1.30.3"})
    assert refusals(shoot("1.30.3", worker(image=on("1.0.0")), pool), old, offer()) == []


def test_kubelet_constraint_is_asked_when_it_matters() -> None:
    """A constraint that a profile adds later would refuse changes of other fields."""
    spec = offer(image_version("1.0.0", kubeletVersionConstraint="< 1.31"))
    old, new = shoot("1.31.2", worker(image=on("1.0.0"))), shoot("1.31.2", worker(image=on("1.0.0"), maximum=9))
    assert refusals(new, old, spec) == []
    assert refusals(new, None, spec) == [("Invalid", "spec.provider.workers[0].machine.image")]
    assert refusals(new, shoot("1.30.4", worker(image=on("1.0.0"))), spec) == [
        ("Invalid", "spec.provider.workers[0].machine.image")
    ]


def test_in_place_pools() -> None:
    """Machines would be updated in place to a version that does not support it."""
    spec = offer(
        image_version("1.0.0", inPlaceUpdates={"supported": True}),
        image_version("1.1.0", inPlaceUpdates={"supported": True, "minVersionForUpdate": "1.0.0"}),
        image_version("1.2.0", inPlaceUpdates={"supported": True, "minVersionForUpdate": "1.1.0"}),
        image_version("1.3.0"),
    )

    def pool(version: str) -> dict[str, Any]:
        return worker(image=on(version), updateStrategy="AutoInPlaceUpdate")

    field = ("Invalid", "spec.provider.workers[0].machine.image")
    old = shoot("1.31.2", pool("1.0.0"))
    assert refusals(shoot("1.31.2", pool("1.1.0")), old, spec) == []
    assert refusals(shoot("1.31.2", pool("1.2.0")), old, spec) == [field]
    assert refusals(shoot("1.31.2", pool("1.2.0")), None, spec) == []
    assert refusals(shoot("1.31.2", pool("1.3.0")), None, spec) == [field]


def test_container_runtimes() -> None:
    """Pods of a pool would have no runtime, because the image lacks it."""
    cri = [{"name": "containerd", "containerRuntimes": [{"type": "gvisor"}]}]
    wanted = {"name": "containerd", "containerRuntimes": [{"type": "gvisor"}, {"type": "kata"}]}
    spec = offer(image_version("1.0.0", cri=cri))
    new = shoot("1.31.2", worker(image=on("1.0.0"), cri=wanted))
    assert refusals(new, None, spec) == [("Invalid", "spec.provider.workers[0].cri.containerRuntimes[1].type")]


def test_container_runtimes_are_asked_when_they_change() -> None:
    """A pool could get a runtime that its present image lacks."""
    bare, wanted = worker(image=on("1.0.0")), {"name": "containerd", "containerRuntimes": [{"type": "kata"}]}
    field = ("Invalid", "spec.provider.workers[0].cri.containerRuntimes[0].type")
    assert refusals(shoot("1.31.2", {**bare, "cri": wanted}), shoot("1.31.2", bare), offer()) == [field]
    had = shoot("1.31.2", {**bare, "cri": wanted})
    assert refusals(shoot("1.31.2", {**bare, "cri": wanted, "maximum": 9}), had, offer()) == []


def test_suffixes_do_not_count_for_updates_in_place() -> None:
    """`1.0.0-build` would not reach the minimum `1.0.0`, although Gardener compares without suffixes, unlike semver."""
    spec = offer(
        image_version("1.0.0-build", inPlaceUpdates={"supported": True}),
        image_version("1.1.0", inPlaceUpdates={"supported": True, "minVersionForUpdate": "1.0.0"}),
    )
    old, new = (
        shoot("1.31.2", worker(image=on(version), updateStrategy="ManualInPlaceUpdate"))
        for version in ("1.0.0-build", "1.1.0")
    )
    assert refusals(new, old, spec) == []


def test_limits_count_minimum_sizes() -> None:
    """A Shoot would be refused because of sizes that it may grow to, or admitted above its limit."""
    pools = (worker("a", image=on("1.0.0"), minimum=2, maximum=50), worker("b", image=on("1.0.0"), minimum=2))
    assert refusals(shoot("1.31.2", *pools), None, offer(limits={"maxNodesTotal": 4})) == []
    assert refusals(shoot("1.31.2", *pools), None, offer(limits={"maxNodesTotal": 3})) == [
        ("Forbidden", "spec.provider.workers")
    ]


def test_a_missing_profile_is_named() -> None:
    """The owner of a Shoot would not learn which profile is missing."""
    new = shoot()
    new["spec"]["cloudProfile"] = {"kind": "NamespacedCloudProfile", "name": "gone"}
    (found,) = shoot_findings(new, None, profiles(offer()), NOW)
    assert str(found) == 'spec.cloudProfile: Invalid value: NamespacedCloudProfile "ns/gone" not found'


def test_skew_of_a_whole_shoot() -> None:
    """A pool would be compared with a control plane other than the new one, or not with its own old version."""
    old = shoot("1.30.4", worker("a", kubernetes={"version": "1.30.4"}), worker("b"))
    new = shoot(
        "1.32.0",
        worker("a", kubernetes={"version": "1.29.1"}),
        worker("b", updateStrategy="AutoInPlaceUpdate"),
        worker("c", kubernetes={"version": "1.33.0"}),
        worker("d", kubernetes={"version": "1.28.0"}),
    )
    assert [(finding.field, finding.detail.split(":")[0]) for finding in skew_findings(new, old)] == [
        ("spec.kubernetes.version", "kubernetes version upgrade cannot skip a minor version"),
        ("spec.provider.workers[0].kubernetes.version", "kubernetes version downgrade is not supported"),
        ("spec.provider.workers[1].kubernetes.version", "kubernetes version upgrade cannot skip a minor version"),
        (
            "spec.provider.workers[2].kubernetes.version",
            "worker group kubernetes version must not be higher than control plane version",
        ),
        (
            "spec.provider.workers[3].kubernetes.version",
            "worker group kubernetes version must be at most three minor versions behind control plane version",
        ),
    ]


def test_a_shoot_needs_a_kubernetes_version() -> None:
    """An empty or short version would end the webhook with an error instead of a refusal."""
    assert [finding.type.value for finding in skew_findings(shoot(""), shoot())] == ["Required"]
    assert [finding.type.value for finding in skew_findings(shoot("1.31"), shoot())] == ["Invalid"]


@pytest.mark.parametrize(
    ("asked", "chosen"),
    [
        ("", "1.31.2"),
        ("1", "1.31.2"),
        ("1.30", "1.30.4"),
        ("1.30.3", "1.30.3"),
        ("1.33.0-alpha.1", "1.33.0-alpha.1"),
    ],
)
def test_default_kubernetes_version(asked: str, chosen: str) -> None:
    """A version that the owner has chosen would change, or an unsupported one would be chosen."""
    versions = offer()["kubernetes"]["versions"]
    assert default_kubernetes_version(versions, asked, "spec.kubernetes.version", NOW) == chosen


def completed(image: dict[str, Any] | None, *versions: dict[str, Any], old: dict[str, Any] | None = None) -> Any:
    """Return the image that a pool gets, or the text of the first finding."""
    new = shoot("1.31.2", worker(image=image, minimum=7))
    before = shoot("1.31.2", worker(image=old)) if old else None
    done = complete_shoot(new, before, profiles(offer(*versions)), NOW)
    if done.findings:
        return str(done.findings[0])
    return done.shoot["spec"]["provider"]["workers"][0]["machine"]["image"]


def test_default_image_prefers_what_may_be_used() -> None:
    """A Shoot would get the highest version even if it is expired, and then be refused, as in Gardener."""
    versions = (
        image_version("1.0.0"),
        image_version("1.1.0", classification="deprecated"),
        image_version("1.2.0", expirationDate=PAST),
        image_version("1.3.0", lifecycle=SCHEDULED),
        image_version("1.4.0", classification="preview"),
    )
    assert completed(None, *versions) == on("1.0.0")
    assert completed({"name": "img", "version": "1"}, *versions) == on("1.0.0")
    assert completed({"name": "img", "version": "1.1"}, *versions) == on("1.1.0")
    assert completed({"name": "img", "version": "1.2"}, *versions) == on("1.2.0")  # validation then gives the reason
    assert "failed to determine latest machine image" in completed({"name": "img", "version": "1.3"}, *versions)


def test_an_existing_pool_keeps_its_image() -> None:
    """A manifest that omits the version would update a pool, which only maintenance may do."""
    versions = (image_version("1.0.0"), image_version("1.1.0"))
    assert completed(None, *versions, old=on("1.0.0")) == on("1.0.0")
    assert completed({"name": "img"}, *versions, old=on("1.0.0")) == on("1.0.0")
    assert completed({"providerConfig": {"a": 1}}, *versions, old=on("1.0.0")) == {
        **on("1.0.0"),
        "providerConfig": {"a": 1},
    }
    assert completed({"name": "img", "version": "1.1"}, *versions, old=on("1.0.0")) == on("1.1.0")


def test_in_place_pools_get_an_image_that_supports_it() -> None:
    """A pool would get an image as a default that validation then refuses."""
    spec = offer(image_version("1.0.0", inPlaceUpdates={"supported": True}), image_version("1.1.0"))
    new = shoot("1.31.2", worker(updateStrategy="ManualInPlaceUpdate"))
    done = complete_shoot(new, None, profiles(spec), NOW)
    assert done.shoot["spec"]["provider"]["workers"][0]["machine"]["image"] == on("1.0.0")


def test_a_pool_keeps_its_way_of_updating() -> None:
    """A pool would be updated in place with an image for new machines, which Gardener refuses."""
    rolling, in_place, manual = (
        worker(image=on("1.0.0"), **fields)
        for fields in ({}, {"updateStrategy": "AutoInPlaceUpdate"}, {"updateStrategy": "ManualInPlaceUpdate"})
    )
    spec = offer(image_version("1.0.0", inPlaceUpdates={"supported": True}))
    field = [("Invalid", "spec.provider.workers[0].updateStrategy")]
    assert refusals(shoot("1.31.2", in_place), shoot("1.31.2", rolling), spec) == field
    assert refusals(shoot("1.31.2", rolling), shoot("1.31.2", manual), spec) == field
    assert refusals(shoot("1.31.2", manual), shoot("1.31.2", in_place), spec) == []
    other = {**in_place, "name": "other"}
    assert refusals(shoot("1.31.2", rolling, other), shoot("1.31.2", rolling), spec) == []


def test_a_pool_that_is_updated_in_place_keeps_its_machines() -> None:
    """A Shoot would be stuck: machines cannot change their type, image, runtime or disk in place."""
    image = image_version("1.0.0", inPlaceUpdates={"supported": True})
    spec = offer(machineImages=[{"name": name, "versions": [image]} for name in ("img", "other")])
    spec["machineTypes"] = [{**spec["machineTypes"][0], "name": name} for name in ("m1", "m2")]
    spec["volumeTypes"] = [{"name": "fast", "class": "standard"}]
    old = worker(image=on("1.0.0"), cri={"name": "containerd"}, updateStrategy="AutoInPlaceUpdate")
    changes = {
        "machine.type": {"machine": {**old["machine"], "type": "m2"}},
        "volume": {"volume": {"type": "fast", "size": "50Gi"}},
        "machine.image.name": {"machine": {**old["machine"], "image": on("1.0.0", "other")}},
        "cri.name": {"cri": {"name": "docker"}},
    }
    for field, change in changes.items():
        found = refusals(shoot("1.31.2", {**old, **change}), shoot("1.31.2", old), spec)
        assert ("Invalid", f"spec.provider.workers[0].{field}") in found, field
    manual = {**old, "updateStrategy": "ManualInPlaceUpdate", **changes["volume"]}
    assert refusals(shoot("1.31.2", manual), shoot("1.31.2", old), spec) == []
    rolling = {**old, "updateStrategy": "AutoRollingUpdate"}
    assert refusals(shoot("1.31.2", {**rolling, **changes["volume"]}), shoot("1.31.2", rolling), spec) == []


def test_the_hub_version_gets_no_deprecated_field() -> None:
    """v1beta2 does not have the field, so the server would prune it or strict clients would refuse it."""
    new = shoot("1.31.2")
    del new["spec"]["cloudProfile"]["kind"]
    done = complete_shoot(new, None, profiles(offer()), NOW)
    assert done.shoot["spec"]["cloudProfile"] == {"kind": "CloudProfile", "name": "p"}
    assert "cloudProfileName" not in done.shoot["spec"]


def test_contradicting_fields_are_not_filled_in() -> None:
    """A request that names two different profiles would be completed with one of them."""
    new = shoot()
    new["spec"]["cloudProfileName"] = "q"
    done = complete_shoot(new, None, profiles(offer()), NOW)
    assert [finding.field for finding in done.findings] == ["spec.cloudProfileName"]
    assert done.shoot == new


stages = st.lists(
    st.builds(
        dict,
        classification=st.sampled_from(["preview", "supported", "deprecated", "expired"]),
        startTime=st.sampled_from([PAST, FUTURE]),
    ),
    max_size=3,
)
listings = st.dictionaries(st.builds("1.{}.{}".format, st.integers(28, 31), st.integers(0, 3)), stages, max_size=8)


@given(listings, st.sampled_from(["", "1", "1.29", "1.30"]))
def test_what_is_chosen_is_admitted(listing: dict[str, Any], asked: str) -> None:
    """An owner would get an error about a default that they did not write."""
    listed = [{"version": version, "lifecycle": lifecycle} for version, lifecycle in listing.items()]
    chosen = default_kubernetes_version(listed, asked, "spec.kubernetes.version", NOW)
    if isinstance(chosen, str):
        assert chosen.startswith(asked)
        assert kubernetes_findings(listed, chosen, "", NOW, path="spec.kubernetes.version", is_new=True) == ()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), stages), max_size=6), st.booleans())
def test_images_that_are_chosen_are_admitted(listed: list[Any], in_place: bool) -> None:
    """An owner would get an error about a default image, unless all its versions are expired or previews."""
    versions = {f"{major}.{minor}.0": lifecycle for major, minor, lifecycle in listed}
    spec = offer(
        *(
            image_version(text, lifecycle=lifecycle, inPlaceUpdates={"supported": True})
            for text, lifecycle in versions.items()
        )
    )
    pool = worker(updateStrategy="AutoInPlaceUpdate") if in_place else worker()
    done = complete_shoot(shoot("1.31.2", pool), None, profiles(spec), NOW)
    found = shoot_findings(done.shoot, None, profiles(spec), NOW)
    if not done.findings and found:
        classes = {classification_at({"lifecycle": lifecycle}, NOW) for lifecycle in versions.values()}
        assert not classes & {Classification.SUPPORTED, Classification.DEPRECATED}
        assert "is expired, supported machine image versions are: [" in found[0].detail
