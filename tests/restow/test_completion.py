"""Completion: what a shell, and what kubectl, is offered; without a cluster nothing of it, and never a word of why."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from restow.controlplane.binaries import find_binaries
from restow.main import COMMANDS, main
from restow.main import kubectl as kubectl_completion
from tests.restow.commandline import Ran, restow

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
UNREACHABLE = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: PLUGIN, interactiveMode: Never}}}]
"""


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """A folder with what pyproject.toml has pip install, so that a test needs no new installation."""
    folder = tmp_path / "scripts"
    folder.mkdir()
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for name, target in pyproject["project"]["scripts"].items():
        module, _, function = target.partition(":")
        file = folder / name
        file.write_text(f"#!{sys.executable}\nfrom {module} import {function}\n{function}()\n", encoding="utf-8")
        file.chmod(0o755)
    return folder


def _environment(scripts: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    path = f"{scripts}{os.pathsep}{os.environ['PATH']}"
    return kept | {"PATH": path, "HOME": "/nonexistent", "RESTOW_COMPLETION_SECONDS": "60"} | more


def _run(command: list[str], environment: dict[str, str]) -> Ran:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=120, env=environment, stdin=subprocess.DEVNULL
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def _asked(scripts: Path, *words: str, **environment: str) -> list[str]:
    """kubectl gets the completions of the plugin's words, and no other output."""
    ran = _run([str(scripts / "kubectl_complete-restow"), *words], _environment(scripts, **environment))
    assert (ran.code, ran.err) == (0, "")
    return ran.out.splitlines()


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", "complete -o nosort -F _restow_completion restow"),
        ("zsh", "#compdef restow"),
        ("fish", "--command restow"),
    ],
)
def test_a_script_for_each_shell(shell: str, line: str) -> None:
    """What docs/reference/cli.md tells to put into a profile must be a script for that shell, and for that name."""
    ran = restow("completion", shell)
    assert (ran.code, ran.err) == (0, "")
    assert line in ran.out
    assert "_RESTOW_COMPLETE" in ran.out


def test_another_shell_is_refused() -> None:
    """The script of a wrong shell would be put into somebody's profile."""
    ran = restow("completion", "tcsh")
    assert ran.code == 2
    assert "is not one of 'bash', 'zsh', 'fish'" in ran.err
    assert ran.out == ""


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("restow mig", ["migrate"]),
        ("restow profile re", ["render"]),
        ("restow migrate --managed", ["--managed-fields"]),
        ("restow plan --managed-fields st", ["strip"]),
        ("restow completion ", ["bash", "zsh", "fish"]),
    ],
)
def test_bash_completes_what_was_begun(scripts: Path, typed: str, offered: list[str]) -> None:
    """The script would be loaded, and the tab key do nothing."""
    words = typed.split(" ")
    script = (
        "set -e\nsource <(restow completion bash)\n"
        f"COMP_WORDS=({' '.join(words[:-1])} '{words[-1]}')\nCOMP_CWORD={len(words) - 1}\n"
        '_restow_completion restow\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    bash = shutil.which("bash")
    assert bash is not None
    ran = _run([bash, "--norc", "-c", script], _environment(scripts))
    assert (ran.out.splitlines(), ran.err) == (offered, "")


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["mig"], [f"migrate\t{COMMANDS['migrate']}", ":4"]),
        (["plan", "--scope", "un"], ["unserved", ":4"]),
        (["profile", "render", "-f", ""], [":0"]),
        (["plan", "--kubeconfig", "ho"], [":0"]),
    ],
)
def test_kubectl_is_answered_in_its_protocol(scripts: Path, words: list[str], answer: list[str]) -> None:
    """kubectl would offer a description as a word, or the files of the folder where a flag is meant."""
    found = _asked(scripts, *words)
    assert found[-1] == answer[-1]
    assert [line.split("\t")[0] for line in found] == [line.split("\t")[0] for line in answer]
    assert all(line in found for line in answer if "\t" in line)


def test_all_commands_are_offered_with_what_they_are_for(scripts: Path) -> None:
    """Without a word begun; and without a word at all, as somebody may call it by hand."""
    offered = dict(line.split("\t") for line in _asked(scripts, "")[:-1])
    assert offered.keys() == COMMANDS.keys()
    assert _asked(scripts) == _asked(scripts, "")


def _file_options(command: click.Command, path: str) -> Iterator[tuple[str, click.Parameter]]:
    for each in command.params:
        if {"FILE", "FOLDER", "POLICY", "REPORT"} & set((each.metavar or "").split("|")):
            yield f"{path} {each.name}", each
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _file_options(below, f"{path} {name}")


FILE_OPTIONS = dict(_file_options(main, "restow"))


