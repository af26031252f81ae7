"""Helm releases: what of a stored manifest is at the version, and content that is no release."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.migrator.references.readers.helm import LARGEST_RELEASE, NoRelease, helm_references, split_manifest
from tests.migrator.references.found import OTHER, OWNERS, WIDGET, keys, release, secret, stored


def test_objects_of_manifest_and_hooks_are_found() -> None:
    """Helm builds hooks as well as the manifest, so one hook at the version fails an upgrade."""
    hook = {"name": "h", "kind": "Widget", "path": "chart/hook.yaml", "manifest": WIDGET.replace("name: w", "name: h")}
    content = release(f"---\n# Source: a.yaml\n{OTHER}---\n# Source: b.yaml\n{WIDGET}", hooks=[hook])
    found = list(helm_references("secrets", secret(content), OWNERS))
    assert [(each.where, each.detail) for each in found] == [
        ("manifest, line 9", "release web, revision 3 (deployed): Widget apps/w"),
        ("hook chart/hook.yaml, line 1", "release web, revision 3 (deployed): Widget apps/h"),
    ]
    assert all(each.effect.against_unserving and not each.guess for each in found)


@pytest.mark.parametrize("other", ["example.com/v2", "example.com/v1beta1", "v1"])
def test_another_version_is_none(other: str) -> None:
    """A version whose name begins with that of the sought one is another version."""
    content = release(WIDGET.replace("example.com/v1", other))
    assert not list(helm_references("secrets", secret(content), OWNERS))


@pytest.mark.parametrize("status", ["superseded", "uninstalled"])
def test_former_revisions_stand_against_nothing(status: str) -> None:
    """Helm reads them for a rollback alone; 10 of them would block a release for years."""
    (found,) = helm_references("secrets", secret(release(WIDGET, status)), OWNERS)
    assert not found.effect.against_unserving
    assert "rollback" in found.effect.unserved


@pytest.mark.parametrize("status", ["deployed", "failed", "pending-upgrade", ""])
def test_current_revisions_stand_against_both_steps(status: str) -> None:
    """A failed upgrade is the last revision, which helm uninstall builds."""
    (found,) = helm_references("secrets", secret(release(WIDGET, status)), OWNERS)
    assert found.effect.against_unserving
    assert found.effect.against_removal


def test_config_maps_and_uncompressed_releases_are_read() -> None:
    """HELM_DRIVER=configmap stores without the second base64, and Helm itself reads releases that are not gzipped."""
    for content in (json.dumps(release(WIDGET)).encode(), gzip.compress(json.dumps(release(WIDGET)).encode())):
        obj = {"metadata": {"name": "m"}, "data": {"release": base64.b64encode(content).decode()}}
        assert len(keys(helm_references("configmaps", obj, OWNERS))) == 1


def test_a_broken_document_is_a_guess_and_hides_no_other() -> None:
    """One document that a parser refuses must not hide those behind it."""
    content = release(f"---\n{WIDGET}  bad: [\n---\n{WIDGET}")
    first, second = helm_references("secrets", secret(content), OWNERS)
    assert (first.guess, second.guess) == (True, False)
    assert second.where == "manifest, line 9"


BOMB = zlib.compressobj(9, zlib.DEFLATED, 31)
BOMBED = BOMB.compress(bytes(LARGEST_RELEASE + 1)) + BOMB.flush()
DEEP = gzip.compress(b'{"chart": ' + b"[" * 500_000 + b"]" * 500_000 + b"}")


@pytest.mark.parametrize(
    ("obj", "said"),
    [
        (stored(gzip.compress(b"not json")), "not JSON of a release"),
        (stored(gzip.compress(b"{}")[:-9]), "broken gzip"),
        (stored(b"\x1f\x8b\x08 no gzip"), "broken gzip"),
        (stored(gzip.compress(b'{"manifest": 7}')), "not JSON of a release"),
        (stored(BOMBED), "more than 32 MiB"),
        (stored(DEEP), "nested too deeply"),
        (stored(b"") | {"data": {"release": "###"}}, "no base64"),
        (stored(b"") | {"data": {"release": base64.b64encode(b"###").decode()}}, "no base64"),
    ],
    ids=["text", "cut gzip", "no gzip", "another shape", "a bomb", "deep", "no base64", "no inner base64"],
)
def test_hostile_content_is_a_sentence(obj: dict[str, Any], said: str) -> None:
    """Whoever may write a Secret must not end the search of the whole cluster, nor hide in it in silence."""
    with pytest.raises(NoRelease, match=said):
        list(helm_references("secrets", obj, OWNERS))


@pytest.mark.parametrize(
    "obj", [{}, {"data": None}, {"type": "Opaque", "data": {"release": "x"}}, {"data": {"a": "b"}}]
)
def test_what_is_not_meant_to_be_a_release_is_none(obj: dict[str, Any]) -> None:
    """The label is free for everybody to use."""
    assert not list(helm_references("secrets", obj, OWNERS))


@given(st.binary(max_size=200), st.booleans())
def test_no_content_raises_another_error(content: bytes, zipped: bool) -> None:
    """Any bytes are a release or a sentence."""
    with suppress(NoRelease):
        list(helm_references("secrets", stored(gzip.compress(content) if zipped else content), OWNERS))


@given(st.text(alphabet="-a \n", max_size=60))
def test_documents_keep_their_lines(text: str) -> None:
    """A line that points elsewhere sends people to the wrong object."""
    lines = text.split("\n")
    for line, document in split_manifest(text):
        rest = "\n".join(lines[line - 1 :])
        assert document in rest
        assert not [each for each in document.split("\n") if each == "---"]
