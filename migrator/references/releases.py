"""Read objects at a version from stored Helm releases, and rewrite the release with them at another version.

Only the converted documents of a manifest change; comments before them (``# Source:``) stay. The module keeps all other
fields of a release, including unknown ones. Pure.
"""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import yaml

from restow.crds.documents import NotYaml, load_documents
from restow.kube.resources import Object
from restow.migrator.references.readers.helm import (
    FORMER_STATES,
    RELEASE_TYPE,
    NoRelease,
    split_manifest,
    stored_json,
)
from restow.migrator.references.readers.ownerreferences import Owners

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
