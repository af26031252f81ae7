"""Who may declare the conversions of a CRD, and the record of the users that were asked about.

Whoever declares the conversions of a kind decides what its readers see. So a user needs a right on the CRD: to update
or patch it, or the verb ``convert``, which only restow knows, as only RBAC knows ``bind`` and ``escalate``. Admission
asks the API server about the sender of each new spec, and records in a ConfigMap of the operator's namespace whose spec
was allowed. The leader reads nothing for a spec without such an answer, and wires nothing. Where the step is not
installed, or not called, there is no answer.

An answer is kept under the object's uid, which nobody knows before the object is there: an answer that somebody gets by
a forged review of a future object does not count. Answers for other objects of the same name, which are gone or were
never stored, are bounded separately, so that they displace none.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from restow.conversion.model.values import canonical, plain
from restow.conversion.operate.revisions import DECLARED, LABEL
from restow.crds.conversionrules import CONVERSION_RULES
from restow.kube import Cluster, KubeError, PatchType
from restow.kube.clock import SYSTEM_CLOCK, Clock
from restow.kube.errors import AlreadyExists, Conflict, NotFound, describe_failure
from restow.kube.pager import list_pages
from restow.kube.resources import CONFIG_MAPS, CRDS

#: The verbs on the CRD; one of them suffices.
VERBS: Final = ("update", "patch", "convert")
#: In the place of a CRD's name: the user may change every CRD.
EVERY: Final = "*"

_log = logging.getLogger(__name__)

_PREFIX: Final = "restow-declared."
_LONGEST: Final = 253
#: How many answers are kept for one object.
_KEPT: Final = 8
#: How many answers are kept for all other objects of the same name.
_KEPT_OTHERS: Final = 64
#: How often records of rules that do not exist are looked for. A creation ends within a minute.
_COLLECT_S: Final = 600.0
_PAGE: Final = 500
_DECLARED: Final = "declared"


class Answer(msgspec.Struct, frozen=True):
    """The user ``user`` may declare the conversions of ``crd``."""

    crd: str
    user: str
    at: str = ""


def declaration_name(rules: str) -> str:
    """Return the name of the ConfigMap for rules."""
    name = f"{_PREFIX}{rules}"
    return name if len(name) <= _LONGEST else f"{_PREFIX}{hashlib.sha256(rules.encode()).hexdigest()}"


def digest_of(document: Mapping[str, Any]) -> str:
    """Return the name of a document's spec."""
    return hashlib.sha256(canonical(plain(document.get("spec")))).hexdigest()[:32]


def needed(crd: str) -> str:
    """Return which rights allow to declare the conversions of a CRD, and the line of RBAC for the least of them."""
    named = (
        f"{CRDS.full_name} {crd}"
        if crd != EVERY
        else f"all {CRDS.full_name}, because the operator finds no CRD of the kind"
    )
    names = f", resourceNames: [{crd}]" if crd != EVERY else ""
    line = f"{{apiGroups: [{CRDS.group}], resources: [{CRDS.plural}]{names}, verbs: [convert]}}"
    return f"one of the verbs {', '.join(VERBS)} on {named}. In RBAC: {line}"


