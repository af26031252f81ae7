"""Every command under exactly the rights that ``restow rbac`` prints: none too few, and none too many.

One too few shows by leaving each out in turn; one too many by the API server's audit log, in which every right has to
have been used.
"""

from __future__ import annotations

import asyncio
import html
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from restow.controlplane.etcd import Etcd
from restow.controlplane.plane import ControlPlane
from restow.controlplane.pytest_plugin import running_plane
from restow.conversion.certificates import Url
from restow.conversion.certificates.wiring.documents import refusal_name, stash_name
from restow.conversion.certificates.wiring.fieldmanagers import MANAGED_BY
from restow.conversion.operate.revisions import BREAK_GLASS
from restow.crds.conversionrules import CONVERSION_RULES
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.errors import NotFound
from restow.kube.resources import CONFIG_MAPS, CRDS, ENDPOINT_SLICES, EVENTS, NAMESPACES, Resource
from restow.migrator import Migrator, Options, read_crd
from restow.migrator.operate.references import NO_REFERENCES
from restow.rbac import FAMILY, Asked, Command, Grant, grants
from tests.apiserver.accounts import Account, Accounts, audited_plane, used
from tests.apiserver.kind import Kind, until
from tests.apiserver.operators import bundles, operators
from tests.apiserver.profile_controllers import World
from tests.apiserver.provider import CACHES, GATEWAYS, Provider
from tests.apiserver.proxy import Answer, Seen, proxy_before
from tests.apiserver.serving import MANIFESTS, Instance, certified, serving
from tests.apiserver.test_conversions_in_cluster import Jobs, Replicas, keeping
from tests.apiserver.test_conversions_in_cluster import gone as no_rules
from tests.apiserver.test_references import Others, a_release
from tests.ports import free_port
from tests.restow.commandline import Ran, restow

CRD = CRDS.full_name
ARGUMENTS = {
    Command.STATUS: (),
    Command.PLAN: (),
    Command.READY: ("--drop", "v1alpha1"),
    Command.MIGRATE: ("--settle", "0", "-o", "json"),
    Command.REPORT: ("-o", "-"),
}
CODES = {Command.STATUS: 0, Command.PLAN: 3, Command.READY: 3, Command.MIGRATE: 0, Command.REPORT: 0}
EVERY = [
    (command, grant)
    for command in ARGUMENTS
    for grant in range(len(grants([command], Asked(crds=("widgets.example.com",)))))
]


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> tuple[ControlPlane, Path]:
    """A plane that records who did what."""
    return audited_plane(tmp_path_factory.mktemp("audit"))


@pytest.fixture(scope="module")
def control_plane(audit: tuple[ControlPlane, Path]) -> Iterator[ControlPlane]:
    """It, running."""
    with running_plane(lambda: audit[0]) as plane:
        yield plane


@pytest.fixture(scope="module")
def kubeconfig(control_plane: ControlPlane) -> Path:
    """Its administrator's."""
    return control_plane.kubeconfig


@pytest.fixture(scope="module")
def etcd(control_plane: ControlPlane) -> Etcd:
    """What is stored."""
    return control_plane.etcd


@pytest.fixture
async def accounts(control_plane: ControlPlane, cluster: HttpCluster, tmp_path: Path) -> AsyncIterator[Accounts]:
    """Accounts of the test."""
    made = Accounts(control_plane, cluster, tmp_path)
    yield made
    await made.remove()


@pytest.fixture
async def due(kind: Kind) -> Kind:
    """An object whose owner has to be reconciled (so that it is read), and a plain one; v1beta1 became the storage."""
    await kind.namespace("other")
    conditions = [{"type": "Ready", "status": "True"}]
    for namespace in ("default", "other"):
        manifest = kind.manifest("v1alpha1", "w", namespace, spec={"size": 1})
        await kind.apply(manifest, "alice")
        await kind.apply(manifest | {"status": {"conditions": conditions}}, "controller", subresource="status")
    await kind.change(kind.document(storage="v1beta1"))
    return kind


def needed(kind: Kind, *commands: Command, **asked: object) -> tuple[Grant, ...]:
    """What ``restow rbac`` says."""
    return grants(commands, Asked(crds=(kind.name,), **asked))  # type: ignore[arg-type]


