"""The CRDs of the CloudProfile family, judged by the API server: what they take, what they refuse, and in which words.

v1beta2 is tested as shipped, with a conversion webhook that nobody answers; v1beta1 as if it were the only version.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from restow.controlplane.etcd import Etcd
from restow.controlplane.users import ControlPlaneAuthority
from restow.crds.cloudprofiles import documents
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType, Request
from restow.kube.errors import BadRequest, Conflict, Invalid, ServerError
from restow.kube.resources import CRDS
from tests.apiserver.kind import Document, owners, until
from tests.apiserver.profile_api import Api, alone, findings, install, lenient, uninstall, with_cluster, without_value
from tests.apiserver.profile_documents import (
    GEP_25,
    GEP_32,
    GEP_32_BEFORE,
    full_lifecycle,
    gardener_manifest,
    kubernetes,
    lifecycle,
    load,
    machine_type,
    table,
    versions_of,
)
from tests.cloudprofile.cases import load as cases_of
from tests.upstream.files import GARDENER, GARDENER_ALL

#: Where the documents' examples live.
NAMESPACES = ("garden-dev", "garden-local", "project-xyz", "shoot")
CPFL = "cloudprofiles.core.gardener.cloud"
PROFILE, NAMESPACED, SHOOT = "CloudProfile", "NamespacedCloudProfile", "Shoot"

VERSION, IMAGE_VERSION = "spec.kubernetes.versions[0]", "spec.machineImages[0].versions[0]"
ORDER = "stages must stand in the order unavailable, preview, supported, deprecated, expired: put each in its place"
LEADING = "only the first stages can do without startTime, for they have started already: give every later stage one"
MONOTONIC = "a stage cannot start before the one in front of it: give it the same startTime or a later one"
PARENT = "parent cannot be changed, for Shoots rely on it: create another NamespacedCloudProfile instead"

at_v1beta1 = pytest.mark.parametrize("installed", ["v1beta1"], indirect=True)
at_v1beta2 = pytest.mark.parametrize("installed", ["v1beta2"], indirect=True)


@pytest.fixture(scope="module")
def installed(request: pytest.FixtureRequest, kubeconfig: Path) -> Iterator[str]:
    """The CRDs on the server: v1beta2 as they are shipped, v1beta1 alone."""
    version: str = request.param
    crds = documents() if version == "v1beta2" else alone(version)
    with_cluster(kubeconfig, lambda cluster: install(cluster, crds, namespaces=NAMESPACES))
    yield version
    with_cluster(kubeconfig, lambda cluster: uninstall(cluster, list(crds)))


@pytest.fixture
def api(cluster: HttpCluster, installed: str) -> Api:
    """The API at the version that is installed."""
    return Api(cluster, installed)


def image(**version: Any) -> Document:
    """A spec with one machine image of one version."""
    return {"kubernetes": {}, "machineImages": [{"name": "gardenlinux", "versions": [{"version": "1.2.3"} | version]}]}


def spec(**fields: Any) -> Document:
    """A spec with these fields."""
    return {"kubernetes": {}} | fields


def override(**fields: Any) -> Document:
    """A spec of a NamespacedCloudProfile."""
    return {"parent": {"kind": "CloudProfile", "name": "local"}} | fields


async def refused(api: Api, manifest: Document) -> list[str]:
    """What is said of a manifest that must be refused."""
    with pytest.raises(Invalid) as error:
        await api.rehearse(manifest)
    return findings(error.value)


# --- as they are shipped -------------------------------------------------------------------------------------------


@at_v1beta2
async def test_the_server_takes_them_whole_and_has_nothing_to_complain_of(api: Api) -> None:
    """A rule that costs too much, a schema that is not structural or a field that the server prunes would be told."""
    for name, shipped in documents().items():
        found = (await api.cluster.get(CRDS, name)).json()
        conditions = {each["type"]: each["status"] for each in found["status"]["conditions"]}
        assert conditions == {"Established": "True", "NamesAccepted": "True"}
        assert found["spec"] == shipped["spec"]
        assert found["status"]["storedVersions"] == ["v1beta2"]


@at_v1beta2
async def test_without_a_webhook_v1beta2_works_and_v1beta1_fails_aloud(api: Api, etcd: Etcd) -> None:
    """With strategy None the old version would be served without a word, and its writes would drop every stage."""
    made = await api.create(api.manifest("CloudProfile", "unanswered", kubernetes("preview")))
    old = Api(api.cluster, "v1beta1")
    with pytest.raises(ServerError, match=r"conversion webhook .* failed"):
        await api.cluster.get(old.at("CloudProfile"), "unanswered")
    with pytest.raises(ServerError, match=r"conversion webhook .* failed"):
        await old.create(old.manifest("CloudProfile", "another", kubernetes()))
    with pytest.raises(ServerError, match=r"conversion webhook .* failed"):
        await api.cluster.patch(
            old.at("CloudProfile"), "unanswered", b'{"spec":{"type":"aws"}}', patch_type=PatchType.MERGE
        )
    assert (await api.change(made, type="aws")).json()["spec"] == kubernetes("preview") | {"type": "aws"}
    listed = (await api.cluster.list_page(api.at("CloudProfile"), params={"resourceVersion": "0"})).json()["items"]
    assert "unanswered" in {each["metadata"]["name"] for each in listed}
    stored = await etcd.stored_object("core.gardener.cloud", "cloudprofiles", None, "unanswered")
    assert stored["apiVersion"] == "core.gardener.cloud/v1beta2"
    await api.delete(made)


@at_v1beta2
async def test_applying_them_again_keeps_a_ca_bundle_that_an_installation_added(api: Api) -> None:
    """A manifest with a CA bundle of its own, or an empty one, would cut off the webhook with every upgrade."""

    async def apply(document: Document, manager: str) -> Document:
        params = {"fieldManager": manager, "fieldValidation": "Strict"}
        body = json.dumps(document).encode()
        return (await api.cluster.patch(CRDS, CPFL, body, patch_type=PatchType.APPLY, params=params)).json()

    def bundle_of(found: Document) -> str | None:
        bundle: str | None = found["spec"]["conversion"]["webhook"]["clientConfig"].get("caBundle")
        return bundle

    bundle = base64.b64encode(ControlPlaneAuthority.create("webhook").certificate).decode()
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": CPFL}}
    await api.cluster.patch(
        CRDS,
        CPFL,
        json.dumps(documents()[CPFL]).encode(),
        patch_type=PatchType.APPLY,
        params={"fieldManager": "gitops", "force": "true"},
    )
    conversion = {"webhook": {"clientConfig": {"caBundle": bundle}}}
    assert bundle_of(await apply(head | {"spec": {"conversion": conversion}}, "restow")) == bundle
    assert bundle_of(await apply(documents()[CPFL], "gitops")) == bundle


@at_v1beta1
async def test_v1beta1_warns_that_it_is_deprecated(api: Api) -> None:
    """People learn of the new version by the warning that kubectl shows them."""
    expected = {
        "CloudProfile": "core.gardener.cloud/v1beta1 CloudProfile is deprecated; use core.gardener.cloud/v1beta2, "
        "where lifecycle takes the place of classification and expirationDate",
        "Shoot": "core.gardener.cloud/v1beta1 Shoot is deprecated; use core.gardener.cloud/v1beta2, "
        "where cloudProfile takes the place of cloudProfileName",
    }
    for kind, warning in expected.items():
        assert (await api.cluster.list_page(api.at(kind))).warnings == (warning,)


@at_v1beta2
async def test_kubectl_get_shows_the_columns_that_gardener_shows(api: Api) -> None:
    """Who knows Gardener looks for them."""
    objects = {
        "CloudProfile": spec(type="aws"),
        "NamespacedCloudProfile": override(),
        "Shoot": {
            "cloudProfile": {"name": "local"},
            "provider": {"type": "aws"},
            "region": "eu-1",
            "kubernetes": {"version": "1.30.6"},
        },
    }
    ours = {"Next Transition": None, "At": None, "Update Path": None}  # of a status, which no controller writes here
    columns = {
        "CloudProfile": {"Name": "shown", "Provider": "aws", **ours},
        "NamespacedCloudProfile": {"Name": "shown", "Parent Name": "local", "Parent Kind": "CloudProfile", **ours},
        "Shoot": {
            "Name": "shown",
            "CloudProfile": "local",
            "Provider": "aws",
            "Region": "eu-1",
            "K8S Version": "1.30.6",
        },
    }
    for kind, fields in objects.items():
        made = await api.create(api.manifest(kind, "shown", fields))
        resource = api.at(kind)
        shown = Request("get", resource, "shown", made["metadata"].get("namespace"), as_table=True)
        table = (await api.cluster.send(shown)).json()
        names = [column["name"] for column in table["columnDefinitions"]]
        row = dict(zip(names, table["rows"][0]["cells"], strict=True))
        assert row.pop("Age")
        if "Spec" in row:
            assert json.loads(row.pop("Spec")) == made["spec"]
        assert row == columns[kind]
        await api.delete(made)


@at_v1beta2
async def test_objects_can_be_selected_by_the_profile_that_they_refer_to(api: Api) -> None:
    """Without it, a controller would read every Shoot of a landscape to find those of one profile."""
    made = [
        await api.create(api.manifest("NamespacedCloudProfile", "n", override())),
        await api.create(api.manifest("Shoot", "s", {"cloudProfile": {"name": "local"}})),
        await api.create(
            api.manifest("Shoot", "t", {"cloudProfile": {"name": "local", "kind": "NamespacedCloudProfile"}})
        ),
    ]
    selectors = {
        ("NamespacedCloudProfile", "spec.parent.name=local"): ["n"],
        ("NamespacedCloudProfile", "spec.parent.name=other"): [],
        ("Shoot", "spec.cloudProfile.name=local"): ["s", "t"],
        ("Shoot", "spec.cloudProfile.name=local,spec.cloudProfile.kind=CloudProfile"): ["s"],
    }
    for (kind, selector), expected in selectors.items():
        page = (await api.cluster.list_page(api.at(kind), params={"fieldSelector": selector})).json()
        assert [each["metadata"]["name"] for each in page["items"]] == expected, selector
    for each in made:
        await api.delete(each)


# --- the documents -------------------------------------------------------------------------------------------------


@at_v1beta2
@pytest.mark.parametrize("text", GEP_32.values(), ids=GEP_32)
async def test_the_examples_of_gep_32_are_taken_at_v1beta2(api: Api, text: str) -> None:
    """No rule may refuse an example of the documents; nothing but the apiVersion is changed."""
    example = load(text, "v1beta2")
    status = example["status"]
    made = await api.create(example)
    assert made["spec"] == example["spec"]
    assert (await api.put_status(made, status))["status"] == status
    await api.delete(made)


@at_v1beta1
@pytest.mark.parametrize("text", GEP_32.values(), ids=GEP_32)
async def test_the_examples_of_gep_32_at_v1beta1_are_told_where_to_go(api: Api, text: str) -> None:
    """Who copies an example from the document must learn what to change, and not that a field is unknown."""
    told = await refused(api, load(text))
    assert told and all(
        each.endswith(
            ".lifecycle: Forbidden: lifecycle is a field of core.gardener.cloud/v1beta2: write the manifest at that "
            "version (`restow convert --to v1beta2` rewrites it), or classification and expirationDate instead"
        )
        for each in told
    )


@at_v1beta1
@pytest.mark.parametrize("text", [GEP_32_BEFORE, *GEP_25.values()], ids=["gep-32-before", *GEP_25])
async def test_the_examples_of_the_old_api_are_taken_at_v1beta1(api: Api, text: str) -> None:
    """The old version goes on as it was."""
    example = load(text)
    made = await api.rehearse(example)
    assert made["spec"].keys() == example["spec"].keys()


@at_v1beta2
async def test_a_shoot_of_gep_25_is_one_of_v1beta2(api: Api) -> None:
    """Its reference is the one of both versions."""
    example = load(GEP_25["shoot"], "v1beta2")
    assert (await api.rehearse(example))["spec"] == example["spec"]


@at_v1beta1
@pytest.mark.parametrize("name", GARDENER)
async def test_gardeners_manifests_apply(api: Api, name: str) -> None:
    """Platforms come with manifests like these; only the placeholders are filled in."""
    manifest = gardener_manifest(name)
    made = await api.rehearse(manifest)
    expected = manifest["spec"]
    if manifest["kind"] == "Shoot":
        assert expected.pop("kubernetes") is None
        expected["cloudProfile"]["kind"] = "CloudProfile"
        expected["provider"]["workers"][0]["updateStrategy"] = "AutoRollingUpdate"
    if manifest["kind"] == "CloudProfile":
        for each in expected["machineImages"]:
            each["updateStrategy"] = "major"
            for version in each["versions"]:
                version["cri"] = [{"name": "containerd"}]
    assert made["spec"] == expected


@at_v1beta1
@pytest.mark.parametrize("name", GARDENER_ALL)
async def test_all_manifests_of_gardener_apply(api: Api, name: str) -> None:
    """Gardener's own set-ups and tests are what people copy from: strict validation knows every field of them."""
    manifest = gardener_manifest(name)
    if "namespace" in manifest["metadata"]:
        manifest["metadata"]["namespace"] = "default"
    made = await api.rehearse(manifest)
    assert made["spec"].keys() >= {name for name, value in manifest["spec"].items() if value is not None}


