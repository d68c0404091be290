"""The data against what the simulator predicts with latents from the posterior."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from ars.columns import Floats
from ars.report.charts import Band, Bars, Layer, Line, Points, Rule, chart
from ars.report.given import Given
from ars.report.images import images, is_image
from ars.report.page import Block, Cell, Chart, Charts, Column, Fact, Facts, Note, Section, Table, Text, number_cell
from ars.results.bins import bin_edges, densities, whole_bars

if TYPE_CHECKING:
    from ars.posterior import Posterior, Traces

__all__ = ["data_section"]

_SINGLE: Final = 6  # numbers of an observation that get a picture each
_PICTURED: Final = 12  # observations with pictures
_ROWS: Final = 400  # of the table


def data_section(post: Posterior, given: Given) -> Section | None:
    """Posterior predictive draws and the data; how to get them if there are none."""
    blocks: list[Block] = []
    if given.check is not None:
        blocks.append(Note("caution" if given.check.alarm else "good", given.check.sentence()))
    if given.predicted is None:
        text = "No posterior predictive draws were made. To compare the data with them: "
        blocks.append(
            Text(f"{text}`post.report(..., predicted=simulator.predict(post))`, or `ars infer --report FILE`.")
        )
        return Section("Data", blocks)
    n = len(given.predicted)
    text = f"{n:,} data sets were simulated with latents from the posterior. "
    blocks.append(Text(text + "The model does not explain data that lie outside most of them."))
    rows: list[list[Cell]] = []
    inside = known = compared = 0
    for name, observed in post.observed.items():
        data, drawn = observed.reshape(-1), _flat(given.predicted, name)
        if drawn is None or drawn.shape[1] != len(data):
            blocks.append(Text(f"`{name}` is not compared: the simulator predicted a different number of values."))
            continue
        compared += 1
        if compared <= _PICTURED:
            _add(blocks, _pictured(name, observed, drawn, given))
        mine = _rows(name, observed, drawn)
        within = [bool(low <= x <= high) for x, low, high in _intervals(data, drawn)]
        inside, known = inside + sum(within), known + len(within)
        rows += mine
    if compared > _PICTURED:
        blocks.append(Text(f"The first {_PICTURED} of {compared:,} observations are pictured."))
    if known:
        blocks.insert(0 if given.check is None else 1, _facts(inside, known))
    if rows:
        blocks.append(_table(rows))
    return Section("Data", blocks)


def _pictured(name: str, observed: Floats, drawn: Floats, given: Given) -> Charts | Chart:
    if is_image(observed.shape):
        return Charts(images(name, observed, drawn.reshape(-1, *observed.shape)))
    return _pictures(name, observed.reshape(-1), drawn, _flat(given.prior, name))


def _add(blocks: list[Block], found: Charts | Chart) -> None:
    """Small pictures stand side by side."""
    last = blocks[-1]
    if isinstance(found, Charts) and isinstance(last, Charts):
        blocks[-1] = Charts([*last.charts, *found.charts])
    else:
        blocks.append(found)


def _flat(drawn: Traces | None, name: str) -> Floats | None:
    """A row of numbers per draw."""
    if drawn is None or name not in drawn.observations:
        return None
    values = drawn.observations[name]
    return values.reshape(len(values), -1)


def _intervals(data: Floats, drawn: Floats) -> list[tuple[float, float, float]]:
    low, high = np.nanquantile(drawn, [0.05, 0.95], axis=0)
    found = zip(data.tolist(), low.tolist(), high.tolist(), strict=True)
    return [each for each in found if not math.isnan(each[0])]


def _facts(inside: int, known: int) -> Facts:
    share = inside / known
    note = "about 90% are expected"
    # one number in ten lies outside by chance; with few numbers the share says little
    few = known >= 10 and share < 0.9 - 4.0 * math.sqrt(0.09 / known)
    return Facts(
        [
            Fact("Data inside the 90% interval", f"{inside:,} of {known:,}", note, "caution" if few else "plain"),
        ]
    )


def _pictures(name: str, data: Floats, drawn: Floats, prior: Floats | None) -> Charts | Chart:
    if len(data) > _SINGLE:
        return _series(name, data, drawn)
    labels = [name] if len(data) == 1 else [f"{name}[{i}]" for i in range(len(data))]
    usable = prior if prior is not None and prior.shape[1] == len(data) else None
    return Charts(
        [
            Chart(f"`{label}`", _single(label, x, drawn[:, i], None if usable is None else usable[:, i]))
            for i, (label, x) in enumerate(zip(labels, data.tolist(), strict=True))
        ]
    )


def _single(label: str, x: float, drawn: Floats, prior: Floats | None) -> str:
    edges = bin_edges(drawn, np.zeros(len(drawn)), prior)
    layers: list[Bars | Rule] = []
    layers.append(Bars(edges, densities(drawn, edges), 1, "predictive"))
    if prior is not None:
        layers.append(Bars(edges, densities(prior, edges), 2, "prior predictive", outline=True))
    ends = (float(edges[0]), float(edges[-1]))
    if not math.isnan(x):
        layers.append(Rule(x=x, label="data"))
        ends = (min(ends[0], x), max(ends[1], x))
    alt = f"Histogram of posterior predictive draws of {label}" + ("" if math.isnan(x) else f"; the data are {x:.4g}")
    return chart(alt, layers, x_limits=ends, whole_x=whole_bars(edges), hide_y=True, height=200.0)


def _series(name: str, data: Floats, drawn: Floats) -> Chart:
    at = np.arange(len(data))
    low, q25, middle, q75, high = np.nanquantile(drawn, [0.05, 0.25, 0.5, 0.75, 0.95], axis=0)
    titles = [f"{name}[{i}] = {x:.4g}" for i, x in enumerate(data.tolist())]
    layers: list[Layer] = [
        Band(at, low, high, 1, "90% of draws"),
        Band(at, q25, q75, 1, "50%"),
        Line(at, middle, 1, "median"),
        Points(at, data, 2, "data", titles),
    ]
    alt = f"{len(data)} numbers of {name}: data, and median and intervals of the posterior predictive draws"
    return Chart(f"`{name}`", chart(alt, layers, x_label="index", wide=True, height=280.0), wide=True)


def _rows(name: str, observed: Floats, drawn: Floats) -> list[list[Cell]]:
    data = observed.reshape(-1)
    labels = [name] if len(data) == 1 else [f"{name}[{', '.join(map(str, at))}]" for at in np.ndindex(observed.shape)]
    low, middle, high = np.nanquantile(drawn, [0.05, 0.5, 0.95], axis=0).tolist()
    found = []
    for i, x in enumerate(data.tolist()):
        below = float(np.mean(drawn[:, i] < x) + 0.5 * np.mean(drawn[:, i] == x))
        outside = not math.isnan(x) and not low[i] <= x <= high[i]
        found.append(
            [
                Cell(labels[i], code=True),
                Cell("not observed", math.nan) if math.isnan(x) else number_cell(x, ".5g"),
                *(number_cell(each, ".5g") for each in (low[i], middle[i], high[i])),
                number_cell(math.nan if math.isnan(x) else below, ".1%", "caution" if outside else "plain"),
            ]
        )
    return found


def _table(rows: list[list[Cell]]) -> Table:
    columns = [
        Column("Observation", numeric=False),
        Column("Data"),
        *(Column(title, help="Quantile of the posterior predictive draws") for title in ("5%", "50%", "95%")),
        Column("Draws below", help="Share of the posterior predictive draws below the data"),
    ]
    legend = f"The first {_ROWS} of {len(rows):,} numbers." if len(rows) > _ROWS else ""
    return Table("Data and posterior predictive draws", columns, rows[:_ROWS], legend)
