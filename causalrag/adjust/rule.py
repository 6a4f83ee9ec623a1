"""Account for A instead of scoring B: presence is evidence, repetition beyond presence is stuffing.

With the `manipulation` variant of the graph an author's aim M reaches the document by a path that
does not pass A: what a text repeats of the query's words beyond what texts repeat by nature. That
they are there at all is what A itself does. So the rule adds to any base score a reward for
coverage (presence) and subtracts a penalty for repetition above a bend, which is read off the
collection without a label: from the excess repetition that its texts have of their own heaviest
keywords. Presence is easily forged, one mention for each word, so its reward is at most what the
base score grants the document already. Repetition has two causes, an author's aim and a subject
that needs the words. What is left of the document, B, tells them apart: the penalty shrinks with
the share of ordinary candidates whose causal score is lower. Beyond the papers. Counts come from
`surface`, causal scores and the ordering from `rerank`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from causalrag.keywords.base import KeywordExtractor, as_extractor
from causalrag.scores import finite_scores, minmax
from causalrag.surface import coverage, equal_tokens, excess_repetition, token_counts

__all__ = [
    "DEFAULT",
    "GUARD",
    "NATURAL",
    "Adjustment",
    "Parts",
    "Surface",
    "bend",
    "own_bend",
    "read_surface",
    "with_support",
]

Floats = NDArray[np.float64]

# `TfidfKeywords.repetition` of SciFact's documents, for collections that have none of their own.
NATURAL = (
    0.068, 0.114, 0.150, 0.179, 0.203, 0.227, 0.246, 0.263, 0.277, 0.291, 0.304, 0.315, 0.325,
    0.335, 0.343,
)  # fmt: skip


# A subject is rarely one word, and a text about it says its name more often than texts say the word
# that they say most. A query of fewer keywords counts as one of three.
FEWEST = 3


def own_bend(size: int, keywords: KeywordExtractor | None) -> float | None:
    """Give the excess repetition up to which a collection repeats keywords by nature.

    Parameters
    ----------
    size : int
        |K_q|; below three it counts as three, above what is known it gets the last value.
    keywords : extractor or None
        One with a ``repetition``, such as `TfidfKeywords.fit` gives: that of its collection.

    Returns
    -------
    float or None
        None where `keywords` knows of no repetition, or its texts repeat none of their own words.
    """
    return _at(size, tuple(getattr(keywords, "repetition", ()))) or None


def bend(size: int, keywords: KeywordExtractor | None = None) -> float:
    """Give `own_bend`, or that of `NATURAL` where there is none.

    Parameters
    ----------
    size, keywords
        As for `own_bend`.
    """
    return own_bend(size, keywords) or _at(size, NATURAL)


def _at(size: int, table: Sequence[float]) -> float:
    return float(table[min(max(size, FEWEST), len(table)) - 1]) if table else 0.0


@dataclass(frozen=True)
class Surface:
    """What a query's candidates show of its words.

    Attributes
    ----------
    coverage : (n,) float64 array
        Idf-weighted share of the query's content tokens that the document holds, in [0, 1].
    excess : (n,) float64 array
        Repetitions of the query's keywords K_q over content tokens, in [0, 1).
    bend : float
        Up to where that is natural.
    support : (n,) float64 array, optional
        What the rest of the document says for it: the share of the candidates at or below the bend
        whose causal score is lower, in [0, 1]; see `with_support`. None counts as none.
    """

    coverage: Floats
    excess: Floats
    bend: float
    support: Floats | None = None

    def __post_init__(self) -> None:
        for name in ("coverage", "excess", "support"):
            if getattr(self, name) is None and name == "support":
                continue
            shares = finite_scores(getattr(self, name), name)
            if len(shares) != len(self.excess):
                raise ValueError(f"{len(shares)} values of {name} for {len(self.excess)} of excess")
            # A sum of idf weights may pass 1 by rounding.
            if len(shares) and not (shares.min() >= 0 and shares.max() <= 1 + 1e-9):
                raise ValueError(f"{name} lies outside [0, 1]: it is a share of words or documents")
            object.__setattr__(self, name, shares)
        if not (math.isfinite(self.bend) and self.bend > 0):
            raise ValueError(f"bend is {self.bend}; it must be finite and above 0")

    def take(self, places: NDArray[np.bool_] | NDArray[np.int64]) -> Surface:
        """Keep some candidates, by flags or places; what each one shows stays as it is."""
        support = None if self.support is None else self.support[places]
        return Surface(self.coverage[places], self.excess[places], self.bend, support)

    @property
    def over(self) -> Floats:
        """Repetition beyond the bend, in bends; 0 at or below it, shape (n,)."""
        return np.asarray(np.maximum(0.0, self.excess / self.bend - 1.0))


def read_surface(query: str, texts: Sequence[str], keywords: KeywordExtractor) -> Surface:
    """Count presence and repetition of a query's words in n candidates.

    Parameters
    ----------
    query : str
        The query.
    texts : sequence of str
        n documents as they are encoded: title and text.
    keywords : extractor
        Gives K_q, tokens and idf (`as_extractor` fills in what it lacks), and the bend.

    Returns
    -------
    Surface
        Tokens are compared as equal strings. Nothing is encoded: a near word is evidence that the
        base score already has, and no author needs to repeat it to be found.

    Raises
    ------
    TypeError
        If `texts` is one string.
    """
    if isinstance(texts, str):
        raise TypeError(f"texts must be a list of documents, got {texts!r:.60}")
    extractor = as_extractor(keywords)
    tokens = dict.fromkeys(extractor.tokens(query))
    wanted = set(extractor.query(query))
    counts = token_counts(texts, keywords)
    return Surface(
        coverage(counts, {token: extractor.idf(token) for token in tokens}),
        excess_repetition(counts, equal_tokens(counts, [wanted] * len(counts))),
        bend(len(wanted), keywords),
    )


def with_support(surface: Surface, causal: ArrayLike, has_residual: ArrayLike) -> Surface:
    """Add what the rest of each candidate says for it.

    Parameters
    ----------
    surface : Surface
        Of n candidates.
    causal : (n,) array_like
        Their causal scores (Eq. 5), finite.
    has_residual : (n,) array_like of bool
        Which of them have a B; a document without one has no support.

    Returns
    -------
    Surface
        With ``support``: for each candidate the share of those at or below the bend (of all, where
        none is) whose causal score is lower, equal ones counted half. Only the order of the causal
        scores enters. What B is depends on tau, though: where tau lies below the encoder's cosines
        of unrelated words, no candidate has a B, and none has support (see `calibrate`).

    Raises
    ------
    ValueError
        If the lengths differ, or a score is NaN or infinite.
    """
    scores = finite_scores(causal, "causal")
    has = np.asarray(has_residual, dtype=np.bool_)
    n = len(surface.excess)
    if not len(scores) == len(has) == n:
        raise ValueError(f"{len(scores)} causal scores and {len(has)} flags for {n} documents")
    if not n:
        return replace(surface, support=np.zeros(0))
    ordinary = surface.over == 0
    ranked = np.sort(np.where(has, scores, -np.inf)[ordinary if ordinary.any() else slice(None)])
    lower, upper = (np.searchsorted(ranked, scores, side) for side in ("left", "right"))
    return replace(surface, support=np.where(has, (lower + upper) / (2 * len(ranked)), 0.0))


class Parts(NamedTuple):
    """What an adjusted score is made of: ``base + presence - penalty``, each (n,) float64.

    Attributes
    ----------
    base
        The base score, stretched over the ordinary candidates to [0, 1].
    presence
        What coverage adds.
    penalty
        What repetition takes away.
    """

    base: Floats
    presence: Floats
    penalty: Floats


@dataclass(frozen=True)
class Adjustment:
    """A rule that accounts for A on top of any base score.

    Attributes
    ----------
    reward : float
        What full coverage adds where the base score supports it, at least 0. The unit is the spread
        of the base score over the candidates at or below the bend, so the rule does not change with
        the base's scale.
    penalty : float
        What each bend's worth of repetition beyond the bend takes away from a document without
        support, at least 0; same unit.
    """

    reward: float
    penalty: float

    def __post_init__(self) -> None:
        for name in ("reward", "penalty"):
            value = getattr(self, name)
            if not isinstance(value, Real) or isinstance(value, bool):
                raise TypeError(f"{name} must be a number, not {type(value).__name__}")
            if not (math.isfinite(value) and float(value) >= 0):
                raise ValueError(f"{name} is {value}; it must be finite and at least 0")

    def parts(self, base: ArrayLike, surface: Surface) -> Parts:
        """Take an adjusted score apart.

        Parameters
        ----------
        base : (n,) array_like
            Finite scores of the candidates from any ranker, higher is better.
        surface : Surface
            Of the same candidates.

        Returns
        -------
        Parts
            ``s``, ``min(s, reward * coverage)`` and
            ``penalty * (1 - support) * max(0, excess / bend - 1)``. ``s`` is the min-max of the
            base over the candidates at or below the bend; others are cut to its ends, so that a
            stuffed document sets no scale. Over all where none is, or where they are all alike.

        Raises
        ------
        ValueError
            If the lengths differ, or a score is NaN or infinite.
        """
        given = finite_scores(base, "base")
        if len(given) != len(surface.coverage):
            raise ValueError(f"{len(given)} base scores for {len(surface.coverage)} documents")
        over = surface.over
        ordinary = given[(over == 0) | (self.penalty == 0)]  # no penalty: nothing is stuffed
        if minmax(ordinary).any():
            given = np.clip(given, ordinary.min(), ordinary.max())
        stretched = minmax(given)
        presence = np.minimum(stretched, self.reward * surface.coverage)
        doubt = over if surface.support is None else over * (1.0 - surface.support)
        return Parts(stretched, presence, self.penalty * doubt)

    def scores(self, base: ArrayLike, surface: Surface) -> Floats:
        """Adjust a base score: ``base + presence - penalty`` of `parts`, shape (n,).

        Raises
        ------
        ValueError
            As `parts`.
        """
        found = self.parts(base, surface)
        return np.asarray(found.base + found.presence - found.penalty)


# One setting for every base score and collection.
DEFAULT = Adjustment(reward=1.0, penalty=4.0)
# Repetition alone: for a base that has counted presence already, such as BM25 or a fusion with it.
GUARD = Adjustment(reward=0.0, penalty=4.0)
