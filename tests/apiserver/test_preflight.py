"""``restow plan`` before a migration: what it finds is what the migration then meets, and nothing is stored for it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from restow.controlplane.etcd import Etcd
from restow.controlplane.users import ControlPlaneAuthority
from restow.kube.client import HttpCluster
from restow.kube.errors import ApiError
from restow.kube.resources import CRDS
from restow.kube.retry import RetryingCluster
from restow.migrator import CrdReport, ListFailed, ManagedFields, Migration, Options, Scope, read_crd, ready
from restow.migrator import plan as make_plan
from restow.migrator.planning.plan import MigrationPlan
from tests.apiserver.access import Access, on_crd, on_objects
from tests.apiserver.kind import Document, Kind, until
from tests.apiserver.proxy import Answer, Proxy, Seen
from tests.apiserver.webhook import ConvertedKind, Webhook, never
from tests.restow.commandline import restow

COUNT = 6


@pytest.fixture
async def due(kind: Kind) -> Kind:
    """Six objects of alice at v1alpha1 in three namespaces; v1beta1 has become the storage version."""
    for number in range(COUNT):
        namespace = ("default", "other", "third")[number % 3]
        await kind.namespace(namespace)
        await kind.apply(kind.manifest("v1alpha1", f"w{number}", namespace, spec={"size": number}), "alice")
    await kind.change(kind.document(storage="v1beta1"))
    return kind


@pytest.fixture
async def converted(cluster: HttpCluster, etcd: Etcd, group: str, webhook: Webhook) -> AsyncIterator[ConvertedKind]:
    """Six objects of alice at v1, each also of bob at v0; v2 has become the storage version, and is converted to."""
    made = ConvertedKind(cluster, etcd, group, webhook)
    await made.create(made.document(storage="v1"))
    for number in range(COUNT):
        await made.apply(made.manifest("v1", f"w{number}", spec={"host": "a", "parts": [{"name": "a"}]}), "alice")
        await made.apply(made.manifest("v0", f"w{number}", spec={"parts": [{"name": "b"}]}), "bob")
    await made.change(made.document(storage="v2"))
    yield made
    webhook.fails = never
    await made.remove()


async def plan(
    kind: Kind, cluster: HttpCluster | None = None, *, sample: int | None = 50, **options: Any
) -> MigrationPlan:
    """Plan the migration of a kind."""
    crd = await read_crd(kind.cluster, kind.name)
    return await make_plan(cluster or kind.cluster, crd, Options(**options), sample=sample)


async def migrate(kind: Kind, **options: Any) -> CrdReport:
    """Migrate a kind without settling."""
    return await Migration(kind.cluster, Options(settle_s=0.0, **options)).migrate(kind.name)


def failing(found: MigrationPlan) -> dict[str, str]:
    """The sentences about objects that would fail, by name."""
    return {finding.name: finding.message for finding in found.findings.listed if finding.fails}


async def test_a_policy_that_refuses_an_object_is_found(due: Kind, access: Access, kubeconfig: Path) -> None:
    """The object that fails at night is the one whose policy nobody thought of; plan exits with 1 for it."""
    await access.refuse_updates(due, "v1beta1", ["w0", "w3"])
    ran = await asyncio.to_thread(restow, "plan", due.name, kubeconfig=kubeconfig)
    assert ran.code == 1, ran.err
    assert f"{due.name}: default/w0 would fail (Invalid): " in ran.err
    assert "it is frozen. Have that policy or webhook admit updates that change nothing" in ran.err
    as_json = await asyncio.to_thread(restow, "plan", due.name, "-o", "json", kubeconfig=kubeconfig)
    (crd,) = as_json.json["crds"]
    errors = [each for each in crd["findings"] if each["severity"] == "error"]
    assert sorted((each["check"], each["namespace"], each["name"]) for each in errors) == [
        ("objects", "default", "w0"),
        ("objects", "default", "w3"),
    ]
    assert {failure.name for failure in (await migrate(due)).failures} == {"w0", "w3"}


RULE = {"rule": "!has(self.spec) || self.spec.size != 4", "message": "four is one too many"}
TRANSITION = {"rule": "self.size == oldSelf.size && self.size != 4", "message": "four was never right"}


def tightened(document: Document, *path: str, **more: Any) -> Document:
    """The CRD with more to say at a place of each schema."""
    for version in document["spec"]["versions"]:
        node = version["schema"]["openAPIV3Schema"]
        for step in path:
            node = node["properties"][step]
        node |= more
    return document


@pytest.mark.parametrize(
    ("path", "more"),
    [((), {"x-kubernetes-validations": [RULE]}), (("spec",), {"x-kubernetes-validations": [TRANSITION]})],
    ids=["a rule about the whole object", "a transition rule"],
)
async def test_an_object_that_a_tightened_schema_makes_invalid_is_found(
    path: tuple[str, ...], more: Document, due: Kind
) -> None:
    """What was admitted before the schema was tightened cannot be written any more, and nobody has tried."""
    await due.change(tightened(due.document(storage="v1beta1"), *path, **more))
    found = await plan(due)
    assert failing(found).keys() == {"w4"}
    assert failing(found)["w4"].startswith("other/w4 would fail (Invalid): ")
    assert "four" in failing(found)["w4"] and "fix the object, or the schema" in failing(found)["w4"]
    assert [failure.name for failure in (await migrate(due)).failures] == ["w4"]


async def test_an_object_in_an_object_that_is_none_is_found(kind: Kind) -> None:
    """A part that was free becomes a whole resource: those without a kind of their own cannot be written any more."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    document = kind.document(storage="v1alpha1")
    await kind.change(_with_template(document, free))
    for name, template in (("good", {"apiVersion": "v1", "kind": "Pod"}), ("bad", {"apiVersion": "v1"})):
        await kind.apply(kind.manifest("v1alpha1", name, spec={"template": template}), "alice")
    embedded = free | {"x-kubernetes-embedded-resource": True}
    await kind.change(_with_template(kind.document(storage="v1beta1"), embedded))
    found = await plan(kind)
    assert failing(found).keys() == {"bad"}
    assert "default/bad would fail (Invalid): " in failing(found)["bad"]
    assert [failure.name for failure in (await migrate(kind)).failures] == ["bad"]


