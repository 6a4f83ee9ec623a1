"""The lexical first stage: BM25 over the tokens of `causalrag.text.tokenize`.

The variant is Lucene's without its rounding of document lengths, as Kamphuis et al. (2020) write
it and the package bm25s computes it. There are no fields, no phrases and no index on disk.
"""

from __future__ import annotations

import inspect
import logging
import math
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from importlib import import_module
from itertools import chain
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from causalrag.documents import Documents, check_query, read_documents
from causalrag.retrieve.base import Hits, as_candidates, check_count, check_list, fitted
from causalrag.text import tokenize

__all__ = ["BM25Retriever", "NoMatchWarning"]

Floats = NDArray[np.float64]

# Documents between two calls of `progress`.
STEP = 100


class NoMatchWarning(UserWarning):
    """No token of a query occurs in the documents: all scores are 0 and rank nothing."""


class BM25Retriever:
    """Retrieve documents by BM25.

    The score of a document d for a query q is the sum over the tokens t of q, repeats included, of

        idf(t) * tf / (tf + k1 * (1 - b + b * |d| / avgdl)),
        idf(t) = ln(1 + (n - df + 0.5) / (df + 0.5)),

    where tf counts t in d, |d| is the number of tokens of d and avgdl their mean over all n
    documents, df the number of documents with t. Other variants multiply by k1 + 1, which leaves
    the order as it is. No score is negative.

    Parameters
    ----------
    k1 : float
        How slowly repeats of a token stop to count, in [0, 1e6].
    b : float
        How much a document's length counts, in [0, 1].

    Raises
    ------
    ValueError, TypeError
        If `k1` or `b` is not such a number.

    References
    ----------
    Robertson and Zaragoza (2009), The Probabilistic Relevance Framework: BM25 and Beyond.
    Kamphuis, de Vries, Boytsov and Lin (2020), Which BM25 Do You Mean?

    Examples
    --------
    >>> retriever = BM25Retriever().fit(["Yeast makes gas.", "Flour and water.", "Gas stoves."])
    >>> retriever.search("yeast gas", k=2).indices.tolist()
    [0, 2]
    """

    def __init__(self, k1: float = 1.5, b: float = 0.75) -> None:
        self.k1 = _checked("k1", k1, 1e6)
        self.b = _checked("b", b, 1.0)
        self._documents: Documents | None = None
        self._tokens: list[list[int]] = []
        self._vocabulary: dict[str, int] = {}
        self._words: list[str] = []
        self._model: Any = None

    def __len__(self) -> int:
        """Count the documents."""
        return len(fitted(self._documents))

    def fit(
        self, documents: Iterable[Any], progress: Callable[[int, int], object] | None = None
    ) -> BM25Retriever:
        """Read, cut and index the documents; replaces an earlier set.

        Parameters
        ----------
        documents : iterable of str, mapping or object
            As in `CausalReranker.rank`. Title and text are searched as one text.
        progress : callable, optional
            Called as ``progress(done, total)`` after every 100 documents and at the end.

        Returns
        -------
        BM25Retriever
            Itself.

        Raises
        ------
        ValueError, TypeError
            As in `CausalReranker.rank`.
        """
        read = read_documents(documents)
        vocabulary: dict[str, int] = {}
        tokens = []
        for done, text in enumerate(read.texts, start=1):
            tokens.append([vocabulary.setdefault(t, len(vocabulary)) for t in tokenize(text)])
            if progress is not None and (done % STEP == 0 or done == len(read)):
                progress(done, len(read))
        self._model = _index(tokens, vocabulary, self.k1, self.b)
        self._documents, self._tokens = read, tokens
        self._vocabulary, self._words = vocabulary, list(vocabulary)
        for cached in ("_lengths", "_frequency"):
            self.__dict__.pop(cached, None)
        return self

    def scores(self, query: str | Mapping[str, float]) -> Floats:
        """Score every document, for use as ``scores=`` of `CausalReranker.rank`.

        Parameters
        ----------
        query : str or mapping of str to float
            Text with content; or tokens, as `tokenize` spells them, with weights in [0, 1e100]
            that multiply each token's part of the score.

        Returns
        -------
        (n,) float64 array
            In the order of the documents, to 12 decimals for the heaviest token, so that equal
            documents tie. A document without a token of the query has 0.

        Raises
        ------
        ValueError
            If the query is blank, or a weight is out of range.
        TypeError
            If the query is neither, or a weight is not a number.
        RuntimeError
            If `fit` was not called.

        Warns
        -----
        NoMatchWarning
            If no token of the query occurs in the documents, so that all scores are 0.
        """
        documents = fitted(self._documents)
        weights = _weights(query)
        known = {
            self._vocabulary[token]: weight
            for token, weight in weights.items()
            if weight and token in self._vocabulary
        }
        if not known and len(documents):
            message = _no_match(query, weights, len(documents))
            warnings.warn(message, NoMatchWarning, stacklevel=_caller())
        heaviest = max(known.values(), default=1.0)
        scores = np.zeros(len(documents))
        for token, weight in known.items():
            scores += weight / heaviest * self._model.get_scores_from_ids([token])
        # Sums in another order differ in the last digits; documents must not be ordered by that.
        rounded: Floats = heaviest * np.round(scores, 12)
        return rounded

    def scores_of(self, query: str | Mapping[str, float], texts: Iterable[str]) -> Floats:
        """Score texts that are not among the documents, with the documents' statistics.

        Parameters
        ----------
        query : str or mapping of str to float
            As in `scores`.
        texts : iterable of str
            m texts, each title and text as one.

        Returns
        -------
        (m,) float64 array
            What `scores` would give a document with that text if idf and mean length stayed as they
            are. For a document's own text it is the document's score.

        Raises
        ------
        ValueError, TypeError, RuntimeError
            As `scores`; if the documents hold no token at all.
        """
        fitted(self._documents)
        weights = {t: w for t, w in _weights(query).items() if w and t in self._vocabulary}
        lengths, frequency = self._lengths, self._frequency
        if not lengths.sum():
            raise ValueError(
                f"the {len(lengths)} documents hold no token: there are no statistics to score by"
            )
        idf = {
            token: math.log1p((len(lengths) - df + 0.5) / (df + 0.5))
            for token in weights
            if (df := int(frequency[self._vocabulary[token]]))
        }
        heaviest = max(weights.values(), default=1.0)
        found = []
        for text in texts:
            counts = Counter(tokenize(text))
            norm = self.k1 * (1 - self.b + self.b * counts.total() / lengths.mean())
            found.append(
                sum(
                    weights[token] / heaviest * weight * counts[token] / (counts[token] + norm)
                    for token, weight in idf.items()
                    if counts[token]
                )
            )
        return np.asarray(heaviest * np.round(np.array(found, dtype=np.float64), 12))

    @cached_property
    def _lengths(self) -> NDArray[np.int64]:
        return np.array([len(tokens) for tokens in self._tokens], dtype=np.int64)

    @cached_property
    def _frequency(self) -> NDArray[np.int64]:
        """In how many documents each token of the vocabulary occurs."""
        held = list(chain.from_iterable(set(tokens) for tokens in self._tokens))
        return np.bincount(np.array(held, dtype=np.int64), minlength=len(self._words))

    def search(self, query: str | Mapping[str, float], k: int = 20) -> Hits:
        """Retrieve the top k documents.

        Parameters
        ----------
        query : str or mapping of str to float
            As in `scores`.
        k : int
            How many documents at most, at least 1; all n if k is larger.

        Returns
        -------
        Hits
            ``indices, scores``, best first, ties by index. Documents that share no token with the
            query have score 0 and are not left out; empty documents come after all others.

        Raises
        ------
        ValueError, TypeError, RuntimeError
            As in `scores`, and if k is not an int of at least 1.

        Warns
        -----
        NoMatchWarning
            If no token of the query occurs in the documents, so that nothing is ranked.
        """
        check_count("k", k)
        return self._top(self.scores(query), k)

    def search_all(self, queries: Iterable[str | Mapping[str, float]], k: int = 20) -> list[Hits]:
        """Retrieve for several queries; see `search`.

        Parameters
        ----------
        queries : iterable of str or mapping
            As in `scores`.
        k : int
            As in `search`.

        Returns
        -------
        list of Hits
            One per query.
        """
        check_list(queries)
        check_count("k", k)
        fitted(self._documents)
        return [self._top(self.scores(query), k) for query in queries]

    def candidates(self, hits: Hits) -> list[dict[str, Any]]:
        """Return retrieved documents in the form `CausalReranker.rank` takes.

        Parameters
        ----------
        hits : Hits
            What `search` returned.

        Returns
        -------
        list of dict
            ``id``, ``text`` (title included), ``document``, the caller's own object, and
            ``vector`` where the document came with one.
        """
        return as_candidates(fitted(self._documents), hits)

    def tokens(self, index: int) -> list[str]:
        """Give the tokens of a document, in order, repeats included.

        Parameters
        ----------
        index : int
            The document's position.

        Returns
        -------
        list of str
        """
        fitted(self._documents)
        return [self._words[token] for token in self._tokens[index]]

    def _top(self, scores: Floats, k: int) -> Hits:
        blank = fitted(self._documents).blank
        order = np.lexsort((-scores, blank))[:k]
        return Hits(order.astype(np.int64), scores[order])


