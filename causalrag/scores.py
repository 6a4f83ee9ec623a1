"""Scores of candidates, from whatever ranker: read as finite numbers, stretched to [0, 1].

Shared by the hybrid (section 4.4) and the fusion of first stages. Computing scores is elsewhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["SPREAD_ROUNDING", "finite_scores", "minmax"]

Floats = NDArray[np.float64]

# A spread below this share of the largest value is rounding, and min-max would blow it up.
SPREAD_ROUNDING = 1e-10


def finite_scores(values: ArrayLike, name: str) -> Floats:
    """Read (n,) scores as float64; `name` is what an error calls them.

    Raises
    ------
    TypeError
        If they are not numbers.
    ValueError
        If the shape is not (n,), or a score is NaN or infinite.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be a sequence of numbers: {error}") from error
    if array.ndim != 1:
        raise ValueError(f"{name} must have shape (n,), not {array.shape}")
    finite = np.isfinite(array)
    if not finite.all():
        place = int(np.argmin(finite))
        raise ValueError(f"{name}[{place}] is {array[place]}; drop or repair it first")
    return array


def minmax(values: Floats) -> Floats:
    """Stretch finite (n,) scores to [0, 1]; constant ones become 0."""
    if not len(values):
        return values
    largest = float(np.abs(values).max())
    if largest > 1e300:  # the spread itself could overflow
        values, largest = values / largest, 1.0
    low, spread = values.min(), np.ptp(values)
    if spread <= SPREAD_ROUNDING * largest:
        return np.zeros(len(values))
    result: Floats = (values - low) / spread
    return result
