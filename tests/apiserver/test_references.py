"""Who names a version, on a real API server: found in every place, with effects that are true.

The CRDs of Flux, Argo CD, OLM and Crossplane are minimal ones with the documented shape of the fields that are read.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.errors import ApiError
from restow.kube.resources import CONFIG_MAPS, Resource
from restow.migrator import find_references, read_crd, sought
from restow.migrator import ready as ask_ready
from restow.migrator.references.reference import FoundReferences, ReferenceKind
from restow.migrator.references.scan import CLUSTER_KINDS
from tests.apiserver.kind import Kind, until
from tests.apiserver.others import SECRETS, Others, a_release
from tests.apiserver.proxy import Proxy
from tests.migrator.references.spellings import CASES, blocks, moved
from tests.restow.commandline import Cli

OLD, NEW = "v1alpha1", "v1beta1"
ADMISSION = "admissionregistration.k8s.io"
POLICIES = Resource(ADMISSION, "v1", "validatingadmissionpolicies", namespaced=False)
BINDINGS = Resource(ADMISSION, "v1", "validatingadmissionpolicybindings", namespaced=False)
HOOKS = Resource(ADMISSION, "v1", "validatingwebhookconfigurations", namespaced=False)
SCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers", namespaced=True)
BUILT_IN = {
    each.full_name: each
    for each in (
        POLICIES,
        BINDINGS,
        SCALERS,
        Resource(ADMISSION, "v1", "mutatingwebhookconfigurations", namespaced=False),
        Resource("apps", "v1", "controllerrevisions", namespaced=True),
        Resource("discovery.k8s.io", "v1", "endpointslices", namespaced=True),
        Resource("resource.k8s.io", "v1", "deviceclasses", namespaced=False),
    )
}
BY_CONTROLLERS = {ReferenceKind.CLIENTS, ReferenceKind.MANAGED_FIELDS}


async def search(
    cluster: HttpCluster, kind: Kind, kinds: Collection[ReferenceKind] = CLUSTER_KINDS - BY_CONTROLLERS
) -> FoundReferences:
    """Look for the old version."""
    of = sought(await read_crd(kind.cluster, kind.name), OLD)
    return (await find_references(cluster, [of], kinds=kinds))[of]


def places(found: FoundReferences) -> set[tuple[str, str, str]]:
    """Kind, resource, and where."""
    return {(each.kind.value, each.resource, each.where) for each in found.references}


async def test_every_place_is_found(old: Kind, cluster: HttpCluster, others: Others) -> None:
    """A reference in a place that the search leaves out would break after the removal, without a warning."""
    group = f"o.{old.group}"
    pair = {"apiVersion": f"{old.group}/{OLD}", "kind": "Widget", "name": "w"}
    reference = {"type": "object", "properties": {name: {"type": "string"} for name in pair}}
    clusters = await others.kind(
        f"clusters.{group}", "Cluster", {"type": "object", "properties": {"infrastructureRef": reference}}
    )
    await others.made(clusters, "c", "Cluster", spec={"infrastructureRef": pair})
    await others.made(SCALERS, f"a.{old.group}", spec={"scaleTargetRef": pair, "maxReplicas": 1})
    await others.made(CONFIG_MAPS, f"a.{old.group}", metadata={"ownerReferences": [pair | {"uid": "1-2"}]})
    widget = f"apiVersion: {old.group}/{OLD}\nkind: Widget\nmetadata:\n  name: w\n"
    await others.made(SECRETS, f"sh.helm.release.v1.{old.group}", **a_release(f"---\n{widget}"))

    flux = await others.kind("kustomizations.kustomize.toolkit.fluxcd.io", "Kustomization")
    entries = [{"id": f"default_w_{old.group}_Widget", "v": OLD}]
    await others.made(flux, "k", "Kustomization", status={"inventory": {"entries": entries}})
    argo = await others.kind("applications.argoproj.io", "Application")
    tracked = {"group": old.group, "version": OLD, "kind": "Widget", "name": "w"}
    await others.made(argo, "a", "Application", status={"resources": [tracked]})
    olm = await others.kind("clusterserviceversions.operators.coreos.com", "ClusterServiceVersion")
    owned = {"owned": [{"name": old.name, "version": OLD, "kind": "Widget"}]}
    await others.made(olm, "c", "ClusterServiceVersion", spec={"customresourcedefinitions": owned})
    xrds = "compositeresourcedefinitions.apiextensions.crossplane.io"
    crossplane = await others.kind(xrds, "CompositeResourceDefinition", namespaced=False)
    spec = {"group": old.group, "names": {"kind": "Widget"}, "versions": [{"name": OLD}]}
    await others.made(crossplane, old.name, "CompositeResourceDefinition", spec=spec)
    rule = {"apiGroups": [old.group], "apiVersions": [OLD], "resources": ["widgets"], "operations": ["DELETE"]}
    hook = {"name": "a.b.c", "rules": [rule], "sideEffects": "None", "admissionReviewVersions": ["v1"]}
    hook |= {"clientConfig": {"url": "https://localhost:1"}, "failurePolicy": "Ignore"}
    await others.made(HOOKS, old.group, webhooks=[hook])
    applied = json.dumps({"apiVersion": f"{old.group}/{OLD}", "kind": "Widget"})
    annotation = {"kubectl.kubernetes.io/last-applied-configuration": applied}
    await old.apply(old.manifest(OLD, "w", metadata={"annotations": annotation}), "alice")

    found = await search(cluster, old)
    assert found.not_looked_at == ()
    assert places(found) == {
        ("owner-references", "configmaps", "/metadata/ownerReferences/0"),
        ("typed", f"clusters.{group}", "/spec/infrastructureRef"),
        ("typed", "horizontalpodautoscalers.autoscaling", "/spec/scaleTargetRef"),
        ("helm", "secrets", "manifest, line 2"),
        ("flux", "kustomizations.kustomize.toolkit.fluxcd.io", "/status/inventory/entries/0/v"),
        ("argo-cd", "applications.argoproj.io", "/status/resources/0/version"),
        ("olm", "clusterserviceversions.operators.coreos.com", "/spec/customresourcedefinitions/owned/0/version"),
        ("crossplane", xrds, "/spec/versions/0"),
        ("admission", f"validatingwebhookconfigurations.{ADMISSION}", "/webhooks/0/rules/0/apiVersions/0"),
        ("last-applied", old.name, "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration"),
    }
    writers = await search(cluster, old, BY_CONTROLLERS)
    (entry,) = (each for each in writers.references if each.kind is ReferenceKind.MANAGED_FIELDS)
    assert (entry.name, entry.count) == ("alice", 1)
    assert "last written 20" in entry.detail
    assert any(each.kind is ReferenceKind.CLIENTS and each.name in ("APPLY", "PATCH") for each in writers.references)

    answer = await ask_ready(cluster, await read_crd(cluster, old.name), OLD)
    against = " ".join(answer.against_unserving)
    for what in ("ownerReferences", "typed references", "Helm releases", "Flux", "Argo CD", "ClusterService"):
        assert what in against, what
    assert "admission rules" in " ".join(answer.against_removal)
    assert answer.to_json()["references"]


async def test_each_projects_spelling_is_found(old: Kind, cluster: HttpCluster, others: Others, cli: Cli) -> None:
    """A controller or a rule that names the version in its own way stops without a word after a wrong yes."""
    name = old.group.replace(".", "-")
    for case in CASES:
        resource = BUILT_IN.get(case.resource) or await others.kind(case.resource, case.kind, schema=case.schema)
        await others.made(resource, name, case.kind, **case.content(old.group, OLD))
    found = await search(cluster, old)
    assert found.not_looked_at == ()
    assert {(each.resource, each.where, blocks(each), moved(each)) for each in found.references} == {
        (case.resource, case.where, case.blocks, case.moved) for case in CASES
    }
    answer = await ask_ready(cluster, await read_crd(cluster, old.name), OLD)
    for said, step in ((answer.against_unserving, "unserving"), (answer.against_removal, "removal")):
        for case in CASES:
            stands = case.blocks in (step, "unserving")
            assert any(case.resource in each for each in said) is stands, (case.resource, step)

    moves = ("references", old.name, "--version", OLD, "--move", NEW, "--kinds", "typed", "-o", "json")
    for document, what in ((None, ("yes",)), (old.document(storage=NEW, keyed_conditions=False), ("same fields",))):
        if document is not None:
            await old.change(document)
        (report,) = (await cli(*moves)).json["moves"]
        assert (report["moved"], report["failed"]) == (
            {"typed": sum(case.moved in what for case in CASES)},
            {},
        ), report["notMoved"]
    left = {(each.resource, each.where) for each in (await search(cluster, old)).references}
    assert left == {(case.resource, case.where) for case in CASES if case.moved == "no"}


@pytest.mark.parametrize("place", ["policy", "binding"])
async def test_an_exclusion_at_a_removed_version_spares_nothing(
    place: str, old: Kind, cluster: HttpCluster, others: Others
) -> None:
    """A policy that spared the old version refuses every write once that is gone: ready has to say so before."""
    named = {"apiGroups": [old.group], "resources": ["widgets"], "operations": ["*"]}
    excluded = {"excludeResourceRules": [named | {"apiVersions": [OLD]}]}
    spec = {"matchConstraints": {"resourceRules": [named | {"apiVersions": ["*"]}]}}
    spec |= {"validations": [{"expression": "false"}], "failurePolicy": "Fail"}
    bound = {"policyName": old.group, "validationActions": ["Deny"]}
    if place == "policy":
        spec["matchConstraints"] |= excluded
    else:
        bound["matchResources"] = excluded
    guard = named | {"apiGroups": [f"guard.{old.group}"], "apiVersions": ["v1"]}
    spec["matchConstraints"]["resourceRules"].append(guard)
    guards = await others.kind(f"widgets.guard.{old.group}", "Guard")
    await others.made(POLICIES, old.group, spec=spec)
    await others.made(BINDINGS, old.group, spec=bound)

    async def refused(resource: Resource, body: dict[str, Any]) -> bool:
        try:
            await cluster.create(resource, json.dumps(body).encode(), "default", params={"dryRun": "All"})
        except ApiError as error:
            return "denied request" in error.said
        return False

    async def policy_works() -> bool:
        body = {"apiVersion": guards.api_version, "kind": "Guard", "metadata": {"name": "a"}}
        return await refused(guards, body)

    async def write_is_refused() -> bool:
        return await refused(old.at(NEW), old.manifest(NEW, "a"))

    await until(policy_works, "the policy does not bind")
    assert not await write_is_refused()
    answer = await ask_ready(cluster, await read_crd(cluster, old.name), OLD)
    (said,) = answer.against_removal
    assert "the policy applies to every request that it spared" in said
    assert "add the other served versions to the exclusion" in said
    assert not answer.against_unserving

    excluded["excludeResourceRules"][0]["apiVersions"] = [OLD, NEW]
    changed, content = (POLICIES, spec) if place == "policy" else (BINDINGS, bound)
    body = json.dumps({"spec": content}).encode()
    await cluster.patch(changed, old.group, body, None, patch_type=PatchType.MERGE)
    answer = await ask_ready(cluster, await read_crd(cluster, old.name), OLD)
    assert not answer.against_removal
    await old.change(old.document(storage=NEW, served=[NEW]))
    assert not await write_is_refused()
    await old.change(old.document(storage=NEW, versions=[NEW]))
    assert not await write_is_refused()

    excluded["excludeResourceRules"][0]["apiVersions"] = [OLD]
    body = json.dumps({"spec": content}).encode()
    await cluster.patch(changed, old.group, body, None, patch_type=PatchType.MERGE)
    await until(write_is_refused, "the exclusion spares although its version is gone: change what is said of it")


async def test_a_rule_at_a_removed_version_admits_everything(old: Kind, cluster: HttpCluster, others: Others) -> None:
    """What is said of admission rules is what the API server does: the check is gone, and nothing is refused."""
    rule = {"apiGroups": [old.group], "apiVersions": [OLD], "resources": ["widgets"], "operations": ["CREATE"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.metadata.name != 'bad'"}],
    }
    await others.made(POLICIES, old.group, spec=spec | {"failurePolicy": "Fail"})
    await others.made(BINDINGS, old.group, spec={"policyName": old.group, "validationActions": ["Deny"]})

    async def refused() -> bool:
        try:
            await cluster.create(old.at(NEW), json.dumps(old.manifest(NEW, "bad")).encode(), "default")
        except ApiError as error:
            return "denied" in error.said or "failed expression" in error.said
        await old.delete(NEW, "bad")
        return False

    await until(refused, "the policy does not bind")
    (found,) = (await search(cluster, old)).references
    assert found.where == "/spec/matchConstraints/resourceRules/0/apiVersions/0"
    assert found.effect.unserved.startswith("Nothing changes")
    assert found.effect.removed.startswith("The rule matches no request any more")
    await old.change(old.document(storage=NEW, served=[NEW]))
    assert await refused()
    await old.change(old.document(storage=NEW, versions=[NEW]))

    async def admitted() -> bool:
        return not await refused()

    await until(admitted, "the rule matches although its version is gone: change what is said of it")


async def test_only_what_may_name_a_version_is_read_whole(
    old: Kind, through_proxy: HttpCluster, proxy: Proxy, others: Others
) -> None:
    """Secrets other than Helm's, and the content of kinds without room for a reference, must not travel."""
    group = f"o.{old.group}"
    text = {"type": "string"}
    closed = {"kind": text, "version": text, "nodeSelector": {"type": "object", "additionalProperties": text}}
    spec = {"type": "object", "properties": closed}
    await others.kind(f"plains.{group}", "Plain", schema={"type": "object", "properties": {"spec": spec}})
    await others.kind(f"opens.{group}", "Open")
    assert (await search(through_proxy, old)).not_looked_at == ()
    lists = [seen for seen in proxy.seen if seen.is_list]
    whole = {seen.path for seen in lists if "PartialObjectMetadata" not in seen.accept}
    assert f"/apis/{group}/v1/opens" in whole
    assert f"/apis/{group}/v1/plains" in {seen.path for seen in lists} - whole
    assert "/apis/apps/v1/deployments" in {seen.path for seen in lists} - whole
    assert {path for path in whole if path.startswith("/api/v1/")} == {"/api/v1/secrets", "/api/v1/configmaps"}
    for seen in lists:
        if seen.path in ("/api/v1/secrets", "/api/v1/configmaps"):
            assert ("PartialObjectMetadata" in seen.accept) != ("labelSelector" in seen.query)


