"""Eqs. 3-5 for all candidates of a query at once.

One product of the term table with the query's keywords absorbs; another with the query gives each
term's share of every score; the centroids' lengths follow from inner products that are remembered
with the texts (`prepared`). The equations for one document are in `residual`, ordering in `rerank`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import compress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from causalrag.documents import Documents, joined, query_vector
from causalrag.encoders import TERM_CACHE, EncoderAdapter
from causalrag.keywords import KeywordExtractor, Keywords, TfidfKeywords
from causalrag.prepared import PAIRED_TERMS, KnownTexts, Prepared, prepare
from causalrag.ranking import Partition, Reason
from causalrag.residual import as_keywords, check_size, nearest, split, term_vectors
from causalrag.termtable import TermTable
from causalrag.vectors import COSINE_ROUNDING, cosine_digits, dot, unit

__all__ = ["CandidateKeywords"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]
Vectors = NDArray[np.float32]

# How many term vectors are multiplied, and how many are held in float64, at once: what the
# processor's caches hold.
BLOCK, EXACT_BLOCK = 2048, 256
# Where the squared length of a sum of vectors is below this share of its largest possible value, or
# near the end of float64's range, inner products have lost digits, and the vectors are added.
CANCELLING, SMALLEST = 1e-3, 1e-200
# How many centroids are added at once.
ADDED_AT_ONCE = 1024


NO_ROWS: Rows = np.zeros(0, dtype=np.int64)
# What is known of every blank text.
NOTHING = Prepared(Keywords(), 0, moment=2**62)


class _Group(NamedTuple):
    """Candidates with m keywords each, one per line.

    Texts with many keywords make one group without products. Their lines are filled up with the
    row of the first keyword, at weight 0.
    """

    places: Rows  # (g,), among the candidates
    rows: Rows  # (g, m), in the term table
    weights: Floats  # (g, m)
    products: Floats | None  # (g, m, m)


class _Scored(NamedTuple):
    """What is kept, by document: its keywords, those of A, B's centroid length and Eq. 5."""

    keywords: list[Keywords]
    absorbed: list[tuple[Rows, Flags]]  # places, and flags in the order of the sorted terms
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
        As in `residual.partition`.
    known : KnownTexts, optional
        What is remembered of texts seen before; filled here. Must be of this encoder and extractor.
    """

    def __init__(
        self,
        query: str,
        documents: Documents,
        encoder: EncoderAdapter,
        extractor: KeywordExtractor | None,
        tau: float,
        absorption: str,
        known: KnownTexts | None = None,
    ) -> None:
        self._query = query
        self._documents = documents
        self.encoder = encoder
        self._given_extractor = extractor
        self.tau = tau
        self.absorption = absorption
        self._known = None if extractor is None else known

    @property
    def query(self) -> str:
        """The query."""
        return self._query

    @cached_property
    def query_vector(self) -> Floats:
        """E(q), a unit vector of shape (h,)."""
        return query_vector(self._query, self.encoder)

    @cached_property
    def query_keywords(self) -> Keywords:
        """K_q."""
        return as_keywords(self.extractor.query(self._query))

    @property
    def has_residual(self) -> Flags:
        """Which documents have a non-empty B, shape (n,)."""
        return self._scored.has_residual

    @property
    def causal(self) -> Floats:
        """Eq. 5 for every document, shape (n,); 0.0 where B is empty."""
        return self._scored.causal

    def keywords(self, index: int) -> Keywords:
        """K_d of one document."""
        return self._scored.keywords[index]

    def shared_terms(self, index: int) -> list[str]:
        """List the terms of one document's A, sorted."""
        return list(compress(sorted(self.keywords(index)), self._absorbed(index)))

    def partition(self, index: int) -> Partition:
        """Split one document's keywords into A and B (Eq. 3)."""
        keywords, query = self.keywords(index), self.query_keywords
        shared = self.shared_terms(index)
        reasons = {term: Reason(term, 1.0) for term in shared if term in query}
        near = [term for term in shared if term not in query]
        if near:
            reasons |= zip(near, nearest(self.encoder, near, query.terms), strict=True)
        return split(keywords, reasons)

    def _absorbed(self, index: int) -> Flags:
        for places, flags in self._scored.absorbed:
            line = int(np.searchsorted(places, index))
            if line < len(places) and places[line] == index:
                found: Flags = flags[line]
                return found
        return np.zeros(0, dtype=np.bool_)

    def contributions(self, index: int) -> dict[str, float]:
        """Split one causal score over the terms of B, strongest first; the parts sum to it."""
        residual = self.partition(index).residual
        length = self._scored.length[index]
        if length <= COSINE_ROUNDING:
            return dict.fromkeys(residual, 0.0)
        shares = residual.weights / residual.weights.sum()
        vectors = term_vectors(self.encoder, residual.terms)
        parts = vectors @ self.query_vector * shares / length
        order = np.argsort(-np.abs(parts), kind="stable")
        return {residual.terms[i]: float(parts[i]) for i in order}

    def flags(self, index: int) -> tuple[str, ...]:
        """Say what is unusual about one document's keywords."""
        if not self.keywords(index):
            return ("no keywords: B is empty, causal score 0",)
        if not self.has_residual[index]:
            return ("empty B: every keyword is absorbed, causal score 0",)
        if self._scored.length[index] <= COSINE_ROUNDING:
            return ("zero centroid: B's term vectors cancel or are zero, causal score 0",)
        return ()

    @cached_property
    def extractor(self) -> KeywordExtractor:
        """The extractor kw(.): the one given, or one fitted on the candidates."""
        if self._given_extractor is not None:
            return self._given_extractor
        texts = self._documents.texts
        content = [
            text for text, blank in zip(texts, self._documents.blank, strict=True) if not blank
        ]
        return TfidfKeywords.fit(content or texts)

    @cached_property
    def _scored(self) -> _Scored:
        """Eqs. 3-5. No vector is kept: rankings may be kept in numbers."""
        # Extractor and query come first: while a table is lent, other threads wait for it.
        known = KnownTexts() if self._known is None else self._known
        texts, query, direction = self._read(known), self.query_keywords, self.query_vector
        keywords = [text.keywords for text in texts]
        has_residual = np.zeros(len(texts), dtype=np.bool_)
        result = _Scored(keywords, [], has_residual, *np.zeros((2, len(texts))))
        with TERM_CACHE.lend(self.encoder) as table:
            groups = self._current(texts, table, known)
            if self.absorption == "semantic":
                near = equal = table.rows(query.terms, self._encode)
            else:
                near, equal = NO_ROWS, table.find(query.terms)
            if table.size:
                check_size(table.vectors.shape[1], len(direction))
            in_a, along = _multiplied(table, _distinct(table, groups), near, direction, self.tau)
            in_a[equal[equal >= 0]] = True
            for group in groups:
                absorbed = in_a[group.rows]
                length, causal = _scores(table, group, absorbed, along, direction)
                result.length[group.places], result.causal[group.places] = length, causal
                result.has_residual[group.places] = ~absorbed.all(axis=1)
                result.absorbed.append((group.places, absorbed))
        return result

    def _encode(self, terms: list[str]) -> Vectors:
        return self.encoder.encode(terms, "term")

    def _read(self, known: KnownTexts) -> list[Prepared]:
        """Look up what is known of each text; extract the keywords of new ones."""
        found = []
        contents, blank = self._documents.contents, self._documents.blank.tolist()
        for content, empty in zip(contents, blank, strict=True):
            prepared = NOTHING if empty else known.get(content)
            if prepared is None:
                words = as_keywords(self.extractor.document(joined(content)))
                prepared = Prepared(words, len(words))
                known.put(content, prepared)
            found.append(prepared)
        return found

    def _current(self, texts: list[Prepared], table: TermTable, known: KnownTexts) -> list[_Group]:
        """Group the candidates, preparing in place what the table does not have."""
        moments = np.array([text.moment for text in texts], dtype=np.int64)
        old = np.flatnonzero(moments < table.created)
        if len(old):
            self._renew(old, texts, table, known)
            moments[old] = [texts[place].moment for place in old.tolist()]
        groups = _grouped(texts)
        changed = [
            group.places[table.changed(group.rows, moments[group.places, np.newaxis]).any(axis=1)]
            for group in groups
        ]
        if any(map(len, changed)):
            self._renew(np.concatenate(changed), texts, table, known)
            groups = _grouped(texts)
        return groups

    def _renew(
        self, places: Rows, texts: list[Prepared], table: TermTable, known: KnownTexts
    ) -> None:
        contents = [self._documents.contents[place] for place in places.tolist()]
        keywords = {
            content: texts[place].keywords for content, place in zip(contents, places, strict=True)
        }
        fresh = dict(
            zip(keywords, prepare(list(keywords.values()), table, self._encode), strict=True)
        )
        for content, prepared in fresh.items():
            known.put(content, prepared)
        for content, place in zip(contents, places.tolist(), strict=True):
            texts[place] = fresh[content]


