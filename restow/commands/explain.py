"""``restow explain``: show the origin of each field of a converted object."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from restow.cli import options
from restow.cli.exits import Exit, InputError
from restow.cli.files import Found, found_in, sources_of
from restow.cli.printing import echo, print_data, print_heading, print_table, say
from restow.offline import options as offline

if TYPE_CHECKING:
    from restow.conversion.explain import Explanation, ResultLeaf, SourceLeaf, Steps

_VALUE_WIDTH = 40
_STEP = re.compile(r'\.?([^.\[\]]+)|\[("(?:[^"\\]|\\.)*"|\d+)\]')


@click.command("explain")
@offline.manifests
@offline.target
@offline.conversions
@click.option(
    "--why", metavar="PATH", help="Explain only this field of the result or of the source: /spec/x or spec.x."
)
@options.output
def command(**flags: Any) -> None:
    """Explain where each field of a converted object came from.

    A leaf of the result is copied, moved, computed by a rule, restored from the stash, a constant or a default. Where a
    rule holds for one branch of a union, "branch by" names the field that decides. A leaf of the source that is missing
    in the result is dropped (with the reason), stashed or implied. With --crd, the command also shows what the API
    server drops and adds when the result is written.

    Exit codes: 0 explained; 1 an object could not be converted; 2 usage, or nothing to convert.

    \b
    restow explain -f widget.yaml --to v1beta1 --registry example.conversions:registry --why spec.size
    """
    from restow.conversion import ObjectError
    from restow.conversion.explain import explain
    from restow.conversion.manifests import NoTargetVersion, Targets

    sources = sources_of(flags["files"], recursive=flags["recursive"])
    why = None if flags["why"] is None else _steps(flags["why"])
    loaded = offline.loaded(flags)
    try:
        targets = Targets.of(loaded.graph, flags["to"], loaded.crds)
    except NoTargetVersion as error:
        raise InputError(f"--to: {error}") from error
    explained: list[tuple[Found, Explanation]] = []
    code = Exit.DONE
    for found in found_in(sources):
        target = targets.of_object(found.value.get("apiVersion"), found.value.get("kind"))
        if target is None or target == found.value["apiVersion"]:
            continue
        try:
            explained.append((found, explain(loaded.graph, found.value, target)))
        except ObjectError as error:
            say(f"{found.where}: {found.title} cannot be converted to {target}: {error.with_line}", style="red")
            code = Exit.FAILURES
    if not explained and code is Exit.DONE:
        raise InputError(f"there is nothing to convert to {flags['to']} in {', '.join(map(str, sources))}")
    told = [(found, explanation, *_asked(explanation, why)) for found, explanation in explained]
    if why is not None and explained and not any(leaves or source_leaves for _, _, leaves, source_leaves in told):
        raise InputError(f"--why {flags['why']}: there is no such field, neither in the result nor in the source")
    if flags["output"] == "table":
        for number, each in enumerate(told):
            if number:
                echo()
            _show(*each, whole=why is None)
    else:
        print_data({"objects": [_json(*each, whole=why is None) for each in told]}, flags["output"])
    raise SystemExit(int(code))


def _steps(text: str) -> Steps:
    """Read a JSON pointer, or a path in restow's own notation."""
    import msgspec

    from restow.conversion.model.fieldpath import pointed

    if text.startswith("/"):
        return tuple(int(name) if name.isdigit() else name for name in pointed(text))
    steps: list[str | int] = []
    position = 0
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None:
            msg = f"--why takes a JSON pointer (/spec/ports/0) or a path (spec.ports[0]), not {text!r}"
            raise click.UsageError(msg)
        name: str | int = step[1] or msgspec.json.decode(step[2])
        steps.append(name)
        position = step.end()
    return tuple(steps)


def _asked(explanation: Explanation, why: Steps | None) -> tuple[Sequence[ResultLeaf], Sequence[SourceLeaf]]:
    """Return the leaves to show: all of them, or those at or below a field or with their origin there."""
    from restow.conversion.model.fieldpath import pointer

    if why is None:
        return explanation.leaves, explanation.source_leaves

    def about(place: Steps) -> bool:
        return pointer(place[: len(why)]) == pointer(why)

    def concerns(leaf: ResultLeaf) -> bool:
        return any(map(about, (leaf.place, *leaf.origin.sources, *leaf.origin.deciders)))

    leaves = [leaf for leaf in explanation.leaves if concerns(leaf)]
    return leaves, [leaf for leaf in explanation.source_leaves if about(leaf.place)]


