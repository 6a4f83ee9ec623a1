"""The paper's bootstrap of the decision (Table 4), with `decide` beside it, for any size of probe.

A probe is drawn from the gains at hand, with replacement. Its p-value is that of `decide`, computed
for all draws at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from causalrag.evaluate.estimates import check_level, check_whole
from causalrag.evaluate.paired import DRAWN_AT_ONCE, EXACT_N, ROUNDING
from causalrag.gate.decision import FLIPS, read_gains

__all__ = ["Counts", "Outcomes", "outcomes", "reliability"]

Floats = NDArray[np.float64]


class Counts(NamedTuple):
    """How many draws end in which decision."""

    enable: int
    disable: int
    abstain: int


@dataclass(frozen=True)
class Outcomes:
    """The decisions of bootstrap probes under two rules.

    Attributes
    ----------
    n_probes, n_draws
        Size and number of the probes.
    level
        Confidence level of `exact`.
    right
        The paper's rule on all gains: "enable" if their mean is above zero, else "disable".
    paper
        The paper's rule: mean gain above zero. It never abstains.
    exact
        The rule of `decide`.
    """

    n_probes: int
    n_draws: int
    level: float
    right: Literal["enable", "disable"]
    paper: Counts
    exact: Counts


def reliability(gains: ArrayLike, n_probes: int, n_draws: int = 2000, seed: int = 0) -> float:
    """Give the share of bootstrap probes that decide as all gains do, by the paper's rule.

    Parameters
    ----------
    gains
        Shape (n,), n at least 1, finite; as for `decide`.
    n_probes
        Gains drawn for each probe, with replacement; 1 to n.
    n_draws
        Number of probes, at least 1.
    seed
        Of the draws.

    Returns
    -------
    float
        In [0, 1]: how often "the mean of the probe is above zero" equals "the mean of all gains is
        above zero". A mean of exactly zero, up to rounding, is not above.

    Raises
    ------
    ValueError
        As for `decide`; for n_probes outside 1 to n, n_draws below 1, or a negative seed.
    TypeError
        If gains are no numbers, or a count or the seed is no whole number.

    Notes
    -----
    All gains of one sign give 1 for every `n_probes`, one included, however few they are: the draws
    know of no gain that the sample lacks. The share says how often the rule repeats itself on these
    queries, not how often it is right about others.
    """
    column, n_probes, n_draws = _checked(gains, n_probes, n_draws, seed)
    enabled = 0
    for draws in _draws(column, n_probes, n_draws, seed):
        enabled += int((_means(draws) > 0).sum())
    right = enabled if _right(column) == "enable" else n_draws - enabled
    return right / n_draws


def outcomes(
    gains: ArrayLike, n_probes: int, n_draws: int = 2000, seed: int = 0, level: float = 0.95
) -> Outcomes:
    """Count the decisions of bootstrap probes, by the paper's rule and by `decide`.

    Parameters
    ----------
    gains, n_probes, n_draws
        As for `reliability`.
    seed
        The draws are those of `reliability` with the same seed; it is also the seed of `decide`.
    level
        Of `decide`.

    Returns
    -------
    Outcomes
        ``exact`` counts what `decide` says of each draw, ``paper`` what the paper's rule says.

    Raises
    ------
    ValueError, TypeError
        As for `reliability` and `decide`.

    Notes
    -----
    2,000 draws take about 0.2 s at 20 and at 30 probes: the subset sums of a draw are counted in
    two halves up to 20 probes, and all draws share the random sign flips above.
    """
    check_level(level)
    column, n_probes, n_draws = _checked(gains, n_probes, n_draws, seed)
    paper, exact = np.zeros(3, dtype=np.int64), np.zeros(3, dtype=np.int64)
    for draws in _draws(column, n_probes, n_draws, seed):
        means = _means(draws)
        told = _sign_flip_p(draws, means, seed) < 1 - level
        up, down = means > 0, means < 0
        paper += [up.sum(), (~up).sum(), 0]
        exact += [(told & up).sum(), (told & down).sum(), (~told).sum()]
    return Outcomes(
        n_probes,
        n_draws,
        level,
        _right(column),
        Counts(*paper.tolist()),
        Counts(*exact.tolist()),
    )


def _checked(gains: Any, n_probes: int, n_draws: int, seed: int) -> tuple[Floats, int, int]:
    check_whole("seed", seed)
    column = read_gains(gains)
    probes = check_whole("n_probes", n_probes, least=1)
    if probes > column.size:
        raise ValueError(
            f"n_probes is {probes}; give 1 to {column.size}, the number of gains (for larger "
            "probes label more queries)"
        )
    return column, probes, check_whole("n_draws", n_draws, least=1)


# --- draws --------------------------------------------------------------------------------------


def _draws(column: Floats, n_probes: int, n_draws: int, seed: int) -> Iterator[Floats]:
    """Give (m, n_probes) arrays of gains drawn with replacement, `n_draws` lines in all."""
    # A stream of its own: the flips of `decide` come from the seed itself.
    rng = np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0])
    for size in _blocks(n_draws, n_probes):
        yield column[rng.integers(column.size, size=(size, n_probes))]


def _blocks(total: int, width: int) -> Iterator[int]:
    step = max(1, DRAWN_AT_ONCE // width)
    for start in range(0, total, step):
        yield min(step, total - start)


def _slack(draws: Floats) -> Floats:
    return np.asarray(ROUNDING * np.abs(draws).max(axis=1))


def _means(draws: Floats) -> Floats:
    """Give the mean of each line; what is only rounding is 0."""
    means = draws.mean(axis=1)
    means[np.abs(means) <= _slack(draws)] = 0.0
    return np.asarray(means)


def _right(column: Floats) -> Literal["enable", "disable"]:
    return "enable" if _means(column[np.newaxis])[0] > 0 else "disable"


# --- the sign-flip test of many draws -----------------------------------------------------------


def _sign_flip_p(draws: Floats, means: Floats, seed: int) -> Floats:
    """Give the p-value of `paired_difference` for each line of draws.

    With the signs turned so that the mean is above zero, flipping a subset takes the sum as far
    from zero as it was exactly where the sum of that subset, or of its rest, is at most zero.
    """
    p = np.ones(len(draws))
    moved = np.flatnonzero(means)
    turned = draws[moved] * np.sign(means[moved])[:, np.newaxis]
    slack, n = _slack(turned), draws.shape[1]
    if n <= EXACT_N:
        p[moved] = _all_subsets(turned, slack) / 2.0 ** (n - 1)
    else:
        p[moved] = (1 + _random_subsets(turned, slack, seed)) / (FLIPS + 1)
    return p


def _all_subsets(draws: Floats, slack: Floats) -> NDArray[np.int64]:
    """Count each line's subsets with a sum of at most zero, the empty one included."""
    half = draws.shape[1] // 2
    counts = np.empty(len(draws), dtype=np.int64)
    done = 0
    for size in _blocks(len(draws), 2 ** (draws.shape[1] - half)):
        lines = slice(done, done + size)
        first, second = _subset_sums(draws[lines, :half]), _subset_sums(draws[lines, half:])
        second.sort(axis=1)
        room = slack[lines, np.newaxis] - first
        for line in range(size):
            counts[done + line] = second[line].searchsorted(room[line], side="right").sum()
        done += size
    return counts


