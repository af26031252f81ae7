"""Find objects at a version in the stored manifests and hooks of Helm releases, and rewrite a release with them.

Helm builds the objects of the stored manifest when it upgrades, rolls back or uninstalls. It fails if one has a version
that is not served: ``unable to build kubernetes objects from current release manifest``. A release is JSON, gzipped, in
base64, in a Secret or a ConfigMap with the label ``owner=helm`` (Helm's ``pkg/storage/driver``).

Any user who may write a Secret controls its content. Therefore sizes are limited, and an invalid release gives an error
message. A search does not decode the values of a release; of its manifest, only apiVersion, kind and name of matching
objects reach the output.

``StoredRelease`` rewrites a release: only the converted documents of a manifest change; comments before them
(``# Source:``) stay. It keeps all other fields, including unknown ones. Pure.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import yaml

from restow.crds.documents import NotYaml, load_documents, load_objects
from restow.kube.resources import Object, qualified_name
from restow.migrator.references.readers.mentions import object_name
from restow.migrator.references.readers.metadata import Owners
from restow.migrator.references.reference import Reference, ReferenceKind, same_effect

LARGEST_RELEASE: Final = 32 * 1024 * 1024
"""The most bytes of a release's JSON. A Secret holds up to 1 MiB of gzip, about 10 MiB of manifests."""

_GZIP: Final = b"\x1f\x8b\x08"
RELEASE_TYPE: Final = "helm.sh/release.v1"

_CURRENT: Final = same_effect(
    "helm upgrade (no matches for kind) and helm uninstall (failed to delete release) fail.",
    "upgrade the release to a chart with another version while this one is served, or move it",
    movable=True,
)
_FORMER: Final = same_effect(
    "helm rollback to this revision fails (no matches for kind), and leaves a latest revision at this version, "
    "with which helm uninstall fails.",
    "nothing, unless you may roll back to this revision: --move with --all-revisions writes it. After a failed "
    "rollback, --move writes the revision that it left",
    stands=False,
    movable=True,
)
FORMER_STATES: Final = frozenset({"superseded", "uninstalled"})
"""The statuses of revisions that only a rollback reads; upgrades and uninstalls read revisions with other ones."""


class NoRelease(ValueError):
    """The stored data are not a readable release; the message says why, without any content."""


class _Info(msgspec.Struct, frozen=True):
    status: str = ""


class Hook(msgspec.Struct, frozen=True):
    """A hook of a release."""

    path: str = ""
    manifest: str = ""


class Release(msgspec.Struct, frozen=True):
    """The fields of a stored release that restow reads."""

    name: str = ""
    namespace: str = ""
    version: int = 0
    info: _Info | None = None
    manifest: str = ""
    hooks: tuple[Hook, ...] | None = None

    @property
    def status(self) -> str:
        """The status: ``deployed``, ``superseded``, ``failed``, ...."""
        return self.info.status if self.info is not None else ""


_release = msgspec.json.Decoder(Release)


def read_release(obj: Object) -> Release | None:
    """Return the release in a Secret or ConfigMap; None if the object does not belong to Helm's storage.

    Raises:
        NoRelease: the object belongs to Helm's storage, but contains no readable release.
    """
    data = obj.get("data")
    text = data.get("release") if isinstance(data, dict) else None
    if obj.get("type") not in (None, RELEASE_TYPE) or not isinstance(text, str):
        return None
    try:
        return _release.decode(stored_json(text, secret=obj.get("type") == RELEASE_TYPE))
    except RecursionError:
        raise NoRelease("it holds a release that is nested too deeply") from None
    except msgspec.MsgspecError:
        raise NoRelease("it holds a release that is not JSON of a release") from None


def stored_json(text: str, *, secret: bool) -> bytes:
    """Return the JSON of a release from its stored text; the text in a Secret is base64 twice.

    Raises:
        NoRelease: the text is not base64 or gzip, or expands to too many bytes.
    """
    try:
        stored = base64.b64decode(text, validate=True)
        return _inflated(base64.b64decode(stored, validate=True) if secret else stored)
    except (binascii.Error, ValueError) as problem:
        if isinstance(problem, NoRelease):
            raise
        raise NoRelease("it holds a release that is no base64") from None


def _inflated(stored: bytes) -> bytes:
    if not stored.startswith(_GZIP):
        return stored  # releases of the first Helm versions are not compressed
    inflate = zlib.decompressobj(wbits=31)
    try:
        made = inflate.decompress(stored, LARGEST_RELEASE)
    except zlib.error:
        raise NoRelease("it holds a release that is broken gzip") from None
    if inflate.unconsumed_tail:
        raise NoRelease(f"it holds a release of more than {LARGEST_RELEASE // 1024**2} MiB")
    if not inflate.eof:
        raise NoRelease("it holds a release that is broken gzip")
    return made


def helm_references(resource: str, obj: Object, owners: Owners) -> Iterator[Reference]:
    """Yield a reference for each object at a sought version in a release's manifest and hooks.

    Raises:
        NoRelease: the object belongs to Helm's storage, but contains no readable release.
    """
    if (release := read_release(obj)) is None:
        return
    namespace, name = object_name(obj)
    state = f"release {release.name}, revision {release.version} ({release.status or 'status unknown'})"
    effect = _FORMER if release.status in FORMER_STATES else _CURRENT
    sources = [("manifest", release.manifest), *((f"hook {each.path}", each.manifest) for each in release.hooks or ())]
    for place, text in sources:
        for line, api_version, kind, what, guess in _objects(text, owners):
            of = owners[api_version, kind]
            yield Reference(
                ReferenceKind.HELM,
                of,
                resource,
                namespace,
                name,
                f"{place}, line {line}",
                f"{state}: {what}",
                effect,
                guess=guess,
            )


