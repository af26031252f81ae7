"""Platforms: what runs on Windows too, and what says that it does not."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys

import pytest

from restow.cli import signals
from restow.controlplane.binaries import find
from restow.controlplane.errors import BinariesUnavailableError

WITHOUT_UNIX = """
import importlib, pkgutil, sys
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
from restow.main import COMMANDS
for name in COMMANDS:
    importlib.import_module(f"restow.commands.{name}")
import restow.controlplane.binaries.find, restow.controlplane.plane
from restow.webhook.serving import _raise_file_limit
_raise_file_limit()
"""


def test_every_command_can_be_imported_without_the_modules_of_unix() -> None:
    """One import of fcntl or resource, and no command starts on Windows."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_UNIX], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


async def test_the_control_plane_says_where_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that fails after minutes, or a traceback, does not say that WSL helps."""
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(BinariesUnavailableError, match="runs on Linux and macOS, not on win32: run it in WSL"):
        await find.find_binaries(["etcd"])


async def test_signals_reach_a_loop_that_has_no_handlers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop of Windows raises NotImplementedError; a run must still drain there."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def refuse(*_arguments: object) -> None:
        raise NotImplementedError

    monkeypatch.setattr(loop, "add_signal_handler", refuse)
    monkeypatch.setattr(loop, "remove_signal_handler", refuse)
    before = signal.getsignal(signal.SIGTERM)
    try:
        signals.on(loop, signal.SIGTERM, stop.set)
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(stop.wait(), 30)
        signals.off(loop, signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
