"""Batches with rejected tries: every draw after those that it really came after, and the loss of a slow reference."""

from __future__ import annotations

import copy
import math
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
from column_builder import Sample, Trace, Try, loop_site, observation, pack

from ars._native import DistKind, SiteKind
from ars.columns import Columns, Site, merge, offsets, select, sort_by_trace, take

torch = pytest.importorskip("torch")
linear = torch.nn.functional.linear
from ars.errors import BatchError  # noqa: E402
from ars.network import NetworkConfig, ProposalNetwork, TraceBatch, Vocabulary  # noqa: E402
from ars.network.model import recurrence  # noqa: E402
from ars.network.model import trace_batch as trace_batch_module  # noqa: E402
from ars.network.model.recurrence import run_lstm, run_lstm_on_trees  # noqa: E402
from ars.network.model.trace_batch import TreeBatch  # noqa: E402
from ars.network.train import batches as batches_module  # noqa: E402
from ars.network.train.batches import Batcher, split  # noqa: E402
from ars.network.train.trees import tree_of  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

SMALL = NetworkConfig(
    lstm_dim=12, lstm_depth=2, observe_dim=4, observe_hidden=8, site_dim=4, value_dim=4, head_hidden=8, components=3
)
SITES = (
    Site(0, SiteKind.SAMPLE, DistKind.NORMAL, "x"),
    Site(1, SiteKind.SAMPLE, DistKind.NORMAL, "outer/a"),
    Site(2, SiteKind.SAMPLE, DistKind.UNIFORM, "outer/inner/b"),
    Site(3, SiteKind.SAMPLE, DistKind.CATEGORICAL, "outer/inner/c"),
    observation(4, "y"),
    loop_site(5, "outer"),
    loop_site(6, "outer/inner"),
)


class Drawn(NamedTuple):
    """A draw, those before it, and for how many it stands."""

    before: tuple[Sample, ...]
    sample: Sample
    weight: float


def run(number: int, most: int = 1 << 30, first: bool = True) -> tuple[Trace, list[Drawn]]:
    """A simulator in Python: a loop in a loop, entered after x or at once, and x again at the end. The trace as libars
    would record it with max_rejected = ``most``, and every recorded draw with the draws before it."""
    rng = np.random.default_rng((number, 5))
    path: list[Sample] = []
    if first:
        path.append(Sample(0, rng.normal(), params=(0.0, 1.0)))
    tries: list[Try] = []
    drawn: list[Drawn] = []

    def draw(sample: Sample, here: list[Sample], weights: list[Drawn]) -> None:
        weights.append(Drawn(tuple(here), sample, 1.0))
        here.append(sample)

    main: list[Drawn] = [Drawn((), s, 1.0) for s in path]
    entry = len(path)
    outer_tries: list[tuple[list[Sample], list[Try], list[Drawn]]] = []  # own draws, inner tries, all drawn
    while True:
        here = list(path)
        mine: list[Drawn] = []
        draw(Sample(1, rng.normal(), params=(here[-1].value if here else 0.0, 1.0)), here, mine)
        inner_entry = list(here)
        rejected: list[list[Sample]] = []
        rejected_drawn: list[list[Drawn]] = []
        while True:
            body: list[Drawn] = []
            inside = list(inner_entry)
            draw(Sample(2, rng.uniform(-1, 1), params=(-1.0, 1.0), kind=DistKind.UNIFORM), inside, body)
            draw(Sample(3, float(rng.integers(3)), params=(0.2, 0.3, 0.5), kind=DistKind.CATEGORICAL), inside, body)
            if body[0].sample.value < 0.1 * body[1].sample.value:
                break
            rejected.append(inside[len(inner_entry) :])
            rejected_drawn.append(body)
        kept = min(len(rejected), most)
        scale = len(rejected) / kept if kept else 1.0
        inner = [Try(6, own, 0, -1, kept, len(rejected)) for own in rejected[:kept]]
        mine += [d._replace(weight=scale) for part in rejected_drawn[:kept] for d in part] + body
        outer_tries.append((inside[entry:], inner, mine))
        if inside[entry].value + inside[entry + 1].value > 0:
            path = inside
            break
    n = len(outer_tries) - 1
    kept = min(n, most)
    for own, inner, mine in outer_tries[:kept]:
        for one in inner:
            one.parent, one.prefix = len(tries) + len(inner), 1
        tries += [*inner, Try(5, own, entry, -1, kept, n)]
        drawn += [d._replace(weight=d.weight * n / kept) for d in mine]
    for one in outer_tries[n][1]:
        one.prefix = entry + 1
    tries += outer_tries[n][1]
    drawn += main + outer_tries[n][2]
    draw(Sample(0, rng.normal(), instance=1, params=(1.0, 2.0)), path, drawn)
    observes = [(4, [path[-1].value + rng.normal()])]
    return Trace(number, samples=path, observes=observes, tries=tries), drawn


