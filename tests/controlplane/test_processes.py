"""Processes and their folder, which never stay, however the owner ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from restow.controlplane.errors import ControlPlaneError, PortTakenError, ProcessError
from restow.controlplane.processes import ProcessGroup

SHELL = "/bin/sh"
STUBBORN = [SHELL, "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"]
OWNER = """
import json, os, sys, time
from restow.controlplane.processes import ProcessGroup
group = ProcessGroup()
command = ["/bin/sh", "-c", "trap '' TERM HUP INT; while :; do sleep 1; done"]
pids = [group.start(f"server-{i}", command).pid for i in (1, 2)]
print(json.dumps({"folder": str(group.folder), "pids": pids}), flush=True)
time.sleep(600)
"""


def _alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended and waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def _gone(folder: Path, pids: list[int]) -> None:
    async with asyncio.timeout(30):
        while folder.exists() or any(_alive(pid) for pid in pids):
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
async def test_a_killed_owner_leaves_nothing(number: signal.Signals) -> None:
    """A killed test run would leave servers that ignore SIGTERM, and a folder with keys, for ever."""
    owner = await asyncio.create_subprocess_exec(sys.executable, "-c", OWNER, stdout=asyncio.subprocess.PIPE)
    assert owner.stdout is not None
    started = json.loads(await owner.stdout.readline())
    folder = Path(started["folder"])
    assert folder.is_dir()
    assert all(_alive(pid) for pid in started["pids"])
    owner.send_signal(number)
    assert await owner.wait() == -number
    await _gone(folder, started["pids"])


async def test_an_owner_that_forgets_to_close_leaves_nothing() -> None:
    """A script without ``async with`` would leave its servers behind when it ends normally."""
    script = OWNER.replace("time.sleep(600)", "")
    owner = await asyncio.create_subprocess_exec(
        *(sys.executable, "-W", "ignore", "-c", script), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await owner.communicate()
    started = json.loads(output)
    await _gone(Path(started["folder"]), started["pids"])


async def test_close_ends_the_stubborn_after_the_grace() -> None:
    """A server that ignores SIGTERM would hang the end of the test run, or outlive it."""
    group = ProcessGroup()
    process = group.start("stubborn", STUBBORN)
    await _until_written(process.log_tail, "ready")
    await group.close(grace=0.1)
    assert not process.running
    assert not group.folder.exists()
    await group.close(grace=0.1)


async def test_a_cancelled_close_kills_at_once() -> None:
    """Ctrl-C while stopping would leave servers behind."""
    group = ProcessGroup()
    processes = [group.start(f"stubborn-{index}", STUBBORN) for index in (1, 2)]
    for process in processes:
        await _until_written(process.log_tail, "ready")
    closing = asyncio.create_task(group.close(grace=600))
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert not [process for process in processes if process.running]
    assert not group.folder.exists()


@pytest.mark.parametrize(
    ("words", "error"),
    [("panic: no", ProcessError), ("listen tcp 127.0.0.1:1: bind: address already in use", PortTakenError)],
)
async def test_a_death_is_told_with_the_logs_tail(words: str, error: type[ProcessError]) -> None:
    """A failed start would lose its cause, or a taken port would not be recognised and retried."""
    group = ProcessGroup()
    try:
        process = group.start("server", [SHELL, "-c", f"echo '{words}' >&2; exit 3"])
        async with asyncio.timeout(30):
            while process.running:
                await asyncio.sleep(0.01)
        with pytest.raises(ProcessError, match=r"server ended with status 3\.(?s:.*)" + words) as caught:
            group.check()
        assert type(caught.value) is error
    finally:
        group.kill()


async def test_the_tail_is_of_the_last_start_only() -> None:
    """After a restart the old run's output would explain the new run's death."""
    group = ProcessGroup()
    try:
        for words in ("address already in use", "something else"):
            process = group.start("server", [SHELL, "-c", f"echo {words}; exit 1"])
            await _until_written(process.log_tail, words)
        assert "address already in use" not in process.log_tail()
    finally:
        group.kill()


async def test_a_stopped_process_is_no_failure() -> None:
    """A restart would be reported as a crash."""
    group = ProcessGroup()
    try:
        await group.start("server", ["/bin/sleep", "600"]).stop(grace=10)
        group.check()
    finally:
        group.kill()


async def test_a_program_that_does_not_exist_is_told() -> None:
    """The user would get a bare FileNotFoundError, or the folder would stay."""
    group = ProcessGroup()
    with pytest.raises(ControlPlaneError, match="etcd could not be started from /nowhere/etcd"):
        group.start("etcd", ["/nowhere/etcd"])
    group.kill()
    assert not group.folder.exists()


async def test_logs_can_be_kept(tmp_path: Path) -> None:
    """In CI the logs would be removed with the folder before a developer can read them."""
    group = ProcessGroup(log_directory=tmp_path / "logs")
    process = group.start("server", [SHELL, "-c", "echo hello"])
    await _until_written(process.log_tail, "hello")
    group.kill()
    assert (tmp_path / "logs" / "server.log").read_text() == "hello\n"


async def test_output_can_go_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    """A developer could not watch the servers, or their output would mix with the JSON line on stdout."""
    group = ProcessGroup(attach_output=True)
    try:
        process = group.start("server", [SHELL, "-c", "echo hello; echo world >&2"])
        async with asyncio.timeout(30):
            while process.running:
                await asyncio.sleep(0.01)
    finally:
        group.kill()
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "hello\nworld\n")


async def test_ctrl_c_of_a_terminal_does_not_reach_the_servers() -> None:
    """Ctrl-C would kill the servers under a running test, before the test run can end in order."""
    group = ProcessGroup()
    try:
        process = group.start("server", ["/bin/sleep", "600"])
        assert os.getpgid(process.pid) != os.getpgrp()
    finally:
        group.kill()


async def _until_written(tail: Callable[[], str], words: str) -> None:
    async with asyncio.timeout(30):
        while words not in tail():
            await asyncio.sleep(0.01)
