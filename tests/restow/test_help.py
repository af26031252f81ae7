"""What ``restow --help`` says, and that saying it costs nothing."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points, version
from pathlib import Path
from types import ModuleType

import click
import pytest

from restow.cli.shared import SharedOption
from restow.commands.migrate import EXITS
from restow.commands.references import KINDS
from restow.conversion.diagnosis import MOST_OBJECTS
from restow.conversion.reviews.conversion import _VERSIONS
from restow.conversion.stash.annotation import FORMAT as STASH
from restow.main import COMMANDS, main
from restow.manpages import examples, exit_codes
from restow.migrator.decide.proof import FORMAT as PROOF
from restow.migrator.model.report import MigrationResult
from restow.migrator.references.scan import CLUSTER_KINDS
from tests.kube.recording import kubeconfig
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


def _with_those_below(command: click.Command, *words: str) -> Iterator[tuple[str, click.Command]]:
    """A command and all below it, by the words that call it."""
    yield " ".join(words), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _with_those_below(below, *words, name)


ALL = dict(_with_those_below(main, "restow"))


@pytest.mark.parametrize("words", ALL)
def test_every_help_says_how_it_ends(words: str) -> None:
    """A Job, or a CI, branches on exit codes that nobody told; 0 and 2 there are of every command."""
    assert {0, 2} <= exit_codes(ALL[words]).keys() <= {0, 1, 2, 3, 4}
    assert (ALL[words].help or "").count("Exit codes: ") == 1
    assert "Exits with" not in (ALL[words].help or ""), "told twice"


@pytest.mark.parametrize("words", ALL)
def test_every_help_has_examples_that_are_understood(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An example is what people type first; one with a flag that is no more, or a choice that never was, is refused."""
    found = examples(ALL[words])
    assert found, "there is no example"
    for line in found:
        typed = shlex.split(line, comments=True)
        start = typed.index("restow") if "restow" in typed else typed.index("<(restow")
        called = [word.strip("<()") for word in typed[start:]]
        called = called[: next((place for place, word in enumerate(called) if word in ("|", ">")), None)]
        assert " ".join(called).startswith(words), f"{line} is an example of another command"
        command, rest = _called(called)
        for each in command.params:
            if isinstance(each.type, click.Path):  # the files of an example are not there
                monkeypatch.setattr(each.type, "exists", False)
        context = command.make_context(called[0], rest)
        assert context.command is command


def _called(words: list[str]) -> tuple[click.Command, list[str]]:
    """Which command a line calls, and with which words."""
    command: click.Command = main
    rest = words[1:]
    while isinstance(command, click.Group):
        below = command.get_command(click.Context(command), rest[0])
        assert below is not None, f"there is no command {rest[0]}"
        command, rest = below, rest[1:]
    return command, rest


def test_the_shared_options_are_shown_once() -> None:
    """Fourteen commands would each show the same twelve options, and hide their own among them."""
    shown = restow("options").out
    for name in COMMANDS:
        command = import_module(f"restow.commands.{name}").command
        shared = [each for each in command.params if isinstance(each, SharedOption)]
        flags = [flag for each in shared for flag in each.opts if flag.startswith("--")]
        said = restow(name, "--help").out
        assert len(shared) in (0, 12), name
        assert all(flag in shown for flag in flags)
        assert name == "options" or not any(f"{flag} " in said for flag in flags if flag != "--cluster"), name
        assert ("`restow options` shows" in said) is (bool(shared) and name != "options"), name


@pytest.mark.parametrize("width", [80, 50])
@pytest.mark.parametrize("words", ALL)
def test_help_is_folded_between_words(words: str, width: int) -> None:
    """A broken flag cannot be copied, and a line that is too wide is broken by the terminal at any place."""
    arguments = words.split()[1:]
    said = restow(*arguments, "--help", environment={"COLUMNS": str(width)}).out
    assert max(map(len, said.splitlines())) <= width
    wide = restow(*arguments, "--help", environment={"COLUMNS": "110"}).out
    assert {*said.split()} - {"\\"} == {*wide.split()} - {"\\"}


MODULES = 100
"""The most modules that help may load: click, and the names of the options."""


@pytest.mark.parametrize("words", ALL)
def test_help_loads_few_modules(words: str) -> None:
    """The help of a command took 500 modules and 23 times the start of Python; each module more is felt at each tab."""
    loaded = _loaded(*words.split()[1:], "--help")
    assert len(loaded) <= MODULES, sorted(loaded)
    assert not {name.partition(".")[0] for name in loaded} & {"asyncio", "aiohttp", "rich", "yaml", "msgspec"}


def test_the_status_of_one_crd_loads_what_it_asks_for(tmp_path: Path) -> None:
    """A short command is run in loops; the conversion toolkit and the terminal's library are most of its start."""
    config = kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:9", {"token": "t"})
    loaded = _loaded("status", "widgets.example.com", "--kubeconfig", str(config))
    assert len(loaded) <= 400, sorted(loaded)
    rooms = {".".join(name.split(".")[:2]) for name in loaded}
    assert "importlib.metadata" not in loaded, "the version stands in restow.__version__"
    assert not rooms & {"restow.conversion", "restow.cloudprofile", "rich.console", "kubernetes_asyncio.client"}


