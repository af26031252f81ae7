"""What ``restow plan`` prints, and its exit codes."""

from __future__ import annotations

from collections import Counter

import click
import pytest

from restow.cli.exits import Exit
from restow.cli.options import MOST_SAMPLED, sample_size
from restow.commands.plan import Telling, costs, show
from restow.commands.plan import _exit as exit_code
from restow.migrator.model.report import PlanCheck, PlanFinding, Requests
from restow.migrator.planning.plan import Measured, MigrationPlan
from tests.migrator import builders as b

CONTEXT = click.Context(click.Command("plan"))
OPTION = click.Option(["--sample"])
WARNING = PlanFinding(check=PlanCheck.FIELDS, message="fields would be pruned")
ERROR = PlanFinding(check=PlanCheck.OBJECTS, message="default/w would fail", fails=True)
MEASURED = Measured(writes=50, write_s=0.25, concurrency=32)


def a_plan(*findings: PlanFinding, due: bool = True, measured: Measured | None = None, **more: str) -> MigrationPlan:
    """A plan for 3,000 objects, all of them due or none."""
    found = MigrationPlan(
        crd=b.crd(stored=("v1", "v2")),
        objects=3000,
        steps=Counter({("combined-patch",) if due else (): 3000}),
        reencode=due,
        prune=due,
        requests=Requests(list=6),
        tried=50 if measured else 0,
        measured=measured or Measured(),
        **more,
    )
    for finding in findings:
        found.findings.add(finding)
    return found


@pytest.mark.parametrize(("text", "size"), [("all", None), ("0", 0), ("7", 7), (str(MOST_SAMPLED), MOST_SAMPLED)])
def test_a_sample_is_a_number_or_all(text: str, size: int | None) -> None:
    """``all`` taken for a number, or none, tries another part than was asked for."""
    assert sample_size(CONTEXT, OPTION, text) == size


@pytest.mark.parametrize("text", ["", "-1", "some", "1.5", "ALL", str(MOST_SAMPLED + 1)])
def test_anything_else_is_refused(text: str) -> None:
    """The sample is kept in memory: it has an end."""
    with pytest.raises(click.BadParameter, match="neither 'all' nor a number up to 10000"):
        sample_size(CONTEXT, OPTION, text)


@pytest.mark.parametrize(
    ("plans", "code"),
    [
        ([a_plan(due=False)], Exit.DONE),
        ([a_plan()], Exit.DUE),
        ([a_plan(WARNING)], Exit.DUE),
        ([a_plan(WARNING, ERROR)], Exit.FAILURES),
        ([a_plan(ERROR), a_plan()], Exit.FAILURES),
        ([a_plan(ERROR), a_plan(unfinished="the list failed")], Exit.REFUSED),
        ([a_plan(), a_plan(due=False, refused="not served")], Exit.REFUSED),
    ],
    ids=["nothing due", "due", "a warning", "objects would fail", "in one of two", "a list failed", "refused"],
)
def test_the_worst_that_was_found_sets_the_code(plans: list[MigrationPlan], code: Exit) -> None:
    """Pipelines branch on it: a plan that ends with "due" is followed by a migration."""
    assert exit_code(plans, one_by_one=True) is code


def test_the_estimate_says_what_it_is_from() -> None:
    """A number of seconds without its ground is taken for a promise."""
    said = costs(a_plan(measured=MEASURED))
    assert said[0] == "it will cost 6 lists, 3000 writes of 3000 objects"
    tried = "the writes of 50 of 3000 objects were tried as dry runs (--sample all tries every one); nothing was stored"
    assert said[1] == tried
    assert said[2].startswith("that takes about 15 s: an estimate from 50 dry-run writes at 200 a second with up to 32")
    assert costs(a_plan()) == [said[0]]
    assert costs(a_plan(due=False)) == []


def test_errors_come_last_and_say_what_next(capsys: pytest.CaptureFixture[str]) -> None:
    """On a terminal only the end of the output is seen; and "run restow migrate" below an error is bad advice."""
    show([a_plan(ERROR, WARNING)], "table")
    lines = capsys.readouterr().err.splitlines()
    name = "widgets.example.com"
    assert lines[-3:-1] == [f"{name}: fields would be pruned", f"{name}: default/w would fail"]
    assert lines[-1] == "A migration would fail: fix what is listed above, then plan again."


def test_a_long_look_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Minutes of silence look like a program that hangs; a line a page would bury what was found."""
    now, found = 0.0, a_plan()
    telling = Telling(lambda: now)
    for now in (1.0, 6.0, 7.0, 12.0):  # noqa: B007 - the clock
        telling(found)
        found.objects, found.tried = found.objects + 500, found.tried + 100
    assert capsys.readouterr().err.splitlines() == [
        "widgets.example.com: 3,500 objects looked at, 100 writes tried",
        "widgets.example.com: 4,500 objects looked at, 300 writes tried",
    ]
