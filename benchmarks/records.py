"""Recorded results: one file for each measurement, ``benchmarks/results/NAME.json``, all with the same schema.

A record has the command of the measurement, the day, a general description of the machine, and the number of cores that
other programs used meanwhile. Its tables are those that the command prints. A cell is text, or a figure with its name
(``TABLE > ROW > COLUMN``), unit, value, and an optional range.

The pages of the documentation quote records: see ``benchmarks.figures``.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import resource
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.tables import Ranged, Result, Shown, Table, claims_table

__all__ = [
    "RESULTS",
    "Figure",
    "RecordError",
    "Recorder",
    "ResultRecord",
    "add_flag",
    "check_flag",
    "load",
    "recorded_tables",
]

RESULTS: Final = Path(__file__).parent / "results"
#: Separates the parts of a figure's name.
SEPARATOR: Final = " > "
_NAME: Final = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9-]+)*")
_NUMBER: Final = re.compile(r"(-?\d[\d,]*(?:\.\d+)?)(?: ([^\d\s].*))?")
_UNITS: Final = frozenset({"s", "ms", "µs", "us", "MiB", "MB", "kB", "GB", "%", "objects/s", "ms of CPU", "s of CPU"})
_TICK: Final = os.sysconf("SC_CLK_TCK")


class RecordError(Exception):
    """A record is incomplete, or lacks a figure or table that a page quotes."""


class Figure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One figure: its name in the record, its unit (``1`` for counts and ratios), its value, and its printed form."""

    name: str
    shown: str
    value: float
    unit: str
    low: float | None = None
    high: float | None = None


class RecordedTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table as the command prints it."""

    name: str
    columns: list[str]
    rows: list[list[str | Figure]]


class Machine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A general description of the machine; ``other_cores`` is the average number of cores that other programs used."""

    cores: int
    python: str
    kubernetes: str | None = None
    other_cores: float | None = None


class Transcribed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The origin of figures copied from a page: the commit that added them to it, and the machine's load then."""

    commit: str
    load: str


class ResultRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One measurement."""

    name: str
    command: str
    date: str
    machine: Machine
    tables: list[RecordedTable]
    transcribed: Transcribed | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise RecordError(f"{self.name!r} is no name of a record")
        if not self.command.strip():
            raise RecordError(f"{self.name} does not name the command that measures it")
        names = [figure.name for figure in self.figures()]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise RecordError(f"{self.name} has two figures of the name {twice[0]}")

    def figures(self) -> Iterator[Figure]:
        """Yield every figure."""
        for table in self.tables:
            for row in table.rows:
                yield from (cell for cell in row if isinstance(cell, Figure))

    def figure(self, name: str) -> Figure:
        """Return a figure by its name."""
        for figure in self.figures():
            if figure.name == name:
                return figure
        raise RecordError(f"{self.name} has no figure {name}")

    def table(self, name: str) -> RecordedTable:
        """Return a table by its name."""
        for table in self.tables:
            if table.name == name:
                return table
        raise RecordError(f"{self.name} has no table {name!r}")


def load(folder: Path = RESULTS) -> dict[str, ResultRecord]:
    """Return all records by name.

    Raises:
        RecordError: a file is not a record, or its file name differs from the record's name.
    """
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            record = msgspec.json.decode(path.read_bytes(), type=ResultRecord)
        except msgspec.MsgspecError as error:
            raise RecordError(f"{path.name}: {error}") from error
        if record.name != path.stem:
            raise RecordError(f"{path.name} has the record {record.name}")
        found[record.name] = record
    return found


def recorded_tables(result: Result) -> list[RecordedTable]:
    """Return the tables of a section with names for their figures; the last table has its claims."""
    tables = [_recorded(table, table.heading) for table in result.tables]
    return [*tables, _recorded(claims_table(result.claims), "Claims")] if result.claims else tables


def _recorded(table: Table, name: str) -> RecordedTable:
    firsts = [str(row[0]) for row in table.rows]
    rows: list[list[str | Figure]] = []
    for row in table.rows:
        first = str(row[0])
        own = first if firsts.count(first) == 1 else f"{first}, {row[1]}"
        cells = [
            _cell(cell, column, table.unit, SEPARATOR.join(filter(None, (name, own, column))))
            for cell, column in zip(row[1:], table.columns[1:], strict=True)
        ]
        rows.append([first, *cells])
    return RecordedTable(name=name, columns=list(table.columns), rows=rows)


def _cell(cell: Shown, column: str, otherwise: str, name: str) -> str | Figure:
    """Return text, or a figure."""
    shown = str(cell)
    number = _NUMBER.fullmatch(shown)
    if number is None or (number[2] is not None and number[2] not in _UNITS):
        return shown
    unit = number[2] or _unit(column) or otherwise
    low, high = (cell.low, cell.high) if isinstance(cell, Ranged) else (None, None)
    value = float(number[1].replace(",", ""))
    return Figure(name=name, shown=shown, value=value, unit=unit, low=low, high=high)


def _unit(column: str) -> str | None:
    last = column.rpartition(", ")[2]
    return last if last in _UNITS else next((word for word in column.split() if word in _UNITS), None)


@dataclass(frozen=True, slots=True)
class Recorder:
    """Writes records into a folder, with the machine's load since the start of the recorder.

    Start it before the measurement. Call ``write`` after the measured programs have ended: only then their CPU time
    counts as the measurement's own.
    """

    folder: Path
    begun: float
    busy: float
    own: float

    @classmethod
    def begin(cls, folder: Path | None) -> Recorder | None:
        """Start a recorder, if there is a folder for records."""
        return None if folder is None else cls(folder, time.monotonic(), _busy(), _own())

    def write(
        self, name: str, command: str, result: Result | Sequence[RecordedTable], *, kubernetes: str | None = None
    ) -> Path:
        """Write the record of a section; return its file."""
        tables = recorded_tables(result) if isinstance(result, Result) else list(result)
        others = max(0.0, (_busy() - self.busy) - (_own() - self.own)) / max(time.monotonic() - self.begun, 1e-9)
        machine = Machine(
            cores=len(os.sched_getaffinity(0)),
            python=".".join(platform.python_version_tuple()[:2]),
            kubernetes=None if kubernetes is None else kubernetes.removeprefix("v"),
            other_cores=round(others, 2),
        )
        date = datetime.now(UTC).date().isoformat()
        record = ResultRecord(name=name, command=command, date=date, machine=machine, tables=tables)
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{name}.json"
        path.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")
        return path


def check_flag(parser: argparse.ArgumentParser, flags: argparse.Namespace) -> None:
    """Refuse to record a quick run for the documentation."""
    if flags.quick and flags.record == RESULTS:
        parser.error("a quick run's figures mean nothing: name a FOLDER to --record into, or leave out --quick")


def _busy() -> float:
    """Return the CPU seconds of all cores of the machine (Linux)."""
    fields = Path("/proc/stat").read_text().split(maxsplit=8)[1:8]
    user, nice, system, _idle, _waiting, interrupts, soft_interrupts = map(int, fields)
    return (user + nice + system + interrupts + soft_interrupts) / _TICK


def _own() -> float:
    """Return the CPU seconds of this process and of its ended children."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def add_flag(parser: argparse.ArgumentParser) -> None:
    """Add ``--record [FOLDER]``."""
    parser.add_argument(
        "--record",
        type=Path,
        nargs="?",
        const=RESULTS,
        metavar="FOLDER",
        help="write what was measured to NAME.json here (default: benchmarks/results, which the documentation quotes)",
    )
