"""What the first gate says of a document, and admission without its CRD."""

from __future__ import annotations

from restow.conversion.operate.gates import listed, mistakes
from restow.crds import Crd
from tests.conversion.operate.test_revisions import crd, rules


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
