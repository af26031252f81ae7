"""Requests to the CloudProfile family with all steps of an API server between a client and etcd.

The server decodes the object at the version of the request and fills in that schema's defaults. It calls the mutating
webhooks as listed, each at the version that it is registered for, then checks the schema, then calls the validating
webhooks. It stores the object at the hub, and shows it at both versions. The webhooks here are the steps of `restow
operator`. They are found by the webhook configurations that it applies, and called with AdmissionReviews as bytes.

The schema is checked as ``restow profile`` checks it; CEL rules that compare fields need a real server. A server does
not call validating webhooks if its schema refuses an object. Here they are called anyway, so that one request shows
all its problems; if both report a field, it counts once.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from restow.cloudprofile.admission import admission_steps, webhook_configurations
from restow.cloudprofile.findings import FindingType, ValidationFinding
from restow.conversion.reviews.admission import AdmissionResponse, AdmissionReview
from restow.conversion.server import AdmissionStep
from restow.crds import Schema
from restow.crds.decoding import schema_problems
from restow.crds.types import without_ignored_nulls
from restow.operator.family import conversions, crds
from tests.cloudprofile.memory import Memory
from tests.memory.cluster import Request
from tests.memory.custom import filled_in

__all__ = [
    "HUB",
    "OLD",
    "Answer",
    "ApiServer",
    "at_version",
    "decoded",
    "field_names",
    "findings_in",
    "schema_findings",
    "schema_of",
    "version_of",
]

Document = dict[str, Any]

GROUP = "core.gardener.cloud"
OLD, HUB = "v1beta1", "v1beta2"
_PLURALS = {"CloudProfile": "cloudprofiles", "NamespacedCloudProfile": "namespacedcloudprofiles", "Shoot": "shoots"}
_EVERYBODY = "operator"


@dataclass(frozen=True)
class Answer:
    """The answer that a client gets to a request.

    Attributes:
        refusal: why it is refused; empty if it is not.
        code: the HTTP status, 200 if it is allowed.
        warnings: the admission warnings.
        stored: the object at the hub, as stored; None if the request is refused.
    """

    refusal: str = ""
    code: int = 200
    warnings: tuple[str, ...] = ()
    stored: Document | None = None

    @property
    def allowed(self) -> bool:
        """Whether the request is allowed."""
        return not self.refusal

    @property
    def findings(self) -> list[ValidationFinding]:
        """The reasons of the refusal."""
        return findings_in(self.refusal)

    def at(self, version: str) -> Document:
        """Return the stored object as clients of a version read it."""
        assert self.stored is not None, self.refusal
        return at_version(self.stored, version)


def schema_findings(obj: Document, schema: Schema) -> list[ValidationFinding]:
    """Return the violations of a strict server's schema, except for CEL rules that compare fields."""
    problems = schema_problems(obj, schema)
    return [ValidationFinding(FindingType(each.type), each.field, each.detail) for each in problems]


def _is_about(field: str, others: Iterable[str]) -> bool:
    """Return whether a field, or one in it or around it, is among others."""
    return any(
        f"{one}.".startswith((f"{two}.", f"{two}[")) for each in others for one, two in ((field, each), (each, field))
    )


_LEADS = {
    "Required value": FindingType.REQUIRED,
    "Invalid value": FindingType.INVALID,
    "Unsupported value": FindingType.NOT_SUPPORTED,
    "Duplicate value": FindingType.DUPLICATE,
    "Forbidden": FindingType.FORBIDDEN,
}
_FINDING = re.compile(rf"(?:(?<=\[)|(?<=, )|(?<=: ))((?:spec|status|metadata|object)[^\s:,]*): ({'|'.join(_LEADS)}): ")


