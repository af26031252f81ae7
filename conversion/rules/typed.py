"""Rules with functions over pydantic models, for authors who want types. Needs pydantic.

    typed.models("spec.policy", OldPolicy, "spec.policy", Policy, up=to_policy, down=to_old_policy)

Objects may be partial and have unknown fields, so typed rules have limits:

- every field must be optional (``= None``), because the API server sends parts of objects. Unset fields stay unset, so
  models must be changed with ``model_copy(update=…)`` or built with only the fields that they have;
- unknown fields survive only in models with ``extra="allow"``; the constructor checks this;
- a value that does not validate fails the conversion of its object, so a constraint in the model that the CRD's
  schema does not have makes stored objects unreadable;
- validating and dumping costs several times as much as the rest of a conversion: not for hot paths.

The same checks apply as to every lens: a value that the inverse does not restore is stashed, and ``loses`` declares it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel

from restow.conversion.rules.lens import Loses, pair
from restow.conversion.rules.protocol import Rule

Spoke = TypeVar("Spoke", bound=BaseModel)
Hub = TypeVar("Hub", bound=BaseModel)


def models(
    spoke: str,
    spoke_model: type[Spoke],
    hub: str,
    hub_model: type[Hub],
    *,
    up: Callable[[Spoke], Hub],
    down: Callable[[Hub], Spoke],
    loses: Loses = "nothing",
) -> Rule:
    """Convert one object by functions between two models.

    Raises:
        TypeError: a model has a required field, or does not set ``extra="allow"``.
    """
    _check(spoke_model)
    _check(hub_model)
    return pair(spoke, hub, up=_through(spoke_model, up), down=_through(hub_model, down), loses=loses)


def _through(model: type[Any], function: Callable[[Any], BaseModel]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        result = function(model.model_validate(value))
        return result.model_dump(mode="json", by_alias=True, exclude_unset=True)

    return convert


def _check(model: type[BaseModel]) -> None:
    required = sorted(name for name, field in model.model_fields.items() if field.is_required())
    if required:
        message = f"{model.__name__} requires {', '.join(required)}, but objects may be partial: give a default"
        raise TypeError(message)
    if model.model_config.get("extra") != "allow":
        message = f'{model.__name__} would drop unknown fields: set model_config = ConfigDict(extra="allow")'
        raise TypeError(message)