@pytest.mark.parametrize("name", FILE_OPTIONS)
def test_every_option_that_takes_a_file_completes_files(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shell would offer nothing where a path is to be typed."""
    monkeypatch.setenv("KUBECONFIG", "/nonexistent")
    option = FILE_OPTIONS[name]
    found = option.shell_complete(click.Context(click.Command("any")), "a")
    kind = "dir" if isinstance(option.type, click.Path) and not option.type.file_okay else "file"
    assert [(item.type, item.value) for item in found] == [(kind, "a")]


CRD_ARGUMENTS = [("plan",), ("migrate",), ("status",), ("ready",), ("report",), ("roundtrip",)]
CRD_OPTIONS = [("operator", "--migrate"), ("rbac",)]


def test_without_a_cluster_nothing_is_offered_or_said(scripts: Path, tmp_path: Path) -> None:
    """An error, or a credential plugin's question, would be written into the line that is being typed."""
    plugin = tmp_path / "plugin"
    plugin.write_text("#!/bin/sh\necho 'Password:' >&2; read secret; exit 1\n")
    plugin.chmod(0o755)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(UNREACHABLE.replace("PLUGIN", str(plugin)))
    assert _asked(scripts, "plan", "", KUBECONFIG=str(kubeconfig)) == [":4"]


def test_a_cluster_that_does_not_answer_is_not_waited_for(scripts: Path, tmp_path: Path) -> None:
    """The terminal would hang at a tab, here in a credential plugin that never ends."""
    plugin, begun = tmp_path / "plugin", tmp_path / "begun"
    plugin.write_text(f"#!/bin/sh\ntouch {begun}\nexec sleep 100000\n")
    plugin.chmod(0o755)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(UNREACHABLE.replace("PLUGIN", str(plugin)))
    assert _asked(scripts, "plan", "", KUBECONFIG=str(kubeconfig), RESTOW_COMPLETION_SECONDS="5") == [":4"]


@pytest.fixture(scope="module")
def kubectl(kubeconfig: Path) -> Path:
    """Real kubectl, of the API server's release."""
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        return runner.run(find_binaries(("kubectl",)))["kubectl"]


@pytest.fixture(scope="module")
def two_crds(kubeconfig: Path, kubectl: Path) -> Iterator[list[str]]:
    """Two CRDs on the API server, by name."""
    documents = "---\n".join(map(_crd, ("flasks", "flutes")))
    command = [str(kubectl), "--kubeconfig", str(kubeconfig)]
    subprocess.run([*command, "apply", "-f", "-"], input=documents, text=True, check=True, capture_output=True)
    yield ["flasks.completion.example.com", "flutes.completion.example.com"]
    subprocess.run([*command, "delete", "-f", "-"], input=documents, text=True, check=True, capture_output=True)


@pytest.mark.apiserver
@pytest.mark.parametrize("words", CRD_ARGUMENTS + CRD_OPTIONS)
def test_crds_are_offered_by_name(
    kubeconfig: Path, two_crds: list[str], words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names are long: whoever has to type one copies it from another command."""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    monkeypatch.setenv("RESTOW_COMPLETION_SECONDS", "60")
    assert kubectl_completion([*words, "fl"]).splitlines() == [*two_crds, ":4"]


@pytest.mark.apiserver
def test_a_crd_that_was_typed_is_not_offered_again(scripts: Path, kubeconfig: Path, two_crds: list[str]) -> None:
    """And the cluster that the line names is the one that is asked."""
    words = ("migrate", "--kubeconfig", str(kubeconfig), two_crds[0], "fl")
    assert _asked(scripts, *words) == [two_crds[1], ":4"]


@pytest.mark.apiserver
@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["mig"], [f"migrate\t{COMMANDS['migrate']}", ":4"]),
        (["migrate", "fl"], ["CRDS", ":4"]),
        (["migrate", "--engine", "n"], ["native", ":4"]),
        (["convert", "-f", ""], [":0"]),
    ],
)
def test_kubectl_itself_asks_for_it(
    scripts: Path, kubeconfig: Path, kubectl: Path, two_crds: list[str], words: list[str], answer: list[str]
) -> None:
    """``kubectl restow mig<TAB>``: kubectl finds the plugin and its completion by their names on PATH only."""
    environment = _environment(scripts, KUBECONFIG=str(kubeconfig))
    ran = _run([str(kubectl), "__complete", "restow", *words], environment)
    assert ran.code == 0
    assert ran.out.splitlines() == [line for each in answer for line in (two_crds if each == "CRDS" else [each])]


def _crd(plural: str) -> str:
    return (
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
        f"metadata: {{name: {plural}.completion.example.com}}\n"
        "spec:\n  group: completion.example.com\n  scope: Namespaced\n"
        f"  names: {{plural: {plural}, singular: {plural[:-1]}, kind: {plural[:-1].title()}}}\n"
        "  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n"
    )
