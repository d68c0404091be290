"""An LSTM over whole sequences from the zero state, for training on CPUs.

The same function of the same weights as ``torch.nn.LSTM``, with less work: the first step has no recurrent product,
every weight's gradient is one product over all steps, and a trace that has ended costs nothing. Traces are short, so
the first step counts.

What the input adds to the first layer's gates is given, not computed here: much of it is the same in many rows
(inputs.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

__all__ = ["run_lstm", "run_lstm_on_trees"]


# Of an input with the weight that is given, and the bias: [N, 4 H], a new tensor that nothing else keeps.
Product = Callable[[Tensor, Tensor], Tensor]
_Steps = Sequence[tuple[slice, slice | Tensor | None]]  # the rows of every step, and those that they go on from


def _run(gates: Tensor, w_hh: Tensor, steps: _Steps) -> tuple[Tensor, Tensor, Tensor]:
    """Cells, their tanh, and outputs, of all rows. Gates are in torch's order: input, forget, cell, output. They hold
    what the input adds to them, and get their values here.

    tanh(x) is 2 sigmoid(2x) - 1, which torch computes in half the time.
    """
    width = w_hh.shape[1]
    cells = gates.new_empty((len(gates), width))
    squashed = torch.empty_like(cells)
    hidden = torch.empty_like(cells)
    for rows, before in steps:
        gate = gates[rows]
        if before is not None:
            gate.addmm_(hidden[before], w_hh.t())
        i, f, g, o = gate.chunk(4, dim=-1)
        g.mul_(2)
        gate.sigmoid_()
        g.mul_(2).sub_(1)
        torch.mul(i, g, out=cells[rows])
        if before is not None:
            cells[rows].addcmul_(f, cells[before])
        torch.mul(cells[rows], 2, out=squashed[rows]).sigmoid_().mul_(2).sub_(1)
        torch.mul(o, squashed[rows], out=hidden[rows])
    return cells, squashed, hidden


def _steps(levels: Sequence[int]) -> list[tuple[slice, slice | None]]:
    """The rows of every step, and the rows that they go on from: the first ones of the step before."""
    steps: list[tuple[slice, slice | None]] = []
    low, before = 0, None
    for size in levels:
        steps.append((slice(low, low + size), None if before is None else slice(before, before + size)))
        low, before = low + size, low
    return steps


def _tree_steps(levels: Sequence[int], previous: Tensor) -> _Steps:
    """The same for the levels of a tree, whose rows go on from any of the level above."""
    return [(rows, None if before is None else previous[rows]) for rows, before in _steps(levels)]


class _Layer(torch.autograd.Function):
    """From what the input adds to the gates [N, 4 H], which is overwritten, to h [N, H], step after step: ``levels[t]``
    rows of the t-th step, each of which goes on from the row of the same place one step before."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, w_hh: Tensor, levels: tuple[int, ...]) -> Tensor:
        gates = inputs.detach()
        cells, squashed, hidden = _run(gates, w_hh, _steps(levels))
        ctx.save_for_backward(w_hh, gates, cells, squashed, hidden)
        ctx.levels = levels
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        w_hh, gates, cells, squashed, hidden = ctx.saved_tensors
        (d_out,) = gradients
        d_gates = torch.empty_like(gates)
        d_later: Tensor | None = None  # of the rows that the step above has, which may be fewer
        d_cell_later: Tensor | None = None
        for rows, before in reversed(_steps(ctx.levels)):
            i, f, g, o = gates[rows].chunk(4, dim=-1)
            d_i, d_f, d_g, d_o = d_gates[rows].chunk(4, dim=-1)
            d_hidden = d_out[rows]
            if d_later is not None:
                d_hidden = d_hidden.clone()
                d_hidden[: len(d_later)] += d_later
            through = d_hidden * o
            d_cell = torch.addcmul(through, through * squashed[rows], squashed[rows], value=-1)
            if d_cell_later is not None:
                d_cell[: len(d_cell_later)] += d_cell_later
            # d sigmoid = s (1 - s), d tanh = 1 - s^2, each written as s - s s or 1 - s s
            torch.mul(d_cell * g, i - i * i, out=d_i)
            torch.mul(d_cell * i, 1 - g * g, out=d_g)
            torch.mul(d_hidden * squashed[rows], o - o * o, out=d_o)
            if before is not None:
                torch.mul(d_cell * cells[before], f - f * f, out=d_f)
                d_later = d_gates[rows] @ w_hh
                d_cell_later = d_cell * f
            else:
                d_f.zero_()
        return d_gates, _recurrent_gradient(d_gates, hidden, ctx.levels), None


