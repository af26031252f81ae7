"""``restow convert``: convert manifests to another version, or answer a ConversionReview."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from restow.cli.exits import Exit, InputError
from restow.offline import options as offline

if TYPE_CHECKING:
    from restow.cli.files import ManifestSource

_OF_MANIFESTS = ("to", "in_place", "diff", "check", "no_stash")


@click.command("convert")
@offline.manifests
@partial(offline.target, required=False)
@offline.conversions
@click.option("--in-place", is_flag=True, help="Write the files; a file with an object that fails stays unchanged.")
@click.option("--diff", is_flag=True, help="Print the changes of each field instead of the manifests.")
@click.option("--check", is_flag=True, help="Write nothing; list the files that would change, and exit with 3.")
@click.option("--no-stash", is_flag=True, help="Drop what VERSION cannot represent, and report what is lost.")
@click.option("--review", is_flag=True, help="Answer the ConversionReview in the file as the webhook would.")
@click.option(
    "--golden",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --review: recorded response; print the differences from it, and exit with 1 if there are any.",
)
@click.option(
    "--make-review",
    "make",
    metavar="CRD",
    help="Write a ConversionReview with the objects of this CRD (or Kind.group) from the files.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["yaml", "json"]),
    help="Print the data in this format instead of the edited text; also for --diff. Reviews are JSON without it.",
)
def command(**flags: Any) -> None:
    """Convert manifests to another version, with comments and order.

    Everything that the conversion does not change stays byte for byte: comments, quotes, anchors, blank lines, other
    kinds. The stash annotation keeps what VERSION cannot represent, so that nothing is lost on the way back. Files that
    are not YAML, such as templates, are listed and stay unchanged.

    A rule computes nothing from a template expression ({{ }}, ${ }, $( )): such a field stays as it is, is reported,
    and has to be converted by hand. Other kinds of the group, Kustomize patches and targets, and manifests in
    ConfigMaps are named.

    With --review, replay the requests of an API server; with --golden, compare the response with a recorded one.
    --make-review writes the request.

    Exit codes: 0 converted; 1 an object or a field could not be converted, and is printed unchanged, or a response is a
    failure or differs from --golden; 2 usage; 3 files would change (--check).

    \b
    restow convert -f widget.yaml --to v1beta1 --registry example.conversions:registry
    restow convert -f deploy/ -R --to v1beta1 --registry example.conversions:registry --in-place
    restow convert --make-review widgets.example.com -f samples/ --to v1beta1 --registry example.conversions:registry
    restow convert --review -f request.json --registry example.conversions:registry --golden response.json
    """
    _insist(flags)
    from restow.cli.files import sources_of

    sources = sources_of(flags["files"], recursive=flags["recursive"])
    if flags["in_place"] and any(source.is_stdin for source in sources):
        msg = "--in-place needs files, not stdin"
        raise click.UsageError(msg)
    loaded = offline.loaded(flags)
    convert = _review if flags["review"] or flags["make"] else _manifests
    raise SystemExit(int(convert(flags, loaded, sources)))


def _insist(flags: dict[str, Any]) -> None:
    """Refuse flags that contradict each other.

    Raises:
        click.UsageError: they do.
    """
    if flags["in_place"] and flags["check"]:
        msg = "--in-place writes and --check does not: give one"
        raise click.UsageError(msg)
    if flags["review"] and any(flags[name] for name in (*_OF_MANIFESTS, "make")):
        msg = "--review answers a review, which says how to convert: give it with -f, --golden and -o only"
        raise click.UsageError(msg)
    if flags["make"] and any(flags[name] for name in _OF_MANIFESTS if name != "to"):
        msg = "--make-review writes a review: give it with -f, --to and -o only"
        raise click.UsageError(msg)
    if flags["golden"] and not flags["review"]:
        msg = "--golden is the recorded response of a review: give --review too"
        raise click.UsageError(msg)
    if flags["to"] is None and not flags["review"]:
        msg = "Missing option '--to'."
        raise click.UsageError(msg)


def _review(flags: dict[str, Any], loaded: offline.Conversions, sources: list[ManifestSource]) -> Exit:
    """Answer a review, or make one."""
    from restow.offline.reviews import answer_review, make_review, print_review

    form = flags["output"] or "json"
    if flags["make"]:
        print_review(make_review(loaded, sources, flags["make"], flags["to"]), form)
        return Exit.DONE
    if len(sources) != 1:
        msg = "give one review"
        raise click.UsageError(msg)
    return answer_review(loaded.graph, sources[0], flags["golden"], form)


def _manifests(flags: dict[str, Any], loaded: offline.Conversions, sources: list[ManifestSource]) -> Exit:
    """Convert manifests, and write or print what the flags ask for."""
    from restow.conversion.manifests import NoTargetVersion, Targets
    from restow.offline.conversion import ManifestConversion

    try:
        targets = Targets.of(loaded.graph, flags["to"], loaded.crds)
    except NoTargetVersion as error:
        raise InputError(f"--to: {error}") from error
    run = ManifestConversion(loaded.graph, targets, keeps_stash=not flags["no_stash"])
    for source in sources:
        run.convert(source)
    if flags["in_place"]:
        run.write()
    if flags["diff"]:
        run.show_changes(flags["output"])
    elif flags["check"]:
        run.show_changed()
    elif not flags["in_place"]:
        run.show(flags["output"])
    run.tell()
    return run.exit(check=flags["check"])
