"""The objects of manifests, one by one, for commands that look at objects and leave the texts alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from restow.conversion.manifests import NotYaml, objects_of, read
from restow.exits import InputError
from restow.kube.resources import qualified_name
from restow.offline.files import Source, Unreadable, read_text

__all__ = ["Found", "found_in"]


@dataclass(frozen=True, slots=True)
class Found:
    """An object, and where it stands."""

    source: Source
    line: int
    pointer: str
    value: dict[str, Any]

    @property
    def title(self) -> str:
        """How messages name the object: kind, namespace and name."""
        metadata = self.value.get("metadata")
        names = metadata if isinstance(metadata, dict) else {}
        name = qualified_name(names.get("namespace"), names.get("name"))
        return f"{self.value.get('kind')} {name or 'without a name'}"

    @property
    def where(self) -> str:
        """How messages name the place."""
        return f"{self.source}:{self.line}" + (f" ({self.pointer})" if self.pointer else "")


def found_in(sources: Iterable[Source]) -> Iterator[Found]:
    """Yield the objects of manifests, those in lists too.

    Raises:
        InputError: it is no manifest.
    """
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