async def test_hostile_releases_hide_nothing(old: Kind, cluster: HttpCluster, others: Others) -> None:
    """Whoever may write one Secret must neither end the search nor stay unseen in it."""
    nested = b"[" * 500_000 + b"]" * 500_000
    contents = {
        "bomb": gzip.compress(bytes(40 * 1024 * 1024)),
        "gzip": b"\x1f\x8b\x08 and no more of it",
        "nested": gzip.compress(b'{"chart": ' + nested + b"}"),
        "plain": b"no gzip, no JSON",
    }
    texts = {name: base64.b64encode(base64.b64encode(content)).decode() for name, content in contents.items()}
    texts["text"] = base64.b64encode(b"no release").decode()
    for name, text in texts.items():
        data = {"type": "helm.sh/release.v1", "data": {"release": text}}
        await others.made(SECRETS, f"{name}.{old.group}", **data, metadata={"labels": {"owner": "helm"}})
    manifest = f"apiVersion: {old.group}/{OLD}\nkind: Widget\nmetadata:\n  name: w\n"
    await others.made(SECRETS, f"good.{old.group}", **a_release(manifest))
    found = await search(cluster, old)
    assert {each.name for each in found.references} == {f"good.{old.group}"}
    missed = {each.resource: each.reason for each in found.not_looked_at}
    assert missed == {
        f"secrets default/bomb.{old.group}": "it holds a release of more than 32 MiB",
        f"secrets default/gzip.{old.group}": "it holds a release that is broken gzip",
        f"secrets default/nested.{old.group}": "it holds a release that is nested too deeply",
        f"secrets default/plain.{old.group}": "it holds a release that is not JSON of a release",
        f"secrets default/text.{old.group}": "it holds a release that is no base64",
    }


