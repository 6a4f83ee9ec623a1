"""What a query's candidates show without relevance labels, and how well that tells groups apart.

Three statistics of section 4.6 (keyword overlap, weight share of A, gap at the top) and one of
ours, the excess repetition of absorbed tokens: `candidate_statistics` defines them. None of them
needs labels, and none replaces them: the decision is in `decision`.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, get_args
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from causalrag.candidates import CandidateKeywords
from causalrag.documents import joined
from causalrag.encoders import TERM_CACHE
from causalrag.evaluate.estimates import Estimate, check_column, check_level
from causalrag.keywords.base import KeywordExtractor, as_extractor, checked_count
from causalrag.ranking import Ranking
from causalrag.vectors import COSINE_ROUNDING

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AreaEstimate", "Statistics", "auc", "candidate_statistics", "statistics"]

Absorbed: TypeAlias = Literal["tokens", "keywords"]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# How many texts are remembered, token by token, for each extractor.
MAX_TEXTS = 50_000
# A float32 cosine nearer than this to the threshold is computed again in float64.
SCREENING_MARGIN = 1e-4


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
    """
    check_level(level)
    if n_boot < 100:
        raise ValueError(f"n_boot must be at least 100, got {n_boot}")
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


class _Tokens(NamedTuple):
    """The distinct content tokens of a text and how often each occurs."""

    terms: tuple[str, ...]
    counts: NDArray[np.int64]


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
    tokens = list(_read(keywords, texts))
    # Under exact absorption every term of A is a query keyword, hence both ways are one.
    if absorbed == "tokens" and evidence.absorption == "semantic":
        flags = _by_cosine(tokens, query.terms, evidence)
    else:
        flags = _by_keywords(tokens, query, shared)
    return _Columns(np.array(overlap), np.array(weight), _excess(tokens, flags))


def _evidence(ranking: Ranking) -> CandidateKeywords:
    evidence = getattr(getattr(ranking, "outcome", None), "evidence", None)
    if not isinstance(evidence, CandidateKeywords):
        raise TypeError(
            f"ranking is a {type(ranking).__name__}; give what CausalReranker.rank returns"
        )
    return evidence


def _by_keywords(
    tokens: Sequence[_Tokens], query: Collection[str], shared: Sequence[set[str]]
) -> Flags:
    """Flag each distinct token that is a query keyword or in the document's A."""
    found: list[bool] = []
    for text, in_a in zip(tokens, shared, strict=True):
        taken = in_a.union(query)
        found.extend(map(taken.__contains__, text.terms))
    return np.array(found, dtype=np.bool_)


def _by_cosine(
    tokens: Sequence[_Tokens], query: Sequence[str], evidence: CandidateKeywords
) -> Flags:
    """Flag each distinct token that Eq. 3 absorbs."""
    flat = list(chain.from_iterable(text.terms for text in tokens))
    encoder, threshold = evidence.encoder, evidence.tau - COSINE_ROUNDING
    with TERM_CACHE.lend(encoder) as table:
        rows = table.rows([*query, *flat], partial(encoder.encode, role="term"))
        asked, rows = rows[: len(query)], rows[len(query) :]
        near = np.zeros(table.size, dtype=np.bool_)
        if len(asked):
            distinct = np.unique(rows)
            keywords = np.ascontiguousarray(table.vectors[asked].T)
            cosines = (table.vectors[distinct] @ keywords).max(axis=1)
            near[distinct] = cosines > threshold
            close = distinct[np.abs(cosines - threshold) < SCREENING_MARGIN]
            exact = table.vectors[close].astype(np.float64) @ keywords.astype(np.float64)
            near[close] = exact.max(axis=1) >= threshold
            near[asked] = True
        return np.asarray(near[rows])


def _excess(tokens: Sequence[_Tokens], absorbed: Flags) -> Floats:
    """Divide the repetitions of absorbed tokens by all tokens; `absorbed` runs over all texts."""
    result, start = np.zeros(len(tokens)), 0
    for place, text in enumerate(tokens):
        flags = absorbed[start : start + len(text.terms)]
        start += len(text.terms)
        if len(text.terms):
            result[place] = (text.counts[flags] - 1).sum() / text.counts.sum()
    return result


# Tokens of texts seen before: a corpus's documents come back with every query.
_KNOWN: WeakKeyDictionary[Any, dict[str, _Tokens]] = WeakKeyDictionary()
_LOCK = threading.Lock()


def _read(keywords: KeywordExtractor, texts: Iterable[str]) -> Iterator[_Tokens]:
    extractor = as_extractor(keywords)
    try:
        with _LOCK:
            known = _KNOWN.setdefault(keywords, {})
    except TypeError:  # it cannot be hashed, or not be referred to weakly
        known = {}
    for text in texts:
        found = known.get(text)
        if found is None:
            counts = Counter(extractor.tokens(text))
            found = _Tokens(tuple(counts), np.fromiter(counts.values(), np.int64, len(counts)))
            with _LOCK:
                known[text] = found
                while len(known) > MAX_TEXTS:
                    del known[next(iter(known))]
        yield found


def _top_gap(base: Floats) -> float:
    highest = np.sort(base)[::-1][:2]
    if len(highest) < 2 or highest[0] <= 0:
        return 0.0
    return float((highest[0] - highest[1]) / highest[0])
