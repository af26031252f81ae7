"""The laws and recorded reviews as tests of an author's repository.

``TestProfile = roundtrip_suite(graph, crd)`` is one test class with all laws. Each method is a Hypothesis test. The
first broken law is reported once, in about ten lines, with the smallest object that was found for it. The other tests
of the class are then skipped, because one wrong rule breaks most laws.

By default each test tries few objects, and fields that no rule touches are mostly left out. ``pytest --thorough`` (or
RESTOW_THOROUGH=1) tries as many as the loaded Hypothesis profile sets (``max_examples``), generated in full.

``check_golden`` answers a recorded ConversionReview and compares the answer with the expected one as JSON, so
indentation does not matter. A folder has pairs of ``NAME.request.json`` and ``NAME.response.json``.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning

from restow.conversion.compile.graph import Graph, KindGraph
from restow.conversion.model.fieldpath import pointer
from restow.conversion.model.values import Json, same
from restow.conversion.reviews.conversion import convert_review
from restow.conversion.testing.allowances import has_forget
from restow.conversion.testing.findings import differences
from restow.conversion.testing.functions import failing
from restow.conversion.testing.itemedits import has_keyless_lists
from restow.conversion.testing.laws import LawBroken, Laws
from restow.conversion.testing.strategies import Generator, objects, partial_objects
from restow.conversion.testing.touched import Touched, touched
from restow.crds import Crd, Schema

Strategy = st.SearchStrategy[Any]
Overrides = Mapping[str, Mapping[str, Strategy]]
Check = tuple[str, Strategy, Callable[[Any], None]]

#: The number of the edit to make of an object.
_CHOICES = st.integers(0, 99)

#: Determines the values for which functions raise; with 0, they raise for every value.
_SEEDS = st.integers(0, 3)

#: How many objects each test tries unless it is thorough.
_EXAMPLES: Final = 40
_THOROUGH: Final = "RESTOW_THOROUGH"

#: Called during a test with its name, the number of objects tried, and the total number.
progress: Callable[[str, int, int], None] | None = None


def roundtrip_suite(
    graph: Graph,
    crd: Crd,
    *,
    hub_schema: Mapping[str, Any] | None = None,
    overrides: Overrides | None = None,
    thorough: bool | None = None,
) -> type:
    """Return a class of pytest tests: every law, from every version of the CRD's kind (and a hub with a schema).

    ``overrides`` gives strategies for fields whose schema does not describe all their values: by version, then by path
    (``{"v1beta2": {".spec.versions[].lifecycle": lifecycles()}}``). ``thorough`` overrides ``pytest --thorough``.
    """
    everything = bool(os.environ.get(_THOROUGH)) if thorough is None else thorough
    suite = _Suite(graph, crd, hub_schema, overrides or {}, everything)
    state = _State(settings().max_examples if everything else min(_EXAMPLES, settings().max_examples))
    tests = {f"test_{name}": _test(name, strategy, check, state) for name, strategy, check in suite.checks()}
    return type(f"Test{crd.kind}Laws", (), {"__doc__": f"The laws of {crd.name}.", **tests})


@dataclass(slots=True)
class _State:
    """The shared state of a class's tests: how many objects each tries, and the test that has failed."""

    examples: int
    broken: str = field(default="")


def _test(name: str, strategy: Strategy, check: Callable[[Any], None], state: _State) -> Callable[[Any], None]:
    tried = 0

    def attempt(value: Any) -> None:
        nonlocal tried
        tried += 1
        if progress is not None:
            progress(name, tried, state.examples)
        check(value)

    # Generated objects are large and generating them is slow; this is no defect of a test.
    relaxed = settings(
        max_examples=state.examples,
        suppress_health_check=list(HealthCheck),
        deadline=None,
        report_multiple_bugs=False,
    )
    attempt.__name__ = f"test_{name}"
    every: Callable[[], None] = relaxed(given(value=strategy)(attempt))

    def test(_self: object) -> None:
        __tracebackhide__ = True
        nonlocal tried
        tried = 0
        if state.broken not in ("", name) and (pytest := sys.modules.get("pytest")) is not None:
            pytest.skip(f"test_{state.broken} has found a broken rule: correct it first")
        try:
            with warnings.catch_warnings():
                # Strategies of large schemas have long reprs, which do not help the reader.
                warnings.filterwarnings("ignore", "Generating overly large repr", HypothesisWarning)
                every()
        except LawBroken as error:
            state.broken = name
            # A new error, because Hypothesis has added the whole object to the notes of this one.
            raise LawBroken(error.law, error.finding) from None
        state.broken = ""

    test.__name__ = f"test_{name}"
    test.__doc__ = f"Fails when the law is broken: {name.replace('_', ' ')}."
    return test


def _edits_of_items(laws: Laws, target: str) -> Callable[[tuple[Json, int]], None]:
    return lambda sample: laws.edits_of_items(sample[0], target, sample[1])


