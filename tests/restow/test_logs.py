"""The log of every process: one format, whatever is logged."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import click
import pytest
from click.testing import CliRunner

from restow.cli import options
from restow.cli.logs import log_to_stderr
from restow.conversion.server.failures import RateLimitedLog
from restow.kube.clock import SYSTEM_CLOCK
from restow.main import COMMANDS
from tests.logs import logging_restored

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"

_log = logging.getLogger("restow.test-logs")


@contextmanager
def untouched() -> Iterator[None]:
    """The log of a process that has not set it up; afterwards as it was."""
    with logging_restored():
        logging.root.handlers[:] = []
        yield


@click.command
@options.logs
def command() -> None:
    """Log as processes do."""
    log_to_stderr()
    _log.debug("not asked for")
    _log.warning("watch of %s ended\nWARNING forged\x1b[31m", "widgets")
    RateLimitedLog(SYSTEM_CLOCK).add("conversion failed", crd="widgets.example.com", failed=2)
    logging.getLogger("other").info("of another package")
    try:
        raise ValueError("no")
    except ValueError:
        _log.exception("it failed")
    _log.info("run ended", extra={"migration": {"crd": "widgets.example.com", "remaining": 0}})


def logged(*arguments: str, **environment: str) -> list[str]:
    """What that command writes on stderr."""
    with untouched():
        ran = CliRunner().invoke(command, arguments, env=environment, catch_exceptions=False)
    assert ran.exit_code == 0, ran.output
    return ran.stderr.splitlines()


def test_text_has_time_and_level_and_stays_in_its_line() -> None:
    """Without a time nobody can tell what came first; with a raw line break an object's name forges a record."""
    watch, complaint, failed, *trace = logged()
    assert re.fullmatch(
        rf"{TIME} WARNING restow\.test-logs: watch of widgets ended\\u000aWARNING forged\\u001b\[31m", watch
    )
    assert complaint.endswith(': conversion failed crd="widgets.example.com" failed=2')
    assert re.fullmatch(rf"{TIME} ERROR restow\.test-logs: it failed", failed)
    assert trace[0].startswith("Traceback") and trace[-1] == "ValueError: no"


def test_json_is_an_object_a_line_with_stable_keys() -> None:
    """A collector drops a line that it cannot parse, and a traceback broken over twenty lines is twenty records."""
    watch, complaint, failed, ended = map(json.loads, logged(RESTOW_LOG_FORMAT="json", RESTOW_LOG_LEVEL="info"))
    assert list(watch) == ["time", "level", "logger", "message"]
    assert re.fullmatch(TIME, watch["time"])
    assert (watch["level"], watch["logger"]) == ("warning", "restow.test-logs")
    assert complaint["message"] == "conversion failed"
    assert complaint["details"] == {"crd": "widgets.example.com", "failed": 2}
    assert failed["exception"].endswith("ValueError: no")
    assert ended["migration"] == {"crd": "widgets.example.com", "remaining": 0}


@pytest.mark.parametrize(("level", "lines"), [("debug", {"debug", "warning", "error", "info"}), ("error", {"error"})])
def test_the_level_is_restows_own(level: str, lines: set[str]) -> None:
    """At debug other packages would write what they sent; at error a warning is noise that was asked to go."""
    found = list(map(json.loads, logged("--log-format=json", f"--log-level={level}", RESTOW_LOG_LEVEL="warning")))
    assert {each["level"] for each in found} == lines
    assert not any(each["logger"] == "other" for each in found)


def test_every_command_that_logs_takes_the_flags() -> None:
    """A Job whose arguments have a flag that one command lacks ends with a usage error."""
    without = {"rbac", "convert", "explain", "profile", "completion", "rules", "suggest", "version"}
    for name in COMMANDS.keys() - without:
        found = {option for each in import_module(f"restow.commands.{name}").command.params for option in each.opts}
        assert {"--log-level", "--log-format"} <= found, name


@pytest.mark.parametrize("time", ["first", "second"])
def test_the_log_of_a_command_ends_with_its_test(time: str) -> None:
    """A later test of the same process, which reads records of level INFO, would see none: it passes alone only."""
    assert logging.getLogger("restow").level == logging.NOTSET, time
    assert CliRunner().invoke(command, []).exit_code == 0
    assert logging.getLogger("restow").level == logging.WARNING


@pytest.mark.parametrize(
    ("arguments", "levels"),
    [
        (["-v", "0"], {"ERROR"}),
        (["-v", "1"], {"INFO", "WARNING", "ERROR"}),
        (["--v", "6"], {"DEBUG", "INFO", "WARNING", "ERROR"}),
        (["-v", "6", "--log-level", "error"], {"DEBUG", "INFO", "WARNING", "ERROR"}),
    ],
)
def test_kubectls_numbers_are_levels(arguments: list[str], levels: set[str]) -> None:
    """-v=6 is what people give kubectl to see requests; it is given to find a fault, so it wins over a variable."""
    lines = logged(*arguments, "--log-format", "json", RESTOW_LOG_LEVEL="error")
    ours = [each for each in map(json.loads, lines) if each["logger"] == "restow.test-logs"]
    assert {each["level"].upper() for each in ours} == levels
