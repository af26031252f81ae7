"""Who may declare the conversions of a CRD: users with certificates of their own, on a real API server."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from restow.controlplane.binaries import find_binaries
from restow.controlplane.users import ClusterUser
from restow.conversion.certificates.ca.store import SECRETS
from restow.conversion.operate.declarations import declaration_name
from restow.conversion.operate.revisions import BREAK_GLASS, DECLARED, LABEL, record_name
from restow.crds import conversionrules
from restow.crds.conversionrules import CONVERSION_RULES
from restow.kube import PatchType, connect
from restow.kube.client import HttpCluster
from restow.kube.errors import AlreadyExists, ApiError, Forbidden, NotFound
from restow.kube.resources import CONFIG_MAPS, CRDS, LEASES, NAMESPACES, Resource
from restow.operator.process import install_crds
from tests.apiserver.access import Access, Right
from tests.apiserver.kind import Document, until
from tests.apiserver.operators import ROOT
from tests.apiserver.test_conversions_in_cluster import Jobs, Replicas, admission_answers, gone, jobs, replicas
from tests.docs.blocks import parse

__all__ = ["jobs", "replicas"]

WRITES = Right(CONVERSION_RULES.group, CONVERSION_RULES.plural, ("get", "create", "update", "patch", "delete"))
EVIL = {"pair": {"spoke": "spec.image", "hub": "spec.image", "up": "self", "down": "'evil.example/' + self"}}


class People:
    """Users who may write all ConversionRules, and what a test gives them beyond that."""

    def __init__(self, access: Access, group: str) -> None:
        self._access = access
        self._group = group
        self._open = AsyncExitStack()
        self.users: dict[str, ClusterUser] = {}

    async def join(self, name: str, *rights: Right, groups: tuple[str, ...] = ()) -> HttpCluster:
        """Return a session of a new user."""
        user = await self._access.user(f"{name}.{self._group}", WRITES, *rights, groups=groups)
        self.users[name] = user
        return await self._open.enter_async_context(connect(user.kubeconfig))

    async def leave(self) -> None:
        """End all sessions."""
        await self._open.aclose()


@pytest.fixture
async def people(access: Access, group: str) -> AsyncIterator[People]:
    """Users of the test."""
    found = People(access, group)
    yield found
    await found.leave()


def converts(name: str, verb: str = "convert") -> Right:
    """The right to declare the conversions of one CRD."""
    return Right(CRDS.group, CRDS.plural, (verb,), name)


def evil(jobs: Jobs, name: str | None = None) -> Document:
    """Rules that show another image to the readers of v1beta1, and pass every gate."""
    return jobs.rules(*jobs.rules()["spec"]["spokes"][0]["rules"], EVIL, name=name)


async def patch(session: HttpCluster, name: str, **parts: Any) -> None:
    """Patch rules."""
    await session.patch(CONVERSION_RULES, name, json.dumps(parts).encode(), patch_type=PatchType.MERGE)


async def refused(request: Any) -> str:
    """Return what the API server says of a request that it refuses."""
    with pytest.raises(Forbidden) as error:
        await request
    return str(error.value)


async def test_a_user_without_a_right_on_the_crd_declares_nothing(
    cluster: HttpCluster, jobs: Jobs, replicas: Replicas, people: People
) -> None:
    """Whoever may write ConversionRules would decide what the readers of any kind of the cluster see."""
    await jobs.create("v1", "a", image="good", timeout="30s")
    owner = await people.join("owner", converts(jobs.name))
    mallory = await people.join("mallory")
    await jobs.declare(jobs.rules())
    await jobs.condition("Ready", "True")
    served = (await jobs.status())["served"]

    said = await refused(mallory.create(CONVERSION_RULES, json.dumps(evil(jobs, f"mine.{jobs.group}")).encode()))
    assert f'User "mallory.{jobs.group}" cannot create these rules' in said
    assert f"resourceNames: [{jobs.name}], verbs: [convert]" in said
    owners = [{"apiVersion": "v1", "kind": "Namespace", "name": "x", "uid": "x"}]
    for parts in (
        {"spec": evil(jobs)["spec"]},
        {"metadata": {"annotations": {BREAK_GLASS: "yes"}}},
        {"metadata": {"annotations": {DECLARED: "yes"}}},
        {"metadata": {"ownerReferences": owners}},
        {"metadata": {"finalizers": []}},
    ):
        assert "cannot update these rules" in await refused(patch(mallory, jobs.name, **parts)), parts
    assert "cannot delete these rules" in await refused(mallory.delete(CONVERSION_RULES, jobs.name))
    await patch(mallory, jobs.name, metadata={"labels": {"of": "mallory"}})
    assert (await jobs.status())["served"] == served
    assert await jobs.spec("v1beta1", "a") == {"image": "good", "timeoutSeconds": 30}

    await patch(owner, jobs.name, metadata={"annotations": {BREAK_GLASS: "yes"}})
    await owner.delete(CONVERSION_RULES, jobs.name)
    await until(lambda: gone(cluster, jobs.name), "the rules stay")
    with pytest.raises(NotFound):
        await cluster.get(CONFIG_MAPS, declaration_name(jobs.name), "default")


@pytest.mark.parametrize("verb", ["convert", "update", "patch"])
async def test_a_right_on_one_crd_is_enough_for_it_alone(
    jobs: Jobs, replicas: Replicas, people: People, access: Access, verb: str
) -> None:
    """A team that may convert its own kind must not need more, and gets no other team's kind by it."""
    team = await people.join("team", converts(jobs.name, verb))
    other = Jobs(jobs.cluster, f"other.{jobs.group}")
    await jobs.cluster.create(CRDS, json.dumps(other.crd()).encode())
    try:
        await other.served()
        await Jobs(team, jobs.group).declare(jobs.rules())
        await jobs.condition("Ready", "True")
        assert "cannot create these rules" in await refused(
            team.create(CONVERSION_RULES, json.dumps(other.rules()).encode())
        )
        if verb == "convert":
            await access.remove()  # the CRD's owner takes the right back
            await access.grant(people.users["team"], WRITES)
            said = await refused(patch(team, jobs.name, spec=evil(jobs)["spec"]))
            assert "cannot update these rules" in said
            assert "cannot delete these rules" in await refused(team.delete(CONVERSION_RULES, jobs.name))
            assert (await jobs.condition("Ready", "True"))["reason"] == "Ready", "what is served stays"
    finally:
        await other.remove()


