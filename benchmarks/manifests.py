"""Compare the YAML editor of ``restow convert`` with ruamel.yaml's round trip, on handwritten manifests.

``python -m benchmarks.manifests NAME=FOLDER...`` makes the same edit to each manifest of a folder with each editor: the
apiVersion of every object changes, its ``spec`` gets a field at the end, and loses the first one that has a one-line
value. The benchmark counts the files whose diff has only the lines of these three fields. ruamel.yaml writes each file
with several indentations and document starts, and its best result counts. Files above 60 kB are left out. ruamel.yaml
is not a dependency; install it with ``pip install ruamel.yaml``.
"""

from __future__ import annotations

import argparse
import copy
import difflib
import io
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from benchmarks.records import Recorder, add_flag
from benchmarks.tables import Result, Table, markdown
from restow.conversion.manifests import read
from restow.conversion.manifests.edit import edit
from restow.conversion.model.values import same
from restow.crds.documents import NotYaml

_VERSION: Final = "benchmark.example.dev/v9"
_FIELD: Final = "benchmarkField"
_INDENTS: Final = ((2, 2, 0), (2, 4, 2), (4, 4, 0), (4, 4, 2), (4, 6, 4))  # of mappings, of lists, of their dashes
_MOST: Final = 60_000  # bytes of a file; larger ones are generated, and ruamel.yaml needs minutes for them
_VERDICTS: Final = ("only the lines of the edit", "other lines too", "other data", "not read or not written")

Way = Callable[[str], Iterator[str]]


class _InPlace:
    """Maps every field to its own previous place."""

    def trace(self, place: tuple[Any, ...]) -> tuple[tuple[Any, ...], bool]:
        return place, True


def _change(document: Any) -> str | None:
    """Make the edit to a document; return the name of the removed field, None if the document is not an object."""
    if not isinstance(document, dict) or not {"apiVersion", "kind"} <= document.keys():
        return None
    document["apiVersion"] = _VERSION
    spec = document.get("spec")
    if not isinstance(spec, dict) or not spec:
        return ""
    name = next((name for name, value in spec.items() if isinstance(value, str | int) and "\n" not in str(value)), "")
    if name:
        del spec[name]
    spec[_FIELD] = "added"
    return str(name)


def _restow(text: str) -> Iterator[str]:
    parts: list[str] = []
    for document in reversed(read(text)):
        new = copy.deepcopy(document.data)
        if _change(new) is not None and document.root is not None:
            made = edit(text, document.root, new, _InPlace())
            parts.append(made.text + text[made.end :])
            text = text[: made.start]
    yield "".join((text, *reversed(parts)))


def _ruamel(text: str) -> Iterator[str]:
    for (mapping, sequence, offset), starts in product(_INDENTS, (False, True)):
        yaml = YAML()
        yaml.preserve_quotes, yaml.width, yaml.explicit_start = True, 1_000_000, starts
        yaml.indent(mapping=mapping, sequence=sequence, offset=offset)
        documents = list(yaml.load_all(text))
        for document in documents:
            _change(document)
        stream = io.StringIO()
        yaml.dump_all(documents, stream)
        yield stream.getvalue()


def _judge(way: Way, text: str, wanted: list[Any], own: tuple[str, ...]) -> str:
    """Return the best result for a file."""
    found = {_VERDICTS[-1]}
    try:
        for written in way(text):
            lines = list(difflib.unified_diff(text.splitlines(), written.splitlines(), n=0))[2:]
            others = [line for line in lines if line[0] in "+-" and not line[1:].lstrip(" -\"'").startswith(own)]
            is_same = same([document.data for document in read(written)], wanted)
            found.add(_VERDICTS[2 if not is_same else 1 if others else 0])
            if _VERDICTS[0] in found:
                break
    except (NotYaml, YAMLError, AttributeError, TypeError, ValueError):
        pass
    return min(found, key=_VERDICTS.index)


def _manifests(folder: Path) -> Iterator[tuple[Path, str, list[Any], tuple[str, ...]]]:
    """Yield each manifest with its required data after the edit, and the fields whose lines may change."""
    for path in sorted(path for path in folder.rglob("*.y*ml") if path.stat().st_size <= _MOST):
        try:
            text = path.read_text()
            documents = read(text)
        except (NotYaml, UnicodeDecodeError):
            continue
        wanted = [copy.deepcopy(document.data) for document in documents if not document.problem]
        names = [_change(document) for document in wanted]
        if len(wanted) == len(documents) and any(name is not None for name in names):
            yield path, text, wanted, tuple(f"{name}" for name in {*filter(None, names), "apiVersion", _FIELD})


def _count(folder: Path, *, show: bool) -> dict[str, Counter[str]]:
    """Return the verdicts on each contender."""
    counts: dict[str, Counter[str]] = {"restow": Counter(), "ruamel.yaml": Counter()}
    for path, text, wanted, own in _manifests(folder):
        for name, way in (("restow", _restow), ("ruamel.yaml", _ruamel)):
            verdict = _judge(way, text, wanted, own)
            counts[name][verdict] += 1
            if show and verdict != _VERDICTS[0]:
                print(f"{name}: {path}: {verdict}")
    return counts


def main() -> None:
    """Read the command line, compare, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.manifests", description=__doc__)
    parser.add_argument("folders", nargs="+", metavar="NAME=FOLDER", help="a folder of manifests, and whose they are")
    parser.add_argument("--show", action="store_true", help="name each file of which more than its lines changed")
    add_flag(parser)
    flags = parser.parse_args()
    recorder, rows = Recorder.begin(flags.record), []
    for given in flags.folders:
        name, _, folder = given.rpartition("=")
        counts = _count(Path(folder), show=flags.show)
        files = counts["restow"].total()
        rows.append((name or folder, f"{files:,}", *(f"{found[_VERDICTS[0]]:,}" for found in counts.values())))
    table = Table("Only the lines of the edit", ("manifests", "files", *counts), tuple(rows))
    print(markdown(table))
    if recorder is not None:
        words = " ".join(f'"{row[0]}=FOLDER"' for row in rows)
        recorder.write("manifests", f"python -m benchmarks.manifests {words}", Result("Manifests", [table]))


if __name__ == "__main__":
    main()
