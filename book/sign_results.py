"""The sign's part of `make results`: how a query and B are associated, against other queries.

For each corpus and encoder one Parquet file: every query's measures, in every pairing, over the
documents retrieved for it and over random ones. What is measured, and against which nulls, was
fixed before any corpus was measured; it stands at the top of `sign_methods`. Here is on what:

scifact, nfcorpus, arguana
    The 20 most similar documents, as `make results PARTS=beir` stored them. Others: 20 queries of
    the set. ArguAna's own documents are neither retrieved nor drawn.
diagnostic, second
    The documents in the query's language as one collection, the 10 most similar (half of the
    smallest such collection is 13). "own theme": the theme's documents, its candidates in the
    chapters on these corpora. Others: all queries of that language in the corpus.
casebook, laws
    The 8 best of 30 and the 20 best of 471, as stored. Its twelve queries ask the same in other
    words, so none is a null for another: the others are the Chinese queries of the two theme
    corpora, which is not the query's own set. A query that lies closer to all texts of this field
    does not cancel here, except in the difference of retrieved and random documents.

Keywords are weighed by the whole corpus. "RR@10", of similarity and of the causal score in the same
window, has as relevant: grades above 0, a theme's target, the casebook's target; none for the laws.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
import provenance as origin
import sign_methods as methods
from provenance import SETTINGS, Progress, say

import causalrag as cr
from causalrag import results
from causalrag.documents import read_documents
from causalrag.embeddings import EmbeddingCache
from causalrag.results.cases import case_checksums, case_path

BENCHMARKS = ("scifact", "nfcorpus", "arguana")
THEMES = ("diagnostic", "second")
WINDOWS = {"themes": 10, "casebook": 8, "laws": 20}
STORED = 1e-5  # how far a score computed here may lie from the stored one
# Parts of the library that only this part of the results depends on.
ALSO = ("datasets",)
COLUMNS = list(results.TABLES["sign"]["queries"])


class Places(Protocol):
    """Where results and vectors lie."""

    output: Path
    embeddings: Path


@dataclass
class Pool:
    """Documents and queries that are measured together.

    Attributes
    ----------
    texts
        The collection.
    query_ids, queries
        Those that are measured.
    windows
        By query id, the places of the retrieved documents, best first.
    relevant
        By query id, the places of relevant documents; a query without an entry has no RR@10.
    barred
        By query id, the place of a document that is never drawn.
    own
        By query id, the places of documents written for it.
    foreign
        Other queries, where those of the pool are no null.
    causal
        By query id, the stored scores of the window, where there are any.
    """

    texts: Sequence[str]
    query_ids: Sequence[str]
    queries: Sequence[str]
    windows: Mapping[str, Sequence[int]]
    relevant: Mapping[str, Collection[int]] = field(default_factory=dict)
    barred: Mapping[str, int] = field(default_factory=dict)
    own: Mapping[str, Sequence[int]] = field(default_factory=dict)
    foreign: Sequence[str] = ()
    causal: Mapping[str, Sequence[tuple[float, bool]]] = field(default_factory=dict)


def make_sign(
    datasets: Sequence[str],
    encoders: Sequence[tuple[str, Any]],
    places: Places,
    force: bool,
    languages: Mapping[str, Collection[str]] | None = None,
) -> None:
    """Measure the association on every corpus, and store what is not there.

    Parameters
    ----------
    datasets
        Names of benchmarks; those outside `BENCHMARKS` are left out. The other corpora are always
        measured, with encoders that read Chinese.
    encoders
        Each the source that names it in a command, and the loaded encoder.
    places
        Folders; the results go to ``sign`` in the first.
    force
        Make anew what is there.
    languages
        What an encoder reads, by its name, where that is not every language.
    """
    for source, encoder in encoders:
        maker = Maker(source, encoder, places, force)
        for name in datasets:
            if name in BENCHMARKS:
                maker.make(name, maker.benchmark)
        if "zh" not in (languages or {}).get(encoder.name, ("zh",)):
            continue
        for name in THEMES:
            maker.make(name, maker.themes)
        maker.make("casebook", maker.cases)
        try:
            cr.datasets.laws()
        except FileNotFoundError as error:
            say(f"laws: not made ({error})")
        else:
            maker.make("laws", maker.cases)


class Maker:
    """Makes the results of one encoder."""

    def __init__(self, source: str, encoder: Any, places: Places, force: bool) -> None:
        self.source, self.encoder, self.force = source, encoder, force
        self.cache = EmbeddingCache(places.embeddings, encoder)
        self.output = places.output

    def make(
        self, name: str, read: Callable[[str], tuple[dict[str, str], Callable[[], list[Pool]], Any]]
    ) -> None:
        """Measure one corpus, unless that is stored."""
        checksums, pools, extractor = read(name)
        told = f"sign: {name}, {self.encoder.name}"
        about = self._about(name, checksums)
        path = self.output / "sign" / f"{name}-{origin.safe(self.encoder.name)}.parquet"
        if not self.force and origin.is_current(path, about):
            say(f"{told}: is there already; FORCE=1 makes it anew")
            return
        rows = [row for pool in pools() for row in measured(pool, extractor(), self.cache, told)]
        results.save_parquet(path, "sign", about, pd.DataFrame(rows, columns=COLUMNS))
        say(f"{told}: stored {len(rows)} rows in {path.name}")

    def benchmark(self, name: str) -> tuple[dict[str, str], Callable[[], list[Pool]], Any]:
        """Read a benchmark and its stored windows."""
        data = cr.datasets.beir(name)
        texts = read_documents(data.corpus.values()).texts

        def pools() -> list[Pool]:
            stem = f"{name}-{origin.safe(self.encoder.name)}.parquet"
            stored = results.load_parquet(self.output / "beir" / "candidates" / stem)
            table = stored.tables["candidates"]
            table = table[table["first_stage"] == "similarity"]
            at = {doc_id: i for i, doc_id in enumerate(data.corpus)}
            windows, causal, relevant = _stored(table, at)
            ids = [query_id for query_id in data.queries if query_id in windows]
            barred = {q: at[q] for q in ids if data.drop_self and q in at}
            queries = [data.queries[q] for q in ids]
            return [Pool(texts, ids, queries, windows, relevant, barred, causal=causal)]

        return results.beir_checksums(data), pools, lambda: _fitted(texts)

    def themes(self, name: str) -> tuple[dict[str, str], Callable[[], list[Pool]], Any]:
        """Read a theme corpus; each language is a pool."""
        corpus = getattr(cr.datasets, name)()

        def pools() -> list[Pool]:
            languages = dict.fromkeys(theme.lang for theme in corpus.themes)
            return [
                self._language([t for t in corpus.themes if t.lang == lang]) for lang in languages
            ]

        return results.corpus_checksums(name), pools, lambda: _fitted(corpus.texts)

    def _language(self, themes: Sequence[Any]) -> Pool:
        documents = [document for theme in themes for document in theme.documents]
        texts = [document.full_text for document in documents]
        queries = [theme.query for theme in themes]
        reranker = cr.CausalReranker(self.cache, method="similarity")
        plain = [{"id": str(at), "text": text} for at, text in enumerate(texts)]
        windows = {
            theme.theme: [place.index for place in reranker.rank(theme.query, plain)][
                : WINDOWS["themes"]
            ]
            for theme in themes
        }
        own = {t.theme: [i for i, d in enumerate(documents) if d in t.documents] for t in themes}
        targets = {
            theme.theme: {i for i in own[theme.theme] if documents[i].role == "target"}
            for theme in themes
        }
        return Pool(texts, [t.theme for t in themes], queries, windows, targets, own=own)

    def cases(self, name: str) -> tuple[dict[str, str], Callable[[], list[Pool]], Any]:
        """Read the casebook or the laws and their stored windows."""
        study = cr.datasets.case_study()
        laws = cr.datasets.laws() if name == "laws" else None
        documents: Sequence[Any] = study.documents if laws is None else laws
        texts = [document.full_text for document in documents]
        foreign = [
            theme.query
            for corpus in THEMES
            for theme in getattr(cr.datasets, corpus)().themes
            if theme.lang == "zh"
        ]

        def pools() -> list[Pool]:
            folder = self.output / "case_study"
            path = case_path(folder, name, self.encoder.name, "candidates")
            table = results.load_parquet(path).tables["candidates"]
            table = table.groupby("query_id", sort=False).head(WINDOWS[name])
            at = {document.id: i for i, document in enumerate(documents)}
            windows, causal, _ = _stored(table, at)
            ids = [query.id for query in study.queries]
            queries = [query.query for query in study.queries]
            relevant = {} if laws is not None else {q: {at[study.target.id]} for q in ids}
            return [Pool(texts, ids, queries, windows, relevant, foreign=foreign, causal=causal)]

        return case_checksums(study, laws), pools, lambda: _fitted(texts)

    def _about(self, name: str, checksums: dict[str, str]) -> dict[str, Any]:
        encoder = origin.shown(self.source, self.encoder.name)
        only = f" DATASETS={name}" if name in BENCHMARKS else ""
        return origin.provenance(
            f"make results PARTS=sign{only} ENCODERS={encoder}",
            {"name": name, "sha256": checksums},
            {
                "name": self.encoder.name,
                "kind": "encoder",
                "fingerprint": self.encoder.fingerprint,
            },
            {
                **SETTINGS,
                "others": methods.OTHERS,
                "draws": methods.DRAWS,
                "fewest": methods.FEWEST,
                "seed": methods.SEED,
                "windows": {"benchmarks": 20, **WINDOWS},
                "definitions": (methods.__doc__ or "").strip(),
            },
            origin.versions(ALSO, [Path(__file__), Path(methods.__file__)]),
        )


def measured(pool: Pool, extractor: Any, encoder: Any, told: str) -> list[tuple[Any, ...]]:
    """Measure every query of a pool.

    Parameters
    ----------
    pool : Pool
        As read.
    extractor : TfidfKeywords
        Fitted on the whole corpus.
    encoder : object with ``encode(texts, role)``
        Encodes queries and terms.
    told : str
        How a line of progress begins.

    Returns
    -------
    list of tuple
        Rows of the kind "sign".

    Raises
    ------
    ValueError
        If a score differs from the stored one; names the query.
    """
    groups = [_groups(pool, at, query_id) for at, query_id in enumerate(pool.query_ids)]
    # Only the documents that are looked at: in a large collection most are not.
    used = np.unique(np.concatenate([g for named in groups for gs in named.values() for g in gs]))
    asked = [*pool.queries, *pool.foreign]
    alignments = methods.Alignments(
        [extractor.document(pool.texts[number]) for number in used],
        [extractor.query(query) for query in asked],
        encoder.encode(asked, "query"),
        encoder,
        SETTINGS["tau"],
    )
    n = len(pool.queries)
    others = [np.arange(n, len(asked))] * n if pool.foreign else list(methods.rings(n))
    progress = Progress(told, "queries")
    rows: list[tuple[Any, ...]] = []
    for at, (query_id, named) in enumerate(zip(pool.query_ids, groups, strict=True)):
        for documents, drawn in named.items():
            places = [np.searchsorted(used, numbers) for numbers in drawn]
            found = methods.averaged([alignments.measure(p, at, others[at]) for p in places])
            if documents == "retrieved":
                found += _ranks(pool, query_id, alignments.causal(places[0], at))
            rows += [(documents, query_id, *value) for value in found]
        progress(at + 1, n)
    return rows


def _groups(pool: Pool, at: int, query_id: str) -> dict[str, list[np.ndarray]]:
    """Name the groups of documents of one query; the random one is drawn several times."""
    window = np.array(pool.windows[query_id], dtype=np.int64)
    allowed = np.setdiff1d(np.arange(len(pool.texts)), [pool.barred.get(query_id, -1)])
    groups = {"retrieved": [window], "random": methods.draws(at, allowed, len(window))}
    if query_id in pool.own:
        groups["own theme"] = [np.array(pool.own[query_id], dtype=np.int64)]
    return groups


def _ranks(pool: Pool, query_id: str, causal: np.ndarray) -> list[methods.Value]:
    """Measure the window's two orders, after a look at the stored scores."""
    _check_stored(query_id, causal, pool.causal.get(query_id))
    if query_id not in pool.relevant:
        return []
    flags = np.isin(pool.windows[query_id], list(pool.relevant[query_id]))
    ranks = methods.reciprocal_ranks(causal, flags)
    return [methods.Value("RR@10", method, rank, 0) for method, rank in ranks.items()]