def _recurrent_gradient(d_gates: Tensor, hidden: Tensor, levels: tuple[int, ...]) -> Tensor:
    """Of w_hh: one product over all rows that have one before them."""
    first, last = levels[0], levels[-1]
    if first == last:
        earlier = hidden[: len(hidden) - last]
    else:
        earlier = torch.cat([hidden[before] for _, before in _steps(levels) if before is not None])
    return d_gates[first:].t() @ earlier


class _TreeLayer(torch.autograd.Function):
    """The same, where a row goes on from the state of the row that it comes after, one level above."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, w_hh: Tensor, levels: tuple[int, ...], previous: Tensor) -> Tensor:
        gates = inputs.detach()
        cells, squashed, hidden = _run(gates, w_hh, _tree_steps(levels, previous))
        ctx.save_for_backward(w_hh, gates, cells, squashed, hidden, previous)
        ctx.levels = levels
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        w_hh, gates, cells, squashed, hidden, previous = ctx.saved_tensors
        d_hidden = gradients[0].clone()
        d_cells = torch.zeros_like(d_hidden)
        d_gates = torch.empty_like(gates)
        high = len(gates)
        for t in range(len(ctx.levels) - 1, -1, -1):
            rows = slice(high - ctx.levels[t], high)
            i, f, g, o = gates[rows].chunk(4, dim=-1)
            d_i, d_f, d_g, d_o = d_gates[rows].chunk(4, dim=-1)
            through = d_hidden[rows] * o
            d_cell = d_cells[rows] + torch.addcmul(through, through * squashed[rows], squashed[rows], value=-1)
            torch.mul(d_cell * g, i - i * i, out=d_i)
            torch.mul(d_cell * i, 1 - g * g, out=d_g)
            torch.mul(d_hidden[rows] * squashed[rows], o - o * o, out=d_o)
            if t:
                before = previous[rows]
                torch.mul(d_cell * cells[before], f - f * f, out=d_f)
                d_hidden.index_add_(0, before, d_gates[rows] @ w_hh)
                d_cells.index_add_(0, before, d_cell * f)
            else:
                d_f.zero_()
            high -= ctx.levels[t]
        first = ctx.levels[0] if ctx.levels else 0
        return d_gates, d_gates[first:].t() @ hidden[previous[first:]], None, None


def run_lstm(lstm: nn.LSTM, first: Product, levels: Sequence[int]) -> Tensor:
    """The output [N, H] for rows of sequences that end one after the other: step t has ``levels[t]`` rows, no more than
    the one before, and its rows go on from the first ones of that. ``first`` is the product of the input with the first
    layer's weight. For an LSTM of one direction, without projections or dropout."""
    return _layers(lstm, first, _Layer, tuple(levels))


def run_lstm_on_trees(lstm: nn.LSTM, first: Product, levels: Sequence[int], previous: Tensor) -> Tensor:
    """The same for rows of a TreeBatch, each from the state of the row before it."""
    return _layers(lstm, first, _TreeLayer, tuple(levels), previous)


def _layers(lstm: nn.LSTM, first: Product, layer: type[torch.autograd.Function], *order: Any) -> Tensor:
    product = first
    for w_ih, w_hh, b_ih, b_hh in lstm.all_weights:
        out: Tensor = layer.apply(product(w_ih, b_ih + b_hh), w_hh, *order)
        product = functools.partial(linear, out)
    return out