def accepted_cases(file: str, version: str) -> list[tuple[str, Document]]:
    """The cases of Gardener's behaviour without errors that can be said at a version, by name."""
    found = []
    for case in cases_of(file):
        if case["expected"]["errors"] or "differs" in case or "parent" in case["input"]:
            continue
        manifest = case["input"].get("object") or case["input"]["new"]
        if any("cpu" not in each for each in manifest["spec"].get("machineTypes", [])):
            continue  # only half an object, for a function that does not look at the other half
        fields = {name for entry in versions_of(manifest) for name in entry}
        said_at = {"v1beta1"} if fields & {"classification", "expirationDate"} else {"v1beta1", "v1beta2"}
        if version in said_at - ({"v1beta1"} if "lifecycle" in fields else set()):
            found.append((case["name"], manifest))
    return found


@pytest.mark.parametrize("installed", ["v1beta1", "v1beta2"], indirect=True)
@pytest.mark.parametrize("file", ["cloudprofile_validation", "namespaced_validation"])
async def test_what_gardener_takes_is_taken(api: Api, file: str) -> None:
    """A schema that is stricter than the API it stands for would refuse objects that are there already."""
    kind = "CloudProfile" if file.startswith("cloudprofile") else "NamespacedCloudProfile"
    cases = accepted_cases(file, api.version)
    assert len(cases) >= 5
    for name, case in cases:
        try:
            await api.rehearse(api.manifest(kind, case["metadata"].get("name", "case"), case["spec"]))
        except (Invalid, BadRequest) as error:
            pytest.fail(f"{name}: {error}")


