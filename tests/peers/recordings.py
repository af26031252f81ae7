"""What the projects' own programs said to the tests' questions: ``recordings/<project>.json.xz``.

The tests ask a recording, so they need no Go; ``make peers`` asks the programs and renews the recordings. A recording
names the modules that it was made with, by version and checksum, and the fingerprint of the program's sources and pins.
It fails a test if those have changed since, or if it does not have a question.

A recording has the CRDs of the same modules as well. All of them are under the Apache License 2.0, as restow is.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import subprocess
from collections.abc import Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from tests.peers.building import Project, fingerprint, installed

__all__ = ["NOTES", "Mode", "Program", "Recording", "file_of", "mode", "program", "recording"]

_FOLDER: Final = Path(__file__).parent / "recordings"
_RENEW: Final = "Run `make peers`, which asks the projects' code and renews the recordings."


class Mode(Enum):
    """Who answers: the recordings; the programs; or the programs, with notes of what they say."""

    RECORDED = "recorded"
    LIVE = "live"
    RECORDING = "recording"


def mode() -> Mode:
    """Return who answers in this process; the nightly run asks about new objects, which no recording has."""
    nightly = os.environ.get("RESTOW_HYPOTHESIS_PROFILE") == "nightly"
    return Mode(os.environ.get("RESTOW_PEERS", "live" if nightly else "recorded"))


class Recording(msgspec.Struct, frozen=True):
    """A recording.

    Attributes:
        modules: version and checksum of the modules that ``go.mod`` names.
        built: the fingerprint of the program.
        lines: of the project's conversions: written by hand, and generated.
        crds: the CRDs by file.
        answers: by the digest of the question.
        draws: what Hypothesis drew for a test, by the test's name.
        drawn_by: the digest of the modules that draw.
    """

    modules: Mapping[str, tuple[str, str]]
    built: str
    lines: tuple[int, int] = (0, 0)
    crds: Mapping[str, msgspec.Raw] = {}
    answers: Mapping[str, msgspec.Raw] = {}
    draws: Mapping[str, msgspec.Raw] = {}
    drawn_by: str = ""

    def answer(self, question: Mapping[str, Any]) -> Any:
        """Return what the program said.

        Raises:
            AssertionError: it was never asked this.
        """
        found = self.answers.get(digest(question))
        assert found is not None, f"No recording has this question, so what is drawn has changed. {_RENEW}"
        return json.loads(bytes(found))


class Program(Protocol):
    """What answers questions about a project."""

    def ask(self, question: Mapping[str, Any]) -> Any:
        """Return the answer."""

    def close(self) -> None:
        """End the program."""


class _Recorded:
    """The recording of a program."""

    def __init__(self, project: Project) -> None:
        self.ask = recording(project).answer

    def close(self) -> None:
        """Nothing runs."""


class _Running:
    """A running program: one answer for each line."""

    def __init__(self, project: Project) -> None:
        self._name = project.name
        program = installed(project) / "oracle"
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, question: Mapping[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"The program of {self._name} ended with status {self._process.wait()}."
        if mode() is Mode.RECORDING:
            NOTES.setdefault(self._name, {})[digest(question)] = msgspec.Raw(line.strip().encode())
        return json.loads(line)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


NOTES: Final[dict[str, dict[str, msgspec.Raw]]] = {}
"""What the programs of projects said while a recording is made, by the digest of the question."""


def program(project: Project) -> Program:
    """Return what answers for a project."""
    return _Recorded(project) if mode() is Mode.RECORDED else _Running(project)


def digest(question: Mapping[str, Any]) -> str:
    """Return what a recording knows a question by."""
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:16]


def file_of(project: Project) -> Path:
    """Return the file of a project's recording."""
    return _FOLDER / f"{project.name}.json.xz"


@cache
def recording(project: Project) -> Recording:
    """Return the recording of a project.

    Raises:
        AssertionError: the program has other sources or pins by now.
    """
    found = msgspec.json.decode(lzma.decompress(file_of(project).read_bytes()), type=Recording)
    assert found.built == fingerprint(project), (
        f"The recording of {project.name} was made with other sources or pins of its program. {_RENEW}"
    )
    return found
