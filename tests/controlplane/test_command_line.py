"""``python -m restow.controlplane``: one line when ready, an orderly end, and no remains, however it ends."""

import asyncio
import json
import os
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from restow.controlplane.__main__ import main
from restow.controlplane.binaries import BinarySearch
from restow.controlplane.binaries.search import minors

MODULE = [sys.executable, "-m", "restow.controlplane"]


@asynccontextmanager
async def _up(*arguments):
    """Run ``up`` and wait for its line; kill the process if the test fails."""
    process = await asyncio.create_subprocess_exec(
        *MODULE, "up", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        line = await process.stdout.readline()
        assert line, (await process.stderr.read()).decode()
        yield process, json.loads(line)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.apiserver
async def test_up_says_one_line_and_sigterm_ends_everything(remains, api, tmp_path):
    """A script could not wait for the server, use it, or end it without remains."""
    kubeconfig = tmp_path / "kubeconfig"
    arguments = ["--kubeconfig", str(kubeconfig), "--apiserver-arg", "max-requests-inflight=77"]
    async with _up(*arguments) as (process, ready):
        assert ready.keys() == {"kubeconfig", "server", "etcd"}
        assert ready["kubeconfig"] == str(kubeconfig)
        assert f"server: {ready['server']}" in kubeconfig.read_text()
        assert any("--max-requests-inflight=77" in command for command in remains.processes())
        process.send_signal(signal.SIGTERM)
        rest, errors = await process.communicate()
    assert (process.returncode, rest, errors) == (0, b"", b"")
    assert remains.processes() == []
    assert list(remains.folder.iterdir()) == []
    assert not kubeconfig.exists()


@pytest.mark.apiserver
async def test_a_dead_server_ends_up_with_its_log(remains):
    """``up`` would keep running after a server died."""
    async with _up() as (process, _):
        etcd = next(command for command in remains.processes() if "--unsafe-no-fsync" in command)
        os.kill(_pid_of(etcd), signal.SIGKILL)
        _, errors = await process.communicate()
    assert process.returncode == 1
    assert b"etcd ended with status -9" in errors
    assert remains.processes() == []
    assert list(remains.folder.iterdir()) == []


@pytest.mark.apiserver
async def test_a_killed_up_leaves_nothing(remains):
    """After kill -9 servers and a folder with keys would stay for ever."""
    async with _up() as (process, _):
        assert len(remains.processes()) >= 3
        process.kill()
    await remains.wait_for_none()


@pytest.mark.apiserver
async def test_a_signal_before_ready_is_no_success(remains):
    """A script that waits for the line would take an interrupted start for a completed one."""
    process = await asyncio.create_subprocess_exec(*MODULE, "up", stdout=asyncio.subprocess.PIPE)
    await remains.wait_for_a_process("etcd")
    process.send_signal(signal.SIGTERM)
    output, _ = await process.communicate()
    assert (process.returncode, output) == (128 + signal.SIGTERM, b"")
    assert remains.processes() == []
    assert list(remains.folder.iterdir()) == []


def _pid_of(command):
    for directory in Path("/proc").iterdir():
        try:
            found = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if found == command:
            return int(directory.name)
    raise LookupError(command)


@pytest.fixture
def named_binaries(tmp_path, monkeypatch):
    """Create a file for each binary, and name the files in the environment."""
    paths = {}
    for name in ("etcd", "kube-apiserver", "kubectl"):
        paths[name] = tmp_path / "named" / name
        paths[name].parent.mkdir(exist_ok=True)
        paths[name].touch(mode=0o755)
        monkeypatch.setenv(f"TEST_ASSET_{name.upper().replace('-', '_')}", str(paths[name]))
    return paths


def test_binaries_prints_where_they_are(named_binaries, capsys):
    """A Makefile could not prepare the binaries, or find out where they are."""
    assert main(["binaries", "--with", "kubectl"]) == 0
    assert json.loads(capsys.readouterr().out) == {name: str(path) for name, path in named_binaries.items()}


def test_missing_binaries_are_exit_1_with_a_sentence(tmp_path, monkeypatch, capsys):
    """A Makefile would run the tests without binaries, or show a traceback."""
    for name in ("KUBEBUILDER_ASSETS", "TEST_ASSET_ETCD", "TEST_ASSET_KUBE_APISERVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RESTOW_CONTROLPLANE_CACHE", str(tmp_path))
    monkeypatch.setenv("RESTOW_CONTROLPLANE_SOURCE", "archive")
    monkeypatch.setenv("RESTOW_CONTROLPLANE_OFFLINE", "true")
    assert main(["binaries"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "No way led to etcd, kube-apiserver" in captured.err


def test_minors_prints_what_can_be_built(capsys):
    """``make test-matrix`` would test no minor at all, and succeed."""
    assert main(["minors"]) == 0
    assert capsys.readouterr().out.split() == list(minors())


@pytest.mark.parametrize("command", ["binaries", "up"])
def test_a_kubernetes_that_is_not_there_is_exit_1_with_a_sentence(command, capsys):
    """A mistyped minor would start the default one."""
    assert main([command, "--kubernetes", "1.2"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Kubernetes 1.2 is not pinned here" in captured.err


def test_binaries_are_those_of_the_kubernetes_that_is_asked_for(tmp_path, monkeypatch, capsys):
    """Tests on an older minor would run on the default one, against docs/controlplane.md."""
    for name in ("KUBEBUILDER_ASSETS", "TEST_ASSET_ETCD", "TEST_ASSET_KUBE_APISERVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RESTOW_CONTROLPLANE_CACHE", str(tmp_path))
    monkeypatch.setenv("RESTOW_CONTROLPLANE_OFFLINE", "true")
    for minor in minors():
        folder = BinarySearch.from_environment(kubernetes=minor).folder
        folder.mkdir()
        for name in ("etcd", "kube-apiserver"):
            (folder / name).touch(mode=0o755)
        assert main(["binaries", "--kubernetes", minor]) == 0
        found = json.loads(capsys.readouterr().out)
        assert {str(Path(path).parent) for path in found.values()} == {str(folder)}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "required"),
        (["up", "--port", "many"], "invalid int value"),
        (["up", "--kubeconfig", "{mine}"], "is no kubeconfig of this command"),
        (["up", "--kubeconfig", "{folder}/no/such/file"], "does not exist"),
        (["binaries", "--with", "kubelet"], "invalid choice"),
        (["minors", "--kubernetes", "1.35"], "unrecognized arguments"),
    ],
)
def test_wrong_usage_is_exit_2(arguments, sentence, tmp_path, capsys):
    """A mistake would start a control plane, or overwrite and then remove the user's own kubeconfig."""
    mine = tmp_path / "config"
    mine.write_text("apiVersion: v1\nkind: Config\n")
    with pytest.raises(SystemExit) as caught:
        main([argument.format(mine=mine, folder=tmp_path) for argument in arguments])
    assert caught.value.code == 2
    assert sentence in capsys.readouterr().err
    assert mine.read_text() == "apiVersion: v1\nkind: Config\n"
