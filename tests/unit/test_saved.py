"""A posterior on disk: read back bit for bit, or refused with a reason."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray
from column_builder import Loop, Sample, Trace, Try, latent, loop_site, observation, pack, result

from ars.budget import Budget, ChosenBudget, Level, budget_to_json
from ars.columns import Columns
from ars.errors import StorageError
from ars.failures import Failure
from ars.posterior import Posterior, RunInfo
from ars.store import saved

X, Y, MU, LOOP = range(4)
SITES = [latent(X, "until/x"), observation(Y, "y"), result(MU, "mu"), loop_site(LOOP, "until")]
RUN = RunInfo(2**64 - 1, 2, 10, "proposal", "zero", ("./sim", "a b"), '{"x": "Normal(0, 1)"}')
ODD = np.array([0x7FF8_0000_0000_0BAD, 0x8000_0000_0000_0000, 0x0000_0000_0000_0001], np.uint64).view(np.float64)


def columns(failed: bool = True) -> Columns:
    """Every column has something in it, and numbers that a careless format would change."""
    traces = [
        Trace(
            2**63 + i,
            -1e5 + i / 3,
            samples=[Sample(X, 1e300 / (i + 1), k, loop=0, log_p=-0.1, params=(0.0, 1.0)) for k in range(i)],
            observes=[(Y, [])],
            results=[(MU, [float(x) for x in ODD[: 1 + i % 3]])],
            loops=[Loop(LOOP, tries_q=10, accepted_q=3, runs_p=2, tries_p=7, s_pq_sum=0.3 * i, tries=i + 1)],
            tries=[Try(LOOP, [Sample(X, 0.5, params=(2.0, 3.0))])],
        )
        for i in range(5)
    ]
    return pack([*traces, Trace(2**64 - 1, failure=1, text="gone: é")] if failed else traces)


def posterior(**changes: Any) -> Posterior:
    return Posterior(
        columns(),
        SITES,
        run=RUN._replace(**changes),
        stats={"seconds": 1 / 3, "requests": 12, "zmq_messages_received": 5, "odd": float("inf")},
        observed={"y": ODD, "image/a": np.arange(6.0).reshape(2, 3), "none": np.empty((0, 2)), "one": np.array(0.1)},
        stderr={2**64 - 1: "last words\n"},
        incidents=[Failure(-1, "lost_host", 0, "it was lost")],
    )


def assert_same(one: Posterior, other: Posterior) -> None:
    for name, mine, theirs in zip(Columns._fields, one.columns, other.columns, strict=True):
        assert mine.dtype == theirs.dtype, name
        assert mine.tobytes() == theirs.tobytes(), name
    for method in ("ars", "ic", "biased"):
        assert one.log_weights(method).tobytes() == other.log_weights(method).tobytes()
    for name in one:
        assert one[name].tobytes() == other[name].tobytes()
    assert one.observed.keys() == other.observed.keys()
    for name, given in one.observed.items():
        assert (given.shape, given.tobytes()) == (other.observed[name].shape, other.observed[name].tobytes())
    assert (one.sites, one.run, one.stats) == (other.sites, other.run, other.stats)
    assert [type(value) for value in one.stats.values()] == [type(value) for value in other.stats.values()]
    assert dict(one.failures) == dict(other.failures)
    assert (one.failures.examples, one.failures.incidents) == (other.failures.examples, other.failures.incidents)
    assert repr(one.loops) == repr(other.loops)
    assert one.summary() == other.summary()


@pytest.mark.parametrize("policy", ["zero", "skip"])
def test_a_file_gives_back_every_bit(tmp_path: Path, policy: str) -> None:
    post = posterior(on_failure=policy)
    post.save(tmp_path / "post.nc")
    back = Posterior.load(tmp_path / "post.nc")
    assert_same(post, back)
    assert back.failures.examples[0].stderr == "last words\n"
    assert back.columns.traces["trace"].dtype == np.uint64
    back.save(str(tmp_path / "again.nc"))
    assert_same(post, Posterior.load(str(tmp_path / "again.nc")))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.nc", "post.nc"]


def test_thousands_of_sites_fit(tmp_path: Path) -> None:
    """An attribute of HDF5 holds 64 kB; the table of sites can be longer."""
    sites = [*SITES, *(loop_site(i, f"a loop with a rather long address, number {i}") for i in range(4, 3000))]
    post = Posterior(columns(), sites, run=RUN, stats={}, observed={})
    post.save(tmp_path / "post.nc")
    assert Posterior.load(tmp_path / "post.nc").sites == tuple(sites)


def test_a_file_from_before_results_had_shapes_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such files have a log_p of results, always 0, where n_dims and reserved are now."""
    post, whole = posterior(), saved._fields

    def older(column: str, array: Any) -> Any:
        kept = [f for f in whole(column, array) if f[0] not in ("results.n_dims", "results.reserved")]
        return [*kept, ("results.log_p", np.zeros(len(array)))] if column == "results" else kept

    monkeypatch.setattr(saved, "_fields", older)
    post.save(tmp_path / "older.nc")
    assert_same(post, Posterior.load(tmp_path / "older.nc"))


