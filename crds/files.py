"""A reader of CustomResourceDefinitions in manifests: files, folders, texts.

    from restow import crds

    [mirrors] = crds.load("config/crd/mirrors.yaml")

A file may hold several documents, and lists as ``kubectl get crd -o yaml`` prints them. Objects of other kinds are
skipped. Scalars are read as kubectl reads them, so a date and a plain ``=`` are strings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from restow.crds.composites import XRD_GROUP, XRD_KIND, crd_of_composite
from restow.crds.crd import Crd, CrdError
from restow.crds.documents import NotYaml, load_objects

_SUFFIXES: Final = (".yaml", ".yml", ".json")
_KIND: Final = "CustomResourceDefinition"


def load(*paths: str | Path, skip: Callable[[str], None] | None = None, composites: bool = False) -> tuple[Crd, ...]:
    """Return the CRDs of files, and of the manifests in folders and their subfolders, in the order of the file names.

    ``skip`` receives a sentence for each file of a folder that is not YAML (a template, for instance); without ``skip``
    such a file raises. Files of a folder that hold no CRD are skipped. With ``composites``, Crossplane's
    CompositeResourceDefinitions count as CRDs.

    Raises:
        CrdError: a file or folder holds no CRD, a file is not YAML, or a CRD is malformed; with file and line.
        OSError: a file cannot be read.
    """
    return tuple(crd for path in paths for crd in _at(Path(path), skip, composites=composites))


def loads(text: str | bytes, name: str = "the text", *, composites: bool = False) -> tuple[Crd, ...]:
    """Return the CRDs of a text, as ``load`` does; messages call the text ``name``.

    Raises:
        CrdError: the text holds no CRD, is not YAML, or a CRD is malformed; with the line.
    """
    others: Counter[str] = Counter()
    try:
        found = tuple(_crds(text, name, others, composites=composites))
    except NotYaml as error:
        raise CrdError(f"{name} cannot be read as YAML (line {error.line}: {error.problem})") from error
    if not found:
        kinds = ", ".join(sorted(others))
        raise CrdError(f"{name} holds no {_KIND}{f', only {kinds}' if kinds else ''}")
    return found


def _at(path: Path, skip: Callable[[str], None] | None, *, composites: bool) -> Iterator[Crd]:
    if not path.is_dir():
        yield from loads(path.read_bytes(), str(path), composites=composites)
        return
    has_any = False
    for file in sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES and each.is_file()):
        try:
            crds = list(_crds(file.read_bytes(), str(file), Counter(), composites=composites))
        except NotYaml as error:
            problem = f"{file} cannot be read as YAML (line {error.line}: {error.problem})"
            if skip is None:
                raise CrdError(problem) from error
            skip(problem)
            continue
        has_any = has_any or bool(crds)
        yield from crds
    if not has_any:
        raise CrdError(f"{path} holds no {_KIND}")


def _crds(text: str | bytes, name: str, others: Counter[str], *, composites: bool) -> Iterator[Crd]:
    for line, document in load_objects(text):
        kind = document.get("kind") if isinstance(document, dict) else None
        is_composite = composites and kind == XRD_KIND and str(document.get("apiVersion")).startswith(f"{XRD_GROUP}/")
        if kind != _KIND and not is_composite:
            others.update([kind] if isinstance(kind, str) else [])
            continue
        try:
            yield crd_of_composite(document) if is_composite else Crd.from_document(document)
        except CrdError as error:
            raise CrdError(f"{name}:{line}: {error}") from error
