"""The admission steps: verdicts on requests, given the objects on the API server."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import pytest

from restow.cloudprofile.admission import admission_steps
from restow.cloudprofile.admission.guard import warned
from restow.cloudprofile.conversions import graph
from restow.conversion.reviews.admission import (
    AdmissionRequest,
    AdmissionResponse,
    AdmissionReview,
    GroupVersionKind,
    UserInfo,
)
from restow.crds import Crd
from restow.crds.cloudprofiles import documents
from tests.cloudprofile.memory import Memory
from tests.memory.custom import apply_merge_patch

NOW = datetime(2025, 3, 1, tzinfo=UTC)
GROUP = "core.gardener.cloud"
CRDS = [Crd.from_document(document) for document in documents().values()]
GRAPH = graph(CRDS)
PLURALS = {"CloudProfile": "cloudprofiles", "NamespacedCloudProfile": "namespacedcloudprofiles", "Shoot": "shoots"}
ENDED = {
    "lifecycle": [{"classification": "supported"}, {"classification": "expired", "startTime": "2025-01-01T00:00:00Z"}]
}
ENDING = {
    "lifecycle": [
        {"classification": "supported"},
        {"classification": "deprecated", "startTime": "2025-02-01T00:00:00Z"},
        {"classification": "expired", "startTime": "2026-01-01T00:00:00Z"},
    ]
}
COMING = {"lifecycle": [{"classification": "supported", "startTime": "2025-09-01T00:00:00Z"}]}


def profile(*versions: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    """Return a CloudProfile that is complete except for the given versions and metadata."""
    spec = {
        "type": "local",
        "regions": [{"name": "here"}],
        "machineTypes": [{"name": "t", "cpu": "1", "gpu": "0", "memory": "1Gi"}],
        "machineImages": [{"name": "ubuntu", "versions": [{"version": "1.0.0"}]}],
        "kubernetes": {"versions": list(versions)},
    }
    return {"kind": "CloudProfile", "metadata": {"name": "a", **metadata}, "spec": spec}


PROFILE = profile(
    {"version": "1.31.0"},
    {"version": "1.30.0", **ENDING},
    {"version": "1.29.0", **ENDED},
    {"version": "1.32.0", **COMING},
)


def child(**spec: Any) -> dict[str, Any]:
    """Return a NamespacedCloudProfile of the CloudProfile."""
    parent = {"kind": "CloudProfile", "name": "a"}
    return {
        "kind": "NamespacedCloudProfile",
        "metadata": {"name": "b", "namespace": "ns"},
        "spec": {"parent": parent} | spec,
    }


def shoot(
    version: str = "1.31.0", image: dict[str, Any] | None = None, profile: str = "a", **metadata: Any
) -> dict[str, Any]:
    """Return a Shoot with one worker pool."""
    machine = {"type": "t"} | ({} if image is None else {"image": image})
    return {
        "kind": "Shoot",
        "metadata": {"name": "s", "namespace": "ns", **metadata},
        "spec": {
            "cloudProfile": {"kind": "CloudProfile", "name": profile},
            "kubernetes": {"version": version} if version else {},
            "provider": {"workers": [{"name": "w", "machine": machine, "minimum": 1, "maximum": 1}]},
        },
    }


IMAGE = {"name": "ubuntu", "version": "1.0.0"}
OVERRIDE = {
    "kubernetes": {
        "versions": [
            {"version": "1.30.0", "lifecycle": [{"classification": "expired", "startTime": "2026-06-01T00:00:00Z"}]}
        ]
    }
}


@dataclass
class Asked:
    """One request, and the expected answer."""

    new: dict[str, Any]
    old: dict[str, Any] | None = None
    holds: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    refused: str = ""
    warned: str = ""
    user: str = "operator"
    code: int = HTTPStatus.UNPROCESSABLE_ENTITY
    reads: int | None = None


def request_of(asked: Asked, version: str = "v1beta2") -> AdmissionRequest:
    """Return the request, encoded and decoded as an AdmissionReview."""
    kind, metadata = asked.new["kind"], asked.new["metadata"]
    stamped = [
        None if each is None else {"apiVersion": f"{GROUP}/{version}", **each} for each in (asked.new, asked.old)
    ]

    body = {
        "uid": "u",
        "kind": {"group": GROUP, "version": version, "kind": kind},
        "resource": {"group": GROUP, "version": version, "resource": PLURALS[kind]},
        "operation": "CREATE" if asked.old is None else "UPDATE",
        "name": metadata["name"],
        "namespace": metadata.get("namespace", ""),
        "userInfo": {"username": asked.user, "groups": ["g"]},
        "object": stamped[0],
        "oldObject": stamped[1],
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": body}
    return AdmissionReview.of(json.dumps(review).encode()).request


def memory_of(asked: Asked) -> Memory:
    """Return a server with the profile and the objects of the test; one user holds the custom verbs."""
    memory = Memory(**{"cloudprofiles": [PROFILE]} | asked.holds)
    memory.verbs["operator"] = {"modify-spec-kubernetes", "modify-spec-machineImages", "modify-spec-providerConfig"}
    return memory


async def judged(asked: Asked, memory: Memory | None = None) -> AdmissionResponse:
    """Return the verdict of the validating step for the request's kind."""
    steps = admission_steps(memory or memory_of(asked), GRAPH, CRDS, lambda: NOW, tells_names=True)
    return await steps.validating[PLURALS[asked.new["kind"]]](request_of(asked))


