"""Gardener itself as the oracle: what its own code says of profiles and Shoots, restow says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.peers.gardener.asking import gardener
from tests.peers.gardener.changes import (
    ChangeScenario,
    MoveScenario,
    ProjectScenario,
    change_differences,
    move_differences,
    project_differences,
)
from tests.peers.gardener.compared import Scenario, differences, judged_shoot
from tests.peers.gardener.drawn import scenarios
from tests.peers.gardener.drawnchanges import change_scenarios, move_scenarios, project_scenarios
from tests.peers.gardener.draws import judging
from tests.peers.gardener.rows import LATER, NOW, ROWS, made, profile, shoot, stages

PAGE = Path(__file__).parents[3] / "docs" / "peers.md"

pytestmark = pytest.mark.timeout(3600)  # make peers compiles Gardener


@judging(Scenario, scenarios())
def test_says_what_gardener_says(asked: Scenario) -> None:
    """Whoever comes from Gardener would meet other rules, and no page would tell."""
    assert list(differences(gardener(), asked)) == []


@judging(ChangeScenario, change_scenarios())
def test_judges_changes_as_gardener_does(asked: ChangeScenario) -> None:
    """A change would be refused here that Gardener admits, or what Gardener keeps for its users would be withdrawn."""
    assert list(change_differences(gardener(), asked)) == []


@judging(ProjectScenario, project_scenarios())
def test_judges_changes_of_projects_as_gardener_does(asked: ProjectScenario) -> None:
    """A project's profile would be rendered otherwise, or its change refused where Gardener admits it."""
    assert list(project_differences(gardener(), asked)) == []


@judging(MoveScenario, move_scenarios())
def test_lets_shoots_move_as_gardener_does(asked: MoveScenario) -> None:
    """A Shoot would be held in its profile where Gardener lets it move, or get into a foreign one."""
    assert list(move_differences(gardener(), asked)) == []


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_true(name: str) -> None:
    """The table would excuse what does not differ, or differs otherwise."""
    ask, of_gardener, of_restow = ROWS[name]
    assert ask(gardener()) == (of_gardener, of_restow)


def test_a_row_explains_one_of_several_reasons() -> None:
    """Whoever moves a Shoot to a version to come, and exceeds a limit as well, would find no row for what is said."""
    coming = {"version": "1.31.1", "lifecycle": stages(f"supported {LATER}")}
    parent = profile({"version": "1.31.0"}, coming, limits={"maxNodesTotal": 1})
    old, new = shoot(), shoot("1.31.1")
    for each in (old, new):
        each["spec"]["provider"]["workers"][0]["minimum"] = 2
    limit, version = ("Forbidden", "spec.provider.workers"), ("NotSupported", "spec.kubernetes.version")
    assert made(gardener(), new, parent, old) == ([limit], [limit, version])
    assert list(judged_shoot(gardener(), new, old, parent, parent, NOW)) == []


def test_the_page_has_all_rows() -> None:
    """A reader would not find a difference that the tests know, or find one that nobody tries."""
    table = PAGE.read_text(encoding="utf-8").partition("\n## Gardener\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)
    assert sorted(rows) == sorted(ROWS)


def test_gardener_sees_the_time() -> None:
    """A program whose clock goes on would never be asked about the very start of a stage."""
    _, before, after = ROWS["start-counts"]
    assert before != after
