"""Migration under strategy Webhook: ``restow serve`` converts, and the entries of two appliers are translated."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.conversion.webhooks import Webhook, certificate, restow
from benchmarks.migration.contenders import bare_loop, restow_command, restow_library
from benchmarks.migration.course import Course, Herd, Section, say
from benchmarks.migration.manifests import GROUP, Json, Variant, conversion
from benchmarks.migration.results import Run, costs_table, rates_table, summary
from benchmarks.tables import Result, at_least, exactly
from restow.migrator import Options

__all__ = ["WEBHOOK", "serving"]

_HERD = "converteds"
_REGISTRY = "benchmarks.migration.conversions:registry"


@asynccontextmanager
async def serving(herds: Iterable[Herd]) -> AsyncIterator[tuple[Json, Webhook] | None]:
    """Run the webhook if a herd needs one; yield its CRD's ``spec.conversion``, and the webhook."""
    if all(herd.variant is not Variant.CONVERTED for herd in herds):
        yield None
        return
    with TemporaryDirectory(prefix="restow-bench-") as folder:
        made = certificate(Path(folder))
        async with restow(made, registry=_REGISTRY, crd_name=f"{_HERD}.{GROUP}") as webhook:
            yield conversion(f"https://localhost:{webhook.port}{webhook.path}", made.ca), webhook


async def _measure(course: Course) -> Result:
    plan = course.plan
    say(f"webhook: {plan.kind_objects} objects, {plan.runs} rounds")
    loop = bare_loop("combined", Options().concurrency)
    theirs, in_process, library = restow_command(), restow_command("--registry", _REGISTRY), restow_library()
    await course.warm_up(_HERD, theirs)
    runs: dict[str, list[Run]] = {}
    for _ in range(plan.runs):
        for contender in course.turns([loop, theirs, in_process, library]):
            runs.setdefault(contender.name, []).append(await course.run(_HERD, contender))
    found = [summary(runs[each.name]) for each in (loop, theirs, in_process, library)]
    bare, own, local, embedded = found
    assert bare.all_ms is not None
    assert embedded.all_ms is not None
    return Result(
        f"Strategy Webhook: {plan.kind_objects} objects, each with two entries to translate",
        [
            rates_table("Rates", found, "of the bare loop", bare.rate, bare.server_cores),
            costs_table("CPU, milliseconds per object", found),
        ],
        [
            exactly("strategy Webhook: writes per object", own.writes, 1.0),
            exactly("strategy Webhook, conversions in process: writes per object", local.writes, 1.0),
            at_least("strategy Webhook: CPU of all for the bare loop / for restow", bare.all_ms / embedded.all_ms, 0.8),
            at_least("conversions in process / bare loop, at equal speed", local.server_cores / bare.server_cores, 0.8),
        ],
    )


WEBHOOK = Section(lambda plan: [Herd(_HERD, Variant.CONVERTED, plan.kind_objects)], _measure)
