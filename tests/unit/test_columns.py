from __future__ import annotations

import math

import numpy as np
import pytest
from column_builder import Loop, Sample, Trace, latent, loop_site, observation, pack, result
from hypothesis import given, settings
from hypothesis import strategies as st

from ars import columns as cols
from ars.columns import Columns
from ars.progress import NoProgress
from ars.runtime.recorder import Recorder

X, LOOPED, Y, MU, LOOP = 0, 1, 2, 3, 4
SITES = [
    latent(X, "x"),
    latent(LOOPED, "outer/loop/z"),
    observation(Y, "y"),
    result(MU, "mu"),
    loop_site(LOOP, "outer/loop"),
]

numbers = st.floats(-10, 10)


@st.composite
def random_traces(draw: st.DrawFn) -> list[Trace]:
    order = draw(st.permutations(range(draw(st.integers(0, 6)))))
    made = []
    for number in order:
        if draw(st.integers(0, 4)) == 0:
            made.append(Trace(number, failure=1 + number % 3, text=f"failure of {number}"))
            continue
        samples = [
            Sample(
                draw(st.sampled_from([X, LOOPED])),
                draw(numbers),
                instance=i,
                params=tuple(draw(st.lists(numbers, max_size=2))),
            )
            for i in range(draw(st.integers(0, 3)))
        ]
        observes = [(Y, draw(st.lists(numbers, min_size=1, max_size=3))) for _ in range(draw(st.integers(0, 2)))]
        results = [(MU, draw(st.lists(numbers, min_size=1, max_size=3))) for _ in range(draw(st.integers(0, 2)))]
        loops = [
            Loop(LOOP, instance=i, tries=draw(st.integers(1, 9)), s_pq_main=0.5) for i in range(draw(st.integers(0, 2)))
        ]
        made.append(Trace(number, draw(numbers), samples=samples, observes=observes, results=results, loops=loops))
    return made


def assert_same(a: Columns, b: Columns) -> None:
    for name, left, right in zip(Columns._fields, a, b, strict=True):
        np.testing.assert_array_equal(left, right, err_msg=name)


@settings(deadline=None)
@given(random_traces())
def test_sorting_moves_every_item_with_its_trace(traces: list[Trace]) -> None:
    assert_same(cols.sort_by_trace(pack(traces)), pack(sorted(traces, key=lambda t: t.number)))


@settings(deadline=None)
@given(random_traces(), st.integers(1, 5))
def test_merging_parts_is_putting_them_together_and_sorting(traces: list[Trace], size: int) -> None:
    parts = [pack(traces[i : i + size]) for i in range(0, len(traces), size)]
    assert_same(cols.merge(parts), pack(sorted(traces, key=lambda t: t.number)))
    assert not parts  # let go


def test_a_recorder_that_puts_small_parts_together_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ars.runtime.recorder._BLOCK", 1000)
    numbers = np.random.default_rng(1).permutation(60).tolist()
    traces = [
        Trace(n, float(n), samples=[Sample(X, n + 0.5)] * (n % 3), results=[(MU, [1.0, n])])
        if n % 7
        else Trace(n, failure=1, text=f"failure of {n}")
        for n in numbers
    ]
    recorder = Recorder(60, "zero", NoProgress())
    for i in range(0, 60, 4):
        recorder.take(pack(traces[i : i + 4]), tuple, str)
        if i == 28:
            early = recorder.columns()
            assert early.traces["trace"].tolist() == sorted(numbers[:32])
            assert sum(count for _, count in recorder.missing()) == 28
    assert_same(recorder.columns(), pack(sorted(traces, key=lambda t: t.number)))
    assert recorder.missing() == []
    assert recorder.n_failed == len(recorder.failures()) == 9


@settings(deadline=None)
@given(random_traces(), st.data())
def test_selecting_and_concatenating(traces: list[Trace], data: st.DataObject) -> None:
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(traces), max_size=len(traces))), dtype=bool)
    kept = [t for t, wanted in zip(traces, mask, strict=True) if wanted]
    assert_same(cols.select(pack(traces), mask), pack(kept))
    cut = len(traces) // 2
    assert_same(cols.concatenate([pack(traces[:cut]), pack(traces[cut:])]), pack(traces))


@settings(deadline=None)
@given(random_traces())
def test_values_against_a_loop_over_traces(traces: list[Trace]) -> None:
    packed = pack(traces)
    for instance in range(3):
        expected = [
            next((s.value for s in t.samples if s.site == X and s.instance == instance), math.nan) for t in traces
        ]
        np.testing.assert_array_equal(cols.values_of(packed, SITES, ("x", instance)), expected)
    for key, rows in {
        "y": [[x for _, xs in t.observes for x in xs] for t in traces],
        ("mu", 0): [t.results[0][1] if t.results else [] for t in traces],
        ("mu", 1): [t.results[1][1] if len(t.results) > 1 else [] for t in traces],
    }.items():
        width = max((len(row) for row in rows), default=1) or 1
        padded = np.array([row + [math.nan] * (width - len(row)) for row in rows]).reshape(len(rows), width)
        np.testing.assert_array_equal(cols.values_of(packed, SITES, key), padded[:, 0] if width == 1 else padded)
    starts = cols.value_starts(packed)
    flat = [s for t in traces for s in t.samples]
    for sample, start in zip(flat, starts.samples.tolist(), strict=True):
        np.testing.assert_array_equal(packed.values[start : start + len(sample.params)], sample.params)