@pytest.mark.parametrize("names", [("rewinds", "method", "reason", "detail", "pages", "s_pq_main"), ("s_pq_main",), ()])
def test_a_file_without_the_newer_fields_is_read(
    names: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files from before loops said how they were estimated; those fields are 0. From before s_pq_main, which is NaN
    then: 0 would be a measurement. And from before loops could be given up."""
    newer = [f"loops.{name}" for name in (*names, *saved._ABANDONED)]
    post = posterior()
    post.columns.loops["s_pq_main"] = np.nan
    whole = saved._fields
    monkeypatch.setattr(saved, "_fields", lambda column, array: [f for f in whole(column, array) if f[0] not in newer])
    post.save(tmp_path / "post.nc")
    monkeypatch.undo()
    assert not any(post.columns.loops[name].any() for name in names if name != "s_pq_main")
    assert_same(post, Posterior.load(tmp_path / "post.nc"))


def test_budget_and_exact_loops_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    levels = (Level(1, 0, 0.25, 1.5), Level(2, 3, 1 / 3, 4.0))
    for budget in (Budget(M=2, R=3), ChosenBudget(2, {SITES[LOOP].address: levels}, levels, 1.0, -2.5), None):
        post = posterior(budget=budget_to_json(budget), exact=(SITES[LOOP].address,), runs_p=None, tries_q=None)
        post.save(tmp_path / "post.nc")
        back = Posterior.load(tmp_path / "post.nc")
        assert_same(post, back)
        assert back.budget == budget and back.run.exact == (SITES[LOOP].address,)
    # a file of an earlier version has M and N alone
    older = {name: value for name, value in RUN._asdict().items() if name not in ("budget", "exact")}
    monkeypatch.setattr(RunInfo, "_asdict", lambda _: older)
    posterior().save(tmp_path / "older.nc")
    back = Posterior.load(tmp_path / "older.nc")
    assert_same(posterior(), back)
    assert (back.run, back.budget) == (RUN, Budget(M=2, N=10))
    monkeypatch.setattr(RunInfo, "_asdict", lambda _: older | {"budget": '{"kind": "odd"}'})
    posterior().save(tmp_path / "odd.nc")
    with pytest.raises(StorageError, match=r"odd\.nc is damaged, or of another version .*not a budget"):
        Posterior.load(tmp_path / "odd.nc")


# ---- files that are not right ----------------------------------------------------------------------------------------


def _changed(path: Path, **attributes: Any) -> None:
    with xarray.open_datatree(path, decode_cf=False) as tree:
        copy = tree.load()
    copy["ars_columns"].attrs.update(attributes)
    copy.to_netcdf(path)


def test_damage_is_noticed_wherever_it_is(tmp_path: Path) -> None:
    posterior().save(tmp_path / "post.nc")
    whole = (tmp_path / "post.nc").read_bytes()
    damaged = tmp_path / "damaged.nc"
    for name in ("samples.value", "traces.log_likelihood", "observed"):
        with xarray.open_dataset(tmp_path / "post.nc", group="ars_columns", decode_cf=False) as group:
            raw = group[name].values.tobytes()
        at = [i for i in range(len(whole)) if whole.startswith(raw, i)]
        assert at, name
        for place in at:  # the same bytes may be there for ArviZ too
            whole_again = bytearray(whole)
            whole_again[place] ^= 1
            damaged.write_bytes(whole_again)
            try:
                Posterior.load(damaged)
            except StorageError as error:
                assert "does not have the right checksum" in str(error)  # noqa: PT017
                break
        else:
            pytest.fail(f"a flipped bit in {name} was not noticed")
    for size in (0, 5, 100, len(whole) // 2, len(whole) - 100):
        damaged.write_bytes(whole[:size])
        with pytest.raises(StorageError, match=r"damaged\.nc is damaged"):
            Posterior.load(damaged)


def test_files_of_others_and_of_other_versions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "post.nc"
    posterior().save(path)
    shutil.copy(path, tmp_path / "newer.nc")
    _changed(tmp_path / "newer.nc", version=2, libars="9.9.9")
    with pytest.raises(
        StorageError, match=r"version 2 of the format, written by libars 9\.9\.9; this is libars \S+, wh"
    ):
        Posterior.load(tmp_path / "newer.nc")
    _changed(path, format="something")
    with pytest.raises(StorageError, match="was not written by libars"):
        Posterior.load(path)
    posterior().to_datatree().to_netcdf(tmp_path / "tree.nc")
    with pytest.raises(StorageError, match=r"not written by post\.save or ars infer --out of this version"):
        Posterior.load(tmp_path / "tree.nc")
    (tmp_path / "text.nc").write_text("x,y\n1,2\n")
    with pytest.raises(StorageError, match="not a netCDF-4 file"):
        Posterior.load(tmp_path / "text.nc")
    with pytest.raises(StorageError, match="does not exist"):
        Posterior.load(tmp_path / "nowhere.nc")
    with pytest.raises(StorageError, match="does not exist, or is not a file"):
        Posterior.load(tmp_path)
    posterior().save(tmp_path / "post.csv")
    with pytest.raises(StorageError, match=r"only \.nc files hold all of a run"):
        Posterior.load(tmp_path / "post.csv")


# ---- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".nc", ".csv", ".npz"])
def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"post{suffix}"
    path.write_bytes(b"before")

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(StorageError, match=r"the disk is full\. A file that was there is unchanged"):
            posterior().save(path)
    assert path.read_bytes() == b"before"
    posterior().save(path)
    assert path.read_bytes() != b"before"
    assert (path.stat().st_mode & 0o777) == 0o666 & ~_umask()
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    with pytest.raises(StorageError, match="could not be written: No such file or directory"):
        posterior().save(tmp_path / "nowhere" / path.name)


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def test_what_cannot_be_written_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"must end in \.nc, \.npz, \.csv"):
        posterior().save(tmp_path / "post.json")
    real = importlib.util.find_spec
    for missing, needed in ((("netCDF4", "h5netcdf"), "netCDF4 or h5netcdf"), (("xarray",), "xarray")):
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name, *more, m=missing: None if name in m else real(name, *more)
        )
        with pytest.raises(ImportError, match=f"a .nc file needs {needed}"):
            posterior().save(tmp_path / "post.nc")
    assert list(tmp_path.iterdir()) == []
