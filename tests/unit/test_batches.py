"""Columns to batches: against a plain loop over traces, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
from column_builder import Sample, Trace, observation, pack

from ars._native import DistKind, SiteKind
from ars.columns import Columns, Site

torch = pytest.importorskip("torch")
from ars.errors import BatchError  # noqa: E402
from ars.network.model.trace_batch import TraceBatch  # noqa: E402
from ars.network.model.vocabulary import SiteSpec, Vocabulary  # noqa: E402
from ars.network.train.batches import Batcher, complete, observation_shapes, observed_values, split  # noqa: E402

KINDS = {
    0: (DistKind.NORMAL, 2),
    1: (DistKind.CATEGORICAL, 0),
    2: (DistKind.TRUNCATED_NORMAL, 4),
    3: (DistKind.POISSON, 1),
    4: (DistKind.CATEGORICAL, 0),
    5: (DistKind.UNIFORM, 2),
}
Y, IMAGE = 6, 7
SITES = (
    *(Site(i, SiteKind.SAMPLE, kind, f"loop/s{i}") for i, (kind, _) in KINDS.items()),
    observation(Y, "y"),
    observation(IMAGE, "image"),
)


def random_traces(n: int, seed: int) -> list[Trace]:
    """Traces of many shapes; the image is observed in two pieces, before and after y."""
    rng = np.random.default_rng(seed)
    traces = []
    for number in range(n):
        samples = []
        seen = dict.fromkeys(KINDS, 0)
        for _ in range(rng.integers(0, 9)):
            site = int(rng.integers(len(KINDS)))
            kind, n_params = KINDS[site]
            k = n_params or int(rng.integers(1, 6))
            params = tuple(rng.random(k).tolist())
            samples.append(Sample(site, float(rng.normal()), seen[site], params=params, kind=kind))
            seen[site] += 1
        image = rng.normal(size=6).tolist()
        observes = [(IMAGE, image[:2]), (Y, [float(rng.normal())]), (IMAGE, image[2:])]
        results = [(9, rng.normal(size=rng.integers(0, 3)).tolist())]
        traces.append(Trace(number, samples=samples, observes=observes, results=results))
    return traces


def batch_of(columns: Columns, sites: tuple[Site, ...] = SITES, **options: object) -> TraceBatch:
    del options
    return Batcher(Vocabulary(), observation_shapes(columns, sites))(columns, sites)[0]


@pytest.mark.parametrize("seed", range(5))
def test_a_batch_holds_every_number_of_every_trace(seed: int) -> None:
    traces = random_traces(30, seed)
    columns = pack(traces)
    batcher = Batcher(Vocabulary(), observation_shapes(columns, SITES, {"image": (2, 3)}))
    batch, changed = batcher(columns, SITES)
    assert changed
    assert batch.site.shape == (max(len(t.samples) for t in traces), len(traces))
    assert batch.mask.sum() == sum(len(t.samples) for t in traces)
    assert batch.categories is not None
    for b, trace in enumerate(traces):
        for t in range(batch.site.shape[0]):
            prior, categories = batch.prior[t, b].tolist(), batch.categories[t, b].tolist()
            if t >= len(trace.samples):
                assert batch.site[t, b] == -1 and not batch.mask[t, b]
                assert not any([*prior, *categories, batch.value[t, b], batch.instance[t, b]])
                continue
            s = trace.samples[t]
            assert batch.mask[t, b]
            assert batcher.vocabulary[int(batch.site[t, b])].address == f"loop/s{s.site}"
            assert (int(batch.instance[t, b]), float(batch.value[t, b])) == (s.instance, s.value)
            if s.kind is DistKind.CATEGORICAL:
                assert int(batch.n_categories[t, b]) == len(s.params)
                assert categories == [*np.float32(s.params).tolist(), *[0.0] * (len(categories) - len(s.params))]
                assert prior == [0.0] * 4
            else:
                assert prior == [*s.params, *[0.0] * (4 - len(s.params))]
                assert int(batch.n_categories[t, b]) == 0 and not any(categories)
        image = np.float32([*trace.observes[0][1], *trace.observes[2][1]]).reshape(2, 3)
        np.testing.assert_array_equal(batch.observation["image"][b].numpy(), image)
        assert float(batch.observation["y"][b]) == np.float32(trace.observes[1][1][0])


def test_parts_of_a_batch_are_the_batch_in_parts() -> None:
    columns = pack(random_traces(23, 1))
    whole = Batcher(Vocabulary(), observation_shapes(columns, SITES))
    batch, _ = whole(columns, SITES)
    parts = list(split(columns, 5))
    assert [len(part.traces) for part in parts] == [5, 5, 5, 5, 3]
    first = 0
    for part in parts:
        small, changed = whole(part, SITES)
        assert not changed
        steps = small.site.shape[0]
        wanted = slice(first, first + len(part.traces))
        assert torch.equal(small.value, batch.value[:steps, wanted]) and torch.equal(
            small.site, batch.site[:steps, wanted]
        )
        assert torch.equal(small.prior, batch.prior[:steps, wanted])
        assert torch.equal(small.observation["image"], batch.observation["image"][wanted])
        first += len(part.traces)


def test_observations_in_any_order() -> None:
    same = [Trace(0, observes=[(Y, [1.0]), (IMAGE, [2.0, 3.0])]), Trace(1, observes=[(IMAGE, [5.0, 6.0]), (Y, [4.0])])]
    values = observed_values(pack(same), SITES)
    assert values["y"].tolist() == [[1.0], [4.0]] and values["image"].tolist() == [[2.0, 3.0], [5.0, 6.0]]


def sample(site: int, *params: float, kind: DistKind = DistKind.NORMAL) -> Sample:
    return Sample(site, 0.5, params=params, kind=kind)


def test_sites_are_appended_in_the_order_of_the_traces_whatever_their_numbers() -> None:
    names = ("a", "b", "c")

    def build(order: dict[str, int]) -> tuple[Columns, tuple[Site, ...]]:
        sites = tuple(Site(i, SiteKind.SAMPLE, DistKind.NORMAL, name) for name, i in sorted(order.items()))
        traces = [
            Trace(k, samples=[sample(order[name], 0, 1) for name in path]) for k, path in enumerate(("ba", "bca"))
        ]
        return pack(traces), tuple(sorted(sites))

    found = []
    for numbers in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        batcher = Batcher(Vocabulary(), {})
        batch, _ = batcher(*build(dict(zip(names, numbers, strict=True))))
        found.append(([site.address for site in batcher.vocabulary], batch.site.tolist()))
    assert found[0][0] == ["b", "a", "c"]
    assert found[0] == found[1] == found[2]


def test_the_vocabulary_grows_and_keeps_its_indices_when_another_host_numbers_the_sites() -> None:
    batcher = Batcher(Vocabulary([SiteSpec("x", DistKind.NORMAL, 2)]), {})
    here = (Site(0, SiteKind.SAMPLE, DistKind.NORMAL, "x"), Site(1, SiteKind.SAMPLE, DistKind.CATEGORICAL, "k"))
    there = (Site(0, SiteKind.SAMPLE, DistKind.CATEGORICAL, "k"), Site(1, SiteKind.SAMPLE, DistKind.NORMAL, "x"))
    cat = DistKind.CATEGORICAL
    batch, changed = batcher(pack([Trace(0, samples=[sample(0, 0, 1)])]), here[:1])
    assert not changed and batch.site.tolist() == [[0]] and batch.categories is None
    batch, changed = batcher(pack([Trace(1, samples=[sample(1, 0.5, 0.5, kind=cat), sample(0, 0, 1)])]), here)
    assert changed and batch.site.tolist() == [[1], [0]]
    assert batcher.vocabulary.categories == 2
    batch, changed = batcher(pack([Trace(2, samples=[sample(0, 0.5, 0.2, 0.3, kind=cat), sample(1, 0, 1)])]), there)
    assert changed and batch.site.tolist() == [[1], [0]]
    assert batcher.vocabulary.categories == 3
    assert not batcher(pack([Trace(2, samples=[sample(0, 0.5, 0.5, kind=cat)])]), there)[1]


def test_empty_traces_make_a_batch() -> None:
    batch = batch_of(pack([Trace(0), Trace(1)]), ())
    assert batch.site.tolist() == [[-1, -1]] and not batch.mask.any()


def test_failed_traces_are_left_out() -> None:
    columns = pack([Trace(0, samples=[sample(0, 0, 1)]), Trace(1, failure=1, text="crash"), Trace(2)])
    with pytest.raises(BatchError, match="failed"):
        batch_of(columns)
    assert complete(columns).traces["trace"].tolist() == [0, 2]


BAD = {
    "without the parameters": [Trace(0, samples=[sample(0)])],
    "NORMAL prior before": [
        Trace(0, samples=[sample(0, 0, 1), sample(0, 2.0, kind=DistKind.POISSON)]),
    ],
    "'y' of trace 8 has a NaN or infinite": [Trace(7, observes=[(Y, [0.0])]), Trace(8, observes=[(Y, [np.nan])])],
    "trace 3 observes 1 numbers under 'y', trace 4 2": [
        Trace(3, observes=[(Y, [0.0])]),
        Trace(4, observes=[(Y, [0.0, 1.0])]),
    ],
    "trace 3 observes 1 numbers under 'y', trace 4 0": [Trace(3, observes=[(Y, [0.0])]), Trace(4)],
}


@pytest.mark.parametrize("message", BAD)
def test_bad_traces_are_named(message: str) -> None:
    with pytest.raises(BatchError, match=message):
        batch_of(pack(BAD[message]))


def test_observations_must_stay_the_same() -> None:
    batcher = Batcher(Vocabulary(), {"y": (1,)})
    with pytest.raises(BatchError, match="has 2 numbers in trace 0, but had 1"):
        batcher(pack([Trace(0, observes=[(Y, [1.0, 2.0])])]), SITES)
    with pytest.raises(BatchError, match="'image' is in some traces and not in others"):
        batcher(pack([Trace(0, observes=[(Y, [1.0]), (IMAGE, [1.0])])]), SITES)


def test_shapes_that_do_not_fit_are_refused() -> None:
    columns = pack([Trace(0, observes=[(IMAGE, [0.0] * 6)])])
    assert observation_shapes(columns, SITES, {"image": (3, 2)}) == {"image": (3, 2)}
    with pytest.raises(BatchError, match=r"'image': the shape \(4, 2\) does not hold its 6 numbers"):
        observation_shapes(columns, SITES, {"image": (4, 2)})
    with pytest.raises(BatchError, match="'picture', but the simulator observes 'image'"):
        observation_shapes(columns, SITES, {"picture": (3, 2)})


def test_a_kind_that_the_network_knows_otherwise_is_refused() -> None:
    batcher = Batcher(Vocabulary([SiteSpec("loop/s0", DistKind.BETA, 2)]), {})
    with pytest.raises(BatchError, match="'loop/s0' has a NORMAL prior here, but the network knows it with a BETA"):
        batcher(pack([Trace(0, samples=[sample(0, 0, 1)])]), SITES)
