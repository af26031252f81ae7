"""What admission and the first gate say of a document."""

from __future__ import annotations

import json
from typing import Any

from restow.conversion.operate.admission import admit_rules
from restow.conversion.operate.gates import listed, mistakes, target_of
from restow.conversion.reviews.admission import AdmissionRequest, GroupVersionKind, GroupVersionResource
from restow.crds import Crd
from tests.conversion.operate.test_revisions import crd, rules


def request(new: Any, old: Any = None) -> AdmissionRequest:
    """An update, or a creation."""
    kind = GroupVersionKind("restow.dev", "v1alpha1", "ConversionRules")
    resource = GroupVersionResource("restow.dev", "v1alpha1", "conversionrules")
    operation = "CREATE" if old is None else "UPDATE"
    return AdmissionRequest("1", kind, resource, operation, "jobs", object=new, old_object=old)


def test_mistakes_have_their_places() -> None:
    """Without its place, a mistake in a long document would have to be searched for, with the CRD and without."""
    document = rules()
    document["spec"]["spokes"][0]["rules"][0] = {"renmae": {"spoke": "spec.old"}}
    (told,) = mistakes(document)
    assert told.startswith("/spec/spokes/0/rules/0/renmae: there is no rule renmae")
    document["spec"]["spokes"][0]["rules"] = []
    assert mistakes(document) == []
    assert any(
        each.startswith("/spec/spokes/0: v1beta1 .spec.old: ") for each in mistakes(document, Crd.from_document(crd()))
    )
    assert mistakes(rules(), Crd.from_document(crd())) == []


def test_a_message_lists_the_first_and_counts_all() -> None:
    """A thousand problems must not hide how many there are."""
    assert listed([str(number) for number in range(12)], "mistake").endswith("8; 9; and 2 more")


async def test_what_cannot_be_right_is_refused() -> None:
    """A mistake is shown by kubectl at once; one that the schema of the CRD decides is left to the gates."""
    wrong = rules()
    wrong["spec"]["spokes"].append(wrong["spec"]["spokes"][0])
    refused = await admit_rules(request(wrong))
    assert not refused.allowed
    assert "/spec/spokes/1/version: the spoke v1beta1 stands here a second time" in refused.message
    assert (await admit_rules(request(rules()))).allowed


async def test_the_target_stays() -> None:
    """Rules that moved to another kind would leave the first one without conversions."""
    moved = json.loads(json.dumps(rules()))
    moved["spec"]["target"]["kind"] = "Task"
    refused = await admit_rules(request(moved, rules()))
    assert not refused.allowed
    assert refused.message.startswith("/spec/target")


async def test_finalizers_can_always_be_removed() -> None:
    """Rules that an older release admitted must be deletable, whatever this one says of them."""
    wrong = {**rules(), "spec": {"target": {}}}
    assert (await admit_rules(request(wrong, wrong))).allowed
    assert target_of(wrong) is None
