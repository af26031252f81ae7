"""Stored releases with other objects: what is converted changes, and every other byte of a manifest stays."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.migrator.references.readers.helm import NoRelease, StoredRelease, stored_json
from tests.migrator.references.found import OTHER, OWNERS, WIDGET, release, secret, stored

HOOK = {"name": "h", "path": "h.yaml", "manifest": WIDGET, "events": ["pre-install"]}
MANIFEST = f"---\n# Source: a.yaml\n{OTHER}---\n# Source: b.yaml\n{WIDGET}"


def rewritten(obj: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The JSON of a release whose widgets are at v2, with other fields."""
    held = StoredRelease(obj)
    objects = held.objects(OWNERS)
    made = [each.content | {"apiVersion": "example.com/v2"} | changes for each in objects]
    found: dict[str, Any] = msgspec.json.decode(stored_json(held.rewritten(objects, made), secret="type" in obj))
    return found


def test_only_the_version_changes_where_nothing_else_does() -> None:
    """A manifest that is written in another style shows as a change in every helm diff."""
    found = rewritten(secret(release(MANIFEST, hooks=[HOOK], unknown=1)))
    assert found["manifest"] == MANIFEST.replace("example.com/v1", "example.com/v2")
    assert found["hooks"] == [HOOK | {"manifest": WIDGET.replace("example.com/v1", "example.com/v2")}]
    assert {key: found[key] for key in ("unknown", "config", "info")} == {
        "unknown": 1,
        "config": {"a": "b"},
        "info": {"status": "deployed"},
    }


def test_other_fields_are_written_and_comments_stay() -> None:
    """Helm shows where an object comes from by the comment in front of it."""
    found = rewritten(secret(release(MANIFEST)), spec={"size": 2})["manifest"]
    assert found.startswith(f"---\n# Source: a.yaml\n{OTHER}---\n# Source: b.yaml\napiVersion: example.com/v2\n")
    assert found.endswith("spec:\n  size: 2\n")


def test_config_maps_hold_one_base64() -> None:
    """HELM_DRIVER=configmap reads texts, not data."""
    obj = secret(release(MANIFEST))
    held = stored_json(obj["data"]["release"], secret=True)
    plain = {"data": {"release": base64.b64encode(held).decode()}}
    assert "example.com/v2" in rewritten(plain)["manifest"]


@given(st.lists(st.sampled_from([OTHER, WIDGET, "", "# nothing\n", "a: [\n"]), max_size=6))
def test_other_documents_keep_every_byte(documents: list[str]) -> None:
    """Whatever stands around an object belongs to the release."""
    manifest = "---\n".join(documents)
    assert rewritten(secret(release(manifest)))["manifest"] == manifest.replace("example.com/v1", "example.com/v2")


@pytest.mark.parametrize("obj", [{}, {"data": {}}, {"data": {"release": 7}}, stored(b"[]")])
def test_what_holds_no_release_is_refused(obj: dict[str, Any]) -> None:
    """It may have been written by somebody else since it was listed."""
    with pytest.raises(NoRelease):
        StoredRelease(obj)
