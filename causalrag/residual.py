"""Eqs. 3-5 for one document: shared and residual keywords, the centroid of B, the causal score.

All candidates of a query at once are in `candidates`, which uses the helpers below. Keyword
extraction and encoding are elsewhere, ordering is in `rerank`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from causalrag.encoders import encode_terms
from causalrag.keywords import Keywords
from causalrag.ranking import Partition, Reason
from causalrag.vectors import COSINE_ROUNDING, dot, unit

__all__ = [
    "ABSORPTIONS",
    "as_keywords",
    "causal_score",
    "centroid",
    "check_absorption",
    "check_choice",
    "check_size",
    "nearest",
    "partition",
    "split",
    "term_vectors",
]

ABSORPTIONS = ("semantic", "exact")

Floats = NDArray[np.float64]


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
    query, document = as_keywords(query_keywords), as_keywords(document_keywords)
    reasons = {term: Reason(term, 1.0) for term in document if term in query}
    if absorption == "semantic" and query and document:
        found = nearest(encoder, document.terms, query.terms)
        reasons = {
            term: reason
            for term, reason in zip(document, found, strict=True)
            if reason.cosine >= tau - COSINE_ROUNDING
        } | reasons
    return split(document, reasons)


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
    entries = as_keywords(keywords)
    if not entries:
        return None
    weights = entries.weights / max(entries.values())
    result: Floats = weights @ term_vectors(encoder, entries.terms) / weights.sum()
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
    check_size(len(middle), len(query))
    if np.linalg.norm(middle) <= COSINE_ROUNDING:  # only rounding is left, and it has no direction
        return 0.0
    return float(dot(unit(middle)[np.newaxis], unit(query))[0])


def nearest(encoder: object, terms: Sequence[str], query_terms: Sequence[str]) -> list[Reason]:
    """Find the query term nearest to each term, the first of equals, and their cosine."""
    vectors = term_vectors(encoder, [*terms, *query_terms])
    cosines = vectors[: len(terms)] @ vectors[len(terms) :].T
    places = cosines.argmax(axis=1)
    best = np.clip(cosines[np.arange(len(terms)), places], -1.0, 1.0)
    return [
        Reason(query_terms[place], cosine)
        for place, cosine in zip(places.tolist(), best.tolist(), strict=True)
    ]


def split(keywords: Keywords, reasons: Mapping[str, Reason]) -> Partition:
    """Divide keywords into those that a reason absorbs and the rest."""
    shared = {term: weight for term, weight in keywords.items() if term in reasons}
    residual = {term: weight for term, weight in keywords.items() if term not in reasons}
    return Partition(Keywords(shared), Keywords(residual), {term: reasons[term] for term in shared})


def term_vectors(encoder: object, terms: Sequence[str]) -> Floats:
    """Encode terms into float64 rows."""
    # In float64: where term vectors nearly cancel, a float32 sum would lose the centroid.
    return encode_terms(encoder, terms).astype(np.float64)


def as_keywords(given: Mapping[str, float]) -> Keywords:
    """Read a mapping, or an extractor's (term, weight) pairs; a term of weight 0 is no keyword."""
    if isinstance(given, Keywords):
        return given
    if isinstance(given, Mapping):
        given = {term: weight for term, weight in given.items() if weight != 0}
    return Keywords(given)


def check_absorption(tau: object, absorption: str) -> None:
    """Refuse a threshold that is no cosine, and an unknown way to absorb."""
    if not isinstance(tau, Real) or isinstance(tau, bool):
        raise TypeError(f"tau must be a number, not {type(tau).__name__}")
    if not -1 <= float(tau) <= 1:
        raise ValueError(
            f"tau is {tau}; it is a cosine in [-1, 1] (to absorb equal words only, use "
            "absorption='exact')"
        )
    check_choice("absorption", absorption, ABSORPTIONS)


def check_choice(name: str, value: object, known: tuple[str, ...]) -> None:
    """Refuse a value that is not one of the known ones, and list them."""
    if value not in known:
        raise ValueError(f"unknown {name} {value!r}; known: {', '.join(known)}")


def check_size(terms: int, query: int) -> None:
    """Refuse term vectors and a query vector of different dimensions."""
    if terms != query:
        raise ValueError(
            f"term vectors have {terms} dimensions, the query vector {query}; "
            "encode both with one model"
        )