async def test_a_megabyte_of_nested_json_hides_nothing(
    old: Kind, cluster: HttpCluster, through_proxy: HttpCluster, proxy: Proxy, others: Others
) -> None:
    """An object that is nested more deeply than a parser can follow must hide itself alone, and say so."""
    group = f"o.{old.group}"
    opens = await others.kind(f"opens.{group}", "Open")
    pair = {"apiVersion": f"{old.group}/{OLD}", "kind": "Widget", "name": "w"}
    for name in ("a", "z"):
        await others.made(opens, name, "Open", spec={"ref": pair})
    await others.made(
        CONFIG_MAPS, f"a.{old.group}", metadata={"ownerReferences": [pair | {"uid": "of-another-cluster"}]}
    )
    nested = "[" * 5000 + "]" * 5000
    body = f'{{"apiVersion": "{group}/v1", "kind": "Open", "metadata": {{"name": "deep"}}, "spec": '
    body += f'{{"ref": {json.dumps(pair)}, "deep": [{", ".join([nested] * 100)}]}}}}'
    await cluster.create(opens, body.encode(), "default")
    try:
        found = await search(through_proxy, old)
    finally:
        await cluster.delete(opens, "deep", "default")
    assert {(each.resource, each.name) for each in found.references} == {
        (f"opens.{group}", "a"),
        (f"opens.{group}", "z"),
        ("configmaps", f"a.{old.group}"),
    }
    assert {each.resource: each.reason for each in found.not_looked_at} == {
        f"opens.{group} default/deep": "it is nested too deeply"
    }
    assert {seen.method for seen in proxy.seen} <= {"GET", "POST"}, "nothing but reads and reviews of rights"


