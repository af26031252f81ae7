"""Shoots against profiles, in Gardener's cases: references, moves, defaults, admission."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from restow.cloudprofile.admission import webhook_configurations
from restow.cloudprofile.findings import ValidationFinding
from restow.cloudprofile.objects import profile_of
from restow.cloudprofile.shoots.defaulting import default_kubernetes_version
from restow.cloudprofile.shoots.versions import change_findings, worker_findings
from tests.cloudprofile.cases import Case, assert_answer, load, now_of, params
from tests.cloudprofile.requests import answer_to, offering, server_of, whole, written
from tests.cloudprofile.served import HUB, OLD, Answer, ApiServer, at_version

MOVES, ADMISSION = "shoot_profile", "shoot_admission"


def assert_static(found: tuple[ValidationFinding, ...], expected: dict[str, Any]) -> None:
    """Compare findings with expected errors that have only a type and a detail."""
    known = [(error["type"], error["detail"]) for error in expected["errors"]]
    assert len(found) == len(known)
    for finding, (kind, detail) in zip(found, known, strict=True):
        assert finding.type == kind and detail in finding.detail


@pytest.mark.parametrize("case", params(load(MOVES, "moves")))
def test_moves(case: Case) -> None:
    """A Shoot could move to another family of profiles, and run on an offer that its operators never made."""
    given = case["input"]
    new, old = whole(given["newShoot"]), whole(given["oldShoot"])
    kinds = ("cloudProfiles", "namespacedCloudProfiles")
    held = {
        kind: [offering(each, [new, old], machines=False) for each in given["existing"].get(kind) or ()]
        for kind in kinds
    }
    assert_answer(answer_to(server_of(case, held), "Shoot", new, old), case["expected"])


@pytest.mark.parametrize("case", params(load(MOVES, "references")))
def test_reference(case: Case) -> None:
    """A Shoot would be checked against a profile other than its own."""
    reference = profile_of(at_version(written(case["input"]["shoot"], "Shoot"), HUB))
    assert reference is not None
    assert {"kind": reference.kind, "name": reference.name} == case["expected"]["reference"]


@pytest.mark.parametrize("case", params(load(MOVES, "sync")))
def test_sync(case: Case) -> None:
    """Clients that read ``cloudProfileName`` and clients that read ``cloudProfile`` would see different profiles."""
    given, expected = case["input"], case["expected"]
    shoots = [each for each in (given["newShoot"], given["oldShoot"]) if each]
    answer = sent_at_v1beta1(case, given["newShoot"], given["oldShoot"], profiles_named(shoots))
    if "errors" in expected:
        assert_answer(answer, expected)
        return
    spec = answer.at(OLD)["spec"]
    assert {name: spec.get(name) for name in ("cloudProfileName", "cloudProfile")} == expected


def profiles_named(shoots: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the profiles that Shoots of a case name, all of one family, with the versions of the Shoots."""
    numbers = dict.fromkeys((each["spec"].get("kubernetes") or {}).get("version") or NUMBER for each in shoots)
    spec = {"kubernetes": {"versions": [{"version": number} for number in numbers]}}
    names = dict.fromkeys(each["spec"].get("cloudProfileName") for each in shoots)
    references = [each["spec"].get("cloudProfile") or {} for each in shoots]
    names |= dict.fromkeys(each.get("name") for each in references if each.get("kind") != NAMESPACED)
    children = {
        each["name"]: shoot for each, shoot in zip(references, shoots, strict=True) if each.get("kind") == NAMESPACED
    }
    root = next(filter(None, names), "root")
    return {
        "cloudProfiles": [{"metadata": {"name": name}, "spec": spec} for name in names if name]
        or [{"metadata": {"name": root}, "spec": spec}],
        "namespacedCloudProfiles": [
            {
                "metadata": {"name": name, "namespace": shoot["metadata"]["namespace"]},
                "spec": {"parent": {"kind": "CloudProfile", "name": root}},
                "status": {"cloudProfileSpec": spec},
            }
            for name, shoot in children.items()
        ],
    }


NUMBER = "1.30.0"
NAMESPACED = "NamespacedCloudProfile"


def sent_at_v1beta1(
    case: Case, new: dict[str, Any], old: dict[str, Any] | None, held: dict[str, list[dict[str, Any]]]
) -> Answer:
    """Return the answer to a client of v1beta1, where a Shoot has both fields of its profile."""
    server = server_of(case, held)
    sent = written(whole(new), "Shoot", OLD)
    if old is None:
        return server.create(sent)
    before = {**old, "spec": {"kubernetes": sent["spec"]["kubernetes"], **old["spec"]}}
    return server.update(sent, written(whole(before), "Shoot", OLD))


@pytest.mark.parametrize("case", params(load(MOVES, "static references")))
def test_static_reference(case: Case) -> None:
    """A Shoot without a profile, or with an unknown kind of profile, would be checked further and raise an error."""
    given = case["input"]
    spec = {name: given[name] for name in ("cloudProfile", "cloudProfileName") if given[name]}
    shoot = {"metadata": {"name": "shoot", "namespace": "left"}, "spec": spec}
    if given["kubernetesVersion"]:
        spec["kubernetes"] = {"version": given["kubernetesVersion"]}
    assert_answer(sent_at_v1beta1(case, shoot, None, profiles_named([shoot])), case["expected"])


