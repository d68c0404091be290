"""Reports without a browser: what is in the file, and what must not be."""

from __future__ import annotations

import base64
import math
import re
import struct
import xml.etree.ElementTree as ET
import zlib
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ars.errors import StorageError
from ars.report import (
    Band,
    Bars,
    Cell,
    Chart,
    Column,
    Line,
    Page,
    Points,
    Rule,
    Section,
    Table,
    Text,
    Verdict,
    chart,
    render,
    write,
)
from ars.report.charts import ticks
from ars.report.given import Given
from ars.report.images import images, is_image, picture
from ars.report.page import estimate_cell, supported
from ars.report.predictive import data_section
from ars.report.training import training_verdict
from ars.report.values import posterior_chart

NASTY = '<script>alert("x")</script> & `a<b`'


class Reader(HTMLParser):
    """Headings, and everything that a page could load."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[int] = []
        self.loaded: list[str] = []
        self.scripts = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        self.scripts += tag == "script"
        self.loaded += [value or "" for name, value in attrs if name in ("src", "srcset", "data", "action")]
        self.loaded += [value or "" for name, value in attrs if name == "href" and tag == "link"]


def page(text: str = "text") -> Page:
    svg = chart(text, [Bars([0, 1, 2], [1, 2], label=text)], x_label=text)
    table = Table(
        text, [Column(text, numeric=False), Column("v", help=text)], [[Cell(text, code=True), Cell("1", 1.0)]]
    )
    return Page(text, text, Verdict("bad", text, text, [text]), [Section("One", [Text(text), Chart(text, svg), table])])


def test_a_page_loads_nothing_and_its_headings_are_in_order() -> None:
    found = Reader(render(page()))
    assert all(address.startswith("data:") for address in found.loaded)
    assert found.headings[0] == 1 and found.headings.count(1) == 1
    assert all(after - before <= 1 for before, after in zip(found.headings, found.headings[1:], strict=False))
    assert "http://" not in (text := render(page())) and "https://" not in text


def test_text_of_others_is_never_markup() -> None:
    text = render(page(NASTY))
    assert Reader(text).scripts == 1  # ours
    assert "<code>a&lt;b</code>" in text


def test_a_page_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    write(page(), tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text().rstrip().endswith("</html>")
    with pytest.raises(StorageError):
        write(page(), tmp_path / "missing" / "a.html")


def test_charts_are_xml_with_a_text_alternative_and_finite_numbers() -> None:
    x = np.array([1.0, 2.0, math.nan, 4.0, 1e9])
    layers = [Band(x, x - 1, x + 1), Line(x, x, 2, "l"), Points(x, x, 3, titles=["<a>"]), Rule(x=2.0), Rule(y=3.0)]
    for log in (False, True):
        svg = chart("An alternative & more", layers, log_x=log, log_y=log, x_label="<x>", y_label="y")
        root = ET.fromstring(svg)
        assert root.get("role") == "img" and root[0].tag == "title" and root[0].text == "An alternative & more"
        assert "nan" not in svg and "inf" not in svg
    assert ET.fromstring(chart("nothing", []))[0].text == "nothing"
    for limits in ((-math.inf, math.inf), (math.nan, 1.0), (2.0, 2.0)):
        assert "nan" not in chart("limits", layers, x_limits=limits, y_limits=limits)


def test_labels_at_the_ends_stay_inside_the_picture() -> None:
    """The label of the last number is centred below a tick 14 units from the right edge, and would be cut there."""
    for label in ("", "y"):
        root = ET.fromstring(chart("wide labels", [Line([0.0, 1e6], [0.0, 1.0])], y_label=label, hide_y=not label))
        marks = [
            each for each in root.iter("text") if (each.get("class"), each.get("text-anchor")) == ("mark", "middle")
        ]
        assert marks[-1].text == "1e6"
        for mark in marks:
            half = 0.5 * 6.4 * len(mark.text or "")
            assert half <= float(mark.get("x", "nan")) <= 360.0 - half + 0.05
    far = ET.fromstring(chart("wider", [Line([0.0, 80_000.0], [0.0, 1.0])], hide_y=True))
    last = [each for each in far.iter("text") if each.text == "80,000"]
    assert float(last[0].get("x", "nan")) < 360.0 - 14.0


def marks_of(svg: str) -> list[str]:
    """Labels of the x axis, then its name."""
    texts = [each for each in ET.fromstring(svg).iter("text") if each.get("text-anchor") == "middle"]
    return [each.text or "" for each in texts]


@pytest.mark.parametrize(
    ("low", "high", "name", "expected"),
    [
        (0.0, 1.0, "x", ["0", "0.2", "0.4", "0.6", "0.8", "1.0", "x"]),
        (0.3, 1.0, "x", ["0.4", "0.6", "0.8", "1.0", "x"]),
        (2.999996e12, 3.000004e12, "x", ["−4e6", "−2e6", "0", "2e6", "4e6", "x − 3e12"]),
        (2.0, 2.0 + 1e-10, "", ["0", "2e−11", "4e−11", "6e−11", "8e−11", "1e−10", "+ 2"]),
        (123_400.0, 123_800.0, "", ["−200", "−100", "0", "100", "200", "+ 123,600"]),
        (-1.00002e-9, -0.99998e-9, "", ["−2e−14", "−1e−14", "0", "1e−14", "2e−14", "− 1e−9"]),
    ],
)
def test_numbers_at_an_axis_can_be_told_apart(low: float, high: float, name: str, expected: list[str]) -> None:
    assert marks_of(chart("far", [Line([low, high], [0.0, 1.0])], x_label=name, hide_y=True)) == expected


def test_counts_have_no_fractions_at_their_axis() -> None:
    bars = Bars([-0.5, 0.5, 1.5], [3.0, 1.0])
    assert marks_of(chart("flag", [bars], whole_x=True, hide_y=True)) == ["0", "1"]
    assert "0.5" in marks_of(chart("flag", [bars], hide_y=True))
    coin = np.array([0.0, 1.0, 1.0, 0.0])
    assert marks_of(posterior_chart("coin", coin, np.zeros(4))) == ["0", "1"]
    assert "0.4" in marks_of(posterior_chart("share", np.linspace(0.0, 1.0, 50), np.zeros(50)))


def test_powers_of_ten_apart_are_drawn_on_a_logarithmic_axis() -> None:
    """Equal bins would have one bar for nearly all draws."""
    x = np.exp(np.random.default_rng(1).normal(0.0, 4.0, 2000))
    weights = np.zeros(2000)
    svg = posterior_chart("rate", x, weights, prior=x[:500], truth=2.0)
    assert svg.count('<rect class="fill') > 10 and {"0.1", "10"} <= set(marks_of(svg))
    negative, none = np.r_[x, -1.0], np.r_[weights, -np.inf]
    assert {"0.1", "10"} <= set(marks_of(posterior_chart("rate", negative, none)))  # it has no weight
    for other in (np.r_[x, -1.0], 10.0 + x / x.max()):
        assert "0.1" not in marks_of(posterior_chart("rate", other, np.zeros(len(other))))


def decoded(address: str) -> np.ndarray:
    """The bytes of a PNG with a palette, as rows of palette indices; the chunks are checked."""
    head, _, code = address.partition(",")
    assert head == "data:image/png;base64"
    data, at, chunks = base64.b64decode(code), 8, {}
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        chunks[kind] = data[at + 8 : at + 8 + size]
        assert struct.unpack(">I", data[at + 8 + size : at + 12 + size])[0] == zlib.crc32(kind + chunks[kind])
        at += 12 + size
    columns, rows = struct.unpack(">II", chunks[b"IHDR"][:8])
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(rows, columns + 1)
    assert len(chunks[b"PLTE"]) == 3 * 256 and not lines[:, 0].any()
    return lines[:, 1:]


def test_data_in_rows_and_columns_are_pictured() -> None:
    assert is_image((20, 20)) and not any(map(is_image, [(400,), (2, 200), (), (4, 4, 4)]))
    data = np.arange(20.0).reshape(4, 5)
    data[1, 2] = math.nan
    seen = decoded(picture(data, 0.0, 19.0))
    assert seen.shape == (4, 5) and seen[1, 2] == 0 and seen[0, 0] == 1 and seen[3, 4] == 255
    assert (np.diff(seen[seen > 0].astype(int)) > 0).all()  # row by row, as it was given
    found = images("cells", data, np.stack([data - 1.0, data + 1.0]) + 2.0)
    assert [each.title for each in found] == ["`cells`: data", "`cells`: mean of the draws", "`cells`: data minus mean"]
    assert "21" in found[0].caption and "0.0% of the cells" in found[2].caption
    away = decoded(found[2].image)
    assert away[1, 2] == 0 and set(away[away > 0].tolist()) == {1 + round(254 / 6)}  # everywhere 2 below the mean
    constant = images("cells", np.ones((4, 4)), np.ones((3, 4, 4)))  # no spread: nothing to divide by
    assert not decoded(constant[2].image).any()
    text = render(Page("Page", "", None, [Section("One", [found[0]])]))
    assert 'alt="cells: data"' in text and "pixelated" in text


class Predicted:
    """Predictive draws of many observations."""

    def __init__(self, names: list[str]) -> None:
        self.observations = {name: np.linspace(-1.0, 1.0, 20) for name in names}

    def __len__(self) -> int:
        return 20


def test_many_observations_have_a_few_pictures() -> None:
    """Hundreds of pictures would bury the sections below them."""
    names = [f"y{i}" for i in range(40)]
    post: Any = SimpleNamespace(observed={name: np.array(0.1) for name in names})
    predicted: Any = Predicted(names)
    section = data_section(post, Given(predicted=predicted))
    assert section is not None
    text = render(Page("t", sections=[section]))
    assert text.count("<figure") == 12 and "The first 12 of 40 observations are pictured." in text
    assert text.count("<tr>") == 41


def test_long_names_wrap() -> None:
    rows = [[Cell("x" * 60, code=True), Cell("1")], [Cell("short", code=True), Cell("2")]]
    table = Table("Values", [Column("Value", numeric=False), Column("Mean")], rows)
    text = render(Page("Page", "", None, [Section("One", [table])]))
    assert f'<code class="long">{"x" * 60}</code>' in text and "<code>short</code>" in text


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3e-7, 4e-7), (1e6, 3e6), (0.98, 1.02), (-5.0, -5.0)])
def test_ticks_are_few_round_and_inside(low: float, high: float) -> None:
    found = ticks(low, high)
    assert 1 <= len(found) <= 12
    slack = 1e-9 * (high - low)
    assert all(low - slack <= each <= high + slack for each in found)


def test_an_estimate_has_as_many_digits_as_its_error() -> None:
    assert estimate_cell(-1.40212, 0.0173).text == "−1.402 ± 0.017"
    assert estimate_cell(1234.5, 20.0).text == "1234 ± 20"  # half to even
    assert estimate_cell(2.0, math.nan).text == "2"
    assert estimate_cell(math.nan, 0.1).key == ""
    assert supported(-0.571506, 0.0081) == "−0.5715"
    assert supported(-0.571506, math.nan) == "−0.57151"
    assert estimate_cell(3.0000001234e12, 4.3e4).text == "3.000000123e+12 ± 4.3e+04"
    assert estimate_cell(9.999874e-10, 4.2e-14).text == "9.999874e−10 ± 4.2e−14"
    assert supported(-math.inf, math.nan) == "−∞"


def test_a_training_is_judged_by_its_held_out_loss() -> None:
    flat: list[float | None] = [1.0, 0.5, 0.3, *[0.2] * 20]
    falling: list[float | None] = [3.0 - 0.1 * i for i in range(20)]
    rising: list[float | None] = [1.0, 0.5, 0.2, *[0.2 + 0.05 * i for i in range(20)]]
    loss = [1.0 - 0.01 * i for i in range(23)]
    assert training_verdict(loss, flat).level == "good"
    assert "falls" in training_verdict(loss, falling).headline
    assert "rises" in training_verdict(loss, rising).headline
    assert training_verdict([1.0], [None]).level == "plain"


def test_experiments_and_benchmarks_become_pages() -> None:
    from ars_lab.bench.report import bench_page
    from ars_lab.bench.results import Report, measurement
    from ars_lab.reproduce.report import reproduce_page

    results = Path(__file__).resolve().parents[2] / "docs" / "results"
    pages = {name: results / name / "README.md" for name in ("beta", "marsaglia", "mini-sherpa")}
    text = render(reproduce_page(pages, [], "ars reproduce all"))
    figures = sum(path.read_text().count("![") for path in pages.values())
    assert text.count('src="data:image/png;base64,') == figures > 3
    assert "![" not in text and "| ---" not in text
    assert reproduce_page(pages, ["wrong"], "").verdict.level == "bad"  # type: ignore[union-attr]

    met = measurement("draws", {"n": 1.0}, "speed", [2.0, 3.0, 4.0], "per s", "higher", target=2.5)
    missed = measurement("draws", {"n": 2.0}, "speed", 1.0, "per s", "higher", target=2.5)
    report = Report({"cores": 2}, {"command": "ars bench draws"}, [met, missed])
    assert bench_page(report).verdict == Verdict(
        "caution", "1 of 2 targets are missed", "", ["draws, n 2.0: speed is 1.00, the target 2.50"]
    )
    assert "3.00 ± 33% (≥ 2.5)" in render(bench_page(report))
