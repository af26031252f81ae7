"""The verdict on a request for a profile: all rules in the order of the API server, and the custom verbs. Pure.

A request that does not change the spec is always allowed: a storage migration, or the removal of a finalizer, must not
fail because a rule is new or time has passed.

GEP-32's examples contain only versions: a CloudProfile without type, for example, or a NamespacedCloudProfile without
parent; GEP-25's CloudProfile has no regions. Gardener refuses those (``missing_sections``). restow must not refuse any
of these examples: a section that was never set only causes a warning, at every change of the spec, and the removal of
a section is refused.

GEP-25, "Custom RBAC verb": a user who may edit a NamespacedCloudProfile may add machine and volume types, CA bundles
and limits. Versions and the provider's configuration are for operators of Gardener: each needs a verb on the resource
``namespacedcloudprofiles``, named after the field. GEP-25 names the first two. Gardener spells them in lower case
and has the third, because provider extensions take images from the provider's configuration.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime
from typing import Any, Concatenate, ParamSpec

from restow.cloudprofile.capabilities import defaulted
from restow.cloudprofile.findings import Remark, ValidationVerdict, ValidationWarning, invalid, verdict
from restow.cloudprofile.objects import Object, VersionKey, is_deleting, parent_of, spec_of
from restow.cloudprofile.profiles import protection, requirements
from restow.cloudprofile.profiles.inheritance import check_against_parent
from restow.cloudprofile.validation.profiles import missing_sections, validate, validate_namespaced

_P = ParamSpec("_P")


def _judged(
    rules: Callable[Concatenate[Object, Object | None, _P], Iterator[Remark]],
) -> Callable[Concatenate[Object, Object | None, _P], ValidationVerdict]:
    """Return a function that collects the remarks of rules about a change of the spec, each once."""

    @functools.wraps(rules)
    def judged(new: Object, old: Object | None, /, *args: _P.args, **kwargs: _P.kwargs) -> ValidationVerdict:
        keeps_spec = old is not None and spec_of(new) == spec_of(old)
        return verdict(() if keeps_spec else dict.fromkeys(rules(new, old, *args, **kwargs)))

    return judged


@_judged
def judge(
    new: Object,
    old: Object | None,
    *,
    children: Iterable[Object],
    shoots: Iterable[Object],
    now: datetime,
    unclassified: Collection[VersionKey] = (),
) -> Iterator[Remark]:
    """Return the verdict on a CloudProfile."""
    spec = defaulted(spec_of(new))
    profile = {**new, "spec": spec}
    tolerated = set(missing_sections(spec))
    if old is not None:
        tolerated &= set(missing_sections(spec_of(old)))
    for remark in validate(profile, old, now, unclassified=unclassified):
        if remark in tolerated:
            yield ValidationWarning(remark.field, f"{remark.detail}: Gardener refuses a profile without it")
        else:
            yield remark
    yield from requirements.adding(spec, None if old is None else spec_of(old), now)
    if old is not None and not is_deleting(new):
        yield from requirements.deleting(spec, spec_of(old), now)
        yield from protection.protect(new, old, children, shoots)


@_judged
def judge_namespaced(
    new: Object,
    old: Object | None,
    *,
    parent: Object | None,
    shoots: Iterable[Object],
    now: datetime,
    unclassified: Collection[VersionKey] = (),
) -> Iterator[Remark]:
    """Return the verdict on a NamespacedCloudProfile; ``needed_verbs`` returns the verbs that the change needs."""
    static = [*validate_namespaced(new, old)]
    if not spec_of(new).get("parent"):
        yield ValidationWarning(
            "spec.parent", "names no CloudProfile: nothing is rendered, and no Shoot can use this profile"
        )
        yield from (finding for finding in static if not finding.field.startswith("spec.parent."))
        return
    yield from static
    if parent is None:
        yield invalid("spec.parent.name", f"parent CloudProfile could not be found: there is no {parent_of(new)}")
    elif not static:
        yield from check_against_parent(new, old, parent, now, unclassified=unclassified)
    if parent is not None and old is not None and not is_deleting(new):
        yield from protection.protect_namespaced(new, old, parent, shoots, now)


MODIFY_KUBERNETES = "modify-spec-kubernetes"
MODIFY_MACHINE_IMAGES = "modify-spec-machineImages"
MODIFY_PROVIDER_CONFIG = "modify-spec-providerConfig"


def needed_verbs(new: Object, old: Object | None = None) -> tuple[str, ...]:
    """Return the verbs that a change from ``old`` to ``new`` needs; ``old`` is None on create."""
    after, before = spec_of(new), spec_of(old or {})
    changed = {
        MODIFY_KUBERNETES: _meaning(after.get("kubernetes")) != _meaning(before.get("kubernetes")),
        MODIFY_MACHINE_IMAGES: _meaning(after.get("machineImages") or None)
        != _meaning(before.get("machineImages") or None),
        MODIFY_PROVIDER_CONFIG: after.get("providerConfig") != before.get("providerConfig"),
    }
    return tuple(verb for verb, is_changed in changed.items() if is_changed)


def _meaning(value: Any) -> Any:
    """Return a value without its unset or empty fields, because those mean the same as none."""
    if isinstance(value, dict):
        return {field: _meaning(item) for field, item in value.items() if item not in (None, [], {})}
    if isinstance(value, list):
        return [_meaning(item) for item in value]
    return value
