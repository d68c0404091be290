"""The network as a proposer, over batches built here: what is served is what was trained, whatever waits together."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from step_builder import Request, steps_of

import ars
from ars import _native as native
from ars._native import NO_SITE, DistKind, ReplyFlag, SiteKind
from ars.columns import Columns, Site
from ars.distributions import decode
from ars.wire import PRIOR, Replies, SiteTable, StepBatch

torch = pytest.importorskip("torch")
from ars.network import NetworkConfig, ProposalNetwork, SiteSpec, TraceBatch, Vocabulary  # noqa: E402
from ars.network.serve.proposer import NetworkProposer, UsualPriors  # noqa: E402
from ars.network.serve.serving import Asked, ServingNetwork  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_torch_thread")

SIZES = NetworkConfig(
    lstm_dim=16, lstm_depth=2, observe_dim=8, observe_hidden=16, site_dim=6, value_dim=8, head_hidden=16
)
PRIORS: list[tuple[DistKind, tuple[float, ...]]] = [
    (DistKind.UNIFORM, (-1.0, 3.0)),
    (DistKind.NORMAL, (2.0, 0.5)),
    (DistKind.CATEGORICAL, (0.2, 0.5, 0.3)),
    (DistKind.BERNOULLI, (0.3,)),
    (DistKind.POISSON, (4.0,)),
    (DistKind.GAMMA, (2.0, 0.5)),
    (DistKind.TRUNCATED_NORMAL, (0.0, 1.0, 0.0, np.inf)),
    (DistKind.CATEGORICAL, (0.6, 0.4)),
    (DistKind.UNIFORM, (0.0, 2 * np.pi)),  # an angle, of the same family as the first
]
UNKNOWN = len(PRIORS)  # a site that the network does not know
OTHER_KIND = UNKNOWN + 1  # one that it knows with another prior
SITES = SiteTable(
    [
        *(Site(i, SiteKind.SAMPLE, kind, f"s{i}") for i, (kind, _) in enumerate(PRIORS)),
        Site(UNKNOWN, SiteKind.SAMPLE, DistKind.NORMAL, "new"),
        Site(OTHER_KIND, SiteKind.SAMPLE, DistKind.NORMAL, "changed"),
    ]
)
OBSERVED = {"y": [0.4, -1.0, 0.1, 0.7, -0.2]}
SHAPES = {"y": (5,)}
VARIANTS: dict[str, dict[str, str]] = {
    "plain": {},
    "series": {"series": "attention"},
    "no pairs": {"pairs": "none"},
    "no wrap": {"wrap": "none"},
}
Told = tuple[int, int, float]  # site, instance, value
Row = tuple[int, int, int, int, Sequence[Told]]  # trace, state, site, instance, told


@pytest.fixture(scope="module", params=VARIANTS)
def network(request: pytest.FixtureRequest) -> ProposalNetwork:
    # Known in another order than the host numbers them.
    known = [SiteSpec(f"s{i}", kind, len(p)) for i, (kind, p) in reversed(list(enumerate(PRIORS)))]
    vocabulary = Vocabulary([*known, SiteSpec("changed", DistKind.GAMMA, 2)])
    sizes = dataclasses.replace(SIZES, **VARIANTS[request.param])
    network = ProposalNetwork(sizes, vocabulary, SHAPES, seed=1)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():  # the initial weights propose nearly the prior, whatever the input
        for parameter in network.parameters():
            parameter.add_(0.15 * torch.randn(parameter.shape, generator=generator))
    return network.eval()


def encoded(kind: DistKind, params: Sequence[float]) -> bytes:
    header = np.array([(kind, 0, len(params))], dtype=native.DTYPES["dist"]).tobytes()
    return header + np.array(params, dtype=np.float64).tobytes()


def prior_of(site: int) -> bytes:
    if site == NO_SITE:
        return b""
    return encoded(*PRIORS[site]) if site < len(PRIORS) else encoded(DistKind.NORMAL, (0.0, 1.0))


def batch(*rows: Row) -> StepBatch:
    return steps_of([Request(*row, prior_of(row[2])) for row in rows], SITES)


def ask(proposer: NetworkProposer, *rows: Row) -> Replies:
    replies = proposer.step(batch(*rows), SITES)
    for proposal in replies.proposals:
        if proposal and proposal != PRIOR:
            native.check(proposal)
    return replies


def a_trace(seed: int, length: int, sites: int = len(PRIORS)) -> list[Told]:
    """Latents with values drawn from their priors."""
    rng = np.random.default_rng(seed)
    latents: list[Told] = []
    for site in rng.integers(0, sites, size=length).tolist():
        instance = sum(other[0] == site for other in latents)
        latents.append((site, instance, float(native.sample(prior_of(site), 1, int(rng.integers(1 << 40)))[0])))
    return latents


def log_q(proposals: Sequence[bytes], latents: Sequence[Told]) -> np.ndarray:
    """By the C code, from the bytes."""
    return np.array([native.log_density(p, [t[2]])[0] for p, t in zip(proposals, latents, strict=True)])


def trained_log_q(network: ProposalNetwork, traces: list[list[Told]]) -> np.ndarray:
    """What training sees, [T, B]."""
    shape = (max(map(len, traces)), len(traces))
    site, instance = np.full(shape, -1), np.zeros(shape, np.int64)
    value, prior, categories = np.zeros(shape), np.zeros((*shape, 4)), np.zeros((*shape, 3))
    for column, latents in enumerate(traces):
        for row, (number, which, x) in enumerate(latents):
            kind, params = PRIORS[number]
            site[row, column] = network.vocabulary.index(f"s{number}")
            instance[row, column], value[row, column] = which, x
            into = categories if kind is DistKind.CATEGORICAL else prior
            into[row, column, : len(params)] = params
    t = torch.from_numpy
    y = torch.tensor(OBSERVED["y"]).expand(len(traces), -1)
    n_categories = t((categories > 0).sum(-1))
    padded = TraceBatch(t(site), t(instance), t(value), t(prior), t(categories), n_categories, t(site >= 0), {"y": y})
    with torch.no_grad():
        found: np.ndarray = network.log_probs(padded).numpy()
    return found


def test_a_trace_that_is_served_step_by_step_is_as_in_training(network: ProposalNetwork) -> None:
    traces = [a_trace(seed, length) for seed, length in enumerate((12, 3, 7, 1, 9, 12, 5))]
    expected = trained_log_q(network, traces)
    proposer = NetworkProposer(network, OBSERVED)
    states = [0] * len(traces)
    for at in range(12):
        running = [n for n, latents in enumerate(traces) if at < len(latents)]
        replies = ask(
            proposer, *((n, states[n], *traces[n][at][:2], traces[n][at - 1 : at] if at else []) for n in running)
        )
        found = log_q(replies.proposals, [traces[n][at] for n in running])
        assert found == pytest.approx(expected[at, running], abs=2e-4)
        assert not replies.flags.any()
        for n, state in zip(running, replies.state.tolist(), strict=True):
            states[n] = state
    proposer.end_trace(np.arange(7, dtype=np.uint64))
    assert proposer.pool.live == 0


@pytest.mark.parametrize("components", [1, 2, 3, 10])
def test_a_proposal_does_not_depend_on_its_place_in_the_batch(components: int) -> None:
    """Products of 5 to 7 and of 9 to 11 columns would: a head has 3 per component."""
    vocabulary = Vocabulary([SiteSpec(f"s{i}", kind, len(p)) for i, (kind, p) in enumerate(PRIORS)])
    config = dataclasses.replace(SIZES, components=components, head_hidden=64)
    network = ProposalNetwork(config, vocabulary, SHAPES, seed=1).eval()
    with torch.no_grad():  # the initial weights of a head's last layer are 0
        for parameter in network.parameters():
            parameter.add_(0.15 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2)))
    rows = [(n, 0, 1, 0, [(0, 0, -1.0 + n / 10)]) for n in range(37)]

    def proposals(order: Sequence[int]) -> list[bytes]:
        replies = ask(NetworkProposer(network, OBSERVED), *(rows[n] for n in order))
        return [bytes(replies.proposals[list(order).index(n)]) for n in range(len(rows))]

    expected = proposals(range(len(rows)))
    assert len(set(expected)) == len(rows)
    for seed in range(3):
        assert proposals(np.random.default_rng(seed).permutation(len(rows)).tolist()) == expected


def usual(network: ProposalNetwork) -> UsualPriors:
    found = UsualPriors(np.zeros((len(network.vocabulary), 4)), np.zeros((len(network.vocabulary), 3)))
    for i, (kind, params) in enumerate(PRIORS):
        into = found.categories if kind is DistKind.CATEGORICAL else found.prior
        into[network.vocabulary.index(f"s{i}"), : len(params)] = params
    return found


def test_latents_told_together_are_seen_one_after_another(network: ProposalNetwork) -> None:
    """Rows with different numbers of them share a batch; a request that only tells is on the way of one."""
    latents = a_trace(5, 10)
    expected = trained_log_q(network, [latents])[-1, 0]
    proposer = NetworkProposer(network, OBSERVED)
    proposer.expect(usual(network))
    last, told = latents[-1], latents[:-1]
    asked = ask(proposer, (1, 0, *told[0][:2], []), (2, 0, *told[3][:2], told[:3]), (3, 0, NO_SITE, 0, told[:5]))
    assert asked.proposals[2] == b""
    s1, s2, s3 = asked.state.tolist()
    replies = ask(
        proposer,
        (0, 0, *last[:2], told),
        (1, s1, *last[:2], told),
        (2, s2, *last[:2], told[3:]),
        (3, s3, *last[:2], told[5:]),
        (4, 0, *told[0][:2], []),
    )
    assert log_q(replies.proposals[:4], [last] * 4) == pytest.approx([expected] * 4, abs=2e-4)


def test_states_are_immutable_and_equal_questions_are_answered_once(network: ProposalNetwork) -> None:
    proposer = NetworkProposer(network, OBSERVED)
    first = ask(proposer, *((trace, 0, 0, 0, []) for trace in (7, 8, 7, 7)))
    assert proposer.answered == 1
    assert len(set(first.proposals)) == 1
    assert len(set(first.state.tolist())) == 1  # the first state does not depend on the trace
    assert proposer.pool.live == 0
    assert ask(proposer, (9, 0, 0, 0, [])).state[0] == first.state[0]
    assert proposer.answered == 1
    state, told, other = int(first.state[0]), [(0, 0, 1.5)], [(0, 0, 1.25)]
    rows: list[Row] = [(7, state, 1, 0, told), (7, state, 1, 0, told), (7, state, 1, 0, other)]
    tries = ask(proposer, *rows, (8, state, 1, 0, told))
    assert proposer.answered == 3
    assert tries.proposals[0] == tries.proposals[1] == tries.proposals[3] != tries.proposals[2]
    seven, eight = int(tries.state[0]), int(tries.state[3])
    assert seven == tries.state[1] != eight  # each trace has its own
    assert proposer.pool.live == 3
    again = ask(proposer, rows[0])  # a retry, after other requests went on from the state
    assert again.proposals[0] == tries.proposals[0]
    follow = [(1, 0, 2.0)]
    ends = ask(proposer, (7, seven, 5, 0, follow), (7, int(again.state[0]), 5, 0, follow), (8, eight, 5, 0, follow))
    assert len(set(ends.proposals)) == 1
    proposer.end_trace(np.array([7], np.uint64))
    assert proposer.pool.live == 2
    with pytest.raises(ars.ProtocolError, match="its trace is over"):
        ask(proposer, (7, seven, 5, 0, follow))
    with pytest.raises(ars.ProtocolError, match="belongs to trace 8"):
        ask(proposer, (9, eight, 5, 0, follow))
    proposer.end_trace(np.array([8], np.uint64))
    assert proposer.pool.live == 0


def test_answers_that_do_not_depend_on_the_trace_are_remembered_while_there_is_room(
    network: ProposalNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After discrete values too; after a continuous one, or when there is no room, every trace has its own state."""
    coin, count, normal = 3, 4, 1
    proposer = NetworkProposer(network, OBSERVED)
    start = int(ask(proposer, (0, 0, coin, 0, [])).state[0])
    for trace in range(1, 20):
        yes, no = ask(
            proposer, (trace, start, count, 0, [(coin, 0, 1.0)]), (trace, start, count, 0, [(coin, 0, 0.0)])
        ).state.tolist()
        assert yes != no
        own = int(ask(proposer, (trace, yes, normal, 0, [(count, 0, 3.0)])).state[0])
        ask(proposer, (trace, own, normal, 1, [(normal, 0, 0.25)]))
    assert proposer.pool.shared == 4
    assert proposer.pool.live == 19  # what came after a continuous value
    assert proposer.answered == 4 + 19
    monkeypatch.setattr("ars.network.serve.proposer._REMEMBERED", 6)
    rows: list[Row] = [(trace, start, count, k, [(coin, 0, 1.0)]) for trace in (50, 51) for k in range(1, 6)]
    replies = ask(proposer, *rows)
    assert proposer.pool.shared == 6
    assert (replies.state[:2] == replies.state[5:7]).all()
    assert not set(replies.state[2:5].tolist()) & set(replies.state[7:].tolist())
    assert proposer.pool.live == 19 + 6
    assert list(replies.proposals[:5]) == list(replies.proposals[5:])
    # What was copied for the other trace is the state that goes with the question.
    then: list[Row] = [
        (trace, int(state), normal, 7, [(count, k, 2.0)])
        for state, (trace, _, _, k, _) in zip(replies.state, rows, strict=True)
    ]
    followed = ask(proposer, *then).proposals
    assert list(followed[:5]) == list(followed[5:])
    assert len(set(followed[:5])) == 5
    proposer.end_trace(np.arange(52, dtype=np.uint64))
    assert proposer.pool.live == 0


