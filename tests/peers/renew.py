"""Renew the recordings: ``python -m tests.peers.renew`` runs the tests with the projects' own programs.

Recordings are written if all tests pass: what a failing test asks, to show the smallest example, is none of them.
"""

from __future__ import annotations

import lzma
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import pytest

from restow.crds.documents import load_documents
from tests.peers.building import Project, fingerprint, installed
from tests.peers.crdify.compared import CRDIFY
from tests.peers.gardener.asking import GARDENER
from tests.peers.gardener.draws import NOTED, drawn_by
from tests.peers.lines import go_lines
from tests.peers.peers import PEERS
from tests.peers.recordings import NOTES, Mode, Recording, file_of

__all__ = ["modules"]


def main() -> None:
    """Run from the command line."""
    os.environ["RESTOW_PEERS"] = Mode.RECORDING.value
    failed = pytest.main(["-q", "-W", "ignore::pytest.PytestAssertRewriteWarning", str(Path(__file__).parent)])
    if not failed:
        for project in dict.fromkeys([*(peer.project for peer in PEERS), GARDENER, CRDIFY]):
            _write(project)
    sys.exit(failed)


def _write(project: Project) -> None:
    crds = {
        file.name: msgspec.Raw(msgspec.json.encode(next(iter(load_documents(file.read_bytes())))))
        for file in sorted((installed(project) / "crds").iterdir())
    }
    found = Recording(
        modules(project),
        fingerprint(project),
        go_lines(project),
        crds,
        dict(sorted(NOTES[project.name].items())),
        {name: msgspec.Raw(msgspec.json.encode(draws)) for name, draws in NOTED.items()} if project is GARDENER else {},
        drawn_by() if project is GARDENER else "",
    )
    file = file_of(project)
    file.write_bytes(lzma.compress(msgspec.json.encode(found), preset=9 | lzma.PRESET_EXTREME))
    print(f"{file.name}: {len(found.answers)} answers, {file.stat().st_size / 1000:.0f} kB")


_PINNED: Final = re.compile(r"^(?:require )?\s*(\S+\.\S+/\S+) (v\S+)$", re.MULTILINE)


def modules(project: Project) -> Mapping[str, tuple[str, str]]:
    """Return version and checksum of the modules that a project's ``go.mod`` names, of none that only those need."""
    found = {}
    for pins in sorted(project.sources[project.name].rglob("go.mod")):
        sums = (pins.parent / "go.sum").read_text(encoding="utf-8").splitlines()
        for module, version in _PINNED.findall(pins.read_text(encoding="utf-8")):
            (checksum,) = (line.split()[2] for line in sums if line.startswith(f"{module} {version} "))
            found[module] = (version, checksum)
    return found


if __name__ == "__main__":
    main()
