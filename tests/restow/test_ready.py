"""What ``restow ready`` prints."""

from __future__ import annotations

import click
import pytest

from restow.cli.logs import remember
from restow.commands.ready import show
from restow.migrator.planning.ready import Readiness

NOT_SEEN, STANDING = "secrets were not looked at", "its clients cannot all be seen"


def answer(
    unserving: tuple[str, ...] = (), removal: tuple[str, ...] = (), owners: int = 0, *, served: bool = True
) -> Readiness:
    """An answer with a note about what was not seen, and one that holds for every served version."""
    notes, count = (NOT_SEEN, STANDING), {"alice": owners} if owners else {}
    names = "widgets.example.com", "v1"
    return Readiness(*names, unserving, removal, notes, 7, count, served=served, standing=(STANDING,))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (answer(), "can be unserved now, then removed: 7 objects looked at."),
        (answer(served=False), "can be removed now: 7 objects looked at."),
        (
            answer((), ("proof", "owned"), 1),
            "can be unserved now, not removed yet: 7 objects looked at; 1 managedFields entry is at it.",
        ),
        (answer((), ("proof",), served=False), "cannot be removed yet: 7 objects looked at."),
        (answer(("named",), ("named", "proof")), "cannot be unserved or removed yet: 7 objects looked at."),
    ],
)
def test_the_answer_is_one_sentence(given: Readiness, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever asks whether a version may go reads the answer before anything else, and each reason once."""
    show(given, "table")
    shown = capsys.readouterr()
    assert shown.out == f"v1 of widgets.example.com {said}\n"
    reasons = dict.fromkeys((*given.against_unserving, *given.against_removal))
    assert shown.err.splitlines() == [*reasons, NOT_SEEN]


def test_what_holds_for_every_version_is_said_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    """The same note under every answer hides the one that names what was not looked at."""
    command = click.Command("ready")
    option = click.Option(["-v", "verbosity"])
    with click.Context(command) as context:
        remember(context, option, 1)
        show(answer(), "table")
    assert capsys.readouterr().err.splitlines() == [NOT_SEEN, STANDING]
