"""The methods that are measured on the benchmarks, for one query at a time (section 4.5).

A `Collection` has the first stages; `QueryRun` re-orders each one's window and keeps what a
re-ordering can be redone from. Files, progress and measures are in `beir_results`.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from provenance import Progress

import causalrag as cr
from causalrag.adjust import GUARD, read_surface
from causalrag.documents import read_documents
from causalrag.gate import candidate_statistics
from causalrag.retrieve import (
    BM25Retriever,
    DenseRetriever,
    Hits,
    NoMatchWarning,
    reciprocal_rank_fusion,
    rm3,
)

WINDOW, DEPTH = 20, 100
FIRST_STAGES = ("similarity", "bm25", "fusion", "rm3")
# What orders the window of similarity, and the window of each other first stage.
RERANKED: dict[str, dict[str, Any]] = {
    "causal_exact": {"method": "causal", "absorption": "exact"},
    "causal": {"method": "causal"},
    "causal_fallback": {"method": "causal_fallback"},
    "hybrid": {"method": "hybrid"},
    "adjusted": {"method": "adjusted"},
    "guarded": {"method": "adjusted", "adjustment": GUARD},
}
OVER_OTHERS = ("causal", "hybrid", "adjusted", "guarded")
METHODS = (
    *FIRST_STAGES,
    *RERANKED,
    "fallback_mixed",
    "ceiling",
    *(f"{method}_{stage}" for stage in FIRST_STAGES[1:] for method in OVER_OTHERS),
)
# In words, for the provenance.
DEFINITIONS = {
    "window": WINDOW,
    "idf": "all documents of the collection",
    "ties": "in the first stage's order; similarity, BM25, fusion and RM3 themselves in file order",
    "beyond the window": "not kept: the measures stop at 10",
    "similarity": "cosine over all documents",
    "bm25": "k1 1.5, b 0.75; documents that share no token with the query are not retrieved",
    "rm3": "BM25 expanded by 10 terms of its 10 best documents, half of the weight; the query's "
    "own document is among those of ArguAna",
    "fusion": f"reciprocal ranks (k 60) of the {DEPTH} best of similarity and BM25",
    "fallback_mixed": "one order by causal, by similarity where B is empty",
    "ceiling": "the window ordered by grade",
    "statistics": "gate.candidate_statistics, semantic absorption",
    "surface": "adjust.read_surface: coverage, keyword_repetition (excess), bend",
}
STATISTICS = ("overlap", "shared_weight", "excess_repetition")
SURFACE = ("coverage", "keyword_repetition", "bend")


class Candidates(NamedTuple):
    """One first stage's window: document ids, best first, and their scores."""

    ids: list[str]
    scores: np.ndarray


class Remembered:
    """An extractor that reads each text once, for several re-rankers."""

    def __init__(self, extractor: Any) -> None:
        self.extractor = extractor
        self.tokens, self.idf = extractor.tokens, extractor.idf
        self.repetition = getattr(extractor, "repetition", ())
        self.known: dict[tuple[str, str], Any] = {}

    def document(self, text: str) -> Any:
        """Extract from a document, or remember."""
        return self._get("document", text)

    def query(self, text: str) -> Any:
        """Extract from a query, or remember."""
        return self._get("query", text)

    def _get(self, role: str, text: str) -> Any:
        if (role, text) not in self.known:
            self.known[role, text] = getattr(self.extractor, role)(text)
        return self.known[role, text]


def behind(score: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """Place candidates without a residual keyword after all others, as `rerank` does."""
    lowest = score[residual].min() if residual.any() else 0.0
    return np.where(residual, score, lowest - 1.0)


def hybrid(
    base: np.ndarray, causal: np.ndarray, residual: np.ndarray, weight: float = 0.5
) -> np.ndarray:
    """Interpolate, min-max over the candidates that have a residual keyword."""
    score = np.zeros(len(base))
    if residual.any():
        score[residual] = cr.hybrid(base[residual], causal[residual], weight)
    return behind(score, residual)


class Collection:
    """A data set with what all encoders share: keywords and the lexical first stages."""

    def __init__(self, data: Any, settings: Mapping[str, Any]) -> None:
        self.data = data
        self.documents = list(data.corpus.values())
        self.ids = list(data.corpus)
        self.texts = list(read_documents(self.documents).texts)
        self.settings = settings
        fitted = cr.TfidfKeywords.fit(
            self.texts, top_document=settings["top_document"], top_query=settings["top_query"]
        )
        self.vocabulary = fitted.vocabulary
        self.keywords = Remembered(fitted)
        progress = Progress(data.name, "documents indexed")
        self.bm25 = BM25Retriever().fit(self.documents, progress=progress)

    def of(self, data: Any) -> Collection:
        """Give the same collection under another name, with other rules for a query's own."""
        other = copy.copy(self)
        other.data = data
        return other

    def lexical(self, query_id: str) -> dict[str, Hits]:
        """Give what BM25 and RM3 retrieve: at most `DEPTH` documents, none without a match."""
        query = self.data.queries[query_id]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoMatchWarning)  # an empty list says it
            scores = {"bm25": self.bm25.scores(query), "rm3": rm3(query, self.bm25).scores}
        return {stage: self._best(query_id, values) for stage, values in scores.items()}

    def fused(self, query_id: str, dense: Hits, bm25: Hits) -> Hits:
        """Fuse two first stages by their ranks."""
        return self._best(query_id, reciprocal_rank_fusion([dense, bm25], n=len(self.ids)))

    def dense(self, retriever: DenseRetriever, query_ids: Sequence[str]) -> dict[str, Hits]:
        """Retrieve by similarity, `DEPTH` documents for each query."""
        queries = [self.data.queries[query_id] for query_id in query_ids]
        found = retriever.search_all(queries, k=DEPTH + 1)  # one may be the query's own
        return {
            query_id: self._without_own(query_id, hits)
            for query_id, hits in zip(query_ids, found, strict=True)
        }

    def candidates(self, hits: Hits) -> Candidates:
        """Cut to the window."""
        return Candidates([self.ids[i] for i in hits.indices[:WINDOW]], hits.scores[:WINDOW])

    def _best(self, query_id: str, scores: np.ndarray) -> Hits:
        """Order by score, ties in file order; without what scores nothing."""
        order = np.argsort(-scores, kind="stable")[: DEPTH + 1]
        order = order[scores[order] > 0]
        return self._without_own(query_id, Hits(order, scores[order]))

    def _without_own(self, query_id: str, hits: Hits) -> Hits:
        """Drop the query's own document where the data set does; before the window is cut."""
        kept = set(self.data.without_own({query_id: [self.ids[i] for i in hits.indices]})[query_id])
        places = [at for at, i in enumerate(hits.indices.tolist()) if self.ids[i] in kept][:DEPTH]
        return Hits(hits.indices[places], hits.scores[places])


