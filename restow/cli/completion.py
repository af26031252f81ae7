"""Shell completion: names of CRDs and files, and the protocol of kubectl's plugins.

click completes commands, flags and choices, but does not know a cluster. kubectl completes a plugin by running
``kubectl_complete-<plugin>`` with the plugin's words. It reads one candidate per line, with a tab before its
description, and a last line with the sum of cobra's directives for the shell.

Invariants: completion requests names only, never objects. A separate process sends the requests, so that nothing takes
longer than the patience (a silent name server, a credential plugin that waits for a password), and nothing is printed:
the output would appear in the line that is being typed. After any error there are no candidates.

``python -m restow.cli.completion [--kubeconfig FILE] [--context NAME]`` prints the names of the CRDs.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

import click
from click.shell_completion import CompletionItem

__all__ = ["crds", "crds_or_files", "files"]


_PATIENCE: Final = 3.0  # seconds: the user waits after the tab key
_PATIENCE_VARIABLE: Final = "RESTOW_COMPLETION_SECONDS"


def crds(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Complete the names of the cluster's CRDs, but for those that the line has already."""
    given = context.params.get(parameter.name or "")
    taken = set(given) if isinstance(given, tuple) else set()
    flags = [
        f"--{flag}={value}" for flag in ("kubeconfig", "context") if (value := context.params.get(flag)) is not None
    ]
    return [CompletionItem(name) for name in _crd_names(flags) if name.startswith(incomplete) and name not in taken]


def files(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Let the shell complete files, for an option whose value click takes as a plain text."""
    return [CompletionItem(incomplete, type="file")]


def crds_or_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Complete what may be either: the CRDs where some fit, else files."""
    return crds(context, parameter, incomplete) or files(context, parameter, incomplete)


def _crd_names(flags: Sequence[str]) -> list[str]:
    command = [sys.executable, "-P", "-m", "restow.cli.completion", *flags]
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
            with contextlib.suppress(ProcessLookupError):  # its children too: a credential plugin that waits, say
                os.killpg(asked.pid, signal.SIGKILL)
    return names.split() if asked.returncode == 0 else []


@click.command()
@click.option("--kubeconfig")
@click.option("--context")
def _print_crd_names(kubeconfig: str | None, context: str | None) -> None:
    import asyncio

    from restow.kube import connect
    from restow.kube.resources import CRDS

    async def names() -> list[str]:
        async with connect(kubeconfig, context) as cluster:
            page = (await cluster.list_page(CRDS, metadata_only=True)).json()
        return sorted(item["metadata"]["name"] for item in page["items"])

    from restow.cli.printing import print_text

    print_text("\n".join(asyncio.run(names())) + "\n")


if __name__ == "__main__":
    _print_crd_names()