def _show(
    found: Found,
    explanation: Explanation,
    leaves: Sequence[ResultLeaf],
    source_leaves: Sequence[SourceLeaf],
    *,
    whole: bool,
) -> None:
    import msgspec

    title = f"{found.title}: {' -> '.join(explanation.route)}"
    print_heading(title)
    print_table(("field", "value", "how", "from", "rule"), (_leaf_row(leaf) for leaf in leaves))
    if source_leaves:
        echo()
        rows = (
            (leaf.pointer, leaf.ending.value, leaf.where or leaf.reason or "-", leaf.rule) for leaf in source_leaves
        )
        print_table(("of the source", "what became of it", "where, why", "rule"), rows)
    if not whole:
        return
    for title, stash in (("stash before", explanation.stash_before), ("stash after", explanation.stash_after)):
        if stash is not None:
            echo()
            echo(f"{title}: {msgspec.json.encode(stash, order='sorted').decode()}")
    for entry in explanation.doubtful:
        echo()
        echo(
            f"Lost: {', '.join(entry.fields)} of an item of {entry.path}. After an edit it is unclear which item it is "
            "of. Set it again. With key= in the rules.each of the list, no edit can lose it."
        )
    for failed in explanation.kept:
        echo()
        echo(f"Not converted, and kept as it is: {failed}")
    if explanation.pruned:
        echo()
        echo(f"The API server will drop {', '.join(explanation.pruned)}: no fields of this version.")
    if explanation.defaulted:
        filled = ", ".join(f"{each.path} = {_short(each.value)}" for each in explanation.defaulted)
        echo()
        echo(f"The API server will fill in {filled}.")
    for waived in explanation.waived:
        echo()
        echo(f"{waived.problem}, and missing: {waived.reason}.")


def _leaf_row(leaf: ResultLeaf) -> tuple[str, ...]:
    from restow.conversion.explain import OriginKind
    from restow.conversion.model.fieldpath import pointer

    origin = leaf.origin
    sources = ", ".join(pointer(source) for source in origin.sources) if origin.how is not OriginKind.COPIED else ""
    deciders = f"(branch by {', '.join(map(pointer, origin.deciders))})" if origin.deciders else ""
    came_from = " ".join(filter(None, (sources, deciders)))
    return leaf.pointer, _short(leaf.value), origin.how.value, came_from or "-", "; ".join(origin.rules) or "-"


def _short(value: Any) -> str:
    import msgspec

    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _VALUE_WIDTH else text[: _VALUE_WIDTH - 1] + "…"


def _json(
    found: Found,
    explanation: Explanation,
    leaves: Sequence[ResultLeaf],
    source_leaves: Sequence[SourceLeaf],
    *,
    whole: bool,
) -> dict[str, Any]:
    told: dict[str, Any] = {
        "file": str(found.source),
        "line": found.line,
        "pointer": found.pointer,
        "object": found.title,
        "route": list(explanation.route),
        "leaves": [_leaf_json(leaf) for leaf in leaves],
        "fates": [_source_leaf_json(leaf) for leaf in source_leaves],
    }
    if whole:
        told |= {
            "stash": {"before": explanation.stash_before, "after": explanation.stash_after},
            "kept": list(explanation.kept),
            "lost": [{"path": each.path, "fields": list(each.fields)} for each in explanation.doubtful],
            "server": {
                "drops": list(explanation.pruned),
                "fillsIn": [{"path": each.path, "value": each.value} for each in explanation.defaulted],
                **({"waived": _waived_json(explanation)} if explanation.waived else {}),
            },
        }
    return told


def _waived_json(explanation: Explanation) -> list[dict[str, str]]:
    return [{"problem": each.problem, "reason": each.reason} for each in explanation.waived]


def _leaf_json(leaf: ResultLeaf) -> dict[str, Any]:
    from restow.conversion.model.fieldpath import pointer

    return {
        "pointer": leaf.pointer,
        "value": leaf.value,
        "how": leaf.origin.how.value,
        "from": [pointer(source) for source in leaf.origin.sources],
        "rules": list(leaf.origin.rules),
    } | ({"branchBy": [pointer(decider) for decider in leaf.origin.deciders]} if leaf.origin.deciders else {})


def _source_leaf_json(leaf: SourceLeaf) -> dict[str, Any]:
    told = {"pointer": leaf.pointer, "ending": leaf.ending.value, "rule": leaf.rule}
    return told | ({"where": leaf.where} if leaf.where else {}) | ({"reason": leaf.reason} if leaf.reason else {})
