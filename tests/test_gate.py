"""The gate: decisions by hand and by brute force, the bootstrap, and what must be refused."""

import itertools
import json
import warnings

import numpy as np
import pandas as pd
import pytest

from causalrag import gate
from causalrag.evaluate import paired_difference
from causalrag.gate.bootstrap import _draws, _means, _sign_flip_p

RNG = np.random.default_rng(4)
MIXED = np.round(RNG.normal(0.04, 0.2, 120), 2) * (RNG.random(120) < 0.6)


def brute_force_p(gains):
    """The two-sided sign-flip p-value, from all sign vectors."""
    signs = np.array(list(itertools.product([1, -1], repeat=len(gains))))
    sums = np.abs(signs @ np.asarray(gains))
    return float((sums >= abs(np.sum(gains)) - 1e-12).mean())


# decide


def test_six_probes_of_one_sign_decide_and_five_do_not():
    gains = [0.1, 0.2, 0.05, 0.3, 0.1, 0.2]
    on, off = gate.decide(gains), gate.decide(np.negative(gains))
    assert (on.decision, on.enabled, on.n, on.level) == ("enable", True, 6, 0.95)
    assert (off.decision, off.enabled) == ("disable", False)
    assert on.p == off.p == 2 / 2**6
    assert on.value == pytest.approx(np.mean(gains))
    assert 0 < on.low <= on.value <= on.high
    assert off.high < 0
    few = gate.decide(gains[:5])
    assert (few.decision, few.enabled) == ("abstain", False)
    assert "5 probes cannot decide at level 0.95 whatever their gains; at least 6 can" in few.reason


@pytest.mark.parametrize("seed", range(8))
def test_the_decision_is_that_of_all_sign_flips(seed):
    rng = np.random.default_rng(seed)
    gains = np.round(rng.normal(0.1 * (seed % 3 - 1), 0.15, 9), 2)
    p = brute_force_p(gains)
    found = gate.decide(gains)
    assert found.p == pytest.approx(p)
    sign = "enable" if gains.mean() > 0 else "disable"
    assert found.decision == (sign if p < 0.05 else "abstain")
    assert (found.decision != "abstain") == (found.low > 0 or found.high < 0)


@pytest.mark.parametrize("n", [6, 20, 21, 120])
def test_interval_and_p_value_are_those_of_the_paired_difference(n):
    gains = MIXED[:n]
    found, want = (
        gate.decide(gains, 0.9),
        paired_difference(gains, 0, 0.9, interval="randomisation"),
    )
    assert (found.value, found.low, found.high, found.p) == (
        want.value,
        want.low,
        want.high,
        want.p,
    )


def test_a_gain_that_is_not_told_from_zero_abstains_and_keeps_the_baseline():
    found = gate.decide([0.3, -0.2, 0.1, -0.3, 0.2, 0.1, -0.1, 0.0])
    assert (found.decision, found.enabled) == ("abstain", False)
    assert found.low < 0 < found.high
    assert "is not told from zero at level 0.95" in found.reason


def test_the_level_decides_how_much_is_asked_of_the_probes():
    gains = [0.1, 0.2, 0.1, 0.3, 0.2, 0.1]
    assert gate.decide(gains, 0.9).decision == "enable"
    assert gate.decide(gains, 0.99).decision == "abstain"
    assert [gate.fewest_probes(level) for level in (0.5, 0.9, 0.95, 0.99)] == [3, 5, 6, 8]


def test_a_level_that_random_flips_cannot_reach_is_said_so():
    found = gate.decide(np.full(30, 0.1), 0.99999)
    assert found.decision == "abstain"
    assert "10000 random sign flips cannot tell at level 0.99999" in found.reason
    assert gate.decide(np.full(20, 0.1), 0.99999).decision == "enable"


# Hard case 29: 0 probes, 1 probe, all ties, n_probes > n.


def test_hard_case_29_no_probe_is_refused():
    for function in (gate.decide, gate.probes_needed, lambda gains: gate.reliability(gains, 1)):
        with pytest.raises(ValueError, match="0 probes decide nothing; label at least one"):
            function([])