async def run(account: Account, command: Command, kind: Kind, *more: str) -> Ran:
    """A command as an account."""
    arguments = (command, kind.name, *ARGUMENTS[command], *more)
    return await asyncio.to_thread(restow, *arguments, kubeconfig=account.kubeconfig)


@asynccontextmanager
async def interrupted(accounts: Accounts, account: Account, resource: str = "") -> AsyncIterator[Path]:
    """A kubeconfig as which another client's write comes before the first one of the account: it has to read again."""
    groups = ("system:serviceaccounts", "system:authenticated")
    identity = SimpleNamespace(admin=accounts.plane.user(account.user, groups), server=accounts.plane.server)

    async def conflict(seen: Seen) -> Answer | None:
        nonlocal spoilt
        if spoilt or not seen.is_write or resource not in seen.path:
            return None
        spoilt = True
        return Answer.of(409, "Conflict", "the object has been modified; apply your changes to the latest version")

    spoilt = False
    async with proxy_before(identity, accounts.folder) as proxy:  # type: ignore[arg-type]
        proxy.hook = conflict
        yield proxy.kubeconfig


@pytest.mark.parametrize("command", list(ARGUMENTS))
async def test_every_right_is_enough_and_used(
    command: Command, due: Kind, accounts: Accounts, audit: tuple[ControlPlane, Path]
) -> None:
    """One right more than is used fails an audit; one less fails the Job."""
    rights = needed(due, command)
    account = await accounts.granted(rights, f"{command}-all")
    async with interrupted(accounts, account) as kubeconfig:
        ran = await run(replace(account, kubeconfig=kubeconfig), command, due)
    assert ran.code == CODES[command], ran.err
    assert command is Command.PLAN or "permission" not in ran.err  # a plan tells what a migration would lack
    was_used, refused = used(audit[1], account, rights)
    assert refused == []
    assert set(rights) - was_used == set()


async def test_ready_looks_at_everything_by_list_alone(
    due: Kind, accounts: Accounts, audit: tuple[ControlPlane, Path]
) -> None:
    """With --dependents nothing is left out, and what reads every resource does nothing else with it."""
    account = await accounts.granted(needed(due, Command.READY, dependents=True), "dependents")
    ran = await run(account, Command.READY, due, "-o", "json")
    assert (ran.code, ran.json["notLookedAt"]) == (CODES[Command.READY], [])
    events = [json.loads(line) for line in audit[1].read_text().splitlines()]
    asked = [each for each in events if each["user"]["username"] == account.user and "objectRef" in each]
    did = {(each["verb"], each["objectRef"]["resource"]) for each in asked}
    own = {("get", CRDS.plural), ("create", "selfsubjectaccessreviews")}
    assert {verb for verb, _ in did - own} == {"list"}
    assert ("list", "secrets") in did
    assert all(each["responseStatus"]["code"] < 300 for each in asked)


async def test_references_are_found_by_lists_and_metrics_alone(
    due: Kind, accounts: Accounts, audit: tuple[ControlPlane, Path]
) -> None:
    """With --dependents nothing is left out; each right that is missing is told, and makes the exit code 1."""
    rights = needed(due, Command.REFERENCES, dependents=True)
    account = await accounts.granted(rights, "references")
    arguments = ("references", due.name, "--version", "v1alpha1", "-o", "json")
    ran = await asyncio.to_thread(restow, *arguments, kubeconfig=account.kubeconfig)
    assert ran.code == 3, ran.err
    assert ran.json["versions"][0]["notLookedAt"] == []
    assert {"managed-fields", "clients"} <= ran.json["versions"][0]["counts"].keys()
    events = [json.loads(line) for line in audit[1].read_text().splitlines()]
    asked = [each for each in events if each["user"]["username"] == account.user]
    did = {(each["verb"], each.get("objectRef", {}).get("resource", "")) for each in asked}
    assert {verb for verb, what in did if what and what != "selfsubjectaccessreviews"} == {"get", "list"}
    assert {what for verb, what in did if verb == "get"} - {""} == {CRDS.plural}
    assert "/metrics" in {each["requestURI"] for each in asked}
    narrow = await accounts.granted([each for each in rights if each.verb == "get" and each.name], "narrow")
    ran = await asyncio.to_thread(restow, *arguments, kubeconfig=narrow.kubeconfig)
    assert ran.code == 1, ran.err
    missed = {each["resource"] for each in ran.json["versions"][0]["notLookedAt"]}
    assert {due.name, "secrets", "configmaps", "/metrics"} <= missed


