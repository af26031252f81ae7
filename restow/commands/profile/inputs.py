"""What the subcommands read: profiles of manifests, brought to v1beta2, and the time to look at them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import click
import yaml

from restow.cloudprofile.lifecycle import InvalidTime, parse_time
from restow.conversion import Graph, ObjectError
from restow.exits import InputError

__all__ = ["Profile", "at_option", "files_option", "moment", "one", "read_profiles"]

_GROUP = "core.gardener.cloud"
_HUB = f"{_GROUP}/v1beta2"
_KINDS = ("CloudProfile", "NamespacedCloudProfile")
_F = TypeVar("_F", bound=Callable[..., Any])


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # whichever there is
    """Reads YAML as the API server does: what looks like a date is a text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 - as its base class has it
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


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
        parts = (metadata.get("namespace"), metadata.get("name"))
        return "/".join(str(part) for part in parts if part)

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
    """Return the time of --at. Raises click.UsageError."""
    if at is None:
        return datetime.now(UTC)
    try:
        return parse_time(at)
    except InvalidTime as error:
        raise click.UsageError(f"--at: {error}") from error


def read_profiles(files: Iterable[Path]) -> list[Profile]:
    """Return the profiles of files, in their order. Raises InputError if one cannot be read, or none is there."""
    listed = list(files)
    found = [Profile(_at_hub(document)) for file in listed for document in _documents(file) if _is_profile(document)]
    if not found:
        raise InputError(f"{', '.join(map(str, listed))}: there is no CloudProfile or NamespacedCloudProfile in it")
    return found


def one(profiles: Iterable[Profile], kind: str) -> Profile:
    """Return the only profile of a kind. Raises InputError if there is none, or more."""
    found = [profile for profile in profiles if profile.kind == kind]
    if len(found) != 1:
        raise InputError(f"exactly one {kind} is wanted, and the manifests have {len(found)}")
    return found[0]


def _documents(file: Path) -> Iterator[Any]:
    try:
        with click.open_file(str(file), encoding="utf-8") as text:
            documents = list(yaml.load_all(text, _Loader))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{file} cannot be read as YAML ({str(error).splitlines()[0]})") from error
    for document in documents:
        yield from _items(document)


def _items(document: Any) -> Iterator[Any]:
    if isinstance(document, dict) and isinstance(items := document.get("items"), list):
        for item in items:
            yield from _items(item)
    else:
        yield document


def _is_profile(document: Any) -> bool:
    if not isinstance(document, dict) or document.get("kind") not in _KINDS:
        return False
    return str(document.get("apiVersion", "")).rpartition("/")[0] == _GROUP


def _at_hub(document: dict[str, Any]) -> Mapping[str, Any]:
    try:
        return _graph().convert(document, _HUB)
    except ObjectError as error:
        raise InputError(
            f"{document['kind']} {Profile(document).name} cannot be brought to v1beta2: {error}"
        ) from error


@cache
def _graph() -> Graph:
    from restow.cloudprofile.conversions import graph

    return graph()
