"""A whole manifest: a stream of YAML or JSON documents, converted, with all else as it was.

Every document that is changed is read again and compared with what it has to say. Should the lines that were edited
not say that, the document is written anew and its comments are told to be gone; should even that not say it, nothing is
changed and its objects fail. It may lose looks, never data.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from restow.conversion.graph import Graph
from restow.conversion.manifests.comments import comments, missing
from restow.conversion.manifests.edit import Edit, edit, rewrite
from restow.conversion.manifests.jsontext import JsonText, read_json, write_json
from restow.conversion.manifests.nodes import Document, Mapping, Node, Scalar, data
from restow.conversion.manifests.objects import Outcome, Status, Work, convert_objects
from restow.conversion.manifests.reader import NotYaml, read
from restow.conversion.manifests.targets import Targets
from restow.conversion.values import ABSENT, same

__all__ = ["Converted", "Note", "convert_manifest"]

_MARK: Final = "\ufeff"
_UNWRITABLE: Final = "its text cannot be edited so that it says what it should"


@dataclass(frozen=True, slots=True)
class Note:
    """Something to be told of a line of the old text."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Converted:
    """A converted manifest. ``documents`` has the data of all its documents, ABSENT for one that JSON cannot say."""

    text: str = field(repr=False)
    documents: tuple[Any, ...] = field(repr=False)
    outcomes: tuple[Outcome, ...]
    notes: tuple[Note, ...] = ()

    def having(self, status: Status) -> tuple[Outcome, ...]:
        """Return the objects that have come to that."""
        return tuple(outcome for outcome in self.outcomes if outcome.status is status)


def convert_manifest(text: str, graph: Graph, targets: Targets, *, keeps_stash: bool = True) -> Converted:
    """Convert the objects of a manifest.

    Without ``keeps_stash``, what the target version cannot say is left out and told (``Outcome.lost``).

    Raises:
        NotYaml: the text is neither YAML nor JSON.
    """
    mark = _MARK if text.startswith(_MARK) else ""
    text = text.removeprefix(_MARK)
    run = _Run(text, graph, targets, keeps_stash)
    try:
        documents = read(text)
    except NotYaml:
        values = read_json(text)
        if values is None:
            raise
        written = "".join(run.all_json(values))
    else:
        written = "".join(run.all_yaml(documents))
    return Converted(mark + written, tuple(run.values), tuple(run.outcomes), tuple(run.notes))


@dataclass(slots=True)
class _Run:
    text: str
    graph: Graph
    targets: Targets
    keeps_stash: bool
    values: list[Any] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def all_json(self, texts: list[JsonText]) -> Iterator[str]:
        """Yield the new text, piece by piece."""
        position = 0
        for each in texts:
            new = self._converted(each.line, each.value)[0]
            old_text = self.text[each.start : each.end]
            yield self.text[position : each.start]
            yield old_text if same(new, each.value) else write_json(new, old_text)
            position = each.end
        yield self.text[position:]

    def all_yaml(self, documents: list[Document]) -> Iterator[str]:
        """Yield the new text, document by document."""
        begins = [document.begin for document in documents]
        starts, ends = [0, *begins[1:]], [*begins[1:], len(self.text)]
        if not documents:
            yield self.text
        for document, start, end in zip(documents, starts, ends, strict=False):
            yield self._document(document, start, end)

    def _document(self, document: Document, start: int, end: int) -> str:
        text = self.text[start:end]
        if document.problem:
            self.outcomes.append(_unsayable(document, text, self.targets))
            self.values.append(ABSENT)
            return text
        value, begin = document.data, len(self.outcomes)
        new, work = self._converted(document.line, value)
        if document.root is None or same(value, new):
            return text
        for made in self._attempts(document.root, new, work):
            written = self.text[start : made.start] + made.text + self.text[made.end : end]
            root = _root(written)
            if root is not None and same(data(root), new):
                self._tell(document, start, end, written, root)
                return written
        self.outcomes[begin:] = [outcome.taken_back(_UNWRITABLE) for outcome in self.outcomes[begin:]]
        self.values[-1] = value
        return text

    def _attempts(self, root: Node, new: Any, work: Work) -> Iterator[Edit]:
        yield edit(self.text, root, new, work)
        yield rewrite(self.text, root, new)

    def _converted(self, line: int, value: Any) -> tuple[Any, Work]:
        work = Work(self.graph, self.targets, line, self.keeps_stash)
        new = convert_objects(work, value)
        self.outcomes += work.outcomes
        self.values.append(new)
        return new, work

    def _tell(self, document: Document, start: int, end: int, written: str, root: Node) -> None:
        """Note the comments that did not survive."""
        assert document.root is not None
        before = comments(self.text, document.root, start, end)
        for comment in missing(before, comments(written, root, 0, len(written))):
            self.notes.append(Note(comment.line, f"this comment went with what it stood at: {comment.text}"))


def _root(text: str) -> Node | None:
    """Return the one document of a text, None if it is none or another number of them."""
    try:
        documents = read(text)
    except NotYaml:
        return None
    return documents[0].root if len(documents) == 1 and not documents[0].problem else None


def _unsayable(document: Document, text: str, targets: Targets) -> Outcome:
    """Judge a document that is YAML but no JSON: no API server takes it, but it may be somebody else's concern."""
    names = {"apiVersion": "", "kind": ""}
    if isinstance(document.root, Mapping):
        for entry in document.root.entries:
            if entry.name in names and isinstance(entry.value, Scalar) and isinstance(entry.value.value, str):
                names[entry.name] = entry.value.value
    target = targets.of_object(names["apiVersion"], names["kind"])
    is_ours = target not in (None, names["apiVersion"])
    if names["kind"].endswith("List"):
        is_ours = any(f"{group}/" in text for group in targets.groups)
    status = Status.FAILED if is_ours else Status.OTHER
    error = f"the document has what JSON cannot say ({document.problem})" if is_ours else ""
    return Outcome(
        status, document.line, "", names["apiVersion"], names["kind"], "", "", target=target or "", error=error
    )
