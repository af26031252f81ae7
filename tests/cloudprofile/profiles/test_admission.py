"""All rules together, on requests as the API server gets them."""

from __future__ import annotations

import copy
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given

from restow.cloudprofile.findings import ValidationVerdict
from restow.cloudprofile.profiles.admission import judge, judge_namespaced, needed_verbs
from tests.cloudprofile.profiles.test_requirements import EXPIRED, FUTURE, NOW, PAST, kubernetes, lifecycle
from tests.cloudprofile.strategies import moments, profile_specs, project_specs


def profile(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return a CloudProfile."""
    return {"metadata": {"name": "aws", **metadata}, "spec": spec}


def judged(new: dict[str, Any], old: dict[str, Any] | None = None) -> ValidationVerdict:
    """Return the verdict on a request for a CloudProfile without users."""
    return judge(new, old, children=(), shoots=(), now=NOW)


@given(spec=profile_specs, project=project_specs, now=moments)
def test_a_spec_that_stays_is_always_allowed(spec: dict[str, Any], project: dict[str, Any], now: datetime) -> None:
    """A migration of stored objects, or of managedFields, would be refused because versions have expired since."""
    old, new = profile(spec), profile(copy.deepcopy(spec), annotations={"a": "b"})
    assert judge(new, old, children=(), shoots=(), now=now) == ValidationVerdict()
    mine, again = ({"metadata": {"name": "p"}, "spec": copy.deepcopy(project)} for _ in range(2))
    assert judge_namespaced(mine, again, parent=None, shoots=(), now=now) == ValidationVerdict()


@given(spec=profile_specs, old=profile_specs, project=project_specs, now=moments)
def test_every_request_gets_a_verdict_and_stays_as_it_is(
    spec: dict[str, Any], old: dict[str, Any], project: dict[str, Any], now: datetime
) -> None:
    """A request would end the webhook with an error, or its objects would be changed."""
    child = {"metadata": {"name": "p", "namespace": "ns"}, "spec": project}
    before = copy.deepcopy((spec, old, child))
    for replaced in (None, profile(old)):
        judge(profile(spec), replaced, children=[child], shoots=(), now=now)
    for replaced in (None, {**child, "spec": {"parent": project["parent"]}}):
        judge_namespaced(child, replaced, parent=profile(spec), shoots=(), now=now)
    assert (spec, old, child) == before


_WHOLE = {
    "type": "local",
    "regions": [{"name": "here"}],
    "machineTypes": [{"name": "t", "cpu": "1", "gpu": "0", "memory": "1Gi"}],
    "machineImages": [{"name": "ubuntu", "versions": [{"version": "1.0"}]}],
    **kubernetes(("1.31.0", {})),
}


def test_a_whole_profile_passes_without_a_word() -> None:
    """A profile would be refused or warned of without Gardener's defaults written out."""
    assert judged(profile(_WHOLE)) == ValidationVerdict()


@pytest.mark.parametrize("section", ["type", "regions", "machineTypes", "machineImages"])
def test_what_was_never_there_warns_and_what_is_taken_away_is_refused(section: str) -> None:
    """GEP-32's examples would be refused, or a profile could lose its regions by mistake."""
    partial = {name: value for name, value in _WHOLE.items() if name != section}
    created = judged(profile(partial))
    assert created.allowed
    assert [warning.field for warning in created.warnings] == [f"spec.{section}"]
    more = {**partial, "limits": {"maxNodesTotal": 9}}
    assert judged(profile(more), profile(partial)).allowed
    assert [finding.field for finding in judged(profile(partial), profile(_WHOLE)).findings] == [f"spec.{section}"]


def test_a_profile_without_kubernetes_versions_is_refused() -> None:
    """A profile without Kubernetes versions would be stored, although no Shoot can use it."""
    assert not judged(profile({**_WHOLE, "kubernetes": {"versions": []}})).allowed


def test_the_policy_binds_updates() -> None:
    """An update that violates the versioning policy's requirements would be admitted."""
    old = profile({**_WHOLE, **kubernetes(("1.31.0", {}), ("1.30.0", {}), ("1.29.0", EXPIRED))})
    added = {**_WHOLE, **kubernetes(("1.31.0", {}), ("1.30.0", {}), ("1.29.0", EXPIRED), ("1.28.0", EXPIRED))}
    (finding,) = judged(profile(added), old).findings
    assert str(finding) == (
        "spec.kubernetes.versions[3]: Forbidden: version 1.28.0 must not have an expiration in the past: give it one "
        "that is still to come"
    )
    fewer = {**_WHOLE, **kubernetes(("1.31.0", {}), ("1.30.0", {}))}
    assert judged(profile(fewer), old) == ValidationVerdict()
    (finding,) = judged(profile(_WHOLE), old).findings
    assert 'unable to delete Kubernetes version "1.30.0": it is supported' in finding.detail
    assert judged(profile(_WHOLE, deletionTimestamp=PAST), old).allowed


def test_what_others_use_is_protected() -> None:
    """An update that removes a version in use would be admitted."""
    old = profile({**_WHOLE, **kubernetes(("1.31.0", {}), ("1.30.0", EXPIRED))})
    user = {"metadata": {"name": "s", "namespace": "ns"}, "spec": {"kubernetes": {"version": "1.30.0"}}}
    user["spec"]["cloudProfileName"] = "aws"
    verdict = judge(profile(_WHOLE), old, children=(), shoots=[user], now=NOW)
    assert "still in use by shoot 'ns/s'" in str(*verdict.findings)
    parent = {"parent": {"kind": "CloudProfile", "name": "aws"}}
    before = {"metadata": {"name": "p", "namespace": "ns"}, "spec": {**parent, "limits": {"maxNodesTotal": 9}}}
    after = {**before, "spec": {**parent, "limits": {"maxNodesTotal": 1}}}
    user["spec"] = {
        "cloudProfile": {"kind": "NamespacedCloudProfile", "name": "p"},
        "provider": {"workers": [{"name": "w", "minimum": 2}]},
    }
    verdict = judge_namespaced(after, before, parent=old, shoots=[user], now=NOW)
    assert "must not exceed the limit of 1" in str(*verdict.findings)


def test_an_expiring_latest_version_is_warned_of() -> None:
    """The latest version would expire without a warning, or GEP-25's example would be refused."""
    for fields in ({"expirationDate": FUTURE}, lifecycle(supported=None, expired=FUTURE)):
        verdict = judged(profile({**_WHOLE, **kubernetes(("1.30.9", {}), ("1.31.0", fields))}))
        assert verdict.allowed
        assert [warning.field for warning in verdict.warnings] == ["spec.kubernetes.versions[1]"]


@pytest.mark.parametrize(
    ("fields", "allowed"),
    [
        (lifecycle(supported=None), True),
        ({"classification": "supported"}, True),
        ({}, True),
        (lifecycle(expired=PAST), False),
    ],
)
def test_a_bastions_image_is_supported(fields: dict[str, Any], allowed: bool) -> None:
    """A bastion would get an expired image, or a bastion whose image has no stages would be refused."""
    images = [{"name": "ubuntu", "versions": [{"version": "1.0", **fields}]}]
    verdict = judged(profile({**_WHOLE, "machineImages": images, "bastion": {"machineImage": {"name": "ubuntu"}}}))
    assert verdict.allowed is allowed


def test_leading_stages_need_no_start() -> None:
    """A lifecycle without leading starts would be refused (GEP-32: "The leading start dates are optional")."""
    leading = lifecycle(preview=None, supported=None, deprecated=FUTURE)
    assert judged(profile({**_WHOLE, **kubernetes(("1.31.0", leading))})) == ValidationVerdict()
    gap = lifecycle(preview=PAST, supported=None)
    (finding,) = judged(profile({**_WHOLE, **kubernetes(("1.31.0", gap))})).findings
    assert (finding.type, finding.field) == ("Required", "spec.kubernetes.versions[0].lifecycle[1]")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"expirationDate": "2023-08-8T23:59:59Z"}, "expirationDate"),
        (lifecycle(preview="tomorrow"), "lifecycle[0].startTime"),
    ],
)
def test_a_time_that_is_none_is_refused(fields: dict[str, Any], field: str) -> None:
    """A mistyped time, like the one in GEP-25, would be stored and never be reached."""
    (finding,) = judged(profile({**_WHOLE, **kubernetes(("1.31.0", fields))})).findings
    assert (finding.type, finding.field) == ("Invalid", f"spec.kubernetes.versions[0].{field}")


