"""CA bundles are sets of certificates: what is the same must count as the same, or watch caches are rebuilt for it."""

from __future__ import annotations

import base64
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.conversion.certificates import Bundle
from restow.conversion.certificates.wiring.clientconfig import BundleError

CERTIFICATES = st.lists(st.binary(min_size=1, max_size=80), unique=True, max_size=5)


def pem(*certificates: bytes, width: int = 64, end: str = "\n", between: str = "") -> bytes:
    """A PEM file of some spelling."""
    blocks = (
        "-----BEGIN CERTIFICATE-----"
        + end
        + end.join(textwrap.wrap(base64.b64encode(each).decode(), width))
        + end
        + "-----END CERTIFICATE-----"
        + end
        for each in certificates
    )
    return between.join(blocks).encode()


@given(CERTIFICATES)
def test_writing_and_reading(certificates: list[bytes]) -> None:
    """A bundle that changes by being written would be written again and again."""
    bundle = Bundle.of(certificates)
    assert Bundle.from_pem(bundle.pem) == bundle == Bundle.from_base64(bundle.base64)
    assert bundle.certificates == tuple(certificates)


@given(
    CERTIFICATES,
    st.sampled_from([64, 76, 1000]),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\n\n", "# prose\n", "-----BEGIN X-----\nAA==\n-----END X-----\n"]),
)
def test_spelling_does_not_count(certificates: list[bytes], width: int, end: str, between: str) -> None:
    """Tools write line lengths and prose between blocks differently; such a change must not rewrite the CRD."""
    spelled = pem(*certificates, width=width, end=end, between=between)
    assert Bundle.from_pem(spelled) == Bundle.of(certificates)


@given(CERTIFICATES, CERTIFICATES)
def test_union_and_difference(ours: list[bytes], theirs: list[bytes]) -> None:
    """Rotation is made of these: nothing may get lost, come twice or change its place."""
    left, right = Bundle.of(ours), Bundle.of(theirs)
    both = left | right
    assert both >= left and both >= right and len(both) == len({*ours, *theirs})
    assert both.certificates[: len(left)] == left.certificates
    assert (both - right).certificates == tuple(each for each in ours if each not in theirs)
    assert (both & left) == left and left.matches(Bundle.of(reversed(ours)))
    assert left.matches(right) == (set(ours) == set(theirs))


@pytest.mark.parametrize("text", ["", "Cg==", "IAo="], ids=["empty", "a newline", "white space"])
def test_white_space_is_no_bundle(text: str) -> None:
    """Charts write a newline there to be filled in; the API server takes it for none."""
    assert not Bundle.from_base64(text)


@pytest.mark.parametrize("text", ["!", "Z2FyYmFnZQ==", base64.b64encode(pem(b"x").replace(b"eA==", b"eA=")).decode()])
def test_garbage_is_refused(text: str) -> None:
    """A malformed bundle must not be read as an empty one."""
    with pytest.raises(BundleError):
        Bundle.from_base64(text)
