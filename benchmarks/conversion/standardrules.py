"""Standard rules and the same conversions as a ``pair``: CPU time of one object with 80 items, each with such a field.

    python -m benchmarks.conversion.standardrules

The pair's functions are what an author would write: one function for each direction, for well-formed values only. Both
contenders take turns, so that a busy machine slows both; the figure is the median of the rounds' ratios.
"""

from __future__ import annotations

import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from restow.conversion import Graph, Registry, rules

__all__ = ["CONTESTS", "Contest", "main", "measured"]

GROUP, KIND = "bench.restow.dev", "Thing"
ITEMS = 80


@dataclass(frozen=True, slots=True)
class Contest:
    """A standard rule, the pair that does the same, and a value of either side."""

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


def measured(contest: Contest, *, up: bool, rounds: int, times: int) -> tuple[float, float, float]:
    """Return the microseconds of CPU of an item by the standard rule and by the pair, and the pair's share of time.

    Raises:
        AssertionError: the two do not give the same object.
    """
    version, target = ("v1", "v2") if up else ("v2", "v1")
    obj = _object(version, contest.spoke if up else contest.hub)
    graphs = [_graph(rule) for rule in (contest.standard, contest.pair)]
    results = [graph.convert(obj, f"{GROUP}/{target}") for graph in graphs]
    assert results[0] == results[1] == _object(target, contest.hub if up else contest.spoke), contest.name
    seconds: list[tuple[float, float]] = []
    for _ in range(rounds):
        both = [_time(lambda graph=graph: graph.convert(obj, f"{GROUP}/{target}"), times) for graph in graphs]  # type: ignore[misc]  # bound now
        seconds.append((both[0], both[1]))
    scale = 1e6 / (times * ITEMS)
    standard, pair = (statistics.median(each) * scale for each in zip(*seconds, strict=True))
    return standard, pair, statistics.median(pair / standard for standard, pair in seconds)


def main(rounds: int = 15, times: int = 40) -> str:
    """Measure all contests; return the table in Markdown."""
    rows = []
    for contest in CONTESTS:
        for up in (True, False):
            standard, pair, ratio = measured(contest, up=up, rounds=rounds, times=times)
            rows.append([contest.name, "up" if up else "down", f"{standard:.2f}", f"{pair:.2f}", f"{ratio:.2f}"])
    heading = ["rule", "direction", "µs an item", "µs as a pair", "times faster"]
    return "\n".join(" | ".join(row) for row in [heading, *rows])


if __name__ == "__main__":
    print(main())
