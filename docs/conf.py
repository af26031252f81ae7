"""The documentation as a site: ``make docs`` builds it into dist/docs/."""

from __future__ import annotations

from importlib.metadata import metadata
from importlib.metadata import version as version_of
from typing import Any

import click

from restow.cli.shared import OPTIONS, SharedOption
from restow.main import COMMANDS, main

project = "restow"
author = "the restow authors"
copyright = author  # noqa: A001 - Sphinx's name
version = release = version_of("restow")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_click",
    "sphinx_copybutton",
]
exclude_patterns = ["examples"]
copybutton_prompt_text = "$ "

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
default_role = "literal"
smartquotes = False  # a flag begins with two hyphens
nitpicky = False
# An annotation such as type[X] is looked up by its bare name, which attributes of two classes have.
suppress_warnings = ["ref.python"]

_urls = dict(each.split(", ", 1) for each in metadata("restow").get_all("Project-URL") or ())
html_theme = "furo"
html_title = f"restow {version}"
html_static_path = ["_static"]
html_css_files = ["restow.css"]
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {
    "source_edit_link": f"{_urls['Source']}/edit/main/docs/{{filename}}",
    "source_view_link": f"{_urls['Source']}/blob/main/docs/{{filename}}",
    "footer_icons": [{"name": "Source", "url": _urls["Source"], "html": "Source", "class": ""}],
    "light_css_variables": {"color-brand-primary": "#0b5cad", "color-brand-content": "#0b5cad"},
    "dark_css_variables": {"color-brand-primary": "#6cb2f7", "color-brand-content": "#6cb2f7"},
}
pygments_style = "friendly"
pygments_dark_style = "github-dark"


def _as_it_is_written(_app: Any, _context: Any, lines: list[str]) -> None:
    """The help of commands is plain text; a star in it is no markup."""
    lines[:] = [line.replace("*", "\\*") for line in lines]


def setup(app: Any) -> None:
    """Called by Sphinx."""
    for name in COMMANDS.keys() - {OPTIONS}:  # the reference shows the shared options once, as the help does
        command = main.get_command(click.Context(main), name)
        assert command is not None
        for each in command.params:
            if isinstance(each, SharedOption):
                each.hidden, each.envvar = True, None
    for part in ("description", "options", "arguments"):
        app.connect(f"sphinx-click-process-{part}", _as_it_is_written)
