"""Runs the Python blocks of a page, one after the other, in one namespace; ``running.py`` starts it.

A block may await, as in ``python -m asyncio``. A request is one line of JSON: the page, the line of the block in it,
and its text. The answer is the traceback as JSON, empty if there is none.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import sys
import traceback
from contextlib import AsyncExitStack
from pathlib import Path
from types import ModuleType


def main(fd: int) -> None:
    """Answer requests until stdin ends."""
    page = ModuleType("page")
    sys.modules["page"] = page
    page.__dict__["until_the_end"] = stack = AsyncExitStack()  # for what a given opens
    with asyncio.Runner() as runner, os.fdopen(fd, "w") as answers:
        for line in sys.stdin:
            try:
                _run(json.loads(line), page, runner)
                failed = ""
            except BaseException:  # noqa: BLE001 - also SystemExit of a block is told, not obeyed
                failed = traceback.format_exc()
            sys.stdout.flush()
            answers.write(json.dumps(failed) + "\n")
            answers.flush()
        runner.run(stack.aclose())


def _run(request: dict[str, str], page: ModuleType, runner: asyncio.Runner) -> None:
    text = "\n" * (int(request["line"]) - 1) + request["text"]
    code = compile(text, request["page"], "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    result = eval(code, page.__dict__)
    if inspect.iscoroutine(result):
        runner.run(result)


if __name__ == "__main__":
    sys.path[0] = str(Path.cwd())  # as in a terminal
    main(int(sys.argv[1]))
