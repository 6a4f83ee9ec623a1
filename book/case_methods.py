"""The case study's tables: a question's candidates by every method, on the casebook and the laws.

`Collection` holds what is computed once for a knowledge base; `ranked_tables` re-ranks for each
question, `density_table` counts where its keywords stand, and `growth_table` follows the target's
rank as laws are added to the casebook. `case_results.py` stores them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pandas as pd
from provenance import SETTINGS, Progress

import causalrag as cr
from causalrag import gate, results
from causalrag.chunks import pooled_vectors
from causalrag.documents import query_vector
from causalrag.text import tokenize
from causalrag.vectors import dot, unit

CHUNKS = {"size": 4096, "overlap": 512}  # section 4.1
WINDOWS = {"casebook": (30, 8), "laws": (20,)}  # Table 1 prints eight
SIZES = (60, 120, 240)  # between the casebook alone and all laws
ORDERS, SEED = 200, 2024
METHODS: dict[str, dict[str, str]] = {
    "similarity": {"method": "similarity"},
    "causal_exact": {"method": "causal", "absorption": "exact"},
    "causal": {"method": "causal"},
    "hybrid": {"method": "hybrid"},
}

Rows = list[tuple[Any, ...]]


class RememberedKeywords:
    """An extractor that cuts no document twice: a law takes a while, and four methods ask for it.

    Parameters
    ----------
    extractor : TfidfKeywords
        Fitted on the whole knowledge base.
    """

    def __init__(self, extractor: Any) -> None:
        self.document = lru_cache(maxsize=None)(extractor.document)
        self.tokens = lru_cache(maxsize=None)(extractor.tokens)
        self.query, self.idf = extractor.query, extractor.idf


@dataclass(frozen=True, eq=False)
class Collection:
    """A knowledge base, and what every question needs of it.

    Attributes
    ----------
    name : {"casebook", "laws"}
        Decides the windows.
    documents : sequence of objects
        With ``.id``, ``.title``, ``.text``, ``.full_text``, ``.headings`` and ``.body``.
    cache : EmbeddingCache
        Encodes.
    vectors : (n, h) float32 array
        One unit row per document, pooled over its chunks.
    keywords : RememberedKeywords
        With the idf of these documents.
    """

    name: str
    documents: Sequence[Any]
    cache: Any
    vectors: np.ndarray
    keywords: RememberedKeywords

    @classmethod
    def make(cls, name: str, documents: Sequence[Any], cache: Any, told: str) -> Collection:
        """Encode the documents and weigh their words."""
        texts = [document.full_text for document in documents]
        progress = Progress(told, "chunks encoded")
        vectors = pooled_vectors(texts, cache, **CHUNKS, progress=progress, encode=cache.encode)
        tops = {key: SETTINGS[key] for key in ("top_document", "top_query")}
        fitted = cr.TfidfKeywords.fit(texts, **tops)
        return cls(name, documents, cache, vectors, RememberedKeywords(fitted))

    @cached_property
    def counts(self) -> list[tuple[Counter[str], Counter[str]]]:
        """The content tokens of each document's title and headings, and of its body."""
        return [
            (_counted([document.title, *document.headings]), _counted([document.body]))
            for document in self.documents
        ]

    def similarities(self, query: str) -> np.ndarray:
        """Give the cosine of each document with a query (Eq. 1), shape (n,), to 12 decimals."""
        return dot(unit(self.vectors), query_vector(query, self.cache))


def _counted(texts: Sequence[str]) -> Counter[str]:
    return Counter(token for text in texts for token in tokenize(text))


# --- re-ranking -----------------------------------------------------------------------------------


def ranked_tables(
    collection: Collection, queries: Sequence[Any], told: str
) -> dict[str, pd.DataFrame]:
    """Re-rank each query's best documents by every method, in every window.

    Parameters
    ----------
    collection : Collection
        The knowledge base.
    queries : sequence of objects
        With ``.id`` and ``.query``.
    told : str
        How a line of progress begins.

    Returns
    -------
    dict of str to DataFrame
        ``ranks``: places up to the widest window; beyond a narrower one the first stage's order is
        kept. ``candidates``: the widest window in first-stage order, with each score and the
        statistics of `gate.candidate_statistics`. ``terms``: all keywords of each candidate,
        heaviest first, in the set (A or B) of semantic absorption; for A what absorbed it at which
        cosine, for B its part of the causal score. Ties keep the first stage's order, and there the
        order of the documents.
    """
    windows = [min(window, len(collection.documents)) for window in WINDOWS[collection.name]]
    widest = max(windows)
    tau, weight = SETTINGS["tau"], SETTINGS["weight"]
    rerankers = {
        name: cr.CausalReranker(
            collection.cache, collection.keywords, tau=tau, weight=weight, **method
        )
        for name, method in METHODS.items()
    }
    collection.cache.encode([query.query for query in queries], role="query")
    bases = [collection.similarities(query.query) for query in queries]
    orders = [np.argsort(-base, kind="stable")[:widest] for base in bases]
    _encode_terms(collection, queries, orders, told)
    progress = Progress(told, "queries")
    rows: dict[str, Rows] = {"ranks": [], "candidates": [], "terms": []}
    for done, (query, base, order) in enumerate(zip(queries, bases, orders, strict=True), start=1):
        for window in dict.fromkeys(windows):
            documents = [collection.documents[i] for i in order[:window]]
            rankings = {
                name: reranker.rank(query.query, documents, scores=base[order[:window]])
                for name, reranker in rerankers.items()
            }
            rest = [collection.documents[i].id for i in order[window:]]
            for method, ranking in rankings.items():
                ids = [*(place.doc_id for place in ranking), *rest]
                rows["ranks"] += [
                    (query.id, window, method, name, rank) for rank, name in enumerate(ids, start=1)
                ]
            if window == widest:
                rows["candidates"] += _candidate_rows(query.id, rankings, collection.keywords)
                rows["terms"] += _term_rows(query.id, rankings["causal"])
        progress(done, len(queries))
    return {name: _frame(name, found) for name, found in rows.items()}