@settings(deadline=None)
@given(random_traces())
def test_all_instances_against_a_loop_over_traces(traces: list[Trace]) -> None:
    packed = pack(traces)
    drawn = [{s.instance: [s.value] for s in t.samples if s.site == X} for t in traces]
    results = [dict(enumerate(xs for site, xs in t.results if site == MU)) for t in traces]
    for site, key, rows in ((SITES[X], "x", drawn), (SITES[MU], "mu", results)):
        count = max((i + 1 for row in rows for i in row), default=1)
        width = max((len(xs) for row in rows for xs in row.values()), default=1) or 1
        expected = np.full((len(traces), count, width), np.nan)
        for at, row in enumerate(rows):
            for i, xs in row.items():
                expected[at, i, : len(xs)] = xs
        for many in (False, True):
            np.testing.assert_array_equal(cols.Blocks(packed, many=many).of(site), expected)
        given = cols.values_of(packed, SITES, key)
        assert given.ndim == 1 + (count > 1) + (width > 1)
        np.testing.assert_array_equal(given.ravel(), expected.ravel())
        for i in range(count):
            for j in range(width):
                np.testing.assert_array_equal(cols.values_of(packed, SITES, f"{key}[{i}][{j}]"), expected[:, i, j])
                if count == 1 and width > 1:
                    np.testing.assert_array_equal(cols.values_of(packed, SITES, f"{key}[{j}]"), expected[:, 0, j])


def test_offsets_end_where_the_columns_end() -> None:
    packed = pack(
        [Trace(0, samples=[Sample(X, 1.0), Sample(X, 2.0, 1)]), Trace(1), Trace(2, results=[(MU, [1.0, 2.0])])]
    )
    assert cols.offsets(packed).samples.tolist() == [0, 2, 2, 2]
    assert cols.offsets(packed).values.tolist() == [0, 0, 0, 2]


def test_names() -> None:
    assert SITES[1].name == "z"
    assert cols.find_site(SITES, "z") == (SITES[1], ())
    assert cols.find_site(SITES, "outer/loop/z[3]") == (SITES[1], (3,))
    assert cols.find_site(SITES, ("z", 3)) == (SITES[1], (3,))
    assert cols.find_site(SITES, "z[3][1]") == cols.find_site(SITES, ("z", 3, 1)) == (SITES[1], (3, 1))
    both = [latent(0, "m"), result(1, "m"), latent(2, "a/k"), latent(3, "b/k"), latent(4, "k[1]")]
    assert cols.find_site(both, "m")[0].id == 1, "a result wins over a latent"
    assert cols.find_site(both, "b/k")[0].id == 3
    assert cols.find_site(both, "k[1]") == (both[4], ()), "a name that looks like an instance is a name first"
    with pytest.raises(KeyError, match=r'several sites.*"a/k", "b/k"'):
        cols.find_site(both, "k")
    with pytest.raises(KeyError, match=r'"nothing" was not recorded; the addresses are: "a/k"'):
        cols.find_site(both, "nothing")
    with pytest.raises(KeyError, match="count from 0"):
        cols.find_site(both, ("m", -1))
    with pytest.raises(KeyError, match="is a loop"):
        cols.values_of(pack([]), SITES, "loop")


def test_an_exact_address_wins_over_another_sites_name() -> None:
    sites = [result(0, "loop/x"), latent(1, "x")]
    assert cols.find_site(sites, "x")[0].id == 1


def test_empty_and_wrong_masks() -> None:
    assert [len(column) for column in cols.empty()] == [0] * 9
    assert_same(cols.concatenate([]), pack([]))
    assert cols.values_of(cols.empty(), SITES, "x").shape == (0,)
    with pytest.raises(ValueError, match="2 booleans, one per trace"):
        cols.select(pack([Trace(0), Trace(1)]), [True])


@pytest.mark.slow
def test_a_million_traces_in_random_order() -> None:
    n = 1_000_000
    rng = np.random.default_rng(1)
    traces = np.zeros(n, cols.empty().traces.dtype)
    traces["trace"] = rng.permutation(n)
    traces["n_samples"] = 1 + traces["trace"] % 3
    samples = np.zeros(int(traces["n_samples"].sum()), cols.empty().samples.dtype)
    samples["value"] = np.repeat(traces["trace"], traces["n_samples"])
    samples["instance"] = np.arange(len(samples)) - np.repeat(
        np.cumsum(traces["n_samples"]) - traces["n_samples"], traces["n_samples"]
    )
    ordered = cols.sort_by_trace(cols.empty()._replace(traces=traces, samples=samples))
    np.testing.assert_array_equal(ordered.traces["trace"], np.arange(n))
    np.testing.assert_array_equal(cols.values_of(ordered, SITES, "x[0]"), np.arange(n))
    third = cols.values_of(ordered, SITES, "x[2]")
    np.testing.assert_array_equal(np.flatnonzero(~np.isnan(third)), np.arange(2, n, 3))