async def test_references_are_moved_and_releases_taken_back(
    due: Kind, accounts: Accounts, audit: tuple[ControlPlane, Path], cluster: HttpCluster
) -> None:
    """A move that fails halfway for a right leaves references at two versions; one right more writes every Secret."""
    others, group = Others(cluster), due.group
    uid = (await due.get("v1beta1", "w"))["metadata"]["uid"]
    owner = {"apiVersion": f"{group}/v1alpha1", "kind": "Widget", "name": "w", "uid": uid}
    manifest = f"---\napiVersion: {group}/v1alpha1\nkind: Widget\nmetadata:\n  name: w\n  namespace: default\n"
    release = a_release(manifest)
    named = {"ref": {name: owner[name] for name in ("apiVersion", "kind", "name")}}
    try:
        claims = await others.kind(f"claims.c.{group}", "Claim", subresources={"status": {}})
        await others.made(claims, "c", "Claim", spec=named)
        body = json.dumps({"status": named}).encode()
        await cluster.patch(claims, "c", body, "default", patch_type=PatchType.MERGE, subresource="status")
        await others.made(CONFIG_MAPS, f"a.{group}", metadata={"ownerReferences": [owner]})
        await others.made(SECRETS, f"r.{group}", **release)
        rights = needed(due, Command.REFERENCES, moves=True, written=("configmaps", "secrets", claims.full_name))
        account = await accounts.granted(rights, "mover")
        arguments = ("references", due.name, "--version", "v1alpha1")
        async with interrupted(accounts, account, CONFIG_MAPS.plural) as kubeconfig:
            ran = await asyncio.to_thread(restow, *arguments, "--move", "v1beta1", "-o", "json", kubeconfig=kubeconfig)
        (report,) = ran.json["moves"]
        moved = {"owner-references": 1, "helm": 1, "typed": 2}
        assert (ran.code, report["moved"], report["notMoved"]) == (0, moved, []), ran.err
        ran = await asyncio.to_thread(restow, *arguments, "--undo", "-o", "json", kubeconfig=account.kubeconfig)
        assert (ran.code, len(ran.json["undone"])) == (0, 1), ran.err
        was_used, refused = used(audit[1], account, rights)
        assert refused == []
        unused = {(each.resource, each.verb) for each in set(rights) - was_used}
        assert unused == {("*", "list"), ("/metrics", "get")}
    finally:
        await others.remove()


@pytest.mark.parametrize(("command", "index"), EVERY, ids=[f"{command}-{index}" for command, index in EVERY])
async def test_one_right_less(command: Command, index: int, due: Kind, accounts: Accounts) -> None:
    """What is said to be needed is; what is said to be optional only costs what is said, and that is told."""
    rights = needed(due, command)
    missing = rights[index]
    marks = (missing.resource, missing.verb) == (CRDS.plural, "patch")  # the last write of a run
    account = await accounts.granted(rights[:index] + rights[index + 1 :], f"{command}-without-{index}")
    ran = await run(account, command, due)
    if missing.optional:
        assert ran.code == CODES[command], ran.err
        unseen = "the endpoints of the Service kubernetes may not be listed" in ran.out + ran.err
        assert unseen == (missing.resource == ENDPOINT_SLICES.plural), (ran.out, ran.err)
    else:
        partly = marks or (command is Command.REPORT and missing.verb == "list")
        assert ran.code == (1 if partly else 2), (missing, ran.out, ran.err)
        said = html.unescape(ran.out + ran.err) if partly else ran.err
        plural, _, subresource = missing.resource.partition("/")
        what = f"{plural}.{missing.group}" + (f"/{subresource}" if subresource else "")
        assert what in said or f'resource "{plural}"' in said, said
        assert missing.verb in said
    prunes = command is Command.MIGRATE and (ran.code == 0 or marks)
    assert (await due.stored_versions() == ["v1beta1"]) == prunes


