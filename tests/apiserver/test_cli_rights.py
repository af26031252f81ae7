"""With which rights ``restow`` works, found by leaving one after another away; docs/deploying.md shows the same."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from restow.kube.client import HttpCluster
from restow.kube.resources import CRDS, ENDPOINT_SLICES
from tests.apiserver.access import Access, Right, on_crd, on_objects
from tests.apiserver.kind import Kind
from tests.restow.commandline import Ran, restow

MARK = "restow.dev/migrated"
CRD = "customresourcedefinitions.apiextensions.k8s.io"


@pytest.fixture
async def due(kind: Kind) -> Kind:
    """An object in each of two namespaces, stored and owned at v1alpha1; v1beta1 has become the storage version."""
    await kind.namespace("other")
    for namespace in ("default", "other"):
        await kind.apply(kind.manifest("v1alpha1", "w", namespace, spec={"size": 1}), "alice")
    await kind.change(kind.document(storage="v1beta1"))
    return kind


def least(kind: Kind) -> dict[str, Right]:
    """All that ``restow migrate`` cannot do without, by what is missing where one is."""
    return {
        f"get {CRD} {kind.name}": on_crd(kind, "get"),
        f"list {kind.name}": on_objects(kind, "list"),
        f"get {kind.name}": on_objects(kind, "get"),
        f"patch {kind.name}": on_objects(kind, "patch"),
        f"patch {CRD}/status {kind.name}": on_crd(kind, "patch", subresource="status"),
        f"patch {CRD} {kind.name}": on_crd(kind, "patch"),
    }


def optional(kind: Kind) -> tuple[Right, ...]:
    """To watch the CRD, should it change meanwhile."""
    return (on_crd(kind, "list", "watch"),)


SERVERS = Right(ENDPOINT_SLICES.group, ENDPOINT_SLICES.plural, ("list",))
"""To find each API server; in the namespace ``default``."""


def one_by_one(rules: Iterable[dict[str, list[str]]]) -> set[tuple[str, str, str, str]]:
    """RBAC rules as (group, resource, verb, name)."""
    return {
        (group, resource, verb, name)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


async def run(kubeconfig: Path, command: str, *arguments: str) -> Ran:
    """A command as the user of a kubeconfig."""
    more = ("--settle", "0") if command == "migrate" else ()
    return await asyncio.to_thread(restow, command, *arguments, *more, kubeconfig=kubeconfig)


async def test_the_least_rights_are_enough(due: Kind, access: Access, cluster: HttpCluster) -> None:
    """A Job's ClusterRole should hold no more."""
    user = await access.user("migrator-least", *least(due).values())
    assert (await run(user.kubeconfig, "status", due.name)).code == 0
    assert (await run(user.kubeconfig, "plan", due.name)).code == 3
    ran = await run(user.kubeconfig, "migrate", due.name, "-o", "json")
    assert ran.code == 0, ran.err
    (crd,) = ran.json["crds"]
    assert (ran.json["result"], crd["pruned"], crd["objects"]["rewritten"]) == ("Succeeded", True, 2)
    (unseen,) = crd["notSeen"]
    assert unseen.startswith("the endpoints of the Service kubernetes may not be listed (")
    assert not crd["warnings"]
    assert await due.stored_versions() == ["v1beta1"]
    assert {found["apiVersion"] for found in (await due.stored()).values()} == {f"{due.group}/v1beta1"}
    ready = await run(user.kubeconfig, "ready", due.name, "--drop", "v1alpha1", "--no-references")
    assert ready.code == 0, ready.out
    assert MARK in (await cluster.get(CRDS, due.name)).json()["metadata"]["annotations"]


async def test_with_all_rights_nothing_is_left_to_wish(due: Kind, access: Access, cluster: HttpCluster) -> None:
    """No warning, and the mark by which the next run knows what is done."""
    user = await access.user("migrator-full", *least(due).values(), *optional(due))
    await access.grant(user, SERVERS, namespace="default")
    ran = await run(user.kubeconfig, "migrate", due.name, "-o", "json")
    (crd,) = ran.json["crds"]
    assert (ran.code, crd["warnings"], crd["notSeen"]) == (0, [], [])
    assert MARK in (await cluster.get(CRDS, due.name)).json()["metadata"]["annotations"]


def test_the_documented_role_is_what_was_tried(group: str) -> None:
    """People copy it: a right too few fails their Job at night, one too many fails their audit."""
    text = (Path(__file__).parents[2] / "docs" / "deploying.md").read_text(encoding="utf-8")
    named = "kind: ClusterRole\nmetadata:\n  name: restow-migrate-widgets.example.com\n"
    (block,) = (each for each in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if named in each)
    _account, role, _bound, in_default, _bound_too = yaml.safe_load_all(block.replace("example.com", group))
    assert (in_default["kind"], in_default["metadata"]["namespace"]) == ("Role", "default")
    assert one_by_one(in_default["rules"]) == one_by_one([SERVERS.rule()])
    kind = Kind(None, None, group)  # type: ignore[arg-type]
    tried = (right.rule() for right in (*least(kind).values(), *optional(kind)))
    assert one_by_one(role["rules"]) == one_by_one(tried)


