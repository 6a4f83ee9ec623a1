"""Several tests at once: Holm's correction, as p-values and as levels for intervals.

No test is made here; the p-values come from `estimates` and `paired`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from causalrag.evaluate.estimates import check_level


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

    That holds for intervals that are another reading of their p-value: those of `correlation`,
    `proportion` and `sign_test`, and those of `paired_difference` by randomisation (with the same
    seed). A bootstrap interval may disagree near the edge; then the interval decides.

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
    check_level(level)
    adjusted = holm(p_values)
    size = adjusted.size
    order = np.argsort(np.asarray(p_values, dtype=np.float64), kind="stable")
    failing = np.flatnonzero(adjusted[order] >= 1 - level)
    last = int(failing[0]) if failing.size else size - 1
    levels = np.empty(size)
    levels[order] = 1 - (1 - level) / (size - np.minimum(np.arange(size), last))
    return levels
