"""The HTML page of ``restow report``: ``render`` a ``ReportDocument``.

``cluster`` reads a live cluster; everything else is pure.
"""

from restow.report.model import PolicyPlan, ReportDocument
from restow.report.page import render
from restow.report.run import RunError, RunReport, parse_run

__all__ = ["PolicyPlan", "ReportDocument", "RunError", "RunReport", "parse_run", "render"]
