"""Run contenders as separate processes, so that CPU time and peak memory can be measured for each."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from pathlib import Path

import msgspec

__all__ = ["RunFailedError", "Usage", "run"]

_LAUNCHER = Path(__file__).with_name("launcher.py")
_ROOT = Path(__file__).parent.parent.parent


class RunFailedError(Exception):
    """A contender did not do its work."""


class Usage(msgspec.Struct, frozen=True):
    """The resources that a process used from its start to its end, as the launcher writes them."""

    exit_code: int
    seconds: float
    cpu_seconds: float
    peak_kib: int


async def run(command: list[str]) -> tuple[bytes, Usage]:
    """Run a command in the checkout's root until it ends; return its stdout and the resources that it used.

    Raises:
        RunFailedError: the command's exit code is not 0.
    """
    with tempfile.NamedTemporaryFile(prefix="restow-bench-") as used:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(_LAUNCHER), used.name, *command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=_ROOT,
            start_new_session=True,
        )
        try:
            output, said = await process.communicate()
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        what = " ".join(command[:4])
        if process.returncode != 0:
            raise RunFailedError(f"{what} could not be run: {said[-2000:].decode(errors='replace')}")
        usage = msgspec.json.decode(used.read(), type=Usage)
    if usage.exit_code != 0:
        told = (said + output)[-4000:].decode(errors="replace")
        raise RunFailedError(f"{what} ended with {usage.exit_code}: {told}")
    return output, usage
