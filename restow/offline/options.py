"""The common flags of the offline commands: conversions and files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from restow.cli import options

if TYPE_CHECKING:
    from restow.cli.registries import ConversionSource
    from restow.conversion import Graph
    from restow.crds import Crd

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Conversions:
    """An author's conversions, and the CRDs given with them."""

    graph: Graph
    crds: tuple[Crd, ...]


def conversions(function: _F) -> _F:
    """Add --registry, --rules and --crd; ``loaded`` reads them."""
    crds = click.option(
        "--crd",
        "crd_files",
        multiple=True,
        type=click.Path(exists=True, path_type=Path),
        metavar="FILE",
        help="Manifest, or folder of manifests, of the CRDs that the conversions are for; repeatable.",
    )
    return options.conversion_source(crds(function))


def loaded(flags: dict[str, Any]) -> Conversions:
    """Load the conversions that the flags of ``conversions`` name, and remove these flags from ``flags``.

    Raises:
        click.UsageError, InputError: no conversions are named, or they or a CRD file cannot be used.
    """
    from restow.cli.registries import load_crds

    crds = load_crds(flags.pop("crd_files"))
    return Conversions(source(flags).graph(crds), crds)


def source(flags: dict[str, Any]) -> ConversionSource:
    """Return the source that ``--registry`` or ``--rules`` names, and remove both from ``flags``.

    Raises:
        click.UsageError: neither flag was given, or both.
    """
    named = options.source_of(flags)
    if named is None:
        msg = (
            "say what to convert with: --rules FILE, a file of ConversionRules, or --registry module:attribute, the "
            "Registry or Graph that your webhook serves "
            "(for instance --registry example.conversions:registry, from the folder that holds example/)"
        )
        raise click.UsageError(msg)
    return named


def manifests(function: _F) -> _F:
    """Add -f and -R."""
    for each in (
        click.option("-R", "--recursive", is_flag=True, help="Folders with all folders in them."),
        click.option(
            "-f",
            "--filename",
            "files",
            multiple=True,
            type=click.Path(exists=True, allow_dash=True, path_type=Path),
            metavar="FILE",
            help="Manifest, folder of manifests (*.yaml, *.yml, *.json), or - for stdin; repeatable.",
        ),
    ):
        function = each(function)
    return function


def target(function: _F, *, required: bool = True) -> _F:
    """Add --to."""
    return click.option(
        "--to",
        required=required,
        metavar="VERSION",
        help="The version to convert to: v1beta2 for every kind that has it, or group/v1beta2.",
    )(function)