def runs(n: int, most: int = 1 << 30) -> tuple[Columns, list[list[Drawn]]]:
    both = [run(i, most, first=i % 3 > 0) for i in range(n)]
    return pack([trace for trace, _ in both]), [drawn for _, drawn in both]


def network_for(batcher: Batcher) -> ProposalNetwork:
    network = ProposalNetwork(SMALL, batcher.vocabulary, {"y": (1,)}, seed=4)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in network.heads.named_parameters():
            if "last.weight" in name:  # so that proposals depend on the state
                parameter.add_(0.5 * torch.randn(parameter.shape, generator=generator))
    return network.eval()


def batch_of(columns: Columns) -> tuple[TreeBatch, Batcher]:
    batcher = Batcher(Vocabulary(), {"y": (1,)}, rejected=True)
    batch, changed = batcher(columns, SITES)
    assert isinstance(batch, TreeBatch) and changed
    return batch, batcher


def slow_log_q(network: ProposalNetwork, batcher: Batcher, drawn: Drawn, y: torch.Tensor) -> torch.Tensor:
    """One draw, from the zero state through all that came before it, one step after another."""
    index = {site.address: i for i, site in enumerate(batcher.vocabulary)}
    obs = network.observe({"y": y})
    state = network.initial_state(1)
    before = earlier = (torch.tensor([-1]), torch.zeros(1).double(), torch.zeros((1, 4)).double())
    for sample in (*drawn.before, drawn.sample):
        site = torch.tensor([index[SITES[sample.site].address]])
        prior, categories = torch.zeros((1, 4)).double(), torch.zeros((1, 3))
        if sample.kind is DistKind.CATEGORICAL:
            categories[0] = torch.tensor(sample.params)
        else:
            prior[0, : len(sample.params)] = torch.tensor(sample.params)
        value = torch.tensor([sample.value]).double()
        out, state = network.advance(
            network.inputs(obs, site, torch.tensor([sample.instance]), prior, categories, *before, earlier), state
        )
        before, earlier = (site, value, prior), before
    return network.log_prob(out, site, prior, categories, value)[0]


# ---- structure -------------------------------------------------------------------------------------------------------


def test_a_tree_written_by_hand() -> None:
    """x; outer rejected twice; in the first of these inner rejected once; in the accepted one inner rejected 4
    times, of which one is recorded."""
    s = [Sample(0, float(i), params=(0.0, 1.0)) for i in range(20)]
    trace = Trace(
        0,
        samples=[s[0], s[1], s[2]],
        tries=[
            Try(6, [s[3]], prefix=1, parent=1),
            Try(5, [s[4], s[5]], prefix=1, recorded=2, rejected=2),
            Try(5, [s[6], s[7]], prefix=1, recorded=2, rejected=2),
            Try(6, [s[8]], prefix=2, recorded=1, rejected=4),
        ],
    )
    tree = tree_of(pack([Trace(1, samples=[s[9]]), trace]))
    #                   the other; own    ; inner; outer  ; outer ; inner
    assert tree.trace.tolist() == [0] + [1] * 9
    assert tree.previous.tolist() == [-1, -1, 1, 2, 5, 1, 5, 1, 7, 2]
    assert tree.depth.tolist() == [0, 0, 1, 2, 2, 1, 2, 1, 2, 2]
    assert tree.weight.tolist() == [1, 1, 1, 1, 1, 1, 1, 1, 1, 4]


