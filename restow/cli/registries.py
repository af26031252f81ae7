"""The values of ``--registry``, ``--rules`` and ``--crd``: an author's conversions, and the CRDs that they convert."""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from restow.cli.exits import InputError
from restow.cli.files import STDIN, ManifestSource, Unreadable, read_text
from restow.cli.printing import say
from restow.conversion import DefinitionError, Diagnostic, Graph, ObjectError, Registry, RuleFailed
from restow.conversion.rules.protocol import OnError
from restow.crds import Crd, CrdError, load, loads
from restow.migrator import MigrationRefused, Unconverted
from restow.migrator.model.converter import Answer, Json
from restow.migrator.requests.environment import Converters

if TYPE_CHECKING:
    from restow.conversion.rulefiles import LoadedRules  # imported late: it takes half of a command's start


@dataclass(frozen=True)
class ConversionSource:
    """The conversions of ``--registry module:attribute`` or of one or several ``--rules FILE``, never of both.

    Rule files are read once, on first use.
    """

    registry: str | None = None
    rules: tuple[Path, ...] = ()

    def __str__(self) -> str:
        return f"--registry {self.registry}" if self.registry is not None else _named(self.rules)

    def graph(self, crds: Sequence[Crd] = (), *, on_error: OnError = "fail") -> Graph:
        """Return the conversions: a ``Registry`` or rule files, frozen against the CRDs, or a ``Graph`` unchanged.

        Without CRDs only the rules themselves are checked. ``on_error`` is the default for rules and kinds that set
        none.

        Raises:
            click.UsageError: the text of ``--registry`` is not ``module:attribute``.
            InputError: a module or file cannot be read, or the conversions have defects; the error lists all of them,
                and its cause is the ``DefinitionError`` if freezing found them.
        """
        if self.registry is None:
            return self._of_files(crds, on_error)
        found: Registry | Graph = _named_by(self.registry, Registry, Graph)
        if isinstance(found, Graph):
            if on_error != "fail":
                raise InputError(f"{self} is a Graph, which is frozen: name its Registry for --on-error {on_error}")
            return found
        try:
            return found.freeze(crds, on_error=on_error)
        except DefinitionError as error:
            first, *defects = str(error).splitlines()
            raise InputError(f"{self} cannot be used, {first}", defects) from error

    def places_of(self, diagnostics: Iterable[Diagnostic]) -> list[str]:
        """Return the places in rule files that diagnostics are about (``FILE:LINE:COLUMN``), empty for a registry."""
        return [next(_places(self._loaded, each), "") for each in diagnostics]

    def phrased(self, text: str) -> str:
        """Return a message whose rules are written as the author writes them: in Python, or as data."""
        if self.registry is not None:
            return text
        from restow.conversion.rulefiles import as_data

        return as_data(text)

    def _of_files(self, crds: Sequence[Crd], on_error: OnError) -> Graph:
        from restow.conversion.rulefiles import registry_of

        rules = [each for _, loaded in self._loaded for each in loaded.rules]
        try:
            return registry_of(rules).freeze(crds, on_error=on_error)
        except DefinitionError as error:
            places = self.places_of(error.diagnostics)
            defects = [f"{place or self}: {each}" for place, each in zip(places, error.diagnostics, strict=True)]
            count = "1 defect" if len(defects) == 1 else f"{len(defects)} defects"
            raise InputError(f"{self} cannot be used, the conversions have {count}:", defects) from error

    @cached_property
    def _loaded(self) -> list[tuple[Path, LoadedRules]]:
        from restow.conversion.rulefiles import RuleFileError, load

        found: list[tuple[Path, LoadedRules]] = []
        for path in self.rules:
            try:
                found.append((path, load(read_text(ManifestSource(path, named=True)))))
            except Unreadable as error:
                raise InputError(f"--rules {path} cannot be read: {error}") from error
            except RuleFileError as error:
                lines = [f"{path}:{each.line}:{each.column}: {each.problem}. {each.fix}." for each in error.mistakes]
                count = "1 mistake" if len(lines) == 1 else f"{len(lines)} mistakes"
                raise InputError(f"--rules {path} cannot be used, it has {count}:", lines) from error
        return found


def _places(files: Iterable[tuple[Path, LoadedRules]], diagnostic: Diagnostic) -> Iterator[str]:
    for path, loaded in files:
        if (mistake := loaded.mistake(diagnostic)) is not None:
            yield f"{path}:{mistake.line}:{mistake.column}"


def _named(rules: Iterable[Path]) -> str:
    return " ".join(f"--rules {path}" for path in rules)


