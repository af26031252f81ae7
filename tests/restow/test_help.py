"""What ``restow --help`` says, and that saying it costs nothing."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import entry_points, version
from pathlib import Path

import click
import pytest

from restow.main import COMMANDS, main
from tests.restow.commandline import RESTOW, restow

every_command = pytest.mark.parametrize("name", COMMANDS)


def test_help_lists_every_command_in_the_order_of_the_journey() -> None:
    """A command that is not listed is not found."""
    ran = restow("--help")
    assert (ran.code, ran.err) == (0, "")
    listed = ran.out.partition("Commands:\n")[2].splitlines()
    assert [line.split(maxsplit=1) for line in listed] == [[name, text] for name, text in COMMANDS.items()]
    assert main.list_commands(click.Context(main)) == list(COMMANDS)


@every_command
def test_a_command_says_of_itself_what_the_list_says_of_it(name: str) -> None:
    """The list is written by hand, so that it imports nothing; it must not drift from the commands."""
    command = import_module(f"restow.commands.{name}").command
    assert " ".join(command.help.split("\n\n")[0].split()) == COMMANDS[name]
    assert command.name == name


@every_command
def test_every_command_has_help(name: str) -> None:
    """By the short flag too, as with kubectl; and no option without a word on what it is for."""
    ran = restow(name, "-h")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"Usage: -c {name} ") or ran.out.startswith(f"Usage: restow {name} ")
    command = import_module(f"restow.commands.{name}").command
    assert all(each.help for each in command.params if isinstance(each, click.Option))


def test_every_module_of_commands_is_in_the_list() -> None:
    """A command that was written and not listed cannot be called."""
    folder = Path(str(import_module("restow.commands").__file__)).parent
    packages = {file.parent.name for file in folder.glob("*/__init__.py")}
    assert ({file.stem for file in folder.glob("*.py")} | packages) - {"__init__"} == COMMANDS.keys()


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["nonsense"]])
def test_help_imports_no_costly_library(arguments: list[str]) -> None:
    """Half a second and seventy megabytes to read the help would be felt with each tab completion."""
    script = (
        "import sys\n"
        "from restow.main import main\n"
        f"try:\n    main({arguments!r})\n"
        "except SystemExit:\n"
        "    costly = {'aiohttp', 'kubernetes_asyncio', 'rich', 'msgspec', 'yaml', 'restow.migrator', 'restow.kube'}\n"
        "    print('imported:', sorted(costly & sys.modules.keys()))\n"
    )
    ran = restow(command=(sys.executable, "-c", script))
    assert ran.out.splitlines()[-1] == "imported: []"


def test_the_version_is_the_packages() -> None:
    """Bug reports begin with it."""
    assert restow("--version").out == f"restow, version {version('restow')}\n"


def test_kubectl_restow_is_the_same_command() -> None:
    """kubectl finds its plugins by name only."""
    scripts = {each.name: each.value for each in entry_points(group="console_scripts", module="restow.main")}
    assert scripts == {"restow": "restow.main:main", "kubectl-restow": "restow.main:main"}
    installed = Path(sys.executable).with_name("kubectl-restow")
    if not installed.exists():
        pytest.fail(f"{installed} is not installed")
    for arguments in (("--help",), ("plan",), ("status", "--kubeconfig", "/nonexistent")):
        as_plugin = restow(*arguments, command=(str(installed),))
        plain = restow(*arguments, command=(str(Path(sys.executable).with_name("restow")),))
        assert as_plugin.code == plain.code
        assert as_plugin.out.replace("kubectl-restow", "restow") == plain.out
        assert as_plugin.err.replace("kubectl-restow", "restow") == plain.err


def test_an_unknown_command_is_a_usage_error() -> None:
    """Exit code 2, as with every wrong use."""
    ran = restow("migrat", command=RESTOW)
    assert ran.code == 2
    assert "No such command 'migrat'" in ran.err
    assert ran.out == ""


def test_without_a_command_the_help_is_shown() -> None:
    """Somebody who types the name alone wants to know what there is."""
    ran = restow()
    assert ran.code == 2
    assert "Commands:" in ran.out + ran.err
