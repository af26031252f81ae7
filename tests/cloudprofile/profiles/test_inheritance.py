"""The rules for a project against its parent, with lifecycles; the plain form is in the cases."""

from __future__ import annotations

from typing import Any

import pytest

from restow.cloudprofile.findings import ValidationFinding, ValidationVerdict
from restow.cloudprofile.profiles.admission import judge_namespaced
from tests.cloudprofile.profiles.test_requirements import EXPIRED, FUTURE, NOW, PAST, lifecycle

_LATER = "2025-06-01T00:00:00Z"

PARENT = {
    "metadata": {"name": "parent"},
    "spec": {
        "kubernetes": {
            "versions": [
                {"version": "1.32.0"},
                {"version": "1.31.0", **lifecycle(preview=None, supported="2024-12-01T00:00:00Z", deprecated=_LATER)},
                {"version": "1.30.0", **EXPIRED},
            ]
        },
        "machineImages": [
            {"name": "ubuntu", "versions": [{"version": "1.0"}, {"version": "2.0", **lifecycle(supported=None)}]}
        ],
    },
}


def project(
    kubernetes: list[dict[str, Any]] | None = None, images: list[dict[str, Any]] | None = None, **rest: Any
) -> dict[str, Any]:
    """Return a NamespacedCloudProfile of PARENT."""
    spec = {"parent": {"kind": "CloudProfile", "name": "parent"}, **rest}
    if kubernetes is not None:
        spec["kubernetes"] = {"versions": kubernetes}
    if images is not None:
        spec["machineImages"] = images
    return {"metadata": {"name": "p", "namespace": "ns"}, "spec": spec}


def ubuntu(*versions: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parent's image with these versions."""
    return [{"name": "ubuntu", "versions": list(versions)}]


def judged(new: dict[str, Any], old: dict[str, Any] | None = None) -> ValidationVerdict:
    """Return the verdict on a request."""
    return judge_namespaced(new, old, parent=PARENT, shoots=(), now=NOW)


def fields(verdict: ValidationVerdict) -> list[str]:
    """Return the fields that are refused."""
    return [finding.field for finding in verdict.findings]


_V, _I = "spec.kubernetes.versions[0]", "spec.machineImages[0].versions[0]"


@pytest.mark.parametrize(
    ("version", "refused"),
    [
        pytest.param({"version": "1.31.0", **lifecycle(deprecated=FUTURE)}, [], id="a stage is moved"),
        pytest.param({"version": "1.31.0", **lifecycle(supported=FUTURE)}, [], id="a stage is postponed"),
        pytest.param({"version": "1.31.0", **lifecycle(expired=_LATER)}, [], id="an expiration is set (GEP-25)"),
        pytest.param(
            {"version": "1.31.0", **lifecycle(deprecated=FUTURE, expired=_LATER)}, [], id="both: expired may be added"
        ),
        pytest.param({"version": "1.32.0", **lifecycle(supported=PAST)}, [], id="the implicit stage is moved"),
        pytest.param(
            {"version": "1.32.0", **lifecycle(preview=None, supported=FUTURE)},
            [f"{_V}.lifecycle[0].classification"],
            id="a stage that the parent lacks is introduced",
        ),
        pytest.param(
            {"version": "1.30.0", **lifecycle(deprecated=FUTURE)},
            [f"{_V}.lifecycle[0].classification"],
            id="another stage than expired is introduced",
        ),
        pytest.param({"version": "1.30.0", **lifecycle(expired=_LATER)}, [], id="an expired version is extended"),
        pytest.param({"version": "1.31.0"}, [f"{_V}.lifecycle"], id="nothing is overridden"),
        pytest.param({"version": "1.31.0", "lifecycle": []}, [f"{_V}.lifecycle"], id="with no stages"),
        pytest.param({"version": "1.29.0", **lifecycle(expired=_LATER)}, [f"{_V}.version"], id="an unknown version"),
        pytest.param(
            {"version": "1.31.0", **lifecycle(expired=_LATER, supported=FUTURE)},
            [f"{_V}.lifecycle[1].classification", f"{_V}.lifecycle[1]"],
            id="an override is out of order",
        ),
    ],
)
def test_overrides_of_kubernetes_versions(version: dict[str, Any], refused: list[str]) -> None:
    """A project could give itself stages that its parent lacks, or could not move those that it has."""
    assert fields(judged(project([version]))) == refused


@pytest.mark.parametrize(
    ("version", "refused"),
    [
        pytest.param({"version": "1.0", **lifecycle(expired=_LATER)}, [], id="an expiration is set"),
        pytest.param({"version": "2.0", **lifecycle(supported=PAST)}, [], id="a stage is moved"),
        pytest.param(
            {"version": "2.0", **lifecycle(preview=PAST)}, [f"{_I}.lifecycle[0].classification"], id="foreign"
        ),
        pytest.param({"version": "2.0"}, [f"{_I}.lifecycle"], id="nothing is overridden"),
        pytest.param(
            {"version": "2.0", **lifecycle(expired=_LATER), "inPlaceUpdates": {"supported": True}},
            [f"{_I}.inPlaceUpdates"],
            id="something else is overridden",
        ),
        pytest.param(
            {"version": "2.0", **lifecycle(expired=_LATER, supported=PAST)},
            [f"{_I}.lifecycle[1].classification", f"{_I}.lifecycle[1]"],
            id="an override is out of order",
        ),
        pytest.param({"version": "3.0"}, [], id="a version of its own, with Gardener's defaults"),
        pytest.param({"version": "3.0", **lifecycle(preview=None, supported=FUTURE)}, [], id="with its own lifecycle"),
        pytest.param({"version": "3.0", "cri": [{"name": "docker"}]}, [f"{_I}.cri[0].name"], id="with a fault"),
    ],
)
def test_overrides_of_image_versions(version: dict[str, Any], refused: list[str]) -> None:
    """A project could change its parent's images, or could not bring its own."""
    assert fields(judged(project(images=ubuntu(version)))) == refused


def test_an_image_of_the_projects_own_is_complete() -> None:
    """A project could offer an image without its architectures and runtimes."""
    path = "spec.machineImages[0]"
    bare = [{"name": "mine", "versions": [{"version": "1.0"}]}]
    missing = [f"{path}.updateStrategy", f"{path}.versions[0].cri", f"{path}.versions[0].architectures"]
    assert fields(judged(project(images=bare))) == missing
    runs = {"version": "1.0", "cri": [{"name": "containerd"}], "architectures": ["arm64"]}
    assert (
        judged(project(images=[{"name": "mine", "updateStrategy": "minor", "versions": [runs]}])) == ValidationVerdict()
    )


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        pytest.param([], {"version": "1.31.0", **lifecycle(expired=PAST)}, True, id="added"),
        pytest.param([lifecycle(expired=_LATER)], {"version": "1.31.0", **lifecycle(expired=PAST)}, True, id="moved"),
        pytest.param(
            [lifecycle(expired=PAST)], {"version": "1.31.0", **lifecycle(expired=PAST)}, False, id="unchanged"
        ),
        pytest.param(
            [{"expirationDate": PAST}], {"version": "1.31.0", **lifecycle(expired=PAST)}, False, id="in the other form"
        ),
        pytest.param([], {"version": "1.30.0", **lifecycle(expired=PAST)}, True, id="not shown before"),
    ],
)
def test_no_override_moves_an_expiration_into_the_past(
    old: list[dict[str, Any]], new: dict[str, Any], refused: bool
) -> None:
    """A project could expire a version under its Shoots, retroactively."""
    before = project([{"version": "1.31.0", **fields} for fields in old])
    after = project([new], limits={"maxNodesTotal": 7})
    verdict = judged(after, before)
    assert verdict.allowed is not refused
    assert all("is in the past" in finding.detail for finding in verdict.findings)