# --- the rules ------------------------------------------------------------------------------------------------------

REFUSED = table("cloudprofile_refused.yaml")
TAKEN = table("cloudprofile_taken.yaml")


def refused_at(version: str) -> list[str]:
    """The names of the cases that a version refuses."""
    return [name for name, case in REFUSED.items() if case.get("at", version) == version]


def taken_at(version: str) -> list[str]:
    """The names of the cases that a version takes."""
    return [name for name, case in TAKEN.items() if case.get("at", version) == version]


@at_v1beta2
@pytest.mark.parametrize("name", refused_at("v1beta2"))
async def test_what_v1beta2_refuses(api: Api, name: str) -> None:
    """The message is all that a person has: it says what is wrong, where, and what to write instead."""
    case = REFUSED[name]
    assert await refused(api, api.manifest(case["kind"], "refused", case["spec"])) == sorted(case["told"])


@at_v1beta1
@pytest.mark.parametrize("name", refused_at("v1beta1"))
async def test_what_v1beta1_refuses(api: Api, name: str) -> None:
    """What both versions say is refused in the same words."""
    case = REFUSED[name]
    assert await refused(api, api.manifest(case["kind"], "refused", case["spec"])) == sorted(case["told"])


@at_v1beta2
@pytest.mark.parametrize("name", taken_at("v1beta2"))
async def test_what_v1beta2_takes(api: Api, name: str) -> None:
    """Every edge that the documents allow, and what a conversion from v1beta1 may leave; nothing of it is pruned."""
    case = TAKEN[name]
    made = await api.rehearse(api.manifest(case["kind"], "taken", case["spec"]))
    assert_kept(case["spec"], made["spec"])


