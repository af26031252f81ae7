"""The page as text: complete, self-contained, and safe whatever anything is called."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from restow.report import ReportDocument, parse_run, render
from restow.report.chart import plan_chart
from restow.report.views import figures, profile_view, remarks, view
from tests.restow.report.sample import HOSTILE, NOW, crd, document, plan, profile_document, rules, run, tally

_VOID = {"meta", "link", "input", "wbr"}


class Shape(HTMLParser):
    """The elements of a page with their attributes, and whether each is closed where it should be."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note it."""
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one that closes itself, as within pictures."""
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Each end is that of the innermost."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Gather text."""
        self.text += data


def skeleton(page: str) -> list[tuple[str, tuple[str, ...]]]:
    """Elements and the names of their attributes: what no name may change."""
    return [(tag, tuple(attributes)) for tag, attributes in Shape(page).elements if tag != "wbr"]


def hostile_document(text: str) -> ReportDocument:
    """A page in which everything that others name is called this."""
    widgets = crd("widgets", ["v1beta1", "v1"], storage="v1", stored=["v1"])
    seen = view(widgets, "migrated", tally(widgets, [(text, "v1beta1")]))
    base = run()
    ran = replace_run(text)
    return ReportDocument(
        made=NOW,
        release="0.1.0",
        cluster=f"https://{text}",
        crds=(seen, view(widgets, text, None, text)),
        run=base.__class__(result=text, crds=ran),
        rules=(rules(ready=False, failure=text, name=text),),
        profiles=(
            profile_view("CloudProfile", profile_document() | {"metadata": {"name": text}}, NOW),
            replace(profile_view("CloudProfile", {"metadata": {"name": "x"}, "spec": {}}, NOW), problem=text),
        ),
    )


def replace_run(text: str) -> tuple:
    """The sample's run with every text replaced."""
    import msgspec

    (one,) = run().crds
    failures = tuple(
        msgspec.structs.replace(each, namespace=text, name=text, reason=text, message=text) for each in one.failures
    )
    owners = tuple(msgspec.structs.replace(each, manager=text, api_version=text) for each in one.stripped_owners)
    return (
        msgspec.structs.replace(
            one,
            name=text,
            failures=failures,
            stripped_owners=owners,
            warnings=(text,),
            refused=text,
            unfinished=text,
            pruned_reason=text,
            stored_versions_before=(text,),
        ),
    )


def test_everything_is_in_it():
    """Each section is what somebody opens the page for."""
    shape = Shape(render(document()))
    ids = {attributes.get("id") for _, attributes in shape.elements}
    assert {
        "act",
        "stored",
        "leave",
        "owners",
        "references",
        "run",
        "failures",
        "plan",
        "profiles",
        "conversions",
    } <= ids
    for text in (
        "widgets.example.com",
        "argocd-controller",
        "0 to 5,047",
        "till-7",
        "August 26",
        "deprecated from",
        "ObjectsFail: 1 of 3 objects failed",
        "3 of 4",
        "For example settings",
        "unserving and removal",
        HOSTILE,
    ):
        assert text in shape.text


@pytest.mark.parametrize("part", ["crds", "run", "plan", "profiles", "rules", "cluster"])
def test_each_part_may_be_missing(part: str):
    """A report of a run alone has no cluster, one of a cluster no run."""
    whole = document()
    without = replace(
        whole, **{part: type(getattr(whole, part))() if part in {"crds", "profiles", "rules", "cluster"} else None}
    )
    shape = Shape(render(without))
    links = {str(attributes["href"])[1:] for tag, attributes in shape.elements if tag == "a"}
    assert links <= {attributes.get("id") for _, attributes in shape.elements}, "a link to a section that is not there"


def test_an_empty_page_says_that_nothing_is_wrong():
    """Nothing to act on is good news, and has to be told."""
    assert "no failure, nothing due" in Shape(render(ReportDocument(made=NOW, release="1"))).text


def test_there_is_no_address_in_it():
    """Nothing to load, nothing to call, nothing that tells anybody that the page was opened."""
    page = render(replace(document(), cluster=""))
    assert re.findall(r"(?i)\w+://[^\s<]*|url\(|@import", page) == []
    for _tag, attributes in Shape(page).elements:
        for name in ("src", "href", "srcset", "action", "data", "xlink:href"):
            value = attributes.get(name)
            assert value is None or value.startswith("#") or value == "data:,"


