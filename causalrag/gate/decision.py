"""Whether to switch the re-ranker on for a corpus, from the gains of labelled probes (section 4.6).

A gain is the measure of the re-ranked order minus that of the baseline's, one per probe query, so
that higher is better. `decide` tests their mean and may abstain, where the paper's rule asks only
whether the mean is above zero. How such decisions vary between probes is in `bootstrap`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from causalrag.evaluate.estimates import check_column, check_level, check_share, check_whole
from causalrag.evaluate.paired import (
    EXACT_N,
    ROUNDING,
    MeanEstimate,
    paired_difference,
)

__all__ = [
    "FLIPS",
    "Decision",
    "decide",
    "fewest_probes",
    "probes_needed",
    "read_gains",
]

Choice: TypeAlias = Literal["enable", "disable", "abstain"]
Floats = NDArray[np.float64]

# Random sign flips where not all are counted, as many as `paired_difference` takes.
FLIPS = 10_000
# Beyond it the squares that a spread needs leave the range of a float.
MOST_GAIN = 1e100


@dataclass(frozen=True)
class Decision:
    """What the probes say about the re-ranker.

    Attributes
    ----------
    decision
        "enable": the mean gain is above zero at the level; "disable": it is below; "abstain": the
        probes do not tell.
    value
        The mean gain.
    low, high
        The means that the sign-flip test does not reject: its interval excludes 0 exactly where the
        decision is no abstention. Infinite where no outcome of so few probes could be significant.
    p
        Two-sided p-value of the sign-flip test.
    n
        Number of probes.
    level
        Confidence level.
    reason
        Why, in words.
    """

    decision: Choice
    value: float
    low: float
    high: float
    p: float
    n: int
    level: float
    reason: str

    @property
    def enabled(self) -> bool:
        """Whether to re-rank: True for "enable" only. An abstention keeps the baseline."""
        return self.decision == "enable"


def decide(gains: ArrayLike, level: float = 0.95, *, seed: int = 0) -> Decision:
    """Decide whether to switch the re-ranker on, by a sign-flip test of the mean gain.

    Parameters
    ----------
    gains
        Shape (n,), n at least 1, finite: re-ranked minus baseline per probe, higher is better.
    level
        Confidence level in (0, 1). Where there is no gain, about a share (1 - level) / 2 of probes
        enables by luck; where there is a loss, fewer.
    seed
        Of the random sign flips, for n > 20.

    Returns
    -------
    Decision
        Enables or disables where the two-sided p-value is below 1 - level, else abstains. All sign
        flips are counted for n ≤ 20, 10,000 random ones above. One probe abstains, and so do fewer
        than `fewest_probes` and probes that all tie.

    Raises
    ------
    ValueError
        For no gain, NaN, infinite or absurdly large gains (above 1e100), another shape, or a level
        outside (0, 1).
    TypeError
        If gains are no list of numbers, or level or seed is no number.

    Notes
    -----
    The paper enables if the mean gain is above zero, however little is known about it. The test
    assumes that the probes are drawn from the queries to come, which no test can check.
    """
    check_level(level)
    check_whole("seed", seed)
    column = read_gains(gains)
    estimate = paired_difference(
        column, 0.0, level, interval="randomisation", n_boot=FLIPS, seed=seed
    )
    decision: Choice = "abstain"
    if estimate.p < 1 - level:
        decision = "enable" if estimate.value > 0 else "disable"
    return Decision(
        decision,
        estimate.value,
        estimate.low,
        estimate.high,
        estimate.p,
        estimate.n,
        level,
        _reason(decision, estimate, not column.any()),
    )


def fewest_probes(level: float = 0.95) -> int:
    """Give the least number of probes with which `decide` can decide: 6 at level 0.95.

    Parameters
    ----------
    level
        Confidence level in (0, 1).

    Returns
    -------
    int
        The smallest n whose p-value, where all n gains have one sign, 2 / 2^n, is below 1 - level.

    Raises
    ------
    ValueError
        For a level outside (0, 1).
    """
    check_level(level)
    n = 1
    while 0.5 ** (n - 1) >= 1 - level:
        n += 1
    return n


def probes_needed(gains: ArrayLike, level: float = 0.95, power: float = 0.8) -> int | None:
    """Estimate how many probes it takes to decide, if the gains seen so far are typical.

    Parameters
    ----------
    gains
        Shape (n,), n at least 1, finite; as for `decide`.
    level
        Confidence level in (0, 1).
    power
        The chance of a decision, in (0, 1).

    Returns
    -------
    int or None
        The probes in all, those at hand included, by the normal approximation
        ``((z(level) + z(power)) * spread / mean)^2``, at least `fewest_probes`. None where the
        gains say nothing about it: one gain, or a mean of zero.

    Raises
    ------
    ValueError, TypeError
        As for `decide`; for a power outside (0, 1).

    Notes
    -----
    A plan, not a promise: with few probes mean and spread are rough. Label the probes in one go:
    testing after each and stopping at the first decision decides too often.
    """
    from scipy.stats import norm

    check_level(level)
    check_share("power", power)
    column = read_gains(gains)
    mean = float(column.mean())
    if column.size == 1 or abs(mean) <= ROUNDING * np.abs(column).max():
        return None
    reach = float(norm.isf((1 - level) / 2) + max(0.0, norm.ppf(power)))
    ratio = reach * float(column.std(ddof=1)) / mean
    return max(fewest_probes(level), math.ceil(ratio * ratio))


def read_gains(gains: Any) -> Floats:
    """Read gains; what is only rounding becomes 0, as in `paired_difference`."""
    if gains is None:
        raise TypeError("gains is None; give one number per probe: re-ranked minus baseline")
    column = _as_column(gains)
    if column.size == 0:
        raise ValueError("gains is empty: 0 probes decide nothing; label at least one probe query")
    largest = int(np.abs(column).argmax())
    if abs(column[largest]) > MOST_GAIN:
        raise ValueError(
            f"gains[{largest}] is {column[largest]:g}; a gain is a difference of two measures or "
            f"ranks, at most {MOST_GAIN:g}"
        )
    column[np.abs(column) <= ROUNDING * np.abs(column).max()] = 0.0
    return column


def _as_column(gains: Any) -> Floats:
    """Convert gains to a column of its own; refuse what is no list of finite numbers."""
    try:
        given = np.asarray(gains)
    except ValueError as error:  # lines of unequal length
        raise ValueError(f"gains must be 1-d, one number per probe, got {gains!r:.60}") from error
    if given.size and not _are_numbers(given):
        raise _no_numbers(gains)
    if np.ma.is_masked(gains):
        raise ValueError(f"gains has masked values; drop such rows: {gains!r:.60}")
    try:
        return check_column("gains", gains).copy()
    except TypeError as error:
        raise _no_numbers(gains) from error
    except OverflowError as error:  # a whole number that no float can hold
        raise ValueError(
            f"gains holds a number that no float can hold; a gain is a difference of two measures "
            f"or ranks, at most {MOST_GAIN:g}"
        ) from error


def _no_numbers(gains: Any) -> TypeError:
    return TypeError(f"gains must be a list of numbers, one per probe, got {gains!r:.60}")


def _are_numbers(given: NDArray[Any]) -> bool:
    """Whether an array holds numbers: texts, truth values and dates are none, though they convert.

    What lacks a value (None, NA) passes: `check_column` names its row.
    """
    if given.dtype.kind != "O":
        return given.dtype.kind in "fiu"
    return not any(isinstance(value, str | bytes | bool | np.bool_) for value in given.ravel())


def _reason(decision: Choice, estimate: MeanEstimate, ties: bool) -> str:
    n, level, least = estimate.n, estimate.level, fewest_probes(estimate.level)
    if decision != "abstain":
        side = "above" if decision == "enable" else "below"
        return (
            f"the mean gain {estimate.value:+.4f} of {n} probes is {side} zero at level {level:g} "
            f"(p = {estimate.p:.2g})"
        )
    if n == 1:
        return (
            f"one probe has no spread, so its gain {estimate.value:+.4f} proves nothing; at least "
            f"{least} probes can decide at level {level:g}"
        )
    if ties:
        return f"all {n} probes tie: both orders score alike on every one"
    if n < least:
        return (
            f"{n} probes cannot decide at level {level:g} whatever their gains; at least {least} "
            "can"
        )
    if n > EXACT_N and (FLIPS + 1) * (1 - level) <= 1:
        return (
            f"{FLIPS} random sign flips cannot tell at level {level}; choose a lower level, or at "
            f"most {EXACT_N} probes, whose flips are all counted"
        )
    return (
        f"the mean gain {estimate.value:+.4f} of {n} probes is not told from zero at level "
        f"{level:g} (p = {estimate.p:.2g})"
    )
