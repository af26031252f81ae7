"""``restow operator --conversions`` against a real API server: rules in the cluster through their whole life."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from restow.controlplane.binaries import find_binaries
from restow.controlplane.etcd import Etcd
from restow.conversion.certificates.ca.store import SECRETS
from restow.conversion.operate.revisions import BREAK_GLASS, CONFIGURATION, record_name
from restow.crds.conversionrules import CONVERSION_RULES
from restow.kube import PatchType
from restow.kube.client import HttpCluster
from restow.kube.errors import ApiError, NotFound
from restow.kube.resources import CONFIG_MAPS, CRDS, LEASES, Resource
from tests.apiserver.kind import Document, until
from tests.apiserver.operators import CONFIGURATIONS, ROOT, Operator
from tests.docs.blocks import Block, commands, parse
from tests.ports import free_port
from tests.restow.commandline import restow

LEASE = "restow-operator-conversions"


class Jobs:
    """A kind of its own for a test, whose v1 spells what v1beta1 says in other words, and the rules for it."""

    def __init__(self, cluster: HttpCluster, group: str) -> None:
        self.cluster = cluster
        self.group = group
        self.name = f"jobs.{group}"
        self.kind = "Job"

    def crd(self, *, more: Document | None = None) -> Document:
        """The CRD, without spec.conversion; ``more`` are further fields of v1's spec."""
        timeouts = {"v1beta1": {"timeoutSeconds": {"type": "integer"}}, "v1": {"timeout": {"type": "string"}}}
        shared = {"image": {"type": "string"}}
        versions = []
        for version, own in timeouts.items():
            fields = {**shared, **own, **((more or {}) if version == "v1" else {})}
            spec = {"type": "object", "properties": fields}
            schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
            versions.append({"name": version, "served": True, "storage": version == "v1", "schema": schema})
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": {
                "group": self.group,
                "scope": "Namespaced",
                "names": {"plural": "jobs", "singular": "job", "kind": "Job", "listKind": "JobList"},
                "versions": versions,
            },
        }

    def rules(self, *rules: Document, name: str | None = None, **spec: Any) -> Document:
        """A document with these rules; without any, with those that are right."""
        right = [{"duration": {"spoke": "spec.timeoutSeconds", "hub": "spec.timeout", "unit": "s", "text": "hub"}}]
        return {
            "apiVersion": CONVERSION_RULES.api_version,
            "kind": "ConversionRules",
            "metadata": {"name": name or self.name},
            "spec": {
                "target": {"group": self.group, "kind": "Job"},
                "hub": "v1",
                "spokes": [{"version": "v1beta1", "rules": list(rules) or right}],
                **spec,
            },
        }

    def at(self, version: str) -> Resource:
        """The resource at a version."""
        return Resource(self.group, version, "jobs", namespaced=True)

    async def create(self, version: str, name: str, **spec: Any) -> Document:
        """Create an object."""
        body = {
            "apiVersion": f"{self.group}/{version}",
            "kind": self.kind,
            "metadata": {"name": name, "namespace": "default"},
            "spec": spec,
        }
        created: Document = (await self.cluster.create(self.at(version), json.dumps(body).encode(), "default")).json()
        return created

    async def spec(self, version: str, name: str) -> Document:
        """The spec of an object at a version."""
        found: Document = (await self.cluster.get(self.at(version), name, "default")).json()["spec"]
        return found

    async def declare(self, document: Document) -> Document:
        """Create the rules, once API servers ask the admission step, so that the answer about the user is recorded."""
        await until(lambda: admission_answers(self), "admission is not called")
        declared: Document = (await self.cluster.create(CONVERSION_RULES, json.dumps(document).encode())).json()
        return declared

    async def change(self, document: Document) -> int:
        """Give the rules another spec; return their generation."""
        body = json.dumps({"spec": document["spec"]}).encode()
        reply = await self.cluster.patch(
            CONVERSION_RULES, document["metadata"]["name"], body, patch_type=PatchType.MERGE
        )
        generation: int = reply.json()["metadata"]["generation"]
        return generation

    async def status(self, name: str | None = None) -> Document:
        """The status of the rules."""
        document: Document = (await self.cluster.get(CONVERSION_RULES, name or self.name)).json()
        return document.get("status") or {}

    async def condition(
        self, type_: str, status: str, generation: int = 0, name: str | None = None, reason: str = ""
    ) -> Document:
        """Wait until a condition of the rules has a status, and the reason if given, as of a generation; return it."""
        seen: Document = {}

        async def found() -> Document | None:
            seen.update(await self.status(name))
            if (seen.get("observedGeneration") or 0) < generation:
                return None
            each: Document
            for each in seen.get("conditions") or ():
                if (each["type"], each["status"]) == (type_, status) and reason in ("", each["reason"]):
                    return each
            return None

        try:
            condition: Document = await until(found, "")
        except AssertionError:
            raise AssertionError(f"{type_} does not become {status}: {json.dumps(seen, indent=1)}") from None
        return condition

    async def serve(self, *versions: str, storage: str = "v1") -> None:
        """Serve these versions alone, and wait until new objects are stored at the storage version."""
        now = (await self.cluster.get(CRDS, self.name)).json()
        for version in now["spec"]["versions"]:
            version |= {"served": version["name"] in versions, "storage": version["name"] == storage}
        body = json.dumps({"spec": {"versions": now["spec"]["versions"]}}).encode()
        await self.cluster.patch(CRDS, self.name, body, patch_type=PatchType.MERGE)
        wanted = hashlib.sha256(f"{self.group}/{storage}/Job".encode()).digest()[:8]

        async def follows() -> bool:
            resources = Resource(self.group, storage, "", namespaced=False)  # the path of a version's discovery
            (jobs,) = (await self.cluster.list_page(resources)).json()["resources"]
            return bool(jobs["storageVersionHash"] == base64.b64encode(wanted).decode())

        await until(follows, f"{self.name} is not stored at {storage}")

    async def migrate(self, replicas: Replicas) -> None:
        """Leave the proof that every object is stored at the storage version."""
        ran = await asyncio.to_thread(restow, "migrate", self.name, "--settle=0", kubeconfig=replicas.kubeconfig)
        assert ran.code == 0, ran.err

    async def served(self) -> None:
        """Wait until the CRD is served at both versions."""

        async def listed() -> bool:
            try:
                for version in ("v1beta1", "v1"):
                    await self.cluster.list_page(self.at(version))
            except ApiError:
                return False
            return True

        await until(listed, f"{self.name} is not served")

    async def remove(self) -> None:
        """Remove rules, objects and CRD, whatever state they are in."""
        items = (await self.cluster.list_page(CONVERSION_RULES)).json()["items"]
        for item in items:
            name = item["metadata"]["name"]
            with suppress(NotFound):
                await self.cluster.patch(
                    CONVERSION_RULES, name, b'{"metadata": {"finalizers": []}}', patch_type=PatchType.MERGE
                )
                await self.cluster.delete(CONVERSION_RULES, name)
        with suppress(NotFound):
            body = json.dumps({"spec": {"conversion": {"strategy": "None", "webhook": None}}}).encode()
            await self.cluster.patch(CRDS, self.name, body, patch_type=PatchType.MERGE)
            await self.cluster.delete(CRDS, self.name)
        with suppress(NotFound):
            await self.cluster.delete(CONFIG_MAPS, record_name(self.name), "default")


