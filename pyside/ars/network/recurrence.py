"""An LSTM over whole sequences from the zero state, for training on CPUs.

The same function of the same weights as ``torch.nn.LSTM``, with less work: the first step has no recurrent product, and
every weight's gradient is one product over all steps. Traces are short, so the first step counts: with two steps of 512
traces and 512 units, forwards and backwards, this takes 82 ms of a core and torch's own takes 150; with ten, as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

__all__ = ["run_lstm", "run_lstm_on_trees"]


class _Layer(torch.autograd.Function):
    """x [T, B, I] -> h [T, B, H]. Gates are in torch's order: input, forget, cell, output."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w_ih: Tensor, w_hh: Tensor, bias: Tensor) -> Tensor:
        steps, rows, _ = x.shape
        width = w_hh.shape[1]
        gates = torch.addmm(bias, x.reshape(steps * rows, -1), w_ih.t()).reshape(steps, rows, 4 * width)
        cells = gates.new_empty((steps, rows, width))
        squashed = torch.empty_like(cells)
        hidden = torch.empty_like(cells)
        for t in range(steps):
            gate = gates[t]
            if t:
                gate.addmm_(hidden[t - 1], w_hh.t())
            gate[:, : 2 * width].sigmoid_()
            gate[:, 2 * width : 3 * width].tanh_()
            gate[:, 3 * width :].sigmoid_()
            i, f, g, o = gate.chunk(4, dim=-1)
            torch.mul(i, g, out=cells[t])
            if t:
                cells[t].addcmul_(f, cells[t - 1])
            torch.tanh(cells[t], out=squashed[t])
            torch.mul(o, squashed[t], out=hidden[t])
        ctx.save_for_backward(x, w_ih, w_hh, gates, cells, squashed, hidden)
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, Tensor, Tensor]:
        x, w_ih, w_hh, gates, cells, squashed, hidden = ctx.saved_tensors
        (d_out,) = gradients
        steps, rows, width = hidden.shape
        d_gates = torch.empty_like(gates)
        d_hidden = d_out[steps - 1]
        d_cell: Tensor | None = None
        for t in range(steps - 1, -1, -1):
            i, f, g, o = gates[t].chunk(4, dim=-1)
            d_i, d_f, d_g, d_o = d_gates[t].chunk(4, dim=-1)
            through = d_hidden * o
            through = torch.addcmul(through, through * squashed[t], squashed[t], value=-1)
            d_cell = through if d_cell is None else through + d_cell
            # d sigmoid = s (1 - s), d tanh = 1 - s^2, each written as s - s s or 1 - s s
            torch.mul(d_cell * g, i - i * i, out=d_i)
            torch.mul(d_cell * i, 1 - g * g, out=d_g)
            torch.mul(d_hidden * squashed[t], o - o * o, out=d_o)
            if t:
                torch.mul(d_cell * cells[t - 1], f - f * f, out=d_f)
                d_hidden = torch.addmm(d_out[t - 1], d_gates[t], w_hh)
                d_cell = d_cell * f
            else:
                d_f.zero_()
        flat = d_gates.reshape(steps * rows, -1)
        d_x = (flat @ w_ih).reshape(x.shape) if ctx.needs_input_grad[0] else None
        later = d_gates[1:].reshape(-1, 4 * width)
        d_w_hh = later.t() @ hidden[:-1].reshape(-1, width)
        return d_x, flat.t() @ x.reshape(steps * rows, -1), d_w_hh, flat.sum(dim=0)


class _TreeLayer(torch.autograd.Function):
    """x [N, I] -> h [N, H], where a row goes on from the state of the row that it comes after, one level above."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w_ih: Tensor, w_hh: Tensor, bias: Tensor, previous: Tensor, levels: tuple[int, ...]
    ) -> Tensor:
        width = w_hh.shape[1]
        gates = torch.addmm(bias, x, w_ih.t())
        cells = gates.new_empty((len(x), width))
        squashed = torch.empty_like(cells)
        hidden = torch.empty_like(cells)
        low = 0
        for t, size in enumerate(levels):
            rows = slice(low, low + size)
            gate, before = gates[rows], previous[rows]
            if t:
                gate.addmm_(hidden[before], w_hh.t())
            gate[:, : 2 * width].sigmoid_()
            gate[:, 2 * width : 3 * width].tanh_()
            gate[:, 3 * width :].sigmoid_()
            i, f, g, o = gate.chunk(4, dim=-1)
            torch.mul(i, g, out=cells[rows])
            if t:
                cells[rows].addcmul_(f, cells[before])
            torch.tanh(cells[rows], out=squashed[rows])
            torch.mul(o, squashed[rows], out=hidden[rows])
            low += size
        ctx.save_for_backward(x, w_ih, w_hh, gates, cells, squashed, hidden, previous)
        ctx.levels = levels
        return hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, Tensor, Tensor, None, None]:
        x, w_ih, w_hh, gates, cells, squashed, hidden, previous = ctx.saved_tensors
        d_hidden = gradients[0].clone()
        d_cells = torch.zeros_like(d_hidden)
        d_gates = torch.empty_like(gates)
        high = len(x)
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
        d_x = d_gates @ w_ih if ctx.needs_input_grad[0] else None
        first = ctx.levels[0] if ctx.levels else 0
        d_w_hh = d_gates[first:].t() @ hidden[previous[first:]]
        return d_x, d_gates.t() @ x, d_w_hh, d_gates.sum(dim=0), None, None


def run_lstm(lstm: nn.LSTM, x: Tensor) -> Tensor:
    """What ``lstm(x)[0]`` is, for x [T, B, I] and an LSTM of one direction, without projections or dropout."""
    for layer in range(lstm.num_layers):
        w_ih, w_hh, b_ih, b_hh = (
            getattr(lstm, f"{name}_l{layer}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        x = _Layer.apply(x, w_ih, w_hh, b_ih + b_hh)  # type: ignore[no-untyped-call]
    return x


def run_lstm_on_trees(lstm: nn.LSTM, x: Tensor, previous: Tensor, levels: Sequence[int]) -> Tensor:
    """The output [N, H] for rows x [N, I] of a TreeBatch, each from the state of the row before it."""
    for layer in range(lstm.num_layers):
        w_ih, w_hh, b_ih, b_hh = (
            getattr(lstm, f"{name}_l{layer}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        x = _TreeLayer.apply(x, w_ih, w_hh, b_ih + b_hh, previous, tuple(levels))  # type: ignore[no-untyped-call]
    return x