@pytest.mark.parametrize("gain", [0.9, -0.9, 0.0])
def test_hard_case_29_one_probe_abstains_for_it_has_no_spread(gain):
    found = gate.decide([gain])
    assert (found.decision, found.enabled) == ("abstain", False)
    assert (found.low, found.high, found.p) == (-np.inf, np.inf, 1.0)
    assert "one probe has no spread" in found.reason
    # The paper's bootstrap of it is sure of itself; here it is a share and no licence.
    assert gate.reliability([gain], 1) == 1.0


@pytest.mark.parametrize("n", [2, 6, 25])
def test_hard_case_29_all_ties_abstain(n):
    found = gate.decide(np.zeros(n))
    assert (found.decision, found.enabled, found.value, found.p) == ("abstain", False, 0.0, 1.0)
    assert f"all {n} probes tie" in found.reason


@pytest.mark.parametrize(
    ("n_probes", "remedy"), [(0, "at least 1"), (-1, "at least 1"), (4, "1 to 3")]
)
def test_hard_case_29_more_probes_than_gains_are_refused_and_none_too(n_probes, remedy):
    for function in (gate.reliability, gate.outcomes):
        with pytest.raises(ValueError, match=f"n_probes is {n_probes}; give {remedy}"):
            function([0.1, 0.2, 0.3], n_probes)


# Hard case 28: an arm that never ran.


def test_hard_case_28_gains_of_an_arm_that_never_ran_are_never_a_decision():
    never_ran = pd.Series([np.nan] * 8)
    with pytest.raises(ValueError, match="gains is nan at row 0; drop such rows"):
        gate.decide(never_ran)
    with pytest.raises(ValueError, match="gains is nan"):
        gate.reliability(never_ran, 4)
    with pytest.raises(ValueError, match="0 probes"):
        gate.decide(never_ran.dropna())


@pytest.mark.parametrize(
    ("gains", "level", "message"),
    [
        ([0.1, np.inf], 0.95, "gains is inf at row 1"),
        ([[0.1, 0.2]], 0.95, r"gains must be 1-d, got shape \(1, 2\)"),
        (0.1, 0.95, r"gains must be 1-d, got shape \(\)"),
        ([0.1], 0, "level must lie strictly between 0 and 1, got 0"),
        ([0.1], 1.0, "got 1.0"),
        ([0.1], 95, "got 95"),
        ([0.1], float("nan"), "got nan"),
    ],
)
def test_unusable_gains_and_levels_are_refused(gains, level, message):
    for function in (gate.decide, gate.probes_needed):
        with pytest.raises(ValueError, match=message):
            function(gains, level)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: gate.decide([1e308] * 10), ValueError, r"gains\[0\] is 1e\+308; a gain is a"),
        (lambda: gate.probes_needed([0.1, -1e200]), ValueError, r"gains\[1\] is -1e\+200"),
        (lambda: gate.decide("0.1 0.2"), TypeError, "gains must be a list of numbers"),
        (lambda: gate.decide({"q1": 0.1}), TypeError, "gains must be a list of numbers"),
        (lambda: gate.decide([0.1j]), TypeError, "gains must be a list of numbers"),
        (lambda: gate.decide({0.1, 0.2}), TypeError, "gains must be a list of numbers"),
        (lambda: gate.decide(["0.1", "0.2"]), TypeError, r"list of numbers.*got \['0.1', '0.2'\]"),
        (lambda: gate.decide([True, False]), TypeError, r"list of numbers.*got \[True, False\]"),
        (lambda: gate.decide([0.1, True, None]), TypeError, "gains must be a list of numbers"),
        (lambda: gate.decide(np.array(["2020"], "M8[D]")), TypeError, "must be a list of numbers"),
        (lambda: gate.decide([[0.1], [0.2, 0.3]]), ValueError, "gains must be 1-d, one number per"),
        (lambda: gate.decide([0.1, None]), ValueError, "gains is nan at row 1; drop such rows"),
        (lambda: gate.decide([10**400]), ValueError, "that no float can hold; a gain is"),
        (lambda: gate.decide(np.ma.array([0.1, 9], mask=[0, 1])), ValueError, "has masked values"),
        (lambda: gate.decide([0.1], level="high"), TypeError, "level must be a number.*'high'"),
        (lambda: gate.fewest_probes(True), TypeError, "level must be a number"),
        (lambda: gate.probes_needed([0.1], power=None), TypeError, "power must be a number"),
        (lambda: gate.decide([0.1], seed="a"), TypeError, "seed must be a whole number, got 'a'"),
        (lambda: gate.decide([0.1] * 30, seed=-1), ValueError, "seed is -1; give at least 0"),
    ],
)
def test_values_of_another_kind_are_refused_by_name(call, error, message):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(error, match=message):
            call()


