"""``make test-kind``: what it says where there is no Docker or kind, its steps, and that the cluster is always deleted.

The tools here only write down how they are called. On a real kind cluster the program is the test itself.
"""

from __future__ import annotations

import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.rendering import ROOT, VALUES

PROGRAM = ROOT / "deploy" / "tools" / "kind.py"
BASE = f"python:3.13-slim@sha256:{'0' * 64}"
FAKE = """#!{python}
import json, os, signal, sys, time
name, words = os.path.basename(sys.argv[0]), sys.argv[1:]
stdin = "" if name not in ("kubectl",) or "-" not in words else sys.stdin.read()
line = [name, *words]
with open({log!r}, "a") as log:
    seen = {{"call": line, "stdin": stdin, "restow_kubeconfig": os.environ.get("RESTOW_KUBECONFIG")}}
    log.write(json.dumps(seen) + "\\n")
text = " ".join(line)
if text == "kind get clusters":
    print({clusters!r})
if {hangs!r} and text.startswith({hangs!r}):
    os.kill(os.getppid(), signal.SIGTERM)
    time.sleep(600)
sys.exit(3 if {fails!r} and text.startswith({fails!r}) else 0)
"""


@dataclass(frozen=True)
class Ran:
    """What became of a run, and how it called its tools."""

    code: int
    err: str
    calls: list[dict[str, Any]]

    @property
    def lines(self) -> list[str]:
        """The calls as lines, without the temporary folder."""
        return [" ".join(call["call"]) for call in self.calls]

    def starting(self, *beginnings: str) -> list[str]:
        """Which of these calls were made, in the order in which they were."""
        return [begun for line in self.lines for begun in beginnings if line.startswith(begun)]


def _run(
    folder: Path,
    *arguments: str,
    tools: tuple[str, ...] = ("docker", "kind", "helm", "kubectl", "make", "python"),
    fails: str = "",
    hangs: str = "",
    clusters: str = "another",
) -> Ran:
    """Run the program with fakes on PATH, and nothing else."""
    log, path = folder / "log", folder / "bin"
    path.mkdir()
    text = FAKE.format(python=sys.executable, log=str(log), fails=fails, hangs=hangs, clusters=clusters)
    for name in tools:
        (path / name).write_text(text)
        (path / name).chmod(0o755)
    environment: Mapping[str, str] = os.environ | {"PATH": str(path), "TEST_ASSET_KUBECTL": str(path / "kubectl")}
    script = (
        "import runpy, sys\n"
        f"main = runpy.run_path({str(PROGRAM)!r})['main']\n"
        f"sys.exit(main(sys.argv[1:], python={str(path / 'python')!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=120,
    )
    assert "Traceback" not in done.stderr, done.stderr
    calls = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return Ran(done.returncode, done.stderr, calls)


STEPS = (
    "kind create cluster --name restow-test --kubeconfig",
    f"make image BASE={BASE} TAG=restow.local/restow:test",
    "kind load docker-image restow.local/restow:test --name restow-test",
    "python -m pytest tests/apiserver -k lease",
    "kubectl",
    "helm upgrade --install",
    "kind delete cluster --name restow-test",
)


def test_all_steps_in_their_order(tmp_path: Path) -> None:
    """The tests would run on no cluster, the chart with no image, or a cluster stay behind for ever."""
    ran = _run(tmp_path, BASE, "-k", "lease")
    assert ran.code == 0, ran.err
    assert list(dict.fromkeys(ran.starting(*STEPS))) == list(STEPS)
    assert ran.lines[-1] == STEPS[-1]
    kubeconfig = ran.calls[[line.startswith("kind create") for line in ran.lines].index(True)]["call"][6]
    pytest_call = next(call for call in ran.calls if call["call"][0] == "python")
    assert pytest_call["restow_kubeconfig"] == kubeconfig
    for call in ran.calls:
        if call["call"][0] in ("helm", "kubectl"):
            assert kubeconfig in call["call"], "that would be somebody else's cluster"
    assert not Path(kubeconfig).parent.exists()


