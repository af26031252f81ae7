"""Rules for kinds that Crossplane makes of CompositeResourceDefinitions (XRDs), by Crossplane's own CRD of those.

Crossplane itself does not run here. ``Crossplane`` does what it does at each reconcile: it writes the XRD's
``spec.conversion`` into the CRD (`internal/xcrd/crd.go` of v2.0.2).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from restow.conversion.certificates import WiringRefused, unwire
from restow.conversion.certificates.wiring.crd import COMPOSITES
from restow.conversion.certificates.wiring.fieldmanagers import FIELD_MANAGER
from restow.conversion.operate.revisions import BREAK_GLASS
from restow.crds.conversionrules import CONVERSION_RULES
from restow.crds.documents import load_documents
from restow.kube import PatchType, Resource
from restow.kube.client import HttpCluster
from restow.kube.errors import ApiError, NotFound
from restow.kube.resources import CRDS
from restow.migrator import may_be_stored
from tests.apiserver.kind import Document, until
from tests.apiserver.test_conversions_in_cluster import QUEUE, Jobs, Replicas, gone, replace_at_v1beta1, replicas
from tests.restow.commandline import Cli
from tests.upstream.files import crossplane

__all__ = ["replicas"]  # a fixture


class Claims(Jobs):
    """The claims of jobs."""

    def __init__(self, cluster: HttpCluster, group: str) -> None:
        super().__init__(cluster, group)
        self.name = f"jobclaims.{group}"
        self.kind = "JobClaim"

    def at(self, version: str) -> Resource:
        """The resource at a version."""
        return Resource(self.group, version, "jobclaims", namespaced=True)


class Crossplane:
    """An XRD, and the CRD that is made of it."""

    def __init__(self, cluster: HttpCluster, jobs: Jobs, version: str, *, owner: str = "") -> None:
        self.cluster = cluster
        self.jobs = jobs
        self.claims: Claims | None = None
        self.owner = f"{COMPOSITES.group}/{owner or version}"
        self.resource = Resource(COMPOSITES.group, version, COMPOSITES.plural, namespaced=False)

    async def install(self, *, more: Document | None = None, **spec: Any) -> None:
        """Create the XRD, with its scope or claims, and the CRDs; ``more`` are further fields of v1's spec."""
        crd = self.jobs.crd(more=more)
        versions = [
            {"name": each["name"], "served": True, "referenceable": each["storage"], "schema": each["schema"]}
            for each in crd["spec"]["versions"]
        ]
        about = {"group": crd["spec"]["group"], "names": crd["spec"]["names"], "versions": versions}
        kind = {"apiVersion": self.resource.api_version, "kind": "CompositeResourceDefinition"}
        body = {**kind, "metadata": {"name": self.jobs.name}, "spec": {"scope": "Namespaced", **about, **spec}}
        params = {"fieldValidation": "Strict"}
        made = (await self.cluster.create(self.resource, json.dumps(body).encode(), params=params)).json()["metadata"]
        owner = kind | {"apiVersion": self.owner, "controller": True, "name": made["name"], "uid": made["uid"]}
        crd["metadata"]["ownerReferences"] = [owner]
        await self.cluster.create(CRDS, json.dumps(crd).encode())
        await self.jobs.served()
        if claims := spec.get("claimNames"):
            names = {**claims, "singular": claims["kind"].lower(), "listKind": f"{claims['kind']}List"}
            crd["metadata"]["name"] = f"{claims['plural']}.{self.jobs.group}"
            crd["spec"] |= {"names": names}
            await self.cluster.create(CRDS, json.dumps(crd).encode())
            self.claims = Claims(self.cluster, self.jobs.group)
            await self.claims.served()

    async def reconcile(self) -> None:
        """Copy the XRD's conversion."""
        conversion = (await self.xrd())["spec"].get("conversion") or {"strategy": "None", "webhook": None}
        await self.write(CRDS, conversion)
        if self.claims is not None:
            body = json.dumps({"spec": {"conversion": conversion}}).encode()
            await self.cluster.patch(CRDS, self.claims.name, body, patch_type=PatchType.MERGE)

    async def write(self, resource: Resource, conversion: Document) -> None:
        """Write the conversion of the CRD, or of the XRD."""
        body = json.dumps({"spec": {"conversion": conversion}}).encode()
        params = {"fieldManager": "crossplane"}
        await self.cluster.patch(resource, self.jobs.name, body, patch_type=PatchType.MERGE, params=params)

    async def xrd(self) -> Document:
        """The XRD."""
        found: Document = (await self.cluster.get(self.resource, self.jobs.name)).json()
        return found

    async def crd(self) -> Document:
        """The CRD."""
        found: Document = (await self.cluster.get(CRDS, self.jobs.name)).json()
        return found


@pytest.fixture
async def composites(cluster: HttpCluster) -> AsyncIterator[None]:
    """Crossplane's CRD of XRDs; in the end it is gone, with all of them."""
    (file,) = crossplane().glob("*.yaml")
    (document,) = load_documents(file.read_text(encoding="utf-8"))
    await cluster.create(CRDS, json.dumps(document).encode())

    async def served() -> bool:
        try:
            await cluster.list_page(COMPOSITES)
        except ApiError:
            return False
        return True

    await until(served, "CompositeResourceDefinitions are not served")
    yield
    await cluster.delete(CRDS, COMPOSITES.full_name)

    async def gone() -> bool:
        try:
            await cluster.get(CRDS, COMPOSITES.full_name)
        except NotFound:
            return True
        return False

    await until(gone, "the CRD of CompositeResourceDefinitions stays")


def writers(document: Document) -> set[str]:
    """The managers of ``spec.conversion``."""
    return {
        each["manager"]
        for each in document["metadata"]["managedFields"]
        if "f:conversion" in each["fieldsV1"].get("f:spec", {})
    }


@pytest.mark.parametrize("version", ["v1", "v2"])
async def test_the_definition_is_wired_and_the_crd_left_alone(
    version: str, cluster: HttpCluster, composites: None, group: str, replicas: Replicas
) -> None:
    """A CRD that both restow and Crossplane write changes for ever, and each change rebuilds all its watch caches."""
    jobs = Jobs(cluster, group)
    made = Crossplane(cluster, jobs, version)
    await replicas.start()
    try:
        await made.install()
        await jobs.create("v1", "a", timeout="1m30s")
        await jobs.declare(jobs.rules())

        async def waits() -> bool:
            found = await jobs.condition("Wired", "False")
            return bool(found["reason"] == "WaitingForCrossplane")

        await until(waits, "the XRD is not wired")
        conversion = (await made.xrd())["spec"]["conversion"]
        assert conversion["webhook"]["clientConfig"]["url"].endswith(f"/convert/{jobs.name}")
        assert conversion["webhook"]["clientConfig"]["caBundle"]
        assert writers(await made.xrd()) == {FIELD_MANAGER}
        untouched = await made.crd()
        assert untouched["spec"]["conversion"] == {"strategy": "None"}
        assert FIELD_MANAGER not in writers(untouched)

        await made.reconcile()
        await jobs.condition("Ready", "True")
        assert (await jobs.spec("v1beta1", "a"))["timeoutSeconds"] == 90

        # Crossplane writes the CRD as it likes: that is not undone.
        await made.write(CRDS, {"strategy": "None", "webhook": None})
        await until(waits, "the gate does not see that the CRD lost its conversion")
        written = await made.crd()
        assert written["spec"]["conversion"] == {"strategy": "None"}
        assert FIELD_MANAGER not in writers(written)
        # What is taken out of the XRD is put back.
        await made.write(made.resource, {"webhook": {"clientConfig": {"caBundle": None}}})

        async def healed() -> bool:
            return "caBundle" in (await made.xrd())["spec"]["conversion"]["webhook"]["clientConfig"]

        await until(healed, "the XRD stays without its CA bundle")
        await made.reconcile()
        await jobs.condition("Ready", "True")
    finally:
        await jobs.remove()


