"""Revisions of conversions, and the ConfigMap of each CRD through which the leader and the replicas agree on them.

A revision is a ``ConversionRules`` document together with the versions of the CRD that it was checked against: all
that a replica needs to compile the same conversions, now or after a restart. Its name is a hash of its content.

The ConfigMap of a CRD has, in ``data``: the rules' name, the active revision, and the candidate that the replicas are
asked to compile first; the generation of each; the revision that was rehearsed; whether the CRD may be wired. Each
replica adds an entry of its own. The leader writes all other entries, and nothing else writes the ConfigMap.

Pure.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from restow.conversion.compile.graph import Graph
from restow.conversion.model.errors import ConversionError
from restow.conversion.rulefiles.parse import parse, registry_of
from restow.crds import Crd, CrdError
from restow.kube.resources import Resource

__all__ = [
    "BREAK_GLASS",
    "CONFIGURATION",
    "CONVERSION_RULES",
    "FINALIZER",
    "LABEL",
    "Report",
    "Revision",
    "RevisionRecord",
    "RevisionUnreadable",
    "record_name",
    "report_key",
]

#: The name of the ValidatingWebhookConfiguration for ConversionRules.
CONFIGURATION: Final = "restow-conversionrules"

CONVERSION_RULES: Final = Resource("restow.dev", "v1alpha1", "conversionrules", namespaced=False)
FINALIZER: Final = "restow.dev/conversions"
#: With this annotation, whatever its value, a deletion is not held back though the CRD still needs its webhook.
BREAK_GLASS: Final = "restow.dev/delete-although-needed"
LABEL: Final = "restow.dev/conversions"

_PREFIX: Final = "restow-conversions."
_REPLICA: Final = "replica."
_MOST: Final = 64 * 1024 * 1024


class RevisionUnreadable(ConversionError):
    """A ConfigMap holds no readable revision; the message says which one."""


def record_name(crd: str) -> str:
    """Return the name of the ConfigMap of a CRD."""
    return f"{_PREFIX}{crd}"


def report_key(replica: str) -> str:
    """Return the key of a replica's entry."""
    return f"{_REPLICA}{replica}"


@dataclass(frozen=True, slots=True)
class Revision:
    """Rules and the CRD that they are for. ``name`` is the hash, ``body`` what is stored."""

    rules: Mapping[str, Any]
    crd: Mapping[str, Any]
    name: str
    body: str

    @classmethod
    def of(cls, document: Mapping[str, Any], crd: Crd) -> Revision:
        """Return the revision of a ``ConversionRules`` object and a CRD, as both were read."""
        rules = {
            "apiVersion": document["apiVersion"],
            "kind": document["kind"],
            "metadata": {"name": document["metadata"]["name"]},
            "spec": document["spec"],
        }
        content = {"rules": rules, "crd": _reduced(crd)}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        packed = base64.b64encode(zlib.compress(text, 9)).decode("ascii")
        return cls(rules, content["crd"], hashlib.sha256(text).hexdigest()[:16], packed)

    @classmethod
    def read(cls, name: str, body: str) -> Revision:
        """Read what is stored.

        Raises:
            RevisionUnreadable: it is malformed, or not what its name says.
        """
        try:
            unpacker = zlib.decompressobj()
            text = unpacker.decompress(base64.b64decode(body, validate=True), _MOST)
            content = msgspec.json.decode(text)
            rules, crd = content["rules"], content["crd"]
        except (ValueError, zlib.error, TypeError, KeyError, msgspec.MsgspecError) as error:
            raise RevisionUnreadable(f"the revision {name} cannot be read: {type(error).__name__}") from error
        if hashlib.sha256(text).hexdigest()[:16] != name:
            raise RevisionUnreadable(f"the revision {name} has another content than its name says")
        return cls(rules, crd, name, body)

    def graph(self) -> Graph:
        """Compile it.

        Raises:
            ConversionError: this release of restow cannot parse or compile it.
        """
        try:
            crd = Crd.from_document(self.crd)
        except CrdError as error:
            raise RevisionUnreadable(f"the revision {self.name} has a malformed CRD: {error}") from error
        return registry_of([parse(self.rules)]).freeze([crd])