async def test_without_the_step_nothing_is_wired(
    cluster: HttpCluster, group: str, replicas: Replicas, people: People
) -> None:
    """Rules that were written while nobody was asked about would serve as soon as an operator starts.

    They do not stand in the way of those whose author was allowed to write them either.
    """
    jobs = Jobs(cluster, group)
    owner, mallory = await people.join("owner", converts(jobs.name)), await people.join("mallory")
    await install_crds(cluster, [conversionrules.document()])
    await cluster.create(CRDS, json.dumps(jobs.crd()).encode())
    try:
        await jobs.served()
        await jobs.create("v1", "a", image="good", timeout="30s")
        first = f"first.{group}"
        await mallory.create(CONVERSION_RULES, json.dumps(evil(jobs, first)).encode())
        await replicas.start()
        told = await jobs.condition("Analyzed", "False", name=first)
        assert told["reason"] == "Forbidden"
        assert told["message"].startswith("no user was asked about when these rules were written")
        # Neither the operator's finalizer nor what another tool with many rights writes declares them.
        await patch(cluster, first, metadata={"labels": {"of": "tool"}, "annotations": {"example.dev/of": "tool"}})
        await Jobs(owner, group).declare(jobs.rules())
        await jobs.condition("Ready", "True")
        assert await jobs.spec("v1beta1", "a") == {"image": "good", "timeoutSeconds": 30}
        assert (await jobs.condition("Analyzed", "False", name=first))["reason"] == "Forbidden"
        with pytest.raises(NotFound):
            await cluster.get(CONFIG_MAPS, declaration_name(first), "default")
    finally:
        await jobs.remove()


async def test_rules_from_before_an_upgrade_serve_on_and_can_be_declared(
    cluster: HttpCluster, jobs: Jobs, replicas: Replicas, people: People
) -> None:
    """An upgrade would stop what has served for months, or leave its owner without a way to change it."""
    await people.join("owner", converts(jobs.name))
    await jobs.create("v1", "a", image="good", timeout="30s")
    await jobs.declare(jobs.rules())
    await jobs.condition("Ready", "True")
    await replicas.started[0].stop()
    await cluster.delete(CONFIG_MAPS, declaration_name(jobs.name), "default")  # which an earlier release did not make
    await replicas.start()
    told = await jobs.condition("Analyzed", "False")
    assert told["reason"] == "Forbidden"
    assert (await jobs.status())["served"]["generation"] == 1
    assert await jobs.spec("v1beta1", "a") == {"image": "good", "timeoutSeconds": 30}
    (command,) = re.findall(r"`(kubectl .*)`", told["message"])
    await kubectl(command, people.users["owner"].kubeconfig)
    await jobs.condition("Ready", "True")
    found = (await cluster.get(CONFIG_MAPS, declaration_name(jobs.name), "default")).json()["data"]
    (answer,) = (json.loads(text) for name, text in found.items() if name != "rules")
    assert (answer["user"], answer["crd"]) == (f"owner.{jobs.group}", jobs.name)


