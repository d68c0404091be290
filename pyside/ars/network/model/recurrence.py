"""An LSTM over whole sequences from the zero state, for training: on CPUs with a kernel of our own.

The same function of the same weights as ``torch.nn.LSTM``, with less work: the first step has no recurrent product,
every weight's gradient is one product over all steps, what is not a product is one pass of C (bridge/python/cell.c),
and a trace that has ended costs nothing. Traces are short, so the first step counts.

What the input adds to the first layer's gates is given, not computed here: much of it is the same in many rows
(inputs.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear

from ars import _kernels as kernels

__all__ = ["run_lstm", "run_lstm_on_trees"]


# Of an input with the weight that is given, and the bias: [N, 4 H], a new tensor that nothing else keeps.
Product = Callable[[Tensor, Tensor], Tensor]
_Step = tuple[slice, slice | Tensor | None]  # its rows, and those that they go on from


def _steps(levels: Sequence[int], previous: Tensor | None) -> Iterator[_Step]:
    """Rows go on from the first ones of the step before, or from those that are named."""
    low, before = 0, None
    for size in levels:
        rows = slice(low, low + size)
        if before is None:
            yield rows, None
        else:
            yield rows, slice(before, before + size) if previous is None else previous[rows]
        low, before = low + size, low


def _cells_before(cells: npt.NDArray[np.float32], before: slice | Tensor | None) -> kernels.Before | None:
    if before is None:
        return None
    return kernels.Before(cells[before], None) if isinstance(before, slice) else kernels.Before(cells, before.numpy())


class _Layer(torch.autograd.Function):
    """From what the input adds to the gates [N, 4 H], which is overwritten, to h [N, H], step after step: ``levels[t]``
    rows of the t-th step. Gates are in torch's order: input, forget, cell, output. float32 on the CPU."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, w_hh: Tensor, levels: tuple[int, ...], previous: Tensor | None) -> Tensor:
        gates = inputs.detach()
        torch.autograd.graph.increment_version(inputs)  # of what C writes torch knows nothing
        cells = gates.new_empty((len(gates), w_hh.shape[1]))
        tanh_cells, hidden = torch.empty_like(cells), torch.empty_like(cells)
        g, c, t, h = (tensor.numpy() for tensor in (gates, cells, tanh_cells, hidden))
        for rows, before in _steps(levels, previous):
            if before is not None:
                gates[rows].addmm_(hidden[before], w_hh.t())
            kernels.lstm_forward(g[rows], _cells_before(c, before), c[rows], t[rows], h[rows])
        ctx.save_for_backward(w_hh, gates, cells, tanh_cells, hidden, previous)
        ctx.levels = levels
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        w_hh, gates, cells, tanh_cells, hidden, previous = ctx.saved_tensors
        d_hidden = gradients[0].clone(memory_format=torch.contiguous_format)
        d_cells, d_gates = torch.zeros_like(cells), torch.empty_like(gates)
        g, c, t = gates.numpy(), cells.numpy(), tanh_cells.numpy()
        d_h, d_c, d_g = d_hidden.numpy(), d_cells.numpy(), d_gates.numpy()
        for rows, before in reversed(list(_steps(ctx.levels, previous))):
            d_before = d_c[before] if isinstance(before, slice) else d_c
            kernels.lstm_backward(g[rows], _cells_before(c, before), t[rows], d_h[rows], d_c[rows], d_g[rows], d_before)
            if isinstance(before, slice):
                d_hidden[before].addmm_(d_gates[rows], w_hh)
            elif before is not None:
                d_hidden.index_add_(0, before, d_gates[rows] @ w_hh)
        return d_gates, _recurrent_gradient(d_gates, hidden, ctx.levels, previous), None, None


def _recurrent_gradient(d_gates: Tensor, hidden: Tensor, levels: tuple[int, ...], previous: Tensor | None) -> Tensor:
    """Of w_hh: one product over all rows that have one before them."""
    first, last = levels[0], levels[-1]
    if previous is not None:
        earlier = hidden[previous[first:]]
    elif first == last:
        earlier = hidden[: len(hidden) - last]
    else:
        earlier = torch.cat([hidden[before] for _, before in _steps(levels, None) if before is not None])
    return d_gates[first:].t() @ earlier


def _layer_of_torch(inputs: Tensor, w_hh: Tensor, levels: tuple[int, ...], previous: Tensor | None) -> Tensor:
    """The same as ``_Layer``, on any device: torch keeps what its derivative needs."""
    hidden: list[Tensor] = []
    h = c = inputs.new_zeros((0, w_hh.shape[1]))
    low = 0  # the first row of the step before
    for rows, before in _steps(levels, previous):
        gates = inputs[rows]
        if before is not None:
            there = slice(0, rows.stop - rows.start) if isinstance(before, slice) else before - low
            gates = torch.addmm(gates, h[there], w_hh.t())
            c = c[there]
        i, f, g, o = gates.chunk(4, dim=-1)
        new = torch.sigmoid(i) * torch.tanh(g)
        c = new if before is None else torch.sigmoid(f) * c + new
        h = torch.sigmoid(o) * torch.tanh(c)
        hidden.append(h)
        low = rows.start
    return torch.cat(hidden)


def run_lstm(lstm: nn.LSTM, first: Product, levels: Sequence[int]) -> Tensor:
    """The output [N, H] for rows of sequences that end one after the other: step t has ``levels[t]`` rows, no more than
    the one before, and its rows go on from the first ones of that. ``first`` is the product of the input with the first
    layer's weight. For an LSTM of one direction, without projections or dropout."""
    return _layers(lstm, first, tuple(levels), None)


def run_lstm_on_trees(lstm: nn.LSTM, first: Product, levels: Sequence[int], previous: Tensor) -> Tensor:
    """The same for rows of a TreeBatch, each from the state of the row before it."""
    return _layers(lstm, first, tuple(levels), previous)


def _layers(lstm: nn.LSTM, first: Product, levels: tuple[int, ...], previous: Tensor | None) -> Tensor:
    product = first
    for w_ih, w_hh, b_ih, b_hh in lstm.all_weights:
        gates = product(w_ih, b_ih + b_hh)
        apply: Any = _Layer.apply if gates.device.type == "cpu" else _layer_of_torch
        out: Tensor = apply(gates, w_hh, levels, previous)
        product = functools.partial(linear, out)
    return out
