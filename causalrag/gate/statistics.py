"""What a query's candidates show without relevance labels, and how well that tells groups apart.

Three statistics of section 4.6 (keyword overlap, weight share of A, gap at the top) and one of
ours, the excess repetition of absorbed tokens: `candidate_statistics` defines them. None of them
needs labels, and none replaces them: the decision is in `decision`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from causalrag.candidates import CandidateKeywords
from causalrag.documents import joined
from causalrag.evaluate.estimates import Estimate, check_column, check_level, check_whole
from causalrag.keywords.base import KeywordExtractor, checked_count
from causalrag.ranking import Ranking
from causalrag.surface import absorbed_tokens, equal_tokens, excess_repetition, token_counts

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AreaEstimate", "Statistics", "auc", "candidate_statistics", "statistics"]

Absorbed: TypeAlias = Literal["tokens", "keywords"]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Statistics:
    """The statistics of one query, over its top candidates.

    Attributes
    ----------
    overlap, shared_weight, excess_repetition
        Means over the candidates, see `candidate_statistics`.
    largest_excess_repetition
        The largest excess repetition among the candidates: one stuffed document is enough.
    top_gap
        (s1 - s2) / s1 for the two highest base scores; 0.0 where s1 is not above zero, and where
        there is only one candidate.
    n
        How many candidates these are.
    """

    overlap: float
    shared_weight: float
    top_gap: float
    excess_repetition: float
    largest_excess_repetition: float
    n: int


@dataclass(frozen=True)
class AreaEstimate(Estimate):
    """An `Estimate` of the area under the ROC curve; `n` counts both groups.

    Attributes
    ----------
    n_positive, n_negative
        The size of each group.
    """

    n_positive: int
    n_negative: int


def candidate_statistics(
    ranking: Ranking, keywords: KeywordExtractor, *, absorbed: Absorbed = "tokens"
) -> pd.DataFrame:
    """Compute the label-free statistics of each candidate of a ranking.

    Parameters
    ----------
    ranking : Ranking
        From `CausalReranker.rank`. K_q, K_d, A, tau and the way to absorb are the ranking's.
    keywords : extractor
        The one that the ranking was made with. Only its ``tokens(text)`` is used, where it has one
        (see `as_extractor`): the content tokens of a document.
    absorbed : {"tokens", "keywords"}
        Which content tokens of a document count as absorbed. "tokens": those that Eq. 3 absorbs,
        keyword of the document or not, that is each that is a query keyword or (under semantic
        absorption) lies within tau of one; new tokens are encoded, each once per process.
        "keywords": those that are a query keyword or in A; nothing is encoded.

    Returns
    -------
    DataFrame
        One row per candidate in the order they were handed over, those that a `top_k` cut off
        included:

        - ``index``: its position, from 0, as `Ranked.index`.
        - ``overlap``: share of the query's keywords K_q that are among the document's K_d, as equal
          terms; 0.0 for a query without keywords.
        - ``shared_weight``: weight of A over weight of K_d; 0.0 for a document without keywords.
        - ``excess_repetition``: (occurrences of absorbed tokens - distinct absorbed tokens) /
          content tokens; 0.0 for a document without content.

    Raises
    ------
    TypeError
        If `ranking` is not from `CausalReranker.rank`, or `keywords` is no extractor.
    ValueError
        If `absorbed` is unknown.
    """
    import pandas as pd

    evidence = _evidence(ranking)
    places = list(range(len(ranking.outcome.documents)))
    columns = _columns(ranking, evidence, places, keywords, absorbed)
    return pd.DataFrame({"index": places, **columns._asdict()})


def statistics(
    ranking: Ranking,
    keywords: KeywordExtractor,
    top: int = 10,
    *,
    absorbed: Absorbed = "tokens",
) -> Statistics:
    """Average the label-free statistics over the top candidates of the first stage (section 4.6).

    Parameters
    ----------
    ranking, keywords, absorbed
        As for `candidate_statistics`.
    top : int
        How many candidates, those of the highest base scores; ties in the order they were handed
        over. All of them if there are fewer.

    Returns
    -------
    Statistics

    Raises
    ------
    ValueError
        If the ranking has no candidate, or `top` is below 1.
    TypeError
        As for `candidate_statistics`.
    """
    top = checked_count("top", top)
    evidence, base = _evidence(ranking), ranking.outcome.base
    if not len(base):
        raise ValueError(f"the ranking of {ranking.query!r:.60} has no candidate to look at")
    first = np.argsort(-base, kind="stable")[:top].tolist()
    columns = _columns(ranking, evidence, first, keywords, absorbed)
    means = {name: float(column.mean()) for name, column in columns._asdict().items()}
    largest = float(columns.excess_repetition.max())
    return Statistics(
        top_gap=_top_gap(base), largest_excess_repetition=largest, n=len(first), **means
    )


def auc(
    positive: ArrayLike,
    negative: ArrayLike,
    level: float = 0.95,
    seed: int = 0,
    *,
    n_boot: int = 2000,
) -> AreaEstimate:
    """Estimate how well a statistic tells two groups apart: the area under the ROC curve.

    Parameters
    ----------
    positive, negative
        Shape (n,), at least one value each, finite.
    level
        Confidence level in (0, 1).
    seed
        Of the bootstrap.
    n_boot
        Number of resamples, at least 100.

    Returns
    -------
    AreaEstimate
        `value`: the share of pairs (one of each group) in which the positive is larger, ties half
        (Mann and Whitney): 1 and 0 tell the groups apart, 0.5 does not. The interval holds the
        percentiles of resamples of both groups, each by itself. Where every resample gives the same
        area, as for groups that do not overlap, it reaches as far towards 0 and 1 as independent
        pairs of one value of each group, min(n) of them and all alike, leave open (Clopper and
        Pearson). With a group of one value it is [0, 1]. `p` is NaN: compare the interval with 0.5.

    Raises
    ------
    ValueError
        For an empty group, NaN or infinite values, another shape, a level outside (0, 1) or too few
        resamples.
    TypeError
        If a level, seed or number of resamples is no number.
    """
    check_level(level)
    check_whole("n_boot", n_boot, least=100)
    check_whole("seed", seed)
    groups = [_group("positive", positive), _group("negative", negative)]
    sizes = [len(group) for group in groups]
    values, codes = np.unique(np.concatenate(groups), return_inverse=True)
    above, below = np.split(codes, [sizes[0]])
    area = _area(above, below, len(values))
    low, high = 0.0, 1.0
    if min(sizes) > 1:
        rng, tail = np.random.default_rng(seed), (1 - level) / 2
        areas = [
            _area(_resampled(rng, above), _resampled(rng, below), len(values))
            for _ in range(n_boot)
        ]
        low, high = (float(end) for end in np.quantile(areas, (tail, 1 - tail)))
        if min(areas) == max(areas):
            alike = tail ** (1 / min(sizes))
            low, high = area * alike, 1 - (1 - area) * alike
    return AreaEstimate(area, low, high, sum(sizes), level, math.nan, *sizes)


# --- the area -----------------------------------------------------------------------------------


def _group(name: str, values: ArrayLike) -> Floats:
    if values is None:
        raise TypeError(f"{name} is None; give the statistic's values of that group")
    column = check_column(name, values)
    if column.size == 0:
        raise ValueError(f"{name} is empty; give at least one value of each group")
    return column


def _resampled(rng: np.random.Generator, codes: NDArray[np.int64]) -> NDArray[np.int64]:
    return codes[rng.integers(len(codes), size=len(codes))]


def _area(above: NDArray[np.int64], below: NDArray[np.int64], n_values: int) -> float:
    """Count the pairs that `above` wins, ties half, from the values' ranks."""
    wins = np.bincount(above, minlength=n_values)
    losses = np.bincount(below, minlength=n_values)
    twice = wins @ (2 * np.cumsum(losses) - losses)
    return float(twice / (2 * len(above) * len(below)))