@at_v1beta1
@pytest.mark.parametrize("name", taken_at("v1beta1"))
async def test_what_v1beta1_takes(api: Api, name: str) -> None:
    """The same, and what a conversion from v1beta2 may leave."""
    case = TAKEN[name]
    made = await api.rehearse(api.manifest(case["kind"], "taken", case["spec"]))
    assert_kept(case["spec"], made["spec"])


def assert_kept(sent: Any, found: Any) -> None:
    """Everything that was sent is there; defaults may have been added."""
    if isinstance(sent, dict):
        for name, value in sent.items():
            assert_kept(value, found[name])
    elif isinstance(sent, list):
        assert len(sent) == len(found)
        for one, other in zip(sent, found, strict=True):
            assert_kept(one, other)
    else:
        assert sent == found


@pytest.mark.parametrize("installed", ["v1beta1", "v1beta2"], indirect=True)
async def test_every_classification_can_be_in_a_status(api: Api) -> None:
    """A status that is refused leaves old clients without the current classification."""
    names = ("unavailable", "preview", "supported", "deprecated", "expired")
    versions = [{"version": f"1.30.{number}", "classification": name} for number, name in enumerate(names)]
    status = {
        "kubernetes": {"versions": versions},
        "machineImages": [{"name": "gardenlinux", "versions": versions}],
        "observedGeneration": 2**40,
    }
    own = {"version": "1.30.6"} | (
        {"lifecycle": lifecycle("expired")} if api.version == "v1beta2" else {"expirationDate": "1970-01-01T00:00:00Z"}
    )
    rendered = spec(type="aws", kubernetes={"versions": [own]}, machineTypes=[machine_type()], regions=[{"name": "a"}])
    for kind, fields, more in (
        (PROFILE, spec(), {}),
        (NAMESPACED, override(), {"cloudProfileSpec": rendered}),
    ):
        made = await api.create(api.manifest(kind, "classified", fields))
        assert (await api.put_status(made, status | more))["status"] == status | more
        await api.delete(made)


