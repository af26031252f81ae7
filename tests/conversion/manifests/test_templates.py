"""Template expressions that a rule must not compute from, and places that speak of a kind and that no rule reaches."""

from __future__ import annotations

import pytest

from restow.conversion import Graph, Registry, rules
from restow.conversion.manifests import Status, Targets, convert_manifest
from restow.conversion.manifests.convert import Converted

GROUP = "templates.example.dev"


def seconds(text: str) -> int:
    number = "".join(each for each in text if each.isdecimal())
    return int(number or "0")


def strict(text: str) -> int:
    return int(text.removesuffix("s"))


def graph_of(*more: rules.Rule) -> Graph:
    registry = Registry()
    registry.kind(GROUP, "Node", hub="v2").spoke("v1")(
        lambda: [
            rules.pair("spec.drain", "spec.drainSeconds", up=seconds, down=lambda v: f"{v}s", loses="both"),
            rules.pair("spec.exact", "spec.exactSeconds", up=strict, down=lambda v: f"{v}s"),
            rules.rename("spec.name", "spec.title"),
            rules.wrap("spec.host", "spec.names[]"),
            rules.enum("spec.mode", {"full": "Full"}),
            rules.each("spec.hosts", [rules.pair("ttl", "ttlSeconds", up=strict, down=lambda v: f"{v}s")]),
            *more,
        ]
    )
    return registry.freeze()


def converted(text: str) -> Converted:
    graph = graph_of()
    return convert_manifest(text, graph, Targets.of(graph, "v2"))


def node(spec: str) -> str:
    return f"apiVersion: {GROUP}/v1\nkind: Node\nmetadata:\n  name: a\nspec:\n{spec}"


@pytest.mark.parametrize("text", ['"${DRAIN:-10m0s}"', "'{{ .Values.drain }}'", "$(DRAIN)s"])
@pytest.mark.parametrize("field", ["drain", "exact"])
def test_a_computed_field_with_a_template_is_left_alone(field: str, text: str) -> None:
    """600 made of "${DRAIN:-10m0s}" is wrong wherever DRAIN is set, and nothing would say so."""
    found = converted(node(f"  # how long\n  {field}: {text}\n  name: '{{{{ .Values.name }}}}'\n"))
    assert f"  {field}: {text}\n" in found.text
    assert "Seconds" not in found.text
    assert "  title: '{{ .Values.name }}'\n" in found.text
    assert f"apiVersion: {GROUP}/v2\n" in found.text
    (outcome,) = found.outcomes
    assert outcome.status is Status.CONVERTED
    assert outcome.spared == (f"/spec/{field}",)
    assert f"/spec/{field} is left as it is, since pair(spec.{field} <-> spec.{field}Seconds)" in outcome.warnings[0]


def test_a_wrapped_field_is_converted_and_an_enum_is_not() -> None:
    """A list of the expression means the same; a value that a table would have to translate does not."""
    found = converted(node("  host: ${HOST}\n  mode: ${MODE}\n"))
    assert found.outcomes[0].spared == ("/spec/mode",)
    assert "host:" not in found.text
    assert "${HOST}" in found.text
    assert "  mode: ${MODE}\n" in found.text


def test_in_a_list() -> None:
    """The other items are converted."""
    found = converted(node("  hosts:\n  - ttl: 5s\n  - ttl: ${TTL}\n"))
    assert "  - ttlSeconds: 5\n  - ttl: ${TTL}\n" in found.text
    assert found.outcomes[0].spared == ("/spec/hosts/1/ttl",)


def test_a_value_without_template_still_fails() -> None:
    """What a function refuses for another reason is a failure of the object, with the line of the function."""
    found = converted(node("  exact: soon\n"))
    (outcome,) = found.outcomes
    assert outcome.status is Status.FAILED
    assert "raised ValueError at " in outcome.error
    assert "test_templates.py:" in outcome.error
    assert "soon" not in outcome.error


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            f"apiVersion: {GROUP}/v1\nkind: NodeClass\n",
            "there are rules for Node of templates.example.dev, and none for",
        ),
        (
            (
                "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\npatches:\n"
                f"- target: {{group: {GROUP}, version: v1, kind: Node}}\n  path: patch.yaml\n"
            ),
            "/patches/0/target selects Node at templates.example.dev/v1",
        ),
        (
            (
                "kind: Kustomization\npatchesStrategicMerge:\n"
                f"- |\n  apiVersion: {GROUP}/v1\n  kind: Node\n  metadata: {{name: a}}\n"
            ),
            "/patchesStrategicMerge/0 is a patch of Node at templates.example.dev/v1",
        ),
        (
            f"apiVersion: v1\nkind: ConfigMap\ndata:\n  node.yaml: |\n    apiVersion: {GROUP}/v1\n    kind: Node\n",
            "/data/node.yaml holds a manifest with Node at templates.example.dev/v1",
        ),
    ],
)
def test_what_speaks_of_a_kind_is_named(text: str, said: str) -> None:
    """Who converts a repository believes that all of it is converted."""
    found = converted(text)
    assert found.text == text
    assert said in found.outcomes[0].warnings[0]


def test_what_is_at_the_new_version_is_not_named() -> None:
    """A note about what is right teaches people to overlook notes."""
    text = (
        f"apiVersion: v1\nkind: ConfigMap\ndata:\n  node.yaml: |\n    apiVersion: {GROUP}/v2\n    kind: Node\n---\n"
        f"kind: Kustomization\npatches:\n- target: {{group: {GROUP}, version: v2, kind: Node}}\n"
        f"- target: {{kind: Node}}\n- target: {{group: apps, version: v1, kind: Deployment}}\n"
    )
    assert [outcome.warnings for outcome in converted(text).outcomes] == [(), ()]
