"""Weighted keywords kw(.) of section 3.1, and their TF-IDF extractor.

`Keywords` is the set of (term, weight) pairs; `TfidfKeywords` takes it from a text, with
scikit-learn's smoothed idf, term counts and L2 norm over the tokens of `causalrag.text`. Extractors
based on graphs or language models are not part of this module yet.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from causalrag.text import normalise, tokenize


class Keywords(Mapping[str, float]):
    """Terms with positive weights; immutable, in order of falling weight, then of the term.

    Parameters
    ----------
    items : Mapping or iterable of (str, float)
        Weights must be positive and finite. A term that occurs twice among pairs gets the sum of
        its weights (section 3.1).

    Raises
    ------
    TypeError
        If a term is not a string, a weight is not a number, or `items` is None.
    ValueError
        If a term is blank or a weight is not positive and finite.

    Examples
    --------
    >>> Keywords([("audit", 0.5), ("data", 1.0), ("audit", 0.25)])
    Keywords(2 terms: data 1.000, audit 0.750)
    """

    __slots__ = ("_weights",)
    _weights: dict[str, float]

    def __init__(self, items: Mapping[str, float] | Iterable[tuple[str, float]] = ()) -> None:
        if items is None or isinstance(items, str):
            raise TypeError(f"keywords are a mapping or (term, weight) pairs, got {items!r}")
        parts: defaultdict[str, list[float]] = defaultdict(list)
        for pair in items.items() if isinstance(items, Mapping) else items:
            if isinstance(pair, str) or len(pair) != 2:
                raise TypeError(f"keywords are (term, weight) pairs, got {pair!r}")
            parts[_checked_term(pair[0])].append(_checked_weight(*pair))
        # fsum: the sum must not depend on the order of the pairs.
        weights = {term: math.fsum(values) for term, values in parts.items()}
        ordered = dict(sorted(weights.items(), key=_rank))
        object.__setattr__(self, "_weights", ordered)

    def __getitem__(self, term: str) -> float:
        return self._weights[term]

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"keywords are immutable; cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"keywords are immutable; cannot delete {name!r}")

    def __hash__(self) -> int:
        return hash(frozenset(self._weights.items()))

    def __reduce__(self) -> tuple[type[Keywords], tuple[dict[str, float]]]:
        return (Keywords, (dict(self._weights),))

    def __repr__(self) -> str:
        shown = ", ".join(f"{term} {weight:.3f}" for term, weight in list(self.items())[:5])
        more = ", ..." if len(self) > 5 else ""
        return f"Keywords({len(self)} terms: {shown}{more})" if self else "Keywords(0 terms)"

    @property
    def terms(self) -> tuple[str, ...]:
        """The n terms, heaviest first."""
        return tuple(self._weights)

    @property
    def weights(self) -> NDArray[np.float64]:
        """The n weights, in the order of `terms`; a new array."""
        return np.fromiter(self._weights.values(), dtype=np.float64, count=len(self))


class KeywordExtractor(Protocol):
    """Any extractor kw(.): the two methods the re-ranker needs."""

    def document(self, text: str) -> Mapping[str, float]:
        """Keywords K_d of a document."""

    def query(self, text: str) -> Mapping[str, float]:
        """Keywords K_q of a query."""


class TfidfKeywords:
    """TF-IDF keywords: the heaviest terms of a text under the idf of a corpus.

    Made by `TfidfKeywords.fit`. The weight of a term is its count in the text times
    ``idf = ln((1 + n) / (1 + df)) + 1``, divided by the Euclidean length of all the text's weights,
    before the cut to the heaviest terms. A term outside the corpus has df = 0 and is kept, on both
    sides. Equal weights are ordered by the term (code points), so a cut is always the same.
    """

    def __init__(
        self,
        idf: Mapping[str, float],
        n_documents: int,
        top_document: int = 15,
        top_query: int = 10,
    ) -> None:
        self.n_documents = _checked_count("n_documents", n_documents)
        self.top_document = _checked_count("top_document", top_document)
        self.top_query = _checked_count("top_query", top_query)
        self._idf = dict(sorted(idf.items()))
        self._unseen = math.log(1 + n_documents) + 1

    @classmethod
    def fit(
        cls, texts: Iterable[str], top_document: int = 15, top_query: int = 10
    ) -> TfidfKeywords:
        """Learn the idf of a corpus.

        Parameters
        ----------
        texts : iterable of str
            n >= 1 documents. They may hold no keyword at all: then every term counts as unseen.
        top_document, top_query : int
            Most keywords of a document and of a query (section 4.4: 15 and 10).

        Raises
        ------
        TypeError
            If `texts` is one string or None, or holds something that is not a string.
        ValueError
            If there is no document, or a cut is below 1.
        """
        if texts is None or isinstance(texts, str):
            raise TypeError(f"texts must be a list of documents, got {texts!r:.60}")
        tokens = [tokenize(text) for text in texts]
        if not tokens:
            raise ValueError("the corpus is empty: TfidfKeywords.fit needs at least one document")
        return cls(_smoothed_idf(tokens), len(tokens), top_document, top_query)

    def __repr__(self) -> str:
        return f"<TfidfKeywords: {self.n_documents} documents, {len(self._idf)} terms>"

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The terms of the corpus, sorted by code point."""
        return tuple(self._idf)

    def document(self, text: str) -> Keywords:
        """Keywords K_d of a document: its `top_document` heaviest terms."""
        return self._extract(text, self.top_document)

    def query(self, text: str) -> Keywords:
        """Keywords K_q of a query: its `top_query` heaviest terms, unseen ones included."""
        return self._extract(text, self.top_query)

    def tokens(self, text: str) -> list[str]:
        """Content tokens of a text, in order, repeats included."""
        return tokenize(text)

    def idf(self, term: str) -> float:
        """Smoothed idf of a term; that of df = 0 for an unseen term."""
        return self._idf.get(normalise(term), self._unseen)

    def _extract(self, text: str, top: int) -> Keywords:
        counts = Counter(tokenize(text))
        weights = {t: c * self._idf.get(t, self._unseen) for t, c in counts.items()}
        length = math.sqrt(math.fsum(w * w for w in weights.values()))
        heaviest = sorted(weights.items(), key=_rank)[:top]
        return Keywords((term, weight / length) for term, weight in heaviest)


def _smoothed_idf(tokens: list[list[str]]) -> dict[str, float]:
    if not any(tokens):
        return {}  # scikit-learn refuses an empty vocabulary; a corpus of stop words is no error
    from sklearn.feature_extraction.text import TfidfVectorizer

    model = TfidfVectorizer(analyzer=_as_is, norm="l2", use_idf=True, smooth_idf=True).fit(tokens)
    return dict(zip(model.get_feature_names_out(), map(float, model.idf_), strict=True))


def _as_is(tokens: list[str]) -> list[str]:
    return tokens


def _rank(item: tuple[str, float]) -> tuple[float, str]:
    return (-item[1], item[0])


def _checked_term(term: Any) -> str:
    if not isinstance(term, str):
        raise TypeError(f"a keyword must be a string, got {term!r}")
    if not term.strip():
        raise ValueError(f"a keyword must not be blank, got {term!r}")
    return term


def _checked_weight(term: str, weight: Any) -> float:
    try:
        value = float(weight)
    except (TypeError, ValueError) as error:
        raise TypeError(f"the weight of {term!r} must be a number, got {weight!r}") from error
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"the weight of {term!r} must be positive and finite, got {weight!r}")
    return value


def _checked_count(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return int(value)