@pytest.mark.parametrize("installed", ["v1beta1", "v1beta2"], indirect=True)
async def test_a_list_shows_what_changes_next(api: Api) -> None:
    """`kubectl get` would not show when a version changes, or that Shoots cannot leave one."""
    status = {
        "conditions": [{"type": "Other", "status": "Unknown"}, {"type": "UpdatePathComplete", "status": "False"}],
        "nextTransition": {"startTime": "2030-01-01T00:00:00Z", "description": "Kubernetes 1.30.6 expired"},
    }
    for kind, fields, first in (
        (PROFILE, spec(type="aws"), ["aws"]),
        (NAMESPACED, override(), [override()["parent"]["name"], "CloudProfile"]),
    ):
        made = await api.create(api.manifest(kind, "shown", fields))
        assert (await api.put_status(made, status))["status"] == status
        listed = Request("list", api.at(kind), namespace=made["metadata"].get("namespace"), as_table=True)
        table = (await api.cluster.send(listed)).json()
        (row,) = (each["cells"] for each in table["rows"] if each["object"]["metadata"]["name"] == "shown")
        shown = dict(zip((column["name"] for column in table["columnDefinitions"]), row, strict=True))
        assert list(shown.values())[1 : 1 + len(first)] == first
        assert (shown["Next Transition"], shown["At"], shown["Update Path"]) == (
            "Kubernetes 1.30.6 expired",
            "2030-01-01T00:00:00Z",
            "False",
        )
        await api.delete(made)


