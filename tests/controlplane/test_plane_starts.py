"""Starts and ends: several planes, taken ports, bad flags, cancellations; none leaves a process or file."""

import asyncio
import socket
import ssl

import aiohttp
import pytest

from restow.controlplane import ControlPlane, ControlPlaneError, ProcessError
from restow.controlplane import plane as plane_module
from restow.controlplane.errors import PortTakenError

pytestmark = pytest.mark.apiserver
GATE, MIGRATION_API = "StorageVersionMigrator", "storagemigration.k8s.io/v1beta1"
CONTROLLER_MANAGER_ARGS = {"kube-api-qps": "500", "kube-api-burst": "1000"}


@pytest.fixture
def taken_port():
    """Return a port of the loopback address on which another socket listens."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


async def test_a_second_plane_runs_next_to_the_first(plane, api, remains, taken_port, monkeypatch):
    """Parallel test runs would disturb each other, fail because of a taken port, or leave servers behind."""
    offered = [taken_port]  # the first start finds the port of its API server taken

    def ports(count):
        found = _free_ports(count)
        return [*found[:-1], offered.pop()] if offered else found

    _free_ports = plane_module.free_ports
    monkeypatch.setattr(plane_module, "free_ports", ports)
    definition = ControlPlane(
        controller_manager=True,
        controller_manager_args=CONTROLLER_MANAGER_ARGS,
        feature_gates={GATE: True},
        runtime_config={MIGRATION_API: True},
    )
    async with definition as second:
        assert offered == []
        assert set(second.pids) == {"etcd", "kube-apiserver", "kube-controller-manager"}
        assert second.server != plane.server
        with pytest.raises(ControlPlaneError, match="running already"):
            await second.start()
        assert await _status_with_foreign_credentials(second, plane) == 401
        await _start_native_migration(api(second.admin))
        await _delete_a_namespace(api(second.admin))
    assert remains.processes() == []
    assert list(remains.folder.iterdir()) == []
    with pytest.raises(ControlPlaneError, match="not running"):
        _ = second.server
    await second.stop()


async def _status_with_foreign_credentials(plane, stranger):
    context = ssl.create_default_context(cafile=plane.ca_file)
    context.load_cert_chain(stranger.admin.certificate_file, stranger.admin.key_file)
    async with aiohttp.ClientSession() as session, session.get(f"{plane.server}/api/v1/pods", ssl=context) as response:
        return response.status


async def _start_native_migration(admin):
    """Start a migration, and wait until Kubernetes' own migrator runs it.

    The migration itself takes two minutes: it waits for the garbage collector's caches, which are renewed every 30 s.
    """
    await admin.create_crd("gadgets", "Gadget")
    migration = {
        "apiVersion": MIGRATION_API,
        "kind": "StorageVersionMigration",
        "metadata": {"name": "gadgets"},
        "spec": {"resource": {"group": "example.com", "resource": "gadgets"}},
    }
    path = f"/apis/{MIGRATION_API}/storageversionmigrations"
    await admin.create(path, migration)
    await admin.until(f"{path}/gadgets", lambda _, document: "Running" in _true_conditions(document))


def _true_conditions(document):
    conditions = document.get("status", {}).get("conditions", [])
    return {each["type"] for each in conditions if each["status"] == "True"}


async def _delete_a_namespace(admin):
    """Delete a namespace, which only a running namespace controller completes."""
    await admin.create("/api/v1/namespaces", {"metadata": {"name": "short-lived"}})
    await admin("DELETE", "/api/v1/namespaces/short-lived")
    await admin.until("/api/v1/namespaces/short-lived", lambda status, _: status == 404)


async def test_a_wrong_flag_is_told_and_leaves_nothing(remains):
    """A failed start would not give its reason, or would leave an etcd behind."""
    with pytest.raises(ProcessError, match=r"kube-apiserver ended with status 1(?s:.*)unknown flag: --no-such-flag"):
        async with ControlPlane(apiserver_args={"no-such-flag": "1"}):
            pytest.fail("it started")
    assert remains.processes() == []
    assert list(remains.folder.iterdir()) == []


async def test_a_given_port_that_is_taken_is_told(remains, taken_port):
    """The plane would start at another port than the requested one, or try in vain."""
    with pytest.raises(PortTakenError, match="kube-apiserver"):
        await ControlPlane(port=taken_port).start()
    assert remains.processes() == []
    assert list(remains.folder.iterdir()) == []


async def test_a_start_that_takes_too_long_is_told(remains):
    """A start that hangs would hang the test run, or not report the missing condition."""
    with pytest.raises(ProcessError, match=r"was not ready within 0.05 s(?s:.*)start_timeout"):
        await ControlPlane(start_timeout=0.05).start()
    assert remains.processes() == []


async def test_a_cancelled_start_leaves_nothing(remains):
    """Ctrl-C during the start would leave etcd and a half-started API server behind."""
    starting = asyncio.create_task(ControlPlane().start())
    await remains.wait_for_a_process("kube-apiserver")
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert remains.processes() == []
    assert list(remains.folder.iterdir()) == []
