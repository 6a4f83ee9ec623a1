"""Means, paired differences and the sign test: by hand, against scipy, and by simulation."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from causalrag import evaluate as ev

# The same examples on every run and on a slow machine.
steady = settings(deadline=None, derandomize=True)
KINDS = ["randomisation", "bootstrap"]


def sample(n, centre=0.5, seed=0):
    return np.random.default_rng(seed).normal(centre, 1, n)


# --- the randomisation interval and its p-value -------------------------------------------------


def test_the_sign_flip_p_value_by_hand():
    # Of the 8 sign patterns of (1, 2, 3) only +++ and --- reach a sum of 6.
    assert ev.paired_difference([1, 2, 3], 0).p == 2 / 8
    # (1, 2, -1): sums of 2 or more: 1+2-1, 1+2+1, -1+2+1, and their opposites.
    assert ev.paired_difference([1, 2, -1], 0).p == 6 / 8


def test_the_randomisation_interval_by_hand():
    # Level 0.5, n = 3: 4 flips, k = ceil(0.5 * 4) - 1 = 1, so the ends are the least and greatest
    # mean of a proper subset.
    found = ev.paired_difference([1, 2, 6], 0, level=0.5)
    assert (found.low, found.value, found.high) == (1, 3, 6)
    # n = 4: 8 flips, k = 3. The subset means are 0 1 3 8 .5 1.5 4 2 4.5 5.5 4/3 3 11/3 4; the
    # third from below is 1 and from above 4.5.
    found = ev.paired_difference([0, 1, 3, 8], 0, level=0.5)
    assert (found.low, found.value, found.high) == (1, 3, 4.5)


@pytest.mark.parametrize("n", [2, 5, 8, 12])
def test_p_is_scipys_exact_permutation_test(n):
    for seed in range(5):
        gains = sample(n, seed=seed)
        theirs = scipy.stats.permutation_test(
            (gains,), np.mean, permutation_type="samples", n_resamples=np.inf
        )
        assert ev.paired_difference(gains, 0).p == pytest.approx(theirs.pvalue)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_the_interval_holds_the_means_that_the_test_does_not_reject(level):
    gains = sample(9, seed=4)
    found = ev.paired_difference(gains, 0, level)
    for m in np.linspace(gains.min(), gains.max(), 60):
        kept = ev.paired_difference(gains, m).p >= 1 - level
        assert kept == (found.low <= m <= found.high)
    assert np.isfinite(found.low) == (1 - level > 2**-8)


small = st.lists(st.integers(-3, 3), min_size=1, max_size=9)


@steady
@given(small, st.sampled_from([0.5, 0.8, 0.95]), st.sampled_from([1, 0.1, 1e-9, 1e12]))
def test_interval_excludes_zero_exactly_when_p_is_below_its_level(gains, level, scale):
    found = ev.paired_difference(np.array(gains) * scale, 0, level)
    assert (found.low > 0 or found.high < 0) == (found.p < 1 - level)
    assert found.low <= found.value <= found.high


@steady
@given(small)
def test_p_counts_sign_patterns(gains):
    patterns = itertools.product((1, -1), repeat=len(gains))
    sums = [abs(np.dot(pattern, gains)) for pattern in patterns]
    assert ev.paired_difference(gains, 0).p == np.mean(np.array(sums) >= abs(sum(gains)))


@pytest.mark.parametrize("n", [21, 24, 60])
def test_above_20_the_randomisation_interval_still_agrees_with_p(n):
    decided = set()
    for seed in range(40):
        gains = sample(n, 0.35, seed)
        found = ev.paired_difference(gains, 0, interval="randomisation", n_boot=999, seed=seed)
        assert (found.low > 0 or found.high < 0) == (found.p < 1 - found.level)
        assert not found.exact
        decided.add(found.low > 0)
    assert decided == {True, False}


def test_random_flips_come_close_to_all_flips():
    for seed in range(5):
        gains = sample(21, 0.4, seed)
        drawn = ev.paired_difference(gains, 0)
        theirs = scipy.stats.permutation_test(
            (gains,), np.mean, permutation_type="samples", n_resamples=40_000, rng=seed
        )
        assert drawn.p == pytest.approx(theirs.pvalue, abs=0.02)


def test_a_random_p_value_is_never_0_and_adds_1_to_both_counts():
    assert ev.paired_difference(np.linspace(1, 2, 40), 0, n_boot=999).p == 1 / 1000


def test_intervals_read_at_holms_levels_decide_as_holm_does():
    decisions = set()
    for seed in range(15):
        columns = [sample(10, centre, 100 * seed + i) for i, centre in enumerate((1.6, 0.9, 0.4))]
        p_values = [ev.paired_difference(column, 0).p for column in columns]
        rejected = ev.holm(p_values) < 0.05
        levels = ev.holm_levels(p_values)
        again = [
            ev.paired_difference(column, 0, level)
            for column, level in zip(columns, levels, strict=True)
        ]
        assert [one.low > 0 or one.high < 0 for one in again] == rejected.tolist()
        decisions.update(rejected.tolist())
    assert decisions == {True, False}


# --- coverage -----------------------------------------------------------------------------------


def coverage(draw, centre, kind, n_boot=1000, times=400):
    rng = np.random.default_rng(11)
    hits = 0
    for seed in range(times):
        found = ev.mean(draw(rng), interval=kind, n_boot=n_boot, seed=seed)
        hits += found.low <= centre <= found.high
    return hits / times


@pytest.mark.parametrize("n", [6, 8, 12])
def test_the_randomisation_interval_covers_a_symmetric_mean_as_often_as_it_says(n):
    # Three standard errors of 400 draws are 0.033.
    assert 0.92 <= coverage(lambda rng: rng.normal(2, 1, n), 2, "randomisation") <= 0.99


@pytest.mark.parametrize("kind", KINDS)
def test_at_n_8_both_intervals_cover_more_often_than_plain_percentiles(kind):
    def draw(rng):
        return rng.exponential(1, 8)

    rng, plain = np.random.default_rng(11), 0
    for _ in range(400):
        x = draw(rng)
        means = x[rng.integers(8, size=(1000, 8))].mean(axis=1)
        low, high = np.quantile(means, (0.025, 0.975))
        plain += low <= 1 <= high
    assert plain / 400 < 0.87
    assert 0.87 <= coverage(draw, 1, kind) <= 0.97


def test_the_bootstrap_interval_covers_the_mean_of_a_skewed_column_at_n_60():
    assert 0.90 <= coverage(lambda rng: rng.exponential(1, 60), 1, "bootstrap") <= 0.98


def test_the_test_rejects_a_true_null_no_more_often_than_it_may():
    rng = np.random.default_rng(5)
    rejected = [ev.paired_difference(rng.normal(size=8), 0).p < 0.05 for _ in range(600)]
    assert np.mean(rejected) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 600)


# --- the bootstrap ------------------------------------------------------------------------------


def test_the_bootstrap_interval_is_scipys_percentile_interval_at_large_n():
    gains = np.random.default_rng(2).exponential(1, 400) - 0.8
    found = ev.paired_difference(gains, 0)
    theirs = scipy.stats.bootstrap(
        (gains,), np.mean, method="percentile", n_resamples=10_000, rng=3
    ).confidence_interval
    width = theirs.high - theirs.low
    assert found.interval == "bootstrap"
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), abs=0.05 * width)


def test_the_bootstrap_interval_is_wider_than_plain_percentiles_as_students_asks():
    # t at 7 degrees of freedom over z, times the root of 8 / 7
    expected = scipy.stats.t.ppf(0.975, 7) / scipy.stats.norm.ppf(0.975) * np.sqrt(8 / 7)
    ratios = []
    for seed in range(10):
        gains = sample(8, seed=seed)
        found = ev.paired_difference(gains, 0, interval="bootstrap")
        plain = scipy.stats.bootstrap(
            (gains,), np.mean, method="percentile", n_resamples=10_000, rng=seed
        ).confidence_interval
        ratios.append((found.high - found.low) / (plain.high - plain.low))
    assert expected > 1.25
    assert np.mean(ratios) == pytest.approx(expected, abs=0.06)


def test_the_default_interval_is_by_randomisation_up_to_20_pairs():
    for n, kind in ((6, "randomisation"), (20, "randomisation"), (21, "bootstrap")):
        for found in (ev.paired_difference(sample(n), 0), ev.mean(sample(n))):
            assert found.interval == kind
    assert ev.paired_difference(sample(20), 0).exact
    assert not ev.paired_difference(sample(21), 0).exact


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [12, 30])
def test_a_seed_gives_the_same_numbers_and_another_seed_others(kind, n):
    gains = sample(n)
    first, again, other = (
        ev.paired_difference(gains, 0, interval=kind, n_boot=500, seed=seed) for seed in (1, 1, 2)
    )
    assert first == again
    assert (first == other) == (kind == "randomisation" and n == 12)


def test_the_draws_do_not_depend_on_how_they_are_cut_into_blocks(monkeypatch):
    gains = sample(40)
    for kind in KINDS:
        whole = ev.paired_difference(gains, 0, interval=kind, n_boot=300)
        with monkeypatch.context() as patch:
            patch.setattr("causalrag.evaluate.paired.DRAWN_AT_ONCE", 40 * 7)
            cut = ev.paired_difference(gains, 0, interval=kind, n_boot=300)
        assert (cut.low, cut.high, cut.p) == pytest.approx((whole.low, whole.high, whole.p))


# --- too few pairs, no spread -------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_too_few_pairs_are_never_significant(kind, n):
    for gains in (np.full(n, 3.0), np.arange(1.0, n + 1)):
        found = ev.paired_difference(gains, 0, interval=kind)
        assert (found.low, found.high) == (-np.inf, np.inf)
        assert found.p == 0.5 ** (n - 1)
        assert found.p >= 0.05
        described = ev.mean(gains, interval=kind)
        assert (described.low, described.high) == (-np.inf, np.inf)


@pytest.mark.parametrize("level", [0.01, 0.5, 0.95, 0.999])
def test_one_pair_is_defined_and_significant_at_no_level(level):
    found = ev.paired_difference([5.0], [1.0], level)
    assert (found.value, found.low, found.high, found.n, found.p) == (4, -np.inf, np.inf, 1, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [6, 8, 21])
def test_a_constant_difference_has_no_width_only_where_the_sign_test_is_significant(kind, n):
    found = ev.paired_difference(np.full(n, 0.1), np.full(n, 0.4), interval=kind)
    assert (found.low, found.value, found.high) == pytest.approx((-0.3, -0.3, -0.3))
    assert found.p < 0.05
    assert found.low <= found.value <= found.high


@pytest.mark.parametrize("n", [1, 4, 8, 30])
def test_no_difference_at_all_is_never_significant(n):
    found = ev.paired_difference(sample(n), sample(n))
    assert (found.value, found.p) == (0, 1)
    assert found.low <= 0 <= found.high


def test_differences_that_are_only_rounding_are_none():
    a = [0.1 + 0.2, 0.7 + 0.1, 0.1 * 3] * 3
    b = [0.3, 0.8, 0.3] * 3
    assert np.subtract(a, b).any()
    assert ev.paired_difference(a, b).p == 1
    assert ev.sign_test(a, b).ties == 9
    # 0.1 + 0.2 - 0.3 is not 0 in binary: such a subset still counts as reaching 0.
    exact = ev.paired_difference([1, 2, -3, 4, 5, 6], 0)
    assert ev.paired_difference([0.1, 0.2, -0.3, 0.4, 0.5, 0.6], 0).p == exact.p


# --- mean and sign test -------------------------------------------------------------------------


def test_a_mean_has_the_interval_of_its_gains_and_no_p_value():
    for n in (9, 30):
        found, tested = ev.mean(sample(n)), ev.paired_difference(sample(n), 0)
        assert (found.value, found.low, found.high) == (tested.value, tested.low, tested.high)
        assert np.isnan(found.p)
    assert (ev.mean(sample(9)).exact, ev.mean(sample(30)).exact) == (True, False)
    with pytest.raises(ValueError, match=r"p-value must lie in \[0, 1\], got nan"):
        ev.holm([found.p])


def test_the_sign_test_drops_and_counts_ties():
    found = ev.sign_test([3, 2, 5, 1, 4, 4], [1, 1, 5, 2, 0, 4])
    assert (found.wins, found.losses, found.ties, found.n) == (3, 1, 2, 4)
    expected = ev.proportion(3, 4)
    assert (found.value, found.low, found.high, found.p) == (
        expected.value,
        expected.low,
        expected.high,
        expected.p,
    )
    assert found.p == scipy.stats.binomtest(3, 4).pvalue


def test_the_sign_test_by_hand():
    # eight wins of eight: p = 2 / 2^8, and the lower end solves p^8 = 0.025
    found = ev.sign_test(np.arange(1, 9))
    assert found.p == pytest.approx(2 / 256)
    assert (found.low, found.high) == (pytest.approx(0.025 ** (1 / 8)), 1)


def test_ties_only_leave_the_share_undefined_and_nothing_significant():
    found = ev.sign_test([1, 2], [1, 2])
    assert np.isnan(found.value)
    assert (found.low, found.high, found.p, found.n, found.ties) == (0, 1, 1, 0, 2)


def test_one_pair_is_no_proof_for_the_sign_test():
    found = ev.sign_test([1.0])
    assert (found.p, found.n) == (1, 1)
    assert found.low < 0.5 < found.high


def test_results_are_frozen_estimates_of_plain_numbers():
    for found in (ev.mean([1, 2]), ev.paired_difference([1, 2], 0), ev.sign_test([1, 2])):
        assert isinstance(found, ev.Estimate)
        numbers = (found.value, found.low, found.high, found.level, found.p)
        assert {type(number) for number in numbers} == {float}
        assert type(found.n) is int
        with pytest.raises(AttributeError):
            found.value = 0.0


# --- input --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", [ev.paired_difference, ev.sign_test])
@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        ([1, 2, 3], [1, 2], "differ in length: 3 and 2"),
        ([1, float("nan")], [1, 2], "a is nan at row 1"),
        ([1, 2], [float("inf"), 2], "b is inf at row 0"),
        ([1, 2], float("nan"), "a - b is nan at row 0"),
        ([], [], "a is empty"),
        ([[1, 2]], [[1, 2]], "a must be 1-d"),
        (1.0, 2.0, "a must be 1-d"),
    ],
)
def test_what_is_no_pairing_is_refused(ask, a, b, words):
    with pytest.raises(ValueError, match=words):
        ask(a, b)


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [[1.0]]])
def test_what_has_no_mean_is_refused(values):
    with pytest.raises(ValueError, match="values"):
        ev.mean(values)


def test_settings_out_of_range_are_refused():
    with pytest.raises(ValueError, match=r"interval must be .*got 'bca'"):
        ev.mean([1, 2], interval="bca")
    with pytest.raises(ValueError, match="n_boot is 10; give at least 100"):
        ev.paired_difference([1, 2], 0, n_boot=10)
    for ask in (ev.mean, lambda x, level: ev.paired_difference(x, 0, level), ev.sign_test):
        with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
            ask([1, 2], level=1)


def test_series_are_paired_by_their_queries():
    a = pd.Series({"q1": 1.0, "q2": 5.0, "q3": 2.0})
    b = pd.Series({"q3": 1.5, "q1": 0.0, "q2": 4.0})
    assert ev.sign_test(a, b).wins == 3
    assert ev.paired_difference(a, b) == ev.paired_difference([1.0, 1.0, 0.5], 0)
    with pytest.raises(ValueError, match=r"3 and 2 entries, 2 in both.*pair the same queries"):
        ev.paired_difference(a, b.drop("q1"))


def test_a_query_that_one_run_lacks_is_paired_as_0():
    qrels = {"q1": {"a": 1}, "q2": {"b": 1}}
    first = ev.evaluate({"q1": {"a": 1.0}, "q2": {"b": 1.0}}, qrels)
    second = ev.evaluate({"q1": {"a": 1.0}}, qrels)
    assert ev.paired_difference(first["RR@10"], second["RR@10"]).value == 0.5
