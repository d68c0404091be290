"""The network's input in parts: the same numbers, and the same derivatives, as the whole."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
from ars.network.model.inputs import Inputs, distinct  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def test_equal_rows_are_found_by_all_their_columns() -> None:
    site = torch.tensor([0, 1, 0, 0, 1, 0])
    instance = torch.tensor([0, 0, 0, 1, 0, 0])
    prior = torch.tensor([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 2.0]]).double()
    shares = torch.tensor([[0.5], [0.5], [0.5], [0.5], [0.5], [0.5]])
    which, kind = distinct(site, instance, prior, shares)
    assert len(which) == 4
    for row, of in enumerate(which[kind].tolist()):
        assert (site[row], instance[row]) == (site[of], instance[of])
        assert torch.equal(prior[row], prior[of])
    assert kind[0] == kind[2] != kind[3] and kind[1] == kind[4] and kind[5] not in kind[:5]
    shares[4] = 0.25
    assert len(distinct(site, instance, prior, shares)[0]) == 5


def parts(begin: int, after: int, questions: int) -> list[torch.Tensor]:
    """Observations, questions, the start, values; a weight and a bias."""
    shapes = [(begin + after, 3), (questions, 4), (1, 5), (after, 5), (7, 12), (7,)]
    return [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize(("begin", "after", "questions"), [(3, 5, 2), (4, 0, 1), (2, 6, 8), (1, 1, 2)])
def test_the_product_of_the_parts_is_that_of_the_whole(begin: int, after: int, questions: int) -> None:
    torch.manual_seed(begin)
    observation, asked, start, values, weight, bias = parts(begin, after, questions)
    inputs = Inputs(observation, asked, torch.randint(questions, (begin + after,)), start, values)
    whole = inputs.whole()
    assert whole.shape == (begin + after, 12)
    assert torch.equal(whole[begin:, 7:], values)
    wanted = torch.nn.functional.linear(whole, weight, bias)
    found = inputs.product(weight, bias)
    torch.testing.assert_close(found, wanted, rtol=1e-13, atol=1e-13)
    upstream = torch.randn_like(wanted)
    leaves = [observation, asked, start, *([values] if after else []), weight, bias]
    for ours, theirs in zip(
        torch.autograd.grad((found * upstream).sum(), leaves),
        torch.autograd.grad((wanted * upstream).sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
