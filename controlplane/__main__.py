"""``python -m restow.controlplane``: a control plane in the foreground, or only its binaries.

``up`` prints exactly one line on stdout when everything is ready, as JSON: ``kubeconfig``, ``server``, ``etcd``. Then
SIGTERM or SIGINT ends the command with status 0, and no process or file is left. ``binaries`` prints one JSON line
with the path of each binary. ``minors`` prints the available Kubernetes minors, one on each line. All other output
goes to stderr.

Exit codes: 0 done; 1 a step failed, or a server died; 2 usage; 128 + n interrupted by signal n before
ready.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator, Sequence

    from restow.controlplane.binaries import BinarySearch

DEFAULT_BINARIES = ("etcd", "kube-apiserver")
_OURS = b"restow-controlplane"  # the name of cluster and context in a kubeconfig of this package


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a subcommand and return the exit code."""
    options = _parser().parse_args(arguments)
    from restow.controlplane.errors import ControlPlaneError

    if options.command == "minors":
        from restow.controlplane.binaries.search import minors

        sys.stdout.write("".join(f"{minor}\n" for minor in minors()))
        return 0
    try:
        return asyncio.run(_up(options) if options.command == "up" else _binaries(options))
    except (ControlPlaneError, ModuleNotFoundError) as error:
        sys.stderr.write(f"restow.controlplane: {error}\n")
        return 1


async def _binaries(options: argparse.Namespace) -> int:
    from restow.controlplane.binaries import find_binaries

    async def find() -> None:
        paths = await find_binaries([*DEFAULT_BINARIES, *options.additional], _search(options))
        _print_line({name: str(path) for name, path in paths.items()})

    return await _interruptible(find(), asyncio.Event())


async def _up(options: argparse.Namespace) -> int:
    from restow.controlplane.plane import ControlPlane

    ready = asyncio.Event()

    async def serve() -> None:
        plane = ControlPlane(
            controller_manager=options.controller_manager,
            apiservers=options.apiservers,
            port=options.port,
            search=_search(options),
            feature_gates={name: value != "false" for name, value in options.feature_gates},
            runtime_config={name: value != "false" for name, value in options.runtime_config},
            apiserver_args=_by_name(options.apiserver_args),
            controller_manager_args=_by_name(options.controller_manager_args),
            log_directory=options.logs,
        )
        async with plane:
            with _copied(plane.kubeconfig, options.kubeconfig) as kubeconfig:
                _print_line({"kubeconfig": str(kubeconfig), "server": plane.server, "etcd": plane.etcd.url})
                ready.set()
                await plane.watch()

    return await _interruptible(serve(), ready)


def _search(options: argparse.Namespace) -> BinarySearch:
    from restow.controlplane.binaries import BinarySearch

    return BinarySearch.from_environment(kubernetes=options.kubernetes)


@contextmanager
def _copied(kubeconfig: Path, copy: Path | None) -> Iterator[Path]:
    """Write the kubeconfig to the file that the user named, and remove that file at the end."""
    if copy is None:
        yield kubeconfig
        return
    from restow.controlplane.users import write_private

    try:
        write_private(copy, kubeconfig.read_bytes())
        yield copy.absolute()
    finally:
        copy.unlink(missing_ok=True)


def _new_kubeconfig(text: str) -> Path:
    """Return the path, but refuse an existing file of another origin, which would be overwritten and removed."""
    path = Path(text)
    if path.exists() and not (path.is_file() and _OURS in path.read_bytes()):
        message = f"{path} exists and is no kubeconfig of this command; name another file"
        raise argparse.ArgumentTypeError(message)
    if not path.absolute().parent.is_dir():
        message = f"the folder of {path} does not exist"
        raise argparse.ArgumentTypeError(message)
    return path


async def _interruptible(work: Coroutine[None, None, None], ready: asyncio.Event) -> int:
    """Run the work until it ends or a signal cancels it; a second signal cancels its clean-up."""
    task = asyncio.create_task(work)
    received: list[int] = []

    def interrupt(number: int) -> None:
        received.append(number)
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, interrupt, number)
    await asyncio.wait([task])
    if task.cancelled():
        return 0 if ready.is_set() else 128 + received[0]
    task.result()
    return 0


def _print_line(document: dict[str, str]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def _by_name(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for name, value in pairs:
        result.setdefault(name, []).append(value)
    return result


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    return name.lstrip("-"), value if separator else "true"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m restow.controlplane", description="A local control plane.")
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start a control plane; stop it with SIGTERM or Ctrl-C")
    up.add_argument(
        "--kubeconfig", type=_new_kubeconfig, metavar="FILE", help="write the kubeconfig here; removed at the end"
    )
    up.add_argument("--port", type=int, help="the port of the first API server (default: a free one)")
    up.add_argument("--apiservers", type=int, default=1, metavar="N", help="API servers on the same etcd (default 1)")
    up.add_argument("--controller-manager", action="store_true", help="also run kube-controller-manager")
    up.add_argument("--logs", type=Path, metavar="FOLDER", help="write the processes' logs here and keep them")
    for flag, where, what in (
        ("--feature-gate", "feature_gates", "a feature gate"),
        ("--runtime-config", "runtime_config", "an API to serve"),
        ("--apiserver-arg", "apiserver_args", "a flag of kube-apiserver"),
        ("--controller-manager-arg", "controller_manager_args", "a flag of kube-controller-manager"),
    ):
        text = f"{what}, as often as needed"
        up.add_argument(flag, dest=where, action="append", type=_pair, default=[], metavar="NAME=VALUE", help=text)
    binaries = commands.add_parser("binaries", help="only see that the binaries are there; print where")
    binaries.add_argument(
        "--with",
        dest="additional",
        action="append",
        default=[],
        choices=("kubectl", "kube-controller-manager"),
        help="also this one, as often as needed",
    )
    commands.add_parser("minors", help="print the Kubernetes minors that can be built, oldest first")
    for command in (up, binaries):
        command.add_argument(
            "--kubernetes",
            metavar="VERSION",
            help="a minor (1.35) or a release; default: RESTOW_KUBERNETES, else the newest that restow is tested on",
        )
    return parser


if __name__ == "__main__":
    sys.exit(main())
