"""What the step costs per query, beside embedding the corpus and one query (section 3.4).

`CostRun` embeds documents once and times, for each query and number of candidates, retrieval and
the step; `summarise` gives medians with intervals. `make_results.py --cost` runs and stores it.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

import causalrag as cr
from causalrag import encoders, results
from causalrag.documents import read_documents

SIZES = (10, 20, 50)
BATCH = 32

Rows = list[tuple[Any, ...]]


class CountedKeywords:
    """An extractor that counts the documents it is given."""

    def __init__(self, extractor: Any) -> None:
        self.extractor = extractor
        self.documents = 0

    def document(self, text: str) -> Any:
        """Extract from a document."""
        self.documents += 1
        return self.extractor.document(text)

    def query(self, text: str) -> Any:
        """Extract from a query."""
        return self.extractor.query(text)


class CountedTerms:
    """An encoder that counts the terms it is given, and has the query's vector from retrieval."""

    def __init__(self, encoder: Any) -> None:
        self.encoder = encoder
        self.name, self.dimension = encoder.name, encoder.dimension
        self.fingerprint = encoder.fingerprint
        self.vector = np.zeros((1, encoder.dimension), dtype=np.float32)
        self.terms = 0

    def encode(self, texts: Sequence[str], role: str) -> Any:
        """Encode terms; answer for the one query that was set."""
        if role == "query":
            return self.vector
        self.terms += len(texts)
        return self.encoder.encode(texts, role)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Give the seconds that a call takes, and its result."""
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


class CostRun:
    """Embed a corpus once, then time retrieval and the step for each query and size k."""

    def __init__(
        self,
        texts: list[str],
        encoder: Any,
        settings: Mapping[str, Any],
        say: Callable[[str], None],
    ) -> None:
        self.texts = texts
        self.encoder = encoder
        self.seconds: list[float] = []
        parts = []
        for start in range(0, len(texts), BATCH):
            part = texts[start : start + BATCH]
            seconds, vectors = timed(lambda part=part: encoder.encode(part, "document"))
            self.seconds.append(seconds)
            parts.append(vectors)
            if len(parts) % 10 == 0:
                say(f"embedded {start + len(part)} of {len(texts)} documents")
        self.vectors = np.concatenate(parts)
        self.fit_seconds, fitted = timed(
            lambda: cr.TfidfKeywords.fit(
                texts, top_document=settings["top_document"], top_query=settings["top_query"]
            )
        )
        self.extractor = CountedKeywords(fitted)
        self.terms = CountedTerms(encoder)
        self.reranker = cr.CausalReranker(
            self.terms, self.extractor, tau=settings["tau"], weight=settings["weight"]
        )

    def corpus_row(self) -> tuple[Any, ...]:
        """Give the row of the table ``corpus``."""
        # A last, shorter batch would weigh as much as a full one.
        full = [seconds / BATCH for seconds in self.seconds[: len(self.texts) // BATCH]]
        middle = median(full)
        return (len(self.texts), sum(self.seconds), self.fit_seconds, *middle, len(full))

    def query_rows(self, query_id: str, query: str) -> Rows:
        """Give a query's rows of the table ``queries``, one for each k."""
        query_s, vector = timed(lambda: self.encoder.encode([query], "query"))
        self.terms.vector = vector
        rows: Rows = []
        for k in SIZES:
            search_s, hits = timed(lambda k=k: cr.retrieve.dense(vector[0], self.vectors, k))
            documents = [{"id": str(i), "text": self.texts[i]} for i in hits.indices.tolist()]
            encoders.TERM_CACHE.clear()
            self.extractor.documents = self.terms.terms = 0
            reranker = replace(self.reranker)  # it knows no keywords

            def step(reranker: Any = reranker, documents: Any = documents, hits: Any = hits) -> Any:
                return reranker.rank(query, documents, scores=hits.scores)

            cold_s, ranking = timed(step)
            counted = (self.extractor.documents, self.terms.terms)
            warm_s, _ = timed(step)
            if counted != (self.extractor.documents, self.terms.terms):
                raise ValueError(f"query {query_id}: a warm step extracted or encoded anew")
            residual = sum(len(place.residual) for place in ranking)
            keywords = residual + sum(len(place.shared) for place in ranking)
            measured = (query_s, search_s, cold_s, warm_s)
            rows.append((query_id, k, *measured, *counted, keywords, residual))
        return rows


def median(values: Sequence[float], level: float = 0.95) -> tuple[float, float, float]:
    """Give the median and its interval between order statistics, which assumes no distribution.

    Raises
    ------
    ValueError
        If there are too few values for the level: five at 0.95.
    """
    from scipy.stats import binom

    ordered = np.sort(np.asarray(values, dtype=np.float64))
    place = int(binom.ppf((1 - level) / 2, len(ordered), 0.5))
    if place < 1:
        raise ValueError(f"{len(ordered)} values are too few for an interval at level {level}")
    return float(np.median(ordered)), float(ordered[place - 1]), float(ordered[-place])


def summarise(queries: pd.DataFrame, embed_s: float) -> pd.DataFrame:
    """Give the median of every measure over the queries, for each k."""
    measures = queries.assign(
        cold_per_query=queries["cold_s"] / queries["query_s"],
        warm_per_query=queries["warm_s"] / queries["query_s"],
        cold_per_corpus=queries["cold_s"] / embed_s,
    ).drop(columns="query_id")
    rows = [
        (int(k), measure, len(group), *median(group[measure].tolist()))
        for k, group in measures.groupby("k", sort=True)
        for measure in measures.columns.drop("k")
    ]
    return pd.DataFrame(rows, columns=list(results.TABLES["cost"]["summary"]))


def scifact() -> tuple[list[str], list[tuple[str, str]], dict[str, str]]:
    """Read SciFact: its documents in file order, its test queries, and checksums of both."""
    data = cr.datasets.beir("scifact")
    texts, asked = list(read_documents(data.corpus.values()).texts), list(data.queries.items())
    parts = {"documents": texts, "queries": asked}
    checksums = {
        name: hashlib.sha256(json.dumps(part, ensure_ascii=False).encode()).hexdigest()
        for name, part in parts.items()
    }
    return texts, asked, checksums