@pytest.mark.parametrize("function", [gate.reliability, gate.outcomes])
@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"n_probes": True}, TypeError, "n_probes must be a whole number, got True"),
        ({"n_probes": "2"}, TypeError, "n_probes must be a whole number, got '2'"),
        ({"n_draws": True}, TypeError, "n_draws must be a whole number, got True"),
        ({"n_draws": -5}, ValueError, "n_draws is -5; give at least 1"),
        ({"seed": None}, TypeError, "seed must be a whole number, got None"),
        ({"seed": [1]}, TypeError, r"seed must be a whole number, got \[1\]"),
        ({"seed": -1}, ValueError, "seed is -1; give at least 0"),
    ],
)
def test_the_bootstrap_refuses_odd_counts_and_seeds_by_name(function, settings, error, message):
    with pytest.raises(error, match=message):
        function([0.1, 0.2, 0.3], **({"n_probes": 2} | settings))


@pytest.mark.parametrize("level", [None, "0.9", True, [0.9]])
def test_the_bootstrap_refuses_a_level_that_is_no_number(level):
    with pytest.raises(TypeError, match="level must be a number strictly between 0 and 1, got"):
        gate.outcomes([0.1, 0.2], 2, level=level)


def test_numbers_of_numpy_and_pandas_are_numbers():
    found = gate.outcomes(pd.Series([0.1, 0.2]), np.int64(2), np.int32(5), seed=np.uint8(3))
    assert found == gate.outcomes(np.array([0.1, 0.2], dtype=object), 2, 5, seed=3)
    assert type(found.n_probes) is int
    assert gate.decide([1, 2, 3], np.float32(0.5)).n == 3


def test_none_and_counts_that_are_no_whole_numbers_are_type_errors():
    with pytest.raises(TypeError, match="gains is None"):
        gate.decide(None)
    with pytest.raises(TypeError, match=r"n_probes must be a whole number, got 1\.5"):
        gate.reliability([0.1, 0.2], 1.5)
    with pytest.raises(ValueError, match="n_draws is 0; give at least 1"):
        gate.reliability([0.1, 0.2], 1, n_draws=0)
    with pytest.raises(ValueError, match="power must lie"):
        gate.probes_needed([0.1, 0.2], power=1)


# reliability


def test_the_reliability_of_small_probes_is_the_share_of_all_draws():
    gains = [0.3, -0.1, -0.1, 0.0]  # the mean is above zero
    for n in (1, 2, 3):
        every = [np.sum(draw) > 1e-9 for draw in itertools.product(gains, repeat=n)]
        found = gate.reliability(gains, n, n_draws=40_000)
        assert found == pytest.approx(np.mean(every), abs=0.01)
    assert type(gate.reliability(gains, 2)) is float


def test_gains_of_one_sign_are_reliable_with_one_probe():
    assert gate.reliability([0.1, 0.2, 0.3], 1) == 1.0
    assert gate.reliability([-0.1, -0.2, -0.3], 1) == 1.0
    # A tie is no gain, for the paper's rule is "above zero".
    assert gate.reliability([0.0, 0.0, 0.4], 1, 20_000) == pytest.approx(1 / 3, abs=0.02)
    assert gate.reliability([0.0, 0.0, -0.4], 1) == 1.0


