"""Pictures of Mini-SHERPA: an event's particles and its calorimeter, and the posterior of what was drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ars.columns import Floats
from ars.plots import OKABE_ITO
from ars_lab.reproduce.figures import new_figure
from ars_lab.reproduce.mini_sherpa import BINS, Channel, Event, posterior_samples

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["deposits", "event_figure", "particles", "posterior_figure"]

_PLANE: Final = 3.0  # z of the calorimeter
_COLOURS: Final = (OKABE_ITO["vermillion"], OKABE_ITO["blue"], OKABE_ITO["green"])


def _rotated(v: Floats, d: Floats) -> Floats:
    """d, given in a frame whose z axis is the direction of v, in the laboratory's."""
    theta, phi = math.acos(v[2] / float(np.linalg.norm(v))), math.atan2(v[1], v[0])
    about_y = np.array([[math.cos(theta), 0, math.sin(theta)], [0, 1, 0], [-math.sin(theta), 0, math.cos(theta)]])
    about_z = np.array([[math.cos(phi), -math.sin(phi), 0], [math.sin(phi), math.cos(phi), 0], [0, 0, 1]])
    return np.asarray(about_z @ about_y @ d, dtype=np.float64)


def particles(event: Event) -> list[Floats]:
    """The momenta of the particles that the mother decays into."""
    rest = np.asarray(event.momentum, dtype=np.float64)
    found = []
    for i, (theta, phi) in enumerate(zip(event.thetas, event.phis, strict=True)):
        size = float(np.linalg.norm(rest)) / (event.channel - i) / math.cos(theta)
        across = math.sin(theta) * math.cos(phi), math.sin(theta) * math.sin(phi)
        found.append(_rotated(rest, size * np.array([*across, math.cos(theta)])))
        rest = rest - found[-1]
    return [*found, rest]


def deposits(event: Event) -> Floats:
    """The mean number of deposits in each of the 20 x 20 bins."""
    centres = np.arange(BINS) - BINS / 2 + 0.5
    energy = np.zeros((BINS, BINS))
    for v in particles(event):
        x, y = _PLANE * v[:2] / v[2]
        shape = np.outer(np.exp(-0.5 * (centres - x) ** 2), np.exp(-0.5 * (centres - y) ** 2))
        energy += float(np.linalg.norm(v)) * shape / (2 * math.pi)
    return energy / 0.3


# ---- the event --------------------------------------------------------------------------------------------------


def _draw_event(axes: Any, event: Event) -> None:
    """The mother comes from below; at the origin it decays; the particles fly up to the calorimeter."""
    mother = np.asarray(event.momentum)
    begin = -2.0 * mother / mother[2]
    axes.plot(*np.stack([begin, np.zeros(3)]).T, color=OKABE_ITO["black"], linewidth=2.0)
    for colour, v in zip(_COLOURS, particles(event), strict=False):
        hit = _PLANE * v / v[2]
        axes.plot(*np.stack([np.zeros(3), hit]).T, color=colour, linewidth=2.0)
        axes.scatter(*hit, color=colour, s=12)
    edges = np.linspace(-BINS / 2, BINS / 2, BINS + 1)
    x, y = np.meshgrid(edges, edges, indexing="ij")
    counts = deposits(event)
    from matplotlib import colormaps

    shades = colormaps["cividis"](counts / max(float(counts.max()), 1e-12))
    shades[..., 3] = 0.55
    axes.plot_surface(x, y, np.full_like(x, _PLANE), facecolors=shades, rstride=1, cstride=1, shade=False)
    axes.set_zlim(-2.0, _PLANE)
    axes.set_xlabel("x", labelpad=-8)
    axes.set_ylabel("y", labelpad=-8)
    axes.tick_params(labelsize=6, pad=-3)
    axes.view_init(elev=18, azim=-60)


def event_figure(events: Sequence[Event]) -> Figure:
    """Above, what happened; below, what was observed."""
    figure = new_figure(4.2 * len(events), 8.0)
    for column, event in enumerate(events):
        above: Any = figure.add_subplot(2, len(events), column + 1, projection="3d")
        _draw_event(above, event)
        above.set_title(f"channel {event.channel}")
        below = figure.add_subplot(2, len(events), len(events) + column + 1)
        half = BINS / 2
        image = below.imshow(
            event.calorimeter.reshape(BINS, BINS).T, origin="lower", extent=(-half, half, -half, half), cmap="cividis"
        )
        for colour, v in zip(_COLOURS, particles(event), strict=False):
            below.plot(*(_PLANE * v[:2] / v[2]), marker="+", color=colour, markersize=11, markeredgewidth=1.5)
        below.set_xlabel("x")
        below.set_ylabel("y")
        figure.colorbar(image, ax=below, shrink=0.8, label="deposits, with noise")
    return figure


# ---- the posterior ----------------------------------------------------------------------------------------------


def _histogram(axes: Axes, values: Floats, weights: Floats, true: float | None, low: float, high: float) -> None:
    there = np.isfinite(values)
    if there.any() and float(weights[there].sum()) > 0:
        edges = np.linspace(low, high, 41).tolist()
        axes.hist(values[there], edges, weights=weights[there], density=True, color=OKABE_ITO["sky blue"])
    if true is not None:
        axes.axvline(true, color=OKABE_ITO["vermillion"], linewidth=1.6, linestyle="--")
    axes.set_xlim(low, high)
    axes.set_yticks([])


def posterior_figure(channels: Sequence[Channel]) -> Figure:
    """A row per observation: channel, momentum and angles; dashed lines show the values that produced it."""
    figure = new_figure(17.0, 2.6 * len(channels) + 0.4)
    rows = figure.subplots(len(channels), 8, squeeze=False)
    quarter = math.pi / 4
    for axes, channel in zip(rows, channels, strict=True):
        event, drawn = channel.event, posterior_samples(channel)
        weights: Floats = drawn["weights"]
        shares = [float(weights[drawn["channel"][:, 0] == k].sum()) for k in range(3)]
        axes[0].bar([1, 2, 3], shares, color=OKABE_ITO["sky blue"])
        axes[0].axvline(event.channel, color=OKABE_ITO["vermillion"], linewidth=1.6, linestyle="--")
        axes[0].set_xticks([1, 2, 3])
        axes[0].set_ylim(0, 1.05)
        axes[0].set_ylabel(f"observation {event.channel}")
        for i, (name, low, high) in enumerate((("p_x", -0.5, 0.5), ("p_y", -0.5, 0.5), ("p_z", 10.0, 20.0))):
            _histogram(axes[1 + i], drawn["momentum"][:, i], weights, float(event.momentum[i]), low, high)
            axes[1 + i].set_xlabel(name)
        axes[0].set_xlabel("channel")
        same = drawn["channel"][:, 0] == event.channel - 1
        for i in range(2):
            for name, at, low, high in (("thetas", 4 + i, -quarter, quarter), ("phis", 6 + i, 0.0, 2 * math.pi)):
                if i >= event.channel - 1:
                    axes[at].set_axis_off()
                    continue
                values = drawn[name][:, i] if drawn[name].shape[1] > i else np.full(len(weights), np.nan)
                true = float(getattr(event, name)[i])
                _histogram(axes[at], np.where(same, values, np.nan), weights, true, low, high)
                axes[at].set_xlabel(f"{name[:-1]} {i + 1}")
    return figure
