"""What a migration would strip, and whose: found out on objects whose entries were converted. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from restow.crds import Crd
from restow.kube.resources import qualified_name
from restow.migrator.converters.converter import Json
from restow.migrator.decide import decide
from restow.migrator.managedfields.translation import Translation, supposed
from restow.migrator.managedfields.treatment import Treatments
from restow.migrator.planning.findings import Check, Finding
from restow.migrator.wire import Meta

__all__ = ["Foretold"]


@dataclass(slots=True)
class Foretold:
    """What became of entries that were converted for a plan; owners are (manager, apiVersion).

    Attributes:
        objects: how many objects' entries were converted.
        stripped: entries that would be stripped or cut, since not all that they own can be carried over, by owner.
        kept: entries that stay for that reason, since their version is served, by owner.
        affected: objects on which that is so, by owner.
        examples: one of them, by owner.
        remaining: objects that keep entries, which only converting them could tell.
        failed: objects that cannot be translated at all.
    """

    objects: int = 0
    stripped: Counter[tuple[str, str]] = field(default_factory=Counter)
    kept: Counter[tuple[str, str]] = field(default_factory=Counter)
    affected: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[tuple[str, str], str] = field(default_factory=dict)
    remaining: int = 0
    failed: int = 0

    def see(self, meta: Meta, live: Json, translation: Translation, rules: Treatments) -> None:
        """Count what became of one object; what would be stripped without any conversion is no business of this.

        Raises:
            msgspec.MsgspecError: an entry's field set is no JSON object.
        """
        self.objects += 1
        supposition, _conversions = supposed(meta.managed_fields, rules)
        thought = decide(meta.managed_fields, rules, live, supposition)
        found = decide(meta.managed_fields, rules, live, translation)
        self.failed += bool(found.refusal)
        stripped, kept = Counter(found.stripped) - Counter(thought.stripped), Counter(found.not_carried)
        self.stripped += stripped
        self.kept += kept
        self.remaining += found.remaining > 0 and not thought.remaining
        where = qualified_name(meta.namespace, meta.name)
        for owner in stripped | kept:
            self.affected[owner] += 1
            self.examples.setdefault(owner, where)

    def findings(self, crd: Crd) -> Iterator[Finding]:
        """Yield a sentence for every owner that loses something."""
        storage = crd.storage.name
        for owner, entries in sorted((self.stripped | self.kept).items()):
            manager, api_version = owner
            version, count = api_version.rpartition("/")[2], self.affected[owner]
            objects = f"{count} objects, {self.examples[owner]} for one," if count > 1 else self.examples[owner]
            its = f"its {entries} entries at {version}" if entries > 1 else f"its entry at {version}"
            then = f"a migration would strip the rest from {its}"
            if owner in self.kept:
                then = f"{its} would stay while {version} is served; a migration once {version} is not served "
                then += "would strip the rest from it" if entries == 1 else "would strip the rest from them"
            message = (
                f"not all that {manager} owns at {version} of {objects} can be carried over to {storage}: {then}, and "
                f"those fields would have no owner. Have {manager} write these objects at {storage} first, then plan "
                "again"
            )
            yield Finding(check=Check.OWNERS, message=message, reason="NotCarriedOver")
