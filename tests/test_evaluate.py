"""Rounding, intervals and Holm's correction, against hand computation and scipy."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from causalrag import evaluate as ev

# The same examples on every run and on a slow machine.
steady = settings(deadline=None, derandomize=True)

# --- rounding ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "digits", "expected"),
    [
        (2.675, 2, "2.68"),  # stored a little below the tie
        (2.625, 2, "2.63"),  # an exact tie, which round() takes down
        (1.005, 2, "1.01"),
        (0.125, 2, "0.13"),
        (2.674, 2, "2.67"),
        (2.6749999999999994, 2, "2.68"),  # a mean a few units in the last place below the tie
        (2.67499999, 2, "2.67"),
        (-0.005, 2, "-0.01"),
        (-2.625, 2, "-2.63"),
        (-0.004, 2, "0.00"),
        (-0.0, 2, "0.00"),
        (0, 2, "0.00"),
        (3, 2, "3.00"),
        (0.5, 0, "1"),
        (1.5, 0, "2"),
        (2.5, 0, "3"),
        (0.0005, 3, "0.001"),
        (99.995, 2, "100.00"),
        (1e22, 2, "10000000000000000000000.00"),
        (1e-9, 2, "0.00"),
        (Decimal("2.675"), 2, "2.68"),
        (Decimal("2.67499999999999999999"), 2, "2.67"),
        (np.float32(2.675), 2, "2.68"),
        (np.float64(2.675), 2, "2.68"),
        (np.int64(7), 1, "7.0"),
    ],
)
def test_half_up_rounds_as_a_printed_table(x, digits, expected):
    assert ev.half_up(x, digits) == expected


def test_half_up_prints_two_digits_by_default():
    assert ev.half_up(1 / 3) == "0.33"


@steady
@given(st.integers(-(10**9), 10**9))
def test_half_up_takes_every_tie_away_from_zero(thousands):
    tie = (10 * thousands + 5) / 1000
    expected = Decimal(10 * thousands + (10 if thousands >= 0 else 0)) / 1000
    assert Decimal(ev.half_up(tie, 2)) == expected


@pytest.mark.parametrize("x", [float("nan"), float("inf"), -float("inf"), Decimal("NaN")])
def test_half_up_refuses_what_is_not_finite(x):
    with pytest.raises(ValueError, match="finite"):
        ev.half_up(x)


@pytest.mark.parametrize("x", [None, "2.675", True, [2.5]])
def test_half_up_refuses_what_is_no_number(x):
    with pytest.raises(TypeError, match="a number is needed"):
        ev.half_up(x)


def test_half_up_refuses_negative_digits():
    with pytest.raises(ValueError, match="at least 0, got -1"):
        ev.half_up(2.5, -1)


# --- correlation -------------------------------------------------------------------------------


def noisy_pair(n, slope, seed):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=n)
    return x, slope * x + generator.normal(size=n)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
@pytest.mark.parametrize(("n", "slope"), [(4, 1.0), (12, -0.4), (300, 0.1)])
def test_correlation_and_its_interval_are_those_of_scipy(n, slope, level):
    x, y = noisy_pair(n, slope, seed=n)
    found = ev.correlation(x, y, level)
    theirs = scipy.stats.pearsonr(x, y)
    interval = theirs.confidence_interval(level)
    assert found.value == pytest.approx(theirs.statistic, abs=1e-12)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=1e-12)
    assert (found.n, found.level) == (n, level)


def test_correlation_p_value_is_close_to_the_t_test_when_n_is_large():
    x, y = noisy_pair(500, 0.1, seed=3)
    assert ev.correlation(x, y).p == pytest.approx(scipy.stats.pearsonr(x, y).pvalue, rel=0.02)


def test_correlation_interval_excludes_zero_exactly_when_p_is_below_its_level():
    for seed in range(200):
        x, y = noisy_pair(20, 0.45, seed)
        found = ev.correlation(x, y)
        assert (found.low > 0 or found.high < 0) == (found.p < 0.05), seed


def test_correlation_by_hand():
    # deviations (-2,-1,0,1,2) and (-1,-2,1,0,2): 8 / sqrt(10 * 10)
    found = ev.correlation([1, 2, 3, 4, 5], [2, 1, 4, 3, 5])
    assert found.value == pytest.approx(0.8)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_perfect_correlation_has_no_width_and_no_nan(sign):
    found = ev.correlation([1, 2, 3, 4], [sign * 2, sign * 4, sign * 6, sign * 8])
    assert (found.low, found.value, found.high) == pytest.approx((sign, sign, sign))
    assert found.p < 1e-6


@pytest.mark.parametrize("scale", [1e-300, 1e307])
def test_correlation_does_not_depend_on_units(scale):
    x, y = noisy_pair(30, 0.5, seed=1)
    assert ev.correlation(x * scale, y).value == pytest.approx(ev.correlation(x, y).value)


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ([1, 2, 3], [1, 2, 4], "at least 4 pairs, got 3"),
        ([], [], "at least 4 pairs, got 0"),
        ([1, 1, 1, 1], [1, 2, 3, 4], "x does not vary: every value is 1.0"),
        ([1, 2, 3, 4], [5, 5, 5, 5], "y does not vary"),
        ([1, 2, float("nan"), 4], [1, 2, 3, 4], "x is nan at row 2"),
        ([1, 2, 3, 4], [1, float("inf"), 3, 4], "y is inf at row 1"),
        ([1, 2, 3, 4], [1, 2, 3, 4, 5], "differ in length: 4 and 5"),
        ([[1, 2], [3, 4]], [1, 2, 3, 4], "x must be 1-d"),
    ],
)
def test_correlation_refuses_what_has_none(x, y, words):
    with pytest.raises(ValueError, match=words):
        ev.correlation(x, y)


@pytest.mark.parametrize("level", [0, 1, 95, -0.1, float("nan")])
def test_a_level_outside_0_and_1_is_refused(level):
    for ask in (
        lambda: ev.correlation([1, 2, 3, 4], [1, 2, 4, 3], level),
        lambda: ev.proportion(1, 2, level),
        lambda: ev.holm_levels([0.1], level),
    ):
        with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
            ask()


# --- proportion --------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.9, 0.95, 0.995])
@pytest.mark.parametrize(("hits", "n"), [(0, 1), (0, 12), (12, 12), (1, 12), (7, 10), (430, 1000)])
def test_proportion_is_scipys_exact_interval_and_binomial_test(hits, n, level):
    found = ev.proportion(hits, n, level)
    test = scipy.stats.binomtest(hits, n)
    interval = test.proportion_ci(level, method="exact")
    assert found.value == hits / n
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=1e-10)
    assert found.p == pytest.approx(test.pvalue, rel=1e-9)


def test_proportion_by_hand():
    # no success in 5: the upper end solves (1 - p)^5 = 0.025
    found = ev.proportion(0, 5)
    assert found.low == 0.0
    assert found.high == pytest.approx(1 - 0.025 ** (1 / 5))
    assert found.p == pytest.approx(2 / 32)


@pytest.mark.parametrize("null", [0.2, 0.5, 0.7])
def test_proportion_interval_excludes_the_null_exactly_when_p_is_below_its_level(null):
    for n in (6, 9, 30):
        for hits in range(n + 1):
            found = ev.proportion(hits, n, 0.9, null)
            excludes = found.low > null or found.high < null
            assert excludes == (found.p < 1 - 0.9), (hits, n)


@pytest.mark.parametrize(
    ("hits", "n", "error"),
    [
        (3, 2, ValueError),
        (-1, 2, ValueError),
        (0, 0, ValueError),
        (1.5, 2, TypeError),
        (1, 2.0, TypeError),
        (None, 2, TypeError),
    ],
)
def test_proportion_refuses_impossible_counts(hits, n, error):
    with pytest.raises(error):
        ev.proportion(hits, n)


@pytest.mark.parametrize("null", [0, 1, -1, float("nan")])
def test_proportion_refuses_a_null_that_cannot_be_tested(null):
    with pytest.raises(ValueError, match="null must lie strictly"):
        ev.proportion(1, 2, null=null)


def test_estimates_are_frozen_plain_numbers():
    found = ev.proportion(np.int64(3), np.int64(4))
    assert [type(part) for part in (found.value, found.low, found.high, found.level, found.p)] == [
        float
    ] * 5
    assert type(found.n) is int
    with pytest.raises(AttributeError):
        found.value = 0.0


# --- Holm --------------------------------------------------------------------------------------


def test_holm_by_hand():
    # sorted 0.005 0.01 0.03 0.04, times 4 3 2 1: 0.02 0.03 0.06 0.04; the last is raised to 0.06
    assert ev.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_leaves_one_value_alone_and_stops_at_one():
    assert ev.holm([0.04]) == pytest.approx([0.04])
    assert ev.holm([0.6, 0.7, 1.0]) == pytest.approx([1.0, 1.0, 1.0])


@steady
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_lies_between_the_raw_and_the_bonferroni_values(p_values):
    raw, adjusted = np.array(p_values), ev.holm(p_values)
    assert (adjusted >= raw - 1e-15).all()
    assert (adjusted <= np.minimum(raw * len(raw), 1) + 1e-15).all()
    assert (np.diff(adjusted[np.argsort(raw, kind="stable")]) >= 0).all()


def test_holm_does_not_change_its_input():
    p_values = np.array([0.2, 0.1])
    ev.holm(p_values)
    ev.holm_levels(p_values)
    assert p_values.tolist() == [0.2, 0.1]


@pytest.mark.parametrize(
    "p_values", [[], [0.1, float("nan")], [-0.1], [1.1], [[0.1]], 0.1, [float("inf")]]
)
def test_holm_refuses_what_is_no_family_of_p_values(p_values):
    for ask in (ev.holm, ev.holm_levels):
        with pytest.raises(ValueError, match=r"p-value"):
            ask(p_values)


def test_holm_levels_by_hand():
    # 0.005 < 0.05/4 and 0.01 < 0.05/3 reject; 0.03 > 0.05/2 fails, and 0.04 is read at its level
    levels = ev.holm_levels([0.01, 0.04, 0.03, 0.005])
    assert levels == pytest.approx([1 - 0.05 / 3, 1 - 0.05 / 2, 1 - 0.05 / 2, 1 - 0.05 / 4])


def test_holm_levels_when_all_steps_reject_and_when_none_does():
    assert ev.holm_levels([0.001, 0.002]) == pytest.approx([0.975, 0.95])
    assert ev.holm_levels([0.5, 0.9, 0.4]) == pytest.approx([1 - 0.05 / 3] * 3)
    assert ev.holm_levels([0.03], 0.9) == pytest.approx([0.9])


@steady
@given(st.lists(st.floats(0, 1), min_size=1, max_size=10), st.sampled_from([0.8, 0.95]))
def test_reading_at_holms_levels_gives_holms_decisions(p_values, level):
    raw = np.array(p_values)
    decided = ev.holm(raw) < 1 - level
    alphas = 1 - ev.holm_levels(raw, level)
    clear = np.abs(raw - alphas) > 1e-12  # on the very edge the last bit decides
    assert ((raw < alphas) == decided)[clear].all()


def test_intervals_read_at_holms_levels_exclude_zero_exactly_when_holm_rejects():
    decisions = set()
    for seed in range(40):
        pairs = [
            noisy_pair(25, slope, 100 * seed + i) for i, slope in enumerate((0.8, 0.5, 0.3, 0))
        ]
        first = [ev.correlation(x, y) for x, y in pairs]
        rejected = ev.holm([one.p for one in first]) < 0.05
        levels = ev.holm_levels([one.p for one in first])
        again = [ev.correlation(x, y, level) for (x, y), level in zip(pairs, levels, strict=True)]
        assert [one.low > 0 or one.high < 0 for one in again] == rejected.tolist(), seed
        decisions.update(rejected.tolist())
    assert decisions == {True, False}


def test_importing_the_module_does_not_load_scipy():
    code = "import sys, causalrag.evaluate; print('scipy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


# -- partial correlation --------------------------------------------------------------------------


def chain(n: int = 500) -> np.ndarray:
    rng = np.random.default_rng(3)
    a = rng.normal(size=n)
    return np.column_stack([a, a + rng.normal(size=n), 2 * a + rng.normal(size=n)])


def test_a_partial_correlation_is_that_of_the_inverse_covariance():
    a, x, y = chain().T
    estimate = ev.correlation(x, y, given=a)
    inverse = np.linalg.inv(np.cov(chain().T))
    assert estimate.value == pytest.approx(-inverse[1, 2] / np.sqrt(inverse[1, 1] * inverse[2, 2]))
    assert estimate.low < 0 < estimate.high < ev.correlation(x, y).low


def test_each_column_taken_out_costs_the_interval_one_pair():
    columns = np.random.default_rng(4).normal(size=(30, 4))
    estimate = ev.correlation(columns[:, 0], columns[:, 1], given=columns[:, 2:])
    width = np.arctanh(estimate.high) - np.arctanh(estimate.low)
    assert width == pytest.approx(2 * 1.959963984540054 / np.sqrt(30 - 3 - 2))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.ones((3, 1)), "given must have shape"),
        (np.full(500, np.nan), "given is nan at row 0"),
        (chain()[:, 1], "x does not vary once the fit on given is taken out"),
    ],
)
def test_what_cannot_be_taken_out_is_refused(given, words):
    _, x, y = chain().T
    with pytest.raises(ValueError, match=words):
        ev.correlation(x, y, given=given)