def _grouped(texts: Sequence[Prepared]) -> list[_Group]:
    """Join the numbers of texts with equally many keywords; texts without any are left out."""
    sizes = np.array([text.size for text in texts], dtype=np.int64)
    groups = []
    for size in np.flatnonzero(np.bincount(sizes[sizes <= PAIRED_TERMS])).tolist():
        if size:
            places = np.flatnonzero(sizes == size)
            joint = np.concatenate([texts[place].numbers for place in places.tolist()])
            joint = joint.reshape(len(places), size + 2, size)
            rows = joint.view(np.int64)[:, 0].copy()
            groups.append(_Group(places, rows, joint[:, 1].copy(), joint[:, 2:]))
    places = np.flatnonzero(sizes > PAIRED_TERMS)
    if len(places):
        rows = np.empty((len(places), sizes.max()), dtype=np.int64)
        weights = np.zeros(rows.shape)
        for line, place in enumerate(places.tolist()):
            numbers = texts[place].numbers
            rows[line] = numbers.view(np.int64)[0, 0]
            rows[line, : sizes[place]] = numbers.view(np.int64)[0]
            weights[line, : sizes[place]] = numbers[1]
        groups.append(_Group(places, rows, weights, None))
    return groups


def _distinct(table: TermTable, groups: Sequence[_Group]) -> Rows:
    """Collect the rows of all candidates, each once, and note their use."""
    used = np.zeros(table.size, dtype=np.bool_)  # much faster than `np.unique`
    for group in groups:
        used[group.rows] = True
    rows = np.flatnonzero(used)
    table.touch(rows)
    return rows