# --- candidates ---------------------------------------------------------------------------------


class _Columns(NamedTuple):
    """The columns of `candidate_statistics` but the index, (n,) each."""

    overlap: Floats
    shared_weight: Floats
    excess_repetition: Floats


def _columns(
    ranking: Ranking,
    evidence: CandidateKeywords,
    places: Sequence[int],
    keywords: KeywordExtractor,
    absorbed: Absorbed,
) -> _Columns:
    """Compute the statistics of the candidates at some places."""
    if absorbed not in get_args(Absorbed):
        raise ValueError(f"unknown absorbed {absorbed!r}; known: {', '.join(get_args(Absorbed))}")
    if not places:
        return _Columns(*np.zeros((3, 0)))
    query, shared, overlap, weight = evidence.query_keywords, [], [], []
    for index in places:
        words, in_a = evidence.keywords(index), set(evidence.shared_terms(index))
        shared.append(in_a)
        overlap.append(sum(term in words for term in query) / max(1, len(query)))
        whole = math.fsum(words.values()) or 1.0
        weight.append(math.fsum(words[term] for term in in_a) / whole)
    texts = [joined(ranking.outcome.documents.contents[index]) for index in places]
    tokens = token_counts(texts, keywords)
    # Under exact absorption every term of A is a query keyword, hence both ways are one.
    if absorbed == "tokens" and evidence.absorption == "semantic":
        flags = absorbed_tokens(tokens, query.terms, evidence.encoder, evidence.tau)
    else:
        flags = equal_tokens(tokens, [in_a.union(query) for in_a in shared])
    return _Columns(np.array(overlap), np.array(weight), excess_repetition(tokens, flags))


def _evidence(ranking: Ranking) -> CandidateKeywords:
    evidence = getattr(getattr(ranking, "outcome", None), "evidence", None)
    if not isinstance(evidence, CandidateKeywords):
        raise TypeError(
            f"ranking is a {type(ranking).__name__}; give what CausalReranker.rank returns"
        )
    return evidence


def _top_gap(base: Floats) -> float:
    highest = np.sort(base)[::-1][:2]
    if len(highest) < 2 or highest[0] <= 0:
        return 0.0
    return float((highest[0] - highest[1]) / highest[0])
