"""The admission steps of kinds, as their conversions come and go."""

from __future__ import annotations

import pytest

from restow.conversion.operate.wiring import RESTORING, KindsStep
from tests.conversion.operate.test_workers import revision


@pytest.mark.parametrize("first", [True, False])
def test_the_step_of_a_kind_is_not_taken_by_rules_of_another(first: bool) -> None:
    """A claim that is another team's kind would have its writes decided by foreign rules, or by none after these go."""
    own, other = revision("widget"), revision("gadget")
    (crd,), (theirs,) = own.targets(), other.targets()
    step = KindsStep(RESTORING)
    if first:
        step.serve([crd], own.graph())
    step.serve([theirs, crd], other.graph())
    if not first:
        step.serve([crd], own.graph())
    decides = step._steps[crd.group, crd.kind]
    assert decides is not step._steps[theirs.group, theirs.kind]
    step.withdraw(theirs.name)
    assert step._steps == {(crd.group, crd.kind): decides}
