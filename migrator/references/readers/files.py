"""Find manifests, charts and kustomizations in files that name a version.

In YAML and JSON the module finds objects, their references and their ownerReferences by structure. It searches strings
in them (patches, ConfigMaps with manifests or with the configuration of a controller) by structure and by line, and
files that are not YAML (Helm templates) by line for an ``apiVersion`` and a ``kind`` of one document, and marks these
references as guesses. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from restow.crds.documents import NotYaml, load_objects
from restow.kube.resources import qualified_name
from restow.migrator.references.readers.helm import split_manifest
from restow.migrator.references.readers.mentions import Spelling, Spellings, Steps, object_name, pointer_of
from restow.migrator.references.readers.metadata import Owners
from restow.migrator.references.reference import Reference, ReferenceKind, same_effect

_MANIFEST: Final = same_effect(
    "Applying the manifest fails (no matches for kind).",
    "convert it with restow convert, which keeps comments and order",
)
_TYPED: Final = same_effect(
    "Once it is applied, whoever follows the reference gets no answer (404, no matches for kind).",
    "write another version",
)
_TARGET: Final = same_effect(
    "The patch finds its target as long as the manifest is at this version as well.",
    "change it together with the manifest, its paths too",
)
_TEXT: Final = same_effect(
    "If this becomes a manifest, applying it fails (no matches for kind).",
    "look at it, and convert it by hand",
)

_API_VERSION: Final = re.compile(r"""^[\s\-"']*apiVersion["']?\s*:\s*["']?([^\s"'#,}]+)""")
_KIND: Final = re.compile(r"""^[\s\-"']*kind["']?\s*:\s*["']?([^\s"'#,}]+)""")


_TARGETS: Final = frozenset({"target", "select", "source", "fieldSpecs"})
"""The fields of Kustomize that select manifests by group, version and kind."""


def file_references(name: str, text: str, owners: Owners) -> Iterator[Reference]:
    """Yield the references in one file; ``name`` is the displayed name of the file."""
    spellings = Spellings(owners.values())
    if not spellings.may_be_in(text.encode(errors="replace")):
        return
    try:
        objects = list(load_objects(text))
    except NotYaml:
        yield from _guesses(name, text, owners, "")
        return
    for line, obj in objects:
        if isinstance(obj, dict):
            yield from _of_object(name, line, obj, spellings)
            for steps, within in _long_texts(obj):
                place = f"line {line}, {pointer_of(steps)}"
                yield from _guesses(name, within, owners, f"{place}, ")
                yield from _configured(name, within, spellings, place)


def _of_object(file: str, line: int, obj: dict[str, Any], spellings: Spellings) -> Iterator[Reference]:
    namespace, name = object_name(obj)
    for each in spellings.mentions(obj):
        if each.spelling is Spelling.EXPRESSION and each.steps[0] == "metadata":
            continue  # an annotation of kubectl
        where = f"line {line}, {pointer_of(each.steps)}" if each.steps else f"line {line}"
        effect, what = _TYPED, "a reference"
        if not each.steps:
            effect, what = _MANIFEST, f"{each.of.kind} {qualified_name(namespace, name)}"
        elif each.steps[:2] == ("metadata", "ownerReferences"):
            what = "an ownerReference"
        elif each.spelling is Spelling.GROUP_KIND and not _TARGETS.isdisjoint(each.steps[-2:]):
            effect, what = _TARGET, "what a patch or a rule selects"
        yield Reference(ReferenceKind.FILES, each.of, file, namespace, name, where, what, effect)


def _configured(file: str, text: str, spellings: Spellings, place: str) -> Iterator[Reference]:
    """Yield what the configuration of a controller names, such as that of kube-state-metrics; manifests are not it."""
    try:
        objects = list(load_objects(text))
    except (NotYaml, ValueError):
        return
    for _, obj in objects:
        for each in spellings.mentions(obj) if isinstance(obj, dict) else ():
            if each.spelling is not Spelling.TYPE:
                where, what = f"{place}, {pointer_of(each.steps)}", f"named as {each.spelling.value}"
                yield Reference(ReferenceKind.FILES, each.of, file, "", "", where, what, _TYPED, guess=True)


def _long_texts(root: Any) -> Iterator[tuple[Steps, str]]:
    stack: list[tuple[Steps, Any]] = [((), root)]
    while stack:
        steps, value = stack.pop()
        if isinstance(value, str) and "\n" in value:
            yield steps, value
        children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        stack += [((*steps, key), child) for key, child in reversed([*children])]


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
