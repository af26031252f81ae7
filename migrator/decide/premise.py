"""The premise of a pass: everything that its decisions rest on, in one value.

A pass reads the CRD once and then decides thousands of objects by it. Meanwhile the CRD may change, and etcd may be
restored from a backup while the run waits for the API server. Therefore nothing is proved, and no owner is taken for
lost, before the premise was compared with a fresh read of the CRD:

- *History.* Objects that the run wrote are lost after a restore of etcd. Each run leaves a token on the CRD before it
  writes (``model.watermark``). A backup from before the run lacks the token; a later one has lower resourceVersions.
- *Decisions.* Objects are decided by the versions with their flags, by the schemas, and by the conversion strategy with
  its client (``decisions``). Objects that were decided by others have to be decided again.
- *Storage.* The storage version must have been the same in every generation since (``decide.prune``).

``Followers`` knows since when each API server follows the CRD. A request lasts a limited time and stores at the version
with which it began, so the requests from before are over after that time. When the CRD was changed says nothing about
a server that lagged: it may have caught up a moment ago. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from restow.crds import Crd
from restow.migrator.decide.prune import Generations, PruneVerdict, may_prune
from restow.migrator.model.watermark import RUNS, is_newer

_DESCRIPTIONS = frozenset({"description", "title", "example"})


@dataclass(slots=True)
class Followers:
    """The times at which this process first saw each API server follow a CRD in its present generation.

    An API server that follows a generation never falls behind it again, even if it restarts. Behind one address there
    may be several of them, so an address counts from the first look after the last one that showed a server behind.
    A CRD whose resourceVersion goes back was restored with etcd, and its generations are counted a second time.
    """

    _since: dict[tuple[str, int, str], float] = field(default_factory=dict)
    _newest: dict[str, str] = field(default_factory=dict)

    def remaining(
        self, crd: Crd, servers: Iterable[str], *, behind: Iterable[str] = (), settle_s: float, now: float
    ) -> float:
        """Record servers that follow the CRD as read; return the seconds until all requests from before have ended.

        Args:
            crd: the CRD.
            servers: the addresses where every API server that was looked at follows it.
            behind: the addresses where one does not.
            settle_s: the longest time that a request lasts.
            now: the monotonic clock.
        """
        if is_newer(self._newest.get(crd.uid, ""), crd.resource_version):
            self.forget(crd.uid)
        self._newest[crd.uid] = crd.resource_version
        for server in behind:
            self._since.pop((crd.uid, crd.generation, server), None)
        since = [self._since.setdefault((crd.uid, crd.generation, server), now) for server in servers]
        return max(0.0, settle_s - (now - max(since, default=now)))

    def forget(self, uid: str) -> None:
        """Forget a CRD, because its generations may be counted a second time after a restore of etcd."""
        self._since = {key: since for key, since in self._since.items() if key[0] != uid}


@dataclass(frozen=True, slots=True)
class Premise:
    """What the decisions of one pass rest on.

    Attributes:
        crd: the CRD as read when every API server followed it.
        token: the token that the run left on the CRD before its first write; empty if it left none.
        seen_at: the resourceVersion at which the run first read the CRD in this generation, before its own writes.
    """

    crd: Crd
    token: str = ""
    seen_at: str = ""

    def judge(self, now: Crd, generations: Generations) -> PruneVerdict:
        """Decide, after a pass that finished every object, whether storedVersions may be set to the storage version.

        Args:
            now: the CRD as just read, whose resourceVersion is the precondition of the prune.
            generations: the generations that a watch of the CRD saw since the pass began.
        """
        if why := self.lost(now):
            return PruneVerdict(prune=False, reason=why, again=True)
        verdict = may_prune(self.crd, now, generations)
        if verdict.prune and (why := self.outdated(now)):
            return PruneVerdict(prune=False, reason=why, again=True)
        return verdict

    def lost(self, now: Crd) -> str:
        """Return why objects that the pass wrote may be as they were before, as a sentence; empty if they are not."""
        crd = self.crd
        if now.uid != crd.uid:
            return ""  # another CRD, with other objects
        if now.generation < crd.generation or is_newer(crd.resource_version, now.resource_version):
            return f"{crd.name} went back to an earlier state during the run, as it does when etcd is restored"
        if self.lacks_token(now):
            return (
                f"the annotation {RUNS} that the run left on {crd.name} is gone: etcd was restored from a backup of "
                "before the run, or a client replaced the annotations of the CRD"
            )
        return ""

    def lacks_token(self, now: Crd) -> bool:
        """Return whether the token that the run left on the CRD is gone."""
        return bool(self.token) and self.token not in now.annotations.get(RUNS, "").split()

    def outdated(self, now: Crd) -> str:
        """Return what changed of the things by which objects are decided, as a sentence; empty if nothing did."""
        crd = self.crd
        if now.generation == crd.generation and now.uid == crd.uid:
            return ""
        was, stored = crd.storage.name, now.storage.name
        if stored != was:
            return f"the storage version of {crd.name} changed from {was} to {stored} during the run"
        before, after = decisions(crd), decisions(now)
        changed = [what for what in before if before[what] != after[what]]
        return f"{' and '.join(changed)} of {crd.name} changed during the run" if changed else ""


def decisions(crd: Crd) -> dict[str, Any]:
    """Return what of a CRD decides about its objects, by name; two equal results decide every object alike.

    Texts for people, and the CA bundle of the webhook, decide nothing.
    """
    webhook = dict(crd.webhook or {})
    client = {name: value for name, value in (webhook.get("clientConfig") or {}).items() if name != "caBundle"}
    versions = crd.document["spec"]["versions"]
    return {
        "the versions": crd.fingerprint,
        "a schema": {
            each["name"]: (_without_descriptions(each.get("schema")), each.get("subresources")) for each in versions
        },
        "the conversion": (crd.strategy, client),
    }


def _without_descriptions(node: Any) -> Any:
    if isinstance(node, dict):
        return {
            name: _without_descriptions(value)
            for name, value in node.items()
            if not (name in _DESCRIPTIONS and isinstance(value, str))
        }
    if isinstance(node, list):
        return [_without_descriptions(each) for each in node]
    return node