class QueryRun:
    """Ranks each query by every method, through the library's own re-ranker."""

    def __init__(self, collection: Collection, encoder: Any) -> None:
        self.collection = collection
        settings = collection.settings
        self.rerankers = {
            name: cr.CausalReranker(
                encoder,
                collection.keywords,
                tau=settings["tau"],
                weight=settings["weight"],
                **method,
            )
            for name, method in RERANKED.items()
        }
        self.by_score = cr.CausalReranker(encoder, collection.keywords, method="similarity")

    def rank(
        self, query_id: str, stages: Mapping[str, Candidates]
    ) -> tuple[dict[str, list[str]], list[tuple[Any, ...]]]:
        """Give a query's document ids by method, best first, and its candidates' rows."""
        rankings = {stage: window.ids for stage, window in stages.items()}
        scored = self._scored(query_id, list(dict.fromkeys(chain(*rankings.values()))))
        window = stages["similarity"]
        for name in RERANKED:
            rankings[name] = self._order(name, query_id, window)
        mixed = [
            row["causal"] if row["has_residual"] else score
            for row, score in zip(map(scored.get, window.ids), window.scores, strict=True)
        ]
        rankings["fallback_mixed"] = self._order("", query_id, window, mixed)
        grades = self.collection.data.qrels[query_id]
        rankings["ceiling"] = self._order(
            "", query_id, window, [grades.get(doc_id, 0) for doc_id in window.ids]
        )
        for stage in FIRST_STAGES[1:]:
            for name in OVER_OTHERS:
                rankings[f"{name}_{stage}"] = self._order(name, query_id, stages[stage])
        rows = [
            (query_id, stage, doc_id, grades.get(doc_id, 0), float(score), *scored[doc_id].values())
            for stage, window in stages.items()
            for doc_id, score in zip(window.ids, window.scores, strict=True)
        ]
        return {method: rankings[method] for method in METHODS}, rows

    def _order(
        self, name: str, query_id: str, window: Candidates, scores: Sequence[float] | None = None
    ) -> list[str]:
        reranker = self.rerankers[name] if name else self.by_score
        ranking = reranker.rank(
            self.collection.data.queries[query_id],
            self.collection.data.candidates(query_id, window.ids),
            scores=window.scores if scores is None else scores,
        )
        return [str(place.doc_id) for place in ranking]

    def _scored(self, query_id: str, doc_ids: list[str]) -> dict[str, dict[str, Any]]:
        """Score all candidates at once; a document's scores do not depend on the others."""
        query = self.collection.data.queries[query_id]
        documents = self.collection.data.candidates(query_id, doc_ids)
        base = np.zeros(len(documents))
        rankings = [
            self.rerankers[name].rank(query, documents, base) for name in ("causal_exact", "causal")
        ]
        exact, semantic = (sorted(ranking, key=lambda p: p.index) for ranking in rankings)
        told = candidate_statistics(rankings[1], self.collection.keywords)
        columns = [told[name].tolist() for name in STATISTICS]
        texts = read_documents(documents).texts
        seen = read_surface(query, texts, self.collection.keywords)
        columns += [seen.coverage.tolist(), seen.excess.tolist(), [seen.bend] * len(texts)]
        return {
            doc_id: {
                "causal_exact": one.causal,
                "causal": two.causal,
                "has_residual_exact": len(one.residual) > 0,
                "has_residual": len(two.residual) > 0,
                **dict(zip((*STATISTICS, *SURFACE), statistics, strict=True)),
            }
            for doc_id, one, two, *statistics in zip(
                doc_ids, exact, semantic, *columns, strict=True
            )
        }
