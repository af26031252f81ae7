"""Revisions of conversions, and the ConfigMap of each CRD through which the leader and the replicas agree on them.

A revision is a ``ConversionRules`` document together with the versions of the CRD that it was checked against: all
that a replica needs to compile the same conversions, now or after a restart. Its name is a hash of its content.

The ConfigMap of a CRD has these entries in ``data``: the rules' name, the active revision, the candidate that the
replicas compile first, the generation of each, the rehearsed revision, the one in rehearsal, one that must not be
rehearsed, whether and how the CRD may be wired, what a takeover replaced, and the admission steps. ``binaryData`` holds
the revisions. Each replica adds an entry of its own. The leader writes all other entries, and nothing else writes the
ConfigMap.

Pure.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

import msgspec

from restow.conversion.compile.graph import Graph
from restow.conversion.model.errors import ConversionError
from restow.conversion.rulefiles.parse import parse, registry_of
from restow.crds import Crd, CrdError

#: The name of the ValidatingWebhookConfiguration for ConversionRules.
CONFIGURATION: Final = "restow-conversionrules"

FINALIZER: Final = "restow.dev/conversions"
#: This annotation, with any value, allows a deletion although the CRD still needs its webhook.
BREAK_GLASS: Final = "restow.dev/delete-although-needed"
#: A new value of this annotation declares rules once more (``declarations``).
DECLARED: Final = "restow.dev/declared"
LABEL: Final = "restow.dev/conversions"

_PREFIX: Final = "restow-conversions."
_REPLICA: Final = "replica."
_STEP: Final = "step."
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
    """Rules and the CRD that they are for. ``name`` is the hash of ``text``.

    Crossplane gives the CRD of a claim the ``spec.conversion`` of its composite kind. ``claim`` is that CRD, and the
    same rules apply to both.
    """

    rules: Mapping[str, Any]
    crd: Mapping[str, Any]
    claim: Mapping[str, Any] | None
    name: str
    text: bytes

    @classmethod
    def of(cls, document: Mapping[str, Any], crd: Crd, claim: Crd | None = None) -> Revision:
        """Return the revision of a ``ConversionRules`` object and its CRDs, as all were read."""
        rules = {
            "apiVersion": document["apiVersion"],
            "kind": document["kind"],
            "metadata": {"name": document["metadata"]["name"]},
            "spec": {name: value for name, value in document["spec"].items() if name != "takeOver"},
        }
        content = {"rules": rules, "crd": _reduced(crd)}
        content |= {} if claim is None else {"claim": _reduced(claim)}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        return cls(rules, content["crd"], content.get("claim"), hashlib.sha256(text).hexdigest()[:16], text)

    @property
    def body(self) -> str:
        """The stored form."""
        return base64.b64encode(zlib.compress(self.text, 9)).decode("ascii")

    @classmethod
    def read(cls, name: str, body: str) -> Revision:
        """Read the stored form.

        Raises:
            RevisionUnreadable: it is malformed, or its content does not match its name.
        """
        try:
            unpacker = zlib.decompressobj()
            text = unpacker.decompress(base64.b64decode(body, validate=True), _MOST)
            content = msgspec.json.decode(text)
            rules, crd, claim = content["rules"], content["crd"], content.get("claim")
        except (ValueError, zlib.error, TypeError, KeyError, msgspec.MsgspecError) as error:
            raise RevisionUnreadable(f"the revision {name} cannot be read: {type(error).__name__}") from error
        if hashlib.sha256(text).hexdigest()[:16] != name:
            raise RevisionUnreadable(f"the revision {name} has another content than its name says")
        return cls(rules, crd, claim, name, text)

    def graph(self) -> Graph:
        """Compile the revision; raises as ``checked``."""
        return self.checked().compile()

    def checked(self) -> Graph:
        """Return the conversions, whose routes are compiled when they are needed.

        Raises:
            ConversionError: this release of restow cannot parse it, or finds mistakes in it.
        """
        crds = self.targets()
        return registry_of(parse(for_kind(self.rules, crd.kind)) for crd in crds).check(crds)

    def targets(self) -> tuple[Crd, ...]:
        """Return the CRD, and that of its claims, with the parts that conversions depend on.

        Raises:
            RevisionUnreadable: one of them is malformed.
        """
        try:
            return tuple(map(Crd.from_document, filter(None, (self.crd, self.claim))))
        except CrdError as error:
            raise RevisionUnreadable(f"the revision {self.name} has a malformed CRD: {error}") from error

    @property
    def hub(self) -> str:
        """The hub version."""
        return str(self.rules["spec"]["hub"])


def for_kind(document: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return a document of rules for another kind of the same group."""
    spec = document["spec"]
    return {**document, "spec": {**spec, "target": {**spec["target"], "kind": kind}}}


