"""A step of an LSTM's cells (bridge/python/cell.c) against the formulas, in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ars import _kernels as kernels


def a_step(rng: np.random.Generator, n: int, width: int, states: int, kept: int) -> dict[str, Any]:
    def floats(*shape: int) -> np.ndarray:
        return rng.normal(0.0, 3.0, shape).astype(np.float32)

    slots = rng.permutation(states)  # those that are written to are nobody's state
    return {
        "tables": kernels.StepTables(
            floats(n, 4 * width),
            floats(5, 4 * width),
            rng.integers(0, 5, n),
            floats(3, 4 * width),
            rng.integers(0, 3, n),
        ),
        "h": floats(states, width),
        "c": floats(states, width),
        "state_row": rng.choice(slots[kept:], n),
        "kept_row": slots[:kept],
        "out": np.full((n, width + 2), -7.0, np.float32),
    }


@pytest.mark.parametrize("width", [1, 7, 8, 16, 19, 512])
@pytest.mark.parametrize("one_added", [False, True])
def test_lstm_cells_are_what_the_formulas_say(width: int, one_added: bool) -> None:
    step = a_step(np.random.default_rng(width), 6, width, 11, 4)
    tables = step["tables"] = step["tables"]._replace(**({"added_row": None} if one_added else {}))
    before = {name: step[name].copy() for name in ("h", "c")}
    kernels.lstm_cells(**step)
    added = tables.added[np.zeros(6, int) if one_added else tables.added_row]
    gates = tables.product.astype(np.float64) + tables.recurrent[tables.recurrent_row] + added
    i, f, g, o = np.split(gates, 4, axis=1)
    c = before["c"][step["state_row"]] / (1 + np.exp(-f)) + np.tanh(g / 2) / (1 + np.exp(-i))
    h = np.tanh(c) / (1 + np.exp(-o))
    np.testing.assert_allclose(step["out"][:, :width], h, rtol=2e-6, atol=1e-6)
    assert (step["out"][:, width:] == -7.0).all()
    kept = step["kept_row"]
    np.testing.assert_allclose(step["c"][kept], c[:4], rtol=2e-6, atol=1e-6)
    np.testing.assert_array_equal(step["h"][kept], step["out"][:4, :width])
    others = np.setdiff1d(np.arange(11), kept)
    for name, was in before.items():
        np.testing.assert_array_equal(step[name][others], was[others])


def test_lstm_cells_of_extreme_gates() -> None:
    """Far out a gate is open or shut; a NaN is not lost."""
    width = 9
    step = a_step(np.random.default_rng(1), 3, width, 4, 3)
    zero = np.zeros((1, 4 * width), np.float32)
    product = np.repeat(np.array([[1e30], [-1e30], [np.nan]], np.float32), 4 * width, axis=1)
    step["tables"] = kernels.StepTables(product, zero, np.zeros(3, np.int64), zero, None)
    step["c"][:] = 0.5
    kernels.lstm_cells(**step)
    np.testing.assert_allclose(step["out"][0, :width], np.tanh(1.5), rtol=1e-6)
    np.testing.assert_allclose(step["out"][1, :width], 0.0, atol=1e-30)
    assert np.isnan(step["out"][2, :width]).all()


def test_a_row_of_lstm_cells_does_not_depend_on_the_others() -> None:
    whole = a_step(np.random.default_rng(2), 40, 21, 50, 0)
    alone = {**whole, "out": whole["out"][:1].copy(), "state_row": whole["state_row"][5:6]}
    t = whole["tables"]
    alone["tables"] = kernels.StepTables(t.product[5:6], t.recurrent, t.recurrent_row[5:6], t.added, t.added_row[5:6])
    kernels.lstm_cells(**whole)
    kernels.lstm_cells(**alone)
    assert whole["out"][5].tobytes() == alone["out"][0].tobytes()


def test_lstm_cells_refuse_what_does_not_fit() -> None:
    def refused(error: type[Exception], match: str, **changed: Any) -> None:
        step = a_step(np.random.default_rng(3), 6, 8, 11, 4)
        tables = {name: changed.pop(name) for name in list(changed) if name in kernels.StepTables._fields}
        before = {name: step[name].copy() for name in ("h", "c", "out")}
        with pytest.raises(error, match=match):
            kernels.lstm_cells(**{**step, "tables": step["tables"]._replace(**tables), **changed})
        for name, was in before.items():
            np.testing.assert_array_equal(step[name], was)

    rows = np.array([0, 1, 2, 0, 1, 2])
    for name, size in (("recurrent_row", 5), ("added_row", 3), ("state_row", 11)):
        for wrong in (-1, size):
            refused(ValueError, "not in its table", **{name: np.where(rows == 2, wrong, rows)})
    refused(ValueError, "not in its table", kept_row=np.array([11]))
    refused(ValueError, "not in its table", kept_row=np.arange(7))
    refused(ValueError, "do not fit", product=np.zeros((6, 31), np.float32))
    refused(ValueError, "do not fit", recurrent_row=rows[:5])
    refused(ValueError, "do not fit", h=np.zeros((10, 8), np.float32))
    refused(TypeError, "float64", c=np.zeros((11, 8)))
    refused(ValueError, "(?i)contiguous", c=np.zeros((11, 16), np.float32)[:, ::2])
    refused(ValueError, "not in its table", out=np.zeros((6, 7), np.float32))


# ---- training --------------------------------------------------------------------------------------------------------


def test_training_steps_refuse_what_does_not_fit() -> None:
    def floats(*shape: int) -> np.ndarray:
        return np.ones(shape, np.float32)

    gates, own, before = floats(3, 20), floats(3, 5), kernels.Before(floats(4, 5), None)
    made = [floats(3, 5) for _ in range(3)]
    kernels.lstm_forward(gates, before, *made)
    for row in (-1, 4):
        with pytest.raises(ValueError, match="not in its table"):
            kernels.lstm_forward(gates, before._replace(row=np.array([0, 1, row])), *made)
        with pytest.raises(ValueError, match="not in its table"):
            kernels.lstm_backward(
                gates, before._replace(row=np.array([row, 1, 2])), own, own, own, floats(3, 20), floats(4, 5)
            )
    with pytest.raises(ValueError, match="not in its table"):
        kernels.lstm_forward(gates, kernels.Before(floats(2, 5), None), *made)
    with pytest.raises(ValueError, match="rows before for 3 rows"):
        kernels.lstm_forward(gates, before._replace(row=np.array([0, 1])), *made)
    with pytest.raises(ValueError, match=r"\(3, 19\).*\(3, 20\)"):
        kernels.lstm_forward(floats(3, 19), before, *made)
    with pytest.raises(ValueError, match=r"\(2, 5\).*\(3, 5\)"):
        kernels.lstm_forward(gates, before, floats(2, 5), *made[1:])
    with pytest.raises(ValueError, match=r"\(3, 5\).*\(4, 5\)"):
        kernels.lstm_backward(gates, before, own, own, own, floats(3, 20), floats(3, 5))
    with pytest.raises(ValueError, match="no room for their derivatives"):
        kernels.lstm_backward(gates, before, own, own, own, floats(3, 20), None)
    with pytest.raises(TypeError, match="float64"):
        kernels.lstm_forward(gates.astype(np.float64), before, *made)