def _subset_sums(part: Floats) -> Floats:
    """Sum all subsets of each line: (m, k) to (m, 2^k)."""
    sums = np.zeros((len(part), 1))
    for column in part.T:
        sums = np.concatenate([sums, sums + column[:, np.newaxis]], axis=1)
    return sums


def _random_subsets(draws: Floats, slack: Floats, seed: int) -> NDArray[np.int64]:
    """Count, of `FLIPS` random subsets and their rests, those with a sum of at most zero."""
    n, totals = draws.shape[1], draws.sum(axis=1)
    rng = np.random.default_rng(seed)
    counts = np.zeros(len(draws), dtype=np.int64)
    for size in _blocks(FLIPS, n):
        chosen = _chosen(rng, size, n)
        step = max(1, DRAWN_AT_ONCE // size)
        for start in range(0, len(draws), step):
            lines = slice(start, start + step)
            sums = chosen @ draws[lines].T
            counts[lines] += (sums <= slack[lines]).sum(axis=0)
            counts[lines] += (sums >= totals[lines] - slack[lines]).sum(axis=0)
    return counts


def _chosen(rng: np.random.Generator, size: int, n: int) -> Floats:
    """Draw the subsets that `paired_difference` draws from the same seed; 1 is chosen."""
    bits = np.frombuffer(rng.bytes(size * 4 * (-(-n // 32))), dtype=np.uint8).reshape(size, -1)
    chosen = np.unpackbits(bits, axis=1, count=n).astype(np.float64)
    alike = np.isin(chosen.sum(axis=1), (0, n))
    chosen[alike, 0] = 1 - chosen[alike, 0]
    return chosen
