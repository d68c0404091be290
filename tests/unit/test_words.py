"""What ranks tell each other arrives as it was, and is data only."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from ars._native import DistKind  # noqa: E402
from ars.network.model.vocabulary import SiteSpec  # noqa: E402
from ars.network.train.words import decode, encode  # noqa: E402


@pytest.mark.parametrize(
    "thing",
    [
        None,
        True,
        2**70,
        0.1,
        -math.inf,
        "é",
        b"\0\xff",
        [],
        (1, [2.5, None], {"a": (1,), 3: "b"}),
        SiteSpec("outer/x", DistKind.CATEGORICAL, 3),
        (None, "rank 1: no", False),
    ],
)
def test_it_arrives_as_it_was(thing: Any) -> None:
    arrived = decode(encode(thing))
    assert arrived == thing and type(arrived) is type(thing)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
def test_tensors_keep_their_bits(dtype: torch.dtype) -> None:
    given = torch.tensor([[0, 1], [3, 4]]).to(dtype)
    arrived = decode(encode({"y": given}))["y"]
    assert arrived.dtype == dtype and torch.equal(arrived, given)
    empty = decode(encode(torch.empty((0, 3), dtype=dtype)))
    assert empty.shape == (0, 3)


def test_nothing_else_is_told() -> None:
    with pytest.raises(TypeError, match="cannot tell each other a set"):
        encode([{1, 2}])
    with pytest.raises(KeyError):
        decode(b'{"os.system": ["true"]}')
