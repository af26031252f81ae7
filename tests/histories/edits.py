"""What the authors of a CRD, and other tools, change in its document. Pure."""

from __future__ import annotations

import copy
from typing import Any

from tests.histories.owners import FIELDS

Document = dict[str, Any]

_RESTOWS = "restow.dev/"
_TEXT = {"type": "string"}


def schema() -> Document:
    """The schema of each version at first. All of them have the fields of all, so that nothing is ever pruned."""
    texts = dict.fromkeys(("color", "policy", *FIELDS), _TEXT)
    notes = {"type": "object", "additionalProperties": _TEXT}
    spec = {"type": "object", "properties": {"size": {"type": "integer"}, "notes": notes} | texts}
    return {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}


def is_wired(crd: Document) -> bool:
    """Whether the conversion webhook is asked."""
    return bool(crd["spec"].get("conversion", {}).get("strategy") == "Webhook")


def wire(crd: Document, client: Document | None) -> None:
    """Have objects converted by a webhook, or by none."""
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
    crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook} if client else {"strategy": "None"}


def make_atomic(crd: Document, version: str) -> None:
    """Have the map of a version owned as one."""
    _properties(crd, version)["notes"]["x-kubernetes-map-type"] = "atomic"


def add_default(crd: Document, version: str) -> None:
    """Give a field of a version a default."""
    _properties(crd, version)["policy"] = _TEXT | {"default": "Retain"}


def _properties(crd: Document, version: str) -> Document:
    [found] = [each for each in crd["spec"]["versions"] if each["name"] == version]
    properties: Document = found["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return properties


def storage_of(crd: Document) -> str:
    """The storage version of a CRD."""
    return str(next(each["name"] for each in crd["spec"]["versions"] if each["storage"]))


def store_at(crd: Document, version: str) -> None:
    for each in crd["spec"]["versions"]:
        each["storage"] = each["name"] == version


def serve(crd: Document, version: str, *, served: bool) -> None:
    for each in crd["spec"]["versions"]:
        each["served"] = served if each["name"] == version else each["served"]


def serve_storage_only(crd: Document) -> None:
    for each in crd["spec"]["versions"]:
        each["served"] = each["storage"]


def describe(crd: Document, text: str) -> None:
    for each in crd["spec"]["versions"]:
        each["schema"]["openAPIV3Schema"]["description"] = text


def restows(crd: Document) -> dict[str, str | None]:
    found: dict[str, str | None] = crd["metadata"].get("annotations") or {}
    return {name: value for name, value in found.items() if name.startswith(_RESTOWS)}


def roll_back(crd: Document, past: Document) -> None:
    """The whole document of then, managedFields and all, as ``kubectl replace`` of a dump has it."""
    identity = {key: crd["metadata"][key] for key in ("uid", "resourceVersion")}
    crd.clear()
    crd |= copy.deepcopy(past)
    crd["metadata"] |= identity
