"""The plugin as other projects use it: in a separate test run, in which pytest finds the fixtures by itself."""

import asyncio
import os
import sys

import pytest

TESTS = """
import pytest

def test_plane(control_plane, kubeconfig):
    assert kubeconfig == control_plane.kubeconfig
    assert control_plane.server in kubeconfig.read_text()

async def test_in_a_loop_of_its_own(control_plane):
    assert control_plane.server.startswith("https://")

def test_etcd(etcd):
    assert etcd.url
"""
NO_BINARIES = {"RESTOW_CONTROLPLANE_SOURCE": "archive", "RESTOW_CONTROLPLANE_OFFLINE": "true"}


@pytest.fixture
def run_pytest(tmp_path):
    """Return a function that runs pytest on TESTS in a new folder and returns exit code and output."""

    async def run(environment, conftest=""):
        (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
        (tmp_path / "conftest.py").write_text(conftest)
        (tmp_path / "test_it.py").write_text(TESTS)
        unset = (
            "CI",
            "USE_EXISTING_CLUSTER",
            "RESTOW_KUBECONFIG",
            "RESTOW_KUBERNETES",
            "KUBECONFIG",
            "KUBEBUILDER_ASSETS",
        )
        inherited = {
            name: value
            for name, value in os.environ.items()
            if name not in unset and not name.startswith("TEST_ASSET_")
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pytest", "-rsx", "-p", "no:cacheprovider", str(tmp_path)),
            env=inherited | {"RESTOW_CONTROLPLANE_CACHE": str(tmp_path / "cache")} | environment,
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        return process.returncode, output.decode()

    return run


async def test_without_binaries_tests_are_skipped_with_the_reason(run_pytest):
    """On a machine without binaries and network, the whole test run would fail, or skip tests without a reason."""
    code, output = await run_pytest(NO_BINARIES)
    assert code == 0, output
    assert "3 skipped" in output
    assert "No way led to etcd, kube-apiserver" in output


async def test_in_ci_nothing_is_skipped(run_pytest):
    """A CI without binaries would succeed without having tested anything."""
    code, output = await run_pytest({**NO_BINARIES, "CI": "true"})
    assert code == 1, output
    assert "3 errors" in output
    assert "skipped" not in output.splitlines()[-1]
    assert "In CI a test on the API server must not be skipped. No way led to etcd" in output


@pytest.mark.parametrize("ci", ["", "true"])
@pytest.mark.parametrize(
    ("variable", "more"), [("KUBECONFIG", {"USE_EXISTING_CLUSTER": "true"}), ("RESTOW_KUBECONFIG", {})]
)
async def test_on_an_existing_cluster_only_etcd_is_missing(run_pytest, tmp_path, ci, variable, more):
    """The fixtures would start servers despite the given cluster, or tests of etcd would pass without a check."""
    path = tmp_path / "existing"
    path.write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: k}}],"
        " clusters: [{name: k, cluster: {server: 'https://existing:6443'}}]}"
    )
    returned, output = await run_pytest({**NO_BINARIES, variable: str(path), "CI": ci, **more})
    assert returned == 0, output
    assert "2 passed, 1 skipped" in output.splitlines()[-1]
    assert "On the existing cluster https://existing:6443 etcd cannot be read" in output


async def test_what_a_test_asks_an_existing_cluster_for_in_vain_skips_it(run_pytest, tmp_path):
    """A run on kind would fail with a hundred unclear errors, or hide a test's own mistake."""
    path = tmp_path / "existing"
    path.write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: k}}],"
        " clusters: [{name: k, cluster: {server: 'https://existing:6443'}}]}"
    )
    (tmp_path / "test_more.py").write_text(
        "import pytest\n"
        "@pytest.fixture\ndef alice(control_plane):\n    return control_plane.user('alice')\n"
        "def test_user(alice):\n    pass\n"
        "async def test_server(control_plane):\n    await control_plane.another_apiserver()\n"
        "def test_wrong(control_plane):\n    assert control_plane.servr\n"
    )
    returned, output = await run_pytest({**NO_BINARIES, "RESTOW_KUBECONFIG": str(path)})
    assert returned == 1, output
    assert "1 failed, 2 passed, 3 skipped" in output.splitlines()[-1]
    assert "no certificate can be signed for alice" in output
    assert "there is no another_apiserver of ours" in output


async def test_the_definition_can_be_overridden(run_pytest):
    """A project could not start the plane with its own flags."""
    conftest = (
        "import pytest\nfrom pathlib import Path\n"
        "from restow.controlplane import ControlPlane\nfrom restow.controlplane.binaries import BinarySearch\n"
        "@pytest.fixture(scope='session')\n"
        "def control_plane_definition():\n"
        "    search = BinarySearch(cache=Path('nowhere'), version='9.9.9', sources=())\n"
        "    return ControlPlane(search=search)\n"
    )
    code, output = await run_pytest(NO_BINARIES, conftest)
    assert code == 0, output
    assert "No way led to etcd, kube-apiserver of Kubernetes 9.9.9" in output


@pytest.mark.apiserver
async def test_the_fixtures_work_in_any_loop(run_pytest, plane):
    """The session's plane would be bound to one test's event loop, and fail in the next test."""
    binaries = {f"TEST_ASSET_{name.upper().replace('-', '_')}": str(path) for name, path in plane.binaries.items()}
    code, output = await run_pytest({**binaries, "CI": "true"})
    assert code == 0, output
    assert "3 passed" in output.splitlines()[-1]


async def test_importing_the_plugin_is_cheap():
    """Every pytest run with restow installed would have to import aiohttp, cryptography and YAML."""
    script = (
        "import pytest, sys\n"
        "before = set(sys.modules)\n"
        "import restow.controlplane.pytest_plugin\n"
        "print(sorted(name for name in set(sys.modules) - before if not name.startswith('restow')))"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert output.decode().strip() == "[]"
