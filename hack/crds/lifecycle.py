"""The fields that say how a version of Kubernetes or of a machine image moves from one classification to the next.

v1beta2 lists the stages (``lifecycle``, GEP-32); v1beta1 has the older fields ``classification`` and
``expirationDate``. Each version declares the fields of the other version only to refuse them with a message. If they
were undeclared, the API server would prune them, and a version that loses its expiration this way never expires.

Pure.
"""

from __future__ import annotations

from typing import Final

from hack.crds.nodes import ApiVersion, Node, Use, keyed, moment, record, refused, rule, text

CLASSIFICATIONS: Final = ["unavailable", "preview", "supported", "deprecated", "expired"]

_RANKS: Final = {classification: rank for rank, classification in enumerate(CLASSIFICATIONS)}

_ORDER: Final = rule(
    f"self.map(stage, {_RANKS}[?stage.classification].orValue({len(_RANKS)})).isSorted()",
    "stages must stand in the order unavailable, preview, supported, deprecated, expired: put each in its place",
)
_LEADING: Final = rule(
    "self.map(stage, has(stage.startTime)).isSorted()",
    "only the first stages can do without startTime, for they have started already: give every later stage one",
    "FieldValueRequired",
)
_MONOTONIC: Final = rule(
    "self.map(stage, has(stage.startTime), stage.startTime).isSorted()",
    "a stage cannot start before the one in front of it: give it the same startTime or a later one",
)
_NOT_RECLASSIFIED: Final = rule(
    "false",
    "an override moves the dates of a Kubernetes version and cannot reclassify it: remove classification",
    "FieldValueForbidden",
)
_NO_STAGES: Final = rule(
    "size(self) == 0",
    "lifecycle is a field of core.gardener.cloud/v1beta2: write the manifest at that version (`restow convert --to "
    "v1beta2` rewrites it), or classification and expirationDate instead",
    "FieldValueForbidden",
)


def expirable(api: ApiVersion, use: Use, *, of_kubernetes: bool) -> dict[str, Node]:
    """Return the fields that give the stages of a version and their times."""
    return _v1beta2() if api == "v1beta2" else _v1beta1(use, of_kubernetes=of_kubernetes)


def classified(what: str) -> Node:
    """Return the list in which a status shows the current stage of every version of ``what``."""
    fields = {
        "version": text("The version, as in the spec."),
        "classification": text("The stage that the version is in.", enum=CLASSIFICATIONS),
    }
    item = record("", fields, required=["version", "classification"])
    return keyed(
        f"Every version of {what} with its current stage, also those that v1beta1 does not show.", "version", item
    )


def _v1beta2() -> dict[str, Node]:
    stage = record(
        "",
        {
            "classification": text("The classification from the start of this stage on.", enum=CLASSIFICATIONS),
            "startTime": moment(
                "When the stage starts (RFC 3339); without one it has started already, which only the first stages can "
                "say."
            ),
        },
    )
    return {
        "lifecycle": keyed(
            "The stages of the version, in the order unavailable, preview, supported, deprecated, expired; any of them "
            "can be left out. Of the stages that have started the last one counts; if none has, the version is "
            "unavailable. A version without stages is supported. A NamespacedCloudProfile names the stages it moves.",
            "classification",
            stage,
            most=len(CLASSIFICATIONS),
            rules=[_ORDER, _LEADING, _MONOTONIC],
        ),
        "classification": refused("classification", "write it here as the first stage of lifecycle, without startTime"),
        "expirationDate": refused("expirationDate", "write it here as the startTime of a stage expired in lifecycle"),
    }


def _v1beta1(use: Use, *, of_kubernetes: bool) -> dict[str, Node]:
    rules = [_NOT_RECLASSIFIED] if use == "override" and of_kubernetes else []
    return {
        "classification": text(
            "The stage that the version is in, until expirationDate has passed; without one it is supported. "
            "Deprecated: lifecycle of v1beta2 takes its place.",
            enum=CLASSIFICATIONS[1:-1],
            rules=rules,
        ),
        "expirationDate": moment(
            "When the version expires (RFC 3339). Deprecated: lifecycle of v1beta2 takes its place."
        ),
        "lifecycle": {
            "description": "Not a field of this version: it belongs to v1beta2, and is refused here.",
            "type": "array",
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "x-kubernetes-validations": [_NO_STAGES],
        },
    }
