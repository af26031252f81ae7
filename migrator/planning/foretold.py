"""What a migration would strip, and whose: found out on objects whose entries were converted. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from restow.crds import Crd
from restow.migrator.converters.converter import Json
from restow.migrator.decide import decide
from restow.migrator.managedfields.translation import Translation, supposed
from restow.migrator.managedfields.treatment import Treatments
from restow.migrator.planning.findings import Check, Finding
from restow.migrator.wire import Meta

__all__ = ["Foretold", "Owner"]

Owner: TypeAlias = tuple[str, str]
"""A manager, and the apiVersion that it owns something at."""


@dataclass(slots=True)
class Foretold:
    """What became of entries that were converted for a plan.

    Attributes:
        objects: whose entries were converted.
        stripped: entries that would be stripped or cut, since not all that they own can be carried over.
        kept: entries that stay for that reason, since their version is served.
        remaining: objects that keep entries, though nobody could know without converting them.
        failed: objects that cannot be translated at all.
        examples: an object for each of the owners.
    """

    objects: int = 0
    stripped: Counter[Owner] = field(default_factory=Counter)
    kept: Counter[Owner] = field(default_factory=Counter)
    remaining: int = 0
    failed: int = 0
    examples: dict[Owner, str] = field(default_factory=dict)

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
        where = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
        for owner in stripped | kept:
            self.examples.setdefault(owner, where)

    def findings(self, crd: Crd) -> Iterator[Finding]:
        """Yield a sentence for every owner that loses something."""
        storage = crd.storage.name
        for owner, count in sorted((self.stripped | self.kept).items()):
            manager, api_version = owner
            version = api_version.rpartition("/")[2]
            objects = f"{count} objects, {self.examples[owner]} for one," if count > 1 else self.examples[owner]
            then = f"its entries at {version} would be stripped as far as that goes, and its fields be nobody's"
            if owner in self.kept:
                then = (
                    f"its entries stay while {version} is served, and a migration once {version} is not served would "
                    "strip them as far as that goes"
                )
            message = (
                f"not all that {manager} owns at {version} of {objects} can be carried over to {storage}: {then}. Have "
                f"{manager} write these objects at {storage} before, then plan again"
            )
            yield Finding(check=Check.OWNERS, message=message, reason="NotCarriedOver")
