"""What the subcommands read: profiles of manifests, brought to v1beta2, and the time to look at them.

Rules are asked about objects whose values have the types of the schema, as behind an API server: a manifest with others
is refused here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import click

from restow.cli.exits import InputError
from restow.cli.files import documents_of
from restow.cloudprofile.versions.lifecycle import InvalidTime, parse_time
from restow.conversion import Graph, ObjectError
from restow.conversion.manifests import objects_of
from restow.crds import Crd, cloudprofiles, type_problems
from restow.crds.types import without_ignored_nulls
from restow.kube.resources import qualified_name

__all__ = ["Profile", "at_option", "files_option", "moment", "one", "read_profiles"]

_GROUP = "core.gardener.cloud"
_HUB = f"{_GROUP}/v1beta2"
_KINDS = ("CloudProfile", "NamespacedCloudProfile")
_MOST_PROBLEMS = 5  # that are told of one profile
_UNQUOTED = {("a string", "a number"), ("a string", "a boolean")}
_HINT = " (put it in quotes)"
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile of a manifest, at v1beta2."""

    document: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """CloudProfile or NamespacedCloudProfile."""
        return str(self.document["kind"])

    @property
    def name(self) -> str:
        """Its name, with its namespace if it has one."""
        metadata = self.document.get("metadata") or {}
        return qualified_name(metadata.get("namespace"), metadata.get("name"))

    @property
    def spec(self) -> Mapping[str, Any]:
        """Its spec."""
        return self.document.get("spec") or {}


def files_option(function: _F) -> _F:
    """-f FILE, once or more."""
    return click.option(
        "-f",
        "--filename",
        "files",
        multiple=True,
        required=True,
        type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
        metavar="FILE",
        help="Manifests with the profiles; - for stdin; repeatable.",
    )(function)


def at_option(function: _F) -> _F:
    """--at TIME."""
    return click.option("--at", metavar="TIME", help="The time to look at, as 2026-03-01T00:00:00Z; default: now.")(
        function
    )


def moment(at: str | None) -> datetime:
    """Return the time of --at.

    Raises:
        click.UsageError: the text is no time like 2026-03-01T00:00:00Z.
    """
    if at is None:
        return datetime.now(UTC)
    try:
        return parse_time(at)
    except InvalidTime as error:
        raise click.UsageError(f"--at: {error}") from error


def read_profiles(files: Iterable[Path], *, keyed: bool = True) -> list[Profile]:
    """Return the profiles of files, in their order.

    Args:
        files: manifests.
        keyed: refuse a version without its number, and any other item without the name that its list is keyed by.

    Raises:
        InputError: a file cannot be read, or the files hold no profile.
    """
    listed = list(files)
    found = [Profile(_at_hub(document, where, keyed=keyed)) for file in listed for where, document in _profiles(file)]
    if not found:
        raise InputError(f"{', '.join(map(str, listed))}: there is no CloudProfile or NamespacedCloudProfile in it")
    return found


def one(profiles: Iterable[Profile], kind: str) -> Profile:
    """Return the only profile of a kind.

    Raises:
        InputError: the profiles hold none of that kind, or several.
    """
    found = [profile for profile in profiles if profile.kind == kind]
    if len(found) != 1:
        raise InputError(f"exactly one {kind} is wanted, and the manifests have {len(found)}")
    return found[0]


def _profiles(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the profiles of a file, each with where it stands."""
    for number, document in enumerate(documents_of(file), 1):
        for pointer, item in objects_of(document.data):
            if _is_profile(item):
                yield f"{file}:{document.line}: document {number}{f' ({pointer})' if pointer else ''}", item


def _is_profile(document: dict[str, Any]) -> bool:
    return document.get("kind") in _KINDS and str(document.get("apiVersion", "")).rpartition("/")[0] == _GROUP


def _at_hub(document: dict[str, Any], where: str, *, keyed: bool) -> Mapping[str, Any]:
    plain = _fitting(document, where, keyed=keyed)
    try:
        converted = _graph().convert(plain, _HUB)
    except ObjectError as error:
        raise InputError(
            f"{where}: {document['kind']} {Profile(document).name} cannot be brought to v1beta2: {error}"
        ) from error
    # A field that only v1beta2 declares passes a conversion as it is, and a rule reads it.
    return converted if converted is plain else _fitting(converted, where, keyed=keyed)


def _fitting(document: Any, where: str, *, keyed: bool) -> dict[str, Any]:
    """Return what an API server would take for the document.

    Raises:
        InputError: the document has values of types that the CRD does not allow.
    """
    version = _crds()[document["kind"]].version(document["apiVersion"].rpartition("/")[2])
    if version is None:
        return dict(document)  # the conversion says that it does not know it
    problems = list(islice(type_problems(document, version.schema, keys=keyed), _MOST_PROBLEMS + 1))
    if problems:
        told = [f"{each}{_HINT if (each.wanted, each.found) in _UNQUOTED else ''}" for each in problems]
        more = ["and more"] if len(told) > _MOST_PROBLEMS else []
        raise InputError(f"{where}: {document['kind']}: {'; '.join([*told[:_MOST_PROBLEMS], *more])}")
    found: dict[str, Any] = without_ignored_nulls(document, version.schema)
    return found


@cache
def _crds() -> Mapping[str, Crd]:
    crds = map(Crd.from_document, cloudprofiles.documents().values())
    return {crd.kind: crd for crd in crds}


@cache
def _graph() -> Graph:
    from restow.cloudprofile.conversions import graph

    return graph()