def changed(before: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return an object with a change of its spec."""
    after: dict[str, Any] = apply_merge_patch(copy.deepcopy(before), {"spec": spec})
    return after


def versions(*listed: dict[str, Any]) -> dict[str, Any]:
    """Return a change of the Kubernetes versions."""
    return {"kubernetes": {"versions": list(listed)}}


WITHOUT_OLDEST = changed(
    PROFILE, **versions(*PROFILE["spec"]["kubernetes"]["versions"][:2], {"version": "1.32.0", **COMING})
)
WITHOUT_OVERRIDDEN = changed(
    PROFILE,
    **versions(
        {"version": "1.31.0"},
        {"version": "1.30.0", "lifecycle": ENDING["lifecycle"][:2]},
        *PROFILE["spec"]["kubernetes"]["versions"][2:],
    ),
)
LEAVING = {"deletionTimestamp": "2025-02-01T00:00:00Z"}
TABLE = {
    "a new CloudProfile": Asked(profile({"version": "1.31.0"}), reads=0),
    "one that makes no sense": Asked(profile({"version": "v1"}), refused="spec.kubernetes.versions"),
    "past dates on create only warn": Asked(
        profile({"version": "1.29.0", **ENDED}, {"version": "1.31.0"}), warned="has expired already"
    ),
    "an expired version that nobody uses goes": Asked(WITHOUT_OLDEST, PROFILE, reads=2),
    "one that a Shoot uses stays": Asked(
        WITHOUT_OLDEST,
        PROFILE,
        {"shoots": [shoot("1.29.0")]},
        refused='Kubernetes version "1.29.0" from CloudProfile "a" - version is still in use by shoot \'ns/s\'',
        code=HTTPStatus.FORBIDDEN,
    ),
    "one that a Shoot of a child uses stays": Asked(
        WITHOUT_OLDEST,
        PROFILE,
        {
            "namespacedcloudprofiles": [child()],
            "shoots": [changed(shoot("1.29.0"), cloudProfile={"kind": "NamespacedCloudProfile", "name": "b"})],
        },
        refused="in use by shoot 'ns/s'",
        code=HTTPStatus.FORBIDDEN,
    ),
    "a stage that a child overrides stays": Asked(
        WITHOUT_OVERRIDDEN,
        PROFILE,
        {"namespacedcloudprofiles": [child(**OVERRIDE)]},
        refused="unable to delete the stage expired of version 1.30.0",
        code=HTTPStatus.FORBIDDEN,
    ),
    "a spec that stays is admitted whatever it is": Asked(
        profile({"version": "v1"}, labels={"a": "b"}), profile({"version": "v1"}), reads=0
    ),
    "a new NamespacedCloudProfile": Asked(child()),
    "an override by who may": Asked(child(**OVERRIDE)),
    "an override by who may not": Asked(
        child(**OVERRIDE),
        user="somebody",
        refused='changing spec.kubernetes needs the verb "modify-spec-kubernetes"',
        code=HTTPStatus.FORBIDDEN,
    ),
    "an image by who may not": Asked(
        child(machineImages=[{"name": "mine", "versions": [{"version": "1.0.0"}]}]),
        user="somebody",
        refused='needs the verb "modify-spec-machineImages"',
        code=HTTPStatus.FORBIDDEN,
    ),
    "machine types by anybody": Asked(
        child(machineTypes=[{"name": "x", "cpu": "1", "gpu": "0", "memory": "1Gi"}]), user="somebody"
    ),
    "a child without its parent": Asked(child(), holds={"cloudprofiles": []}, refused="there is no CloudProfile"),
    "a child of a parent that goes": Asked(
        child(), holds={"cloudprofiles": [profile({"version": "1.31.0"}, **LEAVING)]}, refused="is being deleted"
    ),
    "a child whose spec stays needs no verb": Asked(
        child(**OVERRIDE) | {"status": {"observedGeneration": 1}}, child(**OVERRIDE), user="somebody", reads=0
    ),
    "a new Shoot": Asked(shoot(image=IMAGE), reads=1),
    "a Shoot on a deprecated version": Asked(
        shoot("1.30.0", IMAGE), warned='is deprecated and expires "2026-01-01T00:00:00+00:00"'
    ),
    "a new Shoot on an expired version": Asked(
        shoot("1.29.0", IMAGE),
        refused='spec.kubernetes.version: Unsupported value: "1.29.0"',
        code=HTTPStatus.FORBIDDEN,
    ),
    "a new Shoot on a version to come": Asked(
        shoot("1.32.0", IMAGE),
        refused='spec.kubernetes.version: Unsupported value: "1.32.0"',
        code=HTTPStatus.FORBIDDEN,
    ),
    "a Shoot keeps its expired version": Asked(
        changed(shoot("1.29.0", IMAGE), region="here"), shoot("1.29.0", IMAGE), warned="has expired"
    ),
    "a Shoot that stays needs no profile": Asked(
        shoot("1.29.0", IMAGE, labels={"a": "b"}), shoot("1.29.0", IMAGE), {"cloudprofiles": []}, reads=0
    ),
    "a Shoot that goes needs no profile": Asked(
        changed(shoot("1.29.0", IMAGE, **LEAVING), region="x"), shoot("1.29.0", IMAGE), {"cloudprofiles": []}, reads=0
    ),
    "a Shoot without its profile": Asked(shoot(profile="z"), refused='CloudProfile "z" not found'),
    "a new Shoot of a profile that goes": Asked(
        shoot(image=IMAGE),
        holds={"cloudprofiles": [profile({"version": "1.31.0"}, **LEAVING)]},
        refused="is being deleted",
    ),
    "a Shoot of a profile that goes goes on": Asked(
        changed(shoot(image=IMAGE), region="here"),
        shoot(image=IMAGE),
        {"cloudprofiles": [profile({"version": "1.31.0"}, **LEAVING)]},
    ),
    "a Shoot moved to another root": Asked(
        shoot(image=IMAGE, profile="z"),
        shoot(image=IMAGE),
        {"cloudprofiles": [PROFILE, apply_merge_patch(PROFILE, {"metadata": {"name": "z"}})]},
        refused="cloud profile reference change is invalid",
    ),
}


@pytest.mark.parametrize("asked", TABLE.values(), ids=TABLE.keys())
async def test_verdicts(asked: Asked) -> None:
    """Users would get a wrong verdict for a typical request, or a refusal without the object, the field or the rule."""
    memory = memory_of(asked)
    verdict = await judged(asked, memory)
    assert verdict.allowed is not bool(asked.refused), verdict.message
    if asked.refused:
        assert asked.refused in verdict.message
        assert asked.new["metadata"]["name"] in verdict.message
        assert verdict.code == asked.code
    assert any(asked.warned in warning for warning in verdict.warnings) or not asked.warned
    if asked.reads is not None:
        assert len(memory.asked) == asked.reads


@pytest.mark.parametrize(
    ("asked", "request_"),
    [
        (TABLE["an expired version that nobody uses goes"], "list namespacedcloudprofiles"),
        (TABLE["an expired version that nobody uses goes"], "list shoots"),
        (TABLE["an override by who may"], "create subjectaccessreviews"),
        (TABLE["an override by who may"], "get cloudprofiles"),
        (TABLE["a new Shoot"], "get cloudprofiles"),
    ],
)
async def test_what_cannot_be_read_refuses(asked: Asked, request_: str) -> None:
    """A step that fails open would admit requests that it could not check."""
    memory = memory_of(asked)
    memory.refusals[request_] = (500, "etcd is away")
    verdict = await judged(asked, memory)
    assert not verdict.allowed
    assert verdict.code == HTTPStatus.SERVICE_UNAVAILABLE
    assert "cannot be judged" in verdict.message
    assert "etcd is away" in verdict.message


async def test_a_step_refuses_what_it_is_not_for() -> None:
    """A webhook registered for the wrong version would check fields that do not exist, and admit the request."""
    steps = admission_steps(Memory(), GRAPH, CRDS, lambda: NOW)
    verdict = await steps.validating["shoots"](request_of(Asked(shoot()), "v1beta1"))
    assert (verdict.allowed, verdict.code) == (False, HTTPStatus.BAD_REQUEST)


async def test_only_writes_of_whole_objects_are_judged() -> None:
    """A deletion or a write of a status would be refused, although neither has a spec to judge."""
    steps = admission_steps(Memory(), GRAPH, CRDS, lambda: NOW)
    kind = GroupVersionKind(GROUP, "v1beta2", "Shoot")
    resource = request_of(Asked(shoot())).resource
    for more in ({"operation": "DELETE"}, {"operation": "UPDATE", "sub_resource": "status", "object": shoot()}):
        request = AdmissionRequest(uid="u", kind=kind, resource=resource, user_info=UserInfo(), **more)
        assert (await steps.validating["shoots"](request)).allowed


async def test_a_broken_profile_refuses_with_its_name() -> None:
    """A mistake in another user's profile would admit a Shoot, or refuse it without a reason."""
    broken = changed(PROFILE, **versions({"version": "1.31.0", "lifecycle": [{"startTime": "soon"}]}))
    verdict = await judged(Asked(shoot(image=IMAGE), holds={"cloudprofiles": [broken]}))
    assert not verdict.allowed
    assert "has a part that cannot be read" in verdict.message


async def completed(asked: Asked, step: str = "shoot-defaults", version: str = "v1beta2") -> AdmissionResponse:
    """Return the verdict of a mutating step."""
    steps = admission_steps(memory_of(asked), GRAPH, CRDS, lambda: NOW)
    return await steps.mutating[step](request_of(asked, version))


async def test_what_a_shoot_leaves_open_is_filled_in() -> None:
    """A Shoot that names no version, image or architecture would be stored without them and could not be created."""
    verdict = await completed(Asked(shoot("")))
    assert {operation["path"]: operation["value"] for operation in verdict.patch} == {
        "/spec/kubernetes/version": "1.31.0",
        "/spec/provider/workers": [
            {
                "name": "w",
                "machine": {"type": "t", "image": IMAGE, "architecture": "amd64"},
                "minimum": 1,
                "maximum": 1,
            }
        ],
    }


async def test_what_cannot_be_filled_in_refuses() -> None:
    """A Shoot would be stored with half of its defaults."""
    verdict = await completed(Asked(shoot("1.7")))
    assert not verdict.allowed
    assert "spec.kubernetes.version" in verdict.message


async def test_nothing_is_filled_in_where_the_spec_stays() -> None:
    """A migration would change the specs of objects."""
    assert (await completed(Asked(shoot("", labels={"a": "b"}), shoot("")))).patch == ()


async def test_nothing_is_filled_in_of_a_shoot_in_deletion() -> None:
    """A Shoot whose profile has no images any more could not be deleted."""
    deleting = changed(shoot("", **LEAVING), region="x")
    assert (await completed(Asked(deleting, shoot("")))).patch == ()


@pytest.mark.parametrize(
    ("spec", "patch"),
    [
        (
            {"cloudProfileName": "a", "kubernetes": {"version": "1.31.0"}},
            [{"op": "add", "path": "/spec/cloudProfile", "value": {"name": "a", "kind": "CloudProfile"}}],
        ),
        (
            {"cloudProfile": {"kind": "CloudProfile", "name": "a"}, "kubernetes": {"version": "1.31.0"}},
            [{"op": "add", "path": "/spec/cloudProfileName", "value": "a"}],
        ),
        ({"cloudProfile": {"kind": "NamespacedCloudProfile", "name": "b"}, "kubernetes": {"version": "1.31.0"}}, []),
    ],
)
async def test_the_two_names_of_a_profile_are_synced(spec: dict[str, Any], patch: list[dict[str, Any]]) -> None:
    """Clients of v1beta1 that read only one of the two fields would not see what others wrote to the other."""
    new = {"kind": "Shoot", "metadata": {"name": "s", "namespace": "ns"}, "spec": spec}
    verdict = await completed(Asked(new), "shoot-reference", "v1beta1")
    assert list(verdict.patch) == patch


async def test_old_clients_are_warned() -> None:
    """A client of v1beta1 would believe that its edit changed the classification."""
    stored = {
        **PROFILE,
        "apiVersion": f"{GROUP}/v1beta2",
        "status": {"kubernetes": {"versions": [{"version": "1.30.0", "classification": "deprecated"}]}},
    }
    shown = GRAPH.convert(stored, f"{GROUP}/v1beta1")
    sent = copy.deepcopy(shown)
    for version in sent["spec"]["kubernetes"]["versions"]:
        if version["version"] == "1.30.0":
            version["classification"] = "supported"
    verdict = await completed(Asked(sent, shown), "cloudprofile-old-clients", "v1beta1")
    assert verdict.allowed
    assert any("1.30.0" in warning for warning in verdict.warnings)


def test_warnings_stay_within_bounds() -> None:
    """An API server would cut off warnings that are too long, and drop those beyond its limit."""
    verdict = warned(AdmissionResponse(), [*(f"{number}" for number in range(40)), "0", "x" * 1000])
    assert len(verdict.warnings) == 16
    assert verdict.warnings[-1] == "and 26 more warnings like these"
    assert len(warned(AdmissionResponse(), ["x" * 1000]).warnings[0]) == 256


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        (
            Asked(changed(shoot(), kubernetes={"version": 1.31})),
            "spec.kubernetes.version: Invalid value: must be a string",
        ),
        (Asked(changed(shoot(), provider={"workers": "w"})), "spec.provider.workers: Invalid value: must be a list"),
        (Asked(changed(shoot(), provider={"workers": ["w"]})), "workers[0]: Invalid value: must be an object"),
    ],
)
async def test_wrong_types_are_told_before_any_rule_reads_them(asked: Asked, refused: str) -> None:
    """A rule would raise on a number as a version, because mutating steps run before the server's validation."""
    for verdict in (await completed(asked), await judged(asked)):
        assert (verdict.allowed, verdict.code) == (False, HTTPStatus.UNPROCESSABLE_ENTITY)
        assert refused in verdict.message
        assert "1.31" not in verdict.message, "never a value"


