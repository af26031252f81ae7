"""Shell completion: names of CRDs and files, and the protocol of kubectl's plugins.

click completes commands, flags and choices, but does not know a cluster. kubectl completes a plugin by running
``kubectl_complete-<plugin>`` with the plugin's words. It reads one candidate per line, with a tab before its
description, and a last line with the sum of cobra's directives for the shell.

Invariants: completion requests names only, never objects. A separate process sends the requests, so that nothing takes
longer than the patience (a silent name server, a credential plugin that waits for a password), and nothing is printed:
the output would appear in the line that is being typed. After any error there are no candidates.

``restow.cli.names`` is the separate process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

__all__ = ["crds", "crds_or_files", "files"]


_PATIENCE: Final = 3.0  # seconds: the user waits after the tab key
_PATIENCE_VARIABLE: Final = "RESTOW_COMPLETION_SECONDS"
_FLAGS: Final = {
    "kubeconfig": "kubeconfig",
    "context": "context",
    "cluster": "cluster",
    "user": "user",
    "as": "as_user",
    "as-group": "as_groups",
    "as-uid": "as_uid",
}
"""Flags of the line that decide about the cluster and the user, and the parameters that have their values."""


def crds(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Complete the names of the cluster's CRDs, but for those that the line has already."""
    given = context.params.get(parameter.name or "")
    taken = set(given) if isinstance(given, tuple) else set()
    flags = [f"--{flag}={value}" for flag, name in _FLAGS.items() for value in _values(context.params.get(name))]
    return [CompletionItem(name) for name in _crd_names(flags) if name.startswith(incomplete) and name not in taken]


def _values(given: Any) -> tuple[str, ...]:
    """Return the values of a flag, which may be repeatable."""
    return given if isinstance(given, tuple) else () if given is None else (str(given),)


def files(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Let the shell complete files, for an option whose value click takes as a plain text."""
    return [CompletionItem(incomplete, type="file")]


def crds_or_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Complete what may be either: the CRDs where some fit, else files."""
    return crds(context, parameter, incomplete) or files(context, parameter, incomplete)


def _crd_names(flags: Sequence[str]) -> list[str]:
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
    """Kill the process, and where the platform has process groups its children too (a credential plugin that waits)."""
    if sys.platform == "win32":
        process.kill()
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
