"""What runs by seeds records its totals: the fault suite and the histories."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from benchmarks.records import load
from tests.faults.__main__ import COMMAND as FAULTS
from tests.histories.__main__ import COMMAND as HISTORIES
from tests.seeds import Command


@dataclass
class Drawn:
    """What came of a seed; every third one is wrong."""

    seed: int
    log: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> list[str]:
        return ["lost"] if self.seed % 3 == 0 else []


async def run(seeds: Sequence[int], _jobs: int, show: Callable[[Drawn], None]) -> None:
    for seed in seeds:
        show(Drawn(seed))


COMMAND = Command(
    "tests.faults",
    2,
    {"guard": contextlib.nullcontext},
    run,
    lambda _outcome: (),
    lambda outcomes: {"prunes": 1000 * len(outcomes)},
    lambda outcomes: Counter({"slow": len(outcomes)}),
)


def test_a_series_is_recorded_with_what_failed(tmp_path: Path) -> None:
    """The documentation would say how many seeds are ok, and not that others are not."""
    with pytest.raises(SystemExit, match="True"):
        COMMAND.main(["1..4", "--record", str(tmp_path)])
    record = load(tmp_path)["faults"]
    assert record.command == "python -m tests.faults 1..4 --jobs 2"
    assert record.machine.kubernetes
    shown = {figure.name: figure.shown for figure in record.figures()}
    assert shown == {
        "Seeds > 1..4 > ok": "3",
        "Seeds > 1..4 > failed": "1",
        "Seeds > 1..4 > prunes": "4,000",
        "Kinds > slow > number": "4",
    }


def test_a_broken_guard_is_not_recorded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a broken migrator leads to would be published as what restow does."""
    with pytest.raises(SystemExit, match="2"):
        COMMAND.main(["1..4", "--record", str(tmp_path), "--broken", "guard"])
    assert "what a broken guard leads to is not recorded" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [FAULTS, HISTORIES], ids=lambda command: command.module)
def test_the_pages_have_the_columns_of_the_commands(command: Command) -> None:
    """A series that is recorded later would show something else than the page explains."""
    totals = command.totals([])
    assert set(load()[command.module.rpartition(".")[2]].table("Seeds").columns) <= {"seeds", "ok", "failed", *totals}
    assert command.kinds([]) == Counter()