def test_tries_that_begin_a_trace_and_tries_at_the_start_of_tries() -> None:
    s = [Sample(0, float(i), params=(0.0, 1.0)) for i in range(20)]
    tries = [
        Try(6, [s[1]], prefix=0, parent=2, recorded=1, rejected=5),
        Try(6, [s[2]], prefix=0, parent=2),
        Try(5, [s[3]], prefix=0, parent=-1, recorded=1, rejected=3),
        Try(5, [], prefix=0, parent=-1),
    ]
    tree = tree_of(pack([Trace(0, samples=[s[0]], tries=tries)]))
    assert tree.previous.tolist() == [-1, -1, -1, -1]
    assert tree.depth.tolist() == [0, 0, 0, 0]
    assert tree.weight.tolist() == [1, 15, 3, 3]


@pytest.mark.parametrize("most", [1 << 30, 2])
def test_every_draw_comes_after_those_that_it_came_after(most: int) -> None:
    columns, drawn = runs(60, most)
    batch, _ = batch_of(columns)
    found: list[list[tuple[tuple[float, ...], float]]] = [[] for _ in drawn]
    for i in range(len(batch.site)):
        path, at = [], i
        while at >= 0:
            path.append(float(batch.value[at]))
            at = int(batch.previous[at])
        found[int(batch.trace[i])].append((tuple(path[::-1]), float(batch.weight[i])))
    for mine, theirs in zip(found, drawn, strict=True):
        expected = [(tuple(s.value for s in (*d.before, d.sample)), d.weight) for d in theirs]
        assert [path for path, _ in sorted(mine)] == [path for path, _ in sorted(expected)]
        assert [w for _, w in sorted(mine)] == pytest.approx([w for _, w in sorted(expected)])
    ends = np.cumsum(batch.levels)
    level = np.searchsorted(ends, np.arange(len(batch.site)), side="right")
    above = batch.previous.numpy()
    assert (level[above[above >= 0]] == level[above >= 0] - 1).all() and (level[above < 0] == 0).all()


