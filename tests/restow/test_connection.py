"""The flags by which every command finds its cluster, and the short flags as kubectl writes them."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import click
import pytest
from click.testing import CliRunner

from restow.cli import options
from restow.cli.connection import ClusterConnection
from restow.cli.printing import has_colours
from restow.kube import Impersonation
from restow.main import COMMANDS, main, separated
from tests.restow.commandline import restow

FLAGS = {
    *("kubeconfig", "context", "cluster", "user", "request_timeout", "verbosity"),
    *("as_user", "as_groups", "as_uid", "as_attributes"),
}
OFFLINE = {"timeline", "suggest", "convert", "explain", "rules", "rbac", "profile", "completion"}


def given(*arguments: str) -> tuple[int, Any, str]:
    """What a command gets of these flags."""
    found: list[ClusterConnection] = []

    @click.command
    @options.connection
    def command(connection: ClusterConnection) -> None:
        found.append(connection)

    ran = CliRunner().invoke(command, arguments)
    return ran.exit_code, found[0] if found else None, ran.output


def test_every_command_that_talks_to_a_cluster_has_every_flag() -> None:
    """A flag that one command lacks is found by the script that needs it there."""
    for name in COMMANDS:
        flags = {each.name for each in import_module(f"restow.commands.{name}").command.params}
        assert flags >= FLAGS or (name in OFFLINE and "kubeconfig" not in flags) or name == "timeline", name
        if "kubeconfig" in flags:
            assert flags >= FLAGS, name


def test_the_flags_become_one_connection() -> None:
    """Whoever opens the client must get every flag, or a run goes to another cluster or as another user."""
    code, found, _ = given(
        *("--kubeconfig", "f", "--context", "c", "--cluster", "k", "--user", "u"),
        *("--as", "jane", "--as-group", "a", "--as-group", "b", "--as-uid", "7", "--request-timeout", "2s"),
        *("--as-user-extra", "scope=read", "--as-user-extra", "scope=a=b", "--as-user-extra", "x="),
    )
    whom = Impersonation("jane", "7", ("a", "b"), {"scope": ("read", "a=b"), "x": ("",)})
    assert (code, found) == (0, ClusterConnection("f", "c", "k", "u", whom, 2.0))


@pytest.mark.parametrize("text", ["scope", "=read", ""])
def test_an_attribute_without_a_key_or_a_value_is_refused(text: str) -> None:
    """A header without a name would fail every request, and a key without a value would give no attribute at all."""
    code, _, said = given("--as", "jane", "--as-user-extra", text)
    assert code == 2
    assert "KEY=VALUE" in said


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1s", 1.0), ("2m", 120.0), ("3h", 10800.0), ("1m30s", 90.0), ("500ms", 0.5), ("1.5s", 1.5), ("7", 7.0)],
)
def test_a_length_of_time_is_written_as_in_go(text: str, seconds: float) -> None:
    """The flag is kubectl's, so its values are too."""
    assert given("--request-timeout", text)[1].request_timeout == seconds


def test_no_limit_is_zero() -> None:
    """kubectl's 0 means no limit; as a number of seconds it would fail every request."""
    assert math.isinf(given("--request-timeout", "0")[1].request_timeout)


@pytest.mark.parametrize("text", ["soon", "1 s", "-1s", "s", "1d", ""])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    """A unit that is not known would else be read as another one."""
    code, _, said = given("--request-timeout", text)
    assert code == 2
    assert "is not a duration" in said


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["-o=json", "-v=6"], ["-o", "json", "-v", "6"]),
        (["-l=app=web"], ["-l", "app=web"]),
        (["--output=json", "name"], ["--output=json", "name"]),
        (["--", "-o=json"], ["--", "-o=json"]),
        (["-o="], ["-o", ""]),
    ],
)
def test_short_flags_take_an_equals_sign_as_kubectls_do(arguments: list[str], found: list[str]) -> None:
    """People write kubectl -o=json and -v=6 by habit."""
    assert separated(arguments) == found


def test_a_short_flag_with_an_equals_sign_works() -> None:
    """The rewriting must reach the command."""
    assert restow("version", "--client", "-o=json").json["version"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("migarte",), "No such command 'migarte': did you mean migrate?"),
        (("zzz",), "No such command 'zzz': restow --help lists them"),
        (("status", "--kubeconifg", "x"), "Did you mean one of: '--kubeconfig', '--kubeconfig-dir'?"),
    ],
)
def test_a_mistyped_command_or_flag_is_answered_with_the_nearest(arguments: tuple[str, ...], said: str) -> None:
    """The list of all commands is long; the one that was meant is one word."""
    ran = CliRunner().invoke(main, arguments)
    assert ran.exit_code == 2
    assert said in ran.output


@pytest.mark.parametrize(
    ("environment", "on_terminal", "in_pipe"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"CLICOLOR_FORCE": "1"}, True, True),
        ({"CLICOLOR_FORCE": "0"}, True, False),
        ({"CLICOLOR": "0"}, False, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
        ({"CLICOLOR": "0", "CLICOLOR_FORCE": "1"}, True, True),
    ],
)
def test_colours_follow_the_conventions(environment: dict[str, str], on_terminal: bool, in_pipe: bool) -> None:
    """Logs of CI want colours, some people want none, and files never want any unasked."""
    assert has_colours(environment, terminal=True) is on_terminal
    assert has_colours(environment, terminal=False) is in_pipe