async def test_a_team_migrates_its_own_namespace(
    due: Kind, accounts: Accounts, audit: tuple[ControlPlane, Path]
) -> None:
    """Roles in namespaces are all that a tenant can be given; the rest of the cluster stays as it is."""
    rights = needed(due, Command.MIGRATE, namespaces=("other",))
    account = await accounts.granted(rights, "team", "other")
    async with interrupted(accounts, account) as kubeconfig:
        ran = await run(replace(account, kubeconfig=kubeconfig), Command.MIGRATE, due, "--namespace", "other")
    assert ran.code == 0, ran.err
    assert ran.json["crds"][0]["objects"]["rewritten"] == 1
    assert {grant.namespace for grant in rights if grant.group == due.group} == {"other"}
    assert set(rights) - used(audit[1], account, rights)[0] == set()
    stored = await due.stored()
    assert [stored[name]["apiVersion"].split("/")[1] for name in ("default/w", "other/w")] == ["v1alpha1", "v1beta1"]


async def test_the_least_of_migrate(due: Kind, accounts: Accounts) -> None:
    """Who grants as little as possible gets a finished migration."""
    account = await accounts.granted(needed(due, Command.MIGRATE, least=True), "least")
    ran = await run(account, Command.MIGRATE, due)
    assert ran.code == 0, ran.err
    assert await due.stored_versions() == ["v1beta1"]
    assert ran.json["crds"][0]["unmarked"] == ""


async def test_all_crds_take_a_right_of_their_own(due: Kind, accounts: Accounts) -> None:
    """A list of all CRDs cannot be restricted by name."""
    for everything, code in ((False, 2), (True, 0)):
        rights = grants([Command.STATUS], Asked(crds=(due.name,), everything=everything))
        account = await accounts.granted(rights, f"lister-{everything}".lower())
        ran = await asyncio.to_thread(restow, "status", kubeconfig=account.kubeconfig)
        assert ran.code == code, ran.err


CONFIGURATIONS = Resource("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", namespaced=False)
REFUSALS = Resource("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", namespaced=False)
SECRETS = Resource("", "v1", "secrets", namespaced=True)
REGISTRY = "docs.examples.provider.conversions:registry"
EVER = "2999-01-01T00:00:00Z"


async def secrets(cluster: HttpCluster, *, there: bool) -> None:
    """Have both Secrets there, empty, or not at all."""
    for name, kind in (("restow-webhook", "kubernetes.io/tls"), ("restow-webhook-ca", "Opaque")):
        with suppress(NotFound):
            await cluster.delete(SECRETS, name, "default")
        if there:
            data = {"tls.crt": "", "tls.key": ""} if kind == "kubernetes.io/tls" else {}
            body = {"metadata": {"name": name}, "type": kind, "data": data}
            await cluster.create(SECRETS, json.dumps(body).encode(), "default")


async def keeps(cluster: HttpCluster) -> bool:
    """Whether both Secrets hold something."""
    try:
        found = [(await cluster.get(SECRETS, f"restow-webhook{end}", "default")).json() for end in ("", "-ca")]
    except NotFound:
        return False
    return all(any(each.get("data", {}).values()) for each in found)


