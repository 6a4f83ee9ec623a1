"""Fit the rule's two coefficients on a few labelled probes, shrunk, or not at all.

The best pair of a small grid on n probes is an optimist: it is drawn back to the setting one would
use without probes, the more the fewer they are, and taken only if the gate's test says that such a
fit is better on probes that it has not seen. Otherwise the setting stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from causalrag.adjust.rule import DEFAULT, Adjustment, Surface
from causalrag.gate.decision import Decision, decide
from causalrag.scores import finite_scores

__all__ = ["PENALTIES", "PRIOR_PROBES", "REWARDS", "Fitted", "Probe", "fit"]

Floats = NDArray[np.float64]

REWARDS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
PENALTIES = (0.0, 1.0, 2.0, 4.0, 8.0)
# As many probes as count for the setting one starts from.
PRIOR_PROBES = 30
CUT = 10
# Each probe is measured with coefficients that the others were fitted on, in so many parts.
FOLDS = 5


@dataclass(frozen=True)
class Probe:
    """A query whose candidates are judged.

    Attributes
    ----------
    base : (n,) array_like
        The first stage's scores.
    surface : Surface
        From `read_surface`.
    grades : (n,) array_like
        Relevance grades, at least 0.
    """

    base: ArrayLike
    surface: Surface
    grades: ArrayLike


@dataclass(frozen=True)
class Fitted:
    """What the probes say about the coefficients.

    Attributes
    ----------
    adjustment : Adjustment
        The one to use: the shrunk one, or the start where the gate did not enable it.
    best, shrunk : Adjustment
        The best of the grid on the probes; the same drawn back to the start.
    decision : Decision
        The gate's, on the probes' gains over the start. Each probe's is that of the pair fitted on
        the other folds.
    n : int
        How many probes.
    """

    adjustment: Adjustment
    best: Adjustment
    shrunk: Adjustment
    decision: Decision
    n: int


def fit(
    probes: Iterable[Probe],
    start: Adjustment = DEFAULT,
    level: float = 0.95,
    *,
    rewards: Sequence[float] = REWARDS,
    penalties: Sequence[float] = PENALTIES,
    progress: Callable[[int, int], object] | None = None,
) -> Fitted:
    """Fit reward and penalty on labelled probes, with shrinkage and abstention.

    Parameters
    ----------
    probes : iterable of Probe
        n probes, none of which may be among the queries that the setting is then measured on.
    start : Adjustment
        What is used without probes.
    level : float
        Confidence level of the gate's decision.
    rewards, penalties : sequences of float
        The grid. Of equally good pairs the one nearest to the start is taken.
    progress : callable, optional
        Called as ``progress(done, total)`` after each pair of the grid.

    Returns
    -------
    Fitted
        ``shrunk = start + n / (n + 30) * (best - start)``, for both coefficients.

    Raises
    ------
    ValueError
        If there is no probe, a probe's lengths differ, a grade is negative, or the grid is empty.
    TypeError
        If a probe is no `Probe`.

    Notes
    -----
    The measure is nDCG@10 of the candidates, its ideal being their own best order: a re-ranking can
    do no better. Probes without a relevant candidate say nothing and count as ties.
    """
    probes = list(probes)
    if not probes:
        raise ValueError("fitting needs at least one labelled probe, got none")
    if not all(isinstance(probe, Probe) for probe in probes):
        raise TypeError("each probe must be a Probe: its base scores, surface and grades")
    judged = [_judged(number, probe) for number, probe in enumerate(probes)]
    grid = [replace(start, reward=r, penalty=p) for r, p in product(rewards, penalties)]
    if not grid:
        raise ValueError("the grid is empty: give at least one reward and one penalty")
    values = np.empty((len(grid), len(judged)))
    for done, rule in enumerate(grid):
        values[done] = _measured(rule, judged)
        if progress is not None:
            progress(done + 1, len(grid))
    best = _best(grid, values, start)
    shrunk = _shrunk(best, start, len(judged))
    decision = decide(_unseen_gains(grid, values, judged, start), level)
    return Fitted(shrunk if decision.enabled else start, best, shrunk, decision, len(judged))


def _unseen_gains(
    grid: Sequence[Adjustment], values: Floats, probes: Sequence[Probe], start: Adjustment
) -> Floats:
    """Measure each probe's gain with coefficients that the other folds were fitted on."""
    n = len(probes)
    gains, folds = np.zeros(n), np.arange(n) % FOLDS
    for fold in range(min(FOLDS, n) if n > 1 else 0):  # a single probe has no others
        held = folds == fold
        rule = _shrunk(_best(grid, values[:, ~held], start), start, int((~held).sum()))
        some = [probe for probe, out in zip(probes, held, strict=True) if out]
        gains[held] = _measured(rule, some) - _measured(start, some)
    return gains


def _best(grid: Sequence[Adjustment], values: Floats, start: Adjustment) -> Adjustment:
    """Take the pair with the best mean; of equally good ones the nearest to the start."""
    # Rounded: sums of equal gains in another order must not decide between pairs.
    means = values.mean(axis=1)
    ranked = [(-round(float(v), 9), _distance(g, start)) for v, g in zip(means, grid, strict=True)]
    return grid[min(range(len(grid)), key=ranked.__getitem__)]


def _shrunk(best: Adjustment, start: Adjustment, n: int) -> Adjustment:
    share = n / (n + PRIOR_PROBES)
    return replace(
        start,
        reward=start.reward + share * (best.reward - start.reward),
        penalty=start.penalty + share * (best.penalty - start.penalty),
    )


def _distance(rule: Adjustment, start: Adjustment) -> float:
    return abs(rule.reward - start.reward) + abs(rule.penalty - start.penalty)


def _judged(number: int, probe: Probe) -> Probe:
    base = finite_scores(probe.base, f"the base of probe {number}")
    grades = finite_scores(probe.grades, f"the grades of probe {number}")
    if not len(base) == len(grades) == len(probe.surface.coverage):
        raise ValueError(
            f"probe {number} has {len(base)} base scores, {len(grades)} grades and "
            f"{len(probe.surface.coverage)} documents; give one of each per candidate"
        )
    if len(grades) and grades.min() < 0:
        raise ValueError(f"probe {number} has the grade {grades.min():g}; grades start at 0")
    return Probe(base, probe.surface, grades)


def _measured(rule: Adjustment, probes: Sequence[Probe]) -> Floats:
    return np.array([_ndcg(rule, probe) for probe in probes])


def _ndcg(rule: Adjustment, probe: Probe) -> float:
    grades = np.asarray(probe.grades, dtype=np.float64)
    order = np.argsort(-rule.scores(probe.base, probe.surface), kind="stable")
    discount = 1.0 / np.log2(np.arange(2, min(CUT, len(grades)) + 2))
    ideal = float(np.sort(grades)[::-1][:CUT] @ discount)
    return float(grades[order[:CUT]] @ discount / ideal) if ideal else 0.0
