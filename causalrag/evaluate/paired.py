"""Means and paired differences: bootstrap and randomisation intervals, sign-flip and sign tests.

The randomisation interval holds the means that the sign-flip test does not reject (Hartigan 1969),
so that it and the p-value are two readings of one test. A bootstrap interval is not tied to the
p-value; where they disagree, the interval decides, as everywhere in the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from causalrag.evaluate.estimates import (
    Estimate,
    check_column,
    check_level,
    check_whole,
    proportion,
)

Interval: TypeAlias = Literal["randomisation", "bootstrap"]

# Up to here all sign flips are enumerated (2^20 subset means, 0.1 s), and the bootstrap, which
# needs more observations than it gets from a few themes, is not the default.
EXACT_N = 20
# Differences below this share of the largest value are rounding, hence none.
ROUNDING = 1e-12
# How many random numbers are held at once.
DRAWN_AT_ONCE = 2**22

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MeanEstimate(Estimate):
    """An `Estimate` of a mean that says how its interval was made.

    Attributes
    ----------
    interval
        "randomisation" or "bootstrap".
    exact
        Whether all sign flips were counted, for the interval or the p-value. False: random ones,
        or none at all (the bootstrap interval of a mean).
    """

    interval: Interval
    exact: bool


@dataclass(frozen=True)
class SignEstimate(Estimate):
    """An `Estimate` of the share of wins; `n` counts wins and losses, not ties.

    Attributes
    ----------
    wins, losses, ties
        Pairs where the first is larger, smaller, equal.
    """

    wins: int
    losses: int
    ties: int


def mean(
    values: ArrayLike,
    level: float = 0.95,
    *,
    interval: Interval | None = None,
    n_boot: int = 10_000,
    seed: int = 0,
) -> MeanEstimate:
    """Estimate a mean with its interval; nothing is tested.

    Parameters
    ----------
    values
        Shape (n,), n at least 1, finite.
    level, interval, n_boot, seed
        As for `paired_difference`.

    Returns
    -------
    MeanEstimate
        `p` is NaN: a mean has no value that means no effect, and `holm` refuses it. To test gains
        against 0 use ``paired_difference(gains, 0)``.

    Raises
    ------
    ValueError
        As for `paired_difference`.
    """
    column = _column("values", values)
    kind = _kind(column.size, level, interval, n_boot)
    flips = _flips(column, n_boot, seed) if kind == "randomisation" else None
    low, high = _interval(column, level, flips, n_boot, seed)
    exact = flips is not None and flips.exact
    return MeanEstimate(_mean(column), low, high, column.size, level, np.nan, kind, exact)


def paired_difference(
    a: ArrayLike,
    b: ArrayLike,
    level: float = 0.95,
    *,
    interval: Interval | None = None,
    n_boot: int = 10_000,
    seed: int = 0,
) -> MeanEstimate:
    """Estimate the mean of a - b over pairs, with an interval and a sign-flip test against 0.

    Parameters
    ----------
    a, b
        Shape (n,), n at least 1, finite; the same queries in the same order. Two pandas Series
        with the same index in another order are aligned by it. `b` may be a number, 0 for gains.
    level
        Confidence level in (0, 1).
    interval
        "randomisation": all means m for which the sign-flip test of a - b - m gives p ≥ 1 - level.
        Its ends are means of subsets of the differences. It excludes 0 exactly when p < 1 - level,
        at every level, hence also at those of `holm_levels`, whose decisions are then Holm's. It
        assumes that the differences scatter alike on both sides of their mean.
        "bootstrap": percentiles of resampled means, taken farther out by Student's t and
        √(n / (n - 1)) (the expanded percentile interval of Hesterberg 2015). Plain and BCa
        percentiles are too narrow, as if the spread were known and divided by n. It assumes no
        symmetry. It can disagree with p near the edge: then the interval decides, in a family the
        one read at its level of `holm_levels`.
        By default the first for n ≤ 20 and the second above.
    n_boot
        Number of resamples, and of random sign flips where n > 20; at least 100.
    seed
        Of both.

    Returns
    -------
    MeanEstimate
        Two-sided `p`: the share of sign flips whose mean is at least as far from 0, all counted
        for n ≤ 20; above, of `n_boot` random ones, with 1 added to both counts. With so few pairs
        that no outcome could be significant (n ≤ 5 at level 0.95; n = 1 at any) the ends are
        infinite, for each kind of interval. Above that a constant difference has an interval of no
        width.

    Raises
    ------
    ValueError
        For no pair, different lengths or indices, NaN or infinite values, an unknown interval, a
        level outside (0, 1), too few resamples.

    Notes
    -----
    No interval knows of values that the sample lacks. Where most pairs tie and a few differ, or the
    tail is long, each covers less often than its level until n is large; an interval of no width
    leaves open differences in up to about 3 / n of the pairs.
    """
    gains = _differences(a, b)
    kind = _kind(gains.size, level, interval, n_boot)
    flips = _flips(gains, n_boot, seed)
    low, high = _interval(gains, level, flips if kind == "randomisation" else None, n_boot, seed)
    p = _sign_flip_p(_mean(gains), flips)
    return MeanEstimate(_mean(gains), low, high, gains.size, level, p, kind, flips.exact)


def sign_test(a: ArrayLike, b: ArrayLike = 0.0, level: float = 0.95) -> SignEstimate:
    """Estimate the share of pairs that a wins, ties left out, with the exact binomial test.

    Parameters
    ----------
    a, b
        As for `paired_difference`; by default `a` holds gains.
    level
        Confidence level in (0, 1).

    Returns
    -------
    SignEstimate
        `value` is wins / (wins + losses) with the interval of Clopper and Pearson, `p` two-sided
        against one half (see `proportion`), `n` the number of pairs that are no tie. With ties
        only, n is 0, the value NaN, the interval [0, 1] and p 1. Compare the interval with one
        half: subtract it before a direction claim is recorded.

    Raises
    ------
    ValueError
        As for `paired_difference`.
    """
    check_level(level)
    gains = _differences(a, b)
    wins, losses = int((gains > 0).sum()), int((gains < 0).sum())
    n = wins + losses
    ties = gains.size - n
    if n == 0:
        return SignEstimate(np.nan, 0.0, 1.0, 0, level, 1.0, 0, 0, ties)
    share = proportion(wins, n, level)
    return SignEstimate(share.value, share.low, share.high, n, level, share.p, wins, losses, ties)


# --- input --------------------------------------------------------------------------------------


def _column(name: str, values: ArrayLike) -> Floats:
    column = check_column(name, values)
    if column.size == 0:
        raise ValueError(f"{name} is empty; at least one value is needed")
    return column


def _differences(a: Any, b: Any) -> Floats:
    """Subtract b from a, pair by pair; what is only rounding becomes 0."""
    if hasattr(a, "reindex") and hasattr(b, "reindex") and not a.index.equals(b.index):
        if not (a.index.is_unique and b.index.is_unique and set(a.index) == set(b.index)):
            raise ValueError(
                f"a and b have different indices ({len(a)} and {len(b)} entries, "
                f"{len(set(a.index) & set(b.index))} in both); pair the same queries"
            )
        b = b.reindex(a.index)
    left = _column("a", a)
    right = np.full_like(left, float(b)) if np.ndim(b) == 0 else _column("b", b)
    if left.size != right.size:
        raise ValueError(f"a and b differ in length: {left.size} and {right.size}")
    gains = check_column("a - b", left - right)
    scale = max(np.abs(left).max(), np.abs(right).max())
    gains[np.abs(gains) <= ROUNDING * scale] = 0.0
    return gains


def _kind(n: int, level: float, interval: Interval | None, n_boot: int) -> Interval:
    check_level(level)
    check_whole("n_boot", n_boot, least=100)
    if interval is None:
        return "randomisation" if n <= EXACT_N else "bootstrap"
    if interval not in ("randomisation", "bootstrap"):
        raise ValueError(f"interval must be 'randomisation' or 'bootstrap', got {interval!r}")
    return interval


def _mean(column: Floats) -> float:
    value = float(column.mean())
    return value if abs(value) > _slack(column) else 0.0


def _slack(column: Floats) -> float:
    return float(ROUNDING * np.abs(column).max())


# --- sign flips ---------------------------------------------------------------------------------


class _Flips(NamedTuple):
    """The means of subsets of a column and of their rests, and how many sign flips they are.

    For m below the mean, flipping the signs of a subset of x - m takes the sum as far from 0 as it
    was, or farther, exactly when the mean of that subset, or of its rest, is at most m. So the
    p-value of m is the number of these means up to m, plus 1 for no flip, over `number`.
    """

    means: Floats
    number: int
    exact: bool


def _flips(column: Floats, n_boot: int, seed: int) -> _Flips:
    """Give all 2^n - 2 proper subsets, for n ≤ 20, else `n_boot` random ones and their rests."""
    exact = column.size <= EXACT_N
    if exact:
        sums, counts = np.zeros(1), np.zeros(1)
        for x in column:
            sums, counts = np.concatenate([sums, sums + x]), np.concatenate([counts, counts + 1])
        means, number = sums[1:-1] / counts[1:-1], 2 ** (column.size - 1)
    else:
        means = np.concatenate(list(_random_means(column, n_boot, np.random.default_rng(seed))))
        number = n_boot + 1
    means[np.abs(means) <= _slack(column)] = 0.0
    return _Flips(means, number, exact)


def _random_means(column: Floats, n_boot: int, rng: np.random.Generator) -> Iterator[Floats]:
    total, n = column.sum(), column.size
    for size in _blocks(n_boot, n):
        # Whole words of 32 bits a row: where a block ends does not matter to the next.
        bits = np.frombuffer(rng.bytes(size * 4 * (-(-n // 32))), dtype=np.uint8).reshape(size, -1)
        chosen = np.unpackbits(bits, axis=1, count=n).astype(np.float64)
        # All or nothing flips nothing: one draw in a million at n = 21, none to speak of above.
        alike = np.isin(chosen.sum(axis=1), (0, n))
        chosen[alike, 0] = 1 - chosen[alike, 0]
        sums, counts = chosen @ column, chosen.sum(axis=1)
        yield sums / counts
        yield (total - sums) / (n - counts)


def _sign_flip_p(value: float, flips: _Flips) -> float:
    if value == 0:
        return 1.0
    beyond = (flips.means <= 0).sum() if value > 0 else (flips.means >= 0).sum()
    return (1 + int(beyond)) / flips.number


# --- intervals ----------------------------------------------------------------------------------


def _interval(
    column: Floats, level: float, flips: _Flips | None, n_boot: int, seed: int
) -> tuple[float, float]:
    """Give the randomisation interval for `flips`, else the bootstrap's."""
    if 0.5 ** (column.size - 1) >= 1 - level:  # not significant even if all lie on one side
        return -np.inf, np.inf
    if flips is None:
        low, high = _bootstrap(column, level, n_boot, seed)
    else:
        low, high = _inverted(flips, level)
    value = _mean(column)
    return min(low, value), max(high, value)  # means of equal values may differ by rounding


def _inverted(flips: _Flips, level: float) -> tuple[float, float]:
    """Give the smallest and the largest m whose p-value reaches 1 - level; see `_Flips`."""
    k = int(np.ceil((1 - level) * flips.number)) - 1
    if k < 1:  # too few random flips for the level
        return -np.inf, np.inf
    last = flips.means.size - k
    ends = np.partition(flips.means, (k - 1, last))
    return float(ends[k - 1]), float(ends[last])


def _bootstrap(column: Floats, level: float, n_boot: int, seed: int) -> tuple[float, float]:
    from scipy.stats import norm, t

    rng, n = np.random.default_rng(seed), column.size
    means = np.concatenate(
        [column[rng.integers(n, size=(size, n))].mean(axis=1) for size in _blocks(n_boot, n)]
    )
    tail = norm.cdf(t.ppf((1 - level) / 2, n - 1) * np.sqrt(n / (n - 1)))
    low, high = np.quantile(means, (tail, 1 - tail))
    return float(low), float(high)


def _blocks(total: int, width: int) -> Iterator[int]:
    """Cut `total` rows of `width` numbers into blocks that fit."""
    step = max(1, DRAWN_AT_ONCE // width)
    for start in range(0, total, step):
        yield min(step, total - start)