def test_every_values_file_is_installed_and_removed_again(tmp_path: Path) -> None:
    """A new example of values would not be tried; or what one left would decide over the next one."""
    installations = runpy.run_path(str(PROGRAM))["INSTALLATIONS"]
    assert installations.keys() == {file.name for file in VALUES}
    ran = _run(tmp_path, BASE)
    helm = [call["call"] for call in ran.calls if call["call"][0] == "helm"]
    for file in VALUES:
        installed = [call for call in helm if str(file) in call]
        assert len(installed) == (2 if installations[file.name].upgraded else 1)
        assert all(("--wait" in call) == installations[file.name].waits for call in installed)
        assert all(
            Path(part.partition("=")[2]).is_file() for call in installed for part in call if "webhook.files" in part
        )
        place = max(number for number, call in enumerate(helm) if call in installed)
        assert helm[place + 1][1:3] == ["uninstall", f"restow-{file.stem}"]


def test_the_crds_that_the_values_speak_of_are_there_first(tmp_path: Path) -> None:
    """helm would refuse a Certificate, and the migration find no CRD."""
    ran = _run(tmp_path, BASE)
    applied = "".join(call["stdin"] for call in ran.calls)
    for name in ("certificates.cert-manager.io", "servicemonitors.monitoring.coreos.com", "widgets.example.com"):
        assert f"name: {name}\n" in applied
    lines = ran.lines
    last = max(place for place, line in enumerate(lines) if line.startswith("kubectl"))
    assert last < min(place for place, line in enumerate(lines) if line.startswith("helm"))


@pytest.mark.parametrize(
    ("fails", "still", "never"),
    [
        ("kind create", (), ("make", "python", "helm")),
        ("make image", ("python",), ("kind load", "helm")),
        ("kind load", ("python",), ("helm",)),
        ("python -m pytest", ("helm uninstall restow-webhook-own-ca",), ()),
        ("helm upgrade --install restow-operator ", ("helm uninstall restow-webhook-own-ca",), ()),
        ("kubectl", ("python",), ("helm",)),
    ],
)
def test_after_a_failure_the_cluster_is_deleted(
    tmp_path: Path, fails: str, still: tuple[str, ...], never: tuple[str, ...]
) -> None:
    """A failed run would leave a cluster, and the next one be refused; or be taken for a good one."""
    ran = _run(tmp_path, BASE, fails=fails)
    assert ran.code == 1
    assert "of the steps failed" in ran.err
    assert ran.lines[-1] == STEPS[-1]
    assert set(ran.starting(*still)) == set(still), ran.lines
    assert ran.starting(*never) == []


def test_an_interrupted_run_deletes_its_cluster(tmp_path: Path) -> None:
    """A CI that gives up would leave clusters until the machine is full."""
    ran = _run(tmp_path, BASE, hangs="python -m pytest")
    assert ran.code == 128 + signal.SIGTERM
    assert ran.lines[-1] == STEPS[-1]


def test_a_cluster_that_stays_is_a_failure(tmp_path: Path) -> None:
    """Nobody would learn of it."""
    ran = _run(tmp_path, BASE, fails="kind delete")
    assert ran.code == 1
    assert "deleting the cluster" in ran.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("tools", "options", "said"),
    [
        ((), {}, "there is no docker here; install Docker and kind"),
        (("docker",), {}, "there is no kind here; install Docker and kind"),
        (("docker", "kind"), {"fails": "docker info"}, "its daemon does not answer"),
        (("docker", "kind"), {"clusters": "restow-test"}, "there is a cluster restow-test already"),
    ],
)
def test_where_it_cannot_be_done_it_says_so_in_a_line(
    tmp_path: Path, tools: tuple[str, ...], options: dict[str, str], said: str
) -> None:
    """A traceback, or a green run that tested nothing; or somebody's cluster of that name deleted."""
    ran = _run(tmp_path, BASE, tools=tools, **options)
    assert ran.code == 2
    (line,) = ran.err.splitlines()
    assert said in line
    assert not any("create" in each or "delete" in each for each in ran.lines)


def test_without_a_base_it_says_what_to_give(tmp_path: Path) -> None:
    """The image would be built on whatever a tag is today."""
    for number, arguments in enumerate(((), ("",))):
        folder = tmp_path / str(number)
        folder.mkdir()
        ran = _run(folder, *arguments)
        assert (ran.code, ran.calls) == (2, [])
        assert "make test-kind BASE=" in ran.err


@pytest.mark.skipif(shutil.which("kind") is not None, reason="there is a kind here: run make test-kind itself")
def test_on_this_machine_it_says_what_is_missing() -> None:
    """The message is for whoever has neither, as here."""
    done = subprocess.run([sys.executable, PROGRAM, BASE], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "install Docker and kind" in done.stderr
