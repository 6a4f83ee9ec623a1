"""What is on the surface of a text: which of a query's words it holds, and how often it says them.

Presence and repetition part here. `coverage` asks which of the query's content tokens a text holds;
`excess_repetition` asks how much of the text says absorbed tokens once more; `own_repetition` asks
the same of a text's own heaviest keywords, which is what texts do by nature. No score is computed
here (see `adjust`), nothing is ordered, and no label is read.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from causalrag.encoders import TERM_CACHE, EncoderAdapter
from causalrag.keywords.base import KeywordExtractor, as_extractor
from causalrag.vectors import COSINE_ROUNDING

__all__ = [
    "TokenCounts",
    "absorbed_tokens",
    "coverage",
    "equal_tokens",
    "excess_repetition",
    "own_repetition",
    "token_counts",
]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# How many texts are remembered, token by token, for each extractor.
MAX_TEXTS = 50_000
# A float32 cosine nearer than this to the threshold is computed again in float64.
SCREENING_MARGIN = 1e-4


class TokenCounts(NamedTuple):
    """The distinct content tokens of a text, in order of first occurrence.

    Attributes
    ----------
    terms : tuple of str
        m distinct tokens.
    counts : (m,) int64 array
        How often each occurs.
    """

    terms: tuple[str, ...]
    counts: NDArray[np.int64]


# Tokens of texts seen before: a corpus's documents come back with every query.
_KNOWN: WeakKeyDictionary[Any, dict[str, TokenCounts]] = WeakKeyDictionary()
_LOCK = threading.Lock()


def token_counts(texts: Iterable[str], keywords: KeywordExtractor) -> list[TokenCounts]:
    """Count the content tokens of each text; a text seen before is not read again.

    Parameters
    ----------
    texts : iterable of str
        n texts.
    keywords : extractor
        Its ``tokens(text)`` is used, or `causalrag.text.tokenize` where it has none.

    Returns
    -------
    list of TokenCounts
        One per text.
    """
    extractor = as_extractor(keywords)
    try:
        with _LOCK:
            known = _KNOWN.setdefault(keywords, {})
    except TypeError:  # it cannot be hashed, or not be referred to weakly
        known = {}
    result = []
    for text in texts:
        found = known.get(text)
        if found is None:
            counts = Counter(extractor.tokens(text))
            found = TokenCounts(tuple(counts), np.fromiter(counts.values(), np.int64, len(counts)))
            with _LOCK:
                known[text] = found
                while len(known) > MAX_TEXTS:
                    del known[next(iter(known))]
        result.append(found)
    return result


def equal_tokens(texts: Sequence[TokenCounts], terms: Iterable[Collection[str]]) -> Flags:
    """Flag each distinct token of each text that is one of the terms given for that text.

    Parameters
    ----------
    texts : sequence of TokenCounts
        n texts.
    terms : iterable of collections of str
        n collections.

    Returns
    -------
    (m_1 + ... + m_n,) bool array
        Text after text, in the order of `TokenCounts.terms`.
    """
    found: list[bool] = []
    for text, wanted in zip(texts, terms, strict=True):
        found.extend(map(wanted.__contains__, text.terms))
    return np.array(found, dtype=np.bool_)


def absorbed_tokens(
    texts: Sequence[TokenCounts], query: Sequence[str], encoder: EncoderAdapter, tau: float
) -> Flags:
    """Flag each distinct token that Eq. 3 absorbs, keyword of its document or not.

    Parameters
    ----------
    texts : sequence of TokenCounts
        n texts.
    query : sequence of str
        The query's keywords K_q.
    encoder : EncoderAdapter
        Encodes new tokens, each once per process.
    tau : float
        The absorption threshold.

    Returns
    -------
    (m_1 + ... + m_n,) bool array
        As `equal_tokens`: whether the token is a query keyword or lies within tau of one.
    """
    flat = list(chain.from_iterable(text.terms for text in texts))
    threshold = tau - COSINE_ROUNDING
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


def excess_repetition(texts: Sequence[TokenCounts], absorbed: Flags) -> Floats:
    """Divide what repeats absorbed tokens by all content tokens.

    Parameters
    ----------
    texts : sequence of TokenCounts
        n texts.
    absorbed : bool array
        From `equal_tokens` or `absorbed_tokens`.

    Returns
    -------
    (n,) float64 array
        (Occurrences of absorbed tokens - distinct absorbed tokens) / content tokens, in [0, 1); 0
        for a text without content. A token said once, absorbed or not, adds nothing.
    """
    result, start = np.zeros(len(texts)), 0
    for place, text in enumerate(texts):
        flags = absorbed[start : start + len(text.terms)]
        start += len(text.terms)
        if len(text.terms):
            result[place] = (text.counts[flags] - 1).sum() / text.counts.sum()
    return result


def coverage(texts: Sequence[TokenCounts], query: Mapping[str, float]) -> Floats:
    """Give the weighted share of the query's content tokens that each text holds at all.

    Parameters
    ----------
    texts : sequence of TokenCounts
        n texts.
    query : mapping of str to float
        Distinct content tokens of the query with positive weights, such as their idf.

    Returns
    -------
    (n,) float64 array
        In [0, 1]; 0 for a query without tokens. How often a token occurs plays no part.
    """
    if not query:
        return np.zeros(len(texts))
    weights = np.fromiter(query.values(), np.float64, len(query))
    held = [set(text.terms) for text in texts]
    present = np.array([[term in own for term in query] for own in held], dtype=np.float64)
    share: Floats = present.reshape(len(texts), len(query)) @ weights / weights.sum()
    return share


def own_repetition(
    texts: Sequence[TokenCounts], keywords: Sequence[Sequence[str]], size: int
) -> Floats:
    """Give each text's excess repetition of its own heaviest keywords.

    Parameters
    ----------
    texts : sequence of TokenCounts
        n texts.
    keywords : sequence of sequences of str
        n lists, heaviest first, such as ``extractor.document(text).terms``.
    size : int
        How many of them count, at least 1.

    Returns
    -------
    (n,) float64 array
        As `excess_repetition`. The most that a text written about one thing repeats by nature.
    """
    return excess_repetition(texts, equal_tokens(texts, [set(own[:size]) for own in keywords]))