def _multiplied(
    table: TermTable, rows: Rows, query_rows: Rows, direction: Floats, tau: float
) -> tuple[Flags, Floats]:
    """Multiply term vectors by the query's keywords, for Eq. 3, and by the query, for Eq. 5.

    Returns
    -------
    absorbed : (size,) bool array
        By row of the table: is its cosine with a query keyword at least tau. For `rows` only.
    along : (size,) float64 array
        By row: the inner product with `direction`. For `rows` only.
    """
    absorbed, along = np.zeros(table.size, dtype=np.bool_), np.empty(table.size)
    keywords, close = np.ascontiguousarray(table.vectors[query_rows].T), [NO_ROWS]
    threshold = tau - COSINE_ROUNDING
    # No float32 product of two unit vectors is further off than this; closer ones are done again.
    margin = len(direction) * float(np.finfo(np.float32).eps)
    # In a table that holds little else, reading all of it in place is faster than a copy.
    everything = 2 * len(rows) >= table.size
    rows = np.arange(table.size) if everything else rows
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        vectors = table.vectors[start : start + len(block)] if everything else table.vectors[block]
        along[block] = _along(vectors, direction)
        if len(query_rows):
            cosines = (vectors @ keywords).reshape(-1)
            hits = np.flatnonzero(cosines > threshold - margin)
            sure = cosines[hits] > threshold + margin
            hits //= len(query_rows)
            absorbed[block[hits[sure]]] = True
            close.append(block[hits[~sure]])
    _look_again(table, np.concatenate(close), query_rows, threshold, absorbed)
    return absorbed, along


