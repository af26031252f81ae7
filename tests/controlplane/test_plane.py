"""A running control plane: its stored objects, its users and their rights, its restarts and further API servers."""

import ssl
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest
from kubernetes_asyncio import client, config

from restow.controlplane import ControlPlaneAuthority, NotStoredError, UnavailableError
from restow.controlplane.readiness import apiserver_probe, etcd_probe
from restow.controlplane.users import write_private

pytestmark = pytest.mark.apiserver
PODS = "/api/v1/namespaces/default/pods"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


async def test_etcd_shows_what_is_stored(plane, api):
    """A test of a migration would check converted objects instead of stored ones, and prove nothing."""
    admin = api(plane.admin)
    await admin.create_crd("widgets", "Widget")
    for index in range(5):
        name = {"metadata": {"name": f"w{index}"}, "spec": {"size": index}}
        created = await admin.create(
            WIDGETS.replace("v1", "v2"), {"apiVersion": "example.com/v2", "kind": "Widget"} | name
        )
        assert created["apiVersion"] == "example.com/v2"

    stored = await plane.etcd.stored_object("example.com", "widgets", "default", "w3")
    assert (stored["apiVersion"], stored["spec"]) == ("example.com/v1", {"size": 3})

    prefix = "/registry/example.com/widgets/"
    paged = [key async for key, _ in plane.etcd.prefix(prefix, page=2)]
    assert paged == [f"{prefix}default/w{index}" for index in range(5)]
    assert await plane.etcd.count(prefix) == 5
    for namespace, count in ((None, 5), ("default", 5), ("kube-system", 0)):
        listed = [each async for each in plane.etcd.stored_objects("example.com", "widgets", namespace)]
        assert len(listed) == count

    assert await plane.etcd.get(f"{prefix}default/nothing") is None
    with pytest.raises(NotStoredError, match=r"nothing at /registry/example.com/widgets/default/w9"):
        await plane.etcd.stored_object("example.com", "widgets", "default", "w9")
    await admin("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com")


async def test_built_in_kinds_are_readable_as_bytes(plane):
    """Reading a built-in kind such as a namespace as JSON would give garbage instead of an error."""
    value = await plane.etcd.get("/registry/namespaces/default")
    assert value is not None
    assert value.startswith(b"k8s\0")
    with pytest.raises(Exception, match="is not JSON"):
        await plane.etcd.stored_object("namespaces", "default", None, "")


async def test_an_empty_prefix_is_everything(plane):
    """Reading all keys of etcd would fail, or find none."""
    namespaces = {key async for key, _ in plane.etcd.prefix("/registry/namespaces/")}
    assert await plane.etcd.count("") > len(namespaces) > 0
    assert namespaces < {key async for key, _ in plane.etcd.prefix("")}


async def test_a_user_has_the_rights_of_the_groups_and_no_others(plane, api):
    """RBAC could not be tested, because every user would be an administrator, or none would be admitted."""
    dev, other, admin = api(plane.user("alice", groups=["dev"])), api(plane.user("bob")), api(plane.admin)
    assert (await dev("GET", PODS))[0] == 403
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    await admin.create(f"{rbac}/roles", {"metadata": {"name": "list-pods"}, "rules": [rule]})
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "dev-lists-pods"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "list-pods"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "dev"}],
    }
    await admin.create(f"{rbac}/rolebindings", binding)
    await dev.until(PODS, lambda status, _: status == 200)
    status, answer = await other("GET", PODS)
    assert (status, answer["reason"]) == (403, "Forbidden")
    assert 'User "bob" cannot list' in answer["message"]


async def test_expired_credentials_are_refused(plane, api):
    """A client's behaviour on expired credentials could not be tested."""
    late = plane.user("late", groups=["system:masters"], valid_for=timedelta(minutes=-5))
    status, answer = await api(late)("GET", PODS)
    assert (status, answer["reason"]) == (401, "Unauthorized")


async def test_the_kubeconfig_works_in_a_client(plane):
    """Other Kubernetes clients could not use the kubeconfig."""
    configuration = client.Configuration()
    await config.load_kube_config(str(plane.kubeconfig), client_configuration=configuration)
    async with client.ApiClient(configuration) as session:
        names = [each.metadata.name for each in (await client.CoreV1Api(session).list_namespace()).items]
    assert "default" in names
    assert plane.kubeconfig.stat().st_mode & 0o077 == 0


