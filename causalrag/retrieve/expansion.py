"""Query expansion by pseudo-relevance feedback: RM3 over BM25.

The documents that BM25 ranks first are taken for relevant; their words join the query. Nothing here
reads a judgement, and the documents' models are not smoothed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from causalrag.documents import check_query
from causalrag.keywords import Keywords
from causalrag.retrieve.base import check_count
from causalrag.retrieve.bm25 import BM25Retriever
from causalrag.text import tokenize

__all__ = ["Expansion", "rm3"]


class Expansion(NamedTuple):
    """An expanded query and what it retrieves.

    Attributes
    ----------
    terms : Keywords
        The weighted query, heaviest first; the weights sum to 1. Empty if the query has no token
        and so no feedback. `BM25Retriever.search` takes it as a query.
    scores : (n,) float64 array
        For every document, the sum over the terms of the weight times the term's BM25 score.
    feedback : (f,) int64 array
        Positions of the documents that were taken for relevant, best first.
    """

    terms: Keywords
    scores: NDArray[np.float64]
    feedback: NDArray[np.int64]


def rm3(
    query: str,
    documents: BM25Retriever | Iterable[Any],
    fb_docs: int = 10,
    fb_terms: int = 10,
    original_weight: float = 0.5,
) -> Expansion:
    """Expand a query by the words of the documents that BM25 ranks first (RM3).

    With F the top `fb_docs` documents, less those with score 0, the relevance model is

        P(w | R) = sum over d in F of P(w | d) * s(q, d) / sum over d in F of s(q, d),

    where P(w | d) is the share of w among the tokens of d and s the BM25 score, which stands for
    the source's query likelihood. It is cut to its `fb_terms` heaviest terms (ties by the term) and
    brought back to sum 1. The new query is ``original_weight * P(w | q) + (1 - original_weight) *
    P(w | R)``, with P(w | q) the share of w among the query's tokens.

    Parameters
    ----------
    query : str
        Text with content.
    documents : BM25Retriever or iterable of str, mapping or object
        A fitted retriever, or documents to fit one on.
    fb_docs : int
        How many documents at most are taken for relevant, at least 1.
    fb_terms : int
        How many of their terms at most join the query, at least 1.
    original_weight : float
        Share of the original query, in [0, 1]; 1 leaves it as it is.

    Returns
    -------
    Expansion
        ``terms, scores, feedback``. Without feedback the terms are those of the query.

    Raises
    ------
    ValueError
        If the query is blank, a count is below 1 or `original_weight` is outside [0, 1].
    TypeError
        If an argument is of an unusable type.
    RuntimeError
        If the retriever was not fitted.

    Warns
    -----
    NoMatchWarning
        If no token of the query occurs in the documents: there is no feedback, all scores are 0.

    References
    ----------
    Lavrenko and Croft (2001), Relevance-Based Language Models.
    Abdul-Jaleel, Allan, Croft, Diaz, Larkey, Li, Smucker and Wade (2004), UMass at TREC 2004:
    Novelty and HARD.

    Examples
    --------
    >>> texts = ["bread rises by yeast", "yeast makes gas", "a boiler burns gas"]
    >>> found = rm3("bread", texts, fb_docs=1, fb_terms=2)
    >>> found.terms
    Keywords(2 terms: bread 0.750, rises 0.250)
    """
    check_query(query)
    check_count("fb_docs", fb_docs)
    check_count("fb_terms", fb_terms)
    _check_share(original_weight)
    retriever = (
        documents if isinstance(documents, BM25Retriever) else BM25Retriever().fit(documents)
    )
    original = _distribution(tokenize(query))
    hits = retriever.search(query, k=fb_docs)
    feedback = hits.indices[hits.scores > 0]
    if not len(feedback):
        return Expansion(original, np.zeros(len(retriever)), feedback)
    model = _relevance_model(retriever, feedback, hits.scores[hits.scores > 0], fb_terms)
    terms = _mixture(original, model, original_weight)
    return Expansion(terms, retriever.scores(terms), feedback)


def _relevance_model(
    retriever: BM25Retriever,
    feedback: NDArray[np.int64],
    scores: NDArray[np.float64],
    fb_terms: int,
) -> Keywords:
    shares = (scores / scores.sum()).tolist()
    model = Keywords(
        (word, share * probability)
        for index, share in zip(feedback.tolist(), shares, strict=True)
        for word, probability in _distribution(retriever.tokens(index)).items()
    )
    heaviest = list(model.items())[:fb_terms]
    total = math.fsum(weight for _, weight in heaviest)
    return Keywords((word, weight / total) for word, weight in heaviest)


def _distribution(tokens: list[str]) -> Keywords:
    """P(w | text): the share of each token."""
    return Keywords({word: count / len(tokens) for word, count in Counter(tokens).items()})


def _mixture(
    original: Mapping[str, float], model: Mapping[str, float], original_weight: float
) -> Keywords:
    parts = [(word, original_weight * weight) for word, weight in original.items()]
    parts += [(word, (1 - original_weight) * weight) for word, weight in model.items()]
    return Keywords((word, weight) for word, weight in parts if weight > 0)


def _check_share(original_weight: float) -> None:
    if not isinstance(original_weight, Real) or isinstance(original_weight, bool):
        raise TypeError(f"original_weight must be a number, not {type(original_weight).__name__}")
    if not 0 <= original_weight <= 1:
        raise ValueError(f"original_weight is {original_weight}; it is a share in [0, 1]")