def test_the_policy_names_every_style_and_the_script():
    """A style that the policy does not name is not applied, and one that it does not have to name is a hole."""
    page = render(document())
    (policy,) = [attributes["content"] for tag, attributes in Shape(page).elements if "http-equiv" in attributes]
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy and "*" not in policy
    assert policy.count("'sha256-") == len(set(re.findall(r"<style>(.*?)</style>", page, re.DOTALL))) + 1
    assert all("style" not in attributes for _, attributes in Shape(page).elements)
    assert all(not name.startswith("on") for _, attributes in Shape(page).elements for name in attributes)


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        st.sampled_from(
            [HOSTILE, "</script><script>", "</style>", "{{ 7 * 7 }}", "{% raw %}", "--><!--", "&lt;", "\x00", "\u202e"]
        ),
        st.text(alphabet="<>&\"'`=/ {}%#;:!-xs\n", min_size=1, max_size=30),
        st.text(min_size=1, max_size=30),
    )
)
def test_no_name_changes_the_page(text: str):
    """Field managers, objects, messages and profiles are called whatever somebody likes; it is only shown."""
    assert skeleton(render(hostile_document(text))) == skeleton(render(hostile_document("x")))
    assert render(hostile_document(text)).encode("utf-8", errors="replace")


def test_figures_and_remarks():
    """What stands on top is what is acted upon: failures first, and no number that the tables do not have."""
    shown = {figure.label: figure.value for figure in figures(document())}
    assert shown == {
        "CRDs": "4",
        "objects": "5,168",
        "CRDs with work due": "1",
        "objects owned at other versions": "1,046",
        "versions that may go": "1",
        "objects rewritten by the run": "5,040",
        "failed in the run": "2",
        "ConversionRules": "2",
        "of them failed": "1",
        "CloudProfiles": "1",
    }
    words = [remark.word for remark in remarks(document())]
    assert words[:2] == ["failed", "not seen"]
    due = {"conversions", "stripped", "warning", "migration due", "due", "may be unserved, then removed"}
    assert set(words[2:]) == due


def test_a_refused_and_an_unfinished_run_are_told():
    """A run that did nothing must not look like one that had nothing to do."""
    ran = parse_run(
        b'{"result":"Failed","crds":[{"name":"a.b","refused":"not established"},{"name":"c.d","unfinished":"stopped"}]}'
    )
    found = remarks(ReportDocument(made=NOW, release="1", run=ran))
    assert [(remark.word, remark.about) for remark in found] == [("refused", "a.b"), ("unfinished", "c.d")]


def test_the_chart_of_a_plan_says_what_its_table_says():
    """A picture that disagrees with the policy would be believed."""
    chart = plan_chart(plan(at=5))
    words = {bar.words: bar for bar in chart.bars}
    assert set(words) == {
        "v1alpha3 is kept, but not served from v1.9 to v1.12",
        "v1alpha4 is kept, but not served from v1.9 to v1.12",
        "v1beta1 is the storage version from v1.9 to v1.10",
        "v1beta1 is served from v1.11 to v1.13",
        "v1beta1 is kept, but not served from v1.14 to v1.17",
        "v1beta2 is the storage version from v1.11 to v1.18",
    }
    centre = {name: x for x, name, _ in chart.releases}
    served = words["v1beta1 is served from v1.11 to v1.13"]
    assert served.x < centre["v1.11"] < centre["v1.13"] < served.x + served.width < centre["v1.14"]
    assert chart.here is not None and chart.here[0] < centre["v1.14"] < chart.here[0] + chart.here[1]
    assert all(
        bar.x >= 0 and bar.x + bar.width <= chart.width and bar.y + bar.height <= chart.bottom for bar in chart.bars
    )
    assert plan_chart(plan(at=None)).here is None


def test_a_profile_whose_lifecycle_is_none_is_named():
    """One profile that cannot be drawn must not cost the others their charts, nor go unnoticed."""
    broken = profile_document()
    broken["spec"]["kubernetes"]["versions"][1]["lifecycle"][1]["startTime"] = "soon"
    found = profile_view("CloudProfile", broken, NOW)
    assert found.problem and not found.rows
    page = Shape(render(ReportDocument(made=NOW, release="1", profiles=(found,))))
    assert "It cannot be drawn" in page.text


def test_a_namespaced_profile_is_drawn_as_rendered():
    """Its own spec holds only what it overrides."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    document = {
        "metadata": {"name": "p", "namespace": "garden-a"},
        "spec": {"parent": {"kind": "CloudProfile", "name": "metal"}},
        "status": {"cloudProfileSpec": profile_document()["spec"]},
    }
    found = profile_view("NamespacedCloudProfile", document, now)
    assert found.name == "garden-a/p"
    assert len(found.rows) == 4
