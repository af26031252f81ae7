"""When a CRD was last changed, by its managedFields."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from restow.crds import Crd
from restow.migrator.model.watermark import last_spec_change
from tests.migrator import builders as b

CHANGED = datetime(2024, 5, 1, 10, 0, 0, tzinfo=UTC)
SPEC = {"f:spec": {"f:versions": {}}}


def written(time: str | None = "2024-05-01T10:00:00Z", fields: Any = SPEC, **other: Any) -> dict[str, Any]:
    """A managedFields entry of a CRD."""
    entry = {"manager": "helm", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}
    return entry | ({"time": time} if time is not None else {}) | other


def a_crd(*entries: dict[str, Any]) -> Crd:
    """A CRD that these managers wrote."""
    return b.crd(managed_fields=entries)


@pytest.mark.parametrize(
    ("entries", "changed"),
    [
        ((), None),
        ((written(),), CHANGED),
        ((written(), written("2024-05-01T10:00:07Z")), CHANGED + timedelta(seconds=7)),
        ((written("2024-05-01T10:00:07Z"), written()), CHANGED + timedelta(seconds=7)),
        ((written(fields={"f:metadata": {"f:annotations": {}}}),), None),
        ((written(), written("2024-06-01T10:00:00Z", {"f:status": {}}, subresource="status")), CHANGED),
        ((written(time=None),), None),
        ((written(time=None), written()), CHANGED),
        ((written(fields=None),), None),
        (({"manager": "odd"},), None),
        ((written("2024-05-01T12:00:00+02:00"),), CHANGED),
    ],
    ids=[
        "nobody",
        "one",
        "the newest last",
        "the newest first",
        "an annotation",
        "a status",
        "no time",
        "no time and one with",
        "no fields",
        "nearly nothing",
        "another time zone",
    ],
)
def test_the_last_change_is_the_newest_write_of_the_spec(
    entries: tuple[dict[str, Any], ...], changed: datetime | None
) -> None:
    """A status or an annotation (our own mark) is no change; taking it for one would delay every run."""
    assert last_spec_change(a_crd(*entries)) == changed