@at_v1beta2
async def test_defaults_are_set_where_they_cannot_hurt(api: Api) -> None:
    """In an override, a default would turn the move of a date into the replacement of a whole version."""
    images = [{"name": "gardenlinux", "versions": [{"version": "1"}]}]
    types = [machine_type()]
    profile = await api.rehearse(api.manifest(PROFILE, "d", spec(machineImages=images, machineTypes=types)))
    assert profile["spec"]["machineImages"] == [
        {
            "name": "gardenlinux",
            "updateStrategy": "major",
            "versions": [{"version": "1", "cri": [{"name": "containerd"}]}],
        }
    ]
    assert profile["spec"]["machineTypes"] == [machine_type(usable=True)]
    overriding = override(machineImages=images, machineTypes=types, volumeTypes=[{"name": "a", "class": "b"}])
    namespaced = await api.create(api.manifest(NAMESPACED, "d", overriding))
    assert namespaced["spec"]["machineImages"] == images
    assert namespaced["spec"]["machineTypes"] == [machine_type(usable=True)]
    rendered = {"cloudProfileSpec": spec(machineImages=images, machineTypes=types)}
    assert (await api.put_status(namespaced, rendered))["status"] == rendered
    await api.delete(namespaced)
    shoot = {"cloudProfile": {"name": "a"}, "maintenance": {"autoUpdate": {}}, "provider": {"workers": [{"name": "a"}]}}
    assert (await api.rehearse(api.manifest(SHOOT, "d", shoot)))["spec"] == {
        "cloudProfile": {"kind": "CloudProfile", "name": "a"},
        "maintenance": {"autoUpdate": {"kubernetesVersion": True}},
        "provider": {"workers": [{"name": "a", "updateStrategy": "AutoRollingUpdate"}]},
    }


# --- changes ---------------------------------------------------------------------------------------------------------


async def told_of(api: Api, found: Document, **parts: Any) -> list[str]:
    """What is said of a change that must be refused."""
    with pytest.raises(Invalid) as error:
        await api.change(found, **parts)
    return findings(error.value)


@pytest.mark.parametrize("installed", ["v1beta1", "v1beta2"], indirect=True)
async def test_a_parent_stays(api: Api) -> None:
    """Shoots that name the profile would be given another one under their feet."""
    made = await api.create(api.manifest(NAMESPACED, "child", {}))
    await api.change(made, parent={"kind": "CloudProfile", "name": "local"})
    told = await told_of(api, made, parent={"kind": "CloudProfile", "name": "other"})
    assert told == [f"spec.parent: Invalid value: {PARENT}"]
    assert await told_of(api, made, parent=None) == [f"spec.parent: Invalid value: {PARENT}"]
    await api.change(made, limits={"maxNodesTotal": 3})
    await api.delete(made)


@pytest.mark.parametrize("installed", ["v1beta1", "v1beta2"], indirect=True)
async def test_the_limit_of_a_cloud_profile_is_never_lowered(api: Api) -> None:
    """Clusters may have grown up to it; added, removed and raised it may be, and an override lowers it freely."""
    made = await api.create(api.manifest(PROFILE, "limited", spec()))
    await api.change(made, limits={"maxNodesTotal": 5})
    await api.change(made, limits={"maxNodesTotal": 6})
    await api.change(made, type="aws")
    [told] = await told_of(api, made, limits={"maxNodesTotal": 5})
    assert told == (
        "spec.limits.maxNodesTotal: Invalid value: maxNodesTotal cannot be lowered, for Shoots may have grown up to "
        "it: leave it, or raise it"
    )
    await api.change(made, limits={"maxNodesTotal": None})
    await api.change(made, limits=None)
    await api.delete(made)
    child = await api.create(api.manifest(NAMESPACED, "limited", override(limits={"maxNodesTotal": 5})))
    await api.change(child, limits={"maxNodesTotal": 1})
    await api.delete(child)


