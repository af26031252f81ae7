"""Changes of profiles and Shoots to ask Gardener and restow about, of the same few names and days as ``drawn``."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.peers.gardener.changes import ChangeScenario
from tests.peers.gardener.drawn import cloud_profiles, edits, moments, namespaced, shoots, specs

__all__ = ["change_scenarios"]

Document = dict[str, Any]

_references = st.sampled_from(
    [
        {"kind": "CloudProfile", "name": "parent"},
        {"kind": "CloudProfile", "name": "parent"},
        {"kind": "NamespacedCloudProfile", "name": "child"},
        {"kind": "NamespacedCloudProfile", "name": "child"},
        {"kind": "CloudProfile", "name": "stranger"},
    ]
)


def _referring(shoot: Document, reference: Document, name: str) -> Document:
    return {
        **shoot,
        "metadata": {**shoot["metadata"], "name": name},
        "spec": {**shoot["spec"], "cloudProfile": reference},
    }


@st.composite
def _users(draw: st.DrawFn) -> list[Document]:
    drawn = draw(st.lists(st.tuples(shoots(complete=True), _references), max_size=3))
    return [_referring(shoot, reference, f"s{index}") for index, (shoot, reference) in enumerate(drawn)]


@st.composite
def _families(draw: st.DrawFn) -> list[Document]:
    """Two CloudProfiles, and NamespacedCloudProfiles of them; some of these are not there."""
    offers = specs(gate=False)
    names = [name for name in ("parent", "stranger") if draw(st.integers(0, 7))]
    found = [{**draw(cloud_profiles(gate=False)), "metadata": {"name": name}} for name in names]
    for name, parents in (("a", ["parent"]), ("b", ["parent", "stranger"]), ("parent", ["stranger"])):
        if draw(st.integers(0, 7)):
            parent = {"kind": "CloudProfile", "name": draw(st.sampled_from(parents))}
            metadata = {"name": name, "namespace": draw(st.sampled_from(["garden-p"] * 5 + ["garden-q"]))}
            found.append(
                {
                    "apiVersion": "core.gardener.cloud/v1beta1",
                    "kind": "NamespacedCloudProfile",
                    "metadata": metadata,
                    "spec": {"parent": parent},
                    "status": {"cloudProfileSpec": draw(offers)},
                }
            )
    return found


_homes = st.sampled_from(
    [{"kind": "CloudProfile", "name": name} for name in ("parent", "parent", "stranger")]
    + [{"kind": "NamespacedCloudProfile", "name": name} for name in ("a", "a", "b", "parent", "none")]
)


@st.composite
def change_scenarios(draw: st.DrawFn) -> ChangeScenario:
    """Everything that the two are asked about changes, in one world."""
    gate = draw(st.booleans())
    profile, other = draw(cloud_profiles(gate=gate)), draw(cloud_profiles(gate=gate))
    child, other_child = draw(namespaced()), draw(namespaced())
    shoot, workers = draw(shoots(complete=True)), draw(shoots(complete=True))["spec"]["provider"]
    before, after = (_referring(shoot, draw(_homes), "s") for _ in range(2))
    if draw(st.integers(0, 3)) == 0:
        after = {**after, "spec": {**after["spec"], "provider": workers}}
    return ChangeScenario(
        profile=profile,
        becomes=draw(edits(profile, other)),
        child=child,
        child_becomes=draw(edits(child, other_child)),
        users=draw(_users()),
        family=draw(_families()),
        shoot=before,
        moved=after,
        now=draw(moments),
    )
