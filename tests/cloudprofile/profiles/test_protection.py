"""Protection of parts in use: the special cases that the tables leave open."""

from __future__ import annotations

from typing import Any

import pytest

from restow.cloudprofile.profiles import protection
from restow.cloudprofile.profiles.protection import protect, protect_namespaced
from restow.cloudprofile.versions.lifecycle import stages_or_none
from tests.cloudprofile.profiles.test_requirements import EXPIRED, FUTURE, NOW, PAST, image, kubernetes, lifecycle


def profile(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a CloudProfile."""
    return {"metadata": {"name": "aws"}, "spec": spec}


def child(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return a NamespacedCloudProfile of the CloudProfile."""
    parent = {"kind": "CloudProfile", "name": "aws"}
    return {"metadata": {"name": "p", "namespace": "ns", **metadata}, "spec": {"parent": parent, **spec}}


def shoot(reference: dict[str, Any], version: str, *workers: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return a Shoot in the namespace ``ns``."""
    spec = {**reference, "kubernetes": {"version": version}, "provider": {"workers": list(workers)}}
    return {"metadata": {"name": "s", "namespace": "ns", **metadata}, "spec": spec}


AWS = {"cloudProfileName": "aws"}
P = {"cloudProfile": {"kind": "NamespacedCloudProfile", "name": "p"}}
ONE, TWO = kubernetes(("1.31.0", {})), kubernetes(("1.31.0", {}), ("1.30.0", EXPIRED))


@pytest.mark.parametrize(
    ("user", "protected"),
    [
        pytest.param(shoot(AWS, "1.30.0"), True, id="by name"),
        pytest.param(shoot({"cloudProfile": {"name": "aws"}}, "1.30.0"), True, id="by reference, kind left out"),
        pytest.param(shoot(P, "1.30.0"), True, id="through a NamespacedCloudProfile"),
        pytest.param(
            shoot(AWS, "1.31.0", {"name": "w", "kubernetes": {"version": "1.30.0"}}), True, id="by a worker pool"
        ),
        pytest.param(shoot(AWS, "1.31.0"), False, id="another version"),
        pytest.param(shoot({"cloudProfileName": "gcp"}, "1.30.0"), False, id="another profile"),
        pytest.param(shoot(AWS, "1.30.0", deletionTimestamp=PAST), False, id="in deletion"),
        pytest.param(shoot(P, "1.30.0", namespace="other"), False, id="a profile of that name in another namespace"),
    ],
)
def test_a_kubernetes_version_in_use_stays(user: dict[str, Any], protected: bool) -> None:
    """A Shoot would run a version that its profile no longer lists."""
    found = list(protect(profile(ONE), profile(TWO), [child({})], [user]))
    assert bool(found) is protected
    if protected:
        assert 'unable to delete Kubernetes version "1.30.0" from CloudProfile "aws"' in found[0].detail
        assert "still in use by shoot 'ns/s'" in found[0].detail


_STAGED = kubernetes(("1.30.0", lifecycle(preview=None, supported=PAST, deprecated=FUTURE)))


@pytest.mark.parametrize(
    ("after", "override", "stage"),
    [
        pytest.param(lifecycle(preview=None, supported=PAST), lifecycle(deprecated=FUTURE), "deprecated", id="gone"),
        pytest.param(lifecycle(preview=None, deprecated=PAST), lifecycle(deprecated=FUTURE), None, id="only moved"),
        pytest.param(lifecycle(preview=None, deprecated=FUTURE), lifecycle(deprecated=FUTURE), None, id="another gone"),
        pytest.param({}, lifecycle(deprecated=FUTURE), "deprecated", id="the whole lifecycle gone"),
        pytest.param({}, lifecycle(supported=FUTURE), None, id="the implicit stage remains"),
        pytest.param(
            lifecycle(preview=None, supported=PAST, deprecated=FUTURE, expired=FUTURE),
            lifecycle(deprecated=FUTURE),
            None,
            id="one added",
        ),
        pytest.param(lifecycle(preview=None), {"expirationDate": FUTURE}, None, id="expired never was the parent's"),
    ],
)
def test_an_overridden_stage_stays(after: dict[str, Any], override: dict[str, Any], stage: str | None) -> None:
    """A project's override would lose its stage (GEP-32: as long as it is overridden, it "cannot be deleted")."""
    project = child(kubernetes(("1.30.0", override)))
    found = list(protect(profile(kubernetes(("1.30.0", after))), profile(_STAGED), [project], []))
    assert [finding.field for finding in found] == ([] if stage is None else ["spec.kubernetes.versions[0].lifecycle"])
    assert all(f"the stage {stage} of version 1.30.0" in finding.detail for finding in found)


@pytest.mark.parametrize(
    ("override", "protected"),
    [
        pytest.param(lifecycle(expired=FUTURE), True, id="overridden"),
        pytest.param({"expirationDate": FUTURE}, True, id="overridden in the plain form"),
        pytest.param({"architectures": ["arm64"], **lifecycle(expired=FUTURE)}, False, id="a version of its own"),
        pytest.param(lifecycle(supported=PAST), False, id="another stage overridden"),
    ],
)
def test_an_overridden_stage_of_an_image_stays(override: dict[str, Any], protected: bool) -> None:
    """A project's extension of an image would lose the stage that it extends."""
    old, new = image(("1.0", lifecycle(supported=None, expired=FUTURE))), image(("1.0", lifecycle(supported=None)))
    found = list(protect(profile(new), profile(old), [child(image(("1.0", override)))], []))
    assert [finding.field for finding in found] == (
        ["spec.machineImages[0].versions[0].lifecycle"] if protected else []
    )


def test_a_child_in_deletion_or_of_another_parent_holds_nothing() -> None:
    """A parent could not change because of a profile in deletion, or of another parent's profile."""
    going = child(kubernetes(("1.30.0", EXPIRED)), deletionTimestamp=PAST)
    other = child(kubernetes(("1.30.0", EXPIRED)))
    other["spec"]["parent"]["name"] = "gcp"
    assert list(protect(profile(ONE), profile(TWO), [going, other], [])) == []
    assert len(list(protect(profile(ONE), profile(TWO), [child(kubernetes(("1.30.0", EXPIRED)))], []))) == 1


def test_every_user_is_named() -> None:
    """An operator would learn the users of a version only one refusal at a time."""
    users = [shoot(AWS, "1.30.0", name=name) for name in ("a", "b")]
    said = " ".join(map(str, protect(profile(ONE), profile(TWO), [], users)))
    assert "'ns/a'" in said
    assert "'ns/b'" in said


def test_an_architecture_stays_while_the_parent_defines_capabilities() -> None:
    """A project's machines would have an architecture that its parent no longer defines."""
    two = {"machineCapabilities": [{"name": "architecture", "values": ["amd64", "arm64"]}]}
    one = {"machineCapabilities": [{"name": "architecture", "values": ["amd64"]}]}
    project = child({"machineTypes": [{"name": "t", "capabilities": {"architecture": ["arm64"]}}]})
    assert "values [arm64]" in str(*protect(profile(one), profile(two), [project], []))
    assert list(protect(profile({}), profile(two), [project], [])) == []


def test_a_projects_limit_falls_back_to_its_parents() -> None:
    """Removing a project's limit could leave a Shoot above the parent's limit."""
    parent = profile({"limits": {"maxNodesTotal": 2}})
    user = shoot(P, "1.31.0", {"name": "w", "minimum": 3})
    (finding,) = protect_namespaced(child({}), child({"limits": {"maxNodesTotal": 9}}), parent, [user], NOW)
    assert "must not exceed the limit of 2" in finding.detail
    assert list(protect_namespaced(child({}), child({}), parent, [user], NOW)) == []


def test_an_extension_in_use_by_a_worker_pool_stays() -> None:
    """The version of a worker pool would suddenly expire."""
    old = child(kubernetes(("1.30.0", lifecycle(expired=FUTURE))))
    user = shoot(P, "1.31.0", {"name": "w", "kubernetes": {"version": "1.30.0"}})
    assert len(list(protect_namespaced(child({}), old, profile(TWO), [user], NOW))) == 1
    assert list(protect_namespaced(child({}), old, profile(TWO), [shoot(P, "1.31.0")], NOW)) == []


def test_a_change_is_compared_once_for_all_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parent with thousands of versions and many children could not be changed within the timeout of a webhook."""
    read = []

    def counted(version: dict[str, Any] | None) -> Any:
        read.append(version)
        return stages_or_none(version)

    monkeypatch.setattr(protection, "stages_or_none", counted)
    before = profile(kubernetes(*((f"1.30.{patch}", EXPIRED) for patch in range(50))))
    after = profile(kubernetes(*((f"1.30.{patch}", {}) for patch in range(50))))
    override = kubernetes(("1.30.7", lifecycle(expired=FUTURE)))
    related = [child(override, name=f"p{number}") for number in range(20)]
    found = list(protect(after, before, related, []))
    assert len(found) == len(related)
    assert len(read) <= 2 * 50 + len(related)