def findings_in(refusal: str) -> list[ValidationFinding]:
    """Return the findings in the sentence that refuses a request."""
    found = list(_FINDING.finditer(refusal))
    ends = [each.start() for each in found[1:]] + ([len(refusal)] if found else [])
    return [
        _finding(_LEADS[each[2]], each[1], refusal[each.end() : end].removesuffix(", ").removesuffix("]"))
        for each, end in zip(found, ends, strict=True)
    ]


def _finding(kind: FindingType, field: str, text: str) -> ValidationFinding:
    """Return the finding in a sentence, which may begin with the bad value as JSON."""
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        end = 0
    if not text.startswith(": ", end):
        return ValidationFinding(kind, field, text)
    return ValidationFinding(kind, field, text[end + 2 :], value=text[:end])


def version_of(*parts: Any) -> str:
    """Return the version that has the fields of the objects, or the hub if both versions have them."""
    names = {name for part in parts for name in field_names(part)}
    old = names & {"classification", "cloudProfileName", "expirationDate"}
    return OLD if old and "lifecycle" not in names else HUB


def field_names(value: Any) -> Iterator[str]:
    """Yield the names of the fields in an object of a case, except for those of stages."""
    if isinstance(value, Mapping):
        for name, child in value.items():
            if name == "status":
                continue
            if name == "lifecycle":
                yield name
                continue
            yield name
            yield from field_names(child)
    elif isinstance(value, list):
        for child in value:
            yield from field_names(child)


def at_version(obj: Document, version: str) -> Document:
    """Return an object at a version."""
    return conversions().convert(obj, f"{GROUP}/{version}")


def schema_of(obj: Document) -> Schema:
    """Return the schema of an object's kind at its version."""
    crd = next(crd for crd in crds() if crd.kind == obj["kind"])
    version = crd.version(obj["apiVersion"].rpartition("/")[2])
    assert version is not None
    return version.schema


def decoded(obj: Document) -> Document:
    """Return an object as stored without admission."""
    schema = schema_of(obj)
    return at_version(filled_in(without_ignored_nulls(copy.deepcopy(obj), schema), schema), HUB)