def registry_at(spec: str) -> Registry:
    """Return the ``Registry`` that ``module:attribute`` names.

    Raises:
        click.UsageError: the text is not ``module:attribute``.
        InputError: the module cannot be imported, has no such attribute, or the attribute is not a ``Registry``.
    """
    registry: Registry = _named_by(spec, Registry)
    return registry


def _named_by(spec: str, *types: type[Any]) -> Any:
    """Return the object that ``module:attribute`` names, of one of the types; the working directory is importable."""
    module_name, colon, attribute = spec.partition(":")
    if not colon or not module_name or not attribute:
        msg = f"--registry takes module:attribute (for instance example.conversions:registry), not {spec!r}"
        raise click.UsageError(msg)
    found = _attribute(_module(module_name), attribute, spec)
    if not isinstance(found, types):
        expected = " or ".join(each.__name__ for each in types)
        raise InputError(f"--registry {spec} is of the type {type(found).__name__}, and not a {expected}")
    return found


def load_crds(paths: Iterable[Path], *, composites: bool = False) -> tuple[Crd, ...]:
    """Return the CRDs of files (``-`` is stdin), and of the manifests in folders and their subfolders.

    With ``composites``, Crossplane's CompositeResourceDefinitions count as CRDs.

    Raises:
        InputError: a file cannot be read, a file or folder contains no CRD, or a CRD is malformed.
    """
    return tuple(crd for path in paths for crd in _crds(path, composites=composites))


def _module(name: str) -> Any:
    # As `python -m` does: users are in their repository and name their own modules.
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise InputError(f"--registry: there is no module {error.name} here or on PYTHONPATH") from error
        raise InputError(f"--registry: importing {name} failed: {_what(error)}") from error
    except Exception as error:
        raise InputError(f"--registry: importing {name} failed: {_what(error)}") from error


def _attribute(module: Any, path: str, spec: str) -> Any:
    found = module
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise InputError(f"--registry {spec}: {module.__name__} has no {path}") from None
    return found


def _what(error: Exception) -> str:
    """Return the error that an author's module raised, with the place nearest to the failure."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames and not isinstance(error, SyntaxError) else ""
    return f"{type(error).__name__}: {error}{where}"


def _crds(path: Path, *, composites: bool) -> tuple[Crd, ...]:
    try:
        if path == STDIN:
            return loads(sys.stdin.buffer.read(), "stdin", composites=composites)
        return load(
            path, skip=lambda problem: say(f"{problem}; it is passed over", style="magenta"), composites=composites
        )
    except CrdError as error:
        raise InputError(str(error)) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from error


_SLICE_S = 0.01
"""Seconds of conversion before other tasks get a turn."""


class GraphConverter:
    """A migrator's ``Converter`` over a frozen graph: objects do not leave this process."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    async def convert(self, objects: Sequence[Json], api_version: str) -> Sequence[Answer]:
        """Convert each object separately; one that the rules refuse does not stop the others."""
        loop = asyncio.get_running_loop()
        answers: list[Answer] = []
        pause_at = loop.time() + _SLICE_S
        for obj in objects:
            answers.append(self._convert(obj, api_version))
            if loop.time() >= pause_at:
                await asyncio.sleep(0)
                pause_at = loop.time() + _SLICE_S
        return answers

    def _convert(self, obj: Json, api_version: str) -> Answer:
        try:
            return self._graph.convert(obj, api_version)
        except ObjectError as error:
            rule = f" ({error.rule})" if isinstance(error, RuleFailed) and error.rule not in error.reason else ""
            return Unconverted(f"{error}{rule}")


def load_converters(source: ConversionSource, crd_files: Sequence[Path] = ()) -> Converters:
    """Return the converters for ``--registry`` or ``--rules``, and ``--crd FILE``.

    Raises:
        click.UsageError, InputError: as ``ConversionSource.graph`` and ``load_crds``.
    """
    return graph_converters(source.graph(load_crds(crd_files)))


def graph_converters(graph: Graph) -> Converters:
    """Return the graph as converter of the kinds that it knows; other kinds use their own webhooks."""
    converter = GraphConverter(graph)

    def converter_for(crd: Crd) -> GraphConverter | None:
        known = graph.kinds.get((crd.group, crd.kind))
        if known is None:
            return None
        converted = (*known.versions, *known.leaves)
        if missing := [version.name for version in crd.versions if version.name not in converted]:
            msg = (
                f"the registry converts {crd.kind}.{crd.group}, but not its version {', '.join(missing)}: it is of "
                "another release than the CRD. Give the one that belongs to it, or leave --registry out"
            )
            raise MigrationRefused(msg)
        return converter

    return converter_for