async def test_the_webhook_of_a_definition_is_taken_over_by_name(
    cluster: HttpCluster, composites: None, group: str, replicas: Replicas
) -> None:
    """Crossplane would copy the takeover of another project's webhook into the CRD, and nobody could undo it."""
    jobs = Jobs(cluster, group)
    made = Crossplane(cluster, jobs, "v2")
    config = {"service": {"namespace": "their-system", "name": "webhook"}}
    theirs = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": config}}
    await replicas.start()
    try:
        await made.install()
        await made.write(made.resource, theirs)
        before = (await made.xrd())["spec"]["conversion"]
        await made.reconcile()
        await jobs.declare(jobs.rules())
        told = await jobs.condition("Wired", "False")
        assert told["reason"] == "ForeignWebhook" and "spec.takeOver: their-system/webhook" in told["message"]
        assert (await made.xrd())["spec"]["conversion"] == before

        await jobs.change(jobs.rules(takeOver="their-system/webhook"))

        async def ours() -> bool:
            return "url" in (await made.xrd())["spec"]["conversion"]["webhook"]["clientConfig"]

        await until(ours, "the XRD is not wired")
        await made.write(CRDS, {"strategy": "None", "webhook": None})  # Crossplane writes it whole
        await made.reconcile()
        await jobs.condition("Ready", "True", 2)
        await cluster.delete(CONVERSION_RULES, jobs.name)
        assert "would come back, but" in (await jobs.condition("Wired", "False"))["message"]
        change = json.dumps({"metadata": {"annotations": {BREAK_GLASS: ""}}}).encode()
        await cluster.patch(CONVERSION_RULES, jobs.name, change, patch_type=PatchType.MERGE)
        await until(lambda: gone(cluster, jobs.name), "the rules stay")
        assert (await made.xrd())["spec"]["conversion"] == before
    finally:
        await jobs.remove()


@pytest.mark.parametrize("owner", ["v1", "v2"])
async def test_rules_convert_claims_too(
    owner: str, cluster: HttpCluster, composites: None, group: str, replicas: Replicas
) -> None:
    """Crossplane gives a claim's CRD the same conversion: its objects come to rules that have to know them."""
    jobs = Jobs(cluster, group)
    made = Crossplane(cluster, jobs, "v1", owner=owner)
    await replicas.start("--restore-stashes")
    try:
        names = {"kind": "JobClaim", "plural": "jobclaims"}
        await made.install(more=QUEUE, scope="LegacyCluster", claimNames=names)
        assert made.claims is not None
        await jobs.create("v1", "a", timeout="1m30s")
        await made.claims.create("v1", "c", timeout="30s", queue="night")
        rules = jobs.rules()
        rules["spec"]["spokes"][0]["rules"].append({"stash": {"hub": "spec.queue"}})
        await jobs.declare(rules)

        async def waits() -> bool:
            return bool((await jobs.condition("Wired", "False"))["reason"] == "WaitingForCrossplane")

        await until(waits, "the XRD is not wired")
        await made.reconcile()
        told = (await jobs.condition("Ready", "True")) and (await jobs.status())["conditions"]
        assert "2 objects converted" in told[1]["message"]
        assert "converts Job and JobClaim at" in told[3]["message"]
        assert (await jobs.spec("v1beta1", "a")) == {"timeoutSeconds": 90}
        assert (await made.claims.spec("v1beta1", "c")) == {"timeoutSeconds": 30}
        await replace_at_v1beta1(made.claims, "c", 60)
        assert (await made.claims.spec("v1", "c")) == {"timeout": "1m0s", "queue": "night"}

        # A stored claim that a change of the rules cannot convert blocks the change, as a composite would.
        await jobs.create("v1", "b", timeout="20s")
        expressions = {"up": "string(self) + 's'", "down": "int(self.replace('s', ''))"}
        changed = jobs.rules(
            {"pair": {"spoke": "spec.timeoutSeconds", "hub": "spec.timeout", "loses": "down", **expressions}},
            {"stash": {"hub": "spec.queue"}},
        )
        told = await jobs.condition("Rehearsed", "False", await jobs.change(changed))
        assert "/c: " in told["message"], told

        # The definition has one strategy for both kinds, so an object of either one keeps the webhook.
        await cluster.delete(CONVERSION_RULES, jobs.name)
        for name in ("a", "b"):
            await cluster.delete(jobs.at("v1"), name, "default")
        with pytest.raises(WiringRefused, match=rf"^{made.claims.name} needs its webhook: .* \(default/c at /"):
            await unwire(cluster, jobs.name, may_be_stored)
    finally:
        if made.claims is not None:
            await made.claims.remove()
        await jobs.remove()


