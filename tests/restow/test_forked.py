"""Processes that tests fork behave as those that people start."""

from __future__ import annotations

import asyncio
import signal
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from tests.restow.forked import Forked, start_unforked

BOTH = pytest.mark.parametrize("start", [Forked.start, start_unforked], ids=["forked", "unforked"])


@BOTH
async def test_streams_and_the_exit_code(start, tmp_path: Path) -> None:
    """A test would read another process's output, or miss a failure."""
    process = await start("convert", "-f", "absent.yaml", "--to", "v1", cwd=tmp_path, stdout=PIPE, stderr=PIPE)
    out, err = await process.communicate()
    assert (out, process.returncode) == (b"", 2)
    assert b"'absent.yaml' does not exist" in err
    assert await process.wait() == 2
    process = await start("version", stdout=PIPE)
    out, _err = await process.communicate()
    assert process.returncode == 0
    assert b"restow" in out


@BOTH
async def test_a_signal_ends_it(start) -> None:
    """A killed run would be taken for one that ended."""
    process = await start("convert", "--crd", "absent", stdout=PIPE, stderr=PIPE)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        process.send_signal(number)
    async with asyncio.timeout(30):
        assert await process.wait() == -signal.SIGKILL
    with pytest.raises(ProcessLookupError):
        process.kill()
    assert process.returncode == -signal.SIGKILL