#: By name: the kind, what breaks a rule, and what the server warns of then (a rule that tolerates by itself is silent).
BROKEN: dict[str, tuple[str, Document, list[str]]] = {
    "order": (PROFILE, kubernetes("supported", "preview"), [f"{VERSION}.lifecycle: Invalid value: {ORDER}"]),
    "start": (
        PROFILE,
        kubernetes("preview 2025-01-01T00:00:00Z", "supported"),
        [f"{VERSION}.lifecycle: Required value: {LEADING}"],
    ),
    "monotonic": (
        NAMESPACED,
        override(**kubernetes("preview 2025-01-02T00:00:00Z", "supported 2025-01-01T00:00:00Z")),
        [f"{VERSION}.lifecycle: Invalid value: {MONOTONIC}"],
    ),
    "stage": (PROFILE, kubernetes("retired"), []),
    "version": (PROFILE, kubernetes(version="v1.30"), []),
    "with something undeclared": (
        PROFILE,
        image(
            lifecycle=lifecycle("supported", "preview"),
            cri=[{"name": "containerd", "containerRuntimes": [{"type": "a", "providerConfig": {"b": 1}}]}],
        )
        | kubernetes(),
        [f"{IMAGE_VERSION}.lifecycle: Invalid value: {ORDER}"],
    ),
    "bastion": (PROFILE, kubernetes() | {"bastion": {"machineType": {"name": "gone"}}}, []),
    "bastion with something undeclared": (
        PROFILE,
        kubernetes() | {"bastion": {"machineType": {"name": "gone"}}, "providerConfig": {"a": 1}},
        [],
    ),
    "capabilities": (
        PROFILE,
        kubernetes() | {"machineTypes": [machine_type(capabilities={"architecture": ["amd64"]})]},
        [],
    ),
    "storage": (
        NAMESPACED,
        override(**kubernetes(), machineTypes=[machine_type(storage={"class": "a", "type": "b"})]),
        ["spec.machineTypes[0].storage: Invalid value: set exactly one of size and minSize"],
    ),
}


@at_v1beta2
async def test_what_is_broken_already_blocks_no_change_of_something_else(api: Api) -> None:
    """A rule that comes with an upgrade must not stop every controller from writing to the objects that are there."""
    shipped = documents()
    await put_crds(api, {name: lenient(each) for name, each in shipped.items()}, judging=False)
    objects = {
        name: await api.create(api.manifest(kind, f"broken{number}", fields))
        for number, (name, (kind, fields, _)) in enumerate(BROKEN.items())
    }
    await put_crds(api, shipped, judging=True)
    for name, found in objects.items():
        warned = BROKEN[name][2]
        versions = found["spec"]["kubernetes"]["versions"]
        change = {"versions": [*versions, {"version": "1.99.0"}]}
        reply = await api.change(found, kubernetes=change)
        assert [without_value(each) for each in reply.warnings] == warned, name
        labelled = {"metadata": {"labels": {"by": "visitor"}}}
        reply = await api.cluster.patch(
            api.at(found["kind"]),
            found["metadata"]["name"],
            json.dumps(labelled).encode(),
            found["metadata"].get("namespace"),
            patch_type=PatchType.MERGE,
        )
        assert [without_value(each) for each in reply.warnings] == warned, name
        assert (await api.put_status(reply.json(), {"observedGeneration": 1}))["status"], name
    [told] = await told_of(api, objects["bastion"], bastion={"machineType": None, "machineImage": {"name": "gone"}})
    assert told == (
        "spec.bastion.machineImage.name: Invalid value: the bastion's machineImage is none of machineImages: write the "
        "name of one of them"
    )
    touched = kubernetes("supported", "preview", "deprecated 2030-01-01T00:00:00Z")
    assert f"{VERSION}.lifecycle: Invalid value: {ORDER}" in await told_of(api, objects["order"], **touched)
    for each in objects.values():
        await api.delete(each)


@at_v1beta1
async def test_a_shoot_of_two_profiles_can_still_be_changed_elsewhere(api: Api) -> None:
    """With undeclared fields in it, the server takes a spec for changed, and would refuse every write."""
    shipped = alone("v1beta1")
    await put_crds(api, {name: lenient(each) for name, each in shipped.items()}, judging=False)
    two = {"cloudProfile": {"name": "a"}, "cloudProfileName": "b", "provider": {"infrastructureConfig": {"c": 1}}}
    made = await api.create(api.manifest(SHOOT, "torn", two))
    await put_crds(api, shipped, judging=True)
    assert (await api.change(made, region="eu-1")).json()["spec"]["region"] == "eu-1"
    await api.change(made, cloudProfileName="a")
    [told] = await told_of(api, made, cloudProfileName="b")
    assert told.startswith("spec.cloudProfileName: Invalid value: cloudProfile and cloudProfileName name different")
    await api.delete(made)


