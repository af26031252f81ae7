"""The HTML page of ``restow report``: ``render`` a ``Document``.

``gathering`` reads a live cluster; everything else is pure.
"""

from restow.report.model import Document, Plan
from restow.report.page import render
from restow.report.run import Run, RunError, parse_run

__all__ = ["Document", "Plan", "Run", "RunError", "parse_run", "render"]