def test_a_private_key_in_a_bundle_is_refused_without_being_repeated() -> None:
    """A secret that is pasted into the wrong field would be in every log."""
    (finding,) = judged(profile({**_WHOLE, "caBundle": "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n"})).findings
    assert finding.field == "spec.caBundle"
    assert "c2VjcmV0" not in str(finding)


def test_verbs_are_needed_for_what_changes() -> None:
    """A change of other fields would need a verb, or a change of versions would need none."""

    def project(**spec: Any) -> dict[str, Any]:
        return {"spec": {"parent": {"kind": "CloudProfile", "name": "aws"}, **spec}}

    versions = {"versions": [{"version": "1.30.0", "expirationDate": FUTURE}]}
    images = [{"name": "a", "versions": []}]
    old = project(kubernetes=versions, machineImages=images)
    assert needed_verbs(old, copy.deepcopy(old)) == ()
    assert needed_verbs(project(kubernetes=versions, machineImages=[{"name": "a"}]), old) == ()
    assert needed_verbs(project(kubernetes=versions), old) == ("modify-spec-machineImages",)
    assert needed_verbs(project(machineImages=images), old) == ("modify-spec-kubernetes",)
    assert needed_verbs(project(kubernetes=versions, machineImages=images, limits={"maxNodesTotal": 1}), old) == ()
    assert needed_verbs(project(providerConfig={"a": 1})) == ("modify-spec-providerConfig",)
    assert needed_verbs(project(machineImages=[])) == ()
