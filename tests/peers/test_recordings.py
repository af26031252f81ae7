"""The recordings answer for the programs of other projects, and only for those that the tests know."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.peers.building import Project
from tests.peers.crdify.compared import CRDIFY
from tests.peers.gardener import draws
from tests.peers.gardener.asking import GARDENER, gardener
from tests.peers.gardener.compared import Scenario
from tests.peers.gardener.drawn import scenarios
from tests.peers.peers import PEERS
from tests.peers.recordings import Mode, file_of, mode, program, recording
from tests.peers.renew import modules
from tests.upstream import files

PROJECTS = [*dict.fromkeys(peer.project for peer in PEERS), GARDENER, CRDIFY]

pytestmark = pytest.mark.skipif(mode() is not Mode.RECORDED, reason="the programs answer, not the recordings")


@pytest.mark.parametrize("project", PROJECTS, ids=[project.name for project in PROJECTS])
def test_a_recording_names_what_it_was_made_with(project: Project) -> None:
    """A reader could not tell which version of a project said this, nor get the same one."""
    assert recording(project).modules == modules(project) != {}
    assert recording(project).answers


def test_a_question_without_a_recording_fails() -> None:
    """What is drawn would part from what was recorded, and the test would compare nothing."""
    with pytest.raises(AssertionError, match=r"what is drawn has changed. Run `make peers`"):
        program(PROJECTS[0]).ask({"kind": "BGPPeer", "from": "a/v1", "to": "a/v2", "object": {}})
    with pytest.raises(AssertionError, match="make peers"):
        gardener().ask("lifecycle", {"kubernetes": {"versions": []}}, datetime(2001, 2, 3, tzinfo=UTC))


def test_a_recording_of_another_program_fails() -> None:
    """A pin would be raised, and the answers of the older version go on to pass for the newer one's."""
    other = replace(PROJECTS[0], files=())
    assert file_of(other) == file_of(PROJECTS[0])
    with pytest.raises(AssertionError, match=r"recording of metallb was made with other sources or pins.*make peers"):
        recording(other)


def test_scenarios_that_would_be_drawn_otherwise_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scenario that is new in the code would never be asked about."""
    monkeypatch.setattr(draws, "drawn_by", lambda: "other")
    with pytest.raises(AssertionError, match="make peers"):
        draws.judging(Scenario, scenarios())(lambda _: None)()


def test_files_of_other_pins_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pin of tests/upstream would be raised, and its CRDs stay the older ones."""
    monkeypatch.setattr(files, "_pins", lambda: "other")
    files._folder.cache_clear()
    with pytest.raises(AssertionError, match="make peers"):
        files.cluster_api()
