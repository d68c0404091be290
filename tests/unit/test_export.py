"""Results for other programs: the names and shapes of tables and trees, and draws that follow the weights."""

from __future__ import annotations

import csv
import math
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from column_builder import Loop, Sample, Trace, latent, loop_site, observation, pack, result

from ars.columns import Site
from ars.diagnostics import ess
from ars.posterior import Posterior, RunInfo
from ars.results.export import titles

X, Z, Y, MU, VEC, LOOP = range(6)
SITES = [
    latent(X, "x"),
    latent(Z, "until/z"),
    observation(Y, "y"),
    result(MU, "mu"),
    result(VEC, "momentum"),
    loop_site(LOOP, "until"),
]
RUN = RunInfo(seed=7, runs_p=2, tries_q=10, in_loops="proposal", on_failure="zero", simulator=("./sim", "3"))
ESTIMATED = Loop(LOOP, tries_q=10, accepted_q=5, runs_p=2, tries_p=4)
TRACES = [
    Trace(
        5,
        0.5,
        samples=[Sample(X, 1.0), Sample(X, 4.0, 1), Sample(Z, 7.0, loop=0)],
        results=[(MU, [10.0]), (VEC, [1.0, 2.0])],
        loops=[ESTIMATED],
    ),
    Trace(6, failure=1, text="segmentation fault"),
    Trace(9, -1.0, samples=[Sample(X, 3.0), Sample(Z, 8.0)], results=[(MU, [30.0]), (VEC, [3.0, 4.0])]),
]


def posterior(traces: list[Trace] = TRACES, sites: list[Site] = SITES, **changes: Any) -> Posterior:
    run = RUN._replace(**changes)
    return Posterior(pack(traces), sites, run=run, stats={}, observed={"y": np.array([0.25, 0.75]), "o/k": np.array(1)})


