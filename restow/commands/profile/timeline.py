"""``restow profile timeline``: draw the stages of every version over time, on the terminal or as SVG."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from restow.cli.escapes import visible
from restow.cli.exits import InputError
from restow.commands.profile.inputs import Profile, at_option, files_option, moment, offers, read_profiles

if TYPE_CHECKING:
    from rich.console import Console

    from restow.cloudprofile.objects import Object
    from restow.cloudprofile.versions.chart import ChartRow, ChartWindow

_STYLES = {
    "unavailable": "dim",
    "preview": "black on bright_blue",
    "supported": "black on green",
    "deprecated": "black on yellow",
    "expired": "white on red",
}
_WIDTH_ELSEWHERE = 100  # columns, without a terminal


@click.command("timeline")
@files_option
@at_option
@click.option("--from", "start", metavar="TIME", help="Where it begins; default: a month before the first stage.")
@click.option("--to", "end", metavar="TIME", help="Where it ends; default: a month after the last stage's start.")
@click.option(
    "--svg",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write an SVG chart of the (one) profile instead.",
)
def command(files: tuple[Path, ...], at: str | None, start: str | None, end: str | None, svg: Path | None) -> None:
    """Draw the stages of every version of profiles over time; a mark on top shows the time of --at.

    A NamespacedCloudProfile is drawn with the versions of its parent, which the manifests must have.

    Exit codes: 0 drawn; 1 an API server would refuse a profile; 2 usage, or a manifest that is none.

    \b
    restow profile timeline -f cloudprofile.yaml --svg timeline.svg
    """
    from restow.cloudprofile.versions.chart import rows_of, svg_chart

    now = moment(at)
    profiles = read_profiles(files)
    drawn = [*offers(profiles)]
    if svg is not None:
        children = [each for each in drawn if each[0].kind == "NamespacedCloudProfile"]
        drawn = children if len(children) == 1 else drawn  # the other profiles are only parents
        if len(drawn) != 1:
            msg = f"--svg draws one profile, and the manifests have {len(drawn)}"
            raise click.UsageError(msg)
    for profile, spec in drawn:
        try:
            window = _window(spec, now, start, end)
            rows = rows_of(spec, window)
        except ValueError as error:
            raise InputError(f"{profile.kind} {profile.name}: {error}") from error
        if svg is not None:
            svg.write_text(svg_chart(f"{profile.kind} {profile.name}", rows, window, now), encoding="utf-8")
        else:
            _print(profile, rows, window, now)


def _window(spec: Object, now: datetime, start: str | None, end: str | None) -> ChartWindow:
    from restow.cloudprofile.versions.chart import ChartWindow, window_of

    whole = window_of(spec, now)
    window = ChartWindow(moment(start) if start else whole.start, moment(end) if end else whole.end)
    if window.start >= window.end:
        msg = "--from must be before --to"
        raise click.UsageError(msg)
    return window


def _print(profile: Profile, rows: tuple[ChartRow, ...], window: ChartWindow, now: datetime) -> None:
    from rich.text import Text

    from restow.cli.console import console
    from restow.cloudprofile.versions.chart import LETTERS, text_chart

    terminal = console()
    names = max((len(visible(row.group)) for row in rows), default=0)
    versions = max((len(visible(row.version)) for row in rows), default=0)
    left = names + versions + 4
    width = max(20, (terminal.width if terminal.is_terminal else _WIDTH_ELSEWHERE) - left)
    terminal.print(Text(visible(f"{profile.kind} {profile.name}"), style="bold"))
    _print_scale(terminal, window, now, left, width)
    for group, version, columns in text_chart(rows, window, now, width):
        line = Text(f"{visible(group):<{names}}  {visible(version):<{versions}}  ")
        for classification in columns:
            line.append(LETTERS[classification], style=_STYLES[classification])
        terminal.print(line)
    legend = Text(" " * left)
    for classification, letter in LETTERS.items():
        legend.append(letter, style=_STYLES[classification])
        legend.append(f" {classification.value}  ")
    terminal.print(legend)


def _print_scale(terminal: Console, window: ChartWindow, now: datetime, left: int, width: int) -> None:
    from rich.text import Text

    first, last = f"{window.start:%Y-%m-%d}", f"{window.end:%Y-%m-%d}"
    terminal.print(Text(" " * left + first + last.rjust(width - len(first)), style="dim"))
    share = window.share(now)
    if 0 <= share <= 1:
        terminal.print(Text(" " * (left + min(width - 1, int(share * width))) + f"▼ {now:%Y-%m-%d}", style="dim"))
