"""Shell completion: names of CRDs and files, and the protocol of kubectl's plugins.

click completes commands, flags and choices, but does not know a cluster. kubectl completes a plugin by running
``kubectl_complete-<plugin>`` with the plugin's arguments. It reads one candidate per line, with a tab before the
description. The last line is the sum of cobra's directives for the shell.

Invariants: completion requests names only, never objects. A separate process sends the requests, so that completion
never takes longer than the timeout, even with a silent name server or a credential plugin that waits for a password.
Completion prints no messages, because they would appear in the line that the user types. After an error there are no
candidates.

``restow.cli.names`` is the separate process.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    import subprocess

_PATIENCE: Final = 3.0  # seconds that the user waits after pressing the tab key
_PATIENCE_VARIABLE: Final = "RESTOW_COMPLETION_SECONDS"
_FLAGS: Final = {
    "kubeconfig": "kubeconfig",
    "context": "context",
    "cluster": "cluster",
    "user": "user",
    "as": "as_user",
    "as-group": "as_groups",
    "as-uid": "as_uid",
    "as-user-extra": "as_attributes",
}
"""The flags that select the cluster and the user, each with the parameter that holds its value."""


def crds(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Complete the names of the cluster's CRDs, except those already on the command line."""
    given = context.params.get(parameter.name or "")
    taken = set(given) if isinstance(given, tuple) else set()
    flags = [f"--{flag}={value}" for flag, name in _FLAGS.items() for value in _values(context.params.get(name))]
    return [CompletionItem(name) for name in _crd_names(flags) if name.startswith(incomplete) and name not in taken]


def _values(given: Any) -> tuple[str, ...]:
    """Return the values of a flag as they were written, repeatable or not."""
    if isinstance(given, dict):
        return tuple(f"{key}={value}" for key, values in given.items() for value in values)
    return given if isinstance(given, tuple) else () if given is None else (str(given),)


def files(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Let the shell complete files, for an option that click reads as plain text."""
    return [CompletionItem(incomplete, type="file")]


def crds_or_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Complete names of CRDs, or files if no CRD matches."""
    return crds(context, parameter, incomplete) or files(context, parameter, incomplete)


def _crd_names(flags: Sequence[str]) -> list[str]:
    import subprocess

    command = [sys.executable, "-P", "-m", "restow.cli.names", *flags]
    try:
        patience = float(os.environ.get(_PATIENCE_VARIABLE, _PATIENCE))
        asked = subprocess.Popen(  # noqa: S603 - this module
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )
    except (OSError, ValueError):
        return []
    with asked:
        try:
            names, _ = asked.communicate(timeout=patience)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return []
        finally:
            _end(asked)
    return names.split() if asked.returncode == 0 else []


def _end(process: subprocess.Popen[str]) -> None:
    """Kill the process and, on platforms with process groups, its children, such as a waiting credential plugin."""
    if sys.platform == "win32":
        process.kill()
        return
    import signal

    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