async def put_crds(api: Api, crds: dict[str, Document], *, judging: bool) -> None:
    """Replace the CRDs' specs, and wait until they judge, or judge no more."""
    for name, document in crds.items():
        change = json.dumps({"spec": {"versions": document["spec"]["versions"]}}).encode()
        await api.cluster.patch(CRDS, name, change, patch_type=PatchType.MERGE)

    async def in_effect() -> bool:
        for kind, fields in ((PROFILE, spec(bastion={})), (NAMESPACED, override(limits={"maxNodesTotal": 0}))):
            try:
                await api.rehearse(api.manifest(kind, "canary", fields))
            except Invalid:
                if not judging:
                    return False
            else:
                if judging:
                    return False
        return True

    await until(in_effect, "the CRDs did not change")


@at_v1beta2
async def test_the_largest_profiles_stay_within_the_budget_of_the_rules(api: Api) -> None:
    """A profile that is too costly to judge could be neither created nor changed; this one is near etcd's limit."""
    stages = full_lifecycle()
    versions = [{"version": f"{number}.0.0", "lifecycle": stages} for number in range(40)]
    flavors = [{"architecture": ["amd64"]}, {"architecture": ["arm64"]}]
    images = [
        {
            "name": f"image-{number}",
            "versions": [
                each | {"kubeletVersionConstraint": ">= 1.28, < 1.33", "capabilityFlavors": flavors}
                for each in versions
            ],
        }
        for number in range(50)
    ]
    types = [machine_type(name=f"m{number}") for number in range(200)]
    fields = {
        "kubernetes": {"versions": versions},
        "machineImages": images,
        "machineTypes": types,
        "machineCapabilities": [{"name": "architecture", "values": ["amd64", "arm64"]}],
        "bastion": {"machineType": {"name": "m199"}, "machineImage": {"name": "image-49"}},
    }
    made = await api.create(api.manifest(PROFILE, "large", fields))
    versions[-1]["lifecycle"] = [*stages[:-1], {"classification": "expired", "startTime": "2020-01-01T00:00:00Z"}]
    assert await told_of(api, made, kubernetes={"versions": versions}) == [
        f"spec.kubernetes.versions[39].lifecycle: Invalid value: {MONOTONIC}"
    ]
    await api.delete(made)


@at_v1beta2
async def test_two_managers_own_versions_and_stages_side_by_side(api: Api) -> None:
    """A list owned as a whole would make a pipeline and a controller overwrite each other's versions."""
    first = api.manifest(PROFILE, "shared", kubernetes("supported", "expired 2030-01-01T00:00:00Z"))
    second = api.manifest(PROFILE, "shared", kubernetes("preview", version="1.31.0"))
    await api.apply(first, "pipeline")
    both = await api.apply(second, "automation")
    versions = both["spec"]["kubernetes"]["versions"]
    assert [each["version"] for each in versions] == ["1.30.6", "1.31.0"]
    item = '/f:spec/f:kubernetes/f:versions/k:{"version":"1.31.0"}'
    assert owners(both)["automation", "Apply", ""] == {
        item,
        f"{item}/f:version",
        f'{item}/f:lifecycle/k:{{"classification":"preview"}}',
        f'{item}/f:lifecycle/k:{{"classification":"preview"}}/f:classification',
    }
    with pytest.raises(Conflict, match=r'lifecycle\[classification="expired"\].startTime'):
        await api.apply(api.manifest(PROFILE, "shared", kubernetes("expired 2031-01-01T00:00:00Z")), "automation")
    # A stage between those of somebody else finds its place if they are named too.
    told = await api.apply(
        api.manifest(
            PROFILE,
            "shared",
            kubernetes("supported", "deprecated 2029-01-01T00:00:00Z", "expired 2030-01-01T00:00:00Z"),
        ),
        "automation",
    )
    assert told["spec"] == kubernetes("supported", "deprecated 2029-01-01T00:00:00Z", "expired 2030-01-01T00:00:00Z")
    # And it stays when its owner says no more of the others; the pipeline goes on as before.
    alone = api.manifest(PROFILE, "shared", kubernetes("deprecated 2029-01-01T00:00:00Z"))
    assert (await api.apply(alone, "automation"))["spec"] == told["spec"]
    assert (await api.apply(first, "pipeline"))["spec"] == told["spec"]
    await api.delete(told)