async def test_the_server_says_a_released_version(plane, api):
    """A build without its version would report v0.0.0, and serve other APIs by default."""
    status, version = await api(plane.admin)("GET", "/version")
    assert status == 200
    assert version["gitVersion"].startswith("v1.")


async def test_service_account_tokens_are_accepted(plane, api):
    """In-cluster authentication could not be tested, because the service account keys would not match."""
    admin = api(plane.admin)
    account = {"metadata": {"name": "robot"}}
    await admin.create("/api/v1/namespaces/default/serviceaccounts", account)
    answer = await admin.create("/api/v1/namespaces/default/serviceaccounts/robot/token", {"spec": {}})
    headers = {"Authorization": f"Bearer {answer['status']['token']}"}
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    url = f"{plane.server}/apis/authentication.k8s.io/v1/selfsubjectreviews"
    anonymous = plane.user("unused").ssl_context()
    async with (
        aiohttp.ClientSession(headers=headers) as session,
        session.post(url, json=review, ssl=anonymous) as response,
    ):
        assert response.status == 201


async def test_the_processes_and_their_cpu_time_are_told(plane):
    """A benchmark would measure no process, or another one."""
    assert set(plane.pids) >= {"etcd", "kube-apiserver"}
    for name, pid in plane.pids.items():
        assert name.rstrip("-0123456789") in Path(f"/proc/{pid}/cmdline").read_text()
    used = plane.cpu_seconds()
    assert used.keys() == plane.pids.keys()
    assert used["kube-apiserver"] > 0


async def test_another_api_server_shares_the_store_and_the_users(plane, api):
    """Tests could not check the effects of a lagging second API server."""
    before = plane.pids
    second = await plane.another_apiserver()
    try:
        assert second.server != plane.server
        [name] = plane.pids.keys() - before.keys()
        assert name.startswith("kube-apiserver-")
        await api(plane.admin).create("/api/v1/namespaces", {"metadata": {"name": "written-at-the-first"}})
        assert (await api(second.admin)("GET", "/api/v1/namespaces/written-at-the-first"))[0] == 200
        stranger = plane.user("alice", apiserver=second)
        assert stranger.server == second.server
        assert (await api(stranger)("GET", PODS.replace("default", "written-at-the-first")))[0] == 403
    finally:
        process = second.process
        await second.stop(grace=30)
    with pytest.raises(UnavailableError, match=f"CPU time of {name} cannot be read"):
        process.cpu_seconds()
    assert plane.pids == before


async def test_restart_keeps_the_store_and_ends_old_continue_tokens(plane, api):
    """Restarts and 410 Gone could not be tested, or an open watch would delay the stop until the server is killed."""
    admin = api(plane.admin)
    for index in range(3):
        await admin.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": f"c{index}"}})
    _, page = await admin("GET", "/api/v1/namespaces/default/configmaps?limit=1")
    token = page["metadata"]["continue"]
    await admin("DELETE", "/api/v1/namespaces/default/configmaps/c0")
    before = await plane.etcd.revision()
    await plane.etcd.compact()
    server, old = plane.server, plane.apiservers[0].process
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{server}/api/v1/namespaces?watch=true", ssl=plane.admin.ssl_context()) as watch,
    ):
        await watch.content.readline()
        await plane.restart_apiserver()
    assert old._popen.returncode == 0
    assert (plane.server, plane.pids["kube-apiserver"] != old.pid) == (server, True)
    assert await plane.etcd.revision() >= before
    assert (await admin("GET", "/api/v1/namespaces/default/configmaps/c1"))[0] == 200
    status, answer = await admin("GET", f"/api/v1/namespaces/default/configmaps?limit=1&continue={token}")
    assert (status, answer["reason"]) == (410, "Expired")


async def test_another_planes_servers_are_not_taken_for_ours(plane, tmp_path):
    """After a lost race for a port, a test would run on another process's control plane and its data."""
    write_private(tmp_path / "ca", ControlPlaneAuthority.create().certificate)
    stranger = ssl.create_default_context(cafile=tmp_path / "ca")
    member = plane.folder.name
    async with aiohttp.ClientSession() as session:
        assert await etcd_probe(plane.etcd.url, member)(session) is None
        assert await etcd_probe(plane.etcd.url, "ours")(session) == "another etcd answers at its port"
        assert await apiserver_probe(plane.server, plane.admin.ssl_context())(session) is None
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await apiserver_probe(plane.server, stranger)(session)
