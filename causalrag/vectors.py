"""Unit vectors and cosines that do not depend on where a row lies in a matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["COSINE_ROUNDING", "dot", "unit"]

Floats = NDArray[np.float64]

# Encoders give float32: a cosine is known to about 1e-7.
COSINE_ROUNDING = 2e-7


def unit(vectors: ArrayLike) -> Floats:
    """Scale the last axis to unit length in float64; a zero vector stays zero.

    Parameters
    ----------
    vectors : (h,) or (n, h) array_like
        Finite numbers.

    Returns
    -------
    float64 array of the same shape
    """
    values = np.asarray(vectors, dtype=np.float64)
    with np.errstate(over="ignore"):
        norms = np.sqrt(np.einsum("...h,...h->...", values, values))[..., np.newaxis]
    if ((norms > 1e-100) & (norms < 1e100)).all():
        usual: Floats = values / norms
        return usual
    # Zero rows, and rows so long or short that their squares over- or underflow: scale these by
    # their largest entry first.
    largest = np.abs(values).max(axis=-1, keepdims=True, initial=0.0)
    scaled = values / np.where(largest > 0, largest, 1.0)
    norms = np.sqrt(np.einsum("...h,...h->...", scaled, scaled))[..., np.newaxis]
    result: Floats = scaled / np.where(norms > 0, norms, 1.0)
    return result


def dot(rows: Floats, vector: Floats) -> Floats:
    """Multiply unit rows by a unit vector.

    Parameters
    ----------
    rows : (n, h) float64 array
        Unit or zero rows.
    vector : (h,) float64 array
        A unit or zero vector.

    Returns
    -------
    (n,) float64 array
        Cosines in [-1, 1], to 12 decimals.
    """
    # Equal scores must tie, or documents would be ordered by rounding: so no BLAS product, which
    # sums equal rows differently at different places, and no digits that depend on the order of
    # summation. Adding zero turns -0.0 into 0.0.
    result: Floats = np.clip(np.round(np.einsum("nh,h->n", rows, vector), 12), -1.0, 1.0) + 0.0
    return result
