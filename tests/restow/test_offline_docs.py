"""docs/offline.md: its examples run, and print what the page says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.restow.offline import ROOT

PAGE = ROOT / "docs" / "offline.md"
BLOCK = re.compile(r"^```(yaml|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(text: str) -> Iterator[tuple[str, str]]:
    """Each command with what the page says that it prints."""
    for block in BLOCK.finditer(text):
        if block[1] == "console":
            for part in re.split(r"^\$ ", block[2], flags=re.MULTILINE)[1:]:
                command, _, said = part.partition("\n")
                yield command, said


def output(command: str, folder: Path) -> str:
    """Run a line as a shell would, and return all that a terminal would show, without trailing blanks."""
    restow = f'{sys.executable} -c "from restow.main import main; main()"'
    done = subprocess.run(
        re.sub(r"^restow ", lambda _: f"{restow} ", command),
        shell=True,
        cwd=folder,
        env=os.environ | {"HOME": "/nonexistent", "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    return "".join(line.rstrip() + "\n" for line in done.stdout.splitlines())


def test_the_examples_are_real(tmp_path: Path) -> None:
    """A page that promises other output than there is teaches what is not so."""
    text = PAGE.read_text()
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    (tmp_path / "shop.yaml").write_text(next(block[2] for block in BLOCK.finditer(text) if block[1] == "yaml"))
    for command, said in examples(text):
        told = output(command, tmp_path)
        assert re.sub(r'"durationSeconds": [0-9.]+', '"durationSeconds": 0.0', told) == said, command
