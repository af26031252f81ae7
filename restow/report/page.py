"""Render a ``ReportDocument`` as one self-contained HTML page: no network, no other files, no JavaScript.

Names of managers, objects and CRDs are untrusted text: the templates escape everything (autoescape), and the page's
Content-Security-Policy admits only the page's own scripts and styles, by their hashes. Pure, except that it reads the
templates in this folder.
"""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from restow.cloudprofile.versions.chart import ChartRow, svg_chart
from restow.cloudprofile.versions.lifecycle import Classification
from restow.migrator.timeline import columns, notes
from restow.report.chart import plan_chart
from restow.report.model import ProfileView, ReferenceRow, ReportDocument, State, VersionRow
from restow.report.views import figures, remarks

_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)
_NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'


def render(document: ReportDocument) -> str:
    """Return the page."""
    style, script = _file("page.css"), _file("page.js")
    charts = [_chart(profile, document.made) for profile in document.profiles]
    styles = dict.fromkeys([style, *(found for chart in charts for found in _STYLE.findall(chart))])
    plan = document.plan
    template = _templates().get_template("page.html.jinja")
    return template.render(
        document=document,
        title=_title(document),
        policy=_policy(styles, script),
        style=Markup(style),  # noqa: S704 - our own files
        script=Markup(script),  # noqa: S704
        figures=figures(document),
        remarks=remarks(document),
        versions=[version for crd in document.crds for version in crd.versions],
        owners=[owner for crd in document.crds for owner in crd.owners],
        references=_references(document),
        chart=None if plan is None else plan_chart(plan),
        columns=() if plan is None else columns(plan.schedule),
        notes=notes,
        profiles=[
            (profile, Markup(chart), [_stage(row, document.made) for row in profile.rows])  # noqa: S704 - escaped there
            for profile, chart in zip(document.profiles, charts, strict=True)
        ],
        states=list(State),
    )


def _references(document: ReportDocument) -> list[ReferenceRow] | None:
    """Return the references to versions, those that block a step first; None without a search."""
    found = [crd.references for crd in document.crds if crd.references is not None]
    if not found:
        return None
    return sorted((row for rows in found for row in rows), key=lambda row: row.state is not State.DUE)


def _title(document: ReportDocument) -> str:
    if document.cluster:
        return f"Cluster {document.cluster.partition('://')[2] or document.cluster}"
    return "A migration run" if document.run is not None else "The life of API versions"


def _policy(styles: dict[str, None], script: str) -> str:
    """Return a Content-Security-Policy that allows no requests, and only these scripts and styles."""
    allowed = " ".join(_hash(style) for style in styles)
    return (
        f"default-src 'none'; style-src {allowed}; script-src {_hash(script)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _chart(profile: ProfileView, now: datetime) -> str:
    """Return the SVG of a profile, without the namespace, which HTML does not need; so the page contains no URL."""
    if not profile.rows:
        return ""
    return svg_chart(f"{profile.kind} {profile.name}", profile.rows, profile.window, now).replace(_NAMESPACE, "", 1)


def _stage(row: ChartRow, now: datetime) -> dict[str, str]:
    """Return the current stage of a version and the next one, as text."""
    position = next((at for at, each in enumerate(row.segments) if now < each.end), len(row.segments) - 1)
    present = row.segments[position]
    later = row.segments[position + 1 :]
    expired = present.classification is Classification.EXPIRED
    return {
        "group": row.group,
        "version": row.version,
        "now": present.classification.value,
        "next": f"{later[0].classification.value} from {later[0].start:%Y-%m-%d}" if later else "",
        "state": (State.DUE if expired else State.DONE).value,
    }


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"number": _number, "time": _time, "amount": _amount, "day": _day, "dotted": _dotted}
    return environment


def _file(name: str) -> str:
    return resources.files("restow.report").joinpath(name).read_text(encoding="utf-8")


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:,}"


def _time(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def _dotted(name: str) -> Markup:
    """Return a name with possible line breaks after its dots."""
    return escape(name).replace(".", Markup(".<wbr>"))


def _day(time: str) -> str:
    """Return the day of an RFC 3339 time."""
    return time.partition("T")[0]


def _amount(version: VersionRow) -> str:
    """Return how many objects may be stored at a version, as far as the API shows it."""
    if version.at_most is None or version.at_least is None:
        return "unknown"
    if version.at_least == version.at_most:
        return f"{version.at_most:,}"
    return f"{version.at_least:,} to {version.at_most:,}"
