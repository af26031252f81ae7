"""Control characters of manifests and servers never reach a terminal as they are, whatever prints them."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import json
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from rich.columns import Columns
from rich.console import Group
from rich.text import Text

from restow.cli.console import console as make_console
from restow.main import main
from tests.kube.recording import always, kubeconfig, serving
from tests.restow.commandline import RESTOW, Ran, restow
from tests.restow.offline import CRDS, REGISTRY, ROOT
from tests.restow.offline import GATEWAY as GATEWAY_TEXT

EVIL = "evil\x1b[31mRED\x1b]0;pwned\x07\x07\x9b2J\x7f\u202e\nrestow: all is well"
RAW = ("\x1b", "\x07", "\x7f", "\x9b", "\u202e")
NOW = "2026-11-21T00:00:00Z"
PROFILE = {
    "apiVersion": "core.gardener.cloud/v1beta2",
    "kind": "CloudProfile",
    "metadata": {"name": EVIL},
    "spec": {
        "kubernetes": {"versions": [{"version": "1.30.5"}, {"version": EVIL}]},
        "machineImages": [{"name": EVIL, "versions": [{"version": "1.0.0"}]}],
    },
}
CHILD = {
    "apiVersion": "core.gardener.cloud/v1beta2",
    "kind": "NamespacedCloudProfile",
    "metadata": {"name": EVIL, "namespace": EVIL},
    "spec": {"parent": {"kind": "CloudProfile", "name": EVIL}, "machineImages": [{"name": EVIL, "versions": []}]},
}
GATEWAY = {
    "apiVersion": "edge.example.dev/v1alpha1",
    "kind": "Gateway",
    "metadata": {"name": EVIL, "namespace": EVIL, "labels": {EVIL: EVIL}},
    "spec": {"host": EVIL, EVIL: {EVIL: [EVIL]}, "listeners": [{"title": EVIL, "timeoutSeconds": EVIL}]},
}
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": EVIL},
    "spec": {},
}
POLICY = {"upgradeSkew": 1, "servedAfterSuccessor": 1, "releases": [{"name": EVIL}], "versions": [{"name": EVIL}]}
REVIEW = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "ConversionReview",
    "request": {"uid": EVIL, "desiredAPIVersion": "edge.example.dev/v1", "objects": [GATEWAY]},
}
OUTPUTS = ("table", "json", "yaml")


def run(*arguments: str | Path) -> Ran:
    """Run restow in this process."""
    done = CliRunner().invoke(main, [str(each) for each in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Ran(done.exit_code, done.stdout_bytes.decode(), done.stderr_bytes.decode())


def profiles() -> list[list[str]]:
    """The subcommands of ``profile``, in every form."""
    both = ["-f", "profile.yaml", "-f", "child.yaml"]
    good = ["-f", "good.yaml"]
    return [
        *([*["validate", *both], "-o", output] for output in OUTPUTS),
        ["validate", "-f", "types.yaml"],
        ["evaluate", *both],
        *(["evaluate", *good, "-o", output] for output in OUTPUTS),
        ["timeline", *both],
        ["timeline", *good],
        *(["render", *both, "-o", output] for output in ("yaml", "json")),
        ["manage", "-f", "profile.yaml", "--config", "config.yaml"],
        *(["manage", *good, "--config", "config.yaml", "-o", output] for output in OUTPUTS),
        ["manage", *good, "--config", "config.yaml", "--apply"],
        ["manage", *good, "--config", "policy.yaml"],
        ["forced-target", "1.0.0", "--image", EVIL, "-f", "profile.yaml"],
        ["forced-target", EVIL, "-f", "profile.yaml"],
    ]


def others() -> list[list[str | Path]]:
    """Every other command that reads a file of the user's and needs no cluster for what it says of it."""
    gateway = ["-f", "gateway.yaml", "--to", "v1", *REGISTRY, *CRDS]
    return [
        *(["explain", *gateway, "-o", output] for output in OUTPUTS),
        ["explain", *gateway, "--why", EVIL],
        ["convert", *gateway, "--check"],
        ["convert", *gateway, "--diff"],
        ["convert", *gateway, "-o", "json"],
        ["roundtrip", "-f", "gateway.yaml", *REGISTRY, *CRDS],
        ["convert", "--review", "-f", "review.yaml", *REGISTRY, *CRDS],
        ["check", *REGISTRY, "--crd", "crd.yaml"],
        ["timeline", "-f", "policy.yaml"],
        ["timeline", "-f", "crd.yaml"],
        ["plan", "-f", "policy.yaml"],
        ["plan", "-f", "crd.yaml", "--kubeconfig", "nowhere"],
        ["operator", "--own-ca", "a/b", "--management", "policy.yaml"],
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with every kind of file, each as hostile as it can be."""
    good: Any = json.loads(json.dumps(PROFILE))
    good["spec"]["kubernetes"]["versions"][1]["version"] = "1.31.0"
    types: Any = json.loads(json.dumps(PROFILE))
    types["metadata"]["labels"] = {EVIL: 1}
    management = {"enabled": True}
    config = {
        "controllers": {
            "cloudProfile": {f"{what}VersionManagement": management for what in ("kubernetes", "machineImage")}
        }
    }
    files = {"profile": PROFILE, "good": good, "types": types, "child": CHILD, "gateway": GATEWAY, "crd": CRD}
    for name, document in {**files, "policy": POLICY, "review": REVIEW, "config": config}.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(document))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def assert_nothing_raw(ran: Ran) -> None:
    """Neither a control character, nor a line that a name began."""
    said = ran.out + ran.err
    assert not [each for each in RAW if each in said], (ran.out, ran.err)
    assert "restow: all is well" not in said.splitlines(), said


@pytest.mark.usefixtures("folder")
def test_no_command_prints_a_control_character_of_a_file() -> None:
    """A name that sets a window's title, or turns an error into another, is somebody else's hand at the terminal."""
    for arguments in profiles():
        ran = run("profile", *arguments, *(() if arguments[0] == "render" else ("--at", NOW)))
        assert ran.code in (0, 1, 2, 3), arguments
        assert ran.out + ran.err, arguments
        assert_nothing_raw(ran)
    for arguments in others():
        ran = run(*arguments)
        assert ran.out + ran.err, arguments
        assert_nothing_raw(ran)


@pytest.mark.usefixtures("folder")
def test_programs_get_the_names_as_they_are() -> None:
    """What is escaped for a reader must still be the same text for a parser."""
    spec = {"kubernetes": {"versions": [{"version": "1.30.5"}]}, "providerConfig": {"text": EVIL}}
    Path("named.yaml").write_text(yaml.safe_dump({**PROFILE, "metadata": {"name": "a"}, "spec": spec}))
    child = {"metadata": {"name": "b", "namespace": "c"}, "spec": {"parent": {"kind": "CloudProfile", "name": "a"}}}
    Path("project.yaml").write_text(yaml.safe_dump({**CHILD, **child}))
    for output in ("json", "yaml"):
        ran = run("profile", "render", "-f", "named.yaml", "-f", "project.yaml", "-o", output)
        told = json.loads(ran.out) if output == "json" else yaml.safe_load(ran.out)
        assert told["providerConfig"] == {"text": EVIL}, ran.err


async def test_what_a_server_says_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    """An admission webhook's refusal, or whatever stands in the way of the API server, chooses these words."""
    status = {"kind": "Status", "status": "Failure", "message": EVIL, "reason": EVIL, "code": 403}
    async with serving(always(403, status)) as server:
        config = kubeconfig(tmp_path / "kubeconfig", server.url)
        for command in ("plan", "status"):
            ran = await asyncio.to_thread(restow, command, "widgets.example.com", kubeconfig=config)
            assert "evil\\u001b[31mRED" in ran.err
            assert_nothing_raw(ran)


@pytest.mark.usefixtures("folder")
def test_a_terminal_never_gets_what_a_pipe_gets_unchanged(tmp_path: Path) -> None:
    """A converted manifest is the user's own text, comments and all: a file gets each byte, a terminal no escape."""
    manifest = tmp_path / "commented.yaml"
    text = GATEWAY_TEXT.replace("# keep", "# keep \u202e")
    manifest.write_text(text)
    command = [*RESTOW, "convert", "-f", str(manifest), "--to", "v1", *REGISTRY]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    piped = subprocess.run(command, capture_output=True, check=True, env=environment).stdout.decode()
    assert "# keep \u202e" in piped
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, env=environment) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # how Linux tells the end of a terminal
            while chunk := os.read(ours, 65536):
                shown += chunk
        os.close(ours)
    assert process.returncode == 0
    assert "# keep \\u202e" in shown.decode()
    assert "\u202e" not in shown.decode()


def test_live_views_and_tables_escape_too(capsys: pytest.CaptureFixture[str]) -> None:
    """A bar is drawn by a library, which passes control characters on as they are."""
    console = make_console()
    console.print(f"a {EVIL}", markup=False)
    console.print(Group(Text(EVIL), Columns([EVIL])))
    said = capsys.readouterr().out
    assert not [each for each in RAW if each in said]
    assert "evil\\u001b[31mRED\\u001b]0;pwned\\u009b2J\\u007f\\u202e" in said


def test_consoles_are_made_in_one_place() -> None:
    """A console of a command's own would print what it is given; a linter's rule watches over the other ways."""
    makers = [
        path.name
        for path in (ROOT / "restow").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Console"
    ]
    assert makers == []
