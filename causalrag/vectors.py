"""Unit vectors and cosines that do not depend on where a row lies in a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["COSINE_ROUNDING", "cosine_digits", "dot", "unit", "usual_cosines"]

Floats = NDArray[np.float64]

# Encoders give float32: a cosine is known to about 1e-7.
COSINE_ROUNDING = 2e-7

# How many vectors are held in float64 at once: what the processor's cache holds.
BLOCK = 128


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
    # Row by row, where a matrix product would sum equal rows differently at different places.
    return cosine_digits(np.einsum("nh,h->n", rows, vector))


def cosine_digits(cosines: Floats) -> Floats:
    """Keep the digits of cosines that do not depend on the order of summation.

    Equal scores must tie, or documents would be ordered by rounding.

    Parameters
    ----------
    cosines : (n,) float64 array
        Cosines up to rounding.

    Returns
    -------
    (n,) float64 array
        In [-1, 1], to 12 decimals.
    """
    # Adding zero turns -0.0 into 0.0.
    result: Floats = np.clip(np.round(cosines, 12), -1.0, 1.0) + 0.0
    return result


def usual_cosines(vectors: Sequence[Any], direction: Floats) -> Floats | None:
    """Compute the cosines of many separate vectors with one, without laying out a matrix.

    Parameters
    ----------
    vectors : sequence of n objects
        Each usually an (h,) array of floats, neither zero nor beyond a length of 1e100.
    direction : (h,) float64 array
        A unit or zero vector.

    Returns
    -------
    (n,) float64 array or None
        As from `dot`; None if one of the vectors is unusual.
    """
    if {type(vector) for vector in vectors} != {np.ndarray}:
        return None
    if {vector.shape for vector in vectors} != {direction.shape}:
        return None
    if any(dtype.kind != "f" for dtype in {vector.dtype for vector in vectors}):
        return None
    squares, products = np.empty(len(vectors)), np.empty(len(vectors))
    block = np.empty((BLOCK, len(direction)))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(vectors), BLOCK):
            some = vectors[start : start + BLOCK]
            rows = block[: len(some)]
            np.concatenate(some, out=rows.reshape(-1))
            np.vecdot(rows, rows, out=squares[start : start + BLOCK])
            np.vecdot(rows, direction, out=products[start : start + BLOCK])
    if not ((squares > 1e-200) & (squares < 1e200)).all():  # NaN is neither
        return None
    return cosine_digits(products / np.sqrt(squares))
