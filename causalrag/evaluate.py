"""Numbers with their uncertainty: estimates, exact and Fisher intervals, Holm's correction.

Every figure that decides a claim is an `Estimate`. Its interval and its p-value are two readings of
the same test, so that "the interval excludes no effect" and "p < 1 - level" never disagree.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext

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
        Two-sided p-value against no effect: correlation 0, or the `null` of a proportion.
    """

    value: float
    low: float
    high: float
    n: int
    level: float
    p: float


def half_up(x: float | Decimal, digits: int = 2) -> str:
    """Round half up, as printed tables do, without surprises from binary fractions.

    Parameters
    ----------
    x
        A finite number. A float is read to 15 significant digits, the number that a double is sure
        to hold: 2.675, stored as 2.67499999999999982, is a tie, and so is a mean a few units in the
        last place below one.
    digits
        Decimal places, at least 0.

    Returns
    -------
    str
        With exactly `digits` decimal places. A tie goes away from zero on both sides: 2.675 gives
        "2.68", -0.005 gives "-0.01". What rounds to zero has no sign: -0.004 gives "0.00".

    Raises
    ------
    ValueError
        For NaN or an infinite value, or a negative `digits`.
    TypeError
        For anything but a number.
    """
    if operator.index(digits) < 0:
        raise ValueError(f"digits must be at least 0, got {digits}")
    exact = _decimal(x)
    with localcontext() as context:
        context.prec = 400  # enough to hold the largest double with its decimals
        rounded = exact.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP)
    return f"{abs(rounded) if rounded.is_zero() else rounded:f}"


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

    _check_level(level)
    left, right = _check_column("x", x), _check_column("y", y)
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

    _check_level(level)
    hits, total = _whole("successes", successes), _whole("n", n)
    if total < 1 or not 0 <= hits <= total:
        raise ValueError(f"0 ≤ successes ≤ n and n ≥ 1 are needed, got {hits} of {total}")
    if not 0 < null < 1:
        raise ValueError(f"null must lie strictly between 0 and 1, got {null}")
    tail = (1 - level) / 2
    low = beta.ppf(tail, hits, total - hits + 1) if hits > 0 else 0.0
    high = beta.isf(tail, hits + 1, total - hits) if hits < total else 1.0
    smaller = min(binom.cdf(hits, total, null), binom.sf(hits - 1, total, null))
    p = float(min(2 * smaller, 1.0))
    return Estimate(hits / total, float(low), float(high), total, level, p)


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjust the p-values of one family by Holm's step-down method.

    Parameters
    ----------
    p_values
        Shape (m,), m at least 1, each in [0, 1].

    Returns
    -------
    ndarray, shape (m,)
        Adjusted p-values in the order given. The i-th smallest (from 0) is multiplied by m - i;
        none is smaller than the one before it, and none exceeds 1.

    Raises
    ------
    ValueError
        For an empty family, NaN, or a value outside [0, 1].
    """
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or p.size == 0:
        raise ValueError(f"a family is a non-empty 1-d list of p-values, got shape {p.shape}")
    for value in p:
        if not 0 <= value <= 1:
            raise ValueError(f"a p-value must lie in [0, 1], got {value}")
    order = np.argsort(p, kind="stable")
    steps = np.minimum(np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)), 1.0)
    adjusted = np.empty_like(steps)
    adjusted[order] = steps
    return adjusted


def holm_levels(p_values: ArrayLike, level: float = 0.95) -> NDArray[np.float64]:
    """Give the confidence level at which each interval of a family is to be read.

    An interval read at its level excludes no effect exactly when Holm's method rejects, that is
    when its adjusted p-value is below 1 - level. The i-th smallest p-value (from 0) is read at
    1 - (1 - level) / (m - i) as long as every step so far has rejected. Once a step fails, all
    later ones are read at the level of that step: their p-values are no smaller, so they fail too.

    Parameters
    ----------
    p_values
        As for `holm`.
    level
        Confidence level of the whole family, in (0, 1).

    Returns
    -------
    ndarray, shape (m,)
        Levels in the order given, each at least `level`.

    Raises
    ------
    ValueError
        As for `holm`; for a level outside (0, 1).
    """
    _check_level(level)
    adjusted = holm(p_values)
    size = adjusted.size
    order = np.argsort(np.asarray(p_values, dtype=np.float64), kind="stable")
    failing = np.flatnonzero(adjusted[order] >= 1 - level)
    last = int(failing[0]) if failing.size else size - 1
    levels = np.empty(size)
    levels[order] = 1 - (1 - level) / (size - np.minimum(np.arange(size), last))
    return levels


def _decimal(x: float | Decimal) -> Decimal:
    if isinstance(x, bool) or not isinstance(x, (int, float, np.integer, np.floating, Decimal)):
        raise TypeError(f"a number is needed, got {x!r}")
    if isinstance(x, (Decimal, int, np.integer)):
        exact = Decimal(int(x)) if isinstance(x, np.integer) else Decimal(x)
    elif isinstance(x, float):
        exact = Decimal(f"{x:.15g}")
    else:
        exact = Decimal(str(x))  # a shorter float prints the digits it holds
    if not exact.is_finite():
        raise ValueError(f"only finite numbers can be rounded, got {x}")
    return exact


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level must lie strictly between 0 and 1, got {level}")


def _whole(name: str, value: int) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {value!r}") from None


def _check_column(name: str, values: ArrayLike | Sequence[float]) -> NDArray[np.float64]:
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
        _check_column("given", column)
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