@pytest.mark.parametrize("case", params(load(MOVES, "offers")))
def test_offer(case: Case) -> None:
    """A Shoot would be checked against a profile other than its own, or than the rendered one of its namespace."""
    existing, expected = copy.deepcopy(case["input"]["existing"]), case["expected"]
    for profile in existing["cloudProfiles"]:
        profile["spec"] = offer_of(f"CloudProfile/{profile['metadata']['name']}", expected)
    for profile in existing["namespacedCloudProfiles"]:
        place = "{namespace}/{name}".format(**profile["metadata"])
        offer = offer_of(f"NamespacedCloudProfile/{place} status.cloudProfileSpec", expected)
        profile["status"] = {"cloudProfileSpec": offer}
    answer = sent_at_v1beta1(case, case["input"]["shoot"], None, existing)
    assert_answer(answer, {"errors": (), **expected})


def offer_of(place: str, expected: dict[str, Any]) -> dict[str, Any]:
    """Return a profile's spec, with the version of the Shoot if the case expects its offer, else without."""
    number = NUMBER if expected.get("spec of") == place else "1.29.0"
    return {"kubernetes": {"versions": [{"version": number}]}}


@pytest.mark.parametrize("case", params(load(ADMISSION, "version changes")))
def test_static_change(case: Case) -> None:
    """A downgrade or a skipped minor version would break a control plane for good."""
    given = case["input"]
    found = change_findings(
        given["new"], given["old"], "spec.kubernetes.version", may_skip_minor=given["skipMinorAllowed"]
    )
    assert_static(found, case["expected"])


@pytest.mark.parametrize("case", params(load(ADMISSION, "worker skew")))
def test_static_skew(case: Case) -> None:
    """A kubelet would be above its control plane or too far below it, which Kubernetes does not support."""
    found = worker_findings(case["input"]["worker"], case["input"]["controlPlane"], "path")
    assert_static(found, case["expected"])


@pytest.mark.parametrize("case", params(load(ADMISSION, "default version")))
def test_default_kubernetes_version(case: Case) -> None:
    """A Shoot that names no version would get an unsupported one."""
    given = case["input"]
    chosen = default_kubernetes_version(given["versions"], given["shootVersion"], "path", now_of(case))
    if isinstance(chosen, ValidationFinding):
        assert_static((chosen,), case["expected"])
    else:
        assert chosen == case["expected"]["version"]


def server_for(case: Case) -> ApiServer:
    """Return the server of a case, whose profiles also offer the parts that the case is not about."""
    given, existing = case["input"], case["input"]["existing"]
    sent = [given["object"], given.get("oldObject")]
    return server_of(case, {"cloudProfiles": [offering(each, sent) for each in existing.get("cloudProfiles") or ()]})


@pytest.mark.parametrize("case", params(load(ADMISSION, "validation")))
def test_validation(case: Case) -> None:
    """A Shoot would be admitted with parts that its profile does not offer, or no longer offers to new Shoots."""
    given = case["input"]
    if given["operation"] == "DELETE":
        webhooks = webhook_configurations("restow", lambda path: {"path": path})[1]["webhooks"]
        asked = {operation for hook in webhooks for rule in hook["rules"] for operation in rule["operations"]}
        assert ("DELETE" not in asked) is case["expected"]["allowed"]
        return
    answer = answer_to(server_for(case), "Shoot", given["object"], given.get("oldObject"))
    assert_answer(answer, case["expected"])


@pytest.mark.parametrize("case", params(load(ADMISSION, "defaults")))
def test_defaulting(case: Case) -> None:
    """An open field of a Shoot would stay empty, or a set one would change."""
    given = case["input"]
    profiles = given["existing"].get("cloudProfiles") or ()
    profiles = [with_machine_types(offering(each, [given["object"]]), given["object"]) for each in profiles]
    answer = answer_to(server_of(case, {"cloudProfiles": profiles}), "Shoot", given["object"], given.get("oldObject"))
    assert_answer(answer, case["expected"])
    for path, value in case["expected"].get("mutated", {}).items():
        assert at(answer.at(HUB), path) == in_schema(value), path


def with_machine_types(profile: dict[str, Any], shoot: dict[str, Any]) -> dict[str, Any]:
    """Return a profile with the machine types of a Shoot, with the architectures of its pools."""
    spec = profile["spec"]
    types = {each["name"]: each for each in spec.get("machineTypes") or ()}
    for worker in shoot["spec"].get("provider", {}).get("workers", ()):
        machine = worker.get("machine") or {}
        if not (name := machine.get("type")):
            continue
        had = types.get(name, {"name": name, "cpu": "1", "gpu": "0", "memory": "1Gi"})
        stated: dict[str, Any] = {}
        if (architecture := machine.get("architecture")) and spec.get("machineCapabilities"):
            stated = {"capabilities": {"architecture": [architecture]}}
        elif architecture:
            stated = {"architecture": architecture}
        types[name] = had if "capabilities" in had and spec.get("machineCapabilities") else {**had, **stated}
    return {**profile, "spec": {**spec, "machineTypes": [*types.values()]}}


def in_schema(value: Any) -> Any:
    """Return an expected value with the schema's default for worker pools."""
    is_pool = isinstance(value, dict) and "machine" in value
    return {"updateStrategy": "AutoRollingUpdate", **value} if is_pool else value


def at(obj: dict[str, Any], path: str) -> Any:
    """Return the value at a path like ``spec.workers[0].machine``, None if there is none."""
    value: Any = obj
    for step in re.findall(r"[^.\[\]]+", path):
        value = value[int(step)] if step.isdigit() else (value or {}).get(step)
    return value
