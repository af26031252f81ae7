"""The flags that the offline commands share: conversions and files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from restow.cli.exits import InputError
from restow.cli.files import Unreadable, read_text, sources_of
from restow.cli.printing import say
from restow.cli.registries import load_crds, load_graph
from restow.conversion import Graph
from restow.conversion.manifests import NotYaml, read
from restow.crds import Crd, CrdError

__all__ = [
    "Conversions",
    "conversions",
    "crds_of",
    "loaded",
    "manifests",
    "registry",
    "target",
]


_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Conversions:
    """An author's conversions, and the CRDs that were given with them."""

    graph: Graph
    crds: tuple[Crd, ...]


def conversions(function: _F) -> _F:
    """--registry and --crd, read back by ``loaded``."""
    for each in (
        click.option(
            "--crd",
            "crd_files",
            multiple=True,
            type=click.Path(exists=True, path_type=Path),
            metavar="FILE",
            help="Manifest, or folder of manifests, of the CRDs that a Registry is for; repeatable.",
        ),
        click.option("--registry", metavar="MODULE:ATTR", help="The Registry, or Graph, to convert with."),
    ):
        function = each(function)
    return function


def loaded(flags: dict[str, Any]) -> Conversions:
    """Load what ``conversions`` names; takes the flags that say so out of ``flags``.

    Raises:
        click.UsageError, InputError: there is no registry, or it or a CRD file cannot be used.
    """
    crds = crds_of(flags.pop("crd_files"))
    return Conversions(load_graph(registry(flags), crds), crds)


def registry(flags: dict[str, Any]) -> str:
    """Return what ``--registry`` names; takes it out of ``flags``.

    Raises:
        click.UsageError: the flag was not given.
    """
    named = flags.pop("registry")
    if named is None:
        msg = (
            "say what to convert with: --registry module:attribute, the Registry or Graph that your webhook serves "
            "(for instance --registry example.conversions:registry, from the folder that holds example/)"
        )
        raise click.UsageError(msg)
    assert isinstance(named, str)
    return named


def manifests(function: _F) -> _F:
    """-f and -R."""
    for each in (
        click.option("-R", "--recursive", is_flag=True, help="Folders with all folders in them."),
        click.option(
            "-f",
            "--filename",
            "files",
            multiple=True,
            type=click.Path(exists=True, allow_dash=True, path_type=Path),
            metavar="FILE",
            help="Manifest, folder of manifests (*.yaml, *.yml, *.json), or - for stdin; repeatable.",
        ),
    ):
        function = each(function)
    return function


def target(function: _F) -> _F:
    """--to."""
    return click.option(
        "--to",
        required=True,
        metavar="VERSION",
        help="The version to convert to: v1beta2 for every kind that has it, or group/v1beta2.",
    )(function)


def crds_of(paths: Iterable[Path]) -> tuple[Crd, ...]:
    """Return the CRDs of files, and of the manifests in folders and the folders in them.

    Raises:
        InputError: a file holds no CRD, a folder none at all, or one of them is malformed.
    """
    return tuple(crd for path in paths for crd in (_in_folder(path) if path.is_dir() else load_crds([path])))


def _in_folder(folder: Path) -> list[Crd]:
    found: list[Crd] = []
    for source in sources_of([folder], recursive=True):
        try:
            documents = read(read_text(source))
        except (NotYaml, Unreadable) as error:
            say(f"{source}: passed over, it is no manifest: {error}", style="yellow")
            continue
        try:
            found += [Crd.from_document(doc) for document in documents for doc in _crd_documents(document.data)]
        except CrdError as error:
            raise InputError(f"{source}: {error}") from error
    if not found:
        raise InputError(f"{folder} holds no CustomResourceDefinition")
    return found


def _crd_documents(document: Any) -> Iterator[Any]:
    if isinstance(document, dict):
        if document.get("kind") == "CustomResourceDefinition":
            yield document
        elif isinstance(items := document.get("items"), list):
            for item in items:
                yield from _crd_documents(item)
