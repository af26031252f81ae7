"""The section *peers*: compare restow's webhook in one process with controller-runtime's on all cores.

Both get the same reviews. A round is a short volley at each, one right after the other, in alternating order. The
section compares two figures: objects per second, by the median of the rounds' ratios, and CPU per object (user and
system time of the webhook's process from ``/proc``, over all rounds), which a busy machine distorts least. Both must
answer with the same objects.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

import msgspec

from benchmarks.conversion.kinds import review
from benchmarks.conversion.load import Load, fire
from benchmarks.conversion.profile import PROFILE
from benchmarks.conversion.sections import Plan
from benchmarks.conversion.webhooks import Certificate, Webhook, controller_runtime, restow
from benchmarks.tables import Result, Table, at_least

__all__ = ["measure_peers"]

_BUDGET: Final = 16_000_000  # the most bytes of a volley
_KILOBYTES: Final = 8

#: Objects per review, connections, and the required ratio of rates.
_CELLS: Final = ((1, 1, 2.2), (1, 8, 2.2), (100, 1, 1.6), (500, 1, 1.6))

_RATES: Final = ("restow: objects/s", "controller-runtime: objects/s")
_COSTS: Final = ("restow: CPU of an object, us", "controller-runtime: CPU of an object, us")

#: The fields that an API server reads from the metadata of an answer.
_METADATA: Final = ("name", "namespace", "uid", "labels", "annotations")


@dataclass(frozen=True, slots=True)
class _Turn:
    """One volley at one webhook: its objects, its seconds, and the CPU seconds of the webhook."""

    objects: int
    seconds: float
    cpu: float

    @property
    def rate(self) -> float:
        """Objects per second."""
        return self.objects / self.seconds


async def measure_peers(made: Certificate, plan: Plan) -> Result:
    """Compare the two webhooks on reviews of one, a hundred and five hundred objects."""
    result = Result(f"restow in one process, controller-runtime on {os.cpu_count()} cores: {PROFILE.what}")
    rows = []
    async with (
        restow(made, registry=PROFILE.registry, crd_name=PROFILE.crd_name) as ours,
        controller_runtime(made) as theirs,
    ):
        for count, connections, wanted in _CELLS:
            if count not in plan.counts:
                continue
            body = review(PROFILE, count, _KILOBYTES)
            rounds = [
                await _round((ours, theirs) if number % 2 else (theirs, ours), made, plan, body, count, connections)
                for number in range(plan.rounds)
            ]
            mine, other = ([each[hook.name] for each in rounds] for hook in (ours, theirs))
            ratio = median(one.rate / two.rate for one, two in zip(mine, other, strict=True))
            saved = _cpu(other) / _cpu(mine) if _cpu(mine) else 0.0
            what = f"{count} object{'s' if count > 1 else ''}, {connections} connection{'s' if connections > 1 else ''}"
            rows.append(
                (
                    what,
                    *(f"{median(turn.rate for turn in turns):.0f}" for turns in (mine, other)),
                    f"{ratio:.2f}",
                    *(f"{_cpu(turns) * 1e6:.0f}" for turns in (mine, other)),
                    f"{saved:.2f}",
                )
            )
            result.claims.append(at_least(f"{what}: objects/s, restow's over controller-runtime's", ratio, wanted))
    columns = ("review", *_RATES, "ratio of objects/s", *_COSTS, "ratio of CPU")
    result.tables.append(Table(f"Objects of {len(review(PROFILE, 1, _KILOBYTES)) / 1000:.1f} kB", columns, tuple(rows)))
    return result


async def _round(
    webhooks: Sequence[Webhook], made: Certificate, plan: Plan, body: bytes, count: int, connections: int
) -> dict[str, _Turn]:
    turns: dict[str, _Turn] = {}
    answers = []
    requests = max(connections, min(plan.requests, _BUDGET // len(body)))
    for webhook in webhooks:
        before = webhook.cpu_seconds
        volley = await fire(Load(webhook.port, webhook.path, body, requests, connections), made.trust)
        used = (webhook.cpu_seconds - before) * requests / (requests + connections)  # the first ones do not count
        turns[webhook.name] = _Turn(len(volley.latencies) * count, volley.seconds, used)
        answers.append(_objects(volley.answer, webhook.name))
    if answers[0] != answers[1] or len(answers[0]) != count:
        message = f"{webhooks[0].name} and {webhooks[1].name} answered differently"
        raise RuntimeError(message)
    return turns


def _objects(answer: bytes, name: str) -> list[Any]:
    """Return the objects as an API server reads them from an answer."""
    response = msgspec.json.decode(answer)["response"]
    if response["result"]["status"] != "Success":
        message = f"{name} failed to convert: {response['result']}"
        raise RuntimeError(message)
    objects = response["convertedObjects"]
    for obj in objects:
        obj["metadata"] = {field: obj["metadata"][field] for field in _METADATA if field in obj["metadata"]}
    return list(objects)


def _cpu(turns: Sequence[_Turn]) -> float:
    return sum(turn.cpu for turn in turns) / sum(turn.objects for turn in turns)