def _index(tokens: list[list[int]], vocabulary: dict[str, int], k1: float, b: float) -> Any:
    if not vocabulary:
        return None  # bm25s cannot index nothing
    model = _bm25s().BM25(k1=k1, b=b, method="lucene", dtype="float64")
    # Token ids, never texts: its own tokeniser finds no word in Chinese.
    model.index((tokens, vocabulary), create_empty_token=False, show_progress=False)
    return model


def _bm25s() -> Any:
    first = "bm25s" not in sys.modules
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a progress bar that would be no widget
        module = import_module("bm25s")
    if first:
        # The import set its logger to DEBUG, which any configured root handler then prints.
        logging.getLogger("bm25s").setLevel(logging.WARNING)
    return module


def _weights(query: str | Mapping[str, float]) -> Mapping[str, float]:
    if not isinstance(query, Mapping):
        return Counter(tokenize(check_query(query)))
    for term, weight in query.items():
        if not isinstance(term, str):
            raise TypeError(f"a token must be a str, not {term!r}")
        _checked(f"the weight of {term!r}", weight, 1e100)
    return query


def _no_match(query: str | Mapping[str, float], weights: Mapping[str, float], n: int) -> str:
    name = f"query {query!r:.80}" if isinstance(query, str) else "weighted query"
    words = ", ".join(list(weights)[:8]) + (", ..." if len(weights) > 8 else "")
    reason = (
        f"none of its tokens ({words}) occurs in the {n} documents"
        if weights
        else "it has no token, only stop words, numbers or punctuation"
    )
    return f"all BM25 scores of the {name} are 0: {reason}; the order is that of the documents"


def _caller() -> int:
    """Stack level of the code that called this library: there a warning is of use."""
    library, level, frame = str(Path(__file__).parents[1]), 0, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(library):
        frame, level = frame.f_back, level + 1
    return level


def _checked(name: str, value: float, highest: float) -> float:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, not {value!r}")
    number = float(value)
    if not 0 <= number <= highest:
        raise ValueError(f"{name} is {value}; it must be in [0, {highest:g}]")
    return number
