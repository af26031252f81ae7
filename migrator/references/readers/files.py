"""Find manifests, charts and kustomizations in files that name a version.

In YAML and JSON the module finds objects, their typed references and their ownerReferences by structure. It searches
strings in them (patches, ConfigMaps with manifests) and files that are not YAML (Helm templates) by line for an
``apiVersion`` and a ``kind`` of one document, and marks these references as guesses. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from restow.crds.documents import NotYaml, load_objects
from restow.kube.resources import qualified_name
from restow.migrator.references.model import Effect, Reference, ReferenceKind
from restow.migrator.references.readers.helm import split_manifest
from restow.migrator.references.readers.ownerreferences import Owners
from restow.migrator.references.readers.typed import object_name, pointer_of, typed_pairs

__all__ = ["file_references"]

_MANIFEST: Final = Effect(
    unserved="Applying the manifest fails (no matches for kind).",
    removed="Applying the manifest fails (no matches for kind).",
    advice="convert it with restow convert, which keeps comments and order",
)
_TYPED: Final = Effect(
    unserved="Once it is applied, whoever follows the reference gets no answer (404, no matches for kind).",
    removed="Once it is applied, whoever follows the reference gets no answer (404, no matches for kind).",
    advice="write another version",
)
_TARGET: Final = Effect(
    unserved="The patch finds its target as long as the manifest is at this version as well.",
    removed="The patch finds its target as long as the manifest is at this version as well.",
    advice="change it together with the manifest, its paths too",
)
_TEXT: Final = Effect(
    unserved="If this becomes a manifest, applying it fails (no matches for kind).",
    removed="If this becomes a manifest, applying it fails (no matches for kind).",
    advice="look at it, and convert it by hand",
)

_API_VERSION: Final = re.compile(r"""^[\s\-"']*apiVersion["']?\s*:\s*["']?([^\s"'#,}]+)""")
_KIND: Final = re.compile(r"""^[\s\-"']*kind["']?\s*:\s*["']?([^\s"'#,}]+)""")


def file_references(name: str, text: str, owners: Owners) -> Iterator[Reference]:
    """Yield the references in one file; ``name`` is the displayed name of the file."""
    if not any(of.version in text and kind in text for (_, kind), of in owners.items()):
        return
    try:
        objects = list(load_objects(text))
    except NotYaml:
        yield from _guesses(name, text, owners, "")
        return
    for line, obj in objects:
        if isinstance(obj, dict):
            yield from _of_object(name, line, obj, owners)


def _of_object(file: str, line: int, obj: dict[str, Any], owners: Owners) -> Iterator[Reference]:
    namespace, name = object_name(obj)
    place = f"line {line}"
    for steps, pair in typed_pairs(obj):
        if (of := owners.get((pair["apiVersion"], pair["kind"]))) is None:
            continue
        where = f"{place}, {pointer_of(steps)}" if steps else place
        what = f"{of.kind} {qualified_name(namespace, name)}" if not steps else "a typed reference"
        if steps[:2] == ("metadata", "ownerReferences"):
            what = "an ownerReference"
        effect = _TYPED if steps else _MANIFEST
        yield Reference(ReferenceKind.FILES, of, file, namespace, name, where, what, effect)
    for steps, target in _selectors(obj):
        for of in set(owners.values()):
            if (target.get("group"), target.get("version"), target.get("kind")) == (of.group, of.version, of.kind):
                where = f"{place}, {pointer_of(steps)}"
                what = "what a patch or a rule selects"
                yield Reference(ReferenceKind.FILES, of, file, namespace, name, where, what, _TARGET)
    for steps, text in _long_texts(obj):
        yield from _guesses(file, text, owners, f"{place}, {pointer_of(steps)}, ")


def _selectors(root: Any) -> Iterator[tuple[tuple[str | int, ...], dict[str, Any]]]:
    """Yield each object with group, version and kind, as in Kustomize's targets."""
    for steps, value in _below(root):
        if isinstance(value, dict) and {"group", "version", "kind"} <= value.keys():
            yield steps, value


def _long_texts(root: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for steps, value in _below(root):
        if isinstance(value, str) and "\n" in value and "apiVersion" in value:
            yield steps, value


def _below(root: Any) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    stack: list[tuple[tuple[str | int, ...], Any]] = [((), root)]
    while stack:
        steps, value = stack.pop()
        yield steps, value
        if isinstance(value, dict):
            stack += [((*steps, key), child) for key, child in reversed(value.items())]
        elif isinstance(value, list):
            stack += [((*steps, index), child) for index, child in reversed(list(enumerate(value)))]


def _guesses(file: str, text: str, owners: Owners, before: str) -> Iterator[Reference]:
    """Yield each ``apiVersion`` line of a text with a matching ``kind`` nearby in the same document."""
    for first, document in split_manifest(text):
        lines = document.split("\n")
        kinds = {found[1] for each in lines if (found := _KIND.match(each))}
        for number, each in enumerate(lines):
            found = _API_VERSION.match(each)
            for (api_version, kind), of in owners.items() if found else ():
                if found and found[1] == api_version and kind in kinds:
                    where = f"{before}line {first + number}"
                    what = f"{kind} in a text that is searched by line"
                    yield Reference(ReferenceKind.FILES, of, file, "", "", where, what, _TEXT, guess=True)
