"""Fusion of first stages: by ranks, and by scores.

Both give one score for each of the n candidates, for use as ``scores=`` of `CausalReranker.rank`.
Neither learns anything: the weights are the caller's.
"""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from causalrag.retrieve.base import Hits
from causalrag.scores import finite_scores, minmax

__all__ = ["reciprocal_rank_fusion", "score_fusion"]

Floats = NDArray[np.float64]


def reciprocal_rank_fusion(
    rankings: Iterable[Hits | ArrayLike], k: float = 60, n: int | None = None
) -> Floats:
    """Fuse by rank: the sum of ``1 / (k + rank)`` over the rankings.

    Parameters
    ----------
    rankings : iterable of (n,) array_like or Hits
        For each first stage, its scores of the same n candidates, higher is better; or its `Hits`,
        which may lack candidates: one that was not retrieved gets nothing from it. Where many
        scores are equal, give scores: `Hits` are cut among equal ones by index.
    k : float
        Dampens the first ranks, at least 0. 60 is the source's.
    n : int, optional
        The number of candidates; needed if all rankings are `Hits`, whose indices lie below it.

    Returns
    -------
    (n,) float64 array
        Candidates with equal scores in a ranking share the mean of the ranks that they take up
        together (1, 2.5, 2.5, 4), so the order of the input gives no credit, and a constant
        scorer does not change the order.

    Raises
    ------
    ValueError
        If there is no ranking, lengths differ, a score is NaN or infinite, an index is out of range
        or occurs twice, `k` is negative, or `n` is missing.
    TypeError
        If an argument is of an unusable type.

    References
    ----------
    Cormack, Clarke and Buettcher (2009), Reciprocal Rank Fusion Outperforms Condorcet and
    Individual Rank Learning Methods.

    Examples
    --------
    >>> reciprocal_rank_fusion([[3, 2, 1], [0.1, 0.9, 0.5]]).argmax()
    np.int64(1)
    """
    _check_number("k", k)
    read = [
        (hits.indices, hits.scores)
        if isinstance(hits, Hits)
        else (None, finite_scores(hits, f"rankings[{place}]"))
        for place, hits in enumerate(_checked_list(rankings, "rankings"))
    ]
    size = _size([len(scores) for indices, scores in read if indices is None], n)
    parts = np.zeros((len(read), size))
    for place, (indices, scores) in enumerate(read):
        name = f"rankings[{place}]"
        credit = 1 / (k + _mean_ranks(finite_scores(scores, name)))
        parts[place, _places(indices, size, len(credit), name)] = credit
    return _sum(parts)


def score_fusion(scores: Iterable[ArrayLike], weights: Iterable[float] | None = None) -> Floats:
    """Fuse by score: the weighted mean of the min-max normalised scores.

    Parameters
    ----------
    scores : iterable of (n,) array_like
        For each first stage, its scores of the same n candidates, higher is better, on any scale.
        A constant score becomes 0; so does one whose spread is below 1e-10 of its largest value,
        which is rounding.
    weights : iterable of float, optional
        One for each first stage, at least 0; divided by their sum. None weighs all alike.

    Returns
    -------
    (n,) float64 array
        In [0, 1]. With two first stages and weights w and 1 - w, what `causalrag.hybrid` gives.

    Raises
    ------
    ValueError
        If there is no score list, lengths differ, a score is NaN or infinite, there is not one
        weight for each list, a weight is negative or all are 0.
    TypeError
        If an argument is of an unusable type.

    References
    ----------
    Fox and Shaw (1994), Combination of Multiple Searches (CombSUM).
    Lee (1997), Analyses of Multiple Evidence Combination (min-max).

    Examples
    --------
    >>> score_fusion([[3, 2, 1], [0.0, 10.0, 10.0]])
    array([0.5 , 0.75, 0.5 ])
    """
    read = [
        finite_scores(values, f"scores[{place}]")
        for place, values in enumerate(_checked_list(scores, "scores"))
    ]
    _size([len(values) for values in read], None)
    shares = _shares(weights, len(read))
    normal = [share * minmax(values) for share, values in zip(shares, read, strict=True)]
    return _sum(np.array(normal))


def _checked_list(values: Iterable[Hits | ArrayLike], name: str) -> list[Hits | ArrayLike]:
    if isinstance(values, Hits | str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a list of score lists, not {type(values).__name__}")
    listed = list(values)
    if not listed:
        raise ValueError(f"{name} is empty; give at least one score list")
    return listed


def _size(lengths: list[int], n: int | None) -> int:
    if n is not None:
        if not isinstance(n, Integral) or isinstance(n, bool):
            raise TypeError(f"n must be an int, not {type(n).__name__}")
        if n < 0:
            raise ValueError(f"n is {n}; give the number of candidates")
        lengths = [int(n), *lengths]
    if not lengths:
        raise ValueError("Hits do not say how many candidates there are; give n")
    if len(set(lengths)) > 1:
        raise ValueError(f"{lengths} scores; all first stages must score the same candidates")
    return lengths[0]


def _places(
    indices: NDArray[np.int64] | None, size: int, scored: int, name: str
) -> NDArray[np.int64]:
    """Positions of the scored candidates; the checks are for a `Hits` put together by hand."""
    if indices is None:
        return np.arange(size)
    if len(indices) != scored:
        raise ValueError(f"{name} holds {len(indices)} indices but {scored} scores")
    outside = (indices < 0) | (indices >= size)
    if outside.any():
        raise ValueError(f"{name} holds index {indices[outside][0]}, n is {size}")
    values, counts = np.unique(indices, return_counts=True)
    if (counts > 1).any():
        raise ValueError(f"{name} holds index {values[counts > 1][0]} twice")
    return indices


def _mean_ranks(scores: Floats) -> Floats:
    """Ranks from 1, best first; equal scores share the mean of their ranks."""
    _, group, counts = np.unique(-scores, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: Floats = (last - (counts - 1) / 2)[group]
    return ranks


def _shares(weights: Iterable[float] | None, count: int) -> Floats:
    if weights is None:
        return np.full(count, 1 / count)
    given = list(weights)
    for place, weight in enumerate(given):
        _check_number(f"weights[{place}]", weight)
    if len(given) != count:
        raise ValueError(f"{len(given)} weights for {count} score lists; give one each")
    if not any(given):
        raise ValueError("all weights are 0; give at least one above 0")
    values = np.array(given, dtype=np.float64) / max(given)
    shares: Floats = values / values.sum()
    return shares


def _sum(parts: Floats) -> Floats:
    # In order of size: the same parts from other first stages must give the very same sum.
    total: Floats = np.sort(parts, axis=0).sum(axis=0)
    return total


def _check_number(name: str, value: float) -> None:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}")
    if not 0 <= value < np.inf:
        raise ValueError(f"{name} is {value}; it must be finite and at least 0")