def test_rounding_is_no_gain():
    gains = np.array([0.1 + 0.2 - 0.3, 0.3 - 0.1 - 0.2, 1.0, -1.0])
    assert gains[0] > 0 > gains[1]
    assert gate.outcomes(gains, 4).right == "disable"
    sums = [0.1, 0.2, -0.3]  # their mean is 0 up to rounding, and above it as computed
    assert sum(sums) > 0
    assert gate.outcomes(sums, 3).right == "disable"
    assert gate.decide(sums).value == 0.0


def test_more_probes_are_more_reliable_and_a_seed_is_kept():
    curve = [gate.reliability(MIXED, n) for n in (1, 4, 16, 64, 120)]
    assert curve == sorted(curve)
    assert curve[0] < 0.5 < curve[-1]
    assert gate.reliability(MIXED, 9, seed=1) == gate.reliability(MIXED, 9, seed=1)
    assert gate.reliability(MIXED, 9, seed=1) != gate.reliability(MIXED, 9, seed=2)


def test_blocks_do_not_change_the_draws(monkeypatch):
    before = gate.outcomes(MIXED, 24, 300), gate.outcomes(MIXED, 12, 300)
    monkeypatch.setattr("causalrag.gate.bootstrap.DRAWN_AT_ONCE", 24 * 50)
    assert (gate.outcomes(MIXED, 24, 300), gate.outcomes(MIXED, 12, 300)) == before


# outcomes


@pytest.mark.parametrize("n", [1, 2, 5, 6, 7, 12, 20, 21, 32, 33, 70])
@pytest.mark.parametrize("shift", [0.0, 0.1, -0.15])
def test_outcomes_count_what_decide_says_of_each_draw(n, shift):
    gains, draws = MIXED + shift, 25
    found = gate.outcomes(gains, n, draws, seed=3, level=0.9)
    probes = np.concatenate(list(_draws(gate.decision.read_gains(gains), n, draws, 3)))
    assert probes.shape == (draws, n)
    said = [gate.decide(probe, 0.9, seed=3).decision for probe in probes]
    assert found.exact == tuple(map(said.count, ("enable", "disable", "abstain")))
    up = int((probes.mean(axis=1) > 1e-12).sum())
    assert found.paper == (up, draws - up, 0)


@pytest.mark.parametrize("n", [2, 9, 20, 21, 50])
def test_the_p_values_of_many_draws_are_those_of_decide(n):
    draws = np.concatenate(list(_draws(MIXED, n, 20, 0)))
    p = _sign_flip_p(draws, _means(draws), 7)
    assert p.tolist() == [gate.decide(draw, seed=7).p for draw in draws]


@pytest.mark.parametrize("gains", [MIXED, MIXED - 0.3, np.zeros(40)])
def test_outcomes_under_the_papers_rule_are_its_reliability(gains):
    found = gate.outcomes(gains, 30, 500, seed=5)
    assert sum(found.paper) == sum(found.exact) == found.n_draws == 500
    share = getattr(found.paper, found.right) / 500
    assert share == gate.reliability(gains, 30, 500, seed=5)
    json.dumps(found.exact)  # plain numbers


def test_ties_make_the_exact_rule_abstain_where_the_papers_disables():
    found = gate.outcomes(np.zeros(40), 30, 100)
    assert found.right == "disable"
    assert found.paper == (0, 100, 0)
    assert found.exact == (0, 0, 100)


# probes_needed


def test_probes_needed_give_the_power_they_promise():
    gains = np.random.default_rng(0).normal(0.05, 0.2, 4000)
    needed = gate.probes_needed(gains)
    assert needed == pytest.approx(((1.96 + 0.8416) * 0.2 / gains.mean()) ** 2, rel=0.05)
    decided = gate.outcomes(gains, needed, 400).exact.enable / 400
    assert decided == pytest.approx(0.8, abs=0.06)
    assert gate.probes_needed(-gains) == needed
    assert gate.probes_needed(gains, power=0.9) > needed


def test_probes_needed_say_nothing_where_the_gains_say_nothing():
    assert gate.probes_needed([0.4]) is None
    assert gate.probes_needed(np.zeros(9)) is None
    assert gate.probes_needed([0.1, -0.1, 0.3, -0.3]) is None
    assert gate.probes_needed([0.2, 0.2]) == 6  # no spread seen: the fewest that can decide
