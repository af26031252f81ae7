"""How many lines of code a project needs for its conversions, and how many its kinds need here."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path

from tests.peers.building import Project, installed
from tests.peers.peer import Peer
from tests.peers.recordings import Mode, mode, recording

__all__ = ["go_lines", "rule_lines"]


def go_lines(project: Project) -> tuple[int, int]:
    """Return the lines of a project's conversions, without comments and blank ones: written by hand, and generated."""
    if mode() is Mode.RECORDED:
        return recording(project).lines
    files = [*(installed(project) / "go").iterdir()]
    generated = [file for file in files if file.name.startswith("zz_generated")]
    return _count(file for file in files if file not in generated), _count(generated)


def rule_lines(peers: Iterable[Peer]) -> int:
    """Return the lines of the rules of some kinds of a project, without comments and blank ones.

    Functions count with all of their module's lines.
    """
    count = 0
    for peer in peers:
        count += _code(peer.document().splitlines(), "#")
        if peer.functions is not list:
            module = inspect.getmodule(peer.functions)
            assert module is not None
            count += _code(inspect.getsource(module).splitlines(), "#")
    return count


def _count(files: Iterable[Path]) -> int:
    return sum(_code(file.read_text(encoding="utf-8").splitlines(), "//") for file in files)


def _code(lines: list[str], comment: str) -> int:
    inside, count = False, 0
    for line in map(str.strip, lines):
        if line.startswith("/*"):
            inside = True
        elif not inside and line and not line.startswith(comment):
            count += 1
        inside = inside and "*/" not in line
    return count