@pytest.mark.parametrize("index", range(5), ids=["get crd", "list", "get", "patch", "patch status"])
async def test_one_right_less_is_refused(index: int, due: Kind, access: Access) -> None:
    """Half a migration by a user who may not finish it helps nobody; the sentence says what to grant."""
    rights = least(due)
    missing = list(rights)[index]
    rights.pop(missing)
    user = await access.user(f"migrator-without-{index}", *rights.values())
    stored = await due.stored()
    refusal = (await run(user.kubeconfig, "migrate", due.name)).refusal
    assert missing in refusal
    if index == 0:
        assert refusal.startswith(f"no permission to {missing}: ")
        assert user.name in refusal
    else:
        assert refusal.startswith(f"permission is missing to {missing}: grant it")
    assert await due.stored() == stored
    assert await due.stored_versions() == ["v1alpha1", "v1beta1"]


async def test_without_the_right_to_prune_the_rest_can_be_done(due: Kind, access: Access) -> None:
    """Some give a Job no right on CRDs; objects can be migrated all the same, by a flag that says so."""
    rights = list(least(due).values())[:-2]
    user = await access.user("migrator-no-prune", *rights)
    ran = await run(user.kubeconfig, "migrate", due.name, "--no-prune", "-o", "json")
    assert (ran.code, ran.json["crds"][0]["objects"]["rewritten"], ran.json["crds"][0]["pruned"]) == (0, 2, False)
    assert await due.stored_versions() == ["v1alpha1", "v1beta1"]


@pytest.mark.parametrize("command", ["status", "plan", "ready", "migrate"])
async def test_no_rights_at_all(command: str, due: Kind, access: Access) -> None:
    """A new user's first call: which verb on what, and who was asked for."""
    user = await access.user(f"nobody-{command}")
    more = ("--drop", "v1alpha1") if command == "ready" else ()
    refusal = (await run(user.kubeconfig, command, due.name, *more)).refusal
    assert refusal.startswith(f"no permission to get {CRD} {due.name}: ")
    assert f'User "{user.name}" cannot get resource' in refusal


async def test_no_right_to_list_crds(due: Kind, access: Access) -> None:
    """All CRDs need a right that one CRD does not."""
    user = await access.user("nobody-lists", *least(due).values())
    for command in (("status",), ("plan", "--all"), ("migrate", "--all")):
        refusal = (await run(user.kubeconfig, *command)).refusal
        assert refusal.startswith(f"no permission to list {CRD}: ")
        assert refusal.endswith("Give the full names of the CRDs instead")


async def test_a_reader_may_look_but_not_migrate(due: Kind, access: Access) -> None:
    """Plan and readiness are for those who may read only; a migration names every right that is missing."""
    user = await access.user("reader", on_crd(due, "get"), on_objects(due, "list"))
    assert (await run(user.kubeconfig, "plan", due.name)).code == 3
    assert (await run(user.kubeconfig, "ready", due.name, "--drop", "v1alpha1")).code == 3
    missing = f"get {due.name}; patch {due.name}; patch {CRD}/status {due.name}"
    for only in ((), ("--only", "prune")):
        refusal = (await run(user.kubeconfig, "migrate", due.name, *only)).refusal
        assert refusal.startswith(f"permission is missing to {missing}: grant it")


async def test_who_may_not_list_the_objects_cannot_look(due: Kind, access: Access) -> None:
    """Nothing seen is not nothing there: a plan of an empty list would say that no work is due."""
    user = await access.user("blind", on_crd(due, "get"))
    for command in (("plan", due.name), ("ready", due.name, "--drop", "v1alpha1")):
        refusal = (await run(user.kubeconfig, *command)).refusal
        assert refusal.startswith(f"the objects of {due.name} could not all be listed: ")
        assert f'User "{user.name}" cannot list resource "widgets"' in refusal


async def test_a_user_of_one_namespace(due: Kind, access: Access) -> None:
    """A team may migrate its own objects; the rest stays as it is, and the version is not pruned."""
    user = await access.user("team", on_crd(due, "get"))
    await access.grant(user, on_objects(due, "list", "get", "patch"), namespace="other")
    assert (await run(user.kubeconfig, "plan", due.name, "-n", "other")).code == 3
    ran = await run(user.kubeconfig, "migrate", due.name, "-n", "other", "-o", "json")
    assert (ran.code, ran.json["crds"][0]["objects"]["rewritten"]) == (0, 1), ran.err
    assert {key: found["apiVersion"].split("/")[1] for key, found in (await due.stored()).items()} == {
        "default/w": "v1alpha1",
        "other/w": "v1beta1",
    }
    assert await due.stored_versions() == ["v1alpha1", "v1beta1"]
    refusal = (await run(user.kubeconfig, "migrate", due.name, "--no-prune")).refusal
    assert refusal.startswith(f"permission is missing to list {due.name}; get {due.name}; patch {due.name}: ")
    refusal = (await run(user.kubeconfig, "migrate", due.name, "-n", "default")).refusal
    assert refusal.startswith(f"permission is missing to list {due.name} in default; ")
