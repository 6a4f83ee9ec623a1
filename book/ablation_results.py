"""The ablations' part of `make results`: one setting of the paper's rule varied at a time.

On the benchmarks with the test queries of the phase diagram, each query's window of similarity's
best; on the theme corpora with each theme's own documents. One Parquet file for each corpus and
encoder. The settings are in `ablation_methods`; the provenance keeps what tau="auto" came to, and
the quantiles of the encoder's cosines of unrelated words.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ablation_methods as methods
import beir_methods
import numpy as np
import pandas as pd
import phase_methods
import phase_results
import provenance as origin
from beir_results import Collections, Maker, Places, Task
from provenance import SETTINGS, Progress, say

import causalrag as cr
from causalrag import results
from causalrag.calibrate import QUANTILE, tau_for
from causalrag.documents import document_cosines, read_documents
from causalrag.embeddings import EmbeddingCache
from causalrag.retrieve import DenseRetriever

ENCODERS = ("use", "minilm", "e5")
THEMES_ONLY = ("e5",)  # the benchmarks would take it hours
THEMES = ("diagnostic", "second")
QUANTILES = (0.5, 0.9, 0.95, 0.99, QUANTILE, 0.999)
CHUNK = 20
ALSO = ("datasets", "evaluate", "gate/split.py")
COLUMNS = list(results.TABLES["ablations"]["measures"])

MEASURE, ROLES = "nDCG@10", ("target", "stuffed")

Rows = list[tuple[Any, ...]]


def make_ablations(
    datasets: Sequence[str],
    encoders: Sequence[tuple[str, Any]],
    places: Places,
    force: bool,
    languages: Mapping[str, Collection[str]] | None = None,
) -> None:
    """Measure every setting, and store what is not there.

    Parameters
    ----------
    datasets
        Names of benchmarks; those outside `phase_results.DATASETS` are left out.
    encoders
        Each the source that names it in a command, and the loaded model.
    places, force
        As in `phase_results.make_phase`.
    languages
        What an encoder reads, by its name, where that is not every language; the theme corpora are
        left to those that read both of theirs.
    """
    collections = Collections()
    for source, encoder in encoders:
        reads = (languages or {}).get(encoder.name, ("en", "zh"))
        if "zh" in reads:
            for name in THEMES:
                make_themes(name, source, encoder, places, force)
        for name in datasets:
            if name in phase_results.DATASETS and source not in THEMES_ONLY:
                maker = AblationMaker(name, source, encoder, collections, places)
                maker.make_ablations(force, reads)


# --- the benchmarks -------------------------------------------------------------------------------


class AblationMaker(Maker):
    """Measures the settings on one benchmark."""

    def make_ablations(self, force: bool, reads: Collection[str]) -> None:
        """Store the measures, unless they are there."""
        tests, _ = phase_results.chosen(self.data, phase_methods.N_QUERIES, phase_methods.N_PROBES)
        cache = EmbeddingCache(self.places.embeddings, self.encoder)
        about = _about(self.name, self._corpus(), self.source, cache, reads, len(tests))
        path = _path(self.places.output, self.name, self.encoder)
        task = Task({"ablations": path}, about, f"ablations, {self.name}, {self.encoder.name}")
        if not force and task.is_done():
            say(f"{task.told}: is there already; FORCE=1 makes it anew")
            return
        collection = self.collections.collection(self.name)
        self._encode(task.told, cache, collection)
        retriever = DenseRetriever(cache).fit(collection.documents, batch=4096)
        studies = methods.Studies(collection.keywords.extractor, cache)
        found = {
            query_id: ([collection.ids[i] for i in hits.indices], np.array(hits.scores))
            for query_id, hits in collection.dense(retriever, tests).items()
        }
        asked = {
            query_id: (self.data.queries[query_id], self.data.candidates(query_id, ids))
            for query_id, (ids, _) in found.items()
        }
        _encode_all(studies, asked.values(), cache, task.told)

        def measure(query_ids: list[str], progress: Callable[[int], None]) -> dict[str, Any]:
            runs: dict[tuple[str, ...], dict[str, list[str]]] = {}
            for done, query_id in enumerate(query_ids, start=1):
                ids, base = found[query_id]
                for key, order in _orders(studies, *asked[query_id], base):
                    runs.setdefault(key, {})[query_id] = [ids[i] for i in order[:10]]
                progress(done)
            return {"ablations": self._rows(runs)}

        self._store(task, measure, CHUNK, (), tests)

    def _rows(self, runs: Mapping[tuple[str, ...], dict[str, list[str]]]) -> pd.DataFrame:
        rows: Rows = []
        for key, rankings in runs.items():
            qrels = {query_id: self.data.qrels[query_id] for query_id in rankings}
            run = cr.evaluate.run_from_rankings(rankings)
            measured = cr.evaluate.evaluate(run, qrels, (MEASURE,))[MEASURE]
            rows += [(*key, query_id, MEASURE, value) for query_id, value in measured.items()]
        return pd.DataFrame(rows, columns=COLUMNS)


# --- the theme corpora ----------------------------------------------------------------------------


def make_themes(name: str, source: str, encoder: Any, places: Places, force: bool) -> None:
    """Store the measures of one theme corpus, unless they are there."""
    corpus = getattr(cr.datasets, name)()
    cache = EmbeddingCache(places.embeddings, encoder)
    checksums = {"name": name, "sha256": results.corpus_checksums(name)}
    about = _about(name, checksums, source, cache, ("en", "zh"), len(corpus.themes))
    path, told = _path(places.output, name, encoder), f"ablations, {name}, {encoder.name}"
    if not force and origin.is_current(path, about):
        say(f"{told}: is there already; FORCE=1 makes it anew")
        return
    tops = {key: SETTINGS[key] for key in ("top_document", "top_query")}
    studies = methods.Studies(cr.TfidfKeywords.fit(corpus.texts, **tops), cache, windows=())
    asked = [(theme.query, theme.documents) for theme in corpus.themes]
    _encode_all(studies, asked, cache, told)
    rows: Rows = []
    progress = Progress(told, "themes")
    for done, theme in enumerate(corpus.themes, start=1):
        vector = cache.encode([theme.query], "query")[0].astype(np.float64)
        base, _ = document_cosines(read_documents(theme.documents), cache, vector)
        roles = [document.role for document in theme.documents]
        order = np.argsort(-base, kind="stable")
        documents, roles = [theme.documents[i] for i in order], [roles[i] for i in order]
        for key, ranks in _orders(studies, theme.query, documents, base[order]):
            ranked = [roles[i] for i in ranks]
            rows += [
                (*key, theme.theme, f"{role} rank", _mean_rank(ranked, role)) for role in ROLES
            ]
        progress(done, len(corpus.themes))
    results.save_parquet(path, "ablations", about, pd.DataFrame(rows, columns=COLUMNS))
    say(f"{told}: stored {len(corpus.themes)} themes in {path.name}")


def _mean_rank(ranked: Sequence[str], role: str) -> float:
    return float(np.mean([rank for rank, one in enumerate(ranked, start=1) if one == role]))


# --- what both share ------------------------------------------------------------------------------


def _encode_all(
    studies: methods.Studies,
    asked: Iterable[tuple[str, Sequence[Any]]],
    cache: EmbeddingCache,
    told: str,
) -> None:
    """Encode all that will be asked for, in large batches; what the cache has is not."""
    asked = list(asked)
    queries = [query for query, _ in asked]
    documents = {text: None for _, some in asked for text in read_documents(some).texts}
    terms = studies.terms(queries, list(documents))
    cache.encode(queries, "query", Progress(told, "queries encoded"))
    cache.encode(list(documents), "document", Progress(told, "documents encoded"))
    cache.encode(terms, "term", Progress(told, "terms encoded"))
    texts: dict[str, None] = {}
    for query, some in asked:
        texts |= dict.fromkeys(studies.texts(query, some[: methods.USUAL_WINDOW]))
    cache.encode(list(texts), "document", Progress(told, "documents without A encoded"))


def _orders(
    studies: methods.Studies, query: str, documents: Sequence[Any], base: np.ndarray
) -> Iterator[tuple[tuple[str, str, str], list[int]]]:
    """Order a query's candidates under every setting: study, setting and method, and the places."""
    for one in studies.score(query, documents, base):
        first = np.argsort(-one.score, kind="stable").tolist()
        yield one[:3], [*first, *range(len(first), len(documents))]


def _about(
    name: str,
    corpus: dict[str, Any],
    source: str,
    cache: EmbeddingCache,
    reads: Collection[str],
    n: int,
) -> dict[str, Any]:
    only = f" DATASETS={name}" if name in phase_results.DATASETS else ""
    return origin.provenance(
        f"make results PARTS=ablations{only} ENCODERS={origin.shown(source, cache.name)}",
        corpus,
        {"name": cache.name, "kind": "encoder", "fingerprint": cache.fingerprint},
        {
            **SETTINGS,
            "queries": n,
            "auto": {lang: tau_for(cache, lang=lang) for lang in reads},
            # Three decimals: where machines differ in the last bits, the result is the same.
            "cosines": {
                lang: {f"{q:g}": round(tau_for(cache, quantile=q, lang=lang), 3) for q in QUANTILES}
                for lang in reads
            },
            "definitions": (methods.__doc__ or "").strip(),
        },
        origin.versions(
            ALSO, [Path(methods.__file__), Path(beir_methods.__file__), Path(__file__)]
        ),
    )


def _path(output: Path, name: str, encoder: Any) -> Path:
    return output / "ablations" / f"{name}-{origin.safe(encoder.name)}.parquet"