def test_columns_keep_tries_with_their_traces() -> None:
    columns, _ = runs(30)
    where = offsets(columns)
    assert where.rejected[-1] == len(columns.rejected) > 0
    order = np.random.default_rng(1).permutation(30)
    mixed = take(columns, order)
    assert not np.array_equal(mixed.rejected, columns.rejected)
    for a, b in zip(sort_by_trace(mixed), columns, strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(merge(list(split(mixed, 7))), columns, strict=True):
        np.testing.assert_array_equal(a, b)
    for row, part in enumerate(split(columns, 1)):
        alone = select(columns, np.arange(30) == row)
        assert (
            alone.tries.tolist()
            == part.tries.tolist()
            == columns.tries[where.tries[row] : where.tries[row + 1]].tolist()
        )
        rejected = columns.rejected[where.rejected[row] : where.rejected[row + 1]]
        assert alone.rejected.tolist() == part.rejected.tolist() == rejected.tolist()
        np.testing.assert_array_equal(alone.values, part.values)


# ---- the loss --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1 << 30, 2])
def test_the_loss_is_that_of_a_slow_reference(most: int) -> None:
    columns, drawn = runs(6, most)
    batch, batcher = batch_of(columns)
    network = network_for(batcher)
    loss = network.loss(batch)
    y = batch.observation["y"]
    reference = -sum(
        d.weight * slow_log_q(network, batcher, d, y[i : i + 1]) for i, mine in enumerate(drawn) for d in mine
    ) / len(drawn)
    assert loss.item() == pytest.approx(reference.item(), rel=1e-5)
    parameters = list(network.parameters())
    fast = torch.autograd.grad(loss, parameters, allow_unused=True)
    slow = torch.autograd.grad(reference, parameters, allow_unused=True)
    for a, b in zip(fast, slow, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4 * float(b.abs().max() + 1e-3))


def test_without_rejected_tries_a_tree_is_a_trace() -> None:
    columns, _ = runs(20)
    bare = columns._replace(tries=columns.tries[:0], rejected=columns.rejected[:0])
    bare.traces["n_values"] -= np.bincount(
        np.repeat(np.arange(20), np.diff(offsets(columns).rejected)), columns.rejected["n_params"], 20
    ).astype(np.uint32)
    bare.traces["n_tries"] = 0
    kept = np.concatenate(  # the parameters of rejected draws come last
        [np.arange(a, a + n) for a, n in zip(offsets(runs(20)[0]).values[:-1], bare.traces["n_values"], strict=True)]
    )
    bare = bare._replace(values=columns.values[kept])
    batch, batcher = batch_of(bare)
    network = network_for(batcher)
    padded, _ = Batcher(batcher.vocabulary.copy(), {"y": (1,)})(bare, SITES)
    assert isinstance(padded, TraceBatch)
    assert network.loss(batch).item() == pytest.approx(network.loss(padded).item(), rel=1e-6)


def test_the_first_tries_stand_for_all() -> None:
    """With one try per loop entry the loss has the same mean, over 1,500 traces of the same draws."""
    one, _ = runs(1500, 1)
    every, _ = runs(1500)
    batch, batcher = batch_of(every)
    network = network_for(batcher)
    fewer, _ = Batcher(batcher.vocabulary.copy(), {"y": (1,)}, rejected=True)(one, SITES)
    assert isinstance(fewer, TreeBatch) and len(fewer.site) < 0.8 * len(batch.site)
    with torch.no_grad():
        sums = [
            torch.zeros(1500).double().index_add_(0, part.trace, part.weight * network.log_probs(part))
            for part in (batch, fewer)
        ]
        unweighted = torch.zeros(1500).double().index_add_(0, fewer.trace, network.log_probs(fewer))
    off = (sums[1] - sums[0]).numpy()
    assert abs(off.mean()) < 4 * off.std() / math.sqrt(1500)
    wrong = (unweighted - sums[0]).numpy()
    assert abs(wrong.mean()) > 4 * wrong.std() / math.sqrt(1500)


def test_slices_add_up_to_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    columns, _ = runs(200)
    batch, batcher = batch_of(columns)
    network = network_for(batcher)
    whole = network.minus_log_q(batch).item()
    assert len(batch.slices(4)) == 4
    monkeypatch.setattr(trace_batch_module, "LARGEST_SLICE", 100)
    many = batch.slices(1)
    largest = int(torch.bincount(batch.trace).max())
    assert len(many) > len(batch.site) / 200 and max(len(part.site) for part in many) <= 100 + largest
    assert batch.slices(1, whole=True) == [batch]
    for parts in (many, batch.slices(4)):
        assert sum(part.traces for part in parts) == 200
        assert sum(network.minus_log_q(part).item() for part in parts) == pytest.approx(whole, rel=1e-6)


def test_traces_without_latents() -> None:
    _, batcher = batch_of(pack([Trace(0, samples=[Sample(0, 1.0, params=(0.0, 1.0))], observes=[(4, [1.0])])]))
    network = network_for(batcher)
    empty, _ = batcher(pack([Trace(0, observes=[(4, [1.0])])]), SITES)
    assert network.loss(empty).item() == 0


def test_a_trace_with_too_many_draws_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    columns, drawn = runs(20)
    sizes = [len(mine) for mine in drawn]
    monkeypatch.setattr(batches_module, "_LARGEST_TREE", max(sizes) - 1)
    where = sizes.index(max(sizes))
    with pytest.raises(BatchError, match=rf"trace {where} has {max(sizes)} draws .* lower max_rejected"):
        batch_of(columns)


# ---- the recurrence --------------------------------------------------------------------------------------------------


def one_row_after_the_other(lstm: torch.nn.LSTM, x: torch.Tensor, previous: list[int]) -> torch.Tensor:
    """torch's own LSTM, a step at a time, each from the state of the row before it; -1: from the start."""
    start = torch.zeros((lstm.num_layers, 1, lstm.hidden_size), dtype=x.dtype)
    states: list[tuple[torch.Tensor, torch.Tensor]] = []
    outputs = []
    for row, before in zip(x, previous, strict=True):
        out, state = lstm(row[None, None], (start, start) if before < 0 else states[before])
        states.append(state)
        outputs.append(out[0, 0])
    return torch.stack(outputs)


def test_the_recurrence_on_chains_is_the_one_over_time_and_its_gradient_is_right() -> None:
    torch.manual_seed(1)
    lstm = torch.nn.LSTM(3, 9, 2)
    x = torch.randn((4, 6, 3))
    previous = torch.arange(24) - 6
    previous[:6] = -1
    product = partial(linear, x.reshape(24, 3))
    chains = run_lstm_on_trees(lstm, product, (6, 6, 6, 6), previous)
    torch.testing.assert_close(chains, run_lstm(lstm, product, (6, 6, 6, 6)))
    # Levels of 2, 5 and 3, where some rows share the one above and some have none below.
    previous = torch.tensor([-1, -1, 0, 0, 0, 1, 1, 2, 2, 5])
    rows = torch.randn((10, 3), requires_grad=True)
    ours = run_lstm_on_trees(lstm, partial(linear, rows), (2, 5, 3), previous)
    exact = copy.deepcopy(lstm).double()
    theirs = one_row_after_the_other(exact, rows.double(), previous.tolist())
    torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=3e-7)
    weight = torch.randn_like(ours)
    mine = torch.autograd.grad((ours * weight).sum(), [rows, *lstm.parameters()])
    wanted = torch.autograd.grad((theirs * weight).sum(), [rows, *exact.parameters()])
    for a, b in zip(mine, wanted, strict=True):
        torch.testing.assert_close(a.double(), b.double(), rtol=0, atol=2e-6 * float(b.abs().max()))


