"""The sides of ``restow diff``: CRDs of files, folders, standard input, a commit, or the cluster."""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Final

import click

from restow.cli.exits import InputError
from restow.cli.registries import load_crds
from restow.conversion.certificates.wiring.crd import COMPOSITES
from restow.crds import Crd
from restow.crds.composites import crd_of_composite, is_composite
from restow.kube.cluster import Cluster
from restow.kube.pager import list_pages
from restow.migrator.requests.crdaccess import list_crds

CLUSTER: Final = "cluster"
_PAGE: Final = 50  # a definition can be a megabyte


def crds_of(source: str) -> dict[str, Crd]:
    """Return the CRDs of a file, a folder, standard input or a commit, by name."""
    scheme, _, place = source.partition(":")
    if scheme == "git" and place and not Path(source).exists():
        found = _of_commit(*_commit(source, place))
    else:
        if source != "-" and not Path(source).exists():
            msg = f"{source!r} is no file, no folder, no git:REF:PATH, and not {CLUSTER!r}"
            raise click.UsageError(msg)
        found = load_crds([Path(source)], composites=True)
    twice = [name for name, count in Counter(crd.name for crd in found).items() if count > 1]
    if twice:
        raise InputError(f"{source} holds the CRD {twice[0]} more than once: name the file or folder that is meant")
    return {crd.name: crd for crd in found}


def _commit(source: str, place: str) -> tuple[str, str]:
    reference, colon, path = place.partition(":")
    if not colon or not reference or reference.startswith("-"):
        msg = f"{source!r} must be git:REF:PATH, git:v1.2.0:config/crd for instance"
        raise click.UsageError(msg)
    return reference, path or "."


def _of_commit(reference: str, path: str) -> tuple[Crd, ...]:
    """Return the CRDs of a file or folder as a commit of the repository here has it."""
    command = ["git", "archive", "--format=tar", reference, "--", path]
    try:
        found = subprocess.run(command, capture_output=True, check=True)  # noqa: S603 the reference is no flag
    except FileNotFoundError as error:
        raise InputError("git is not installed, and git:REF:PATH needs it") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        raise InputError(f"git:{reference}:{path} cannot be read ({said[-1] if said else 'git failed'})") from error
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=BytesIO(found.stdout)) as archive:
            archive.extractall(folder, filter="data")
        try:
            return load_crds([Path(folder) / path], composites=True)
        except InputError as error:
            raise InputError(error.message.replace(f"{folder}/", f"git:{reference}:")) from error


async def served_crds(cluster: Cluster, given: dict[str, Crd]) -> dict[str, Crd]:
    """Return the CRDs of the cluster that ``given`` names; for an XRD the XRD, as the CRD has Crossplane's fields."""
    crds = {crd.name: crd for crd in await list_crds(cluster)}
    found = {name: crd for name, crd in crds.items() if name in given}
    if any(is_composite(crd) for crd in given.values()) and COMPOSITES.full_name in crds:
        async for page in list_pages(cluster, COMPOSITES, limit=_PAGE):
            live = (crd_of_composite({"apiVersion": COMPOSITES.api_version, **item}) for item in page)
            found |= {crd.name: crd for crd in live if crd.name in given and is_composite(given[crd.name])}
    return found
