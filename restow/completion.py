"""What a shell offers while somebody types: names of CRDs and files, and the way by which kubectl asks.

Why it exists: click completes commands, flags and choices by itself; it cannot know a cluster. And kubectl completes a
plugin by running ``kubectl_complete-<plugin>`` with the plugin's words; it reads one candidate per line, a tab before
its description, and a last line with what the shell shall do besides, as the sum of cobra's directives.

Invariants: completing asks for names only, never for objects. A process of its own asks, so that nothing can outlast
the patience (a name server that is silent, a credential plugin that waits for a password), and nothing can be said:
it would be written into the line that is being typed. Whatever goes wrong, there are just no candidates.

``python -m restow.completion [--kubeconfig FILE] [--context NAME]`` is that process: it prints the names of the CRDs.
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
from click.shell_completion import CompletionItem, ShellComplete

__all__ = ["crds", "crds_or_files", "files", "kubectl", "kubectl_main"]

_PATIENCE: Final = 3.0  # seconds: whoever typed a tab is waiting
_PATIENCE_VARIABLE: Final = "RESTOW_COMPLETION_SECONDS"

_FILES: Final = 0  # cobra's ShellCompDirectiveDefault: the shell's own completion of files
_NO_FILES: Final = 4  # ShellCompDirectiveNoFileComp
_FOLDERS: Final = 16  # ShellCompDirectiveFilterDirs


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
    command = [sys.executable, "-P", "-m", "restow.completion", *flags]
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

    from restow.printing import print_text

    print_text("\n".join(asyncio.run(names())) + "\n")


class _Kubectl(ShellComplete):
    """The protocol between kubectl and a plugin: words as arguments, candidates on stdout."""

    name = "kubectl"

    def format_completion(self, item: CompletionItem[str]) -> str:
        help_text = " ".join(item.help.split()) if item.help else ""
        return f"{item.value}\t{help_text}" if help_text else item.value


def kubectl(words: Sequence[str]) -> str:
    """Answer kubectl: what may stand in place of the last of the plugin's words (empty where none was begun)."""
    from restow.main import main

    *before, incomplete = words or [""]
    shell = _Kubectl(main, {}, "restow", "")
    found = shell.get_completions(list(before), incomplete)
    plain = [shell.format_completion(item) for item in found if item.type == "plain"]
    directive = _NO_FILES
    if any(item.type == "file" for item in found):
        directive = _FILES
    elif any(item.type == "dir" for item in found):
        directive = _FOLDERS
    return "".join(f"{line}\n" for line in [*plain, f":{directive}"])


def kubectl_main() -> None:
    """Be ``kubectl_complete-restow``."""
    from restow.printing import print_text

    print_text(kubectl(sys.argv[1:]))


if __name__ == "__main__":
    _print_crd_names()