def _with_template(document: Document, node: Document) -> Document:
    for version in document["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["template"] = node
    return document


async def test_what_the_server_tolerates_is_no_finding(due: Kind) -> None:
    """Fields that are invalid and do not change are let through (ratcheting): a finding would be a false alarm."""
    await due.change(tightened(due.document(storage="v1beta1"), "spec", "size", maximum=3))
    assert not (await plan(due)).findings.listed
    assert (await migrate(due)).complete


async def test_fields_that_would_be_pruned_are_found(due: Kind) -> None:
    """The value is gone for good with the rewrite, and no error tells of it."""
    for name in ("w0", "w3"):
        await due.merge("v1alpha1", name, {"spec": {"color": "red"}}, "bob")
    document = due.document(storage="v1beta1")
    (beta,) = (each for each in document["spec"]["versions"] if each["name"] == "v1beta1")
    del beta["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["color"]
    await due.change(document)
    for name in ("w0", "w3"):  # a write since the flip would have lost it already
        await due.change(due.document(storage="v1alpha1"))
        await due.merge("v1alpha1", name, {"spec": {"color": "blue"}}, "bob")
    await due.change(document)
    found = await plan(due)
    assert found.lost_fields == {".spec.color": 2}
    (warning,) = (each for each in found.warnings if "prune" in each)
    assert warning.startswith(
        "rewriting would prune .spec.color of 2 objects for good (default/w0 among them): v1beta1"
    )
    assert not found.findings.fail
    assert all(
        "color" in each["spec"] for key, each in (await due.stored()).items() if key in ("default/w0", "default/w3")
    )
    report = await migrate(due)
    assert report.complete and report.requests.list == found.requests.list
    [said] = report.warnings
    assert said.startswith("rewriting prunes .spec.color of 2 objects for good (default/w0 among them): v1beta1")
    assert not any("color" in each["spec"] for each in (await due.stored()).values())


async def test_a_version_that_is_not_served_hides_what_would_be_pruned(due: Kind) -> None:
    """Nobody can look then; a plan that says nothing would be taken for a yes."""
    document = due.document(storage="v1beta1", served=["v1beta1"])
    (beta,) = (each for each in document["spec"]["versions"] if each["name"] == "v1beta1")
    del beta["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["color"]
    await due.change(document)
    (warning,) = (await plan(due)).warnings
    assert warning.startswith("v1alpha1 is not served, so it cannot be seen whether objects of")
    assert ".spec.color" in warning and "Serve v1alpha1" in warning


@pytest.mark.parametrize(("sample", "tried"), [(0, 0), (3, 3), (50, COUNT), (None, COUNT)])
async def test_a_plan_stores_nothing(
    sample: int | None, tried: int, due: Kind, proxy: Proxy, through_proxy: HttpCluster
) -> None:
    """Who plans has not decided yet: every write is a dry run, no more objects are tried than asked for, all differ."""
    stored = await due.stored()
    found = await plan(due, through_proxy, sample=sample)
    assert await due.stored() == stored
    writes = [seen for seen in proxy.seen if seen.is_write and "selfsubjectaccessreviews" not in seen.path]
    assert all(seen.query.get("dryRun") == "All" for seen in writes)
    assert len(writes) == len({seen.path for seen in writes}) == tried == found.tried
    if sample == 3:
        assert {seen.path.split("/")[5] for seen in writes} == {"default", "other", "third"}
    assert (found.cost.seconds is not None) is (tried > 0)
    assert not found.findings.listed


async def test_missing_rights_are_told_and_nothing_is_tried(due: Kind, access: Access, kubeconfig: Path) -> None:
    """A planner may only read: plan names each right that the migrator needs, without a 403 for each object."""
    user = await access.user("planner", on_crd(due, "get"), on_objects(due, "list"))
    ran = await asyncio.to_thread(restow, "plan", due.name, "-o", "json", kubeconfig=user.kubeconfig)
    assert ran.code == 3, ran.err
    (crd,) = ran.json["crds"]
    assert crd["rehearsed"] == 0 and crd["cost"]["estimate"] is None
    messages = [each["message"] for each in crd["findings"]]
    assert {each["check"] for each in crd["findings"]} == {"permissions"}
    status, whole = f"{CRDS.full_name}/status {due.name}", f"{CRDS.full_name} {due.name}"
    wanted = [f"get {due.name}", f"patch {due.name}", f"patch {status}"]
    wanted += [f"list {whole}", f"watch {whole}", f"patch {whole}"]
    assert [message.split(": ")[0] for message in messages] == [f"permission is missing to {each}" for each in wanted]
    assert all("would be refused" in message for message in messages[:3])
    assert not any("would be refused" in message for message in messages[3:])


@pytest.mark.parametrize("default", [False, True], ids=["one write", "two writes for a new default"])
async def test_the_cost_is_what_the_migration_takes(default: bool, due: Kind) -> None:
    """A maintenance window is asked for by this number."""
    await due.change(due.document(storage="v1beta1", default=default))
    found = await plan(due)
    cost = found.cost
    assert (cost.objects, cost.writes, cost.server_conversions) == (COUNT, COUNT * (1 + default), 0)
    assert cost.measured.writes == cost.writes
    report = await migrate(due)
    assert (report.requests.write, report.requests.list) == (cost.writes, cost.lists)
    again = await plan(due)
    assert (again.cost.objects, again.tried, again.cost.seconds) == (0, 0, None)


@pytest.mark.parametrize("scope", Scope)
async def test_the_conversions_are_at_most_what_was_planned(
    scope: Scope, converted: ConvertedKind, webhook: Webhook
) -> None:
    """A webhook that is asked ten times as much as planned falls over in the middle of the night."""
    if scope is Scope.UNSERVED:
        await converted.change(converted.document(storage="v2", served=("v1", "v2")))
    found = await plan(converted, sample=0, scope=scope)
    cost = found.cost
    assert cost.rehearsals == (COUNT if scope is Scope.UNSERVED else 0)
    webhook.calls, webhook.asked = 0, []
    report = await migrate(converted, scope=scope)
    assert report.complete, report.to_json()
    assert report.requests.write == cost.writes + cost.rehearsals
    assert report.conversions <= cost.conversions
    by_server = webhook.calls - len(webhook.asked)
    assert by_server <= cost.server_conversions <= 2 * by_server


async def test_a_healthy_webhook_leaves_nothing_to_tell(converted: ConvertedKind, webhook: Webhook) -> None:
    """Findings that are none teach people to skip them."""
    stored = await converted.stored()
    found = await plan(converted)
    assert not found.findings.listed and found.tried == COUNT
    assert found.measured.conversions > 0 and found.cost.seconds is not None
    assert await converted.stored() == stored
    assert {review.desired for review in webhook.asked} == {"v0", "v1", "v2"}


async def test_an_object_that_cannot_be_converted_is_found(converted: ConvertedKind, webhook: Webhook) -> None:
    """It fails in the migration, the others do not; its name is what one needs."""
    webhook.fails = lambda found, desired: found["metadata"]["name"] == "w2" and desired == "v0"
    found = await plan(converted)
    assert failing(found).keys() == {"w2"}
    assert failing(found)["w2"].startswith("default/w2 would fail (CannotConvert): it cannot be converted to ")
    assert [failure.name for failure in (await migrate(converted)).failures] == ["w2"]


async def distrusted(kind: ConvertedKind) -> None:
    """Give the CRD the CA of somebody else; waits until objects cannot be listed for it."""
    other = base64.b64encode(ControlPlaneAuthority.create("other").certificate).decode()
    now = (await kind.cluster.get(CRDS, kind.name)).json()
    now["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] = other
    await kind.cluster.replace(CRDS, kind.name, json.dumps(now).encode())

    async def fails() -> bool:
        try:
            await kind.cluster.list_page(kind.at("v2"), params={"limit": "1"})
        except ApiError:
            return True
        return False

    await until(fails, "the list did not begin to fail")


async def test_a_webhook_that_nobody_can_trust_is_found(converted: ConvertedKind, kubeconfig: Path) -> None:
    """Its certificate does not fit the CRD: plan and ready say why nothing can be listed, and what to do."""
    await distrusted(converted)
    ran = await asyncio.to_thread(restow, "plan", converted.name, kubeconfig=kubeconfig)
    assert ran.code == 4, "once it is trusted, the same command works"
    assert f"the objects of {converted.name} could not all be listed: " in ran.err
    assert f"check that the conversion webhook of {converted.name} runs, that its certificate fits" in ran.err
    assert "its certificate is not to be trusted: " in ran.err  # the webhook was asked, too
    hurried = RetryingCluster(converted.cluster, patience_s=0.0)
    crd = await read_crd(hurried, converted.name)
    with pytest.raises(ListFailed, match="and that it converts v0, v1, v2"):
        await ready(hurried, crd, "v1")


async def test_a_webhook_that_is_out_of_reach_from_here_is_found(converted: ConvertedKind, webhook: Webhook) -> None:
    """The API server reaches it, the migration does not: nothing can be translated, and nothing else tells so."""
    webhook.instead = lambda _request: web.Response(status=404)
    found = await plan(converted)
    (finding,) = found.findings.listed
    assert finding.fails and finding.reason == "ConverterDown"
    assert finding.message.startswith(f"the conversion webhook of {converted.name} does not convert objects: ")
    assert "See that it runs" in finding.message
    assert found.tried == 0 and found.cost.seconds is None


async def test_a_webhook_that_breaks_partial_objects_is_found(converted: ConvertedKind, webhook: Webhook) -> None:
    """API servers send objects without spec when they work on managedFields, and empty these where that fails."""
    webhook.fails = lambda found, _desired: "spec" not in found
    (finding, *_more) = (await plan(converted, managed_fields=ManagedFields.KEEP)).findings.listed
    assert not finding.fails
    assert "does not convert an object without spec and status to v0" in finding.message


async def test_fields_that_a_webhook_makes_up_are_found(converted: ConvertedKind, webhook: Webhook) -> None:
    """The API server prunes without a word what a conversion answers and the schema does not know."""
    converts = webhook.converts

    def inventive(found: Document, desired: str) -> Document:
        made = converts(found, desired)
        return made | {"spec": made.get("spec", {}) | {"extra": 1}} if desired.endswith("v2") else made

    webhook.converts = inventive
    messages = [finding.message for finding in (await plan(converted)).findings.listed]
    assert any("at v2 with fields that v2 does not declare" in each and ".spec.extra" in each for each in messages)


async def test_a_webhook_that_does_not_support_dry_run_is_told(
    due: Kind, proxy: Proxy, through_proxy: HttpCluster
) -> None:
    """The server refuses the dry run, not the write: that is no failure of the object, but it is not known either."""

    async def refuse(seen: Seen) -> Answer | None:
        if not seen.is_write:
            return None
        return Answer.of(400, "BadRequest", 'admission webhook "w.example.com" does not support dry run')

    proxy.hook = refuse
    found = await plan(due, through_proxy)
    assert not found.findings.fail and len(found.findings.listed) == COUNT
    message = found.findings.listed[0].message
    assert message.startswith("the write of ") and "cannot be tried" in message and "sideEffects" in message