class ApiServer:
    """An API server with the family's CRDs and both webhook configurations in force.

    Args:
        now: the time of admission.
        held: objects by plural, at the version that each is written in.
        verbs: the custom verbs of the user; all of them by default.
    """

    def __init__(self, now: datetime, held: Mapping[str, Iterable[Document]] | None = None, **users: set[str]) -> None:
        self.memory = Memory()
        every = {"modify-spec-kubernetes", "modify-spec-machineImages", "modify-spec-providerConfig"}
        self.memory.verbs.update({_EVERYBODY: every} | users)
        steps = admission_steps(self.memory, conversions(), crds(), lambda: now, tells_names=True)
        self._steps: dict[str, AdmissionStep] = {
            **{f"/mutate/{name}": step for name, step in steps.mutating.items()},
            **{f"/admit/{name}": step for name, step in steps.validating.items()},
        }
        self._mutating, self._validating = (
            each["webhooks"] for each in webhook_configurations("restow", lambda path: {"path": path})
        )
        for plural, objects in (held or {}).items():
            for obj in objects:
                self.memory.seed(plural, decoded(obj))

    @property
    def reviews(self) -> list[Request]:
        """The SubjectAccessReviews that the steps have requested."""
        return [each for each in self.memory.requests if each.resource.plural == "subjectaccessreviews"]

    def create(self, obj: Document, **options: Any) -> Answer:
        """Create an object, which has its apiVersion and kind."""
        return asyncio.run(self._request(obj, None, **options))

    def update(self, obj: Document, old: Document, **options: Any) -> Answer:
        """Replace an object; ``old`` is the old object as sent or as stored."""
        return asyncio.run(self._request(obj, decoded(old), **options))

    async def _request(self, sent: Document, old: Document | None, *, user: str = _EVERYBODY) -> Answer:
        kind, version = sent["kind"], sent["apiVersion"].rpartition("/")[2]
        schema = schema_of(sent)
        obj = filled_in(without_ignored_nulls(copy.deepcopy(sent), schema), schema)
        if old is not None:
            shown = at_version(old, version)
            obj = {name: value for name, value in obj.items() if name != "status"}
            obj |= {"status": shown["status"]} if "status" in shown else {}
        warnings: list[str] = []
        for hook in self._mutating:
            found = await self._asked(hook, obj, old, version, user)
            if found is None:
                continue
            verdict, judged = found
            warnings += verdict.warnings
            if not verdict.allowed:
                return Answer(verdict.message, verdict.code, tuple(warnings))
            if verdict.patch:
                obj = _patched(judged, verdict.patch)
        obj = at_version(obj, version)
        refusal, code = "", 200
        for hook in self._validating:
            found = await self._asked(hook, obj, old, version, user)
            if found is None:
                continue
            verdict, _ = found
            warnings += verdict.warnings
            if not verdict.allowed:
                refusal, code = verdict.message, verdict.code
        said = [each.field for each in findings_in(refusal)]
        if wrong := [each for each in schema_findings(obj, schema) if not _is_about(each.field, said)]:
            sentence = ", ".join(map(str, wrong))
            refusal, code = (f"{refusal}, {sentence}" if refusal else f"{kind} is invalid: {sentence}"), 422
        if refusal:
            return Answer(refusal, code, tuple(warnings))
        return Answer(warnings=tuple(warnings), stored=at_version(obj, HUB))

    async def _asked(
        self, hook: Document, obj: Document, old: Document | None, version: str, user: str
    ) -> tuple[AdmissionResponse, Document] | None:
        """Call a webhook if it is registered for the request; return its answer and the object that it got."""
        (rule, *others) = hook["rules"]
        plural = _PLURALS[obj["kind"]]
        if not any(plural in each["resources"] for each in (rule, *others)):
            return None
        operation = "CREATE" if old is None else "UPDATE"
        (registered,) = rule["apiVersions"]
        if operation not in rule["operations"] or (hook["matchPolicy"] == "Exact" and registered != version):
            return None
        judged = at_version(obj, registered)
        before = None if old is None else at_version(old, registered)
        if not _matches(hook["matchConditions"], judged, before, version):
            return None
        metadata = obj.get("metadata") or {}
        request = {
            "uid": "u",
            "kind": {"group": GROUP, "version": registered, "kind": obj["kind"]},
            "resource": {"group": GROUP, "version": registered, "resource": plural},
            "requestKind": {"group": GROUP, "version": version, "kind": obj["kind"]},
            "operation": operation,
            "name": metadata.get("name") or "",
            "namespace": metadata.get("namespace") or "",
            "userInfo": {"username": user, "groups": ["g"]},
            "object": judged,
            "oldObject": before,
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        read = AdmissionReview.of(json.dumps(review).encode())
        return await self._steps[hook["clientConfig"]["path"]](read.request), judged


def _matches(conditions: list[Document], obj: Document, old: Document | None, version: str) -> bool:
    """Evaluate the matchConditions of the configurations, which a server evaluates as CEL."""
    known = {
        "changes-the-spec": old is None or obj.get("spec") != old.get("spec"),
        "comes-from-another-version": version != HUB,
    }
    return all(known[each["name"]] for each in conditions)


def _patched(obj: Document, operations: Iterable[Document]) -> Document:
    """Apply a JSON patch of adds, replacements and removals."""
    changed: Document = copy.deepcopy(obj)
    for operation in operations:
        *way, last = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]]
        place: Any = changed
        for step in way:
            place = place[int(step)] if isinstance(place, list) else place[step]
        if isinstance(place, list):
            index = len(place) if last == "-" else int(last)
            if operation["op"] == "add":
                place.insert(index, operation["value"])
            elif operation["op"] == "replace":
                place[index] = operation["value"]
            else:
                del place[index]
        elif operation["op"] == "remove":
            del place[last]
        else:
            place[last] = operation["value"]
    return changed
