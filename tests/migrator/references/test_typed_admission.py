"""Admission rules at a version: which stop matching without it, and which do not."""

from __future__ import annotations

from typing import Any

import pytest

from restow.migrator.references.readers.typed import API_SERVICES, api_services, typed_references
from restow.migrator.references.reference import Reference
from tests.migrator.references.found import SPELLINGS, WIDGETS
from tests.migrator.references.spellings import blocks

WEBHOOKS = "validatingwebhookconfigurations.admissionregistration.k8s.io"
POLICIES = "validatingadmissionpolicies.admissionregistration.k8s.io"


def rule(*versions: str, group: str = "example.com", resource: str = "widgets") -> dict[str, Any]:
    """A rule."""
    return {"apiGroups": [group], "apiVersions": list(versions), "resources": [resource], "operations": ["*"]}


def found(*rules: dict[str, Any], policy: str | None = "Equivalent") -> list[Reference]:
    """What is found of one webhook with these rules."""
    webhook = {"name": "a.b.c", "rules": list(rules)} | ({"matchPolicy": policy} if policy else {})
    obj = {"metadata": {"name": "hooks"}, "webhooks": [{"name": "first"}, webhook]}
    return list(typed_references(WEBHOOKS, obj, SPELLINGS))


@pytest.mark.parametrize("policy", ["Exact", "Equivalent", None])
def test_a_rule_at_the_version_alone_stops_matching(policy: str | None) -> None:
    """A check that is silently gone admits what it was made to refuse."""
    (one,) = found(rule("v1"), policy=policy)
    assert one.where == "/webhooks/1/rules/0/apiVersions/0"
    # A rule with Exact loses only requests at the version itself, of which none is left.
    assert one.effect.against_removal is (policy != "Exact")
    assert not one.effect.against_unserving  # an equivalent request is converted to it still


@pytest.mark.parametrize("rules", [[rule("v1", "v2")], [rule("v1"), rule("v2")], [rule("v1"), rule("*")]])
def test_a_rule_with_another_served_version_goes_on(rules: list[dict[str, Any]]) -> None:
    """Such a rule is to be tidied, and must not block a release."""
    assert [each.effect.against_unserving for each in found(*rules)] == [False]


@pytest.mark.parametrize(
    "other", [rule("v2"), rule("*"), rule("v1", group="b.c"), rule("v1", resource="gadgets"), {"apiVersions": "v1"}, {}]
)
def test_rules_of_others_are_none(other: dict[str, Any]) -> None:
    """Each cluster has hundreds of rules at a version called v1."""
    assert found(other) == []


@pytest.mark.parametrize(
    "more", [{"group": "*"}, {"resource": "*"}, {"resource": "widgets/status"}, {"resource": "*/*"}]
)
def test_wildcards_and_subresources_match(more: dict[str, Any]) -> None:
    """A rule of all groups that names the version matches the kind's requests too."""
    assert len(found(rule("v1", **more))) == 1


def test_policies_have_rules_and_a_kind_of_parameters() -> None:
    """A policy whose parameters cannot be read refuses, or admits, everything that it matches."""
    spec = {"matchConstraints": {"matchPolicy": "Exact", "resourceRules": [rule("v1")]}}
    spec["paramKind"] = {"apiVersion": "example.com/v1", "kind": "Widget"}
    obj = {"metadata": {"name": "p"}, "spec": spec}
    matched, parameters = typed_references(POLICIES, obj, SPELLINGS)
    assert matched.where == "/spec/matchConstraints/resourceRules/0/apiVersions/0"
    assert parameters.where == "/spec/paramKind"


@pytest.mark.parametrize(
    ("excluded", "policy", "matched", "stands"),
    [
        (rule("v1"), None, rule("*"), "removal"),
        (rule("v1"), "Equivalent", rule("v2"), "removal"),
        (rule("v1"), "Exact", rule("*"), "nothing"),
        (rule("v1", "v2"), None, rule("*"), "nothing"),
        (rule("*"), None, rule("*"), None),
        (rule("v1"), None, rule("*", resource="gadgets"), None),
    ],
    ids=["default", "Equivalent", "Exact", "both", "all", "of another resource"],
)
def test_an_exclusion_at_the_version_alone_stops_sparing(
    excluded: dict[str, Any], policy: str | None, matched: dict[str, Any], stands: str | None
) -> None:
    """A policy that spared the old version applies to every request once that is gone: each write is refused."""
    constraints = {"resourceRules": [matched], "excludeResourceRules": [excluded]}
    constraints |= {"matchPolicy": policy} if policy else {}
    obj = {"metadata": {"name": "p"}, "spec": {"matchConstraints": constraints}}
    found = [each for each in typed_references(POLICIES, obj, SPELLINGS) if "exclude" in each.where]
    assert [blocks(each) for each in found] == ([] if stands is None else [stands])


def test_only_api_services_that_somebody_made_count() -> None:
    """The API server makes and deletes one for each version of each CRD itself."""
    spec = {"group": "example.com", "version": "v1"}
    own = {"metadata": {"name": "v1.example.com"}, "spec": spec}
    automatic = {"kube-aggregator.kubernetes.io/automanaged": "true"}
    made = {"metadata": {"name": "v1.example.com", "labels": automatic}, "spec": spec}
    assert len(list(api_services(API_SERVICES, own, [WIDGETS]))) == 1
    assert not list(api_services(API_SERVICES, made, [WIDGETS]))
