"""A Dockerfile's steps without a container engine: each RUN and COPY as it stands, with the image's folders elsewhere.

What an engine adds (layers, another root) does not matter to these steps; the paths that they name do, and are moved
below one folder. The base image is this machine's Python with a ``pip``.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Instruction", "Stage", "build", "instructions", "stages"]

_MOVED = re.compile(r"(?<![\w/])/(build|opt)\b")
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")


@dataclass(frozen=True)
class Instruction:
    """One instruction: its word and the rest of it, lines joined."""

    word: str
    rest: str

    @property
    def form(self) -> list[str] | None:
        """The arguments of the exec form; None where it is for a shell."""
        return list(json.loads(self.rest)) if self.rest.startswith("[") else None


@dataclass
class Stage:
    """A FROM and what follows it."""

    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def of(self, word: str) -> list[Instruction]:
        """The instructions with a word."""
        return [each for each in self.instructions if each.word == word]


def instructions(text: str) -> Iterator[Instruction]:
    """Read a Dockerfile."""
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    for joined in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        word, _, rest = joined.strip().partition(" ")
        yield Instruction(word.upper(), rest.strip())


def stages(text: str) -> list[Stage]:
    """The stages of a Dockerfile; an ARG before the first belongs to none."""
    found: list[Stage] = []
    for each in instructions(text):
        if each.word == "FROM":
            base, *named = each.rest.split()
            found.append(Stage(base, named[-1] if named else ""))
        elif found:
            found[-1].instructions.append(each)
    return found


def build(text: str, context: Path, folder: Path, python: Path) -> tuple[list[str], dict[str, str]]:
    """Do all steps into a folder; return the last stage's entry point and environment, as they hold there."""
    base = _base(folder / "base", python)
    entry: list[str] = []
    environment: dict[str, str] = {}
    for stage in stages(text):
        variables: dict[str, str] = {}
        environment = {"PATH": f"{base}:{os.environ['PATH']}", "HOME": str(folder)} | _registry()
        environment["PYTHONPATH"] = str(folder / "base" / "pip")
        here = folder
        for each in stage.instructions:
            said = _expand(each.rest, variables | environment)
            match each.word:
                case "ARG":
                    name, _, value = each.rest.partition("=")
                    variables[name] = value
                case "ENV":
                    for name, value in _settings(each.rest, environment):
                        if name != "PIP_NO_CACHE_DIR":  # keeps layers small; here it would only cost downloads
                            environment[name] = _moved(value, folder)
                case "WORKDIR":
                    here = Path(_moved(said, folder)) if said != "/" else folder
                    here.mkdir(parents=True, exist_ok=True)
                case "COPY":
                    _copy(said, context, here, folder)
                case "RUN":
                    command = [*_moved_all(each.form, folder)] if each.form else ["/bin/sh", "-c", _moved(said, folder)]
                    done = subprocess.run(
                        command, cwd=here, env=environment, capture_output=True, text=True, check=False
                    )
                    assert done.returncode == 0, f"{each}\n{done.stdout}{done.stderr}"
                case "ENTRYPOINT":
                    entry = each.form or ["/bin/sh", "-c", said]
                case "LABEL" | "USER" | "EXPOSE":
                    pass
                case _:
                    raise AssertionError(f"{each.word} is not known to this test: teach it")
    environment.pop("PYTHONPATH")
    return entry, environment


def _base(folder: Path, python: Path) -> Path:
    """A folder with ``python`` in it, whose pip is the one that runs this test's environment."""
    import pip

    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").write_text(f'#!/bin/sh\nexec {shlex.quote(str(python))} "$@"\n')
    (folder / "bin" / "python").chmod(0o755)
    shutil.copytree(Path(pip.__file__).parent, folder / "pip" / "pip")
    return folder / "bin"


def _registry() -> dict[str, str]:
    """What pip needs to know of this machine's registry, proxies and certificates."""
    names = ("PIP_", "HTTP_", "HTTPS_", "NO_PROXY", "SSL_", "REQUESTS_", "http", "https", "no_proxy")
    found = {name: value for name, value in os.environ.items() if name.startswith(names)}
    file = Path(os.environ.get("PIP_CONFIG_FILE", Path.home() / ".config" / "pip" / "pip.conf"))
    cache = {"PIP_CACHE_DIR": str(Path.home() / ".cache" / "pip")}
    return cache | found | ({"PIP_CONFIG_FILE": str(file)} if file.exists() else {})


def _settings(rest: str, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for each in shlex.split(rest):
        name, _, value = each.partition("=")
        yield name, _expand(value, environment)


def _expand(text: str, variables: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda found: variables.get(found[1], found[0]), text)


def _moved(text: str, folder: Path) -> str:
    return _MOVED.sub(lambda found: f"{folder}/{found[1]}", text)


def _moved_all(arguments: list[str], folder: Path) -> Iterator[str]:
    return (_moved(each, folder) for each in arguments)


def _copy(said: str, context: Path, here: Path, folder: Path) -> None:
    """Copy from the context; what comes from another stage is in the same folder already."""
    words = said.split()
    if words[0].startswith("--from="):
        assert words[1] == words[2], "another place than in the stage before: teach this test"
        assert Path(_moved(words[1], folder)).exists()
        return
    source, target = context / words[0], here / words[1]
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copy(source, target)


def interpreter(user: int | None) -> Path:
    """A Python of this machine that a user can run; raises AssertionError where there is none."""
    for each in (Path(getattr(sys, "_base_executable", sys.executable)), Path("/usr/bin/python3")):
        try:
            subprocess.run([each, "-c", "import sys; assert sys.version_info >= (3, 11)"], user=user, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return each
    raise AssertionError("no Python here can be run by another user: install one from the distribution")