@dataclass(frozen=True, slots=True)
class _Suite:
    graph: Graph
    crd: Crd
    hub_schema: Mapping[str, Any] | None
    overrides: Overrides
    thorough: bool

    def checks(self) -> Iterator[Check]:
        """Yield every check: its name, the source of its values, and its requirement for each value."""
        kind = self.graph.kind(self.crd.group, self.crd.kind)
        laws = Laws(kind)
        for source in kind.versions:
            if self._schema(source) is None:
                continue
            targets = [version for version in kind.versions if version != source]
            if targets:
                yield from self._from(source, targets, laws)

    def _from(self, source: str, targets: list[str], laws: Laws) -> Iterator[Check]:
        kind = laws.kind
        full, unknown, partial = self._full(source), self._full(source, unknown=True), self._partial(source)
        generated = [target for target in targets if self._schema(target) is not None]

        def each(check: Callable[..., None]) -> Callable[..., None]:
            def run(obj: Json) -> None:
                for target in targets:
                    check(obj, target)

            return run

        def detours(obj: Json) -> None:
            for via in targets:
                for target in targets:
                    if via != target:
                        laws.path_independence(obj, via, target)

        def parts(pair: tuple[Json, Json]) -> None:
            whole, part = pair
            for target in targets:
                laws.partial(whole, part, target)
                laws.round_trip(part, target)

        yield f"round_trip_from_{source}", full, each(laws.round_trip)
        yield f"unknown_fields_survive_from_{source}", unknown, each(laws.round_trip)
        yield f"partial_objects_from_{source}", partial, parts
        yield f"determinism_from_{source}", full, each(laws.determinism)
        yield f"unchanged_input_from_{source}", full, each(laws.unchanged_input)
        yield f"validity_from_{source}", full, each(laws.validity)
        if kind.keeps:
            yield f"conversions_from_{source}_keep_what_fails", st.tuples(full, _SEEDS), self._keeps(kind, targets)
        if source in kind.spokes and has_forget(kind.spokes[source].rules):
            yield f"forgotten_values_mean_the_same_from_{source}", full, each(laws.forget)
        if len(targets) > 1:
            yield f"path_independence_from_{source}", full, detours
        for target in generated:
            both = st.tuples(full, self._full(target))
            yield f"edits_at_{target}_win_over_{source}", both, lambda pair: laws.edits_win(*pair)
        for target in targets:
            rules = [laws.kind.spokes[name].rules for name in (source, target) if name != laws.kind.hub]
            if len(rules) == 1 and has_keyless_lists(rules[0]):
                sample, check = st.tuples(full, _CHOICES), _edits_of_items(laws, target)
                yield f"edits_of_items_at_{target}_keep_what_{source}_hides", sample, check

    def _keeps(self, kind: KindGraph, targets: list[str]) -> Callable[[tuple[Json, int]], None]:
        """Return the check that conversions are total whatever functions raise, and restore the kept values."""

        @cache
        def broken(seed: int, *, everywhere: bool) -> Laws:
            return Laws(failing(kind, seed, everywhere=everywhere))

        def run(sample: tuple[Json, int]) -> None:
            obj, seed = sample
            for target in targets:
                broken(seed, everywhere=False).round_trip(obj, target)
                everywhere = broken(seed, everywhere=True)
                everywhere.convert(everywhere.convert(obj, target), obj["apiVersion"].rpartition("/")[2])

        return run

    def _schema(self, version: str) -> Schema | None:
        known = self.crd.version(version)
        if known is not None:
            return known.schema
        return None if self.hub_schema is None else Schema.root(self.hub_schema)

    def _full(self, version: str, *, unknown: bool = False) -> st.SearchStrategy[Json]:
        schema = self._schema(version)
        assert schema is not None
        return objects(
            schema,
            f"{self.crd.group}/{version}",
            self.crd.kind,
            generator=self._generator(version),
            unknown=unknown,
        )

    def _partial(self, version: str) -> st.SearchStrategy[tuple[Json, Json]]:
        schema = self._schema(version)
        assert schema is not None
        return partial_objects(schema, f"{self.crd.group}/{version}", self.crd.kind, generator=self._generator(version))

    def _generator(self, version: str) -> Generator:
        own = self.overrides.get(version, {})
        return Generator(own, touched=None if self.thorough else self._touched(version, own))

    def _touched(self, version: str, own: Mapping[str, Strategy]) -> Touched:
        return touched(self.graph.kind(self.crd.group, self.crd.kind), version, own)


_REQUEST = ".request.json"


def golden_reviews(folder: Path) -> list[Path]:
    """Return the recorded requests of a folder, sorted by name, as parameters for a test.

    Raises:
        ValueError: the folder has no ``NAME.request.json``.
    """
    found = sorted(folder.glob(f"*{_REQUEST}"))
    if not found:
        message = f"{folder} has no recorded reviews (NAME{_REQUEST})"
        raise FileNotFoundError(message)
    return found


def check_golden(graph: Graph, request: Path, *, record: bool = False) -> None:
    """Answer a recorded request and compare; with ``record``, save the answer as the expected one.

    Raises:
        LawBroken: the answer differs; the message names the first difference.
    """
    expected_path = request.with_name(request.name.removesuffix(_REQUEST) + ".response.json")
    answer = convert_review(graph, request.read_bytes())
    if record:
        expected_path.write_bytes(msgspec.json.format(answer) + b"\n")
        return
    actual, expected = msgspec.json.decode(answer), msgspec.json.decode(expected_path.read_bytes())
    if not same(actual, expected):
        place = pointer(next(differences(actual, expected)).steps)
        message = f"the answer to {request.name} is not {expected_path.name}: see {place or '/'}"
        raise LawBroken("golden", message)
