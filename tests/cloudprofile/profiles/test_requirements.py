"""The versioning policy: "Version Requirements" of the document, applied to the changes of a request."""

from __future__ import annotations

from typing import Any

import pytest

from restow.cloudprofile.findings import Remark, ValidationFinding, ValidationWarning
from restow.cloudprofile.profiles.requirements import adding, deleting
from restow.cloudprofile.versions.lifecycle import parse_time

NOW = parse_time("2025-01-15T12:00:00Z")
PAST, FUTURE = "2025-01-14T00:00:00Z", "2025-01-16T00:00:00Z"


def kubernetes(*versions: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a spec with these Kubernetes versions."""
    return {"kubernetes": {"versions": [{"version": name, **fields} for name, fields in versions]}}


def image(*versions: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a spec with one image of these versions."""
    return {"machineImages": [{"name": "ubuntu", "versions": [{"version": name, **rest} for name, rest in versions]}]}


def lifecycle(**starts: str | None) -> dict[str, Any]:
    """Return a version's lifecycle."""
    return {
        "lifecycle": [
            {"classification": name} | ({"startTime": start} if start else {}) for name, start in starts.items()
        ]
    }


PREVIEW, SUPPORTED = lifecycle(preview=None), lifecycle(supported=None)
LEGACY_PREVIEW = {"classification": "preview"}
EXPIRED = lifecycle(supported=None, expired=PAST)
EXPIRING = lifecycle(supported=None, expired=FUTURE)


def said(remarks: list[Remark]) -> list[tuple[str, str]]:
    """Return the refusals and warnings, with their fields."""
    return [("refused" if isinstance(remark, ValidationFinding) else "warned", remark.field) for remark in remarks]


_V = "spec.kubernetes.versions"


@pytest.mark.parametrize("make", [kubernetes, image], ids=["Kubernetes", "image"])
@pytest.mark.parametrize(
    ("before", "after", "refused"),
    [
        pytest.param([], [("1.30.0", EXPIRED)], True, id="added as expired"),
        pytest.param([], [("1.30.0", {"expirationDate": PAST})], True, id="added as expired, in the plain form"),
        pytest.param([], [("1.30.0", lifecycle(expired=None))], True, id="added as always expired"),
        pytest.param([], [("1.30.0", EXPIRING)], False, id="added with an end"),
        pytest.param([("1.30.0", {})], [("1.30.0", EXPIRED)], True, id="moved into the past"),
        pytest.param([("1.30.0", EXPIRING)], [("1.30.0", EXPIRED)], True, id="moved from the future into the past"),
        pytest.param([("1.30.0", EXPIRED)], [("1.30.0", EXPIRED)], False, id="left as it is"),
        pytest.param([("1.30.0", EXPIRED)], [("1.30.0", EXPIRING)], False, id="extended"),
        pytest.param(
            [("1.30.0", EXPIRED)], [("1.30.0", {"expirationDate": "2025-01-14T01:00:00+01:00"})], False, id="rewritten"
        ),
        pytest.param(
            [("1.30.0", EXPIRED)],
            [("1.30.0", lifecycle(preview=None, supported="2024-01-01T00:00:00Z", expired=PAST))],
            False,
            id="another stage of an expired version changed",
        ),
        pytest.param(
            [("1.30.0", EXPIRED)],
            [("1.30.0", lifecycle(supported=None, expired="2025-01-13T00:00:00Z"))],
            True,
            id="moved further into the past",
        ),
    ],
)
def test_no_expiration_in_the_past(make: Any, before: Any, after: Any, refused: bool) -> None:
    """The policy's "must not have an expiration date in the past" would not spare Shoots a sudden forced update."""
    remarks = list(adding(make(*after), make(*before), NOW))
    path = f"{_V}[0]" if make is kubernetes else "spec.machineImages[0].versions[0]"
    assert said(remarks) == ([("refused", path)] if refused else [])


@pytest.mark.parametrize("make", [kubernetes, image], ids=["Kubernetes", "image"])
def test_a_whole_profile_may_have_expired_versions(make: Any) -> None:
    """A profile could not be restored, or applied again by GitOps, once one of its versions has expired."""
    (warning,) = adding(make(("1.30.0", EXPIRED)), None, NOW)
    assert isinstance(warning, ValidationWarning)
    assert "1.30.0 has expired already" in warning.detail


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param([("1.31.1", {})], [("1.31.1", {}), ("1.31.0", PREVIEW)], [("refused", 1)], id="a lower preview"),
        pytest.param(
            [("1.31.1", {})], [("1.31.1", {}), ("1.31.0", LEGACY_PREVIEW)], [("refused", 1)], id="in the plain form"
        ),
        pytest.param([("1.31.1", {})], [("1.31.1", {}), ("1.31.2", PREVIEW)], [], id="the latest is a preview"),
        pytest.param([("1.32.1", {})], [("1.32.1", {}), ("1.31.0", PREVIEW)], [], id="a preview of a lower minor"),
        pytest.param(
            [("1.31.1", EXPIRED)],
            [("1.31.1", EXPIRED), ("1.31.0", PREVIEW)],
            [("refused", 1)],
            id="above is an expired one",
        ),
        pytest.param(
            [("1.31.1", lifecycle(preview=FUTURE))],
            [("1.31.1", lifecycle(preview=FUTURE)), ("1.31.0", PREVIEW)],
            [],
            id="above is one that is not available yet",
        ),
        pytest.param(
            [("1.31.1", {}), ("1.31.0", {})],
            [("1.31.1", {}), ("1.31.0", PREVIEW)],
            [("refused", 1)],
            id="turned into a preview",
        ),
        pytest.param(
            [("1.31.1", {}), ("1.31.0", PREVIEW)],
            [("1.31.1", {}), ("1.31.0", PREVIEW), ("1.30.0", {})],
            [],
            id="not touched by the request",
        ),
        pytest.param(None, [("1.31.1", {}), ("1.31.0", PREVIEW)], [("refused", 1), ("refused", 0)], id="created so"),
    ],
)
def test_a_preview_is_the_latest_patch(before: Any, after: Any, expected: list[tuple[str, int]]) -> None:
    """The policy's "Preview versions must be the latest (semVer) patch version of that minor" would be violated."""
    remarks = list(adding(kubernetes(*after), kubernetes(*before) if before is not None else None, NOW))
    assert sorted(said(remarks)) == sorted((word, f"{_V}[{index}]") for word, index in expected)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param([("1.31.1", PREVIEW)], [("1.31.1", PREVIEW), ("1.31.2", SUPPORTED)], [("refused", 1)], id="above"),
        pytest.param([("1.31.1", PREVIEW)], [("1.31.1", PREVIEW), ("1.31.2", {})], [("refused", 1)], id="unclassified"),
        pytest.param([("1.31.1", PREVIEW)], [("1.31.1", PREVIEW), ("1.31.0", SUPPORTED)], [], id="below"),
        pytest.param([("1.31.1", PREVIEW)], [("1.31.1", PREVIEW), ("1.32.0", {})], [("warned", 1)], id="another minor"),
        pytest.param(
            [("1.31.1", PREVIEW)],
            [("1.31.1", PREVIEW), ("1.31.2", lifecycle(deprecated=None))],
            [],
            id="a deprecated one is not supported",
        ),
        pytest.param(
            [("1.31.1", PREVIEW), ("1.31.2", PREVIEW)],
            [("1.31.1", PREVIEW), ("1.31.2", SUPPORTED)],
            [("refused", 1)],
            id="promoted past a preview",
        ),
        pytest.param(
            [("1.31.1", PREVIEW), ("1.31.2", {})],
            [("1.31.1", PREVIEW), ("1.31.2", {}), ("1.30.0", {})],
            [],
            id="not touched by the request",
        ),
    ],
)
def test_supported_is_below_all_previews(before: Any, after: Any, expected: list[tuple[str, int]]) -> None:
    """The policy's "Supported versions have to be lower (semVer) than all preview versions" would be violated."""
    remarks = list(adding(kubernetes(*after), kubernetes(*before), NOW))
    assert said(remarks) == [(word, f"{_V}[{index}]") for word, index in expected]


