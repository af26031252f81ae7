"""The pictures of the README are those that ``make pictures`` draws."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from docs.pictures import journey, rooms, terminal
from tests.docs.blocks import ROOT

IMAGES = ROOT / "docs" / "images"
BOLD, PLAIN = "\x1b[1m", "\x1b[0m"
PRINTED = f"""\
5. What goes wrong
{BOLD}   $ kubectl apply --server-side --field-manager=platform -f a.yaml{PLAIN}
     200 OK
{BOLD}   $ kubectl apply --server-side --field-manager=platform -f b.yaml{PLAIN}
     500: cannot convert
     at all
   (0.1 s)

{BOLD}   $ restow migrate widgets.example.com{PLAIN}
   It waits 5.0 s.
NAME     FAILED
widgets  0
   Clients made 3 writes.
     10 of 10 checks passed.
{BOLD}   $ kubectl apply --server-side --field-manager=platform -f c.yaml{PLAIN}
     200 OK; owners: platform
{BOLD}   $ restow migrate again{PLAIN}
not shown
{BOLD}   $ restow ready one{PLAIN}
not shown
{BOLD}   $ restow ready widgets.example.com{PLAIN}
yes
     2 of 2 checks passed.
"""


def test_a_picture_has_commands_and_what_they_print() -> None:
    """Remarks of the demo, or half of a table, would stand in a terminal that shows only restow."""
    shown = [[line.plain for line in block] for block in terminal.blocks(PRINTED)]
    assert shown == [
        ["$ restow migrate widgets.example.com", "NAME     FAILED", "widgets  0"],
        ["$ restow ready widgets.example.com", "yes"],
    ]


def test_a_picture_has_the_apply_that_fails_and_the_one_that_succeeds() -> None:
    """The picture would compare two applies that end alike, or show half of an answer."""
    shown = [[line.plain for line in block] for block in terminal.applied(PRINTED)]
    command = "$ kubectl apply --server-side --field-manager=platform -f"
    assert shown == [
        [f"{command} b.yaml", "  500: cannot convert", "  at all"],
        [f"{command} c.yaml", "  200 OK; owners: platform"],
    ]
    with pytest.raises(terminal.PictureError, match="fails"):
        terminal.applied(PRINTED.replace("500", "200"))


def test_a_command_that_the_demo_does_not_run_is_named() -> None:
    """An empty picture would be written after a change of the demo."""
    with pytest.raises(terminal.PictureError, match="does not run restow ready"):
        terminal.blocks(PRINTED.replace("restow ready", "restow status"))


@pytest.mark.parametrize("theme", journey.THEMES)
def test_the_journey_is_drawn_as_it_is_stored(theme: str) -> None:
    """A change of the drawing without ``make pictures`` would leave the README with the old picture."""
    assert (IMAGES / f"journey-{theme}.svg").read_text() == journey.journey(theme)


@pytest.mark.parametrize("theme", journey.THEMES)
def test_the_map_has_the_rooms_and_layers_of_the_code(theme: str) -> None:
    """A new layer would be missing on the map (``python -m docs.pictures rooms``); lines change with every commit."""
    stored = ET.fromstring((IMAGES / f"rooms-{theme}.svg").read_text())
    drawn = ET.fromstring(rooms.rooms(theme, dict.fromkeys(rooms.BUDGETS, 0)))

    def named(picture: ET.Element) -> list[str]:
        return [each.text or "" for each in picture.iter() if each.get("class") in ("room", "layer")]

    assert named(stored) == named(drawn)


@pytest.mark.parametrize("theme", terminal.THEMES)
def test_the_terminal_shows_each_command(theme: str) -> None:
    """A picture that is no XML, or that loads something from elsewhere, is a gap in the README."""
    text = (IMAGES / f"terminal-{theme}.svg").read_text()
    shown = "".join(ET.fromstring(text).itertext()).replace("\xa0", " ")
    assert [command for command in terminal.SHOWN if f"$ {command}" not in shown] == []
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
