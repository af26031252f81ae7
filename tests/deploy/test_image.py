"""The container image without a container engine: its file linted, its steps done, and what they made run as nobody."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from restow.controlplane.plane import ControlPlane
from restow.kube.client import HttpCluster
from restow.rbac import Asked, Command, grants
from tests.apiserver.accounts import Accounts
from tests.apiserver.kind import Kind
from tests.deploy.dockerfile import build, interpreter, stages
from tests.deploy.rendering import CHART, ROOT
from tests.node.images import images

IMAGE = ROOT / "deploy" / "image"
TEXT = (IMAGE / "Dockerfile").read_text()
MOST = 120_000_000
"""Bytes of the whole image, with an interpreter, its libraries and CEL."""
NOBODY = 65532 if os.geteuid() == 0 else None  # only root may become somebody else

pytestmark = pytest.mark.timeout(900)


def test_the_linter_finds_nothing(tools: dict[str, Path]) -> None:
    """hadolint's rules, down to matters of style."""
    command = [tools["hadolint"], "--no-color", "--config", IMAGE / "hadolint.yaml", IMAGE / "Dockerfile"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_linter_would_find_something(tools: dict[str, Path]) -> None:
    """The proof that the test above can fail."""
    command = [tools["hadolint"], "--no-color", "--config", IMAGE / "hadolint.yaml", "-"]
    text = TEXT.replace('ENTRYPOINT ["restow"]', "ENTRYPOINT restow")
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "DL3025" in done.stdout


def test_what_runs_is_nobody_and_needs_no_shell() -> None:
    """What the chart's security context asks for has to be true of the image by itself."""
    *_, last = stages(TEXT)
    assert [each.rest for each in last.of("USER")] == ["65532:65532"]
    assert [each.form for each in last.of("ENTRYPOINT")] == [["restow"]]
    assert last.of("RUN") == [], "the last stage runs nothing, so that it could have no shell"
    words = [each.word for each in last.instructions]
    assert words.index("USER") > words.index("COPY"), "what is copied belongs to root"
    assert "runAsUser: 65532" in (CHART / "values.yaml").read_text()


def test_everything_is_pinned() -> None:
    """The base by its digest, what is installed by its hash; nothing else is fetched."""
    assert "\nARG BASE\n" in TEXT, "no default: a tag moves"
    assert {stage.base for stage in stages(TEXT)} == {"${BASE}"}
    installs = [each.rest for stage in stages(TEXT) for each in stage.of("RUN") if "install" in each.rest]
    assert len(installs) == 2
    assert all("--require-hashes" in each or "--no-index" in each for each in installs)


@dataclass(frozen=True)
class Made:
    """What the steps made: how it is started, and as whom."""

    folder: Path
    entry: list[str]
    environment: dict[str, str]

    def run(self, *arguments: str | Path, home: Path) -> subprocess.CompletedProcess[str]:
        """Run the entry point as nobody, with a folder to write to and no other."""
        path = self.environment["PATH"].split(":")[0]
        environment = self.environment | {"PATH": path, "HOME": "/nonexistent", "TMPDIR": str(home)}
        program = shutil.which(self.entry[0], path=path)
        assert program is not None
        return subprocess.run(
            [program, *self.entry[1:], *map(str, arguments)],
            env=environment,
            cwd="/",
            user=NOBODY,
            group=NOBODY,
            extra_groups=[] if NOBODY else None,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture(scope="module")
def made() -> Iterator[Made]:
    """All steps of the Dockerfile, done; what they made can only be read."""
    with tempfile.TemporaryDirectory(prefix="restow-image-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        context = folder / "context"
        for file in ("requirements/image.txt", "deploy/image/trim.py"):
            (context / file).parent.mkdir(parents=True)
            shutil.copy(ROOT / file, context / file)
        command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", context / "dist", ROOT]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        entry, environment = build(TEXT, context, folder, interpreter(NOBODY))
        writable = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
        code = [path for path in (folder / "opt").rglob("*") if not path.is_symlink()]
        for path in code:
            path.chmod(path.stat().st_mode & ~writable)
        yield Made(folder, entry, environment)
        for path in code:
            path.chmod(path.stat().st_mode | stat.S_IWUSR)


@pytest.fixture
def home() -> Iterator[Path]:
    """The one folder that may be written to, as a pod's /tmp is."""
    with tempfile.TemporaryDirectory(prefix="restow-home-") as name:
        if NOBODY is not None:
            os.chown(name, NOBODY, NOBODY)
        yield Path(name)


def test_it_tells_what_it_can(made: Made, home: Path) -> None:
    """The first thing that anybody does with an image."""
    done = made.run("--help", home=home)
    assert done.returncode == 0, done.stderr
    assert "migrate" in done.stdout


@pytest.mark.parametrize("command", ["serve", "operator"])
def test_the_extras_are_in_it(command: str, made: Made, home: Path) -> None:
    """The wheel alone has no Prometheus client and no cryptography."""
    done = made.run(command, "--help", home=home)
    assert done.returncode == 0, done.stderr


def test_nothing_of_the_tests_is_in_it(made: Made) -> None:
    """What is not needed to run is one more thing to be patched."""
    installed = {path.name for path in made.folder.rglob("site-packages/*")}
    assert "restow" in installed
    assert not installed & {"hypothesis", "pytest", "_pytest"}


def test_it_is_complete_and_writes_nothing(made: Made, home: Path) -> None:
    """What is imported comes from the image, and Python does not try to write a cache of bytecode."""
    before = sorted(made.folder.rglob("*"))
    for command in ("migrate", "rbac", "serve", "operator", "convert"):
        assert made.run(command, "--help", home=home).returncode == 0
    assert sorted(made.folder.rglob("*")) == before
    assert list(home.iterdir()) == []


RULES = """
apiVersion: restow.dev/v1alpha1
kind: ConversionRules
metadata: {name: profiles.core.example.dev}
spec:
  target: {group: core.example.dev, kind: Profile}
  hub: v2
  spokes:
  - version: v1
    rules:
    - pair: {spoke: spec.size, hub: spec.length, up: self * 2 + math.abs(-1), down: (self - 1) / 2}
"""


def test_expressions_are_evaluated(made: Made, home: Path) -> None:
    """trim.py would remove what CEL needs."""
    (home / "rules.yaml").write_text(RULES)
    (home / "profile.yaml").write_text("{apiVersion: core.example.dev/v1, kind: Profile, spec: {size: 4}}")
    files = ("-f", home / "profile.yaml", "--rules", home / "rules.yaml")
    done = made.run("convert", *files, "--to", "v2", home=home)
    assert done.returncode == 0, done.stderr
    assert "length: 9" in done.stdout


def test_plugins_of_a_kubeconfig_are_asked(made: Made, home: Path) -> None:
    """trim.py would remove what kubernetes-asyncio needs for them."""
    answer = '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {}}'
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}
    names = {"cluster": "a", "user": "a"}
    document = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": names}],
        "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "a", "user": {"exec": plugin | {"command": "/bin/echo", "args": [answer]}}}],
    }
    (home / "kubeconfig").write_text(json.dumps(document))
    done = made.run("status", "--kubeconfig", home / "kubeconfig", home=home)
    assert done.returncode == 2
    assert "its exec plugin answered with neither" in done.stderr


def test_two_builds_have_the_same_bytes(tmp_path: Path) -> None:
    """Nobody could tell by an image's digest that it was built from a checkout."""
    made = [images(tmp_path / name)[0] for name in ("a", "b")]
    digests = {hashlib.sha256(each.read_bytes()).hexdigest() for each in made}
    assert len(digests) == 1
    sizes = {}
    with tarfile.open(made[0]) as image:
        for name in image.getnames():
            if name.endswith(".tar"):
                with tarfile.open(fileobj=image.extractfile(name)) as layer:
                    sizes[name] = sum(each.size for each in layer)
    assert sum(sizes.values()) < MOST, sizes


@pytest.fixture
async def accounts(control_plane: ControlPlane, cluster: HttpCluster, home: Path) -> AsyncIterator[Accounts]:
    """Accounts of the test, whose credentials nobody can read."""
    made = Accounts(control_plane, cluster, home)
    yield made
    await made.remove()


async def test_it_migrates(made: Made, home: Path, kind: Kind, accounts: Accounts) -> None:
    """The image's own entry point, as its user, read-only, under least rights, against a real API server."""
    await kind.apply(kind.manifest("v1alpha1", "w", spec={"size": 1}), "alice")
    await kind.change(kind.document(storage="v1beta1"))
    account = await accounts.granted(grants([Command.MIGRATE], Asked(crds=(kind.name,))), "image")
    account.kubeconfig.chmod(0o644)
    arguments = ("migrate", kind.name, "--settle=0", "--output=json", f"--kubeconfig={account.kubeconfig}")
    done = await asyncio.to_thread(made.run, *arguments, home=home)
    assert done.returncode == 0, done.stderr
    assert '"rewritten": 1' in done.stdout
    assert await kind.stored_versions() == ["v1beta1"]


def image(*arguments: str, path: str, checkout: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """What ``make image`` runs."""
    command = [sys.executable, checkout / IMAGE.relative_to(ROOT) / "build.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": path})


@pytest.mark.parametrize("base", ["", "python:3.13-slim", "python@sha256:12"])
def test_a_base_that_is_not_pinned_is_refused(base: str) -> None:
    """The same tag is another image tomorrow."""
    done = image(base, "restow", path="")
    assert done.returncode == 2
    assert "digest" in done.stderr


def test_without_an_engine_that_is_said(tmp_path: Path) -> None:
    """A client without its daemon is no engine; and the sentence says what was done instead."""
    pinned = f"python@sha256:{'0' * 64}"
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\ntest "$1" = build && echo "$@"\nexit 1\n')
    docker.chmod(0o755)
    checkout = tmp_path / "checkout"  # what dist/ of the developer's own holds must not decide what is tested
    shutil.copytree(IMAGE, checkout / IMAGE.relative_to(ROOT))
    done = image(pinned, "restow:1", path=str(tmp_path), checkout=checkout)
    assert done.returncode == 1
    assert "dist/ has to hold the one wheel that goes into the image, but holds none" in done.stderr
    (checkout / "dist").mkdir()
    (checkout / "dist" / "restow-1-py3-none-any.whl").touch()
    done = image(pinned, "restow:1", path=str(tmp_path), checkout=checkout)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no container engine runs here" in done.stderr
