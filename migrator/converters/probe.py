"""Ask the CRD's conversion webhook before a migration does: does it answer, and for what, and what does it make up.

A real object of the sample is converted from the storage version to every other one and back, and once more without
its content: API servers send such partial objects too, when they work on managedFields.
"""

from __future__ import annotations

from collections.abc import Sequence

from restow.crds import Crd, pruned_paths
from restow.kube.resources import qualified_name
from restow.migrator.converters.converter import Answer, Converter, ConverterDown, Json, Unconverted
from restow.migrator.planning.findings import Check, Finding

__all__ = ["probe"]

_MOST_PATHS = 5


async def probe(converter: Converter, crd: Crd, sample: Json | None, *, needed: bool) -> list[Finding]:
    """Return what is wrong with a CRD's conversion webhook, or nothing.

    Args:
        converter: the way to it.
        crd: the CRD.
        sample: an object at the storage version; None where there is none.
        needed: whether a migration has to convert entries through it; otherwise only the API server needs it.
    """
    found: list[Finding] = []
    whole = _plain(sample) if sample is not None else None
    partial = _without_content(whole or _made_up(crd))
    try:
        for version in crd.versions:
            if version.storage:
                continue
            if whole is not None:
                found += await _there_and_back(converter, crd, whole, version.name, needed=needed)
            found += await _partial(converter, crd, partial, version.name)
    except ConverterDown as down:
        then = "The migration has nothing to translate through it, and the API server may reach it all the same"
        if needed:
            then = "Until then a migration cannot translate managedFields"
        message = f"{str(down).rstrip('.')}. {then}"
        found.append(Finding(check=Check.WEBHOOK, message=message, fails=needed, reason="ConverterDown"))
    return found


async def _there_and_back(converter: Converter, crd: Crd, obj: Json, name: str, *, needed: bool) -> list[Finding]:
    version, storage = crd.version(name), crd.storage
    assert version is not None
    old = await _one(converter, obj, version.api_version)
    if isinstance(old, Unconverted):
        return [_refused(crd, obj, name, old, fails=needed)]
    new = await _one(converter, old, storage.api_version)
    if isinstance(new, Unconverted):
        return [_refused(crd, old, storage.name, new, fails=needed)]
    found = []
    for answer, at in ((old, version), (new, storage)):
        if paths := pruned_paths(answer, at.schema):
            message = (
                f"the conversion webhook of {crd.name} answers {_where(obj)} at {at.name} with fields that {at.name} "
                f"does not declare, and the API server prunes them: {_few(paths)}. Declare them, or mend the conversion"
            )
            found.append(_finding(obj, message))
    return found


async def _partial(converter: Converter, crd: Crd, obj: Json, name: str) -> list[Finding]:
    version = crd.version(name)
    assert version is not None
    answer = await _one(converter, obj, version.api_version)
    if not isinstance(answer, Unconverted):
        return []
    message = (
        f"the conversion webhook of {crd.name} does not convert an object without spec and status to {name}: "
        f"{answer.message.rstrip('.')}. API servers send such objects when they work on managedFields, and empty these "
        "where that fails: have it leave out what it is not given"
    )
    return [Finding(check=Check.WEBHOOK, message=message, reason="CannotConvert")]


def _refused(crd: Crd, obj: Json, name: str, answer: Unconverted, *, fails: bool) -> Finding:
    message = (
        f"{_where(obj)} cannot be converted to {name} by the conversion webhook of {crd.name}: "
        f"{answer.message.rstrip('.')}. Mend the object, or the webhook, then plan again"
    )
    return _finding(obj, message, fails=fails, reason="CannotConvert")


def _finding(obj: Json, message: str, *, fails: bool = False, reason: str = "") -> Finding:
    metadata = obj["metadata"]
    return Finding(
        check=Check.WEBHOOK,
        message=message,
        fails=fails,
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        reason=reason,
    )


async def _one(converter: Converter, obj: Json, api_version: str) -> Answer:
    [answer] = await converter.convert([obj], api_version)
    return answer


def _plain(obj: Json) -> Json:
    return obj | {"metadata": {key: value for key, value in obj["metadata"].items() if key != "managedFields"}}


def _without_content(obj: Json) -> Json:
    return {key: obj[key] for key in ("apiVersion", "kind", "metadata")}


def _made_up(crd: Crd) -> Json:
    metadata = {"name": "restow-probe", "uid": "00000000-0000-4000-8000-000000000000"}
    if crd.namespaced:
        metadata["namespace"] = "default"
    return {"apiVersion": crd.storage.api_version, "kind": crd.kind, "metadata": metadata}


def _where(obj: Json) -> str:
    return qualified_name(obj["metadata"].get("namespace"), obj["metadata"]["name"])


def _few(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _MOST_PATHS} more" if len(paths) > _MOST_PATHS else ""
    return ", ".join(paths[:_MOST_PATHS]) + more
