"""The report as a person meets it: filters, keyboard, dark, narrow, printed, read aloud; and as an attacker would."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import Page
from tests.restow.report.sample import HOSTILE

VISIBLE_ROWS = "[...document.querySelectorAll('tbody tr')].filter((row) => row.offsetParent !== null)"

CONTRAST = """
(() => {
  const parse = (text) => {
    const found = text.match(/[\\d.]+/g).map(Number);
    return {rgb: found.slice(0, 3), alpha: found.length > 3 ? found[3] : 1};
  };
  const light = (rgb) => {
    const part = rgb.map((each) => each / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
  };
  const ratio = (one, other) => {
    const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const found = parse(getComputedStyle(each).backgroundColor);
      if (found.alpha === 1) return found.rgb;
      if (found.alpha !== 0) throw new Error('a translucent background');
    }
    throw new Error('no background');
  };
  const inPicture = (text) => {
    const at = text.getBoundingClientRect();
    const covers = [...text.ownerSVGElement.querySelectorAll('rect.paper, rect.here')].filter((rect) => {
      const box = rect.getBoundingClientRect();
      return box.left <= at.left + at.width / 2 && box.right >= at.left + at.width / 2 && box.bottom >= at.bottom;
    });
    return covers.length ? parse(getComputedStyle(covers.at(-1)).fill).rgb : behind(text.ownerSVGElement.parentElement);
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || ['SCRIPT', 'STYLE', 'title', 'desc'].includes(element.tagName)) continue;
    if (!element.getClientRects().length) continue;
    const picture = element.tagName === 'text';
    const style = getComputedStyle(element);
    const ink = parse(picture ? style.fill : style.color).rgb;
    found.push([ratio(ink, picture ? inPicture(element) : behind(element)), node.data.trim().slice(0, 40)]);
  }
  const field = document.getElementById('text');
  const hint = parse(getComputedStyle(field, '::placeholder').color).rgb;
  found.push([ratio(hint, behind(field)), 'the placeholder']);
  return found;
})()
"""


def complaints(page: Page) -> list[Any]:
    """Everything that the browser had to say of the page."""
    kinds = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Page.javascriptDialogOpening")
    return [event for kind in kinds for event in page.events[kind]]


async def test_it_asks_nobody_for_anything(page: Page, report: Path) -> None:
    """A report of a cluster must be safe to open anywhere, and whole where there is no network."""
    asked = [event["request"]["url"] for event in page.events["Network.requestWillBeSent"]]
    assert [url for url in asked if not url.startswith("data:")] == [report.as_uri()]
    assert complaints(page) == []


async def test_names_are_texts_and_nothing_else(page: Page) -> None:
    """A field manager names itself: whatever it is called must not run in the browser of who reads of it."""
    assert await page.value("document.querySelectorAll('script').length") == 1
    assert await page.value("document.querySelectorAll('img, iframe, object, link:not([rel=icon])').length") == 0
    shown = await page.value("document.getElementById('content').innerText")
    assert HOSTILE in shown
    assert complaints(page) == []


async def test_the_policy_holds_where_escaping_would_not(page: Page) -> None:
    """The second wall: even a tag that got through could neither run nor load."""
    refused = await page.value("""
      new Promise((done) => {
        const refused = new Set();
        document.addEventListener('securitypolicyviolation', (event) => {
          refused.add(event.effectiveDirective);
          if (refused.size === 3) done([...refused].sort());
        });
        document.body.insertAdjacentHTML('beforeend', '<b style="color: red" onclick="x()">b</b>');
        document.body.lastElementChild.click();
        new Image().src = 'http://127.0.0.1:9/';
      })
    """)
    assert refused == ["img-src", "script-src-attr", "style-src-attr"]


async def test_the_text_filter(page: Page) -> None:
    """All words must be in a row; what is left out of a table is said; Escape brings everything back."""
    everything = len(await page.value(f"{VISIBLE_ROWS}.map((row) => row.innerText)"))
    await page.press("/", 191)
    assert await page.value("document.activeElement.id") == "text"
    await page.type("argocd v1alpha1")
    rows = await page.value(f"{VISIBLE_ROWS}.map((row) => row.textContent)")
    assert rows and all("argocd" in row and "v1alpha1" in row for row in rows)
    assert await page.value("document.getElementById('shown').value") == f"{len(rows)} of {everything} rows"
    nothing = "[...document.querySelectorAll('.none')].filter((each) => each.offsetParent !== null).length"
    tables = await page.value("document.querySelectorAll('table').length")
    with_rows = await page.value(f"new Set({VISIBLE_ROWS}.map((row) => row.closest('table'))).size")
    assert await page.value(nothing) == tables - with_rows > 0
    await page.press("Escape", 27)
    assert len(await page.value(f"{VISIBLE_ROWS}.map((row) => row.innerText)")) == everything
    assert complaints(page) == []


async def test_the_state_filter(page: Page) -> None:
    """Who comes to act wants to see what failed, or what may go, alone; together with words it narrows further."""
    choose = """(() => {{
      const state = document.getElementById('state');
      state.value = '{}';
      state.dispatchEvent(new Event('change'));
    }})()"""
    states = f"{VISIBLE_ROWS}.map((row) => row.dataset.state)"
    everything = len(await page.value(states))
    counted = 0
    for state in ("failed", "due", "ready", "done"):
        await page.value(choose.format(state))
        found = await page.value(states)
        assert set(found) == {state}
        counted += len(found)
    assert counted == everything
    await page.value(choose.format("ready"))
    await page.press("/", 191)
    await page.type("gizmos")
    assert await page.value(states) == []


async def test_without_javascript_it_is_plain_tables(page: Page, report: Path) -> None:
    """Mail clients and careful people run no scripts: everything is there, but for the filter that could not work."""
    rows = await page.value("document.querySelectorAll('tbody tr').length")
    await page.send("Emulation.setScriptExecutionDisabled", value=True)
    await page.open(report)
    tree = (await page.send("Accessibility.getFullAXTree"))["nodes"]
    roles = [node["role"]["value"] for node in tree if not node["ignored"]]
    assert "searchbox" not in roles
    assert roles.count("row") >= rows
    assert complaints(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_contrast(page: Page, scheme: str) -> None:
    """WCAG AA for every text, pictures included, in both schemes."""
    await page.media(scheme=scheme)
    background = await page.value("getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}[scheme]
    found = await page.value(CONTRAST)
    assert len(found) > 200
    weak = [(round(ratio, 2), text) for ratio, text in found if ratio < 4.5]
    assert weak == []


@pytest.mark.parametrize("width", [360, 768, 1280])
async def test_the_page_never_scrolls_sideways(page: Page, width: int) -> None:
    """Wide tables scroll within themselves; a page that does cannot be read on a telephone."""
    await page.resize(width)
    assert await page.value("document.documentElement.scrollWidth") <= width
    parts = "[...document.querySelectorAll('h1, h2, h3, header p, section > p, caption, dl, form, nav, footer')]"
    right = await page.value(f"Math.max(...{parts}.map((each) => each.getBoundingClientRect().right))")
    assert 0 < right <= width


async def test_headings_tables_and_pictures_have_names(page: Page) -> None:
    """What a screen reader is told: a title, headings in order, a name for each table, region and picture."""
    tree = [node for node in (await page.send("Accessibility.getFullAXTree"))["nodes"] if not node["ignored"]]

    def named(role: str) -> list[str]:
        return [node.get("name", {}).get("value", "") for node in tree if node["role"]["value"] == role]

    for role in ("table", "region", "image", "searchbox", "combobox", "navigation"):
        assert named(role), f"no {role}"
        assert all(named(role)), f"a {role} without a name: {named(role)}"
    levels = await page.value("[...document.querySelectorAll('h1, h2, h3')].map((each) => Number(each.tagName[1]))")
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert await page.value("document.documentElement.lang") == "en"
    assert await page.value("[...document.querySelectorAll('th')].every((each) => each.scope)")
    assert await page.value("[...document.querySelectorAll('svg')].every((svg) => svg.getAttribute('role') === 'img')")
    ids = await page.value("[...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(ids) == len(set(ids))


async def test_the_keyboard_reaches_everything(page: Page) -> None:
    """First a way past the filter, then every link, field, table and detail; each with a visible focus."""
    reached: list[str] = []
    for _ in range(200):
        await page.press("Tab", 9)
        here = await page.value("""
          (() => {
            const at = document.activeElement;
            if (at === document.body) return '';
            return JSON.stringify([at.tagName, at.className || at.id, getComputedStyle(at).outlineStyle]);
          })()
        """)
        if not here:
            break
        reached.append(here)
    found = [json.loads(each) for each in reached]
    assert found[0][:2] == ["A", "skip"]
    assert all(outline != "none" for _, _, outline in found), found
    wanted = await page.value("document.querySelectorAll('a, input, select, .scroll, summary').length")
    assert len(found) == wanted


async def test_it_prints(page: Page) -> None:
    """On paper: no filter, no navigation, everything unfolded, nothing cut off at the right."""
    await page.media(medium="print", scheme="dark")
    hidden = "['filter'].map((id) => document.getElementById(id)).concat(document.querySelector('nav'))"
    assert await page.value(f"{hidden}.every((each) => getComputedStyle(each).display === 'none')")
    assert await page.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert await page.value(
        "[...document.querySelectorAll('details p')].every((each) => each.getBoundingClientRect().height > 0)"
    )
    await page.media()
    printed = await page.pdf()
    assert printed.startswith(b"%PDF")
