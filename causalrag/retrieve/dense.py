"""The dense first stage: exact cosine search in blocks (Eqs. 1-2).

`dense` works on vectors, `DenseRetriever` on documents. Both return the top k, less what lies below
a threshold. There is no approximate index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from causalrag.documents import (
    Documents,
    check_query,
    document_vectors,
    encode,
    read_documents,
)
from causalrag.encoders import load_encoder
from causalrag.retrieve.base import Hits, as_candidates, check_count, check_list, fitted
from causalrag.vectors import COSINE_ROUNDING, dot, unit

__all__ = ["DenseRetriever", "dense"]

Floats = NDArray[np.float64]
Reals = NDArray[np.float32] | NDArray[np.float64]

# Blocks are multiplied in float32; whatever comes within this of the k-th score is scored again in
# float64, so that neither rounding nor the block size decides the order.
SCREENING_MARGIN = 1e-4
BLOCK = 16384
# How many float32 scores are held at once, over all queries.
SCREENED_AT_ONCE = 2**24


def dense(
    query_vectors: ArrayLike,
    document_vectors: ArrayLike,
    k: int,
    threshold: float | None = None,
    block: int = BLOCK,
) -> Hits | list[Hits]:
    """Retrieve by cosine: the top k documents that reach a threshold (Eqs. 1-2).

    Parameters
    ----------
    query_vectors : (h,) or (m, h) array_like
        One query vector or several, of any length.
    document_vectors : (n, h) array_like
        Document vectors, of any length. A zero vector has cosine 0 with everything.
    k : int
        How many documents at most, at least 1; all n if k is larger.
    threshold : float, optional
        theta of Eq. 2: documents of the top k below it are left out. Equality is judged at the
        precision of float32 vectors (2e-7).
    block : int
        How many documents are multiplied at once. It bounds the memory and does not change the
        result.

    Returns
    -------
    Hits or list of Hits
        One `Hits` for a 1-d `query_vectors`, else a list with one per query. Ties are ordered by
        index.

    Raises
    ------
    ValueError
        If k or `block` is below 1, a value is NaN or infinite, or dimensions differ.
    """
    check_count("k", k)
    check_count("block", block)
    _check_threshold(threshold)
    queries = _matrix(query_vectors, "query_vectors", (1, 2))
    if not np.isfinite(queries).all():
        raise ValueError("query_vectors hold NaN or an infinity")
    documents = _matrix(document_vectors, "document_vectors", (2,))
    if documents.size and queries.shape[-1] != documents.shape[-1]:
        raise ValueError(
            f"query_vectors have {queries.shape[-1]} dimensions, document_vectors "
            f"{documents.shape[-1]}; encode both with one model"
        )
    if not documents.size:
        documents = np.zeros((0, queries.shape[-1]))
    hits = list(_search(unit(np.atleast_2d(queries)), documents, int(k), threshold, int(block)))
    return hits[0] if queries.ndim == 1 else hits


class DenseRetriever:
    """Retrieve documents by the cosine of their vectors with the query's (Eqs. 1-2).

    Parameters
    ----------
    encoder : Encoder, str or any object that `load_encoder` accepts
        Encodes documents and queries.

    Examples
    --------
    >>> retriever = DenseRetriever("use").fit(documents)  # doctest: +SKIP
    >>> hits = retriever.search("why does bread rise", k=20)  # doctest: +SKIP
    >>> ranking = reranker.rank(  # doctest: +SKIP
    ...     "why does bread rise", retriever.candidates(hits), scores=hits.scores
    ... )
    """

    def __init__(self, encoder: Any = "use") -> None:
        self.encoder = load_encoder(encoder)
        self._documents: Documents | None = None
        self._vectors = np.zeros((0, 1), dtype=np.float32)

    def fit(
        self,
        documents: Iterable[Any],
        batch: int = 32,
        progress: Callable[[int, int], object] | None = None,
    ) -> DenseRetriever:
        """Read and encode the documents, each distinct text once; replaces an earlier set.

        Parameters
        ----------
        documents : iterable of str, mapping or object
            As in `CausalReranker.rank`. A precomputed ``vector`` is used instead of encoding.
        batch : int
            How many texts are encoded at once.
        progress : callable, optional
            Called as ``progress(done, total)`` after each batch.

        Returns
        -------
        DenseRetriever
            Itself.

        Raises
        ------
        ValueError, TypeError
            As in `CausalReranker.rank`.
        """
        check_count("batch", batch)
        read = read_documents(documents)
        size = self.encoder.dimension
        vectors = document_vectors(read, self.encoder, size, batch, progress)
        self._documents, self._vectors = read, vectors.astype(np.float32)
        return self

    def search(self, query: str, k: int = 20, threshold: float | None = None) -> Hits:
        """Retrieve the top k documents that reach a threshold (Eq. 2).

        Parameters
        ----------
        query : str
            Text with content.
        k : int
            How many documents at most, at least 1.
        threshold : float, optional
            The lowest cosine that is kept.

        Returns
        -------
        Hits
            ``indices, scores``, best first, ties by index. Empty documents come after all others,
            with a score of at most 0.

        Raises
        ------
        ValueError
            If the query is blank or k below 1.
        RuntimeError
            If `fit` was not called.
        """
        return self.search_all([query], k, threshold)[0]

    def search_all(
        self, queries: Iterable[str], k: int = 20, threshold: float | None = None
    ) -> list[Hits]:
        """Retrieve for several queries at once; see `search`.

        Parameters
        ----------
        queries : iterable of str
            Texts with content.
        k, threshold
            As in `search`.

        Returns
        -------
        list of Hits
            One per query.
        """
        check_list(queries)
        documents = fitted(self._documents)
        check_count("k", k)
        _check_threshold(threshold)
        texts = [check_query(query) for query in queries]
        if not texts:
            return []
        vectors = encode(texts, self.encoder, "query")
        blank = documents.blank
        content, empty = np.flatnonzero(~blank), np.flatnonzero(blank)
        rows = self._vectors[content] if len(empty) else self._vectors
        found = _search(vectors, rows, int(k), threshold, BLOCK)
        return [_with_blank(hits, content, empty, k, threshold) for hits in found]

    def candidates(self, hits: Hits) -> list[dict[str, Any]]:
        """Return retrieved documents in the form `CausalReranker.rank` takes.

        Parameters
        ----------
        hits : Hits
            What `search` returned.

        Returns
        -------
        list of dict
            ``id``, ``text`` (title included), ``vector`` (so that nothing is encoded twice) and
            ``document``, the caller's own object.
        """
        found = as_candidates(fitted(self._documents), hits)
        for index, candidate in zip(hits.indices.tolist(), found, strict=True):
            candidate["vector"] = self._vectors[index]
        return found


def _search(
    queries: Floats, documents: Reals, k: int, threshold: float | None, block: int
) -> Iterator[Hits]:
    k = min(k, len(documents))
    step = max(1, SCREENED_AT_ONCE // (k + block))
    for start in range(0, len(queries), step):
        part = queries[start : start + step]
        for query, indices in zip(part, _screen(part, documents, k, block), strict=True):
            scores = _exact(query, documents, indices, block)
            order = np.argsort(-scores, kind="stable")[:k]
            if threshold is not None:
                order = order[scores[order] >= threshold - COSINE_ROUNDING]
            yield Hits(indices[order], scores[order])


def _screen(queries: Floats, documents: Reals, k: int, block: int) -> list[NDArray[np.int64]]:
    """For each query, the ascending indices of all documents that may be among its top k."""
    narrow = queries.astype(np.float32)
    best = np.full((len(queries), k), -np.inf, dtype=np.float32)
    found = []
    for start in range(0, len(documents), block):
        scores = narrow @ _narrow_unit(documents[start : start + block], start).T
        both = np.concatenate((best, scores), axis=1)
        best = np.partition(both, both.shape[1] - k, axis=1)[:, -k:]
        which, place = np.nonzero(scores >= best.min(axis=1, keepdims=True) - SCREENING_MARGIN)
        found.append((which, place + start, scores[which, place]))
    if not found:
        return [np.zeros(0, dtype=np.int64)] * len(queries)
    which, place, score = (np.concatenate(parts) for parts in zip(*found, strict=True))
    kept = score >= best.min(axis=1)[which] - SCREENING_MARGIN
    which, place = which[kept], place[kept]
    order = np.lexsort((place, which))
    return np.split(place[order], np.searchsorted(which[order], np.arange(1, len(queries))))


def _exact(query: Floats, documents: Reals, indices: NDArray[np.int64], block: int) -> Floats:
    scores = np.empty(len(indices))
    for start in range(0, len(indices), block):
        rows = unit(documents[indices[start : start + block]])
        scores[start : start + block] = dot(rows, query)
    return scores


def _narrow_unit(rows: Reals, start: int) -> NDArray[np.float32]:
    with np.errstate(over="ignore", invalid="ignore"):
        norms = np.sqrt(np.einsum("nh,nh->n", rows, rows))
    # The usual vectors, without a zero, tiny, huge or broken one, need no pass in float64.
    if ((norms > 1e-10) & (norms < 1e10)).all():
        narrow: NDArray[np.float32] = (rows / norms[:, np.newaxis]).astype(np.float32, copy=False)
        return narrow
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        place = start + int(np.argmin(finite))
        raise ValueError(f"document_vectors[{place}] holds NaN or an infinity")
    return unit(rows).astype(np.float32)


def _with_blank(
    hits: Hits,
    content: NDArray[np.int64],
    empty: NDArray[np.int64],
    k: int,
    threshold: float | None,
) -> Hits:
    """Map positions back to all documents; append empty ones if k asks for more."""
    indices, scores = content[hits.indices], hits.scores
    wanted = min(k - len(content), len(empty))
    score = min(0.0, float(scores[-1])) if len(scores) else 0.0
    if wanted <= 0 or (threshold is not None and score < threshold - COSINE_ROUNDING):
        return Hits(indices, scores)
    return Hits(
        np.concatenate((indices, empty[:wanted])),
        np.concatenate((scores, np.full(wanted, score))),
    )


def _matrix(values: ArrayLike, name: str, dimensions: tuple[int, ...]) -> Reals:
    array = np.asarray(values)
    if array.dtype not in (np.float32, np.float64):
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{name} must hold numbers: {error}") from error
    if array.ndim not in dimensions and array.size:
        shapes = " or ".join(("(h,)", "(n, h)")[dimension - 1] for dimension in dimensions)
        raise ValueError(f"{name} must have shape {shapes}, not {array.shape}")
    return array


def _check_threshold(threshold: float | None) -> None:
    if threshold is None:
        return
    if not isinstance(threshold, Real) or isinstance(threshold, bool):
        raise TypeError(f"threshold must be a number or None, not {type(threshold).__name__}")
    if not -np.inf < threshold < np.inf:
        raise ValueError(
            f"threshold is {threshold}; give a finite cosine, or None for no threshold"
        )
