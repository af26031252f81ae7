"""``restow review``: answer a ConversionReview from a file as the webhook would."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import click
import msgspec

from restow.cli.exits import Exit, InputError
from restow.cli.files import ManifestSource, Unreadable, found_in, read_text, sources_of
from restow.cli.printing import echo, print_data, print_text, say
from restow.conversion import ReviewError, convert_review
from restow.conversion.manifests import NoTargetVersion, NotYaml, Targets, read, write_yaml
from restow.offline import options as offline
from restow.offline.differences import changes

_API_VERSION = "apiextensions.k8s.io/v1"


@click.command("review")
@offline.manifests
@offline.conversions
@click.option(
    "--diff",
    "golden",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Recorded response: print the differences from it instead, and exit with 1 if there are any.",
)
@click.option(
    "--make", metavar="CRD", help="Write a review with the objects of this CRD (or Kind.group) from the files."
)
@click.option("--to", metavar="VERSION", help="With --make: the desired version of the review.")
@click.option("-o", "--output", type=click.Choice(["json", "yaml"]), default="json", help="Format of the result.")
def command(**flags: Any) -> None:
    """Answer a ConversionReview from a file as the webhook would.

    Use it to replay the requests of an API server, and for golden files: --make writes the request, --diff compares the
    response with a recorded one.

    Exit codes: 0 answered; 1 the response is a failure, or differs from --diff; 2 usage.

    \b
    restow review -f request.json --registry example.conversions:registry --diff response.json
    restow review -f samples/ --make widgets.example.com --to v1beta1 --registry example.conversions:registry
    """
    if (flags["make"] is None) is not (flags["to"] is None):
        msg = "--make and --to belong together"
        raise click.UsageError(msg)
    sources = sources_of(flags["files"], recursive=flags["recursive"])
    loaded = offline.loaded(flags)
    if flags["make"] is not None:
        _print(_request(loaded, sources, flags["make"], flags["to"]), flags["output"])
        return
    if len(sources) != 1:
        msg = "give one review, or --make one of objects"
        raise click.UsageError(msg)
    try:
        answer = msgspec.json.decode(convert_review(loaded.graph, _body(sources[0])))
    except ReviewError as error:
        raise InputError(f"{sources[0]}: {error}") from error
    raise SystemExit(int(_tell(answer, flags["golden"], flags["output"])))


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


def _tell(answer: Any, golden: Path | None, form: str) -> Exit:
    result = answer["response"]["result"]
    if golden is None:
        _print(answer, form)
        if result["status"] != "Success":
            say(result["message"], style="red")
            return Exit.FAILURES
        return Exit.DONE
    source = ManifestSource(golden, named=True)
    found = changes(_data(source, _text(source)), answer)
    for change in found:
        echo(change.line())
    return Exit.FAILURES if found else Exit.DONE


def _request(loaded: offline.Conversions, sources: list[ManifestSource], crd: str, to: str) -> dict[str, Any]:
    """Make a review of the objects of a kind; the same input gives the same review."""
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


def _kind(loaded: offline.Conversions, name: str) -> tuple[str, str]:
    """Return the group and kind for the name of a CRD or for ``Kind.group``."""
    names = {f"{kind}.{group}": (group, kind) for group, kind in loaded.graph.kinds}
    known = names | {crd.name: (crd.group, crd.kind) for crd in loaded.crds if (crd.group, crd.kind) in names.values()}
    if name not in known:
        hint = "" if loaded.crds else " (with --crd, the CRDs' names are known too)"
        raise InputError(f"--make: the registry converts {', '.join(known)}, not {name}{hint}")
    return known[name]


def _print(data: Any, form: str) -> None:
    if form == "json":
        print_data(data, form)
    else:
        print_text(write_yaml(data))