async def test_a_claim_that_the_definition_does_not_control_is_left_alone(
    cluster: HttpCluster, composites: None, group: str, replicas: Replicas
) -> None:
    """Whoever writes a CompositeResourceDefinition would get another team's kind by naming it as the claim."""
    jobs, theirs = Jobs(cluster, group), Claims(cluster, group)
    made = Crossplane(cluster, jobs, "v1")
    await replicas.start()
    try:
        victim = jobs.crd()
        victim["metadata"]["name"] = theirs.name
        claim = {"plural": "jobclaims", "kind": "JobClaim"}
        victim["spec"]["names"] = {**claim, "singular": "jobclaim", "listKind": "JobClaimList"}
        await cluster.create(CRDS, json.dumps(victim).encode())
        await made.install(scope="LegacyCluster")
        body = json.dumps({"spec": {"claimNames": claim}}).encode()
        await cluster.patch(made.resource, jobs.name, body, patch_type=PatchType.MERGE)
        await jobs.declare(jobs.rules())
        told = await jobs.condition("Analyzed", "False")
        assert told["reason"] == "Claims"
        assert f"{theirs.name} of the claim JobClaim is not made from" in told["message"]
    finally:
        await theirs.remove()
        await jobs.remove()


async def test_rules_name_the_composite_kind(
    cluster: HttpCluster, composites: None, group: str, replicas: Replicas
) -> None:
    """Rules for a claim alone would leave the composite kind, which has the same conversion, without any."""
    jobs = Jobs(cluster, group)
    made = Crossplane(cluster, jobs, "v1")
    await replicas.start()
    try:
        await made.install(scope="LegacyCluster", claimNames={"kind": "JobClaim", "plural": "jobclaims"})
        await jobs.declare(jobs.rules(target={"group": group, "kind": "JobClaim"}))
        told = await jobs.condition("Analyzed", "False")
        assert told["reason"] == "Claims"
        assert "name the composite kind in spec.target" in told["message"]
    finally:
        if made.claims is not None:
            await made.claims.remove()
        await jobs.remove()


async def test_a_definition_is_compared_with_the_one_that_is_served(
    cluster: HttpCluster, composites: None, group: str, cli: Cli, tmp_path: Path
) -> None:
    """The CRD has Crossplane's own fields, so each XRD would seem to remove them."""
    crossplane_ = Crossplane(cluster, Jobs(cluster, group), "v2")
    await crossplane_.install()
    await cluster.patch(
        CRDS,
        crossplane_.jobs.name,
        b'[{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/crossplane", '
        b'"value": {"type": "string"}}]',
        patch_type=PatchType.JSON,
    )
    xrd = await crossplane_.xrd()
    file = tmp_path / "xrd.json"
    file.write_text(json.dumps(xrd))
    try:
        same = await cli("diff", "cluster", file, "-o", "json")
        assert (same.code, same.json["crds"], same.json["findings"]) == (0, [crossplane_.jobs.name], [])
        xrd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"].popitem()
        file.write_text(json.dumps(xrd))
        assert (await cli("diff", "cluster", file, "-o", "json")).json["verdict"] == "breaking"
    finally:
        await cluster.delete(CRDS, crossplane_.jobs.name)