async def test_the_command(old: Kind, cli: Cli, others: Others) -> None:
    """Pipelines branch on the exit code and read the JSON; people read the table and the sentences."""
    kinds = ("--kinds", "owner-references,typed,helm")
    nothing = await cli("references", old.name, "--version", OLD, *kinds)
    assert (nothing.code, nothing.out) == (0, "")
    assert f"Nothing that was looked at names {old.name} {OLD}." in nothing.err
    name = f"a.{old.group}"
    reference = {"apiVersion": f"{old.group}/{OLD}", "kind": "Widget", "name": "w", "uid": "1-2"}
    await others.made(CONFIG_MAPS, name, metadata={"ownerReferences": [reference]})
    ran = await cli("references", old.name, "--version", OLD, *kinds, "-o", "json")
    (found,) = ran.json["versions"]
    assert (ran.code, found["count"], found["counts"]) == (3, 1, {"owner-references": 1})
    (one,) = found["references"]
    assert (one["resource"], one["namespace"], one["name"], one["movable"]) == ("configmaps", "default", name, True)
    shown = await cli("references", old.name, "--version", OLD, *kinds)
    assert shown.code == 3
    row = dict(zip(*shown.rows[:2], strict=True))
    assert (row["KIND"], row["NAME"], row["WHERE"]) == (
        "owner-references",
        f"default/{name}",
        "/metadata/ownerReferences/0",
    )
    assert "leaves this object behind" in shown.err
    wide = await cli("references", old.name, *kinds, "-o", "wide")
    assert "WHEN REMOVED" in wide.out
    alone = await cli("ready", old.name, "--drop", OLD, "--no-references", "-o", "json")
    assert (alone.code, alone.json["references"]) == (0, None)
    unknown = await cli("references", old.name, "--version", "v7", *kinds)
    assert (unknown.code, f"{old.name} has no version v7 (any more)" in unknown.err) == (0, True)