def _objects(text: str, owners: Owners) -> Iterator[tuple[int, str, str, str, bool]]:
    """Yield (line, apiVersion, kind, the object's kind and name, guess) of each object at a sought version."""
    if not any(api_version in text for api_version, _ in owners):
        return
    for line, document in split_manifest(text):
        near = [key for key in owners if key[0] in document and key[1] in document]
        if not near:
            continue
        try:
            found = list(load_objects(document))
        except NotYaml:
            yield from ((line, *key, f"{key[1]} in a document that is no YAML", True) for key in near)
            continue
        for within, obj in found:
            key = _type_of(obj)
            if key in owners:
                what = f"{key[1]} {qualified_name(*object_name(obj))}"
                yield line + within - 1, *key, what, False


def _type_of(obj: Any) -> tuple[str, str]:
    if not isinstance(obj, dict):
        return "", ""
    return str(obj.get("apiVersion")), str(obj.get("kind"))


_SEPARATOR: Final = re.compile(r"^---(?:[ \t].*)?$", re.MULTILINE)


def split_manifest(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of each document; unlike a parser, continue after a document that is not YAML."""
    start, line = 0, 1
    for found in [*_SEPARATOR.finditer(text), None]:
        end = len(text) if found is None else found.start()
        document = text[start:end]
        if document.strip():
            yield line, document
        line += document.count("\n")
        start = end if found is None else found.end()


_API_VERSION: Final = re.compile(r"^apiVersion:.*$", re.MULTILINE)
_COMMENTS: Final = re.compile(r"\A(?:[ \t]*(?:---[^\n]*|#[^\n]*)?\n)*")


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object in a release, with its text and the document in that text."""

    place: int
    document: int
    content: dict[str, Any]


class StoredRelease:
    """A release as Helm stores it.

    Args:
        obj: the Secret or ConfigMap.

    Raises:
        NoRelease: the object contains no readable release.
    """

    def __init__(self, obj: Object) -> None:
        self._secret = obj.get("type") == RELEASE_TYPE
        try:
            self._content: dict[str, Any] = msgspec.json.decode(
                stored_json(obj["data"]["release"], secret=self._secret)
            )
        except (msgspec.MsgspecError, RecursionError, KeyError, TypeError):
            raise NoRelease("it holds no release") from None
        if not isinstance(self._content, dict):
            raise NoRelease("it holds no release")

    @property
    def former(self) -> bool:
        """Whether only a rollback reads this revision."""
        info = self._content.get("info")
        return isinstance(info, dict) and info.get("status") in FORMER_STATES

    @property
    def texts(self) -> list[str]:
        """The manifest of the release, and the manifest of each hook."""
        hooks = self._content.get("hooks") or []
        return [str(each.get("manifest") or "") for each in (self._content, *hooks)]

    def objects(self, owners: Owners) -> list[StoredObject]:
        """Return the objects at a sought version that are separate documents."""
        found = []
        for place, text in enumerate(self.texts):
            for number, (_line, document) in enumerate(split_manifest(text)):
                if not any(api_version in document for api_version, _ in owners):
                    continue
                try:
                    (content,) = load_documents(document)
                except (NotYaml, ValueError):
                    continue
                if isinstance(content, dict) and (str(content.get("apiVersion")), str(content.get("kind"))) in owners:
                    found.append(StoredObject(place, number, content))
        return found

    def rewritten(self, objects: Sequence[StoredObject], converted: Sequence[Object]) -> str:
        """Return the text to store: the release with these objects in their converted form."""
        texts = self.texts
        changes = {
            (each.place, each.document): (each.content, made) for each, made in zip(objects, converted, strict=True)
        }
        return self.with_texts(
            [
                "".join(
                    _document(text, *changes[place, number]) if (place, number) in changes else text
                    for number, text in _parts(whole)
                )
                for place, whole in enumerate(texts)
            ]
        )

    def with_texts(self, texts: Sequence[str]) -> str:
        """Return the text to store: the release with new manifests, its own first, then those of its hooks."""
        manifest, *of_hooks = texts
        hooks = self._content.get("hooks")
        content = self._content | {"manifest": manifest}
        if hooks:
            content["hooks"] = [each | {"manifest": text} for each, text in zip(hooks, of_hooks, strict=True)]
        text = base64.b64encode(gzip.compress(msgspec.json.encode(content), mtime=0))
        return base64.b64encode(text).decode() if self._secret else text.decode()


def _parts(text: str) -> list[tuple[int, str]]:
    """Split a text into parts; a document has its number, and the text between documents has -1."""
    parts, end = [], 0
    for number, (_line, document) in enumerate(split_manifest(text)):
        start = text.index(document, end)
        parts += [(-1, text[end:start]), (number, document)]
        end = start + len(document)
    return [*parts, (-1, text[end:])]


def _document(text: str, before: dict[str, Any], after: Object) -> str:
    """Return a document with a new object; if nothing else differs, change only its apiVersion."""
    if {**before, "apiVersion": ""} == {**after, "apiVersion": ""} and len(_API_VERSION.findall(text)) == 1:
        return _API_VERSION.sub(f"apiVersion: {after['apiVersion']}", text)
    head = _COMMENTS.match(text)
    return (head[0] if head else "") + yaml.safe_dump(dict(after), sort_keys=False, allow_unicode=True)
