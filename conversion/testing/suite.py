"""All laws as one test class: ``TestProfile = roundtrip_suite(graph, crd)``.

Each method is a Hypothesis test under the profile that the repository has loaded (``pytest --hypothesis-profile=…``);
how many objects each tries is that profile's ``max_examples``. A failure shows the smallest object that it was found
for, and how to reproduce it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from restow.conversion.compile.graph import Graph
from restow.conversion.model.values import Json
from restow.conversion.testing.itemedits import has_keyless_lists
from restow.conversion.testing.laws import Laws
from restow.conversion.testing.meaning import has_forget
from restow.conversion.testing.strategies import Generator, objects, partial_objects
from restow.crds import Crd, Schema

__all__ = ["roundtrip_suite"]

Strategy = st.SearchStrategy[Any]
Overrides = Mapping[str, Mapping[str, Strategy]]
Check = tuple[str, Strategy, Callable[[Any], None]]

#: Which one of the edits that are made of an object.
_CHOICES = st.integers(0, 99)


def roundtrip_suite(
    graph: Graph, crd: Crd, *, hub_schema: Mapping[str, Any] | None = None, overrides: Overrides | None = None
) -> type:
    """Return a class of pytest tests: every law, from every version of the CRD's kind (and a hub with a schema).

    ``overrides`` gives strategies for fields whose values a schema does not tell: by version, then by path
    (``{"v1beta2": {".spec.versions[].lifecycle": lifecycles()}}``).
    """
    suite = _Suite(graph, crd, hub_schema, overrides or {})
    tests = {f"test_{name}": _test(name, strategy, check) for name, strategy, check in suite.checks()}
    return type(f"Test{crd.kind}Laws", (), {"__doc__": f"The laws of {crd.name}.", **tests})


def _test(name: str, strategy: Strategy, check: Callable[[Any], None]) -> Callable[[Any], None]:
    def test(_self: object, value: Any) -> None:
        check(value)

    test.__name__ = f"test_{name}"
    test.__doc__ = f"Fails when the law is broken: {name.replace('_', ' ')}."
    # Generated objects are large and generating them is slow: no defect of a test.
    relaxed = settings(suppress_health_check=list(HealthCheck), deadline=None, print_blob=True)
    tested: Callable[[Any], None] = relaxed(given(value=strategy)(test))
    return tested


def _edits_of_items(laws: Laws, target: str) -> Callable[[tuple[Json, int]], None]:
    return lambda sample: laws.edits_of_items(sample[0], target, sample[1])


@dataclass(frozen=True, slots=True)
class _Suite:
    graph: Graph
    crd: Crd
    hub_schema: Mapping[str, Any] | None
    overrides: Overrides

    def checks(self) -> Iterator[Check]:
        """Yield every check: its name, where its values come from, and what it asks of each."""
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
        return Generator(self.overrides.get(version, {}))