def _reduced(crd: Crd) -> dict[str, Any]:
    """Return the parts of a CRD that conversions depend on."""
    spec = crd.document["spec"]
    kept = ("name", "served", "storage", "schema", "subresources")
    versions = [{name: each[name] for name in kept if name in each} for each in spec["versions"]]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": crd.name},
        "spec": {"group": crd.group, "names": spec["names"], "scope": spec["scope"], "versions": versions},
    }


class StepState(StrEnum):
    """Whether API servers should call an admission step for a kind, or call it only until the leader has removed it."""

    WANTED = "wanted"
    ENDING = "ending"


class Report(msgspec.Struct, frozen=True, omit_defaults=True):
    """A replica's report on one CRD.

    Attributes:
        compiled: the names of the revisions that it has compiled.
        serves: the revision that it converts by; empty for none.
        wires: whether it keeps the CRD's wiring.
        steps: the admission steps whose webhook configurations it keeps.
        problem: why it cannot compile a revision.
    """

    compiled: tuple[str, ...] = ()
    serves: str = ""
    wires: bool = False
    steps: tuple[str, ...] = ()
    problem: str = ""

    @property
    def text(self) -> str:
        """The entry in the ConfigMap."""
        return msgspec.json.encode(self).decode()


#: In place of a ``Former``: something was taken over, perhaps, and the record of it was lost.
LOST: Final = "lost"


