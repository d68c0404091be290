"""Results with shapes: from C++ containers through the wire to arrays, tables, trees and files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from build_helpers import COMPILERS, Builder, Variant

import ars

SOURCE = Path(__file__).resolve().parent / "shapes" / "shapes.cpp"
TRACES = 60
Floats = npt.NDArray[np.float64]
Start = Callable[..., ars.Simulator]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    builder = Builder(tmp_path_factory.mktemp("shapes"))
    return builder.program([SOURCE], Variant(COMPILERS[0], ("-O2", "-std=c++11")))


@pytest.fixture
def start(program: Path, started: Callable[[ars.Simulator], ars.Simulator]) -> Start:
    return lambda *arguments: started(ars.Simulator([str(program), *arguments], workers=2))


@pytest.fixture
def post(start: Start) -> ars.Posterior:
    return start().posterior(observe={"y": 0.3}, traces=TRACES, seed=3)


def cube(x: Floats) -> Floats:
    return x[:, None, None, None] + np.arange(24.0).reshape(2, 3, 4)


def test_results_have_their_shapes(post: ars.Posterior) -> None:
    x, k = post["x"], post["k"].astype(int)
    assert post["matrix"].shape == (TRACES, 2, 3)
    assert np.array_equal(post["matrix"][:, 0], np.stack([x, np.full(TRACES, 1), np.full(TRACES, 2)], axis=1))
    assert np.array_equal(post["matrix"][:, 1, 2], 5 + x)
    assert np.array_equal(post["cube"], cube(x))
    assert np.array_equal(post["column"], cube(x)[:, 0, :1].reshape(TRACES, 4)[:, :3, None])
    assert np.array_equal(post["number"], x)
    assert post["none"].shape == (TRACES, 0, 3)
    assert post["twice"].shape == (TRACES, 2, 2, 2)
    assert np.array_equal(post["twice"][:, 1], cube(x).reshape(TRACES, 24)[:, 1:5].reshape(TRACES, 2, 2))
    # Ragged ones are padded with NaN to the longest axis; results of different numbers of axes lie in a row.
    assert k.max() > 2
    assert post["points"].shape == (TRACES, k.max(), 2)
    for row in range(TRACES):
        wanted = x[row] + np.arange(2.0 * k[row]).reshape(-1, 2)
        assert np.array_equal(post["points"][row, : k[row]], wanted)
        assert np.isnan(post["points"][row, k[row] :]).all()
        assert np.array_equal(
            post["either"][row],
            np.where(np.arange(4) < (4 if k[row] > 1 else 2), x[row] + np.arange(4), np.nan),
            equal_nan=True,
        )


def test_elements_estimates_and_summaries(post: ars.Posterior) -> None:
    assert np.array_equal(post["cube[1,2,0]"], post["cube"][:, 1, 2, 0])
    assert np.array_equal(post["twice[1][0,1]"], post["twice"][:, 1, 0, 1])
    assert np.isnan(post["cube[1,3,0]"]).all()
    with pytest.raises(KeyError, match=r'"cube" has no 2 axes'):
        post["cube[1,2]"]
    mean = post.mean("cube")
    assert isinstance(mean, np.ndarray) and mean.shape == (2, 3, 4)
    np.testing.assert_allclose(mean, post.mean("x") + np.arange(24.0).reshape(2, 3, 4), rtol=1e-12)
    assert np.shape(post.mean("none")) == (0, 3)
    assert post.summary()
    post.diagnostics()


def test_tables_and_trees_keep_the_shape(post: ars.Posterior, tmp_path: Path) -> None:
    post.save(tmp_path / "post.csv")
    header = (tmp_path / "post.csv").read_text().splitlines()[0]
    assert '"cube[1,2,3]"' in header and '"twice[1][1,0]"' in header and '"matrix[0,2]"' in header
    post.save(tmp_path / "post.npz")
    with np.load(tmp_path / "post.npz") as arrays:
        assert np.array_equal(arrays["cube[1,2,3]"], post["cube"][:, 1, 2, 3])
    pytest.importorskip("xarray")
    tree = post.to_datatree(draws=10, seed=1)
    weighted = tree["weighted_posterior"].to_dataset()
    assert weighted["cube"].dims == ("trace", "cube_dim_0", "cube_dim_1", "cube_dim_2")
    assert weighted["twice"].dims == ("trace", "twice_instance", "twice_dim_0", "twice_dim_1")
    assert weighted["column"].shape == (TRACES, 3, 1)
    assert np.array_equal(weighted["cube"].values, post["cube"])
    assert tree["posterior"]["cube"].shape == (1, 10, 2, 3, 4)


def test_files_and_parts_keep_every_bit(post: ars.Posterior, start: Start, tmp_path: Path) -> None:
    pytest.importorskip("h5netcdf")
    post.save(tmp_path / "post.nc")
    sim = start()
    parts = [sim.posterior(observe={"y": 0.3}, traces=TRACES // 2, first_trace=i, seed=3) for i in (0, TRACES // 2)]
    resumed = sim.posterior(observe={"y": 0.3}, traces=TRACES, seed=3, resume=tmp_path / "run")
    again = sim.posterior(observe={"y": 0.3}, traces=TRACES, seed=3, resume=tmp_path / "run")
    for other in (ars.Posterior.load(tmp_path / "post.nc"), ars.Posterior.concat(parts), resumed, again):
        for name in ("matrix", "cube", "points", "either", "none", "twice", "number"):
            assert other[name].shape == post[name].shape, name
            assert other[name].tobytes() == post[name].tobytes(), name


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("null", r'ars_results_shaped\("bad"\): shape is NULL, must point to 2 lengths'),
        ("axes", r'ars_results_shaped\("bad"\): 40 axes, at most 32 are allowed'),
        ("nan", r'the result "bad" is NaN \(element 1 of 2\)'),
        ("large", r'ars_results_shaped\("bad"\): the shape has 1\.2.*e\+24 elements'),
    ],
)
def test_mistakes_are_named(start: Start, mistake: str, message: str) -> None:
    with pytest.raises(ars.ArsError, match=message):
        start(mistake).prior(10, seed=1)