def _along(vectors: Vectors, direction: Floats) -> Floats:
    """Multiply float32 rows by a vector in float64; equal rows give equal products."""
    result = np.empty(len(vectors))
    exact = np.empty((EXACT_BLOCK, len(direction)))
    for start in range(0, len(vectors), EXACT_BLOCK):
        block = vectors[start : start + EXACT_BLOCK]
        exact[: len(block)] = block
        # Row by row, where a matrix product would depend on the place of a row.
        np.vecdot(exact[: len(block)], direction, out=result[start : start + EXACT_BLOCK])
    return result


def _look_again(
    table: TermTable, rows: Rows, query_rows: Rows, threshold: float, absorbed: Flags
) -> None:
    """Decide in float64 for terms that float32 leaves open; sets `absorbed`."""
    rows = np.unique(rows[~absorbed[rows]])
    keywords = table.vectors[query_rows].astype(np.float64).T
    for start in range(0, len(rows), EXACT_BLOCK):
        block = rows[start : start + EXACT_BLOCK]
        cosines = (table.vectors[block].astype(np.float64) @ keywords).max(axis=1)
        absorbed[block] = cosines >= threshold


def _scores(
    table: TermTable, group: _Group, absorbed: Flags, along: Floats, direction: Floats
) -> tuple[Floats, Floats]:
    """Compute the length of each B's centroid (Eq. 4) and its cosine with the query (Eq. 5)."""
    weights = np.where(absorbed, 0.0, group.weights)
    squared = np.zeros(len(weights))
    # What leaves float64's range here is added up below.
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        if group.products is not None:
            kept = (~absorbed).astype(np.float64)
            squared = np.einsum("ni,ni->n", np.einsum("nij,nj->ni", group.products, kept), kept)
        total = weights.sum(axis=1)
        sound = squared > np.maximum(CANCELLING * total**2, SMALLEST)
        root = np.sqrt(squared, where=sound, out=np.ones(len(weights)))
        length = np.where(sound, root / total, 0.0)
        reach = np.einsum("nm,nm->n", weights, along[group.rows])
        causal = cosine_digits(np.where(sound, reach / root, 0.0))
    unsound = np.flatnonzero(~(sound | absorbed.all(axis=1)))
    for start in range(0, len(unsound), ADDED_AT_ONCE):
        lines = unsound[start : start + ADDED_AT_ONCE]
        middle = _centroids(table, group.rows[lines], weights[lines])
        length[lines] = np.linalg.norm(middle, axis=1)
        # A length within rounding has no direction.
        cosines = dot(unit(middle), direction)
        causal[lines] = np.where(length[lines] > COSINE_ROUNDING, cosines, 0.0)
    return length, causal


def _centroids(table: TermTable, rows: Rows, weights: Floats) -> Floats:
    """Add up weighted vectors (Eq. 4), for documents with a B: (n, m) to (n, h)."""
    from scipy.sparse import csr_array

    shares = weights / weights.max(axis=1, keepdims=True)
    shares /= shares.sum(axis=1, keepdims=True)
    filled = shares > 0
    ends = np.concatenate([[0], np.cumsum(filled.sum(axis=1))])
    distinct, columns = np.unique(rows[filled], return_inverse=True)
    matrix = csr_array((shares[filled], columns, ends), shape=(len(rows), len(distinct)))
    result: Floats = matrix @ table.vectors[distinct].astype(np.float64)
    return result