def test_states_are_copied_after_the_pool_has_grown(network: ProposalNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ars.network.serve.proposer._REMEMBERED", 1)
    proposer = NetworkProposer(network, OBSERVED)
    before = proposer.pool.capacity
    coin, count = 3, 4
    start = int(ask(proposer, (0, 0, coin, 0, [])).state[0])
    ask(proposer, *((1, start, count, k, [(coin, 0, 1.0)]) for k in range(before + 1)))
    assert proposer.pool.capacity > before
    one, other = ask(proposer, *((trace, start, count, 5000, [(coin, 0, 1.0)]) for trace in (5, 6))).state.tolist()
    assert one != other


def test_an_answer_does_not_depend_on_what_else_waits(network: ProposalNetwork) -> None:
    """The design asks that a seed gives the same traces however many workers run."""
    rows: list[Row] = [(n, 0, n % len(PRIORS), 0, a_trace(n, n % 4)) for n in range(53)]
    together = ask(NetworkProposer(network, OBSERVED), *rows)
    for size in (1, 2, 5, 16):
        proposer = NetworkProposer(network, OBSERVED)
        for begin in range(0, len(rows), size):
            apart = ask(proposer, *rows[begin : begin + size])
            for one, other in zip(apart.proposals, together.proposals[begin : begin + size], strict=True):
                if torch.backends.mkl.is_available():
                    assert one == other
                assert len(one) == len(other)
                a, b = np.frombuffer(one, offset=8), np.frombuffer(other, offset=8)
                assert a == pytest.approx(b, rel=1e-5, abs=1e-12)


def served_and_reference(
    network: ProposalNetwork, latents: Sequence[Told]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The numbers of the proposals for the latents of a trace: as they are served, and by advance and propose."""
    proposer = NetworkProposer(network, OBSERVED)
    obs = network.observe({"y": torch.tensor([OBSERVED["y"]])})
    state, h_c = 0, network.initial_state(1)
    previous = (torch.tensor([-1]), torch.zeros(1, dtype=torch.float64), torch.zeros((1, 4), dtype=torch.float64))
    earlier = previous
    served, reference = [], []
    for at, (number, instance, value) in enumerate(latents):
        replies = ask(proposer, (0, state, number, instance, latents[at - 1 : at] if at else []))
        state = int(replies.state[0])
        served.append(np.frombuffer(replies.proposals[0], offset=8))
        kind, params = PRIORS[number]
        site = torch.tensor([network.vocabulary.index(f"s{number}")])
        prior, categories = torch.zeros((1, 4), dtype=torch.float64), torch.zeros((1, 3), dtype=torch.float64)
        (categories if kind is DistKind.CATEGORICAL else prior)[0, : len(params)] = torch.tensor(params).double()
        with torch.no_grad():
            x = network.inputs(obs, site, torch.tensor([instance]), prior, categories, *previous, earlier)
            out, h_c = network.advance(x, h_c)
            (group,) = network.propose(out, site, prior, categories)
        numbers = group.params[0].numpy()
        if kind is DistKind.UNIFORM:  # served are the parts of an angle's components that count
            numbers = numbers[: numbers.size // 6 * 6].reshape(-1, 6)
            numbers = numbers[numbers[:, 0] > 0].ravel()
        reference.append(numbers[: len(served[-1])])
        slot = proposer.pool.slots(replies.state, np.array([0], np.uint64))
        for layer, (h, c) in enumerate(zip(*h_c, strict=True)):
            for mine, theirs in zip(proposer.pool.layer(layer), (h, c), strict=True):
                assert mine[slot] == pytest.approx(theirs.numpy(), abs=2e-6)
        previous, earlier = (site, torch.tensor([value], dtype=torch.float64), prior), previous
    return served, reference


def test_the_serving_step_is_the_networks_own(network: ProposalNetwork) -> None:
    """Taken apart and put together again, it gives the same states and proposals, up to float32's rounding."""
    for seed in range(4):
        served, reference = served_and_reference(network, a_trace(seed, 12))
        for mine, theirs in zip(served, reference, strict=True):
            assert mine == pytest.approx(theirs, rel=2e-5, abs=1e-6)


def test_the_serving_step_is_the_networks_own_without_any_category() -> None:
    """Every value is then embedded as "not a category", which is trained as well."""
    small = ProposalNetwork(SIZES, Vocabulary([SiteSpec("s1", DistKind.NORMAL, 2)]), SHAPES, seed=1)
    with torch.no_grad():
        for parameter in small.parameters():
            parameter.add_(0.15 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2)))
    latents = [(1, i, 2.0 + 0.1 * i) for i in range(6)]
    expected = trained_log_q(small.eval(), [latents])[:, 0]
    proposer, state = NetworkProposer(small, OBSERVED), 0
    for at, latent in enumerate(latents):
        replies = ask(proposer, (0, state, *latent[:2], latents[at - 1 : at] if at else []))
        assert log_q(replies.proposals, [latent]) == pytest.approx(expected[at : at + 1], abs=1e-5)
        state = int(replies.state[0])


