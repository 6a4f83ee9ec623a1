"""Eqs. 3-5: shared and residual keywords, the centroid of B, the causal score.

`partition`, `centroid` and `causal_score` follow the equations for one document.
`CandidateKeywords` computes the same for all candidates of a query: one product absorbs, one sparse
product forms all centroids. Keyword extraction and encoding are elsewhere, ordering is in `rerank`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from numbers import Real
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from causalrag.documents import Documents, query_vector
from causalrag.encoders import EncoderAdapter, encode_terms
from causalrag.keywords import KeywordExtractor, Keywords, TfidfKeywords
from causalrag.ranking import Partition, Reason
from causalrag.vectors import COSINE_ROUNDING, dot, unit

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "ABSORPTIONS",
    "CandidateKeywords",
    "causal_score",
    "centroid",
    "check_absorption",
    "check_choice",
    "partition",
]

ABSORPTIONS = ("semantic", "exact")

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# How many texts' keywords a re-ranker remembers.
KNOWN_TEXTS = 50_000


def partition(
    query_keywords: Mapping[str, float],
    document_keywords: Mapping[str, float],
    encoder: object,
    tau: float = 0.6,
    absorption: str = "semantic",
) -> Partition:
    """Split a document's keywords into shared A and residual B (Eq. 3).

    A document term t is in A if and only if t is a query keyword or
    ``max_u cos(E(t), E(u)) >= tau`` over the query keywords u. Equality is judged at the precision
    of float32 vectors (2e-7).

    Parameters
    ----------
    query_keywords, document_keywords : mapping of str to float
        K_q and K_d. A term of weight 0 is no keyword.
    encoder : Encoder or any object that `load_encoder` accepts
        Encodes terms. Not used, and may be None, when `absorption` is ``"exact"``.
    tau : float
        Absorption threshold, a cosine in [-1, 1].
    absorption : {"semantic", "exact"}
        ``"exact"`` keeps the first condition only.

    Returns
    -------
    Partition
        ``.shared`` (A), ``.residual`` (B) and ``.reasons``.

    Raises
    ------
    ValueError
        If `tau` or `absorption` is out of range, or a weight is negative, NaN or infinite.
    TypeError
        If keywords do not map strings to numbers.
    """
    check_absorption(tau, absorption)
    query, document = _keywords(query_keywords), _keywords(document_keywords)
    cosines = None
    if absorption == "semantic" and query and document:
        vectors = _term_vectors(encoder, [*document, *query])
        cosines = vectors[: len(document)] @ vectors[len(document) :].T
    absorbed = _absorb(query.terms, document, cosines, tau)
    return _partition(document, range(len(document)), absorbed, query.terms)


def centroid(keywords: Mapping[str, float], encoder: object) -> Floats | None:
    """Embed a keyword set as the weighted mean of its term vectors (Eq. 4).

    Parameters
    ----------
    keywords : mapping of str to float
        Terms and weights, usually B.
    encoder : Encoder or any object that `load_encoder` accepts
        Encodes terms.

    Returns
    -------
    (h,) float64 array or None
        None if there is no keyword, or none with a positive weight. Not scaled to unit length; zero
        if the vectors cancel.

    Raises
    ------
    ValueError
        If a weight is negative, NaN or infinite.
    """
    entries = _keywords(keywords)
    if not entries:
        return None
    weights = entries.weights / max(entries.values())
    result: Floats = weights @ _term_vectors(encoder, entries.terms) / weights.sum()
    return result


def causal_score(query_vector: ArrayLike, residual: Mapping[str, float], encoder: object) -> float:
    """Score a residual keyword set: the cosine of the query and B's centroid (Eq. 5).

    Parameters
    ----------
    query_vector : (h,) array_like
        E(q), of any length.
    residual : mapping of str to float
        B with its weights.
    encoder : Encoder or any object that `load_encoder` accepts
        Encodes terms.

    Returns
    -------
    float
        In [-1, 1]. 0.0 if B is empty, has no weight or cancels out, or if the query vector is zero.

    Raises
    ------
    ValueError
        If the query vector is not a finite vector of the encoder's dimension.
    """
    query = np.asarray(query_vector, dtype=np.float64)
    if query.ndim != 1 or not np.isfinite(query).all():
        raise ValueError(f"query_vector must be a finite (h,) array; its shape is {query.shape}")
    middle = centroid(residual, encoder)
    if middle is None:
        return 0.0
    _check_size(len(middle), len(query))
    row = middle[np.newaxis]
    return float(_cosines(row, np.linalg.norm(row, axis=1), unit(query))[0])


class _Absorbed(NamedTuple):
    """For each document term: is it in A, by which query term (-1: none), at what cosine."""

    mask: Flags
    by: NDArray[np.int64]
    cosine: Floats


class _Scored(NamedTuple):
    """What is kept of the products: Eq. 3 by term; by document, B's centroid length and Eq. 5."""

    absorbed: _Absorbed
    has_residual: Flags
    length: Floats
    causal: Floats


class CandidateKeywords:
    """The keywords of one query and its candidates; everything is computed on first use.

    Parameters
    ----------
    query : str
        The query.
    documents : Documents
        n candidates.
    encoder : EncoderAdapter
        Encodes the query and the terms.
    extractor : KeywordExtractor or None
        None fits `TfidfKeywords` on the candidates.
    tau, absorption
        As in `partition`.
    known : dict, optional
        Keywords of texts seen before, by text; filled here.
    """

    def __init__(
        self,
        query: str,
        documents: Documents,
        encoder: EncoderAdapter,
        extractor: KeywordExtractor | None,
        tau: float,
        absorption: str,
        known: dict[str, Keywords] | None = None,
    ) -> None:
        self._query = query
        self._documents = documents
        self._encoder = encoder
        self._given_extractor = extractor
        self._tau = tau
        self._absorption = absorption
        self._known = {} if known is None or extractor is None else known

    @cached_property
    def query_vector(self) -> Floats:
        """E(q), a unit vector of shape (h,)."""
        return query_vector(self._query, self._encoder)

    @cached_property
    def query_keywords(self) -> Keywords:
        """K_q."""
        return _keywords(self._extractor.query(self._query))

    @property
    def has_residual(self) -> Flags:
        """Which documents have a non-empty B, shape (n,)."""
        return self._scored.has_residual

    @property
    def causal(self) -> Floats:
        """Eq. 5 for every document, shape (n,); 0.0 where B is empty."""
        return self._scored.causal

    def partition(self, index: int) -> Partition:
        """Split one document's keywords into A and B (Eq. 3)."""
        keywords = self._document_keywords[index]
        rows = [self._vocabulary[term] for term in keywords]
        return _partition(keywords, rows, self._scored.absorbed, self.query_keywords.terms)

    def contributions(self, index: int) -> dict[str, float]:
        """Split one causal score over the terms of B, strongest first; the parts sum to it."""
        residual = self.partition(index).residual
        length = self._scored.length[index]
        if length <= COSINE_ROUNDING:
            return dict.fromkeys(residual, 0.0)
        shares = residual.weights / residual.weights.sum()
        vectors = _term_vectors(self._encoder, residual.terms)
        parts = vectors @ self.query_vector * shares / length
        order = np.argsort(-np.abs(parts), kind="stable")
        return {residual.terms[i]: float(parts[i]) for i in order}

    def flags(self, index: int) -> tuple[str, ...]:
        """Say what is unusual about one document's keywords."""
        if not self._document_keywords[index]:
            return ("no keywords: B is empty, causal score 0",)
        if not self.has_residual[index]:
            return ("empty B: every keyword is absorbed, causal score 0",)
        if self._scored.length[index] <= COSINE_ROUNDING:
            return ("zero centroid: B's term vectors cancel or are zero, causal score 0",)
        return ()

    @cached_property
    def _extractor(self) -> KeywordExtractor:
        if self._given_extractor is not None:
            return self._given_extractor
        texts = self._documents.texts
        content = [
            text for text, blank in zip(texts, self._documents.blank, strict=True) if not blank
        ]
        return TfidfKeywords.fit(content or texts)

    @cached_property
    def _document_keywords(self) -> list[Keywords]:
        found = []
        for text, blank in zip(self._documents.texts, self._documents.blank, strict=True):
            words = Keywords() if blank else self._known.get(text)
            if words is None:
                words = self._known[text] = _keywords(self._extractor.document(text))
                if len(self._known) > KNOWN_TEXTS:
                    del self._known[next(iter(self._known))]
            found.append(words)
        return found

    @cached_property
    def _terms(self) -> list[str]:
        """All documents' terms, one document after the other, repeats included."""
        return list(chain.from_iterable(words.terms for words in self._document_keywords))

    @cached_property
    def _vocabulary(self) -> dict[str, int]:
        """The row of each distinct document term."""
        distinct = dict.fromkeys(self._terms)
        return dict(zip(distinct, range(len(distinct)), strict=True))

    @cached_property
    def _scored(self) -> _Scored:
        """Eqs. 3-5 for all candidates. The vectors are dropped: rankings may be kept in numbers."""
        split = len(self._vocabulary)
        vectors = _term_vectors(self._encoder, [*self._vocabulary, *self.query_keywords])
        _check_size(vectors.shape[1], len(self.query_vector))
        cosines = None
        if self._absorption == "semantic" and split and self.query_keywords:
            cosines = vectors[:split] @ vectors[split:].T
        absorbed = _absorb(self.query_keywords.terms, self._vocabulary, cosines, self._tau)
        weights = self._residual_weights(absorbed.mask)
        totals = np.asarray(weights.sum(axis=1))
        sums = weights @ vectors[:split]
        # Eq. 4 divides by the total weight, which changes the length and not the direction.
        length = np.linalg.norm(sums, axis=1) / np.where(totals > 0, totals, 1.0)
        return _Scored(absorbed, totals > 0, length, _cosines(sums, length, self.query_vector))

    def _residual_weights(self, absorbed: Flags) -> csr_array:
        """Lay out the weights of B as a sparse matrix, documents by distinct terms."""
        from scipy.sparse import csr_array

        keywords = self._document_keywords
        lengths = np.fromiter(map(len, keywords), dtype=np.int64, count=len(keywords))
        starts = np.concatenate(([0], np.cumsum(lengths)))
        rows = map(self._vocabulary.__getitem__, self._terms)
        columns = np.fromiter(rows, dtype=np.int64, count=len(self._terms))
        weights = np.concatenate([np.zeros(0), *(words.weights for words in keywords)])
        weights[absorbed[columns]] = 0.0
        shape = (len(keywords), len(self._vocabulary))
        return csr_array((weights, columns, starts), shape=shape)


def _absorb(
    query_terms: Sequence[str], document_terms: Iterable[str], cosines: Floats | None, tau: float
) -> _Absorbed:
    """Apply Eq. 3 to all document terms at once; without cosines, its exact half."""
    places = {term: place for place, term in enumerate(query_terms)}
    by = np.array([places.get(term, -1) for term in document_terms], dtype=np.int64)
    exact = by >= 0
    if cosines is None:
        return _Absorbed(exact, by, np.where(exact, 1.0, 0.0))
    nearest = cosines.argmax(axis=1)
    best = np.clip(cosines[np.arange(len(by)), nearest], -1.0, 1.0)
    mask = exact | (best >= tau - COSINE_ROUNDING)
    by = np.where(exact, by, np.where(mask, nearest, -1))
    return _Absorbed(mask, by, np.where(exact, 1.0, best))


def _partition(
    keywords: Keywords, rows: Sequence[int], absorbed: _Absorbed, query_terms: Sequence[str]
) -> Partition:
    shared: dict[str, float] = {}
    residual: dict[str, float] = {}
    reasons: dict[str, Reason] = {}
    for row, (term, weight) in zip(rows, keywords.items(), strict=True):
        if absorbed.mask[row]:
            shared[term] = weight
            reasons[term] = Reason(query_terms[absorbed.by[row]], float(absorbed.cosine[row]))
        else:
            residual[term] = weight
    return Partition(Keywords(shared), Keywords(residual), reasons)


def _term_vectors(encoder: object, terms: Sequence[str]) -> Floats:
    # In float64: where term vectors nearly cancel, a float32 sum would lose the centroid.
    return encode_terms(encoder, terms).astype(np.float64)


def _cosines(rows: Floats, lengths: Floats, direction: Floats) -> Floats:
    """Cosine of each row with a unit vector; 0 where the centroid's length is only rounding."""
    return np.where(lengths > COSINE_ROUNDING, dot(unit(rows), direction), 0.0)


def _keywords(given: Mapping[str, float]) -> Keywords:
    """Read a mapping, or an extractor's (term, weight) pairs; a term of weight 0 is no keyword."""
    if isinstance(given, Keywords):
        return given
    if isinstance(given, Mapping):
        given = {term: weight for term, weight in given.items() if weight != 0}
    return Keywords(given)


def check_absorption(tau: float, absorption: str) -> None:
    """Refuse a threshold that is no cosine, and an unknown way to absorb."""
    if not isinstance(tau, Real) or isinstance(tau, bool):
        raise TypeError(f"tau must be a number, not {type(tau).__name__}")
    if not -1 <= tau <= 1:
        raise ValueError(
            f"tau is {tau}; it is a cosine in [-1, 1] (to absorb equal words only, use "
            "absorption='exact')"
        )
    check_choice("absorption", absorption, ABSORPTIONS)


def check_choice(name: str, value: object, known: tuple[str, ...]) -> None:
    """Refuse a value that is not one of the known ones, and list them."""
    if value not in known:
        raise ValueError(f"unknown {name} {value!r}; known: {', '.join(known)}")


def _check_size(terms: int, query: int) -> None:
    if terms != query:
        raise ValueError(
            f"term vectors have {terms} dimensions, the query vector {query}; "
            "encode both with one model"
        )