async def test_a_plan_and_a_report_count_what_stands_against_a_version(
    old: Kind, cli: Cli, others: Others, tmp_path: Path
) -> None:
    """Who plans the removal of a version has to know what to move before it, without a second tool."""
    reference = {"apiVersion": f"{old.group}/{OLD}", "kind": "Widget", "name": "w", "uid": "1-2"}
    await others.made(CONFIG_MAPS, f"a.{old.group}", metadata={"ownerReferences": [reference]})
    plain = await cli("plan", old.name, "-o", "json")
    assert (plain.code, plain.json["crds"][0]["references"]) == (0, None)
    ran = await cli("plan", old.name, "--references", "-o", "json")
    assert ran.code == 0, "references are no work of a migration"
    (found,) = ran.json["crds"][0]["references"]
    assert (found["version"], found["againstUnserving"], found["againstRemoval"]) == (
        OLD,
        {"owner-references": 1},
        {"owner-references": 1},
    )
    shown = await cli("plan", old.name, "--references")
    assert (
        f"{old.name}: against unserving {OLD} stand 1 reference (owner-references 1), against removing it 1 reference "
        f"(owner-references 1): restow references {old.name} --version {OLD} shows them, and with --move {NEW} writes "
        f"those that it can at {NEW}"
    ) in " ".join(shown.err.split())
    page = tmp_path / "report.html"
    assert (await cli("report", old.name, "--references", "-o", page)).code == 0
    assert f"For example <bdi>default/a.{old.group}</bdi>" in page.read_text()
    assert (await cli("report", old.name, "-o", page)).code == 0
    assert "What else names a version" not in page.read_text()