def test_images_have_no_order_of_previews() -> None:
    """The document's rule for Kubernetes versions would apply to images, whose versions follow no such order."""
    assert list(adding(image(("1.1", {}), ("1.0", PREVIEW)), image(("1.1", {})), NOW)) == []


@pytest.mark.parametrize(
    ("fields", "classification"),
    [
        ({}, "supported"),
        (PREVIEW, "preview"),
        (lifecycle(deprecated=None), "deprecated"),
        (lifecycle(preview=FUTURE), None),
        (EXPIRING, "supported"),
        (EXPIRED, None),
        ({"expirationDate": PAST}, None),
    ],
)
def test_only_versions_that_nobody_can_use_are_deleted(fields: dict[str, Any], classification: str | None) -> None:
    """The rule "Only Kubernetes versions that have an expiration date in the past, can be deleted" would not hold."""
    kept = ("1.31.0", {})
    remarks = list(deleting(kubernetes(kept), kubernetes(kept, ("1.30.0", fields)), NOW))
    assert said(remarks) == ([] if classification is None else [("refused", _V)])
    if classification:
        assert f'"1.30.0": it is {classification}' in str(remarks[0])


def test_an_image_version_may_go_early_with_a_warning() -> None:
    """An image that must be removed at once would have to expire first, which the document asks only of Kubernetes."""
    assert said(list(deleting(image(), image(("1.0", {})), NOW))) == [("warned", "spec.machineImages")]
    assert said(list(deleting({}, image(("1.0", {})), NOW))) == [("warned", "spec.machineImages")]
    assert list(deleting({}, image(("1.0", EXPIRED)), NOW)) == []


def test_what_cannot_be_read_is_left_to_validation() -> None:
    """A mistyped version or time would end the webhook with an error instead of a finding."""
    broken = kubernetes(("x", {}), ("1.30.0", {"expirationDate": "soon"}), ("1.31.0", lifecycle(old=None)))
    assert list(adding(broken, {}, NOW)) == []
    assert said(list(deleting({}, broken, NOW))) == [("refused", _V)]  # "x" need not be parsed for this rule
