"""Reads a file of ``ConversionRules`` documents, and reports every mistake with its line and column.

The text is YAML as kubectl reads it, or JSON. Aliases are bounded, and a duplicate key is a mistake.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from restow.conversion.compile.graph import Graph
from restow.conversion.definition.registry import Registry
from restow.conversion.manifests.document import YamlAlias, YamlDocument, YamlMapping, YamlNode, YamlSequence, read
from restow.conversion.model.errors import ConversionError, DefinitionError, Diagnostic
from restow.conversion.rulefiles.parse import ConversionRules, Place, Problem, RulesInvalid, parse, registry_of
from restow.crds import Crd
from restow.crds.documents import NotYaml
from restow.crds.paths import ROOT

#: Far more than the rules of any kind need, and small enough to be read in a second.
_MOST_TEXT: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, order=True)
class Mistake:
    """One mistake of a file; line and column count from 1."""

    line: int
    column: int
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.problem}. {self.fix}."


class RuleFileError(ConversionError):
    """The file cannot be used. ``mistakes`` lists all of its mistakes in the order of its lines."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        self.mistakes = tuple(dict.fromkeys(sorted(mistakes)))
        super().__init__("\n".join(map(str, self.mistakes)))


@dataclass(frozen=True, slots=True)
class LoadedRules:
    """The documents of a file, and the positions of their parts in its text."""

    text: str
    documents: tuple[tuple[ConversionRules, YamlNode], ...]

    @property
    def rules(self) -> tuple[ConversionRules, ...]:
        """The declarations of the documents."""
        return tuple(rules for rules, _ in self.documents)

    @property
    def registry(self) -> Registry:
        """The registry of all documents, not yet checked."""
        return registry_of(self.rules)

    def freeze(self, crds: Sequence[Crd] = ()) -> Graph:
        """Check everything and return the graph, as ``Registry.freeze`` does.

        Raises:
            RuleFileError: the rules have defects; each is reported at the line of its rule or version.
        """
        try:
            return self.registry.freeze(crds)
        except DefinitionError as error:
            found = (self.mistake(each) for each in error.diagnostics)
            raise RuleFileError(each for each in found if each is not None) from error

    def mistake(self, diagnostic: Diagnostic) -> Mistake | None:
        """Return a diagnostic with the line of its rule or version; None if it is about another kind."""
        for rules, node in self.documents:
            if diagnostic.kind == f"{rules.kind}.{rules.group}":
                about = [diagnostic.kind, diagnostic.version, "" if diagnostic.path == ROOT else diagnostic.path]
                problem = f"{' '.join(filter(None, about))}: {diagnostic.problem}"
                return _mistake(self.text, node, Problem(rules.place_of(diagnostic), problem, diagnostic.fix))
        return None


def load(text: str) -> LoadedRules:
    """Return the declarations of a file's documents; a document of another kind is a mistake.

    Raises:
        RuleFileError: the text is no YAML, holds no document, or a document has mistakes.
    """
    text = text.removeprefix("\ufeff")
    if len(text) > _MOST_TEXT:
        raise RuleFileError([Mistake(1, 1, "the file has more than 4 MiB", "Split it, one kind in each file")])
    try:
        documents = [each for each in read(text) if each.root is not None]
    except NotYaml as error:
        raise RuleFileError([Mistake(error.line, 1, f"this is no YAML: {error.problem}", "Correct the text")]) from None
    if not documents:
        raise RuleFileError([Mistake(1, 1, "the file holds no document", "Write a ConversionRules document")])
    found: list[tuple[ConversionRules, YamlNode]] = []
    mistakes: list[Mistake] = []
    for document in documents:
        mistakes += _read(text, document, found)
    if mistakes:
        raise RuleFileError(mistakes)
    return LoadedRules(text, tuple(found))


def _read(text: str, document: YamlDocument, found: list[tuple[ConversionRules, YamlNode]]) -> Iterable[Mistake]:
    root = document.root
    assert root is not None
    if document.problem:
        line, _, what = document.problem.removeprefix("line ").partition(": ")
        yield Mistake(int(line), 1, f"the document has {what}", "Write plain JSON values")
        return
    try:
        found.append((parse(document.data), root))
    except RulesInvalid as error:
        for problem in error.problems:
            yield _mistake(text, root, problem)


def _mistake(text: str, root: YamlNode, problem: Problem) -> Mistake:
    start = _position(root, problem.place)
    line_start = text.rfind("\n", 0, start) + 1
    return Mistake(text.count("\n", 0, start) + 1, start - line_start + 1, problem.problem, problem.fix)


def _position(node: YamlNode, place: Place) -> int:
    """Return the position of the innermost part of a place that exists in the document."""
    start = node.start
    for step in place:
        while isinstance(node, YamlAlias):
            node = node.target
        if isinstance(node, YamlMapping):
            entry = next((each for each in node.entries if each.name == step), None)
            if entry is None:
                return start
            start, node = entry.key.start, entry.value
        elif isinstance(node, YamlSequence) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
            start = node.start
        else:
            return start
    return start
