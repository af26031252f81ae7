"""ConversionReviews of files: answered as the webhook would answer, compared with a recorded answer, and made."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import msgspec

from restow.cli.exits import Exit, InputError
from restow.cli.files import ManifestSource, Unreadable, found_in, read_text
from restow.cli.printing import echo, print_data, print_text, say
from restow.conversion import Graph, ReviewError, convert_review
from restow.conversion.manifests import NoTargetVersion, Targets, read, write_yaml
from restow.crds.documents import NotYaml
from restow.offline.differences import changes
from restow.offline.options import Conversions

_API_VERSION = "apiextensions.k8s.io/v1"


def answer_review(graph: Graph, source: ManifestSource, golden: Path | None, form: str) -> Exit:
    """Print the answer to a review, or how it differs from a recorded one; return the exit code.

    Raises:
        InputError: a file cannot be read, or the manifest is no review.
    """
    try:
        answer = msgspec.json.decode(convert_review(graph, _body(source)))
    except ReviewError as error:
        raise InputError(f"{source}: {error}") from error
    result = answer["response"]["result"]
    if golden is None:
        print_review(answer, form)
        if result["status"] != "Success":
            say(result["message"], style="red")
            return Exit.FAILURES
        return Exit.DONE
    recorded = ManifestSource(golden, named=True)
    found = changes(_data(recorded, _text(recorded)), answer)
    for change in found:
        echo(change.line())
    return Exit.FAILURES if found else Exit.DONE


def make_review(loaded: Conversions, sources: list[ManifestSource], crd: str, to: str) -> dict[str, Any]:
    """Make a review of the objects of a kind; the same input gives the same review.

    Raises:
        InputError: the conversions have no such kind or version, or the manifests have no object of the kind.
    """
    group, kind = _kind(loaded, crd)
    try:
        target = Targets.of(loaded.graph, f"{group}/{to.rpartition('/')[2]}").versions.get((group, kind))
    except NoTargetVersion as error:
        raise InputError(f"--to: {error}") from error
    if target is None:
        raise InputError(f"--to: {kind}.{group} has no version {to}")
    objects = [
        found.value
        for found in found_in(sources)
        if found.value.get("kind") == kind and str(found.value.get("apiVersion")).rpartition("/")[0] == group
    ]
    if not objects:
        raise InputError(f"there is no {kind} of {group} in {', '.join(map(str, sources))}")
    request = {"desiredAPIVersion": target, "objects": objects}
    identity = uuid.uuid5(uuid.NAMESPACE_URL, msgspec.json.encode(request, order="sorted").decode())
    return {"apiVersion": _API_VERSION, "kind": "ConversionReview", "request": {"uid": str(identity), **request}}


def print_review(review: dict[str, Any], form: str) -> None:
    """Print a review as ``json`` or ``yaml``."""
    if form == "json":
        print_data(review, form)
    else:
        print_text(write_yaml(review))


def _body(source: ManifestSource) -> bytes:
    """Return a review as JSON; a review in JSON stays unchanged, byte for byte."""
    text = _text(source)
    if text.lstrip("\ufeff \t\r\n").startswith("{"):
        return text.removeprefix("\ufeff").encode()
    return msgspec.json.encode(_data(source, text))


def _text(source: ManifestSource) -> str:
    try:
        return read_text(source)
    except Unreadable as error:
        raise InputError(f"{source}: {error}") from error


def _data(source: ManifestSource, text: str) -> Any:
    try:
        documents = read(text.removeprefix("\ufeff"))
    except NotYaml as error:
        raise InputError(f"{source}:{error.line}: no YAML: {error.problem}") from error
    if len(documents) != 1 or documents[0].problem:
        raise InputError(f"{source}: give one document that JSON can say")
    return documents[0].data


def _kind(loaded: Conversions, name: str) -> tuple[str, str]:
    """Return the group and kind for the name of a CRD or for ``Kind.group``."""
    names = {f"{kind}.{group}": (group, kind) for group, kind in loaded.graph.kinds}
    known = names | {crd.name: (crd.group, crd.kind) for crd in loaded.crds if (crd.group, crd.kind) in names.values()}
    if name not in known:
        hint = "" if loaded.crds else " (with --crd, the CRDs' names are known too)"
        raise InputError(f"--make-review: the registry converts {', '.join(known)}, not {name}{hint}")
    return known[name]
