"""Estimates with their intervals: correlation (Fisher) and proportion (Clopper and Pearson).

Each interval and its p-value are two readings of the same test, so that "the interval excludes no
effect" and "p < 1 - level" never disagree. Means and paired differences are in `paired`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Estimate:
    """A number, its interval and the test it comes from.

    Attributes
    ----------
    value
        The estimate.
    low, high
        Ends of the two-sided confidence interval.
    n
        Number of observations.
    level
        Confidence level of the interval.
    p
        Two-sided p-value against no effect: correlation 0, difference 0, or the `null` of a
        proportion. NaN where nothing is tested (`mean`).
    """

    value: float
    low: float
    high: float
    n: int
    level: float
    p: float


def correlation(
    x: ArrayLike, y: ArrayLike, level: float = 0.95, given: ArrayLike | None = None
) -> Estimate:
    """Estimate Pearson's correlation, or a partial one, with Fisher's z interval.

    Parameters
    ----------
    x, y
        Shape (n,), n at least 4, and one more for each column of `given`.
    level
        Confidence level in (0, 1).
    given
        Shape (n,) or (n, k): columns whose least-squares fit is taken out of x and y first. The
        interval then counts k pairs fewer.

    Returns
    -------
    Estimate
        `p` is the normal test of z = 0, the one that the interval inverts; it differs a little
        from the t test at small n. A perfect correlation has p = 0 and an interval of no width.

    Raises
    ------
    ValueError
        For too few pairs, different lengths, NaN or infinite values, or an input that does not
        vary, before or after the fit.
    """
    from scipy.stats import norm

    check_level(level)
    left, right = check_column("x", x), check_column("y", y)
    if left.size != right.size:
        raise ValueError(f"x and y differ in length: {left.size} and {right.size}")
    n, taken_out = int(left.size), 0
    if given is not None:
        others = _check_given(given, n)
        taken_out = others.shape[1]
        left, right = _without("x", left, others), _without("y", right, others)
    if n < 4 + taken_out:
        raise ValueError(f"an interval needs at least {4 + taken_out} pairs, got {n}")
    r = float(np.clip(_unit("x", left) @ _unit("y", right), -1.0, 1.0))
    if abs(r) == 1.0:
        return Estimate(r, r, r, n, level, 0.0)
    z, error = np.arctanh(r), 1 / np.sqrt(n - 3 - taken_out)
    reach = norm.isf((1 - level) / 2) * error
    p = 2 * norm.sf(abs(z) / error)
    return Estimate(
        r, float(np.tanh(z - reach)), float(np.tanh(z + reach)), n, level, float(min(p, 1.0))
    )


def proportion(successes: int, n: int, level: float = 0.95, null: float = 0.5) -> Estimate:
    """Estimate a proportion with the exact interval of Clopper and Pearson.

    Parameters
    ----------
    successes, n
        Whole numbers, 0 ≤ successes ≤ n, n at least 1.
    level
        Confidence level in (0, 1).
    null
        The proportion that means no effect, in (0, 1).

    Returns
    -------
    Estimate
        `p` is twice the smaller binomial tail at `null`, at most 1: the test that the interval
        inverts. At 0.5 it equals the usual exact binomial test.

    Raises
    ------
    ValueError
        For counts out of range, a level or a null outside (0, 1).
    TypeError
        For counts that are not whole numbers.
    """
    from scipy.stats import beta, binom

    check_level(level)
    hits, total = check_whole("successes", successes), check_whole("n", n, least=1)
    if hits > total:
        raise ValueError(f"0 ≤ successes ≤ n is needed, got {hits} of {total}")
    if not 0 < null < 1:
        raise ValueError(f"null must lie strictly between 0 and 1, got {null}")
    tail = (1 - level) / 2
    low = beta.ppf(tail, hits, total - hits + 1) if hits > 0 else 0.0
    high = beta.isf(tail, hits + 1, total - hits) if hits < total else 1.0
    smaller = min(binom.cdf(hits, total, null), binom.sf(hits - 1, total, null))
    p = float(min(2 * smaller, 1.0))
    return Estimate(hits / total, float(low), float(high), total, level, p)


def check_level(level: float) -> None:
    """Refuse a confidence level that is no number in (0, 1)."""
    check_share("level", level)


def check_share(name: str, value: float) -> None:
    """Refuse a level or a power that is no number in (0, 1)."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number strictly between 0 and 1, got {value!r}")
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {value}")


def check_whole(name: str, value: int, least: int = 0) -> int:
    """Read a count, a seed or a number of draws: a whole number of at least `least`."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, got {value!r}")
    if value < least:
        raise ValueError(f"{name} is {value}; give at least {least}")
    return int(value)


def check_column(name: str, values: ArrayLike | Sequence[float]) -> NDArray[np.float64]:
    """Read a 1-d column of finite numbers; anything else is a `ValueError` with the row."""
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1:
        raise ValueError(f"{name} must be 1-d, got shape {column.shape}")
    bad = ~np.isfinite(column)
    if bad.any():
        at = int(bad.argmax())
        raise ValueError(f"{name} is {column[at]} at row {at}; drop such rows")
    return column


def _check_given(given: ArrayLike, n: int) -> NDArray[np.float64]:
    others = np.asarray(given, dtype=np.float64)
    others = others[:, np.newaxis] if others.ndim == 1 else others
    if others.ndim != 2 or len(others) != n:
        raise ValueError(f"given must have shape ({n},) or ({n}, k), got {others.shape}")
    for column in others.T:
        check_column("given", column)
    return others


def _without(
    name: str, column: NDArray[np.float64], others: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Take the least-squares fit on the other columns, and a constant, out of a column."""
    design = np.column_stack([np.ones(len(column)), others])
    rest = column - design @ np.linalg.lstsq(design, column, rcond=None)[0]
    if np.linalg.norm(rest) <= 1e-12 * np.linalg.norm(column):
        raise ValueError(f"{name} does not vary once the fit on given is taken out")
    return np.asarray(rest)


def _unit(name: str, column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centre the column and scale it to length 1."""
    if column.min() == column.max():
        raise ValueError(f"{name} does not vary: every value is {column[0]}")
    column = column / np.abs(column).max()  # squares of very large or small values would overflow
    column = column - column.mean()
    return np.asarray(column / np.linalg.norm(column))
