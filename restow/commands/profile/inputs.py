"""The input of the subcommands: profiles from manifests, as the operator would see them, and the time to evaluate.

The module reads a manifest as an API server with strict validation does. Values of a wrong type end a command (exit
code 2). Other violations of the schema, such as a misspelled field, are findings (exit code 1). The module then adds
the schema's defaults and converts the object to v1beta2. It renders a NamespacedCloudProfile with its parent, which
the same manifests must contain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from restow.cli.exits import FindingsError, InputError
from restow.cli.files import documents_of
from restow.kube.resources import qualified_name

if TYPE_CHECKING:
    from restow.cloudprofile.findings import ValidationFinding
    from restow.cloudprofile.objects import VersionKey
    from restow.conversion import Graph
    from restow.crds import Crd

_GROUP = "core.gardener.cloud"
_HUB = f"{_GROUP}/v1beta2"
_KINDS = ("CloudProfile", "NamespacedCloudProfile")
_MOST_PROBLEMS = 5  # reported for one profile
_UNQUOTED = {("a string", "a number"), ("a string", "a boolean")}
_HINT = " (put it in quotes)"
_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile of a manifest, at v1beta2.

    Attributes:
        document: the object as an API server stores it, with the schema's defaults.
        written: the object without the defaults.
        findings: the manifest's violations of the schema.
    """

    document: Mapping[str, Any]
    written: Mapping[str, Any]
    findings: tuple[ValidationFinding, ...] = ()

    @property
    def kind(self) -> str:
        """The kind: CloudProfile or NamespacedCloudProfile."""
        return str(self.document["kind"])

    @property
    def name(self) -> str:
        """The name, with the namespace if there is one."""
        metadata = self.document.get("metadata") or {}
        return qualified_name(metadata.get("namespace"), metadata.get("name"))

    @property
    def spec(self) -> Mapping[str, Any]:
        """The spec."""
        return self.document.get("spec") or {}


def files_option(function: _F) -> _F:
    """Add -f FILE, which can be repeated."""
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
    """Add --at TIME."""
    return click.option("--at", metavar="TIME", help="The time to look at, as 2026-03-01T00:00:00Z; default: now.")(
        function
    )


def moment(at: str | None) -> datetime:
    """Return the time of --at.

    Raises:
        click.UsageError: the text is not a time like 2026-03-01T00:00:00Z.
    """
    from restow.cloudprofile.versions.lifecycle import InvalidTime, parse_time

    if at is None:
        return datetime.now(UTC)
    try:
        return parse_time(at)
    except InvalidTime as error:
        raise click.UsageError(f"--at: {error}") from error


def read_profiles(files: Iterable[Path], *, judged: bool = False) -> list[Profile]:
    """Return the profiles of files in the order of the files.

    Args:
        files: manifests.
        judged: whether the caller reports the findings of each profile; otherwise findings end the command.

    Raises:
        InputError: a file cannot be read, or the files contain no profile.
        FindingsError: a profile violates the schema, so that an API server would refuse it.
    """
    listed = list(files)
    found = []
    for file in listed:
        for where, document in _profiles(file):
            profile = _read(document, where, keyed=not judged)
            if not judged and (wrong := profile.findings or tuple(_lifecycle_findings(profile.spec))):
                lines = [f"  {each}" for each in wrong]
                raise FindingsError(f"{where}: {profile.kind} {profile.name} would be refused:", lines)
            found.append(profile)
    if not found:
        raise InputError(f"{', '.join(map(str, listed))}: there is no CloudProfile or NamespacedCloudProfile in it")
    return found


def _lifecycle_findings(spec: Mapping[str, Any]) -> Iterator[ValidationFinding]:
    """Yield errors in the order of stages, which the schema checks with CEL rules."""
    from restow.cloudprofile.objects import image_versions, kubernetes_versions, machine_images
    from restow.cloudprofile.validation.versions import expirable

    for index, version in enumerate(kubernetes_versions(spec)):
        yield from expirable(version, f"spec.kubernetes.versions[{index}]")
    for place, image in enumerate(machine_images(spec)):
        for index, version in enumerate(image_versions(image)):
            yield from expirable(version, f"spec.machineImages[{place}].versions[{index}]")


def offers(profiles: Sequence[Profile]) -> Iterator[tuple[Profile, Mapping[str, Any]]]:
    """Yield each profile with the spec that it offers to Shoots; a NamespacedCloudProfile is rendered.

    Raises:
        InputError: the parent of a NamespacedCloudProfile is not in the manifests, or the two cannot be rendered.
    """
    from restow.cloudprofile.capabilities import defaulted

    for profile in profiles:
        yield profile, defaulted(rendered(profile, profiles))


