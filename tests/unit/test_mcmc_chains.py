"""Chains: convergence as ArviZ has it, what is kept of a run, values by name, words and files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from column_builder import Loop, Sample, Trace, pack

import ars
from ars.failures import Failures
from ars.mcmc import convergence
from ars.mcmc.chains import Acceptance
from ars.mcmc.history import History
from ars.mcmc.moves import Scales
from ars.mcmc.options import ChainOptions
from ars.mcmc.start import runs_per_entry
from ars.mcmc.summary import assess, document

arviz = pytest.importorskip("arviz")


def walks(chains: int, draws: int, rho: float, seed: int = 0) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=(chains, draws))
    for t in range(1, draws):
        x[:, t] += rho * x[:, t - 1]
    return x


# ---- convergence -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draws", [4, 5, 8, 9, 50, 301])
@pytest.mark.parametrize("rho", [0.0, 0.6, 0.97, -0.7])
@pytest.mark.parametrize("chains", [1, 3])
def test_convergence_is_that_of_arviz(draws: int, rho: float, chains: int) -> None:
    x = walks(chains, draws, rho, seed=draws)
    for values in (x, np.round(x), np.exp(x)):  # ties, and a heavy tail
        for kind, ours in (
            ("bulk", convergence.ess_bulk),
            ("tail", convergence.ess_tail),
            ("mean", convergence.ess_mean),
        ):
            assert ours(values) == pytest.approx(float(arviz.ess(values, method=kind)), rel=1e-9)
        assert convergence.mcse_mean(values) == pytest.approx(float(arviz.mcse(values)), rel=1e-9)
        if chains > 1:
            assert convergence.rhat(values) == pytest.approx(float(arviz.rhat(values)), rel=1e-9)


def test_convergence_has_no_opinion_about_what_is_not_there() -> None:
    short, missing = np.zeros((4, 3)), np.full((4, 100), math.nan)
    for values in (short, missing):
        for function in (convergence.rhat, convergence.ess_bulk, convergence.ess_tail, convergence.mcse_mean):
            assert math.isnan(function(values))
    assert convergence.rhat(np.ones((4, 100))) == 1.0
    assert convergence.rhat(np.repeat([[0.0], [1.0]], 100, axis=1)) > 1e6
    with pytest.raises(ValueError, match="chains x draws"):
        convergence.rhat(np.zeros(10))


# ---- the history -----------------------------------------------------------------------------------------------------


def test_the_history_keeps_what_steps_need_and_no_more() -> None:
    rng = np.random.default_rng(3)
    history, present, expected = History(2), [0, 1], []
    history.add(_traces(0, 2), present)
    number = 2
    for step in range(400):
        accepted = [chain for chain in range(2) if rng.random() < 0.2]
        for chain in accepted:
            present[chain] = number + chain
        history.add(_traces(number, 2), [present[chain] for chain in accepted])
        number += 2
        if step == 100:
            history.forget(present)
        if step >= 100 and step % 3 == 0:
            history.record(list(present))
            expected.append(list(present))
        history.tidy(present)
    found, rows = history.finished()
    assert found.traces["trace"][rows].T.tolist() == expected
    assert found.samples["value"][rows].T.tolist() == expected  # the traces' own items
    assert len(found.traces) < 250  # of 800


def _traces(first: int, n: int) -> Any:
    return pack([Trace(i, samples=[Sample(0, value=float(i))]) for i in range(first, first + n)])


# ---- chains ----------------------------------------------------------------------------------------------------------


def chains(x: np.ndarray | None = None, **more: np.ndarray) -> ars.Chains:
    values = {"x": walks(4, 500, 0.2) if x is None else x, **more}
    return ars.Chains(
        values,
        {name: f"loop/{name}" for name in values},
        observed={"y": np.array([0.5, 1.0])},
        acceptance={
            ("walk", "x"): Acceptance(10, 4),
            ("walk", "z"): Acceptance(10, 6),
            ("redraw", "x"): Acceptance(5, 0),
        },
        failures=Failures(),
        about={"seed": 1, "warmup": 100, "thin": 2, "M": 3, "traces": 1000, "simulator": "sim"},
        trace_numbers=np.arange(len(values["x"]) * 500, dtype=np.uint64).reshape(-1, 500),
    )


def test_values_by_name_address_and_element() -> None:
    v = np.random.default_rng(1).normal(size=(4, 500, 3))
    found = chains(v=v)
    assert found.shape == (4, 500)
    assert len(found) == 2000
    assert list(found) == ["x", "v"]
    np.testing.assert_array_equal(found["v[2]"], v[:, :, 2])
    np.testing.assert_array_equal(found["v", 2], v[:, :, 2])
    np.testing.assert_array_equal(found["loop/v"], v)
    np.testing.assert_array_equal(found["x[0]"], found["x"])
    assert "x" in found
    assert "nothing" not in found
    for wrong in ("w", "v[3]", "x[1]", ("v", 7)):
        with pytest.raises(KeyError):
            found[wrong]  # type: ignore[index]
    assert found.mean("x") == pytest.approx(float(found["x"].mean()))
    np.testing.assert_allclose(found.mean("v"), v.mean(axis=(0, 1)))
    assert np.shape(found.rhat("v")) == (3,)
    assert found.quantile("x", 0.5) == pytest.approx(float(np.median(found["x"])))
    assert found.std("x") == pytest.approx(float(found["x"].std(ddof=1)))
    assert found.ess("x", "tail") == convergence.ess_tail(found["x"])
    with pytest.raises(ValueError, match="kind must be"):
        found.ess("x", "head")
    for q, error in ((2.0, ValueError), (math.nan, ValueError), ("half", TypeError)):
        with pytest.raises(error, match=r"q must be .*from 0 to 1, not"):
            found.quantile("x", q)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"a key is a name, such as 'x', .*, not 5"):
        found.mean(5)  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="'w' was not recorded; the names are: v, x"):
        found.address("w")


def test_acceptance_by_kind_and_by_latent() -> None:
    found = chains()
    assert found.acceptance["walk"] == (20, 10)
    assert found.acceptance["walk"].share == 0.5
    assert found.acceptance_by_latent["walk", "z"].share == 0.6
    assert math.isnan(Acceptance(0, 0).share)


def test_the_verdict() -> None:
    good = chains()
    assert good.trusted
    assert "TRUSTED: the chains have mixed" in good.summary()
    apart = walks(4, 500, 0.2) + np.arange(4)[:, None]
    bad = chains(apart)
    assert not bad.trusted
    assert "NOT TRUSTED: the chains have not mixed: R-hat of x is" in bad.summary()
    assert "steps=" in bad.summary()
    short = chains(walks(4, 500, 0.95))
    assert "ESS of x" in short.summary()
    sometimes = np.where(np.arange(500) % 2 == 0, walks(4, 500, 0.0), math.nan)
    assert chains(z=sometimes).trusted  # what only some draws have does not count
    assert "in 50% of the draws" in chains(z=sometimes).summary()
    assert "one chain cannot show" in chains(walks(1, 500, 0.0)).summary()


def test_the_document_is_plain_json() -> None:
    found = document(chains(z=np.full((4, 500), math.nan)))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["trusted"] is True
    assert found["values"][1]["mean"] is None
    assert found["acceptance"]["walk"]["share"] == 0.5


def test_files_give_back_what_was_saved(tmp_path: Path) -> None:
    whole = chains(v=np.random.default_rng(1).normal(size=(4, 500, 3)))
    whole.save(tmp_path / "chains.nc")
    back = ars.Chains.load(tmp_path / "chains.nc")
    for name in whole:
        np.testing.assert_array_equal(back[name], whole[name])
        assert back.address(name) == whole.address(name)
    assert back.about == whole.about
    assert back.acceptance_by_latent == whole.acceptance_by_latent
    assert assess(back) == assess(whole)
    np.testing.assert_array_equal(back.observed["y"], [0.5, 1.0])
    tree = whole.to_datatree()
    assert tree["posterior"]["v"].dims == ("chain", "draw", "v_dim_0")
    assert float(arviz.rhat(tree["posterior"].to_dataset())["x"]) == pytest.approx(whole.rhat("x"))


def test_files_that_are_not_chains_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must end in \.nc"):
        chains().save(tmp_path / "chains.txt")
    with pytest.raises(ars.StorageError, match="does not exist"):
        ars.Chains.load(tmp_path / "no.nc")
    (tmp_path / "junk.nc").write_bytes(b"junk" * 100)
    with pytest.raises(ars.StorageError, match="damaged"):
        ars.Chains.load(tmp_path / "junk.nc")
    arviz.from_dict({"x": np.zeros((1, 3))}).to_netcdf(str(tmp_path / "other.nc"))
    with pytest.raises(ars.StorageError, match="not written by"):
        ars.Chains.load(tmp_path / "other.nc")


# ---- options, scales and runs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps must be from 1"),
        ({"steps": 1.5}, "steps must be an integer"),
        ({"chains": 0}, "chains must be from 1"),
        ({"warmup": -1}, "warmup must be from 0"),
        ({"thin": 0}, "thin must be from 1"),
        ({"M": 0}, "M must be from 1"),
        ({"blocks": "xu"}, "blocks must be a list of groups"),
        ({"blocks": ["xu"]}, "a group is a list of names"),
        ({"blocks": [[]]}, "a group is a list of names"),
        ({"blocks": [[3]]}, "names of latents are text"),
        ({"on_failure": "ignore"}, "on_failure must be"),
        ({"proposals": [1]}, "proposals must map"),
        ({"network": object(), "proposals": {"x": ars.Normal(0, 1)}}, "not both"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        ChainOptions(**{"data": {}, "steps": 10, **options})


def test_the_warm_up_is_half_of_the_steps() -> None:
    assert ChainOptions({}, 1000).warmup_steps == 500
    assert ChainOptions({}, 10).warmup_steps == 100
    assert ChainOptions({}, 10, warmup=0).warmup_steps == 0


def test_scales_come_to_the_acceptance_that_is_aimed_at() -> None:
    scales = Scales(0.44)
    scales.start("x", 1.0)
    for _ in range(2000):  # a walk of size s is accepted with probability 1 / (1 + s)
        scales.learn("x", 1.0 / (1.0 + scales.of("x")))
    assert 1.0 / (1.0 + scales.of("x")) == pytest.approx(0.44, abs=0.01)


def test_loops_that_reject_more_get_more_runs() -> None:
    def runs(tries: int, entries: int) -> int:
        traces = [Trace(i, loops=[Loop(1, tries=tries) for _ in range(entries)]) for i in range(20)]
        return runs_per_entry(pack(traces), np.zeros(20))

    assert runs(1, 1) == 2
    assert runs(2, 1) == 2  # (1 - 1/2) / 0.25
    assert runs(10, 1) == 4
    assert runs(10, 5) == 18
    assert runs(10, 500) == 50
    assert runs_per_entry(_traces(0, 5), np.zeros(5)) == 2