async def test_a_creation_under_a_name_that_is_taken_leaves_the_answer(
    cluster: HttpCluster, jobs: Jobs, replicas: Replicas, people: People
) -> None:
    """A tenant with a kind of her own would close another team's rules by creations that fail; so would their owner."""
    other = Jobs(cluster, f"other.{jobs.group}")
    mallory = await people.join("mallory", converts(other.name))
    await cluster.create(CRDS, json.dumps(other.crd()).encode())
    try:
        await other.served()
        await jobs.declare(jobs.rules())
        before = (await cluster.get(CONFIG_MAPS, declaration_name(jobs.name), "default")).json()
        for session, rules in ((cluster, jobs.rules()), (mallory, other.rules(name=jobs.name))):
            with pytest.raises(AlreadyExists):
                await session.create(CONVERSION_RULES, json.dumps(rules).encode())
        assert (await cluster.get(CONFIG_MAPS, declaration_name(jobs.name), "default")).json() == before
    finally:
        await other.remove()


async def test_a_crd_whose_names_are_not_accepted_takes_no_rules(
    cluster: HttpCluster, jobs: Jobs, replicas: Replicas
) -> None:
    """Whoever may create CRDs would take a kind's rules by a CRD of the same kind whose name sorts before it."""
    other = jobs.crd()
    other["metadata"]["name"] = f"abc.{jobs.group}"
    other["spec"]["names"] |= {"plural": "abc", "singular": "abc"}
    await cluster.create(CRDS, json.dumps(other).encode())
    try:
        await jobs.declare(jobs.rules())
        await jobs.condition("Ready", "True")
        assert (await jobs.status())["crd"] == jobs.name
    finally:
        await cluster.delete(CRDS, other["metadata"]["name"])


async def test_what_tenants_forge_changes_nothing(
    cluster: HttpCluster, jobs: Jobs, replicas: Replicas, people: People, access: Access
) -> None:
    """Records, Leases and Secrets count in the operator's namespace alone; a status is what the leader writes."""
    await jobs.create("v1", "a", image="good", timeout="30s")
    await jobs.declare(jobs.rules())
    await jobs.condition("Ready", "True")
    record = (await cluster.get(CONFIG_MAPS, record_name(jobs.name), "default")).json()
    home = f"tenant-{jobs.group.partition('.')[0]}"
    await cluster.create(NAMESPACES, json.dumps({"metadata": {"name": home}}).encode())
    tenant = await people.join("tenant", Right(CONVERSION_RULES.group, "conversionrules/status", ("patch", "update")))
    everything = [
        Right(each.group, each.plural, ("create", "get", "patch", "delete")) for each in (CONFIG_MAPS, SECRETS, LEASES)
    ]
    await access.grant(people.users["tenant"], *everything, namespace=home)

    forged = {"metadata": {"name": record_name(jobs.name), "labels": {LABEL: "rules"}}}
    data = {key: text for key, text in record["data"].items() if not key.startswith("replica.")}
    for body in (
        forged | {"data": data | {"active": "forged", "candidate": "forged", "wired": "false"}},
        {"metadata": {"name": declaration_name(jobs.name), "labels": {LABEL: "declared"}}, "data": {"x": "y"}},
    ):
        await tenant.create(CONFIG_MAPS, json.dumps(body).encode(), home)
        assert "cannot patch" in await refused(
            tenant.patch(
                CONFIG_MAPS, body["metadata"]["name"], json.dumps(body).encode(), "default", patch_type=PatchType.MERGE
            )
        )
    for name in ("restow-webhook", "restow-webhook-ca"):
        await tenant.create(SECRETS, json.dumps({"metadata": {"name": name}}).encode(), home)
    spec = {"holderIdentity": "forged", "leaseDurationSeconds": 999}
    lease = {"metadata": {"name": "restow-replica-forged", "labels": {LABEL: "replica"}}, "spec": spec}
    await tenant.create(LEASES, json.dumps(lease).encode(), home)
    assert "cannot update these rules" in await refused(patch(tenant, jobs.name, metadata={"finalizers": []}))

    before = await jobs.status()
    lies = {"status": before | {"crd": "others.example.dev", "served": {"revision": "forged", "generation": 7}}}
    lies["status"]["conditions"] = [each | {"status": "False", "reason": "Forged"} for each in before["conditions"]]
    await tenant.patch(
        CONVERSION_RULES, jobs.name, json.dumps(lies).encode(), patch_type=PatchType.MERGE, subresource="status"
    )
    await jobs.condition("Ready", "True")
    after = await jobs.status()
    assert (after["crd"], after["served"]) == (before["crd"], before["served"])
    rules = jobs.rules()
    rules["spec"]["onError"] = "keep"
    await jobs.condition("Ready", "True", await jobs.change(rules))
    assert await jobs.spec("v1beta1", "a") == {"image": "good", "timeoutSeconds": 30}