def rendered(profile: Profile, profiles: Iterable[Profile]) -> Mapping[str, Any]:
    """Return the spec of a CloudProfile, or the rendered spec of a NamespacedCloudProfile and its parent.

    Raises:
        InputError: the parent is not in the manifests, or the two cannot be rendered.
    """
    from restow.cloudprofile.objects import parent_of
    from restow.cloudprofile.profiles.rendering import render

    if profile.kind != "NamespacedCloudProfile" or "parent" not in profile.spec:
        return profile.spec
    wanted = parent_of(profile.document)
    parents = [each for each in profiles if each.kind == "CloudProfile" and each.name == wanted.name]
    if not parents:
        raise InputError(f"NamespacedCloudProfile {profile.name} names {wanted}, which is not in the manifests")
    try:
        return render(parents[-1].spec, profile.spec)
    except ValueError as error:
        raise InputError(f"NamespacedCloudProfile {profile.name} cannot be rendered: {error}") from error


def unclassified_in(profile: Profile) -> frozenset[VersionKey]:
    """Return the versions of a CloudProfile for which the author wrote no stage ``supported``."""
    from restow.cloudprofile.conversions import unclassified

    return unclassified(_graph(), profile.document)


def one(profiles: Iterable[Profile], kind: str) -> Profile:
    """Return the only profile of a kind.

    Raises:
        InputError: there is no profile of that kind, or more than one.
    """
    found = [profile for profile in profiles if profile.kind == kind]
    if len(found) != 1:
        raise InputError(f"exactly one {kind} is wanted, and the manifests have {len(found)}")
    return found[0]


def without_stash(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a manifest without the stash of the conversion from v1beta1, which has no meaning at v1beta2."""
    metadata = dict(document.get("metadata") or {})
    key = _graph().kind(_GROUP, document["kind"]).stash_key
    annotations = {name: text for name, text in (metadata.pop("annotations", None) or {}).items() if name != key}
    return {**document, "metadata": metadata | ({"annotations": annotations} if annotations else {})}


def _profiles(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the profiles of a file, each with its place."""
    from restow.conversion.manifests import objects_of

    for number, document in enumerate(documents_of(file), 1):
        for pointer, item in objects_of(document.data):
            if _is_profile(item):
                yield f"{file}:{document.line}: document {number}{f' ({pointer})' if pointer else ''}", item


def _is_profile(document: dict[str, Any]) -> bool:
    return document.get("kind") in _KINDS and str(document.get("apiVersion", "")).rpartition("/")[0] == _GROUP


def _read(document: dict[str, Any], where: str, *, keyed: bool) -> Profile:
    from restow.cloudprofile.findings import FindingType, ValidationFinding
    from restow.crds.decoding import schema_problems, with_defaults

    plain = _fitting(document, where, keyed=keyed)
    version = _crds()[document["kind"]].version(document["apiVersion"].rpartition("/")[2])
    problems = () if version is None else schema_problems(plain, version.schema)
    found = tuple(ValidationFinding(FindingType(each.type), each.field, each.detail) for each in problems)
    complete = plain if version is None else with_defaults(plain, version.schema)
    return Profile(_at_hub(complete, where, keyed=keyed), _at_hub(plain, where, keyed=keyed), found)


def _at_hub(plain: dict[str, Any], where: str, *, keyed: bool) -> Mapping[str, Any]:
    from restow.conversion import ObjectError

    try:
        converted = _graph().convert(plain, _HUB)
    except ObjectError as error:
        raise InputError(
            f"{where}: {plain['kind']} {Profile(plain, plain).name} cannot be brought to v1beta2: {error}"
        ) from error
    # A field that only v1beta2 declares passes through a conversion unchanged, and a rule reads it.
    return converted if converted is plain else _fitting(converted, where, keyed=keyed)


def _fitting(document: Any, where: str, *, keyed: bool) -> dict[str, Any]:
    """Return the document as an API server would read it.

    Raises:
        InputError: the document has values of types that the CRD does not allow.
    """
    from restow.crds import type_problems
    from restow.crds.types import without_ignored_nulls

    version = _crds()[document["kind"]].version(document["apiVersion"].rpartition("/")[2])
    if version is None:
        return dict(document)  # the conversion reports the unknown version
    problems = list(islice(type_problems(document, version.schema, keys=keyed), _MOST_PROBLEMS + 1))
    if problems:
        told = [f"{each}{_HINT if (each.wanted, each.found) in _UNQUOTED else ''}" for each in problems]
        more = ["and more"] if len(told) > _MOST_PROBLEMS else []
        raise InputError(f"{where}: {document['kind']}: {'; '.join([*told[:_MOST_PROBLEMS], *more])}")
    found: dict[str, Any] = without_ignored_nulls(document, version.schema)
    return found


@cache
def _crds() -> Mapping[str, Crd]:
    from restow.crds import Crd, cloudprofiles

    crds = map(Crd.from_document, cloudprofiles.documents().values())
    return {crd.kind: crd for crd in crds}


@cache
def _graph() -> Graph:
    from restow.cloudprofile.conversions import graph

    return graph()
