"""Data against prior predictive draws: false alarms at the rate that was asked for, and names of what stands out."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ars.results.data_check import check_data, least_draws

Drawn = dict[str, np.ndarray]


def chain(rng: np.random.Generator, n: int) -> Drawn:
    """Two numbers that go together, and a vector that depends on them."""
    z = rng.normal(size=n)
    first, second = z + 0.1 * rng.normal(size=n), z + 0.1 * rng.normal(size=n)
    return {"first": first, "second": second, "series": z[:, None] + rng.normal(size=(n, 6))}


def counts(rng: np.random.Generator, n: int) -> Drawn:
    """Poisson counts with a common rate, heavy tails, and a number that is always 0."""
    rate = rng.gamma(2.0, 2.0, n)
    return {
        "hits": rng.poisson(rate[:, None], (n, 5)).astype(float),
        "tail": rng.standard_cauchy(n),
        "flag": np.zeros(n),
    }


def modes(rng: np.random.Generator, n: int) -> Drawn:
    side = np.where(rng.random(n) < 0.5, -6.0, 6.0)
    return {"x": side + rng.normal(size=n), "y": side + rng.normal(size=n)}


def row(drawn: Drawn, i: int) -> Drawn:
    return {name: np.asarray(values[i]) for name, values in drawn.items()}


def others(drawn: Drawn, i: int) -> Drawn:
    return {name: np.delete(values, i, axis=0) for name, values in drawn.items()}


@pytest.mark.parametrize("model", [chain, counts, modes])
def test_false_alarms_come_at_the_rate_that_was_asked_for(model: object) -> None:
    """Data from the model itself. Uniform p-values; 10% alarms within four standard errors."""
    rng = np.random.default_rng(11)
    runs, level = 300, 0.1
    p = np.empty(runs)
    for i in range(runs):
        drawn = model(rng, 201)  # type: ignore[operator]
        p[i] = check_data(row(drawn, -1), others(drawn, -1), level=level).p_value
    rate = np.mean(p <= level)
    assert rate <= level + 4 * np.sqrt(level * (1 - level) / runs)
    assert rate >= level - 4 * np.sqrt(level * (1 - level) / runs), "a check that never alarms checks nothing"
    assert abs(p.mean() - 0.5) < 4 * np.sqrt(1 / 12 / runs) + 0.02


def test_a_shifted_number_is_named() -> None:
    drawn = chain(np.random.default_rng(1), 1000)
    data = {"first": np.array(0.2), "second": np.array(0.1), "series": np.array([0.0, 1.0, -9.0, 0.3, 0.0, 0.1])}
    found = check_data(data, drawn)
    assert found.alarm and found.p_value <= 0.01
    assert [each.label for each in found.stands_out] == ["series[2]"]
    assert not found.stands_out[0].given_rest and found.stands_out[0].beyond < 1e-3
    assert "series[2] = -9" in found.sentence() and "unlike" in str(found)
    assert found.stands_out[0].low == pytest.approx(np.quantile(drawn["series"][:500, 2], 0.01))


def test_numbers_that_do_not_go_together_are_named() -> None:
    """Each is common alone: only the relation between them is broken."""
    found = check_data(
        {"first": np.array(1.0), "second": np.array(-0.3), "series": np.zeros(6)}, chain(np.random.default_rng(2), 1000)
    )
    assert found.alarm and found.scores["alone"] > 0.05
    assert {each.name for each in found.stands_out} <= {"first", "second"} and found.stands_out[0].given_rest
    assert "is unusual given the other values" in found.sentence()


def test_data_between_modes_stand_out() -> None:
    found = check_data({"x": np.array(0.0), "y": np.array(0.0)}, modes(np.random.default_rng(3), 1000))
    assert found.alarm and found.scores["near"] < 0.01 < found.scores["alone"]
    assert found.stands_out == () and "together they are unusual" in found.sentence()


def test_data_without_noise_stand_out() -> None:
    """Every number is the most likely one, which data never are."""
    rng = np.random.default_rng(12)
    found = check_data({"v": np.zeros(30)}, {"v": rng.normal(size=(1000, 30))})
    assert found.alarm and found.scores["close"] < 0.01 and "vary less than draws do" in found.sentence()


def test_a_number_that_never_varies() -> None:
    drawn = counts(np.random.default_rng(4), 1000)
    data = {"hits": np.full(5, 3.0), "tail": np.array(0.0), "flag": np.array(0.0)}
    assert not check_data(data, drawn).alarm
    found = check_data({**data, "flag": np.array(1.0)}, drawn)
    assert found.alarm and [each.label for each in found.stands_out] == ["flag"]
    assert found.stands_out[0].beyond == 0.0


def test_counts_and_heavy_tails() -> None:
    drawn = counts(np.random.default_rng(5), 1000)
    data = {"hits": np.array([3.0, 2.0, 60.0, 4.0, 3.0]), "tail": np.array(30.0), "flag": np.array(0.0)}
    found = check_data(data, drawn)
    assert [each.label for each in found.stands_out] == ["hits[2]"], "30 is nothing for a Cauchy variable"


def test_what_was_not_observed_is_skipped() -> None:
    drawn = chain(np.random.default_rng(6), 1000)
    series = np.array([0.0, np.nan, 0.1, np.nan, -0.4, 0.0])
    found = check_data({"first": np.array(0.2), "second": np.array(np.nan), "series": series}, drawn)
    assert not found.alarm and (found.compared, found.skipped) == (5, 3)
    series[4] = 12.0
    assert [each.label for each in check_data({"series": series}, drawn).stands_out] == ["series[4]"]
    with pytest.raises(ValueError, match="nothing in the data was observed"):
        check_data({"first": np.array(np.nan)}, drawn)


def test_matrices_are_indexed_as_they_were_given() -> None:
    drawn = chain(np.random.default_rng(7), 1000)
    data = np.zeros((2, 3))
    data[1, 0] = 11.0
    assert [each.label for each in check_data({"series": data}, drawn).stands_out] == ["series[1][0]"]


def test_draws_that_lack_a_number_do_not_count_for_it() -> None:
    """Half of the draws have a shorter series."""
    drawn = chain(np.random.default_rng(8), 2000)
    drawn["series"][::2, 4:] = np.nan
    data = {"series": np.array([0.0, 0.1, 0.2, 0.0, 0.1, 14.0])}
    assert [each.label for each in check_data(data, drawn).stands_out] == ["series[5]"]


def test_a_number_that_few_draws_have() -> None:
    """None of the reference, and infinite draws count as missing: no reason to stumble. None at all: an error."""
    drawn = chain(np.random.default_rng(13), 1000)
    drawn["series"][:900, 5] = np.nan
    drawn["series"][901:, 5] = np.inf
    found = check_data({"series": np.zeros(6) + 0.1}, drawn)
    assert found.scores["alone"] < 0.01, "one draw in a thousand has a sixth number"
    json.dumps(found.to_dict(), allow_nan=False)
    assert check_data({"series": np.zeros(5) + 0.1}, drawn).scores["alone"] > 0.5
    drawn["series"][900, 5] = np.nan
    with pytest.raises(ValueError, match=r"no draw has a finite series\[5\]"):
        check_data({"series": np.zeros(6)}, drawn)


def test_wrong_input_is_named() -> None:
    drawn = chain(np.random.default_rng(9), 1000)
    with pytest.raises(ValueError, match=r'no "third".*it observed "first", "second", "series"'):
        check_data({"third": np.array(0.0)}, drawn)
    with pytest.raises(ValueError, match=r"observe\['series'\] has 7 numbers.*at most 6"):
        check_data({"series": np.zeros(7)}, drawn)
    with pytest.raises(ValueError, match=r"500 draws.*too few.*0.01.*800 draws"):
        check_data({"first": np.array(0.0)}, {"first": drawn["first"][:500]})
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        check_data({"first": np.array(0.0)}, drawn, level=1.0)
    with pytest.raises(TypeError, match="level must be a number between 0 and 1, not 'low'"):
        check_data({"first": np.array(0.0)}, drawn, level="low")  # type: ignore[arg-type]
    assert least_draws(0.01) == 800 and least_draws(0.5) == 40


def test_a_check_is_json() -> None:
    drawn = chain(np.random.default_rng(10), 1000)
    found = json.loads(json.dumps(check_data({"series": np.full(6, 9.0)}, drawn).to_dict(), allow_nan=False))
    assert found["alarm"] is True and found["stands_out"][0]["name"] == "series"
    assert len(found["stands_out"]) == 6 and "and 3 more" in found["sentence"]