@pytest.mark.parametrize(
    ("levels", "previous"),
    [((4, 3, 3, 1), None), ((2, 5, 3), [-1, -1, 0, 0, 0, 1, 1, 2, 2, 5]), ((3,), None)],
    ids=["traces", "trees", "one step"],
)
def test_the_recurrence_of_other_devices_is_that_of_the_cpu(
    levels: tuple[int, ...], previous: list[int] | None
) -> None:
    """Torch's operations instead of our kernel, here on the CPU: a GPU runs the same ones."""
    torch.manual_seed(2)
    rows = None if previous is None else torch.tensor(previous)
    given = [torch.randn((sum(levels), 4 * 9), requires_grad=True), torch.randn((4 * 9, 9), requires_grad=True)]
    gates, w_hh = given
    theirs = recurrence._layer_of_torch(gates, w_hh, levels, rows)
    ours = recurrence._Layer.apply(gates.clone(), w_hh, levels, rows)  # which overwrites what it is given
    torch.testing.assert_close(theirs, ours, rtol=0, atol=3e-6)
    weight = torch.randn_like(ours)
    wanted = torch.autograd.grad((ours * weight).sum(), given, allow_unused=True)
    found = torch.autograd.grad((theirs * weight).sum(), given, allow_unused=True)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(
            torch.zeros(1) if a is None else a, torch.zeros(1) if a is None else b, rtol=0, atol=2e-5
        )
