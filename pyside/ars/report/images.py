"""Data in rows and columns, as pictures: PNG, written here, because no more than one byte per pixel is needed."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from ars.columns import Floats
from ars.report.page import Chart, minus

__all__ = ["images", "is_image", "picture"]

_LEAST: Final = 4  # rows and columns of an image; fewer are a table
_MOST: Final = 1024
_FAR: Final = 3.0  # standard deviations at which the colours of differences end
# Dark to light, so that grey paper shows them too: from blue to yellow; and blue, white, orange for differences.
_LIGHT: Final = ((13, 8, 60), (20, 70, 130), (30, 140, 140), (120, 200, 110), (250, 235, 90))
_SIGNED: Final = ((0, 70, 140), (110, 170, 215), (245, 245, 245), (240, 175, 90), (170, 80, 0))
_UNKNOWN: Final = (150, 150, 150)


def is_image(shape: Sequence[int]) -> bool:
    """Whether data of this shape are shown as an image."""
    return len(shape) == 2 and all(_LEAST <= size <= _MOST for size in shape)


def images(name: str, data: Floats, drawn: npt.NDArray[np.float64]) -> list[Chart]:
    """The data, the mean of the draws, and the difference in standard deviations of the draws.

    Parameters
    ----------
    name : str
        Name of the observation.
    data : array
        Rows and columns; NaN is not observed and grey.
    drawn : array
        Posterior predictive draws, along the first axis.

    Returns
    -------
    list of Chart
    """
    mean, spread = drawn.mean(axis=0), drawn.std(axis=0)
    both = np.r_[data[np.isfinite(data)], mean[np.isfinite(mean)]]
    low, high = (float(both.min()), float(both.max())) if len(both) else (0.0, 1.0)
    scale = minus(f"Dark is {low:.3g}, light is {high:.3g}; data that are not known are grey.")
    with np.errstate(divide="ignore", invalid="ignore"):
        away = (data - mean) / spread
    far = float(np.mean(np.abs(away[np.isfinite(away)]) > _FAR)) if np.isfinite(away).any() else 0.0
    legend = (
        f"In standard deviations of the draws: blue is {minus(f'{-_FAR:g}')} or less, white 0, orange {_FAR:g} or "
        f"more. {far:.1%} of the cells lie beyond."
    )
    return [
        Chart(f"`{name}`: data", image=picture(data, low, high), caption=scale),
        Chart(f"`{name}`: mean of the draws", image=picture(mean, low, high), caption="The same colours."),
        Chart(f"`{name}`: data minus mean", image=picture(away, -_FAR, _FAR, signed=True), caption=legend),
    ]


def picture(values: npt.NDArray[np.float64], low: float, high: float, *, signed: bool = False) -> str:
    """A ``data:`` address of a PNG, with a pixel per number.

    Parameters
    ----------
    values : array
        Rows and columns.
    low, high : float
        Numbers that have the first and the last colour; those beyond have the same.
    signed : bool
        Whether the middle of the colours is neutral (default: they go from dark to light).

    Returns
    -------
    str
    """
    share = np.clip((values - low) / ((high - low) or 1.0), 0.0, 1.0)
    index = np.where(np.isnan(share), 0, 1 + np.round(254 * np.nan_to_num(share))).astype(np.uint8)
    stops = np.array(_SIGNED if signed else _LIGHT, np.float64)
    at = np.linspace(0.0, len(stops) - 1.0, 255)
    colours = np.stack([np.interp(at, np.arange(len(stops)), stops[:, i]) for i in range(3)], axis=1)
    palette = np.concatenate([[_UNKNOWN], colours]).round().astype(np.uint8)
    rows, columns = index.shape
    lines = b"".join(b"\0" + row.tobytes() for row in index)
    parts = [(b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)), (b"PLTE", palette.tobytes())]
    parts += [(b"IDAT", zlib.compress(lines, 9)), (b"IEND", b"")]
    png = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in parts
    )
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"
