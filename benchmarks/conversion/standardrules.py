"""Compare the CPU time of standard rules and of the same conversions as a ``pair``, on an object with 80 items.

    python -m benchmarks.conversion.standardrules [--record]

Each item has a field to convert. The pair's functions are those that an author would write: one for each direction,
only for well-formed values. The contenders take turns, so that a busy machine slows all; the figures are medians of the
rounds' ratios.

Rules for strings cache the last ones, because the same strings recur in a cluster. The last column is for strings that
never recur: the rule without its cache.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.records import Recorder, add_flag
from benchmarks.tables import Result, Table, markdown
from restow.conversion import Graph, Registry, rules
from restow.conversion.rules.known import Remembered
from restow.conversion.rules.lens import Lens

__all__ = ["CONTESTS", "Contest", "Figures", "compare", "main", "measured"]

GROUP, KIND = "bench.restow.dev", "Thing"
ITEMS = 80


@dataclass(frozen=True, slots=True)
class Contest:
    """A standard rule, the equivalent pair, and a value of each side."""

    name: str
    standard: rules.Rule
    pair: rules.Rule
    spoke: Any
    hub: Any


_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def _to_seconds(text: str) -> int:
    match = _DURATION.fullmatch(text)
    assert match is not None
    hours, minutes, seconds = (int(each or 0) for each in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def _to_duration(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{rest}s" if hours else f"{minutes}m{rest}s" if minutes else f"{rest}s"


def _to_mebibytes(text: str) -> int:
    return int(text[:-2]) * _UNITS[text[-2:]] // _UNITS["Mi"]


def _to_quantity(mebibytes: int) -> str:
    return f"{mebibytes // 1024}Gi" if mebibytes % 1024 == 0 else f"{mebibytes}Mi"


def _to_map(items: list[dict[str, Any]]) -> dict[str, Any]:
    return {item["name"]: {name: value for name, value in item.items() if name != "name"} for item in items}


def _to_list(values: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, **value} for name, value in sorted(values.items())]


PORTS = [{"name": name, "port": port} for port, name in enumerate("abcd")]

CONTESTS = (
    Contest(
        "duration",
        rules.duration("a", unit="s"),
        rules.pair("a", "a", up=_to_seconds, down=_to_duration),
        "1h30m5s",
        5405,
    ),
    Contest(
        "quantity",
        rules.quantity("a", unit="Mi"),
        rules.pair("a", "a", up=_to_mebibytes, down=_to_quantity),
        "3Gi",
        3072,
    ),
    Contest(
        "scale",
        rules.scale("a", factor=1024),
        rules.pair("a", "a", up=lambda value: value * 1024, down=lambda value: value // 1024),
        7,
        7168,
    ),
    Contest(
        "cast",
        rules.cast("a", spoke_type="string", hub_type="integer"),
        rules.pair("a", "a", up=int, down=str),
        "8080",
        8080,
    ),
    Contest(
        "join",
        rules.join("a"),
        rules.pair("a", "a", up=",".join, down=lambda text: text.split(",")),
        ["x", "y", "z"],
        "x,y,z",
    ),
    Contest(
        "keyed", rules.keyed("a", key="name"), rules.pair("a", "a", up=_to_map, down=_to_list), PORTS, _to_map(PORTS)
    ),
    Contest(
        "keys",
        rules.keys("a", {"app": "application"}),
        rules.pair(
            "a",
            "a",
            up=lambda value: {"application" if key == "app" else key: each for key, each in value.items()},
            down=lambda value: {"app" if key == "application" else key: each for key, each in value.items()},
        ),
        {"app": "x", "tier": "y"},
        {"application": "x", "tier": "y"},
    ),
)


def _graph(rule: rules.Rule) -> Graph:
    registry = Registry()
    registry.kind(GROUP, KIND, hub="v2").spoke("v1")(lambda: [rules.each("items", [rule], key="id")])
    return registry.freeze()


def _object(version: str, value: Any) -> dict[str, Any]:
    items = [{"id": str(number), "a": value} for number in range(ITEMS)]
    return {"apiVersion": f"{GROUP}/{version}", "kind": KIND, "metadata": {"name": "a"}, "items": items}


def _time(convert: Callable[[], Any], times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        convert()
    return time.process_time() - start


def _without_memory(rule: rules.Rule) -> rules.Rule:
    """Return the rule without its cache of strings."""
    assert isinstance(rule, Lens)
    assert rule.standard is not None
    quick = {
        direction: shortcut.function if isinstance(shortcut, Remembered) else shortcut
        for direction, shortcut in rule.standard.quick.items()
    }
    return replace(rule, standard=replace(rule.standard, quick=quick))


@dataclass(frozen=True, slots=True)
class Figures:
    """Microseconds of CPU per item by the standard rule and by the pair, and the speed of the standard rule as a
    multiple of the pair's, with and without its cache of strings.
    """

    standard: float
    pair: float
    ratio: float
    forgetful_ratio: float


def measured(contest: Contest, *, up: bool, rounds: int, times: int) -> Figures:
    """Measure one contest in one direction.

    Raises:
        AssertionError: the contenders do not return the same object.
    """
    version, target = ("v1", "v2") if up else ("v2", "v1")
    obj = _object(version, contest.spoke if up else contest.hub)
    graphs = [_graph(rule) for rule in (contest.standard, _without_memory(contest.standard), contest.pair)]
    expected = _object(target, contest.hub if up else contest.spoke)
    for graph in graphs:
        assert graph.convert(obj, f"{GROUP}/{target}") == expected, contest.name
    seconds = [
        [_time(lambda graph=graph: graph.convert(obj, f"{GROUP}/{target}"), times) for graph in graphs]  # type: ignore[misc]  # bound now
        for _ in range(rounds)
    ]
    scale = 1e6 / (times * ITEMS)
    return Figures(
        standard=statistics.median(standard for standard, _, _ in seconds) * scale,
        pair=statistics.median(pair for _, _, pair in seconds) * scale,
        ratio=statistics.median(pair / standard for standard, _, pair in seconds),
        forgetful_ratio=statistics.median(pair / forgetful for _, forgetful, pair in seconds),
    )


def compare(rounds: int = 15, times: int = 40) -> Table:
    """Measure all contests."""
    rows = []
    for contest in CONTESTS:
        for up in (True, False):
            figures = measured(contest, up=up, rounds=rounds, times=times)
            numbers = (figures.standard, figures.pair, figures.ratio, figures.forgetful_ratio)
            rows.append((contest.name, "up" if up else "down", *(f"{number:.2f}" for number in numbers)))
    columns = ("an item, µs", "as a pair, µs", "times as fast", "times as fast without memory")
    return Table("Standard rules", ("rule", "direction", *columns), tuple(rows))


def main() -> None:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.conversion.standardrules", description=__doc__)
    add_flag(parser)
    recorder = Recorder.begin(parser.parse_args().record)
    table = compare()
    print(markdown(table))
    if recorder is not None:
        recorder.write("standardrules", "python -m benchmarks.conversion.standardrules", Result("", [table]))


if __name__ == "__main__":
    main()
