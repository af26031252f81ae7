"""Converts manifests of files, and prints the result as edited texts, as data, or as changes of fields."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from restow.cli.exits import Exit
from restow.cli.files import ManifestSource, Unreadable, read_text, write_text
from restow.cli.printing import counted, echo, print_data, print_text, say
from restow.conversion import Graph
from restow.conversion.manifests import (
    Converted,
    ObjectOutcome,
    Status,
    Targets,
    convert_manifest,
    write_yaml,
)
from restow.conversion.model.values import ABSENT
from restow.crds.documents import NotYaml
from restow.offline.differences import FieldChange, changes

_SEPARATOR = "---\n"


@dataclass(slots=True)
class ManifestConversion:
    """The conversion of manifests to a version, with what ``restow convert`` prints of it."""

    graph: Graph
    targets: Targets
    keeps_stash: bool
    converted: list[tuple[ManifestSource, str, Converted]] = field(default_factory=list)
    unread: bool = False

    def convert(self, source: ManifestSource) -> None:
        """Convert one manifest; report a file that is not a manifest and leave it unchanged."""
        text = ""
        try:
            text = read_text(source)
            found = convert_manifest(text, self.graph, self.targets, keeps_stash=self.keeps_stash)
        except (NotYaml, Unreadable) as error:
            self._leave(source, text, error)
            return
        self.converted.append((source, text, found))

    def _leave(self, source: ManifestSource, text: str, error: Exception) -> None:
        group = next((group for group in sorted(self.targets.groups) if f"{group}/" in text), None)
        guess = " but a template" if "{{" in text else ""
        reason = f"no YAML{guess}: {error.problem}" if isinstance(error, NotYaml) else str(error)
        where = f"{source}:{error.line}" if isinstance(error, NotYaml) else str(source)
        hint = "" if group is None else f"; it speaks of {group}, so look after it by hand"
        fatal = source.named or group is not None
        self.unread = self.unread or fatal
        say(f"{where}: left as it is, {reason}{hint}", style="red" if fatal else "magenta")

    @property
    def changed(self) -> list[ManifestSource]:
        """The manifests whose text changed."""
        return [source for source, text, found in self.converted if found.text != text]

    def tell(self) -> None:
        """Print warnings and errors, and the overall result."""
        if self._stashes_without_schema():
            hint = "without CRDs a stash finds list items by their content, not by their keys: give --crd, or a Graph"
            say(hint, style="magenta")
        for source, _, found in self.converted:
            for outcome in found.outcomes:
                for sentence, style in _sentences(outcome):
                    say(f"{source}:{outcome.line}: {outcome.title}{_inside(outcome)}: {sentence}", style=style)
            for note in found.notes:
                say(f"{source}:{note.line}: {note.text}", style="magenta")
        say(self._summary(), style="bold")

    def _stashes_without_schema(self) -> bool:
        return any(
            self.graph.kinds[outcome.target.rpartition("/")[0], outcome.kind].hub_schema is None
            for _, _, found in self.converted
            for outcome in found.having(Status.CONVERTED)
            if self.keeps_stash and outcome.explanation is not None and outcome.explanation.stash_after is not None
        )

    def _summary(self) -> str:
        counts = {status: sum(len(found.having(status)) for _, _, found in self.converted) for status in Status}
        said = [f"{counted(counts[Status.CONVERTED], 'object')} converted"]
        said += [f"{counts[Status.FAILED]} failed"] if counts[Status.FAILED] else []
        spared = sum(len(outcome.spared) for _, _, found in self.converted for outcome in found.outcomes)
        said += (
            [f"{counted(spared, 'field')} with a template left as {'it is' if spared == 1 else 'they are'}"]
            if spared
            else []
        )
        said += [f"{counts[Status.CURRENT]} there already"] if counts[Status.CURRENT] else []
        said += [f"{counts[Status.OTHER]} of other kinds"] if counts[Status.OTHER] else []
        return ", ".join(said)

    def write(self) -> None:
        """Write the files that changed, except those with an object that failed."""
        for source, text, found in self.converted:
            if found.text == text:
                continue
            if found.having(Status.FAILED):
                say(f"{source}: not written, as not all of it could be converted", style="red")
                continue
            write_text(source.path, found.text)

    def show(self, form: str | None) -> None:
        """Print the manifests as edited texts, or as data in the format of -o."""
        if form is None:
            print_text(_joined(found.text for _, _, found in self.converted))
            return
        documents: list[Any] = []
        for source, _, found in self.converted:
            said = [document for document in found.documents if document is not ABSENT]
            documents += [document for document in said if document is not None]
            if len(said) < len(found.documents):
                self.unread = True
                left_out = counted(len(found.documents) - len(said), "document")
                say(f"{source}: {left_out} left out of the result, as JSON cannot say what is in it", style="red")
        if form == "json":
            print_data(documents[0] if len(documents) == 1 else _list_of(documents), "json")
        for number, document in enumerate(documents if form == "yaml" else ()):
            if number:
                print_text(_SEPARATOR)
            print_text(write_yaml(document))

    def show_changed(self) -> None:
        """List the manifests whose text changed."""
        for source in self.changed:
            echo(str(source))

    def show_changes(self, form: str | None) -> None:
        """Print the changes of each object."""
        found = [
            (source, outcome, changes(outcome.before, outcome.after))
            for source, _, converted in self.converted
            for outcome in converted.having(Status.CONVERTED)
        ]
        if form is not None:
            print_data({"objects": [_changes_json(*each) for each in found]}, form)
            return
        for source, outcome, changed in found:
            way = f"{outcome.api_version} -> {outcome.target}"
            echo(f"{source}:{outcome.line}: {outcome.title}{_inside(outcome)}: {way}")
            for change in changed:
                echo(f"  {change.line()}")

    def exit(self, *, check: bool) -> Exit:
        """Return the exit code."""
        if self.unread or any(found.having(Status.FAILED) for _, _, found in self.converted):
            return Exit.FAILURES
        if any(outcome.spared for _, _, found in self.converted for outcome in found.outcomes):
            return Exit.FAILURES
        return Exit.DUE if check and self.changed else Exit.DONE


def _sentences(outcome: ObjectOutcome) -> list[tuple[str, str]]:
    """Return the messages about an object, each with its style."""
    said = [(f"cannot be converted to {outcome.target}: {outcome.error}", "red")] if outcome.error else []
    said += [(warning, "magenta") for warning in outcome.warnings]
    lost: dict[str, list[str]] = {}
    for leaf in outcome.lost:
        lost.setdefault(leaf.rule, []).append(leaf.pointer)
    said += [(f"lost: {', '.join(pointers)} ({rule or 'undeclared'})", "magenta") for rule, pointers in lost.items()]
    return said


def _inside(outcome: ObjectOutcome) -> str:
    return f" ({outcome.pointer})" if outcome.pointer else ""


def _joined(texts: Iterable[str]) -> str:
    """Join the texts of several manifests, with a separator where one is missing."""
    whole = ""
    for text in texts:
        more = text
        if whole.strip() and text.strip():
            more = text.removeprefix("\ufeff")
            whole += "" if whole.endswith("\n") else "\n"
            whole += "" if more.startswith("---") else _SEPARATOR
        whole += more
    return whole


def _list_of(documents: list[Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": documents}


def _changes_json(source: ManifestSource, outcome: ObjectOutcome, changed: list[FieldChange]) -> dict[str, Any]:
    return {
        "file": str(source),
        "line": outcome.line,
        "pointer": outcome.pointer,
        "kind": outcome.kind,
        "namespace": outcome.namespace,
        "name": outcome.name,
        "from": outcome.api_version,
        "to": outcome.target,
        "changes": [change.to_json() for change in changed],
    }