async def test_serve_with_a_ca_of_its_own(
    accounts: Accounts, cluster: HttpCluster, audit: tuple[ControlPlane, Path], tmp_path: Path
) -> None:
    """Two Secrets, the CRDs that it serves and its webhook configuration, by name; nothing else of the cluster."""
    provider, port = Provider(cluster), free_port()
    url = f"https://127.0.0.1:{port}"
    own = ("default", "restow-webhook")
    rights = grants(
        [Command.SERVE],
        Asked(crds=(GATEWAYS, CACHES), own_ca=own, url=url, restores_stashes=True, refuses_unconvertible=True),
    )
    by_url, refusal = stash_name(Url(url)), refusal_name(Url(url))
    account = await accounts.granted(rights, "serving")
    await provider.create_crd(GATEWAYS)
    await provider.create_crd(CACHES)
    flags = [
        f"--crd={MANIFESTS / 'gateways.yaml'}",
        f"--crd={MANIFESTS / 'caches.yaml'}",
        f"--own-ca={url}",
        "--restore-stashes",
        "--on-error=keep",
        "--refuse-unconvertible",
    ]
    flags += [f"--kubeconfig={account.kubeconfig}", f"--port={port}"]
    try:
        for there in (True, False):
            await secrets(cluster, there=there)
            (tmp_path / f"certificates-{there}").mkdir()
            instance = await Instance.start(tmp_path / f"certificates-{there}", registry=REGISTRY, flags=flags)
            await until(lambda: keeps(cluster), "the Secrets are not kept")
            if there:
                await until(lambda: converts(cluster), "the CRD is not wired")
                await until(lambda: there_is(cluster, by_url), "the configuration is not installed")
                await until(lambda: there_is(cluster, refusal, REFUSALS), "that of refusals is not installed")
            await instance.stop()
        was_used, refused = used(audit[1], account, rights)
        assert refused == []
        # An apply that creates is told as a patch; an Event tells of a value that was kept, of which there is none.
        unused = {(each.resource, each.verb) for each in set(rights) - was_used}
        assert unused == {(CONFIGURATIONS.plural, "create"), (REFUSALS.plural, "create"), ("events", "create")}
    finally:
        for resource, name in ((CONFIGURATIONS, by_url), (REFUSALS, refusal)):
            with suppress(NotFound):
                await cluster.delete(resource, name)
        await provider.remove()
        await secrets(cluster, there=False)