def _reduced(crd: Crd) -> dict[str, Any]:
    """Return the part of a CRD that conversions depend on."""
    spec = crd.document["spec"]
    kept = ("name", "served", "storage", "schema", "subresources")
    versions = [{name: each[name] for name in kept if name in each} for each in spec["versions"]]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": crd.name},
        "spec": {"group": crd.group, "names": spec["names"], "scope": spec["scope"], "versions": versions},
    }


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a replica says of one CRD.

    Attributes:
        compiled: names of the revisions that it has compiled.
        serves: the revision that it converts by; empty for none.
        wires: whether it keeps the CRD's wiring.
        problem: why it cannot compile a revision.
    """

    compiled: tuple[str, ...] = ()
    serves: str = ""
    wires: bool = False
    problem: str = ""

    @property
    def text(self) -> str:
        """The entry in the ConfigMap."""
        return msgspec.json.encode(self).decode()


@dataclass(frozen=True, slots=True)
class RevisionRecord:
    """The ConfigMap of one CRD, read.

    Attributes:
        crd: the CRD's name.
        rules: the name of the ``ConversionRules`` object.
        active, candidate: names of revisions; empty for none.
        active_generation, candidate_generation: of the object from which they were taken.
        rehearsed: the revision that every live object was last converted by.
        wired: whether the CRD may be wired.
        revisions: what is stored of each, by name.
        reports: of the replicas, by their names.
    """

    crd: str
    rules: str = ""
    active: str = ""
    active_generation: int = 0
    candidate: str = ""
    candidate_generation: int = 0
    rehearsed: str = ""
    wired: bool = False
    revisions: Mapping[str, str] = field(default_factory=dict)
    reports: Mapping[str, Report] = field(default_factory=dict)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> RevisionRecord:
        """Read a ConfigMap; entries that are malformed count as absent."""
        data = document.get("data") or {}
        return cls(
            crd=document["metadata"]["name"].removeprefix(_PREFIX),
            rules=data.get("rules") or "",
            active=data.get("active") or "",
            active_generation=_number(data.get("activeGeneration")),
            candidate=data.get("candidate") or "",
            candidate_generation=_number(data.get("candidateGeneration")),
            rehearsed=data.get("rehearsed") or "",
            wired=data.get("wired") == "true",
            revisions={
                name.removeprefix("revision."): body
                for name, body in (document.get("binaryData") or {}).items()
                if name.startswith("revision.")
            },
            reports={
                name.removeprefix(_REPLICA): _report(text) for name, text in data.items() if name.startswith(_REPLICA)
            },
        )

    def patch(self, *, live: frozenset[str] | None = None, **changes: Any) -> dict[str, Any]:
        """Return the merge patch of the leader's own entries; reports of replicas that are not ``live`` go.

        ``changes`` are attributes of this class; ``revisions`` are the ones to add. Revisions that are neither active
        nor the candidate afterwards go.
        """
        after = {
            "rules": changes.get("rules", self.rules),
            "active": changes.get("active", self.active),
            "activeGeneration": str(changes.get("active_generation", self.active_generation)),
            "candidate": changes.get("candidate", self.candidate),
            "candidateGeneration": str(changes.get("candidate_generation", self.candidate_generation)),
            "rehearsed": changes.get("rehearsed", self.rehearsed),
            "wired": "true" if changes.get("wired", self.wired) else "false",
        }
        data: dict[str, str | None] = dict(after)
        if live is not None:
            data |= {report_key(name): None for name in self.reports if name not in live}
        needed = {after["active"], after["candidate"]}
        added: Mapping[str, str] = changes.get("revisions", {})
        binary: dict[str, str | None] = {f"revision.{name}": None for name in self.revisions if name not in needed}
        binary |= {f"revision.{name}": body for name, body in added.items() if name not in self.revisions}
        return {"data": data, "binaryData": binary}


def _number(text: Any) -> int:
    return int(text) if isinstance(text, str) and text.isdecimal() else 0


def _report(text: str) -> Report:
    try:
        return msgspec.json.decode(text, type=Report)
    except msgspec.MsgspecError:
        return Report()
