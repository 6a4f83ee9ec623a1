"""The benchmarks' part of `make results`: measures for each query, and the candidates behind them.

For each data set and encoder: vectors from the cache, first stages, every method's order, and the
measures, stored as two Parquet files; for a cross-encoder, its scores of similarity's candidates
and the measures. Work is kept after every few queries, so that a run that is stopped goes on from
there. The methods themselves are in `beir_methods`.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import beir_methods as methods
import pandas as pd
import provenance as origin
from provenance import SETTINGS, Progress, say

import causalrag as cr
from causalrag import results
from causalrag.embeddings import EmbeddingCache
from causalrag.retrieve import DenseRetriever

MEASURES = ("nDCG@10", "P@5", "RR@10")
ENCODERS = ("use", "minilm")  # unless others are asked for
CHUNK, PAIR_CHUNK = 50, 5  # queries between two points to go on from
# Parts of the library that only this part of the results depends on.
ALSO = ("datasets/archives.py", "datasets/beir.py", "evaluate", "gate/statistics.py")

Frames = dict[str, pd.DataFrame]


class Places(NamedTuple):
    """Where results, vectors and unfinished work lie."""

    output: Path
    embeddings: Path
    work: Path


class Task(NamedTuple):
    """Some result to make: its files by kind, its provenance, and how progress names it."""

    files: dict[str, Path]
    about: dict[str, Any]
    told: str

    def is_done(self) -> bool:
        """Say whether all files are there and current."""
        return all(origin.is_current(path, self.about) for path in self.files.values())


def make_beir(
    datasets: Sequence[str],
    encoders: Sequence[tuple[str, Any]],
    reranker: tuple[str, Any] | None,
    places: Places,
    force: bool,
) -> None:
    """Measure every method on every data set with every encoder, and store what is not there.

    Parameters
    ----------
    datasets
        Names of `results.BENCHMARKS`.
    encoders, reranker
        Each the source that names it in a command, and the loaded model.
    places
        Folders.
    force
        Make anew what is there. What a stopped run left behind is used all the same.
    """
    collections = Collections()
    for source, encoder in encoders:
        for name in datasets:
            maker = Maker(name, source, encoder, collections, places)
            maker.make_methods(force)
            if reranker is not None:
                maker.make_cross_encoder(*reranker, force)


class Collections:
    """The data sets that were read, and what all encoders share of them, each made once."""

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self.made: dict[str, methods.Collection] = {}

    def read(self, name: str) -> Any:
        """Read a data set."""
        if name not in self.data:
            self.data[name] = cr.datasets.beir(name)
        return self.data[name]

    def collection(self, name: str) -> methods.Collection:
        """Index a data set; two names of one corpus share the index."""
        data = self.read(name)
        same = [made for made in self.made.values() if made.data.corpus == data.corpus]
        if name not in self.made and same:
            self.made[name] = same[0].of(data)
        elif name not in self.made:
            self.made[name] = methods.Collection(data, SETTINGS)
        return self.made[name]


class Maker:
    """Makes the results of one data set and encoder."""

    def __init__(
        self, name: str, source: str, encoder: Any, collections: Collections, places: Places
    ) -> None:
        self.name, self.encoder, self.collections, self.places = name, encoder, collections, places
        self.data = collections.read(name)
        self.source = source
        self.checksums = results.beir_checksums(self.data)

    # --- methods of an encoder ---

    def make_methods(self, force: bool) -> None:
        """Store measures and candidates, unless they are there."""
        task = self._methods_task()
        if not force and task.is_done():
            say(f"{task.told}: is there already; FORCE=1 makes it anew")
            return
        cache = EmbeddingCache(self.places.embeddings, self.encoder)
        collection = self.collections.collection(self.name)
        self._encode(task.told, cache, collection)
        retriever = DenseRetriever(cache).fit(collection.documents, batch=4096)
        dense = collection.dense(retriever, list(self.data.queries))
        run = methods.QueryRun(collection, cache)

        def measure(query_ids: list[str], progress: Callable[[int], None]) -> Frames:
            rows, ranked = [], {}
            for done, query_id in enumerate(query_ids, start=1):
                hits = collection.lexical(query_id)
                hits["similarity"] = dense[query_id]
                hits["fusion"] = collection.fused(query_id, dense[query_id], hits["bm25"])
                stages = {s: collection.candidates(hits[s]) for s in methods.FIRST_STAGES}
                ranked[query_id], new = run.rank(query_id, stages)
                rows += new
                progress(done)
            columns = list(results.TABLES["beir_candidates"]["candidates"])
            return {
                "beir": self._measured(ranked, methods.METHODS),
                "beir_candidates": pd.DataFrame(rows, columns=columns),
            }

        self._store(task, measure, CHUNK, methods.METHODS)

    def _methods_task(self) -> Task:
        stem = f"{self.name}-{origin.safe(self.encoder.name)}.parquet"
        folder = self.places.output / "beir"
        about = origin.provenance(
            self._command(),
            self._corpus(),
            {
                "name": self.encoder.name,
                "kind": "encoder",
                "fingerprint": self.encoder.fingerprint,
            },
            {
                **SETTINGS,
                "methods": list(methods.METHODS),
                "measures": list(MEASURES),
                "definitions": methods.DEFINITIONS,
            },
            self._versions(),
        )
        return Task(
            {"beir_candidates": folder / "candidates" / stem, "beir": folder / stem},
            about,
            f"{self.name}, {self.encoder.name}",
        )

    def _encode(self, told: str, cache: EmbeddingCache, collection: methods.Collection) -> None:
        """Encode all that will be asked for, in large batches; what the cache has is not."""
        queries = list(self.data.queries.values())
        terms = dict.fromkeys(collection.vocabulary)
        for query in queries:
            terms |= dict.fromkeys(collection.keywords.query(query))
        cache.encode(collection.texts, "document", Progress(told, "documents encoded"))
        cache.encode(queries, "query", Progress(told, "queries encoded"))
        cache.encode(list(terms), "term", Progress(told, "terms encoded"))

    # --- a cross-encoder ---

    def make_cross_encoder(self, source: str, model: Any, force: bool) -> None:
        """Score similarity's candidates and store scores and measures, unless they are there."""
        task = self._cross_encoder_task(source, model)
        if not force and task.is_done():
            say(f"{task.told}: is there already; FORCE=1 makes it anew")
            return
        stored = results.load_parquet(self._methods_task().files["beir_candidates"])
        table = stored.tables["candidates"]
        table = table[table["first_stage"] == "similarity"]
        windows = {q: rows["doc_id"].tolist() for q, rows in table.groupby("query_id", sort=False)}
        by_score = cr.CausalReranker(self.encoder, method="similarity")

        def measure(query_ids: list[str], progress: Callable[[int], None]) -> Frames:
            rows, ranked = [], {}
            for done, query_id in enumerate(query_ids, start=1):
                query, ids = self.data.queries[query_id], windows.get(query_id, [])
                documents = self.data.candidates(query_id, ids)
                scores = model.scores(query, documents)
                ranking = by_score.rank(query, documents, scores)
                ranked[query_id] = {"cross_encoder": [str(place.doc_id) for place in ranking]}
                rows += [(query_id, d, s) for d, s in zip(ids, scores.tolist(), strict=True)]
                progress(done)
            columns = list(results.TABLES["beir_scores"]["scores"])
            return {
                "beir": self._measured(ranked, ["cross_encoder"]),
                "beir_scores": pd.DataFrame(rows, columns=columns),
            }

        self._store(task, measure, PAIR_CHUNK, ["cross_encoder"])

    def _cross_encoder_task(self, source: str, model: Any) -> Task:
        stem = "-".join([self.name, *map(origin.safe, (self.encoder.name, model.name))])
        folder = self.places.output / "beir"
        about = origin.provenance(
            f"{self._command()} RERANKER={origin.shown(source, model.name)}",
            self._corpus(),
            {"name": model.name, "kind": "cross_encoder", "fingerprint": model.fingerprint},
            {
                **SETTINGS,
                "methods": ["cross_encoder"],
                "measures": list(MEASURES),
                "candidates": {
                    "encoder": self.encoder.name,
                    "fingerprint": self.encoder.fingerprint,
                    "window": methods.WINDOW,
                    "first stage": "similarity",
                },
                "scores": "raw; ties in the first stage's order",
            },
            self._versions(),
        )
        return Task(
            {
                "beir_scores": folder / "candidates" / f"{stem}.parquet",
                "beir": folder / f"{stem}.parquet",
            },
            about,
            f"{self.name}, {self.encoder.name}, {model.name}",
        )

    # --- what both share ---

    def _command(self) -> str:
        encoder = origin.shown(self.source, self.encoder.name)
        return f"make results DATASETS={self.name} ENCODERS={encoder}"

    def _corpus(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "sha256": self.checksums,
            "documents": len(self.data.corpus),
            "queries": len(self.data.queries),
            "judgments": sum(map(len, self.data.qrels.values())),
            "outside": len(self.data.outside),
            "own dropped": self.data.drop_self,
        }

    @staticmethod
    def _versions() -> dict[str, str]:
        return origin.versions(ALSO, [Path(methods.__file__)])

    def _measured(
        self, ranked: Mapping[str, Mapping[str, list[str]]], names: Sequence[str]
    ) -> pd.DataFrame:
        """Measure some queries; a query for which a method has nothing counts 0."""
        qrels = {query_id: self.data.qrels[query_id] for query_id in ranked}
        frames = []
        for name in names:
            run = cr.evaluate.run_from_rankings({q: row[name] for q, row in ranked.items()})
            frame = cr.evaluate.evaluate(run, qrels, MEASURES).reset_index()
            frames.append(
                frame.assign(
                    dataset=self.name,
                    encoder=self.encoder.name,
                    method=name,
                    window=methods.WINDOW,
                    tau=SETTINGS["tau"],
                )
            )
        return pd.concat(frames, ignore_index=True)[list(results.TABLES["beir"]["queries"])]

    def _store(
        self,
        task: Task,
        measure: Callable[[list[str], Callable[[int], None]], Frames],
        chunk: int,
        names: Sequence[str],
        query_ids: Sequence[str] | None = None,
    ) -> None:
        """Measure chunk by chunk, keep each, and join them into the task's files."""
        query_ids = list(self.data.queries if query_ids is None else query_ids)
        folder = self._work(task, chunk)
        progress, parts = Progress(task.told, "queries"), []
        for start in range(0, len(query_ids), chunk):
            some = query_ids[start : start + chunk]
            files = {kind: folder / f"{start:06d}-{kind}.parquet" for kind in task.files}
            part = _kept(files, task.about)
            if part is None:
                part = measure(some, partial(_report, progress, start, len(query_ids)))
                for kind, path in files.items():
                    results.save_parquet(path, kind, task.about, part[kind])
            else:
                progress.start(start + len(some))
            parts.append(part)
        for kind, path in task.files.items():
            table = pd.concat([part[kind] for part in parts], ignore_index=True)
            if kind == "beir":  # method by method, as it was one run
                order = table["method"].map({name: at for at, name in enumerate(names)})
                table = table.loc[order.sort_values(kind="stable").index]
            results.save_parquet(path, kind, task.about, table)
        shutil.rmtree(folder)
        say(f"{task.told}: stored {len(query_ids)} queries in {path.name}")

    def _work(self, task: Task, chunk: int) -> Path:
        """Name the folder for the parts of exactly this result."""
        identity = [chunk, *(task.about[key] for key in origin.IDENTITY)]
        text = json.dumps(identity, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return self.places.work / f"{origin.safe(task.told)}-{digest}"


def _report(progress: Progress, before: int, total: int, done: int) -> None:
    progress(before + done, total)


def _kept(files: Mapping[str, Path], about: dict[str, Any]) -> Frames | None:
    """Read what an earlier run left of a chunk, if it is whole and of the same result."""
    if not all(origin.is_current(path, about) for path in files.values()):
        return None
    tables = {kind: results.load_parquet(path).tables for kind, path in files.items()}
    return {kind: next(iter(table.values())) for kind, table in tables.items()}
