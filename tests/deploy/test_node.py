"""``make test-node`` where it cannot run: it says what is missing, and changes nothing. The rest is tests/node."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.rendering import ROOT
from tests.node import __main__ as program
from tests.node import machine


def test_a_machine_without_containerd_is_told_its_packages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody would see a traceback in the middle of a run, and not know what to install."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: None if name in ("containerd", "ctr", "nft") else f"/bin/{name}")
    monkeypatch.setattr(machine, "_CNI", Path("/"))
    assert program.main() == 2
    said = "test-node: Nodes need programs of these Debian packages: containerd, nftables.\n"
    assert capsys.readouterr().err == said


def test_who_is_not_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mounts would fail one by one."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert machine.missing() == "Nodes need root: they make namespaces, mounts and control groups."


def test_tests_that_need_nodes_are_not_collected_without_them() -> None:
    """``make test`` would fail on every machine."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/node"]
    environment = {name: value for name, value in os.environ.items() if name != "RESTOW_NODES"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout
