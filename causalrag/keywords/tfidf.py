"""TF-IDF keywords: scikit-learn's smoothed idf, term counts and L2 norm over our own tokens."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from causalrag.keywords.base import Keywords, checked_count, heaviest
from causalrag.text import normalise, tokenize

# For how many of a document's own keywords its repetition is learnt.
REPEATED = 15
# The 0.9 quantile of a normal distribution, in median absolute deviations from its median.
NINE_IN_TEN = 1.2816 / 0.6745


class TfidfKeywords:
    """TF-IDF keywords: the heaviest terms of a text under the idf of a corpus.

    Made by `TfidfKeywords.fit`. The weight of a term is its count in the text times
    ``idf = ln((1 + n) / (1 + df)) + 1``, divided by the Euclidean length of all the text's weights,
    before the cut to the heaviest terms. A term outside the corpus has df = 0 and is kept, on both
    sides. Equal weights are ordered by the term (code points), so a cut is always the same.

    Attributes
    ----------
    repetition : tuple of float
        For k = 1, 2, ... the excess repetition of a document's own k heaviest keywords that about
        nine in ten documents of the corpus stay below: how often texts repeat by nature what they
        are about (see `adjust.bend`). Empty if it is not known.
    """

    def __init__(
        self,
        idf: Mapping[str, float],
        n_documents: int,
        top_document: int = 15,
        top_query: int = 10,
        repetition: Sequence[float] = (),
    ) -> None:
        self.n_documents = checked_count("n_documents", n_documents)
        self.top_document = checked_count("top_document", top_document)
        self.top_query = checked_count("top_query", top_query)
        self._idf = dict(sorted(idf.items()))
        self._unseen = math.log(1 + n_documents) + 1
        self.repetition = tuple(map(float, repetition))

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
        idf = _smoothed_idf(tokens)
        return cls(idf, len(tokens), top_document, top_query, _own_repetition(tokens, idf))

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
        # As it stands first: a character that is left alone inside a name may change when alone.
        known = self._idf.get(term)
        return self._idf.get(normalise(term), self._unseen) if known is None else known

    def _extract(self, text: str, top: int) -> Keywords:
        counts = Counter(tokenize(text))
        weights = {t: c * self._idf.get(t, self._unseen) for t, c in counts.items()}
        length = math.sqrt(math.fsum(w * w for w in weights.values()))
        return heaviest({term: weight / length for term, weight in weights.items()}, top)


def _smoothed_idf(tokens: list[list[str]]) -> dict[str, float]:
    if not any(tokens):
        return {}  # scikit-learn refuses an empty vocabulary; a corpus of stop words is no error
    from sklearn.feature_extraction.text import TfidfVectorizer

    model = TfidfVectorizer(analyzer=_as_is, norm="l2", use_idf=True, smooth_idf=True).fit(tokens)
    return dict(zip(model.get_feature_names_out(), map(float, model.idf_), strict=True))


def _own_repetition(tokens: list[list[str]], idf: Mapping[str, float]) -> tuple[float, ...]:
    """Give `TfidfKeywords.repetition`, from the documents with content.

    Median and median absolute deviation, not a quantile: they hold while a fifth of the documents
    is stuffed.
    """
    found = []
    for own in filter(None, tokens):
        counts = Counter(own)
        heavy = heaviest({term: count * idf[term] for term, count in counts.items()}, REPEATED)
        again = [counts[term] - 1 for term in heavy] + [0] * (REPEATED - len(heavy))
        found.append(np.cumsum(again) / len(own))
    if not found:
        return ()
    middle = np.median(found, axis=0)
    deviation = np.median(np.abs(np.array(found) - middle), axis=0)
    # More keywords repeat no less; the estimate may, by a hair.
    return tuple(np.maximum.accumulate(middle + NINE_IN_TEN * deviation).tolist())


def _as_is(tokens: list[str]) -> list[str]:
    return tokens
