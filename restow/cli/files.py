"""Manifests on disk: find the files, read them byte for byte, and write them atomically.

Commands read YAML only through ``documents_of``. It reads YAML as kubectl does and limits the expansion of aliases.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from restow.cli.exits import InputError
from restow.kube.resources import qualified_name

if TYPE_CHECKING:
    from restow.conversion.manifests import YamlDocument

_SUFFIXES = (".yaml", ".yml", ".json")
STDIN = Path("-")


class Unreadable(Exception):
    """A file cannot be read, or is not text; the message continues a sentence that starts with the file's name."""


@dataclass(frozen=True, slots=True)
class ManifestSource:
    """A manifest. ``named`` is true if the user named the file, false if it was found in a folder."""

    path: Path
    named: bool

    @property
    def is_stdin(self) -> bool:
        """Whether the source is standard input."""
        return self.path == STDIN

    def __str__(self) -> str:
        return "stdin" if self.is_stdin else str(self.path)


def sources_of(paths: Iterable[Path], *, recursive: bool) -> list[ManifestSource]:
    """Return the manifests at the paths, each once; those of a folder are sorted by name.

    Raises:
        click.UsageError: no path was given, or standard input was given twice.
        InputError: a folder contains no manifest.
    """
    given = list(paths)
    if not given:
        msg = "say which manifests: -f FILE, -f FOLDER, or -f - for stdin"
        raise click.UsageError(msg)
    if given.count(STDIN) > 1:
        msg = "-f - can be given once"
        raise click.UsageError(msg)
    found: dict[Path, ManifestSource] = {}
    for path in given:
        if path == STDIN or not path.is_dir():
            found[path] = ManifestSource(path, named=True)
            continue
        inside = sorted(each for each in (path.rglob("*") if recursive else path.glob("*")) if _is_manifest(each))
        if not inside:
            hint = "" if recursive else " (-R looks into the folders in it too)"
            raise InputError(f"{path} holds no manifest, no *.yaml, *.yml or *.json{hint}")
        for each in inside:
            found.setdefault(each, ManifestSource(each, named=False))
    return list(found.values())


def _is_manifest(path: Path) -> bool:
    return path.suffix in _SUFFIXES and path.is_file()


def read_text(source: ManifestSource) -> str:
    """Return the text of a manifest with its line breaks and byte order mark unchanged.

    Raises:
        Unreadable: the file cannot be read, or is not UTF-8 text.
    """
    try:
        content = sys.stdin.buffer.read() if source.is_stdin else source.path.read_bytes()
        return content.decode()
    except OSError as error:
        raise Unreadable(error.strerror or "it cannot be read") from error
    except UnicodeDecodeError as error:
        raise Unreadable("it is no UTF-8 text") from error


def documents_of(path: Path) -> list[YamlDocument]:
    """Return the documents of a file (``-`` is stdin) as data.

    Raises:
        InputError: the file cannot be read, is not YAML, or has values that JSON does not have.
    """
    from restow.conversion.manifests import read
    from restow.crds.documents import NotYaml

    source = ManifestSource(path, named=True)
    try:
        documents = read(read_text(source).removeprefix("\ufeff"))
    except Unreadable as error:
        raise InputError(f"{source} cannot be read as YAML ({error})") from error
    except NotYaml as error:
        raise InputError(f"{source} cannot be read as YAML (line {error.line}: {error.problem})") from error
    for document in documents:
        if document.problem:
            raise InputError(f"{source} cannot be read as YAML ({document.problem})")
    return documents


def write_text(path: Path, text: str) -> None:
    """Replace a file's content atomically: readers see the old text or the new one, never a part of it.

    The function follows links and keeps the file's mode. It keeps the owner where the system allows it.

    Raises:
        InputError: the file cannot be written.
    """
    import tempfile

    path = path.resolve()
    try:
        mode = path.stat()
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        draft = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            draft.chmod(mode.st_mode & 0o7777)
            if sys.platform != "win32":
                with contextlib.suppress(OSError):
                    os.chown(draft, mode.st_uid, mode.st_gid)
            draft.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                draft.unlink()
            raise
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class Found:
    """An object, with its place in the manifests."""

    source: ManifestSource
    line: int
    pointer: str
    value: dict[str, Any]

    @property
    def title(self) -> str:
        """The object's name in messages: kind, namespace and name."""
        metadata = self.value.get("metadata")
        names = metadata if isinstance(metadata, dict) else {}
        name = qualified_name(names.get("namespace"), names.get("name"))
        return f"{self.value.get('kind')} {name or 'without a name'}"

    @property
    def where(self) -> str:
        """The place's name in messages."""
        return f"{self.source}:{self.line}" + (f" ({self.pointer})" if self.pointer else "")


def found_in(sources: Iterable[ManifestSource]) -> Iterator[Found]:
    """Yield the objects of manifests, including the items of lists.

    Raises:
        InputError: a file cannot be read, is not YAML, or has values that JSON does not have.
    """
    from restow.conversion.manifests import objects_of, read
    from restow.crds.documents import NotYaml

    for source in sources:
        try:
            documents = read(read_text(source))
        except NotYaml as error:
            raise InputError(f"{source}:{error.line}: no YAML: {error.problem}") from error
        except Unreadable as error:
            raise InputError(f"{source}: {error}") from error
        for document in documents:
            if document.problem:
                raise InputError(f"{source}: the document has what JSON cannot say ({document.problem})")
            for pointer, value in objects_of(document.data):
                yield Found(source, document.line, pointer, value)