def _stored(
    table: pd.DataFrame, at: Mapping[str, int]
) -> tuple[dict[str, list[int]], dict[str, list[tuple[float, bool]]], dict[str, set[int]]]:
    """Read stored windows: places, scores with a flag for a B, and the relevant places."""
    windows: dict[str, list[int]] = {}
    causal, relevant = {}, {}
    for query_id, rows in table.groupby("query_id", sort=False):
        name = str(query_id)
        windows[name] = [at[doc_id] for doc_id in rows["doc_id"]]
        causal[name] = list(zip(rows["causal"], rows["has_residual"], strict=True))
        grades = rows["grade"] if "grade" in rows else [0] * len(rows)
        relevant[name] = {at[d] for d, g in zip(rows["doc_id"], grades, strict=True) if g > 0}
    return windows, causal, relevant


def _check_stored(
    query_id: str, causal: np.ndarray, stored: Sequence[tuple[float, bool]] | None
) -> None:
    """Refuse to go on where the library's stored scores are others than those computed here."""
    if stored is None:
        return
    wanted = np.array([score if has_residual else np.nan for score, has_residual in stored])
    if not np.allclose(causal, wanted, atol=STORED, rtol=0, equal_nan=True):
        raise ValueError(
            f"query {query_id!r}: the stored causal scores are not those of this version; renew "
            "them with: make results PARTS='cases beir'"
        )


def _fitted(texts: Sequence[str]) -> Any:
    tops = {key: SETTINGS[key] for key in ("top_document", "top_query")}
    return cr.TfidfKeywords.fit(texts, **tops)
