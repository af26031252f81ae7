"""CRDs of files and folders; in folders, what is no CRD is passed over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from restow.conversion.manifests import NotYaml, read
from restow.crds import Crd, CrdError
from restow.exits import InputError
from restow.offline.files import Unreadable, read_text, sources_of
from restow.printing import say
from restow.registries import load_crds

__all__ = ["crds_of"]


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