@dataclass(slots=True)
class Declarations:
    """The answers in a namespace."""

    cluster: Cluster
    namespace: str
    clock: Clock = SYSTEM_CLOCK
    _known: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    _orphans: dict[str, str] = field(default_factory=dict)

    async def add(self, rules: str, digest: str, uid: str, crd: str, user: str, *, keeps: str | None = None) -> None:
        """Record that a user was allowed to declare a spec; ``keeps`` is the digest of the spec before.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
        """
        answer = Answer(crd, user, self.clock.now().isoformat())
        name, data = declaration_name(rules), {f"{uid}.{digest}": msgspec.json.encode(answer).decode()}
        whole = {"metadata": {"name": name, "labels": {LABEL: _DECLARED}}, "data": {"rules": rules, **data}}
        try:
            await self.cluster.create(CONFIG_MAPS, msgspec.json.encode(whole), self.namespace)
            return
        except AlreadyExists:
            answers = _answers(await self._patch(name, data))
        own = {each for each in answers if each.startswith(f"{uid}.")}
        needed_now = {f"{uid}.{digest}", f"{uid}.{keeps}"}
        excess: list[str] = []
        for found, most in ((own, _KEPT), (answers.keys() - own, _KEPT_OTHERS)):
            oldest = sorted(found - needed_now, key=lambda each: answers[each].at)
            excess += oldest[: max(0, len(found) - most)]
        if excess:
            await self._patch(name, dict.fromkeys(excess))

    async def lacks(self, document: Mapping[str, Any], crd: str) -> str:
        """Return why a spec may not be served; empty if its sender was allowed to declare it.

        ``crd`` is the name of the target's CRD, empty while there is none.

        Raises:
            KubeError: the API server refuses the request, or cannot be reached.
        """
        name, uid = document["metadata"]["name"], document["metadata"]["uid"]
        digest = digest_of(document)
        if self._known.get(name) == (uid, digest, crd):
            return ""
        try:
            reply = await self.cluster.get(CONFIG_MAPS, declaration_name(name), self.namespace)
            answer = _answers(reply.json()).get(f"{uid}.{digest}")
        except NotFound:
            answer = None
        if answer is None:
            said = "no user was asked about when these rules were written"
        elif crd and answer.crd not in (crd, EVERY):
            said = f"the user {json.dumps(answer.user)} was asked about for {answer.crd}, which is another CRD"
        else:
            self._known[name] = (uid, digest, crd)
            return ""
        return (
            f"{said}, so nothing reads them. To declare them takes {needed(crd or EVERY)}. A user who has that "
            f'declares these rules by `kubectl annotate conversionrules {name} {DECLARED}="$(date +%s)" --overwrite`'
        )

    async def drop(self, rules: str) -> None:
        """Delete the answers for rules that are going.

        Raises:
            KubeError: the API server refuses the request, or cannot be reached.
        """
        self._known.pop(rules, None)
        try:
            await self.cluster.delete(CONFIG_MAPS, declaration_name(rules), self.namespace)
        except NotFound:
            return

    async def collect_forever(self) -> None:
        """Collect until cancelled; failures are logged and retried."""
        while True:
            await self.clock.sleep(_COLLECT_S)
            try:
                await self.collect()
            except KubeError as error:
                _log.warning("answers for rules that were never stored are kept for now: %s", describe_failure(error))

    async def collect(self) -> None:
        """Delete the answers for rules that do not exist, if they are the same as at the previous call.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
        """
        selector = {"labelSelector": f"{LABEL}={_DECLARED}"}
        pages = list_pages(self.cluster, CONFIG_MAPS, self.namespace, limit=_PAGE, params=selector, metadata_only=True)
        versions = {
            each["metadata"]["name"]: each["metadata"]["resourceVersion"] async for page in pages for each in page
        }
        pages = list_pages(self.cluster, CONVERSION_RULES, limit=_PAGE, metadata_only=True)  # a record is older
        needed_now = {declaration_name(each["metadata"]["name"]) async for page in pages for each in page}
        before, self._orphans = self._orphans, {name: versions[name] for name in versions.keys() - needed_now}
        for name, version in self._orphans.items() & before.items():
            body = msgspec.json.encode({"preconditions": {"resourceVersion": version}})
            try:
                await self.cluster.delete(CONFIG_MAPS, name, self.namespace, body=body)
            except (Conflict, NotFound):
                continue

    async def _patch(self, name: str, data: Mapping[str, str | None]) -> Mapping[str, Any]:
        body = msgspec.json.encode({"data": data})
        reply = await self.cluster.patch(CONFIG_MAPS, name, body, self.namespace, patch_type=PatchType.MERGE)
        found: Mapping[str, Any] = reply.json()
        return found


def _answers(document: Mapping[str, Any]) -> dict[str, Answer]:
    """Return the answers of a ConfigMap by uid and digest of the spec; what is malformed counts as absent."""
    found = {}
    for name, text in (document.get("data") or {}).items():
        try:
            found[name] = msgspec.json.decode(text, type=Answer)
        except msgspec.MsgspecError:
            continue
    return found