def arviz() -> Any:
    """ArviZ 0.23 announces its successor when it is imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("arviz")


# ---- trees -----------------------------------------------------------------------------------------------------------


def test_the_groups_of_a_tree() -> None:
    post = posterior()
    tree = post.to_datatree(draws=40, seed=3)
    weighted, drawn, origin = (tree[group] for group in ("weighted_posterior", "posterior", "sample_stats"))
    np.testing.assert_array_equal(weighted["log_weight"], post.log_weights("ars"))
    for method in ("ars", "ic", "biased"):
        np.testing.assert_array_equal(weighted[f"log_weight_{method}"], post.log_weights(method))
    assert weighted["trace"].values.tolist() == [5, 6, 9]
    assert weighted["x"].dims == ("trace", "x_instance")
    np.testing.assert_array_equal(weighted["x"], post["x"])
    assert weighted["momentum"].dims == ("trace", "momentum_dim_0")
    assert weighted["z"].attrs["address"] == "until/z"
    rows = origin["row"].values[0]
    assert drawn["mu"].dims == origin["row"].dims == ("chain", "draw")
    assert drawn["x"].dims == ("chain", "draw", "x_instance")
    assert len(rows) == 40
    np.testing.assert_array_equal(origin["trace"].values[0], weighted["trace"].values[rows])
    for name in ("mu", "x", "momentum", "z"):
        np.testing.assert_array_equal(drawn[name].values[0], weighted[name].values[rows])
    w = np.exp(post.log_weights())
    assert np.abs(np.bincount(rows, minlength=3) - 40 * w / w.sum()).max() < 1, "systematic: floor or ceil"
    assert tree["observed_data"]["y"].values.tolist() == [0.25, 0.75]
    assert tree["observed_data"]["o.k"].values.tolist() == 1.0
    assert (tree.attrs["seed"], tree.attrs["M"], tree.attrs["N"]) == (7, 2, 10)
    assert tree.attrs["version"]
    assert tree.identical(post.to_datatree(draws=40, seed=3))
    assert not tree["posterior"].identical(post.to_datatree(draws=40, seed=4)["posterior"])


def test_as_many_draws_as_are_effective() -> None:
    log_weights = np.random.default_rng(1).normal(0.0, 1.0, 500)
    post = posterior([Trace(i, float(w), samples=[Sample(X, w)]) for i, w in enumerate(log_weights)])
    assert post.to_datatree()["posterior"].sizes["draw"] == math.floor(ess(log_weights)) > 50
    one = posterior([Trace(0, 0.0, samples=[Sample(X, 1.0)]), Trace(1, -50.0, samples=[Sample(X, 2.0)])])
    assert one.to_datatree()["posterior"]["x"].values.tolist() == [[1.0]]
    for wrong, error in ((0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="draws must be"):
            post.to_datatree(draws=wrong)  # type: ignore[arg-type]


def test_without_weight_the_traces_are_there_and_the_posterior_is_empty(tmp_path: Path) -> None:
    none = posterior([Trace(0, -math.inf, samples=[Sample(X, 1.0)]), Trace(1, -math.inf, samples=[Sample(X, 2.0)])])
    without_budget = posterior([Trace(0, samples=[Sample(X, 1.0)], loops=[Loop(LOOP)])], runs_p=None, tries_q=None)
    for post, reason in (
        (none, "every weight is 0"),
        (posterior([]), "no traces"),
        (without_budget, 'no "ars" weights'),
    ):
        tree = post.to_datatree()
        assert tree["posterior"].sizes["draw"] == 0
        assert reason in tree["posterior"].attrs["empty"]
        assert tree["weighted_posterior"]["x"].values.tolist() == post["x"].tolist()
        with pytest.raises(ValueError, match=r"every weight is 0|no traces|did not make"):
            post.to_datatree(draws=5)
        for suffix in (".nc", ".csv", ".npz"):
            post.save(tmp_path / f"post{suffix}")
        assert Posterior.load(tmp_path / "post.nc")["x"].tobytes() == post["x"].tobytes()


def test_names_in_a_tree_do_not_clash(tmp_path: Path) -> None:
    sites = [
        *(latent(0, "x"), result(1, "x"), latent(2, "a/k"), latent(3, "b/k"), result(4, "v"), result(5, "draw")),
        *(latent(6, "trace"), latent(7, "v_instance"), latent(8, "log_weight_ars"), latent(9, "/"), latent(10, "c/d")),
        *(latent(11, "c.d"), latent(12, "chain"), latent(13, f"{'deep/' * 60}q"), latent(14, f"{'deep/' * 61}q")),
    ]
    samples = [Sample(site.id, float(site.id)) for site in sites if site.dist is not None]
    post = posterior([Trace(0, samples=samples, results=[(1, [1.0]), (4, [5.0]), (4, [6.0, 7.0]), (5, [5.0])])], sites)
    post.save(tmp_path / "post.nc")
    group = post.to_datatree()["posterior"]
    found = {str(name): group[name].values.ravel().tolist() for name in group.data_vars}
    np.testing.assert_array_equal(found.pop("v"), [5.0, math.nan, 6.0, 7.0])
    assert sorted(value for values in found.values() for value in values) == [0, 1, 2, 3, *range(5, 15)]
    assert (found["x"], found["x_latent"], found["a.k"], found["b.k"]) == ([1.0], [0.0], [2.0], [3.0])


def test_arviz_reads_the_tree(tmp_path: Path) -> None:
    az = arviz()
    post = posterior()
    post.save(tmp_path / "post.nc")
    for idata in (post.to_inferencedata(draws=9), az.from_netcdf(tmp_path / "post.nc")):
        assert {"posterior", "sample_stats", "observed_data", "weighted_posterior"} <= set(idata.groups())
        assert idata.posterior["mu"].dims == ("chain", "draw")
    assert post.to_inferencedata(draws=9).posterior.sizes["draw"] == 9


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    post = posterior()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "xarray", None)
        with pytest.raises(ImportError, match=r"pip install libars\[arviz\]"):
            post.to_datatree()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "pandas", None)
        with pytest.raises(ImportError, match="pip install pandas"):
            post.to_dataframe()
    az = arviz()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "arviz", None)
        with pytest.raises(ImportError, match="pip install 'arviz<1'"):
            post.to_inferencedata()
    with monkeypatch.context() as patch:
        patch.delattr(az, "InferenceData")
        with pytest.raises(ImportError, match="has no InferenceData: give it to_datatree"):
            post.to_inferencedata()


# ---- tables ----------------------------------------------------------------------------------------------------------


def test_titles() -> None:
    assert titles("x", 1, 1) == ["x"]
    assert titles("x", 3, 1) == ["x[0]", "x[1]", "x[2]"]
    assert titles("v", 1, 2) == ["v[0]", "v[1]"]
    assert titles("v", 2, 2) == ["v[0][0]", "v[0][1]", "v[1][0]", "v[1][1]"]


def test_every_format_has_every_instance_of_every_site(tmp_path: Path) -> None:
    traces = [*TRACES, Trace(2**64 - 1, -2.0, results=[(VEC, [5.0]), (VEC, [6.0, 7.0])])]
    for post, vectors in (
        (posterior(), ["momentum[0]", "momentum[1]"]),
        (posterior(traces), ["momentum[0][0]", "momentum[0][1]", "momentum[1][0]", "momentum[1][1]"]),
    ):
        frame = post.to_dataframe()
        weights = ["log_weight_ars", "log_weight_ic", "log_weight_biased"]
        assert list(frame) == ["trace", *weights, "mu", *vectors, "x[0]", "x[1]", "z"]
        assert frame["trace"].tolist() == post.columns.traces["trace"].tolist()
        for title in list(frame)[4:]:
            np.testing.assert_array_equal(frame[title], post[title], err_msg=f"{title} is a key")
        post.save(tmp_path / "post.csv")
        post.save(tmp_path / "post.npz")
        with (tmp_path / "post.csv").open(newline="") as file:
            rows = list(csv.reader(file))
        assert rows[0] == list(frame)
        np.testing.assert_array_equal(np.array(rows[1:], dtype=float), frame.to_numpy(dtype=float))
        assert [row[0] for row in rows[1:]] == [str(number) for number in frame["trace"]]
        with np.load(tmp_path / "post.npz", allow_pickle=False) as arrays:
            assert arrays.files == list(frame)
            for title in frame:
                np.testing.assert_array_equal(arrays[title], frame[title])


def test_names_in_a_table_do_not_clash(tmp_path: Path) -> None:
    sites = [
        *(latent(0, "x"), result(1, "x"), latent(2, "a/k"), latent(3, "b/k"), latent(4, "trace"), result(5, "file")),
        *(latent(6, "m"), latent(7, "m[1]"), result(8, "log_weight_ic"), latent(9, "c/x")),
    ]
    samples = [Sample(site.id, float(site.id)) for site in sites if site.dist is not None] + [Sample(6, 6.5, 1)]
    post = posterior([Trace(0, samples=samples, results=[(1, [1.0]), (5, [5.0]), (8, [8.0])])], sites)
    post.save(tmp_path / "post.npz")
    with np.load(tmp_path / "post.npz") as arrays:
        found = {name: arrays[name].item() for name in arrays.files}
    assert sorted(list(found.values())[4:]) == [0, 1, 2, 3, 4, 5, 6, 6.5, 7, 8, 9]
    expected = {"x": 1, "x_latent": 0, "c/x": 9, "a/k": 2, "b/k": 3, "file": 5, "m[0]": 6, "m[1]": 6.5}
    assert {name: found[name] for name in expected} == expected


# ---- summaries -------------------------------------------------------------------------------------------------------


def test_summaries_of_each_instance() -> None:
    rng = np.random.default_rng(4)
    traces = []
    for i in range(180):
        values = rng.normal(size=1 + i % 3)
        vectors = [(VEC, rng.normal(size=2).tolist()) for _ in range(1 + i % 2)]
        samples = [Sample(X, float(v), k) for k, v in enumerate(values)]
        traces.append(Trace(i, 0.1 * float(rng.normal()), samples=samples, results=vectors))
    post = posterior(traces)
    w = np.exp(post.log_weights())
    assert post["x"].shape == (180, 3)
    assert post["momentum"].shape == (180, 2, 2)
    means, vector_means = post.mean("x"), post.mean("momentum")
    assert np.shape(means) == np.shape(post.mean_error("x")) == (3,)
    assert np.shape(vector_means) == (2, 2)
    assert np.shape(post.quantile("momentum", [0.1, 0.5, 0.9])) == (2, 2, 3)
    for k in range(3):
        there = np.arange(180) % 3 >= k
        expected = np.sum(w[there] * post["x", k][there]) / w[there].sum()
        assert np.asarray(means)[k] == pytest.approx(expected)
        assert post.mean(("x", k)) == post.mean(f"x[{k}]") == pytest.approx(expected)
        assert np.asarray(post.quantile("x", 0.5))[k] == post.quantile(("x", k), 0.5)
        assert np.asarray(post.mean_error("x"))[k] == post.mean_error(("x", k))
    assert np.asarray(vector_means)[1, 0] == pytest.approx(float(post.mean("momentum[1][0]")))


def test_an_instance_that_only_weightless_traces_have_is_nan() -> None:
    post = posterior(
        [Trace(0, -math.inf, samples=[Sample(X, 1.0), Sample(X, 2.0, 1)]), Trace(1, 0.0, samples=[Sample(X, 3.0)])]
    )
    np.testing.assert_array_equal(post.mean("x"), [3.0, math.nan])
    np.testing.assert_array_equal(post.quantile("x", [0.1, 0.9]), [[3.0, 3.0], [math.nan, math.nan]])
    with pytest.raises(ValueError, match="every weight is 0"):
        post.mean("x[1]")
    nothing = posterior([Trace(0, -math.inf, samples=[Sample(X, 1.0), Sample(X, 2.0, 1)])])
    with pytest.raises(ValueError, match="every weight is 0"):
        nothing.mean("x")