class Replicas:
    """Operators with one address: that of the first one."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.port = free_port()
        self.started: list[Operator] = []

    async def start(self, *flags: str, port: int | None = None) -> Operator:
        """Start one."""
        operator = await Operator.start(
            "--conversions",
            *flags,
            "--install-crds",
            f"--own-ca=https://127.0.0.1:{self.port}",
            f"--kubeconfig={self.kubeconfig}",
            f"--port={self.port if port is None else port}",
        )
        self.started.append(operator)
        return operator

    async def end(self, cluster: HttpCluster) -> None:
        """Stop all of them, and take away what they leave."""
        for each in self.started:
            await each.stop()
        await clean(cluster)


async def clean(cluster: HttpCluster) -> None:
    """Take away what replicas that have ended leave, but for rules and their records."""
    with suppress(NotFound):
        await cluster.delete(CONFIGURATIONS[1], CONFIGURATION)
    for name in ("restow-webhook", "restow-webhook-ca"):
        with suppress(NotFound):
            await cluster.delete(SECRETS, name, "default")
    leases = [item["metadata"]["name"] for item in (await cluster.list_page(LEASES, "default")).json()["items"]]
    for name in (each for each in leases if each == LEASE or each.startswith("restow-replica-")):
        await cluster.delete(LEASES, name, "default")  # a replica that was killed leaves the Lease of its own


@pytest.fixture
async def replicas(cluster: HttpCluster, kubeconfig: Path) -> AsyncIterator[Replicas]:
    """Replicas that are stopped in the end, with all that they leave."""
    found = Replicas(kubeconfig)
    try:
        yield found
    finally:
        await found.end(cluster)


@pytest.fixture
async def jobs(cluster: HttpCluster, group: str, replicas: Replicas) -> AsyncIterator[Jobs]:
    """The kind, whose CRD is installed, and one replica."""
    async with installed(Jobs(cluster, group), replicas) as found:
        yield found


J = TypeVar("J", bound=Jobs)


@asynccontextmanager
async def installed(found: J, replicas: Replicas) -> AsyncIterator[J]:
    """Install the CRD of a kind, and start one replica; remove the kind in the end."""
    await found.cluster.create(CRDS, json.dumps(found.crd()).encode())
    await found.served()
    await replicas.start()
    try:
        yield found
    finally:
        await found.remove()


async def test_rules_become_conversions(cluster: HttpCluster, jobs: Jobs, replicas: Replicas) -> None:
    """A document is all that a team applies: objects then read and write at both versions."""
    await jobs.create("v1", "before", image="a", timeout="1m30s")
    await jobs.declare(jobs.rules())
    await jobs.condition("Ready", "True")
    assert await jobs.spec("v1beta1", "before") == {"image": "a", "timeoutSeconds": 90}
    await jobs.create("v1beta1", "after", image="b", timeoutSeconds=30)
    assert await jobs.spec("v1", "after") == {"image": "b", "timeout": "30s"}
    status = await jobs.status()
    assert status["crd"] == jobs.name
    assert status["served"]["generation"] == 1
    assert [each["type"] for each in status["conditions"]] == ["Analyzed", "Rehearsed", "Serving", "Wired", "Ready"]
    assert "1 object converted" in status["conditions"][1]["message"]


async def test_a_wrong_change_never_serves(cluster: HttpCluster, jobs: Jobs, replicas: Replicas) -> None:
    """Each gate stops what is wrong, names it, and the last good rules go on, also after a restart."""
    await jobs.create("v1", "odd", timeout="1m30s")
    await jobs.declare(jobs.rules())
    await jobs.condition("Ready", "True")
    good = (await jobs.status())["served"]

    typo = jobs.rules({"duratoin": {"spoke": "spec.timeoutSeconds"}})
    with pytest.raises(ApiError, match=r"/spec/spokes/0/rules/0/duratoin: there is no rule duratoin"):
        await jobs.change(typo)

    forgets = jobs.rules({"rename": {"spoke": "spec.image", "hub": "spec.image"}})
    told = await jobs.condition("Analyzed", "False", await jobs.change(forgets))
    assert told["reason"] == "Unaccounted"
    assert ".spec.timeoutSeconds" in told["message"]

    breaks = {"up": "string(self) + 's'", "down": "int(self)"}  # which no stored duration is
    pair = jobs.rules({"pair": {"spoke": "spec.timeoutSeconds", "hub": "spec.timeout", **breaks}})
    told = await jobs.condition("Rehearsed", "False", await jobs.change(pair))
    assert told["reason"] == "ObjectsFail"
    assert told["message"].startswith("1 of 1 object failed: default/odd: ")
    assert "1m30s" not in told["message"]
    assert (await jobs.condition("Ready", "False"))["reason"] == "ObjectsFail"

    assert (await jobs.status())["served"] == good
    ran = await asyncio.to_thread(restow, "status", jobs.name, "-o", "json", kubeconfig=replicas.kubeconfig)
    (shown,) = ran.json["conversionRules"]
    assert (shown["state"], shown["served"]["generation"]) == ("failed", 1)
    assert "ObjectsFail: 1 of 1 object failed: default/odd: " in shown["failure"]
    assert (await jobs.spec("v1beta1", "odd")) == {"timeoutSeconds": 90}
    await replicas.started[0].stop()
    await replicas.start()
    await until(replicas.started[1].ready, "the next replica does not become ready")
    assert (await jobs.spec("v1beta1", "odd")) == {"timeoutSeconds": 90}
    assert (await jobs.status())["served"] == good


async def admission_answers(jobs: Jobs) -> bool:
    """Whether API servers ask the admission step by now."""
    try:
        await jobs.cluster.create(
            CONVERSION_RULES, json.dumps(jobs.rules({"no": {}}, name="probe")).encode(), params={"dryRun": "All"}
        )
    except ApiError as error:
        return "there is no rule no" in str(error)
    return False


async def test_the_schema_changes(cluster: HttpCluster, jobs: Jobs, replicas: Replicas) -> None:
    """A field that only one version has closes the gate until the rules account for it; what serves goes on."""
    await jobs.create("v1", "a", timeout="30s")
    await jobs.declare(jobs.rules())
    await jobs.condition("Ready", "True")
    changed = jobs.crd(more={"queue": {"type": "string"}})
    body = json.dumps({"spec": {"versions": changed["spec"]["versions"]}}).encode()
    await cluster.patch(CRDS, jobs.name, body, patch_type=PatchType.MERGE)
    told = await jobs.condition("Analyzed", "False")
    assert ".spec.queue" in told["message"]
    assert await jobs.spec("v1beta1", "a") == {"timeoutSeconds": 30}
    rules = jobs.rules()
    rules["spec"]["spokes"][0]["rules"].append({"stash": {"hub": "spec.queue"}})
    generation = await jobs.change(rules)
    await jobs.condition("Ready", "True", generation)
    await jobs.create("v1", "b", timeout="30s", queue="night")
    assert await jobs.spec("v1beta1", "b") == {"timeoutSeconds": 30}
    assert await jobs.spec("v1", "b") == {"timeout": "30s", "queue": "night"}
    assert (await jobs.status())["served"]["generation"] == generation


async def test_the_younger_of_two_waits(cluster: HttpCluster, jobs: Jobs, replicas: Replicas) -> None:
    """Of two documents for one kind the older one counts, and the younger one says so."""
    await jobs.declare(jobs.rules())
    await jobs.condition("Ready", "True")
    await jobs.declare(jobs.rules(name=f"second.{jobs.group}"))
    told = await jobs.condition("Conflict", "True", name=f"second.{jobs.group}")
    assert jobs.name in told["message"]
    await cluster.delete(CONVERSION_RULES, f"second.{jobs.group}")
    await until(lambda: gone(cluster, f"second.{jobs.group}"), "the younger one cannot be deleted")
    assert (await jobs.condition("Ready", "True"))["reason"] == "Ready"


async def gone(cluster: HttpCluster, name: str) -> bool:
    """Whether there are no such rules."""
    try:
        await cluster.get(CONVERSION_RULES, name)
    except NotFound:
        return True
    return False


async def test_deletion_waits_while_needed(cluster: HttpCluster, jobs: Jobs, replicas: Replicas) -> None:
    """Rules that a CRD needs are not deleted under it; once one version is left they go, and the wiring with them."""
    await jobs.create("v1", "a", timeout="30s")
    await jobs.declare(jobs.rules())
    await jobs.condition("Ready", "True")
    await cluster.delete(CONVERSION_RULES, jobs.name)
    told = await jobs.condition("Wired", "False")
    assert told["reason"] == "DeletionBlocked"
    assert "stop serving v1beta1" in told["message"] and BREAK_GLASS in told["message"]
    assert await jobs.spec("v1beta1", "a") == {"timeoutSeconds": 30}
    await jobs.migrate(replicas)
    await jobs.serve("v1")
    await until(lambda: gone(cluster, jobs.name), "the rules stay")
    crd = (await cluster.get(CRDS, jobs.name)).json()
    assert crd["spec"]["conversion"] == {"strategy": "None"}
    assert await jobs.spec("v1", "a") == {"timeout": "30s"}
    with pytest.raises(NotFound):
        await cluster.get(CONFIG_MAPS, record_name(jobs.name), "default")


@pytest.mark.parametrize("history", ["never migrated", "migrated once"])
async def test_deletion_waits_for_a_proof(
    cluster: HttpCluster, etcd: Etcd, jobs: Jobs, replicas: Replicas, history: str
) -> None:
    """Without the rules an object at the old version has lost its fields, whatever status.storedVersions says of it."""
    await jobs.declare(jobs.rules())
    await jobs.condition("Ready", "True")
    if history == "migrated once":
        await jobs.migrate(replicas)
    await jobs.serve("v1", "v1beta1", storage="v1beta1")
    await jobs.create("v1beta1", "a", timeoutSeconds=30)
    await jobs.serve("v1", storage="v1")
    body = b'{"status": {"storedVersions": ["v1"]}}'
    await cluster.patch(CRDS, jobs.name, body, patch_type=PatchType.MERGE, subresource="status")
    stored = await etcd.stored_object(jobs.group, "jobs", "default", "a")
    assert (stored["apiVersion"], stored["spec"]) == (f"{jobs.group}/v1beta1", {"timeoutSeconds": 30})

    await cluster.delete(CONVERSION_RULES, jobs.name)
    told = await jobs.condition("Wired", "False")
    assert told["reason"] == "DeletionBlocked" and f"run restow migrate {jobs.name}" in told["message"]
    assert (await cluster.get(CRDS, jobs.name)).json()["spec"]["conversion"]["strategy"] == "Webhook"
    await jobs.migrate(replicas)
    await until(lambda: gone(cluster, jobs.name), "the rules stay")
    assert (await cluster.get(CRDS, jobs.name)).json()["spec"]["conversion"] == {"strategy": "None"}
    assert await jobs.spec("v1", "a") == {"timeout": "30s"}


async def test_rules_that_convert_nothing_can_be_ended_by_unwire(
    cluster: HttpCluster, jobs: Jobs, replicas: Replicas
) -> None:
    """The operator compares no objects, so rules of versions that stay served could not be deleted."""
    await jobs.create("v1", "a", image="b")
    await jobs.declare(jobs.rules())
    await jobs.condition("Ready", "True")
    await cluster.delete(CONVERSION_RULES, jobs.name)
    assert (await jobs.condition("Wired", "False"))["reason"] == "DeletionBlocked"
    ran = await asyncio.to_thread(restow, "unwire", jobs.name, "--keep-server", kubeconfig=replicas.kubeconfig)
    assert ran.code == 0, ran.err
    await until(lambda: gone(cluster, jobs.name), "the rules stay")
    assert (await cluster.get(CRDS, jobs.name)).json()["spec"]["conversion"] == {"strategy": "None"}


@pytest.mark.parametrize("wired", [True, False])
async def test_a_server_stays_while_rules_need_it(
    cluster: HttpCluster, jobs: Jobs, replicas: Replicas, *, wired: bool
) -> None:
    """Without it nobody takes the finalizer off, so the rules, and every release with them, could not be deleted."""
    forgets = jobs.rules({"rename": {"spoke": "spec.image", "hub": "spec.image"}})
    await jobs.declare(jobs.rules() if wired else forgets)
    await jobs.condition("Wired" if wired else "Analyzed", str(wired))
    server = f"--server=https://127.0.0.1:{replicas.port}"
    for more in ((), ("--keep-server",), ("--although-needed",)):
        ran = await asyncio.to_thread(restow, "unwire", server, *more, kubeconfig=replicas.kubeconfig)
        assert ran.code == 3 and f"run kubectl delete conversionrules {jobs.name} first" in ran.err, ran.err
    crd = (await cluster.get(CRDS, jobs.name)).json()
    assert (crd["spec"]["conversion"]["strategy"] == "Webhook") is wired


async def test_the_glass_can_be_broken(cluster: HttpCluster, jobs: Jobs, replicas: Replicas) -> None:
    """With the annotation rules go although they are needed; the CRD keeps its wiring for whoever converts next."""
    await jobs.declare(jobs.rules())
    await jobs.condition("Ready", "True")
    await cluster.delete(CONVERSION_RULES, jobs.name)
    await jobs.condition("Wired", "False")
    body = json.dumps({"metadata": {"annotations": {BREAK_GLASS: "true"}}}).encode()
    await cluster.patch(CONVERSION_RULES, jobs.name, body, patch_type=PatchType.MERGE)
    await until(lambda: gone(cluster, jobs.name), "the rules stay")
    assert (await cluster.get(CRDS, jobs.name)).json()["spec"]["conversion"]["strategy"] == "Webhook"


async def test_a_lost_record_is_made_again(cluster: HttpCluster, jobs: Jobs, replicas: Replicas) -> None:
    """Without its ConfigMap a kind that is wired already is served first, and its objects are rehearsed then."""
    await jobs.create("v1", "a", timeout="30s")
    await jobs.declare(jobs.rules())
    await jobs.condition("Ready", "True")
    await replicas.started[0].stop()
    await cluster.delete(CONFIG_MAPS, record_name(jobs.name), "default")
    await replicas.start()

    async def reads() -> bool:
        try:
            return await jobs.spec("v1beta1", "a") == {"timeoutSeconds": 30}
        except ApiError:
            return False

    await until(reads, "the objects cannot be read at the other version")

    async def rehearsed() -> bool:
        record = (await cluster.get(CONFIG_MAPS, record_name(jobs.name), "default")).json()
        return bool(record["data"]["rehearsed"] == record["data"]["active"])

    await until(rehearsed, "the objects are not rehearsed")
    await jobs.condition("Ready", "True")


async def test_a_record_that_others_edited_is_written_again(
    cluster: HttpCluster, jobs: Jobs, replicas: Replicas
) -> None:
    """A revision that is lost would stop the next replica; one that nobody wants would keep Ready False for ever."""
    await jobs.declare(jobs.rules())
    await jobs.condition("Ready", "True")
    active = (await jobs.status())["served"]["revision"]

    async def edit(**parts: Document) -> None:
        body = json.dumps(parts).encode()
        await cluster.patch(CONFIG_MAPS, record_name(jobs.name), body, "default", patch_type=PatchType.MERGE)

    async def record() -> Document:
        found: Document = (await cluster.get(CONFIG_MAPS, record_name(jobs.name), "default")).json()
        return found

    right = (await record())["binaryData"][f"revision.{active}"]
    await edit(data={"candidate": "abandoned"}, binaryData={"revision.abandoned": "AAAA"})

    async def tidy() -> bool:
        found = await record()
        reports = [text for name, text in found["data"].items() if name.startswith("replica.")]
        return (
            found["data"]["candidate"] == active
            and found.get("binaryData") == {f"revision.{active}": right}
            and not any("problem" in text for text in reports)
        )

    await until(tidy, "an abandoned candidate stays")
    await jobs.condition("Ready", "True")
    await edit(binaryData={f"revision.{active}": None})
    await until(tidy, "a lost revision stays lost")
    await edit(binaryData={f"revision.{active}": "AAAA"})
    await replicas.start(port=0)
    await until(tidy, "a spoilt revision stays spoilt")
    await jobs.condition("Ready", "True")


async def test_a_deeply_nested_object_is_named(cluster: HttpCluster, jobs: Jobs, replicas: Replicas) -> None:
    """One object that cannot be decoded would leave the rules at their last status, with a reason in the log alone."""
    await cluster.delete(CRDS, jobs.name)
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    crd = jobs.crd()
    for version in crd["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["extra"] = loose

    async def created() -> bool:
        try:
            await cluster.create(CRDS, json.dumps(crd).encode())
        except ApiError:
            return False
        return True

    await until(created, "the CRD cannot be created again")
    await jobs.served()
    await jobs.create("v1", "flat", timeout="30s")
    body = {"apiVersion": f"{jobs.group}/v1", "kind": "Job", "metadata": {"name": "deep"}, "spec": {"extra": "EXTRA"}}
    nested = b'{"a":' * 2_000 + b"1" + b"}" * 2_000
    await cluster.create(jobs.at("v1"), json.dumps(body).encode().replace(b'"EXTRA"', nested), "default")
    await jobs.declare(jobs.rules())
    told = await jobs.condition("Rehearsed", "False")
    assert (told["reason"], told["message"].partition(";")[0]) == (
        "ObjectsFail",
        "1 of 2 objects failed: default/deep: it is nested too deeply to be read here",
    )


QUEUE = {"queue": {"type": "string"}}


@pytest.fixture
async def restoring(cluster: HttpCluster, group: str, replicas: Replicas) -> AsyncIterator[Jobs]:
    """A kind whose v1 has a field that v1beta1 lacks, with rules that are ready and have stashes restored."""
    found = Jobs(cluster, group)
    await cluster.create(CRDS, json.dumps(found.crd(more=QUEUE)).encode())
    await found.served()
    await replicas.start("--restore-stashes")
    rules = found.rules()
    rules["spec"]["spokes"][0]["rules"].append({"stash": {"hub": "spec.queue"}})
    try:
        await found.declare(rules)
        yield found
    finally:
        await found.remove()
        with suppress(NotFound):
            await cluster.delete(CONFIGURATIONS[0], f"conversion-stash.{found.name}")


async def replace_at_v1beta1(jobs: Jobs, name: str, seconds: int) -> None:
    """Write an object as a client that knows v1beta1 alone does: whole, and with no annotation."""
    now = (await jobs.cluster.get(jobs.at("v1beta1"), name, "default")).json()["metadata"]["resourceVersion"]
    metadata = {"name": name, "namespace": "default", "resourceVersion": now}
    body = {"apiVersion": f"{jobs.group}/v1beta1", "kind": jobs.kind, "metadata": metadata}
    body["spec"] = {"timeoutSeconds": seconds}
    await jobs.cluster.replace(jobs.at("v1beta1"), name, json.dumps(body).encode(), "default")


async def test_a_dropped_stash_is_restored(cluster: HttpCluster, restoring: Jobs, replicas: Replicas) -> None:
    """A client that replaces an object at the old version without the annotation took the fields that it lacks away."""
    await restoring.condition("Ready", "True")
    await restoring.create("v1", "a", timeout="30s", queue="night")
    await replace_at_v1beta1(restoring, "a", 60)
    assert await restoring.spec("v1", "a") == {"timeout": "1m0s", "queue": "night"}
    (hook,) = (await cluster.get(CONFIGURATIONS[0], f"conversion-stash.{restoring.name}")).json()["webhooks"]
    (rule,) = hook["rules"]
    assert (rule["apiVersions"], rule["resources"], hook["failurePolicy"]) == (["v1"], ["jobs"], "Fail")

    # What another client takes away comes back; and with the rules it goes.
    await cluster.delete(CONFIGURATIONS[0], f"conversion-stash.{restoring.name}")

    async def is_there() -> bool:
        return not await configuration_gone(restoring)

    await until(is_there, "the configuration does not come back")
    await restoring.migrate(replicas)
    await restoring.serve("v1")
    await cluster.delete(CONVERSION_RULES, restoring.name)
    await until(lambda: gone(cluster, restoring.name), "the rules stay")
    assert await configuration_gone(restoring)


async def configuration_gone(jobs: Jobs) -> bool:
    """Whether there is no configuration of the step for the kind."""
    try:
        await jobs.cluster.get(CONFIGURATIONS[0], f"conversion-stash.{jobs.name}")
    except NotFound:
        return True
    return False


async def test_without_the_flag_restoring_ends(cluster: HttpCluster, restoring: Jobs, replicas: Replicas) -> None:
    """A configuration that outlives its flag would stop every write at the old version, once its webhook is gone."""
    await restoring.condition("Ready", "True")
    await replicas.started[0].stop()
    await replicas.start()
    await until(lambda: configuration_gone(restoring), "the configuration stays")
    await restoring.condition("Ready", "True")


async def test_another_ones_configuration_is_left(cluster: HttpCluster, restoring: Jobs, replicas: Replicas) -> None:
    """A name that another owner keeps is not taken: the gate names it, and the conversions serve meanwhile."""
    await restoring.condition("Ready", "True")
    name = f"conversion-stash.{restoring.name}"
    await replicas.started[0].stop()
    live = (await cluster.get(CONFIGURATIONS[0], name)).json()
    await cluster.delete(CONFIGURATIONS[0], name)
    theirs = live["webhooks"][0] | {"name": "theirs.example.com", "failurePolicy": "Ignore"}
    body = {"apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": {"name": name}, "webhooks": [theirs]}
    await cluster.create(CONFIGURATIONS[0], json.dumps(body).encode(), params={"fieldManager": "them"})
    await replicas.start("--restore-stashes")
    told = await restoring.condition("Wired", "False")
    assert told["reason"] == "StashesNotRestored"
    assert f"there is a MutatingWebhookConfiguration {name} with other webhooks, written by them" in told["message"]
    (hook,) = (await cluster.get(CONFIGURATIONS[0], name)).json()["webhooks"]
    assert hook["name"] == "theirs.example.com"
    await cluster.delete(CONFIGURATIONS[0], name)
    await restoring.condition("Wired", "True")


STEP = "refuse-unconvertible"


def keeping(jobs: Jobs, on_error: str = "keep") -> Document:
    """Rules by which a timeout that is no number of seconds is kept, or fails."""
    expressions = {"up": "string(self) + 's'", "down": "int(self.replace('s', ''))", "loses": "down"}
    return jobs.rules(
        {"pair": {"spoke": "spec.timeoutSeconds", "hub": "spec.timeout", **expressions}}, onError=on_error
    )


@pytest.fixture
async def refusing(cluster: HttpCluster, group: str, replicas: Replicas) -> AsyncIterator[Jobs]:
    """A kind whose rules keep what they cannot convert, of which API servers have new ones refused."""
    found = Jobs(cluster, group)
    await cluster.create(CRDS, json.dumps(found.crd()).encode())
    await found.served()
    await replicas.start("--refuse-unconvertible")
    try:
        await found.create("v1", "former", timeout="1m", image="i")
        await found.declare(keeping(found))
        yield found
    finally:
        await found.remove()
        with suppress(NotFound):
            await cluster.delete(CONFIGURATIONS[1], f"{STEP}.{found.name}")


async def refusals_gone(jobs: Jobs) -> bool:
    """Whether there is no configuration of the step that refuses for the kind."""
    try:
        await jobs.cluster.get(CONFIGURATIONS[1], f"{STEP}.{jobs.name}")
    except NotFound:
        return True
    return False


async def test_values_that_no_rule_converts_are_refused(
    cluster: HttpCluster, refusing: Jobs, replicas: Replicas
) -> None:
    """A client of the old version never sees a value that is kept: who writes it has to learn of that at once."""
    ready = await refusing.condition("Wired", "True")
    assert "has it refuse values that a rule could not convert" in ready["message"]
    await refusing.create("v1", "good", timeout="30s")
    assert await refusing.spec("v1beta1", "good") == {"timeoutSeconds": 30}

    async def refused() -> bool:
        try:
            await refusing.create("v1", "bad", timeout="2m")
        except ApiError as error:
            return "other versions could not show what is written" in str(error) and "/spec/timeout" in str(error)
        await cluster.delete(refusing.at("v1"), "bad", "default")
        return False

    await until(refused, "a value that no rule converts is not refused")
    # What was there before stays, and its object can be written.
    assert await refusing.spec("v1beta1", "former") == {"image": "i"}
    label = b'{"metadata": {"labels": {"a": "b"}}}'
    for version in ("v1", "v1beta1"):
        await cluster.patch(refusing.at(version), "former", label, "default", patch_type=PatchType.MERGE)
    assert await refusing.spec("v1", "former") == {"timeout": "1m", "image": "i"}
    (hook,) = (await cluster.get(CONFIGURATIONS[1], f"{STEP}.{refusing.name}")).json()["webhooks"]
    (rule,) = hook["rules"]
    assert (rule["apiVersions"], rule["resources"], rule["operations"]) == (["v1"], ["jobs"], ["CREATE", "UPDATE"])

    # What another client takes away comes back. Rules that keep nothing have no use for it.
    await cluster.delete(CONFIGURATIONS[1], f"{STEP}.{refusing.name}")

    async def is_there() -> bool:
        return not await refusals_gone(refusing)

    await until(is_there, "the configuration does not come back")
    await cluster.delete(refusing.at("v1"), "former", "default")
    generation = await refusing.change(keeping(refusing, "fail"))
    await refusing.condition("Ready", "True", generation)
    await until(lambda: refusals_gone(refusing), "the configuration outlives the rules that needed it")


async def test_refusing_ends_without_its_flag_and_with_the_rules(
    cluster: HttpCluster, refusing: Jobs, replicas: Replicas
) -> None:
    """A configuration that outlives its flag or its rules would stop every write, once its webhook is gone."""
    await refusing.condition("Ready", "True")
    await replicas.started[0].stop()
    await replicas.start()
    await until(lambda: refusals_gone(refusing), "the configuration outlives the flag")
    await replicas.started[1].stop()
    await replicas.start("--refuse-unconvertible")

    async def is_there() -> bool:
        return not await refusals_gone(refusing)

    await until(is_there, "the configuration does not come with the flag")
    await refusing.migrate(replicas)
    await refusing.serve("v1")
    await cluster.delete(CONVERSION_RULES, refusing.name)
    await until(lambda: gone(cluster, refusing.name), "the rules stay")
    assert await refusals_gone(refusing)


async def test_refusing_ends_with_the_rules_of_a_crd_that_is_gone(
    cluster: HttpCluster, refusing: Jobs, replicas: Replicas
) -> None:
    """Whoever uninstalls both would install the kind again some day, and every write of it would fail."""
    await refusing.condition("Ready", "True")
    younger = f"second.{refusing.group}"
    await refusing.declare(keeping(refusing) | {"metadata": {"name": younger}})
    await refusing.condition("Conflict", "True", name=younger)
    await cluster.delete(CRDS, refusing.name)
    told = await refusing.condition("Analyzed", "False")
    assert told["reason"] == "NoCRD"
    await cluster.delete(CONVERSION_RULES, younger)
    await until(lambda: gone(cluster, younger), "the younger rules stay")
    assert (await cluster.get(CONFIG_MAPS, record_name(refusing.name), "default")).json()["data"]["rules"] == (
        refusing.name
    ), "the record belongs to the older rules"
    await cluster.delete(CONVERSION_RULES, refusing.name)
    await until(lambda: gone(cluster, refusing.name), "the rules stay")
    assert await refusals_gone(refusing)
    with pytest.raises(NotFound):
        await cluster.get(CONFIG_MAPS, record_name(refusing.name), "default")


PAGE = "docs/conversions-in-cluster.md"


async def test_the_page(cluster: HttpCluster, kubeconfig: Path, tmp_path: Path, replicas: Replicas) -> None:
    """docs/conversions-in-cluster.md: its documents, and what kubectl prints, as they stand there."""
    blocks = parse(PAGE, (ROOT / PAGE).read_text(encoding="utf-8"))
    rules, wrong = (yaml.safe_load(block.text) for block in blocks if block.language == "yaml")
    starts, rights, applies, shows, tells = (block for block in blocks if block.language == "console")
    assert [each.text.split()[:3] for each in commands(starts)] == [["restow", "operator", "--conversions"]]
    (printed,) = (shlex.split(each.text.partition("|")[0].replace("\\\n", "")) for each in commands(rights))
    assert "kind: ClusterRole" in restow(*printed[1:]).out
    kubectl = (await find_binaries(("kubectl",)))["kubectl"]

    async def see(block: Block) -> None:
        for command in commands(block):
            arguments = shlex.split(command.text)[1:]
            process = await asyncio.create_subprocess_exec(
                kubectl,
                *("--kubeconfig", str(kubeconfig)),
                *arguments,
                cwd=tmp_path,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            out, err = await process.communicate()
            assert process.returncode == 0, err.decode()
            assert ageless(out.decode()) == ageless(command.printed or ""), command.text

    jobs = Jobs(cluster, "example.dev")
    await cluster.create(CRDS, json.dumps(jobs.crd()).encode())
    try:
        await jobs.served()
        await replicas.start()
        await jobs.create("v1", "nightly", image="a", timeout="1m30s")
        (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules), encoding="utf-8")
        await see(applies)
        await until(lambda: admission_answers(jobs), "admission is not called")
        (refusal,) = (block.text.strip() for block in blocks if block.language == "text")
        with pytest.raises(ApiError) as refused:
            await jobs.change(jobs.rules({"duratoin": {}}))
        assert refusal in str(refused.value)
        await jobs.condition("Rehearsed", "False", await jobs.change(jobs.rules(wrong)))
        await see(shows)
        (command,) = commands(tells)
        ran = await asyncio.to_thread(restow, *shlex.split(command.text)[1:], kubeconfig=kubeconfig)
        assert ageless(ran.out) == ageless(command.printed or "")
    finally:
        await jobs.remove()


def ageless(text: str) -> str:
    """What kubectl prints, without ages, and without spaces at the end."""
    return "\n".join(re.sub(r"\b\d+s$", "AGE", line.rstrip()) for line in text.strip().splitlines())