class Former(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was there before a takeover.

    Attributes:
        conversion: the whole ``spec.conversion``.
        manager: the field manager that had written its address; empty if unknown.
        permitted: whether ``spec.takeOver`` names it (still): otherwise it is put back in the end, and not replaced
            another time.
    """

    conversion: dict[str, Any]
    manager: str = ""
    permitted: bool = False

    @property
    def text(self) -> str:
        """The entry in the ConfigMap."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def read(cls, text: str) -> Former | None:
        """Read the entry; None if nothing is remembered."""
        try:
            return msgspec.json.decode(text, type=cls) if text else None
        except msgspec.MsgspecError:
            return None


@dataclass(frozen=True, slots=True)
class RevisionRecord:
    """The ConfigMap of one CRD, read.

    Attributes:
        crd: the CRD's name.
        rules: the name of the ``ConversionRules`` object.
        active, candidate: names of revisions; empty for none.
        active_generation, candidate_generation: the generations of the object from which they were made.
        rehearsed: the last revision that was rehearsed on every live object.
        rehearsing: a revision whose rehearsal may end the process, and how often it was started; empty for none.
        fatal: a revision that must not be rehearsed again, and why; empty for none.
        wired: whether the CRD may be wired.
        composite: the apiVersion of the CompositeResourceDefinition from which Crossplane makes the CRD, and which is
            wired instead; empty for none.
        former: the text of the ``Former`` that the wiring replaces, or LOST; empty if it replaces nothing.
        steps: the admission steps that may have a webhook configuration, by their names.
        revisions: the stored form of each revision, by name.
        reports: the reports of the replicas, by their names.
        version: the resourceVersion of the ConfigMap; empty if there is none.
    """

    crd: str
    rules: str = ""
    active: str = ""
    active_generation: int = 0
    candidate: str = ""
    candidate_generation: int = 0
    rehearsed: str = ""
    rehearsing: str = ""
    fatal: str = ""
    wired: bool = False
    composite: str = ""
    former: str = ""
    steps: Mapping[str, StepState] = field(default_factory=dict)
    revisions: Mapping[str, str] = field(default_factory=dict)
    reports: Mapping[str, Report] = field(default_factory=dict)
    version: str = ""

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
            rehearsing=data.get("rehearsing") or "",
            fatal=data.get("fatal") or "",
            wired=data.get("wired") == "true",
            composite=data.get("composite") or "",
            former=data.get("former") or "",
            steps={
                name.removeprefix(_STEP): StepState(text)
                for name, text in data.items()
                if name.startswith(_STEP) and text in list(StepState)
            },
            revisions={
                name.removeprefix("revision."): body
                for name, body in (document.get("binaryData") or {}).items()
                if name.startswith("revision.")
            },
            reports={
                name.removeprefix(_REPLICA): _report(text) for name, text in data.items() if name.startswith(_REPLICA)
            },
            version=document["metadata"].get("resourceVersion") or "",
        )

    def starts_of(self, revision: str) -> int:
        """Return how often a rehearsal of a revision was started that has not ended."""
        name, _, starts = self.rehearsing.partition(" ")
        return _number(starts) if name == revision else 0

    def fatal_for(self, revision: str) -> str | None:
        """Return why a revision must not be rehearsed again, None if it may be."""
        name, _, said = self.fatal.partition(" ")
        return said if name == revision else None

    def targets(self) -> tuple[Crd, ...]:
        """Return the CRDs of the served revision, for when they are gone; none if no revision can be read."""
        for name in filter(self.revisions.get, (self.active, self.candidate)):
            with suppress(RevisionUnreadable):
                return Revision.read(name, self.revisions[name]).targets()
        return ()

    def patch(self, *, live: frozenset[str] | None = None, **changes: Any) -> dict[str, Any]:
        """Return the merge patch of the leader's own entries; it removes reports of replicas that are not ``live``.

        ``changes`` are attributes of this class; ``steps`` is the complete new value, ``revisions`` the ones to add.
        The patch removes revisions that are then neither active nor the candidate.
        """
        after = {
            "rules": changes.get("rules", self.rules),
            "active": changes.get("active", self.active),
            "activeGeneration": str(changes.get("active_generation", self.active_generation)),
            "candidate": changes.get("candidate", self.candidate),
            "candidateGeneration": str(changes.get("candidate_generation", self.candidate_generation)),
            "rehearsed": changes.get("rehearsed", self.rehearsed),
            "rehearsing": changes.get("rehearsing", self.rehearsing),
            "fatal": changes.get("fatal", self.fatal),
            "wired": "true" if changes.get("wired", self.wired) else "false",
            "composite": changes.get("composite", self.composite),
            "former": changes.get("former", self.former),
        }
        steps: Mapping[str, StepState] = changes.get("steps", self.steps)
        data: dict[str, str | None] = dict(after)
        data |= {f"{_STEP}{name}": None for name in self.steps if name not in steps}
        data |= {f"{_STEP}{name}": state.value for name, state in steps.items()}
        if live is not None:
            data |= {report_key(name): None for name in self.reports if name not in live}
        needed = {after["active"], after["candidate"]}
        added: Mapping[str, str] = changes.get("revisions", {})
        binary: dict[str, str | None] = {f"revision.{name}": None for name in self.revisions if name not in needed}
        binary |= {f"revision.{name}": body for name, body in added.items() if self.revisions.get(name) != body}
        return {"data": data, "binaryData": binary}


def _number(text: Any) -> int:
    return int(text) if isinstance(text, str) and text.isdecimal() else 0


def _report(text: str) -> Report:
    try:
        return msgspec.json.decode(text, type=Report)
    except msgspec.MsgspecError:
        return Report()