async def test_while_no_replica_answers_nothing_is_declared_and_everything_can_go(
    cluster: HttpCluster, jobs: Jobs, replicas: Replicas, people: People
) -> None:
    """A spec that is stored while nobody is asked about could be declared by a forged review later on."""
    mallory = await people.join("mallory")
    await jobs.create("v1", "a", image="good", timeout="30s")
    await jobs.declare(jobs.rules())
    await jobs.condition("Ready", "True")
    await replicas.started[0].stop()
    changes: list[Callable[[], Any]] = [
        lambda: mallory.create(CONVERSION_RULES, json.dumps(evil(jobs, f"mine.{jobs.group}")).encode()),
        lambda: patch(mallory, jobs.name, spec=evil(jobs)["spec"]),
        lambda: patch(mallory, jobs.name, metadata={"annotations": {BREAK_GLASS: "yes"}}),
    ]
    for change in changes:
        with pytest.raises(ApiError, match="failed calling webhook"):
            await change()
    await mallory.delete(CONVERSION_RULES, jobs.name)
    await patch(mallory, jobs.name, metadata={"finalizers": []})
    assert await gone(cluster, jobs.name)
    await replicas.start()

    async def reads() -> bool:
        try:
            return await jobs.spec("v1beta1", "a") == {"image": "good", "timeoutSeconds": 30}
        except ApiError:
            return False

    await until(reads, "what was served is not served any more")


PAGE = "docs/conversions-in-cluster.md"


async def test_the_commands_of_the_page(
    cluster: HttpCluster, jobs: Jobs, replicas: Replicas, people: People, kubeconfig: Path
) -> None:
    """The page shows how a team gets the right, and how its rules are declared once more."""
    here = f"tests/apiserver/{Path(__file__).name}"
    blocks = parse(PAGE, (ROOT / PAGE).read_text(encoding="utf-8"))
    grants, declares = (block.text for block in blocks if block.directives.get("tested by") == here)

    async def run(text: str, config: Path) -> None:
        await kubectl(text.replace("jobs.example.dev", jobs.name).replace("team-jobs", f"team-{jobs.group}"), config)

    team = await people.join("team", groups=(f"team-{jobs.group}",))
    try:
        await until(lambda: admission_answers(jobs), "admission is not called")
        await run(grants, kubeconfig)
        await until(lambda: declares_now(Jobs(team, jobs.group)), "the right is not in force")
        await jobs.condition("Ready", "True")
        await run(declares, people.users["team"].kubeconfig)
    finally:
        for plural in ("clusterrolebindings", "clusterroles"):
            await cluster.delete(Resource("rbac.authorization.k8s.io", "v1", plural, namespaced=False), "convert-jobs")


async def kubectl(text: str, config: Path) -> None:
    """Run commands of kubectl in a shell."""
    folder = (await find_binaries(("kubectl",)))["kubectl"].parent
    path = f"{folder}:{os.environ['PATH']}"
    environment = {"PATH": path, "KUBECONFIG": str(config), "HOME": str(config.parent)}
    process = await asyncio.create_subprocess_shell(
        text, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()


async def declares_now(jobs: Jobs) -> bool:
    """Create the rules, if their author may by now."""
    try:
        await jobs.cluster.create(CONVERSION_RULES, json.dumps(jobs.rules()).encode())
    except Forbidden:
        return False
    return True
