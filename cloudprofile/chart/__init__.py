"""The lifecycles of a profile's versions as a chart: ``rows_of`` a profile's spec, drawn as ``text_chart`` or
``svg_chart``.

Pure.
"""

from restow.cloudprofile.chart.rows import Row, Segment, Window, rows_of, window_of
from restow.cloudprofile.chart.svg import svg_chart
from restow.cloudprofile.chart.text import LETTERS, text_chart

__all__ = ["LETTERS", "Row", "Segment", "Window", "rows_of", "svg_chart", "text_chart", "window_of"]