def _loaded(*arguments: str) -> set[str]:
    """The modules that a command loads in addition to those of a bare interpreter."""
    script = (
        "import sys\n"
        "bare = {*sys.modules}\n"
        "from restow.main import main\n"
        f"try:\n    main({[*arguments]!r})\n"
        "except SystemExit:\n"
        "    print('loaded:', *(sys.modules.keys() - bare))\n"
    )
    ran = restow(command=(sys.executable, "-c", script), environment={"RESTOW_PATIENCE": "0"})
    return {*ran.out.splitlines()[-1].split()[1:]}


def test_literals_that_spare_an_import_are_those_of_the_rooms() -> None:
    """Help writes them itself to spare an import; a command would refuse its own default if they differed."""
    assert {each.value for each in CLUSTER_KINDS} == {*KINDS}
    assert {each.value for each in MigrationResult} == EXITS.keys()
    (most,) = (each for each in import_module("restow.commands.doctor").command.params if each.name == "objects")
    assert most.default == MOST_OBJECTS


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


@pytest.mark.parametrize(
    ("package", "costly"),
    [
        ("restow.kube", ["aiohttp", "yaml", "msgspec"]),
        ("restow.crds", ["aiohttp", "yaml", "msgspec"]),
        ("restow.migrator", ["aiohttp", "yaml", "msgspec"]),
        ("restow.conversion", ["aiohttp", "asyncio", "ssl"]),
    ],
)
def test_a_package_imports_what_is_asked_for(package: str, costly: list[str]) -> None:
    """HTTP takes a second of a busy machine, and a conversion does none."""
    script = f"import sys, {package}\nprint([each for each in {costly!r} if each in sys.modules])"
    assert restow(command=(sys.executable, "-c", script)).out == "[]\n"


@pytest.mark.parametrize("package", ["restow.kube", "restow.crds", "restow.migrator"])
def test_every_name_of_a_package_is_there(package: str) -> None:
    """Only type checkers read the stub, so a name that is misspelt there would be missed when it is used."""
    found = import_module(package)
    assert found.__all__
    assert [name for name in found.__all__ if isinstance(getattr(found, name), ModuleType)] == []


@pytest.mark.parametrize("user", [{"token": "t"}, {"client-certificate-data": "", "username": "a", "password": "b"}])
def test_a_kubeconfig_without_a_plugin_needs_no_generated_client(user: dict[str, str], tmp_path: Path) -> None:
    """kubernetes-asyncio imports 860 modules, which take longer than all else that a short command does."""
    config = kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:9", user)
    script = (
        "import sys\n"
        "from restow.main import main\n"
        f"try:\n    main(['status', 'widgets.example.com', '--kubeconfig', {str(config)!r}])\n"
        "except SystemExit as ended:\n"
        "    print('imported:', ended.code, 'aiohttp' in sys.modules, 'kubernetes_asyncio' in sys.modules)\n"
    )
    assert restow(command=(sys.executable, "-c", script)).out.splitlines()[-1] == "imported: 4 True False"


@pytest.mark.parametrize("command", ["migrate", "plan", "ready"])
def test_a_named_crd_needs_no_conversion_toolkit(command: str) -> None:
    """The toolkit takes a third of a command's start, and only --registry, --rules and CRDs of files need it."""
    script = (
        "import sys\n"
        "from restow.main import main\n"
        f"try:\n    main([{command!r}, 'widgets.example.com', '--kubeconfig', '/nonexistent'])\n"
        "except SystemExit:\n"
        "    print('imported:', [name for name in sys.modules if name == 'restow.conversion'])\n"
    )
    ran = restow(command=(sys.executable, "-c", script))
    assert ran.out.splitlines()[-1] == "imported: []"


def test_the_version_is_the_packages() -> None:
    """Bug reports begin with it; it stands in the code, and in pyproject.toml for installers."""
    assert restow("--version").out == f"restow, version {version('restow')}\n"


def test_version_says_what_a_script_has_to_know() -> None:
    """A release that reads no stash of another one's format must not be rolled out in ignorance of it."""
    found = restow("version", "-o", "json").json
    assert (found["version"], found["python"]) == (version("restow"), platform.python_version())
    assert found["apiVersions"]["ConversionReview"] == list(_VERSIONS)
    assert found["apiVersions"]["CloudProfile"] == ["core.gardener.cloud/v1beta2", "core.gardener.cloud/v1beta1"]
    assert found["formats"] == {"stash": STASH, "proof": PROOF}
    rows = dict(restow("version").rows[1:])
    assert rows["restow"] == version("restow") and rows["format of the proof"] == str(PROOF)


def test_kubectl_restow_is_the_same_command() -> None:
    """kubectl finds its plugins by name only."""
    scripts = {each.name: each.value for each in entry_points(group="console_scripts", module="restow.scripts")}
    assert scripts["restow"] == scripts["kubectl-restow"] == "restow.scripts:restow"
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
