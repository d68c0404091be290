"""Reports: one HTML file that needs nothing else, from blocks of text, tables and charts.

``page`` has the blocks, ``charts`` draws SVG that follows the reader's light or dark theme, and ``render`` makes
the file. The other modules build the page of one kind of result each.
"""

from ars.report.charts import Band, Bars, Layer, Line, Points, Rule, chart
from ars.report.page import (
    Block,
    Cell,
    Chart,
    Charts,
    Code,
    Column,
    Fact,
    Facts,
    Items,
    Note,
    Page,
    Section,
    Step,
    Table,
    Tabs,
    Text,
    Verdict,
)
from ars.report.render import render, write

__all__ = [
    "Band",
    "Bars",
    "Block",
    "Cell",
    "Chart",
    "Charts",
    "Code",
    "Column",
    "Fact",
    "Facts",
    "Items",
    "Layer",
    "Line",
    "Note",
    "Page",
    "Points",
    "Rule",
    "Section",
    "Step",
    "Table",
    "Tabs",
    "Text",
    "Verdict",
    "chart",
    "render",
    "write",
]