def test_more_questions_and_states_than_are_kept(network: ProposalNetwork, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept to save time is forgotten when there is too much of it, without a difference to any answer."""
    rows: list[Row] = [(n, 0, n % len(PRIORS), n, a_trace(n, n % 3)) for n in range(40)]

    def twice(proposer: NetworkProposer) -> list[bytes]:
        first = ask(proposer, *rows)
        told = [[(row[2], row[3], float(n % 2))] for n, row in enumerate(rows)]
        second: list[Row] = [(n, int(s), 0, 40 + n, told[n]) for n, s in enumerate(first.state)]
        return [*first.proposals, *(ask(proposer, row).proposals[0] for row in (*second, *second))]

    expected = twice(NetworkProposer(network, OBSERVED))
    for kept in (1, 3, 50):
        monkeypatch.setattr("ars.network.serve.serving._KEPT_QUESTIONS", 400 * kept)  # a row has 392 bytes
        monkeypatch.setattr("ars.network.serve.serving._KEPT_STATES", kept)
        assert twice(NetworkProposer(network, OBSERVED)) == expected


def test_what_thousands_of_sites_are_asked_is_computed_once() -> None:
    """In a large network too: a trace of 2,000 sites, time and again, is as cheap as one of 2."""
    config = NetworkConfig(lstm_dim=512)
    network = ProposalNetwork(config, Vocabulary([SiteSpec("x", DistKind.NORMAL, 2)]), SHAPES, seed=1)
    computed = 0

    def describe(places: npt.NDArray[np.int64]) -> Asked:
        nonlocal computed
        n = len(places)
        computed += n
        prior = np.tile([0.0, 1.0, 0.0, 0.0], (n, 1))
        return Asked(np.zeros(n, np.int64), places, prior, np.zeros((n, 0)), np.zeros(n, np.int64))

    with torch.inference_mode():
        serving = ServingNetwork(network, network.observe({"y": torch.zeros(1, 5)}))
        keys = [b"%d" % i for i in range(2000)]
        for _ in range(3):
            rows = np.concatenate([serving.questions(keys[i : i + 8], describe) for i in range(0, 2000, 8)])
            assert len(np.unique(rows)) == 2000
    assert computed == 2000


def test_a_categorical_proposal_has_as_many_categories_as_its_prior(network: ProposalNetwork) -> None:
    replies = ask(NetworkProposer(network, OBSERVED), (0, 0, 2, 0, []), (0, 0, 7, 0, []))
    three, two = (decode(p) for p in replies.proposals)
    assert isinstance(three, ars.Categorical) and isinstance(two, ars.Categorical)
    assert [len(p) for p in replies.proposals] == [8 + 8 * 3, 8 + 8 * 2]


@pytest.mark.parametrize("site", [UNKNOWN, OTHER_KIND])
def test_an_unknown_site_is_left_to_the_prior(network: ProposalNetwork, site: int) -> None:
    """And asking about it or not makes no difference to what follows."""
    proposer = NetworkProposer(network, OBSERVED)
    replies = ask(proposer, (0, 0, site, 0, []), (1, 0, 0, 0, []))
    assert replies.proposals[0] == PRIOR
    assert replies.flags.tolist() == [ReplyFlag.ALWAYS_PRIOR, 0]
    told = [(site, 0, 0.7)]
    after = ask(proposer, (0, int(replies.state[0]), 1, 0, told), (2, 0, 1, 0, told), (3, 0, 1, 0, []))
    a, b, without = (np.frombuffer(p, offset=8) for p in after.proposals)
    assert a == pytest.approx(b, rel=1e-5, abs=1e-12)
    assert not np.allclose(a, without, rtol=1e-3)


def test_unknown_sites_are_counted_and_listed(network: ProposalNetwork) -> None:
    samples = np.zeros(6, native.DTYPES["sample"])
    samples["site"] = [UNKNOWN, 0, OTHER_KIND, UNKNOWN, 1, UNKNOWN]
    empty = {name: np.zeros(0) for name in Columns._fields}
    columns = Columns(**(empty | {"samples": samples}))
    proposer = NetworkProposer(network, OBSERVED)
    with pytest.warns(ars.NetworkWarning) as caught:
        proposer.warn_after_run(columns, SITES.all())
    assert len(caught) == 1
    text = str(caught[0].message)
    assert "does not know 2 of the 4 latents that were drawn" in text
    assert "in 4 draws: 'new' (3), 'changed' (1, with a NORMAL prior; the network has GAMMA)" in text
    samples["site"] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        proposer.warn_after_run(columns, SITES.all())


@pytest.mark.parametrize(
    ("observed", "complaint"),
    [
        ({"y": [1.0]}, r"'y' has shape \(1,\), the network was made for \(5,\)"),
        ({"z": [1.0, 2.0]}, "made for the observations 'y', but 'z' were given"),
        ({}, "but none were given"),
        ({"y": [1.0, np.nan, 0.0, 0.0, 0.0]}, "NaN"),
    ],
)
def test_data_of_another_shape_are_refused(
    network: ProposalNetwork, observed: dict[str, object], complaint: str
) -> None:
    with pytest.raises(ars.ObservationError, match=complaint):
        NetworkProposer(network, observed)  # type: ignore[arg-type]


@pytest.mark.parametrize("told", [[], [(1, 0, 0.5)], [(0, 1, 0.5)]])
def test_the_latent_that_was_asked_about_must_be_told(network: ProposalNetwork, told: list[Told]) -> None:
    proposer = NetworkProposer(network, OBSERVED)
    state = int(ask(proposer, (0, 0, 0, 0, [])).state[0])
    with pytest.raises(ars.ProtocolError, match="the first value told is not that of the latent"):
        ask(proposer, (0, state, 2, 0, told))


def test_damaged_weights_are_named() -> None:
    network = ProposalNetwork(SIZES, Vocabulary([SiteSpec("s0", DistKind.UNIFORM, 2)]), SHAPES)
    with torch.no_grad():
        network.heads["UNIFORM"].last.bias.fill_(np.nan)
    with pytest.raises(ars.ProposalError, match="damaged"):
        ask(NetworkProposer(network, OBSERVED), (0, 0, 0, 0, []))