async def _look_at_a_stuck_namespace(accounts: Accounts, cluster: HttpCluster, log: Path) -> None:
    """Have doctor say why a namespace is not deleted; here is no controller that would delete or free it."""
    name = "stuck"
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await cluster.create(NAMESPACES, json.dumps(manifest).encode())
    await cluster.delete(NAMESPACES, name)
    namespace = (await cluster.get(NAMESPACES, name)).json()
    waits = f"Some resources are remaining: {GATEWAYS} has 1 resource instances"
    namespace["status"]["conditions"] = [
        {
            "type": "NamespaceContentRemaining",
            "status": "True",
            "reason": "SomeResourcesRemain",
            "message": waits,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
    ]
    await cluster.replace(NAMESPACES, name, json.dumps(namespace).encode(), subresource="status")
    try:
        rights = grants([Command.DOCTOR], Asked())
        account = await accounts.granted(rights, "doctor-of-namespaces")
        ran = await asyncio.to_thread(restow, "doctor", "--namespace", name, kubeconfig=account.kubeconfig)
        assert (ran.code, ran.err.count("not looked at"), GATEWAYS in ran.out) == (1, 1, True), ran.err
        assert "whether a migration can leave its mark" in ran.err
        was_used, refused = used(log, account, rights)
        unused = {(each.resource, each.verb) for each in set(rights) - was_used}
        assert (unused, refused) == ({("*", "list"), ("*", "get")}, [])  # the log has the resources themselves
    finally:
        left = (await cluster.get(NAMESPACES, name)).json()
        left["spec"]["finalizers"] = []
        await cluster.replace(NAMESPACES, name, json.dumps(left).encode(), subresource="finalize")


async def test_a_webhook_is_looked_at_and_taken_away(
    accounts: Accounts, cluster: HttpCluster, audit: tuple[ControlPlane, Path], tmp_path: Path
) -> None:
    """Whoever uninstalls needs no more than the CRD, its objects, and by name what the server keeps."""
    provider, own = Provider(cluster), ("default", "restow-webhook")
    bundle = certified(tmp_path / "tls")
    try:
        async with serving(tmp_path / "tls") as instance:
            url = f"https://127.0.0.1:{instance.port}"
            await provider.install(GATEWAYS, instance.port, bundle)
            await provider.create(GATEWAYS, "v1", "a", {"hosts": ["a"]})
            rights = grants([Command.DOCTOR], Asked(crds=(GATEWAYS,)))
            account = await accounts.granted(rights, "doctor")
            ran = await asyncio.to_thread(restow, "doctor", GATEWAYS, kubeconfig=account.kubeconfig)
            assert (ran.code, "not looked at" in ran.err) == (1, False), "it is not proved where objects are stored"
            assert (set(rights) - used(audit[1], account, rights)[0], used(audit[1], account, rights)[1]) == (set(), [])
            await _look_at_a_stuck_namespace(accounts, cluster, audit[1])

            await provider.delete(GATEWAYS, "v1", "a")
            await provider.create(GATEWAYS, "v1", "same-at-every-version", {})
            await secrets(cluster, there=True)
            await labelled(cluster)
            rights = grants([Command.UNWIRE], Asked(crds=(GATEWAYS,), own_ca=own, url=url))
            account = await accounts.granted(rights, "unwirer")
            ran = await asyncio.to_thread(restow, "unwire", "--server", url, kubeconfig=account.kubeconfig)
            assert ran.code == 0, ran.err
            assert [row[-1] for row in ran.rows[1:]] == ["unwired", "removed", "removed"]
            was_used, refused = used(audit[1], account, rights)
            assert refused == []
            # This server keeps no configuration, and no process of it holds a Lease.
            unused = {(each.resource, each.verb) for each in set(rights) - was_used}
            assert unused == {
                (CONFIGURATIONS.plural, "delete"),
                (REFUSALS.plural, "delete"),
                ("leases", "delete"),
            }
    finally:
        await provider.remove()
        await secrets(cluster, there=False)


async def labelled(cluster: HttpCluster) -> None:
    """Mark both Secrets as ones that restow fills."""
    body = json.dumps({"metadata": {"labels": dict([MANAGED_BY])}}).encode()
    for name in ("restow-webhook", "restow-webhook-ca"):
        await cluster.patch(SECRETS, name, body, "default", patch_type=PatchType.MERGE)


async def there_is(cluster: HttpCluster, name: str, resource: Resource = CONFIGURATIONS) -> bool:
    """Whether there is such a webhook configuration."""
    try:
        await cluster.get(resource, name)
    except NotFound:
        return False
    return True


async def converts(cluster: HttpCluster) -> bool:
    """Whether the CRDs name a webhook."""
    crds = [(await cluster.get(CRDS, name)).json() for name in (GATEWAYS, CACHES)]
    return all(each["spec"]["conversion"]["strategy"] == "Webhook" for each in crds)


@pytest.mark.parametrize("everywhere", [False, True], ids=["objects", "everything"])
async def test_an_embedded_migrator(
    everywhere: bool, due: Kind, accounts: Accounts, audit: tuple[ControlPlane, Path], cluster: HttpCluster
) -> None:
    """An operator that embeds the migrator needs these rights in addition to its own; without one it migrates nothing.

    What it may not look at for references is in the condition of the CRD, and it goes on.
    """
    name = f"embedder-{everywhere}".lower()
    rights = needed(due, Command.EMBEDDING, lease=name, dependents=everywhere)
    account = await accounts.granted(rights, name)

    async def told() -> bool:
        events = (await cluster.list_page(EVENTS, "default")).json()["items"]
        return any(each["reason"] == "MigrationFinished" and each["regarding"]["name"] == due.name for each in events)

    async def looked() -> bool:
        found = (await read_crd(cluster, due.name)).conditions.get(NO_REFERENCES)
        return found is not None and (found.reason == "NotLookedAtEverywhere") is not everywhere

    options = Options(settle_s=0.0, resume=True)
    async with interrupted(accounts, account) as kubeconfig, connect(kubeconfig) as session:
        migrator = Migrator(session, [due.name], options, lease=name, references_s=1.0)
        migrating = asyncio.create_task(migrator.run_forever())
        await until(told, "nothing is migrated, or nobody says so")
        await until(looked, "no condition says what was looked at")
        migrating.cancel()
        await asyncio.wait([migrating])
    was_used, refused = used(audit[1], account, rights)
    assert refused == []
    assert {each.resource for each in set(rights) - was_used} == ({"*"} if everywhere else set())
    assert await due.stored_versions() == ["v1beta1"]


OPERATOR = Asked(
    own_ca=("default", "restow-webhook"), installs_crds=True, maintains=True, keeps=FAMILY, dependents=True
)


async def test_the_operator(accounts: Accounts, cluster: HttpCluster, audit: tuple[ControlPlane, Path]) -> None:
    """All that it can be asked for: certificates, CRDs, admission, controllers, maintenance, migration, references."""
    rights = grants([Command.OPERATOR], OPERATOR)
    account = await accounts.granted(rights, "operator")
    flags = ("--install-crds", "--maintain-shoots", "--migrate=family", "--references-every=1")
    async with operators(cluster) as starter:
        await secrets(cluster, there=True)
        operator = await starter.start(account.kubeconfig, *flags)
        await until(lambda: bundles(cluster), "CRDs and configurations do not name the operator")
        await lives(World(cluster))
        await operator.stop()
        await secrets(cluster, there=False)
        operator = await starter.start(account.kubeconfig, *flags)
        await until(lambda: keeps(cluster), "the Secrets are not made")
        await operator.stop()
        was_used, refused = used(audit[1], account, rights)
        await World(cluster).clear()
    assert refused == []
    idle = set(rights) - was_used
    # An apply that creates is told as a patch; the migrator reads an object again only if somebody writes it meanwhile.
    told = {grant for grant in idle if grant.verb == "create" and grant.name}
    again = {grant for grant in idle if (grant.resource, grant.verb) == ("shoots", "get")}
    everywhere = {grant for grant in idle if grant.resource == "*"}
    assert idle - told - again - everywhere == set()


async def test_maintenance_has_rights_of_its_own(
    accounts: Accounts, cluster: HttpCluster, audit: tuple[ControlPlane, Path]
) -> None:
    """Without the migrator, whose rights include them, no Shoot could be read, and so none would be maintained."""
    asked = Asked(own_ca=("default", "restow-webhook"), installs_crds=True, maintains=True)
    account = await accounts.granted(grants([Command.OPERATOR], asked), "maintaining")
    async with operators(cluster) as starter:
        await starter.start(account.kubeconfig, "--install-crds", "--maintain-shoots")
        await until(lambda: bundles(cluster), "CRDs and configurations do not name the operator")
        world = World(cluster)
        await world.profile("a", {"version": "1.31.2"}, {"version": "1.31.1"})
        await world.says("CloudProfile", "a", v1_31_2="supported", v1_31_1="supported")
        await world.shoot("s", "CloudProfile", "a", kubernetes={"version": "1.31.1"}, maintenance=MAINTENANCE)
        await maintain(world, "s")
        await until(lambda: moved(world), "the Shoot is not maintained")
        _, refused = used(audit[1], account, ())
        await world.clear()
    assert refused == []


MAINTENANCE = {
    "autoUpdate": {"kubernetesVersion": True, "machineImageVersion": False},
    "timeWindow": {"begin": "220000+0100", "end": "230000+0100"},
}


async def maintain(world: World, name: str) -> None:
    """Ask for the maintenance of a Shoot at once."""
    asked = {"metadata": {"annotations": {"gardener.cloud/operation": "maintain"}}}
    body = json.dumps(asked).encode()
    await world.cluster.patch(world.api.at("Shoot"), name, body, "default", patch_type=PatchType.MERGE)


async def lives(world: World) -> None:
    """Everything happens that the operator has a right for."""
    versions = [
        {"version": "1.31.2", "lifecycle": [{"classification": "supported"}]},
        {"version": "1.31.1", "lifecycle": [{"classification": "deprecated"}]},
    ]
    profile = await world.profile("a", *versions)
    await world.says("CloudProfile", "a", v1_31_2="supported", v1_31_1="deprecated")
    later = {"version": "1.31.1", "lifecycle": [{"classification": "expired", "startTime": EVER}]}
    await world.child("n", "a", kubernetes={"versions": [later]})
    await world.says("NamespacedCloudProfile", "n", v1_31_2="supported", v1_31_1="deprecated")
    shoot = await world.shoot(
        "s", "NamespacedCloudProfile", "n", kubernetes={"version": "1.31.1"}, maintenance=MAINTENANCE
    )
    await maintain(world, "s")
    api, merge = world.api, PatchType.MERGE
    await until(lambda: moved(world), "the Shoot is not maintained")
    for name in FAMILY:
        stored = {"status": {"storedVersions": ["v1beta1", "v1beta2"]}}
        body = json.dumps(stored).encode()
        await world.cluster.patch(CRDS, name, body, patch_type=merge, subresource="status")
    await until(lambda: pruned(world), "the CRDs are not migrated")
    await until(lambda: looked_everywhere(world), "references are not looked for everywhere")
    await api.delete(profile)
    await until(lambda: told_of(world, "a"), "nobody says why the profile stays")
    await api.delete(shoot | {"kind": "Shoot"})


async def moved(world: World) -> bool:
    """Whether the Shoot was updated."""
    return bool((await world.get("Shoot", "s"))["spec"]["kubernetes"]["version"] == "1.31.2")


async def pruned(world: World) -> bool:
    """Whether every CRD of the family is stored at one version, and marked."""
    crds = [(await world.cluster.get(CRDS, name)).json() for name in FAMILY]
    marked = all("restow.dev/migrated" in each["metadata"].get("annotations", {}) for each in crds)
    return marked and all(each["status"]["storedVersions"] == ["v1beta2"] for each in crds)


async def looked_everywhere(world: World) -> bool:
    """Whether the condition of every CRD of the family says what was found, and nothing was left out."""
    found = [(await read_crd(world.cluster, name)).conditions.get(NO_REFERENCES) for name in FAMILY]
    return all(each is not None and each.reason in ("NoneFound", "ReferencesFound") for each in found)


async def told_of(world: World, name: str) -> bool:
    """Whether there is an Event about a profile."""
    return bool(await world.events(name))


async def test_the_operator_says_what_it_may_not(accounts: Accounts, cluster: HttpCluster) -> None:
    """An apply of what is not there needs create, which no audit shows: without it nothing begins, and that is told."""
    rights = [grant for grant in grants([Command.OPERATOR], OPERATOR) if grant.verb != "create" or not grant.name]
    account = await accounts.granted(rights, "operator-without-create")
    flags = ("--own-ca=https://127.0.0.1:9", "--install-crds", f"--kubeconfig={account.kubeconfig}", "--port=0")
    ran = await asyncio.to_thread(restow, "operator", *flags, "--metrics-port=0")
    assert ran.code == 2, ran.err
    assert f'cannot create resource "{CRDS.plural}"' in ran.err or "cannot patch" in ran.err, ran.err


async def test_the_operator_of_rules(
    accounts: Accounts, cluster: HttpCluster, audit: tuple[ControlPlane, Path], group: str
) -> None:
    """From an empty cluster to objects that read at both versions, and back, each right used and none refused."""
    jobs = Jobs(cluster, group)
    own_ca = ("default", "restow-webhook")
    asked = Asked(
        crds=(jobs.name,), own_ca=own_ca, installs_crds=True, restores_stashes=True, refuses_unconvertible=True
    )
    rights = grants([Command.CONVERSIONS], asked)
    account = await accounts.granted(rights, "conversions")
    await cluster.create(CRDS, json.dumps(jobs.crd()).encode())
    await jobs.served()
    replicas = Replicas(account.kubeconfig)
    try:
        await replicas.start("--restore-stashes", "--refuse-unconvertible")
        await jobs.create("v1", "a", timeout="30s")
        await jobs.declare(keeping(jobs))
        await jobs.condition("Ready", "True")
        assert await jobs.spec("v1beta1", "a") == {"timeoutSeconds": 30}
        await cluster.delete(jobs.at("v1"), "a", "default")
        await cluster.delete(CONVERSION_RULES, jobs.name)
        await jobs.condition("Wired", "False")
        body = json.dumps({"metadata": {"annotations": {BREAK_GLASS: ""}}}).encode()
        await cluster.patch(CONVERSION_RULES, jobs.name, body, patch_type=PatchType.MERGE)
        await until(lambda: no_rules(cluster, jobs.name), "the rules stay")
    finally:
        await replicas.end(cluster)
        await jobs.remove()
    was_used, refused = used(audit[1], account, rights)
    assert refused == []
    # An apply that creates is told as a patch; Secrets are replaced at a rotation only.
    idle = {
        (grant.resource, grant.verb) for grant in set(rights) - was_used if not (grant.verb == "create" and grant.name)
    }
    assert idle <= {("secrets", "update")}