def test_what_the_status_shows_already_may_be_said() -> None:
    """A project could not take over an expiration that its parent already has."""
    old = {**project([]), "status": {"cloudProfileSpec": PARENT["spec"]}}
    assert judged(project([{"version": "1.30.0", **lifecycle(expired=PAST)}]), old).allowed


def test_a_new_profile_with_expired_versions_is_warned_of() -> None:
    """A project could not be restored once one of its overrides has expired."""
    verdict = judged(project([{"version": "1.31.0", **lifecycle(expired=PAST)}]))
    assert verdict.allowed
    assert [warning.field for warning in verdict.warnings] == [_V]


def test_an_available_version_does_not_become_unavailable() -> None:
    """Shoots would run a version that is not available."""
    new = project([{"version": "1.32.0", **lifecycle(supported=FUTURE)}])
    (finding,) = judged(new, project()).findings
    assert finding.field == "status.cloudProfileSpec.kubernetes.versions[0]"
    assert "cannot be turned unavailable" in finding.detail
    images = project(images=ubuntu({"version": "2.0", **lifecycle(supported=FUTURE)}))
    assert fields(judged(images, project())) == ["status.cloudProfileSpec.machineImages[0].versions[1]"]


def test_an_update_strategy_may_be_overridden_and_changed() -> None:
    """A project could choose an update strategy once and never change it."""
    old = project(images=[{"name": "ubuntu", "updateStrategy": "minor"}])
    assert judged(project(images=[{"name": "ubuntu", "updateStrategy": "patch"}]), old) == ValidationVerdict()
    assert judged(project(images=[{"name": "ubuntu"}]), old) == ValidationVerdict()
    assert fields(judged(project(images=[{"name": "ubuntu", "updateStrategy": "weekly"}]), old)) == [
        "spec.machineImages[0].updateStrategy"
    ]


def test_a_version_that_the_parent_has_since_may_still_change_its_stages() -> None:
    """A project could not set the end of its own version once the parent has that version too."""
    own = {"version": "1.0", "cri": [{"name": "containerd"}], "architectures": ["amd64"]}
    old = project(images=ubuntu(own))
    assert judged(project(images=ubuntu({**own, **lifecycle(supported=None, expired=_LATER)})), old).allowed
    assert fields(judged(project(images=ubuntu({**own, "architectures": ["arm64"]})), old)) == [_I]


def test_a_profile_of_no_parent_is_refused_with_its_name() -> None:
    """An operator would not learn which parent is missing."""
    verdict = judge_namespaced(project(), None, parent=None, shoots=(), now=NOW)
    assert [str(finding) for finding in verdict.findings] == [
        'spec.parent.name: Invalid value: parent CloudProfile could not be found: there is no CloudProfile "parent"'
    ]


def test_a_parent_that_cannot_be_read_is_said() -> None:
    """A broken parent would end the webhook with an error, and refuse all requests of its projects."""
    versions = [{"version": "1.31.0", **lifecycle(supported=None, expired="soon")}]
    parent = {"metadata": {"name": "parent"}, "spec": {"kubernetes": {"versions": versions}}}
    new = project([{"version": "1.31.0", **lifecycle(supported=PAST)}])
    (finding,) = judge_namespaced(new, None, parent=parent, shoots=(), now=NOW).findings
    assert isinstance(finding, ValidationFinding)
    assert finding.field == "spec.parent"
