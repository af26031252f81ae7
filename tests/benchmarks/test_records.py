"""What a benchmark measured becomes a record: figures with names, units, values and ranges, and their circumstances."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchmarks.records import (
    Figure,
    Machine,
    RecordedTable,
    Recorder,
    RecordError,
    ResultRecord,
    load,
    recorded_tables,
)
from benchmarks.tables import Result, Table, at_most, ranged

COMMAND = "python -m benchmarks.migration --sections memory"


def result() -> Result:
    """A section with a range, a column of words, a unit of a column, of a cell and of a table."""
    rates = Table(
        "Rates", ("contender", "objects/s", "range"), (("restow", ranged(413.2, [341, 453.04], 0), "341-453"),)
    )
    costs = Table("Costs", ("contender", "client", "peak, MiB"), (("restow", "0.35", "1,229"),), unit="ms per object")
    rules = Table("", ("rule", "way", "CPU"), (("join", "up", "43 ms of CPU"), ("join", "down", "-")))
    return Result("Memory", [rates, costs, rules], [at_most("peak, many / few", 1.08, 1.15)])


def test_each_figure_has_a_name_a_unit_a_value_and_its_range() -> None:
    """A page would quote a number without a unit, or the wrong one of two with the same name."""
    found = {
        figure.name: (figure.shown, figure.value, figure.unit, figure.low, figure.high)
        for table in recorded_tables(result())
        for row in table.rows
        for figure in row
        if isinstance(figure, Figure)
    }
    assert found == {
        "Rates > restow > objects/s": ("413", 413.0, "objects/s", 341.0, 453.0),
        "Costs > restow > client": ("0.35", 0.35, "ms per object", None, None),
        "Costs > restow > peak, MiB": ("1,229", 1229.0, "MiB", None, None),
        "join, up > CPU": ("43 ms of CPU", 43.0, "ms of CPU", None, None),
        "Claims > peak, many / few > measured": ("1.080", 1.08, "1", None, None),
    }


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Circumstances that are not kept leave figures that no one can repeat."""
    recorder = Recorder.begin(tmp_path / "new")
    assert recorder is not None
    path = recorder.write("migration.memory", COMMAND, result(), kubernetes="v1.37.0")
    assert path == tmp_path / "new" / "migration.memory.json"
    (record,) = load(tmp_path / "new").values()
    assert (record.name, record.command, record.machine.kubernetes) == ("migration.memory", COMMAND, "1.37.0")
    assert record.machine.cores > 0 and record.machine.other_cores is not None
    assert 0 <= record.machine.other_cores < 1000
    assert record.tables == recorded_tables(result())
    assert record.transcribed is None


def test_nothing_is_recorded_unless_it_is_asked_for() -> None:
    """Each run of a benchmark would change what the documentation quotes."""
    assert Recorder.begin(None) is None


def document(**changes: object) -> dict[str, object]:
    """A record as JSON has it."""
    machine = Machine(cores=2, python="3.11")
    record = ResultRecord(name="a.b", command=COMMAND, date="2026-01-01", machine=machine, tables=[])
    return {**msgspec.to_builtins(record), **changes}


TWICE = [
    msgspec.to_builtins(
        RecordedTable(name="a", columns=["", "b"], rows=[["c", Figure(name="n", shown="1", value=1, unit="s")]])
    )
] * 2


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"command": " "}, "does not name the command"),
        ({"name": "A b"}, "no name of a record"),
        ({"name": "a.c"}, "a.b.json has the record a.c"),
        ({"tables": TWICE}, "two figures of the name n"),
        ({"date": None}, "Expected `str`"),
        ({"note": ""}, "unknown field `note`"),
    ],
)
def test_an_incomplete_record_is_refused(tmp_path: Path, changes: dict[str, object], problem: str) -> None:
    """A page would quote figures whose command, day or name is unknown."""
    (tmp_path / "a.b.json").write_bytes(msgspec.json.encode(document()))
    assert set(load(tmp_path)) == {"a.b"}
    (tmp_path / "a.b.json").write_bytes(msgspec.json.encode(document(**changes)))
    with pytest.raises(RecordError, match=problem):
        load(tmp_path)
