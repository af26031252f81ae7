"""The HTML page of ``restow report``: ``render`` a ``ReportDocument``.

Pure, except that it reads the templates in this folder.
"""

from restow.report.model import PolicyPlan, ReportDocument
from restow.report.page import render
from restow.report.run import RunError, RunReport, parse_run

__all__ = ["PolicyPlan", "ReportDocument", "RunError", "RunReport", "parse_run", "render"]
