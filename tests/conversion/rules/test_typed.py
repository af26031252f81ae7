"""Functions over pydantic models keep the laws, within their documented limits."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from restow.conversion import RuleFailed
from restow.conversion.rules.typed import models
from restow.conversion.testing import roundtrip_suite
from tests.conversion.randomkinds import GROUP, KIND, crd, freeze, obj

OLD = {"port": {"type": "integer"}, "hostName": {"type": "string"}}
NEW = {"port": {"type": "integer"}, "host": {"type": "string"}}


class Old(BaseModel):
    """The spoke's shape."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)
    port: int | None = None
    host_name: str | None = Field(default=None, alias="hostName")


class New(BaseModel):
    """The hub's shape."""

    model_config = ConfigDict(extra="allow")
    port: int | None = None
    host: str | None = None


def renamed(model: BaseModel, source: str, target: str, other: type[BaseModel]) -> Any:
    fields = {name: getattr(model, name) for name in model.model_fields_set}
    return other(**{target if name == source else name: value for name, value in fields.items()})


RULE = models(
    "spec",
    Old,
    "spec",
    New,
    up=lambda old: renamed(old, "host_name", "host", New),
    down=lambda new: renamed(new, "host", "host_name", Old),
)
CRD = crd({"v2": obj({"spec": obj(NEW)}), "v1": obj({"spec": obj(OLD)})})
GRAPH = freeze({"v1": [RULE]}, CRD)

TestTyped = roundtrip_suite(GRAPH, CRD)


def test_models_convert() -> None:
    """Unset stays unset and unknown survives; else partial objects gain nulls."""
    thing = {"apiVersion": f"{GROUP}/v1", "kind": KIND, "spec": {"hostName": "a", "more": [1]}}
    assert GRAPH.convert(thing, f"{GROUP}/v2")["spec"] == {"host": "a", "more": [1]}


def test_a_value_that_does_not_validate_names_the_rule_only() -> None:
    """A model's refusal says where, and not what."""
    thing = {"apiVersion": f"{GROUP}/v1", "kind": KIND, "spec": {"port": "s3cret"}}
    with pytest.raises(RuleFailed, match=r"^/spec: pair\(spec <-> spec\) raised ValidationError$"):
        GRAPH.convert(thing, f"{GROUP}/v2")


class Demanding(BaseModel):
    """Requires a field, which parts of objects may lack."""

    model_config = ConfigDict(extra="allow")
    port: int


class Closed(BaseModel):
    """Drops what it does not know."""

    port: int | None = None


@pytest.mark.parametrize(("model", "words"), [(Demanding, "requires port"), (Closed, "unknown fields")])
def test_models_that_cannot_keep_the_laws_are_refused(model: type[Any], words: str) -> None:
    """What would break partial objects or unknown fields is refused when the rule is made."""
    with pytest.raises(TypeError, match=words):
        models("spec", model, "spec", New, up=lambda old: old, down=lambda new: new)