def _encode_terms(
    collection: Collection, queries: Sequence[Any], orders: Sequence[np.ndarray], told: str
) -> None:
    """Encode all terms that will be asked for at once: the cache writes a part for each call."""
    terms = {term for query in queries for term in collection.keywords.query(query.query)}
    for text in {collection.documents[i].full_text for order in orders for i in order.tolist()}:
        terms |= set(collection.keywords.document(text)) | set(collection.keywords.tokens(text))
    collection.cache.encode(sorted(terms), role="term", progress=Progress(told, "terms encoded"))


def _candidate_rows(
    query_id: str, rankings: Mapping[str, Any], keywords: Any
) -> Iterator[tuple[Any, ...]]:
    shown = gate.candidate_statistics(rankings["causal"], keywords)
    exact, semantic = (
        sorted(rankings[name], key=lambda place: place.index) for name in ("causal_exact", "causal")
    )
    for one, place, (_, *statistics) in zip(
        exact, semantic, shown.itertuples(index=False), strict=True
    ):
        yield (
            query_id,
            place.doc_id,
            place.document.title,
            place.base,
            one.causal,
            place.causal,
            bool(one.residual),
            bool(place.residual),
            *statistics,
        )


def _term_rows(query_id: str, ranking: Any) -> Iterator[tuple[Any, ...]]:
    for place in sorted(ranking, key=lambda place: place.index):
        parts, split = place.contributions, place.partition
        for term, weight in split.shared.items():
            by, cosine = split.reasons[term]
            yield query_id, place.doc_id, "A", term, weight, by, cosine, 0.0
        for term, weight in split.residual.items():
            yield query_id, place.doc_id, "B", term, weight, "", 0.0, parts[term]


# --- density --------------------------------------------------------------------------------------


def density_table(collection: Collection, queries: Sequence[Any]) -> pd.DataFrame:
    """Count where each document has each query's keywords, beside its similarity.

    Parameters
    ----------
    collection : Collection
        The knowledge base.
    queries : sequence of objects
        With ``.id`` and ``.query``.

    Returns
    -------
    DataFrame
        A row per query and document: ``similarity``; of the content tokens of title and headings,
        and of those of the body, how many there are (``_tokens``) and how many are keywords of the
        query (``_hits``, equal words, repeats included).
    """
    rows: Rows = []
    for query in queries:
        words = set(collection.keywords.query(query.query))
        similarities = collection.similarities(query.query).tolist()
        for document, similarity, counts in zip(
            collection.documents, similarities, collection.counts, strict=True
        ):
            pairs = ((sum(count[word] for word in words), count.total()) for count in counts)
            rows.append((query.id, document.id, similarity, *(n for pair in pairs for n in pair)))
    return _frame("density", rows)


# --- growth ---------------------------------------------------------------------------------------


def growth_table(
    casebook: Collection,
    laws: Collection,
    target: str,
    queries: Sequence[Any],
    orders: int = ORDERS,
) -> pd.DataFrame:
    """Follow the target's rank under similarity as laws are added to the casebook.

    Parameters
    ----------
    casebook, laws : Collection
        The casebook comes first; then the laws in random orders, each size holding the one before.
    target : str
        The id of the target in the casebook.
    queries : sequence of objects
        With ``.id`` and ``.query``.
    orders : int
        How many orders; order r is the permutation of ``numpy.random.default_rng((SEED, r))``.

    Returns
    -------
    DataFrame
        A row per query, order and size (documents in all). Ties keep the order of the documents, so
        a law of equal similarity follows the target.
    """
    first, total = len(casebook.documents), len(casebook.documents) + len(laws.documents)
    sizes = [first, *(size for size in SIZES if first < size < total), total]
    at = [document.id for document in casebook.documents].index(target)
    shuffled = [
        np.random.default_rng((SEED, order)).permutation(total - first) for order in range(orders)
    ]
    rows: Rows = []
    for query in queries:
        own, others = (each.similarities(query.query) for each in (casebook, laws))
        before = 1 + np.sum(own > own[at]) + np.sum(own[:at] == own[at])
        for order, permutation in enumerate(shuffled):
            above = np.concatenate([[0], np.cumsum(others[permutation] > own[at])])
            rows += [(query.id, order, size, int(before + above[size - first])) for size in sizes]
    return _frame("growth", rows)


def vector_table(collection: Collection) -> pd.DataFrame:
    """Give the vector of every document in half precision, which keeps a cosine to about 1e-4."""
    documents = collection.documents
    return pd.DataFrame(
        {
            "doc_id": [document.id for document in documents],
            "title": [document.title for document in documents],
            "vector": list(collection.vectors.astype(np.float16)),
        }
    )


def _frame(name: str, rows: Rows) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(results.TABLES[f"case_{name}"][name]))
