"""What ``--registry module:attribute`` and ``--crd FILE`` name: an author's conversions, and the CRDs they are for."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from restow.conversion import DefinitionError, Graph, Registry
from restow.crds import Crd, CrdError
from restow.exits import InputError
from restow.offline.files import documents_of

__all__ = ["load_crds", "load_graph"]


def load_graph(spec: str, crds: Sequence[Crd] = ()) -> Graph:
    """Return the conversions that ``module:attribute`` names: a ``Registry``, frozen against the CRDs, or a ``Graph``.

    The working directory is importable. Without CRDs only the rules themselves are checked.

    Raises:
        click.UsageError: the text is no ``module:attribute``.
        InputError: the module cannot be imported, has no such attribute, it is neither, or it has defects (all told).
    """
    module_name, colon, attribute = spec.partition(":")
    if not colon or not module_name or not attribute:
        msg = f"--registry takes module:attribute (for instance example.conversions:registry), not {spec!r}"
        raise click.UsageError(msg)
    found = _attribute(_module(module_name), attribute, spec)
    if isinstance(found, Graph):
        return found
    if not isinstance(found, Registry):
        raise InputError(f"--registry {spec} is of the type {type(found).__name__}, neither a Registry nor a Graph")
    try:
        return found.freeze(crds)
    except DefinitionError as error:
        first, *defects = str(error).splitlines()
        raise InputError(f"--registry {spec} cannot be used, {first}", defects) from error


def load_crds(files: Iterable[Path]) -> tuple[Crd, ...]:
    """Return the CRDs of manifests: files with any number of documents and Lists; what is no CRD is passed over.

    Raises:
        InputError: a file cannot be read, holds no CRD, or a malformed one.
    """
    return tuple(crd for file in files for crd in _crds(file))


def _module(name: str) -> Any:
    # What `python -m` does: people stand in their repository and name their own modules.
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise InputError(f"--registry: there is no module {error.name} here or on PYTHONPATH") from error
        raise InputError(f"--registry: importing {name} failed: {_what(error)}") from error
    except Exception as error:
        raise InputError(f"--registry: importing {name} failed: {_what(error)}") from error


def _attribute(module: Any, path: str, spec: str) -> Any:
    found = module
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise InputError(f"--registry {spec}: {module.__name__} has no {path}") from None
    return found


def _what(error: Exception) -> str:
    """Say what an author's module raised, and where: the place nearest to the failure."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames and not isinstance(error, SyntaxError) else ""
    return f"{type(error).__name__}: {error}{where}"


def _crds(file: Path) -> list[Crd]:
    try:
        found = [Crd.from_document(document) for each in documents_of(file) for document in _crd_documents(each.data)]
    except CrdError as error:
        raise InputError(f"{file}: {error}") from error
    if not found:
        raise InputError(f"{file} holds no CustomResourceDefinition")
    return found


def _crd_documents(document: Any) -> Iterator[Any]:
    if not isinstance(document, dict):
        return
    if document.get("kind") == "CustomResourceDefinition":
        yield document
    elif isinstance(items := document.get("items"), list):
        for item in items:
            yield from _crd_documents(item)