async def test_wrong_types_in_profiles_are_told() -> None:
    """Values of a wrong type, such as ``startTime: 2025``, would raise, or a long list would exceed the timeout."""
    stage = {"classification": "expired", "startTime": 2025}
    verdict = await judged(Asked(profile({"version": "1.31.0", "lifecycle": [stage]})))
    assert "lifecycle[0].startTime: Invalid value: must be a string, not a number" in verdict.message
    verdict = await judged(Asked(profile(*[{"version": "1.31.0"}] * 10_000)))
    assert "spec.kubernetes.versions: Invalid value: has 10000 items, at most 250 are allowed" in verdict.message


async def test_who_is_not_known_is_told_no_names(caplog: pytest.LogCaptureFixture) -> None:
    """An unauthenticated sender of a made-up request could read the names of tenants' Shoots."""
    users = [shoot("1.29.0") | {"metadata": {"name": name, "namespace": "secret"}} for name in ("s1", "s2")]
    memory = memory_of(Asked(WITHOUT_OLDEST, PROFILE, {"shoots": users}))
    steps = admission_steps(memory, GRAPH, CRDS, lambda: NOW)
    with caplog.at_level("INFO"):
        verdict = await steps.validating["cloudprofiles"](request_of(Asked(WITHOUT_OLDEST, PROFILE)))
    assert "version is still in use by 2 shoots (the operator's log names the objects)" in verdict.message
    assert "secret" not in verdict.message
    assert "secret/s1" in caplog.text and "secret/s2" in caplog.text


async def test_an_update_that_leaves_a_spec_of_wrong_types_is_admitted() -> None:
    """A migration, or the removal of a finalizer, would fail because of values of a wrong type stored long ago."""
    stored = changed(shoot(), kubernetes={"version": 1.31})
    verdict = await judged(Asked({**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}}, stored))
    assert verdict.allowed
